"""The demo, as `make demo` runs it."""

import json
import os
import re
import subprocess
import sys

from cli_helpers import dpconvex, refused

import dpconvex as dc
from dpconvex.cli.demo import EPSILONS

WITHOUT_MATPLOTLIB = "import sys; sys.modules['matplotlib'] = None; from dpconvex.cli import main; main(sys.argv[1:])"


def run(*arguments, **options):
    command = [sys.executable, "-c", WITHOUT_MATPLOTLIB, "demo", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, **options)


def test_the_demo_leaves_a_model_a_receipt_a_report_and_a_picture(tmp_path):
    folder, picture = tmp_path / "new" / "folder", tmp_path / "picture.svg"
    done = run("--draws", 1, "--output", folder, "--picture", picture)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    for epsilon in EPSILONS:
        row = re.search(rf"│ +{epsilon:g} │ +([\d.]+) │ +([\d.]+) │", done.stdout)
        accuracy, auc = map(float, row.groups())
        assert accuracy > 0.8  # 0.76 for the most frequent class
        assert auc > 0.84
    assert f"the {len(EPSILONS)} of this demo are together" in done.stdout
    assert "release one" in done.stdout
    model = dc.load(folder / "model.json")
    receipt = dc.Receipt.from_json((folder / "receipt.json").read_text(encoding="utf-8"))
    assert receipt == model.receipt_
    assert dc.verify(receipt)
    assert receipt.private
    assert receipt.epsilon <= 1.0
    test = dc.datasets.load("adult", split="test")
    assert model.score(test.frame, test.target) > 0.83
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Accuracy against epsilon" in page
    assert json.dumps(receipt.data["digest"])[1:-1] in page
    assert picture.read_text(encoding="utf-8").startswith("<svg xmlns=")


def test_without_a_connection_or_a_cache_there_is_one_line(tmp_path):
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_FIND_LINKS": "", "PIP_RETRIES": "0"}
    environment = {**os.environ, **nowhere, "DPCONVEX_CACHE": str(tmp_path / "cache"), "PIP_NO_INDEX": "1"}
    done = run("--output", tmp_path / "demo", env=environment)
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1
    assert "DPCONVEX_CACHE" in done.stderr
    assert not (tmp_path / "demo").exists()


def test_bad_options(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    for options in (["--draws", "0"], ["--output", tmp_path / "file"], ["--picture", tmp_path / "no" / "p.svg"]):
        refused(dpconvex("demo", "--output", tmp_path / "demo", *options))
