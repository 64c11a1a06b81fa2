"""`dpconvex play`: what it prints, what it draws, and what it refuses before anything is computed."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from cli_helpers import dpconvex, refused, shell

import dpconvex as dc
from dpconvex.cli import play as command
from dpconvex.games.contest import KINDS, PATTERNS, Entrant, best_on_ball, compete, make_losses
from dpconvex.games.losses import AbsoluteLoss, HingeLoss
from dpconvex.report.games import COLOURS, draw_games

FREE = ("ftrl", "subgradient-descent", "diagonal-ftrl", "optimistic-descent", "parameter-free", "blocked-ftrl")


def rows_of(printed):
    """Learner to its four cells."""
    found = {}
    for line in printed.splitlines()[2:]:
        if match := re.fullmatch(r"  ([a-z-]+)\*? +(\S+) +(\S+) +(\S+) +(\S+)", line):
            found[match[1]] = match.groups()[1:]
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 4])
def test_regret_is_below_what_is_proved(kind, pattern, d):
    names = [word for name in FREE for word in ("--learner", name)]
    done = dpconvex(
        "play", *names, "--losses", kind, "--pattern", pattern, "--rounds", 300, "--dimension", d, "--switches", 20
    )
    assert done.exit_code == 0, done.stderr
    found = rows_of(done.stdout)
    assert set(found) == set(FREE)
    for regret, proved, moves, _ in found.values():
        assert float(regret) <= float(proved)
        assert 0 <= int(moves) < 300
    assert int(found["blocked-ftrl"][2]) <= float(found["blocked-ftrl"][3]) <= 20


def test_random_and_private_learners_and_nobody_is_charged():
    players = ("lazy-leader", "lazy-gibbs", "private-ftrl", "blocked-gibbs", "pomer")
    names = [word for name in players for word in ("--learner", name)]
    options = ("--switches", 30, "--epsilon", 8, "--rounds", 500, "--dimension", 2)
    done = dpconvex("play", *names, *options)
    assert done.exit_code == 0, done.stderr
    assert "nothing here is private, and no account is charged" in done.stdout
    assert "made up" in done.stdout
    assert "Warning" not in done.stderr
    assert dc.account(command._DATASET).claims == ()
    found = rows_of(done.stdout)
    assert set(found) == set(players)
    # Expectations are what is proved, so that one game may exceed them; these do not, or not by much.
    assert all(float(regret) <= 1.2 * float(proved) for regret, proved, _, _ in found.values())
    assert dpconvex("play", *names, *options).stdout == done.stdout  # all of it comes from the seed
    assert dpconvex("play", *names, *options, "--seed", 1).stdout != done.stdout


def test_private_learners_on_other_losses():
    done = dpconvex("play", "--learner", "private-ftrl", "--losses", "hinge", "--epsilon", 2, "--rounds", 200)
    assert done.exit_code == 0
    assert "radius 10" in done.stdout  # where a hinge has a kink
    both = ("--learner", "blocked-gibbs", "--learner", "private-ftrl", "--noise", "tree")
    done = dpconvex("play", *both, "--losses", "absolute", "--dimension", 1, "--epsilon", 2, "--rounds", 200)
    assert set(rows_of(done.stdout)) == {"blocked-gibbs", "private-ftrl"}


def test_an_opponent_who_sees_random_points_voids_what_is_proved():
    done = dpconvex("play", "--learner", "lazy-leader", "--switches", 5, "--pattern", "adversarial", "--rounds", 100)
    assert rows_of(done.stdout)["lazy-leader"][1] == "-"
    assert "no bound is proved for an opponent who sees the points" in done.stdout


def test_one_round_in_one_dimension():
    names = ("--learner", "ftrl", "--learner", "lazy-leader", "--learner", "private-ftrl")
    done = dpconvex("play", *names, "--rounds", 1, "--dimension", 1, "--switches", 1, "--epsilon", 1)
    assert done.exit_code == 0, done.stderr
    assert all(moves == "0" for _, _, moves, _ in rows_of(done.stdout).values())


def test_the_picture(tmp_path):
    path = tmp_path / "play.svg"
    names = ("--learner", "ftrl", "--learner", "lazy-leader")
    done = dpconvex("play", *names, "--switches", 9, "--rounds", 200, "--picture", path)
    assert done.exit_code == 0
    assert f"Wrote {path}" in done.stderr
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    space = "{http://www.w3.org/2000/svg}"
    lines = root.findall(f"{space}polyline")
    for line in lines:
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height
    for colour, curves in zip(COLOURS, (3, 4), strict=False):  # ftrl has no bound on its moves
        assert sum(line.attrib["stroke"] == colour for line in lines) == curves
    words = " ".join(text.text for text in root.findall(f"{space}text"))
    assert "ftrl: regret" in words
    assert "lazy-leader: regret" in words
    refused(dpconvex("play", "--picture", path), "--force")
    assert dpconvex("play", "--rounds", 5, "--picture", path, "--force").exit_code == 0


def test_a_picture_needs_players():
    with pytest.raises(dc.errors.InputError, match="between 1 and"):
        draw_games([], "nobody")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--learner", "nobody"], "'nobody' is not one of"),
        (["--losses", "square"], "'square' is not one of"),
        (["--pattern", "kind"], "'kind' is not one of"),
        (["--rounds", "0"], "--rounds"),
        (["--dimension", "0"], "--dimension"),
        (["--rounds", "ten"], "not a valid integer"),
        (["--seed", "-1"], "--seed"),
        (["--radius", "0"], "--radius"),
        (["--radius", "nan"], "--radius"),
        (["--rounds", "100000000"], "must not exceed"),
        (["--learner", "private-ftrl"], "give --epsilon"),
        (["--learner", "pomer"], "give --epsilon"),
        (["--learner", "private-ftrl", "--epsilon", "0"], "epsilon must lie between"),
        (["--learner", "private-ftrl", "--epsilon", "1", "--delta", "0.5"], "--delta must be below"),
        (["--epsilon", "1"], "none is named"),
        (["--switches", "3"], "--switches"),
        (["--learner", "lazy-gibbs"], "give --switches"),
        (["--learner", "lazy-gibbs", "--switches", "0"], "--switches"),
        (["--learner", "lazy-gibbs", "--switches", "nan"], "--switches"),
        (["--learner", "lazy-leader", "--switches", "3", "--losses", "hinge"], "linear losses only"),
        (["--learner", "pomer", "--epsilon", "1", "--losses", "hinge"], "dimension 1 only"),
        (["--learner", "pomer", "--epsilon", "1", "--rounds", "1"], "2 rounds or more"),
        (["--learner", "ftrl", "--learner", "ftrl"], "once"),
        (["--picture", "/nowhere/x.svg"], "there is no folder"),
        (["--picture", "/"], "is a folder"),
    ],
)
def test_bad_input_is_refused_before_anything_is_computed(arguments, words, monkeypatch):
    def never(*_, **__):
        raise AssertionError("a game was played")

    monkeypatch.setattr(command, "make_losses", never)
    monkeypatch.setattr(command, "PrivateFTRL", never)
    refused(dpconvex("play", *arguments), words)


def test_in_a_process_of_its_own():
    done = shell("play", "--rounds", 50)
    assert done.returncode == 0
    assert rows_of(done.stdout)["ftrl"][2] == "49"
    refused(shell("play", "--learner", "nobody"), "'nobody'")


@pytest.mark.parametrize("kind", [AbsoluteLoss, HingeLoss])
@pytest.mark.parametrize("d", [1, 2])
def test_the_best_fixed_point_against_a_fine_grid(kind, d):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(60, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    b = np.sign(rng.normal(size=60)) * 0.7
    losses = [kind(*pair) for pair in zip(rows, b.tolist(), strict=True)]
    grid = np.linspace(-3, 3, 241)
    points = np.stack(np.meshgrid(*[grid] * d), axis=-1).reshape(-1, d)
    points = points[np.linalg.norm(points, axis=1) <= 3.0]
    margins = points @ rows.T
    least = (np.abs(margins - b) if kind is AbsoluteLoss else np.maximum(1.0 - b * margins, 0.0)).sum(axis=1).min()
    best, short = best_on_ball(losses, 3.0)
    value = sum(loss.value(best) for loss in losses)
    assert np.linalg.norm(best) <= 3.0 + 1e-12
    assert short <= 0.002 * 3.0 * 60**0.5
    assert value - short <= least + 1e-9  # what is certified is a bound from below
    assert value <= least + short + 1e-9


def test_losses_without_a_slope_have_a_best_point():
    best, short = best_on_ball([AbsoluteLoss(np.zeros(2), 1.0)], 1.0)
    assert short == 0.0
    assert not best.any()


def test_streams_are_of_norm_one_and_differ_by_seed():
    for kind in KINDS:
        for pattern in PATTERNS[:2]:
            made = list(make_losses(kind, pattern, 20, 3, 2.0, seed=5))
            lengths = [np.linalg.norm(loss.gradient(np.full(3, 0.1))) for loss in made]
            assert max(lengths) <= 1.0 + 1e-12
            again, other = (list(make_losses(kind, pattern, 20, 3, 2.0, seed=s)) for s in (5, 6))
            x = np.full(3, 0.2)
            assert [a.value(x) for a in made] == [a.value(x) for a in again]
            assert [a.value(x) for a in made] != [a.value(x) for a in other]
    for arguments, words in ((("cubic", "stationary"), "losses must"), (("linear", "still"), "pattern must")):
        with pytest.raises(dc.errors.InputError, match=words):
            make_losses(*arguments, 5, 2, 1.0, 0)


def test_a_trace_is_that_of_the_game():
    learner = dc.games.learners.SubgradientDescent(dc.domains.L2Ball(1.0))
    rows = dc.games.streams.stationary(100, 2, seed=1)
    trace = compete(Entrant("descent", learner.player(2), learner.bound), rows, 1.0, points=10)
    game = dc.games.run_game(learner.player(2), rows)
    assert trace.regret[-1] == pytest.approx(game.regret)
    assert trace.moves[-1] == game.switches
    assert trace.proved[-1] == pytest.approx(learner.bound(game))
    assert list(trace.rounds) == sorted(set(trace.rounds))
    assert len(trace.rounds) == 10
    assert trace.short == 0.0
