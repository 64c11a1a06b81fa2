"""Lines of code (without docstrings, comments and blank lines) and public top-level names, per room of a tree.

python benchmarks/tree.py [src/dpconvex]
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path


def code_lines(text: str) -> int:
    """Lines that hold code."""
    tree, lines = ast.parse(text), text.split("\n")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            skipped |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return sum(bool(line.strip()) and not line.strip().startswith("#") and i not in skipped
               for i, line in enumerate(lines, 1))  # fmt: skip


def public_names(text: str) -> int:
    """Top-level definitions and assignments without a leading underscore."""
    found = 0
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found += not node.name.startswith("_")
        elif isinstance(node, ast.Assign):
            found += sum(isinstance(t, ast.Name) and not t.id.startswith("_") for t in node.targets)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found += not node.target.id.startswith("_")
    return found


def main(root: Path) -> None:
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    code: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        room, text = parts[0] if len(parts) > 1 else "(beside)", path.read_text()
        for key in (room, "total"):
            files[key] += 1
            lines[key] += len(text.splitlines())
            code[key] += code_lines(text)
            names[key] += public_names(text)
    print(f"{'room':14}{'files':>7}{'lines':>8}{'code':>8}{'public':>8}")
    for room in sorted(files, key=lambda r: (r == "total", r)):
        print(f"{room:14}{files[room]:7}{lines[room]:8}{code[room]:8}{names[room]:8}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "src/dpconvex"))
