"""Sphinx settings: `make docs`. Nothing is fetched, neither to build the pages nor to read them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

from dpconvex import __version__

sys.path.insert(0, str(Path(__file__).parent))
import reference

project = "dpconvex"
author = "the dpconvex authors"
copyright = "the dpconvex authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_rtype = False

copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["wrap.css"]
html_favicon = "_static/favicon.svg"
html_title = f"dpconvex {release}"
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"

log = logging.getLogger(__name__)

# LaTeX that the converter of docutils does not know, in terms of what it does.
_LATEX = {
    r"\\frac(\d)(\d)": r"\\frac{\1}{\2}",
    r"\\dots(?![a-zA-Z])": r"\\ldots",
    r"\\([bB]igg?)(?![a-zA-Z])": r"\\\1l",
    r"\\tag\{([^{}]*)\}": r"\\qquad\\text{(\1)}",
}


def _mathml(translator: Any, node: nodes.Element, block: bool) -> None:
    """Write a formula as MathML, which browsers draw by themselves."""
    formula = node.astext()
    for pattern, known in _LATEX.items():
        formula = re.sub(pattern, known, formula)
    try:
        translator.body.append(tex2mathml(formula, as_block=block))
    except MathError as error:
        log.warning("formula cannot be drawn: %s", error, location=node)
        translator.body.append(f"<code>{translator.encode(node.astext())}</code>")
    raise nodes.SkipNode


def _plain_bars(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings write |w| for a norm and eps_1 for an index: neither is markup.

    Their footnotes are numbered from 1 in every docstring, and many docstrings are on one page: they become lists.
    """
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            line = re.sub(r"\[(\d+)\]_", r"[\1]", re.sub(r"^\.\. \[(\d+)\]", r"-  [\1]", line))
            lines[i] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", line.replace("|", r"\|"))


def _level_headings(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Sphinx calls the captions of the contents headings, but of no level: screen readers need one."""
    name = "furo_navigation_tree"
    if name in context:
        context[name] = context[name].replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Sphinx) -> dict[str, bool]:
    reference.write(Path(__file__).parent / "api.md")
    app.add_html_math_renderer(
        "mathml",
        (lambda translator, node: _mathml(translator, node, False), None),
        (lambda translator, node: _mathml(translator, node, True), None),
    )
    app.connect("autodoc-process-docstring", _plain_bars, priority=900)
    app.connect("html-page-context", _level_headings, priority=900)  # after the theme
    return {"parallel_read_safe": True, "parallel_write_safe": True}
