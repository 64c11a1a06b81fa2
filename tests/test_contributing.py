"""The example of CONTRIBUTING.md, followed to the letter in a package of its own."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"


def block(title):
    """Content of the fenced block that starts with a comment naming a file."""
    (found,) = re.findall(rf"^```\w+\n# {re.escape(title)}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return found


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment in which the package of the page is installed, and nothing else has changed."""
    folder = tmp_path_factory.mktemp("installed")
    (folder / "one_step.py").write_text(block("one_step.py"))
    (folder / "check.py").write_text(block("check.py"))
    metadata = folder / "one_step-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: one-step\nVersion: 0.1\n")
    points = tomllib.loads(block("pyproject.toml"))["project"]["entry-points"]
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in found.items()) for group, found in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def run(environment, code, *arguments):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_keeps_the_contract(environment):
    run(environment, "import check")


def test_the_chooser_ranks_it(environment):
    code = (
        "import dpconvex as dc\n"
        "table = dc.recommend(dc.Problem(dc.losses.Logistic()), n=1000, d=3, budget=dc.Budget(1.0, 1e-6))\n"
        "print([row.name for row in table.rows], table.rows[-1].plan)"
    )
    assert "'OneStep'" in run(environment, code)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["algorithms"], "One step of gradient"), (["audit", "mutants", "OneStep"], "rows not brought back")],
    ids=["algorithms", "audit"],
)
def test_the_command_line_knows_it(environment, arguments, words):
    said = run(environment, "from dpconvex.cli import main; main()", *arguments)
    assert "OneStep" in said
    assert words in said


def test_two_algorithms_of_one_name_are_refused(environment, tmp_path):
    metadata = tmp_path / "other-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 0.1\n")
    (metadata / "entry_points.txt").write_text("[dpconvex.algorithms]\nNoisyGD = one_step:OneStep\n")
    clash = {**environment, "PYTHONPATH": os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])}
    code = "import dpconvex as dc; dc.algorithms.names()"
    done = subprocess.run([sys.executable, "-c", code], env=clash, capture_output=True, text=True)
    assert "InputError: two algorithms are called NoisyGD" in done.stderr
