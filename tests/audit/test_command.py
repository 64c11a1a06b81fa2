"""The command line of the audit."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from dpconvex.audit.command import audit

TARGET = "def f(x, rng):\n    return x.sum() + rng.normal()\n\n\ndef broken(x, rng):\n    raise ValueError\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mechanism_under_audit.py").write_text(TARGET)
    monkeypatch.syspath_prepend(str(tmp_path))
    np.save(tmp_path / "a.npy", np.zeros(5))
    np.save(tmp_path / "b.npy", np.eye(5)[0])
    np.savetxt(tmp_path / "a.csv", np.zeros((5, 1)))
    np.savez(tmp_path / "a.npz", X=np.zeros((5, 2)), y=np.zeros(5))
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(audit, [str(a) for a in arguments])


def options(folder, **changes):
    chosen = {
        "--target": "mechanism_under_audit:f", "--data": folder / "a.npy", "--neighbour": folder / "b.npy",
        "--epsilon": 1.0, "--delta": 1e-5, "--relation": "replace_one", "--runs": 3000, **changes,
    }  # fmt: skip
    return [part for pair in chosen.items() if pair[1] is not None for part in pair]


def test_a_function_of_your_own(folder):
    result = run(*options(folder), "--html", folder / "out.html", "--json", folder / "out.json")
    assert result.exit_code == 1
    assert "REFUTED" in result.output
    assert "<svg" in (folder / "out.html").read_text()
    assert json.loads((folder / "out.json").read_text())["refuted"] is True
    assert run(*options(folder, **{"--epsilon": 6.0})).exit_code == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"--relation": None}, "--relation"),
        ({"--delta": None}, "--delta"),
        ({"--epsilon": None}, "what it claims"),
        ({"--data": None}, "neighbouring data sets"),
        ({"--target": "mechanism_under_audit:nothing"}, "has no 'nothing'"),
        ({"--target": "mechanism_under_audit:broken"}, "failed on"),
        ({"--runs": 10}, "at least 1000"),
        ({"--data": "a.csv"}, ""),
        ({"--data": "a.npz"}, "arrays"),
        ({"--data": "mechanism_under_audit.py"}, ".npy, .npz or .csv"),
    ],
)
def test_mistakes_are_said_plainly(folder, changes, words):
    changes = {k: folder / v if k == "--data" and v else v for k, v in changes.items()}
    result = run(*options(folder, **changes))
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_the_gallery(folder):
    result = run(
        "gallery", "objective", "outside", "--runs", 2000, "--json", folder / "g.json", "--page", folder / "g.md",
        "--html", folder / "pages",
    )  # fmt: skip
    assert result.exit_code == 0
    assert set(json.loads((folder / "g.json").read_text())) == {"objective", "outside"}
    assert (folder / "g.md").read_text().startswith("# The refutation gallery")
    assert {p.name for p in (folder / "pages").iterdir()} == {"objective.html", "outside.html"}
    assert run("gallery", "starry-night").exit_code == 2


def test_mutants(folder):
    result = run("mutants", "MeanDirection", "--json", folder / "m.json", "--page", folder / "m.md")
    assert result.exit_code == 0
    assert all(trial["caught"] for trial in json.loads((folder / "m.json").read_text()))
    assert "0 not caught" in (folder / "m.md").read_text()


def test_help_is_there_without_arguments():
    result = run()
    assert result.exit_code == 0
    for name in ("gallery", "mutants", "suite", "--target"):
        assert name in result.output


@pytest.mark.parametrize("good", [True, False])
def test_the_whole_audit_writes_its_pages_and_fails_if_anything_does(good, tmp_path, monkeypatch):
    from dpconvex.audit.command import suite
    from dpconvex.audit.machine.outcome import Outcome
    from dpconvex.audit.players import MATCHES, Played
    from dpconvex.audit.suite import subjects, trials, try_mutant

    (tmp_path / "gallery").mkdir()
    claim, (mutant, *_) = next(s for s in subjects() if s.name.startswith("MeanDirection")), trials(["MeanDirection"])
    where = "dpconvex.audit.command."
    monkeypatch.setattr(where + "attack_all", lambda *_: [replace(claim, least=0.0).examine(8_000)])
    monkeypatch.setattr(where + "try_mutants", lambda *_: (try_mutant(*mutant),))
    monkeypatch.setattr(where + "attack_players", lambda *_: [Played(MATCHES[0].name, "a bound", good)])
    monkeypatch.setattr(where + "attack_machine", lambda *_: [Outcome("porous", "a sum", "grid", "", "", broken=False)])
    found = CliRunner().invoke(suite, ["--docs", str(tmp_path), "--json", str(tmp_path / "found.json")])
    assert found.exit_code == int(not good), found.output
    page = (tmp_path / "gallery" / "audit.md").read_text()
    assert ("found all as it should be" in page) == good
    assert claim.name in page
    assert "1 mutants, 0 not caught" in (tmp_path / "gallery" / "mutants.md").read_text()
    assert set(json.loads((tmp_path / "found.json").read_text())) == {"claims", "mutants", "games", "machine"}
