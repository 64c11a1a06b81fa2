"""The attacks on the machine break noise in float64 at once, and find no more than is allowed of noise on a grid."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.special import ndtr

from dpconvex.algorithms.phased_sgd import PhasedSGD
from dpconvex.audit.command import audit
from dpconvex.audit.machine import porous, tails
from dpconvex.audit.machine.likelihood import leading_words, log_likelihood
from dpconvex.audit.machine.outcome import FLOAT, GRID, Outcome
from dpconvex.audit.machine.released import all_released, direction, minimiser, phases, score, stream, walk
from dpconvex.kernel.claims import Release
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.source import Source, Stream

ON_GRID = Release("sum", "gaussian", 3.0, (1,), grid=0.5)


def test_words_are_found_that_lead_to_what_was_released():
    stream = Source(0).stream("words")
    for value, scale in ((0.0, 1.0), (0.1, 2.0), (-57.3, 0.7), (1e4, 1.0), (1e9, 3.0)):
        released = value + scale * standard_normal(stream, (200,))
        assert all(leading_words(y, value, scale) >= 1.0 for y in released.tolist())


def test_few_words_lead_to_what_another_value_released():
    released = standard_normal(Source(0).stream("words"), (200,))
    reached = sum(leading_words(y, 0.1, 1.0) > 0.0 for y in released.tolist())
    assert reached < 150


@pytest.mark.parametrize("value", [1.5 * 2.0**53, 1.5 * 2.0**33])
def test_the_words_of_coarse_sums_are_a_share_of_all(value):
    """Where results are much coarser than the noise, their words are those of an interval."""
    width = float(np.spacing(value))
    for k in (-3, 0, 1, 5):
        wanted = ndtr((k + 0.5) * width) - ndtr((k - 0.5) * width)
        assert leading_words(value + k * width, value, 1.0) / 2.0**64 == pytest.approx(wanted, rel=0.02, abs=1e-19)


def test_the_law_on_a_grid_adds_up_and_knows_what_is_impossible():
    value = np.array([0.3])
    chances = [math.exp(log_likelihood(ON_GRID, True, np.array([k / 2]), value)) for k in range(-80, 81)]
    assert sum(chances) == pytest.approx(1.0, rel=1e-12)
    assert log_likelihood(ON_GRID, True, np.array([1e4]), value) > -math.inf
    for impossible in (0.25, -0.0):
        assert log_likelihood(ON_GRID, True, np.array([impossible]), value) == -math.inf


@pytest.mark.parametrize(
    "released",
    [direction(0.01, n=100, d=10), score(), minimiser(), stream(), phases(PhasedSGD()), walk()],
    ids=lambda r: r.name,
)
def test_porous_support_breaks_float64_and_not_the_grid(released):
    runs = 200
    naive, ours = (porous.guess(released, exact, runs) for exact in (False, True))
    assert naive.broken
    assert naive.impossible > 5
    assert not ours.broken
    assert ours.impossible == 0


def test_the_best_guess_on_a_grid_comes_close_to_what_is_allowed():
    """The attack has the power to find a claim that is too small: here one that is half of what it should be."""
    honest = score()
    found = porous.guess(honest, True, 2000)
    assert not found.broken
    chance = 0.5 + (found.chance - 0.5) / 2.0
    assert porous.Guesses(2000, found.right, 0, chance).broken


@pytest.mark.heavy
@pytest.mark.parametrize("released", list(all_released()), ids=lambda r: r.name)
def test_porous_support_of_every_release(released):
    assert porous.guess(released, False, 200).broken
    assert porous.guess(released, True, 200).broken != released.on_grid


def test_everything_that_is_attacked_lies_on_a_grid():
    assert all(released.on_grid for released in all_released())


def test_every_kind_of_release_is_attacked():
    names = [released.name for released in all_released()]
    kinds = "MeanDirection", "NoisyGD", "SufficientStatistics", "HeldOut, auc", "score", "ObjectivePerturbation"
    for kind in (
        *kinds,
        "weights of PhasedSGD",
        "weights of NoisySGD",
        "OnlineToBatch, tree",
        "PrivateFTRL,",
        "PrivateFTRL, composition",
        "a stream of PrivateFTRL",
    ):
        assert any(kind in name for name in names)
    assert len(set(names)) == len(names)


def test_bounded_noise_makes_outputs_impossible():
    released = tails.sum_of_two(50.0, 1e-6)
    assert tails.beyond(released, False, 2000) > 0
    assert tails.beyond(released, True, 500) == 0


@pytest.mark.parametrize(("epsilon", "delta"), tails.BUDGETS)
def test_the_tail_of_float64_breaks_the_budget_and_that_of_real_noise_keeps_it(epsilon, delta):
    (release,) = tails.sum_of_two(epsilon, delta).claim.releases
    apart = 2.0 / release.scale
    assert tails.attained(epsilon, apart, tails.float_tail) > 100.0 * delta
    assert 0.5 * delta < tails.attained(epsilon, apart, tails.real_tail) <= delta


def test_counts_of_words_are_the_tail_of_the_sampler():
    ends = sorted(float(tails.variate(words)) for words in (0, 1, 7, 2**40, 2**62))
    assert [tails.float_tail(z) for z in reversed(ends)] == [0.0, 2.0**-64, 7 * 2.0**-64, 2.0**-24, pytest.approx(0.25)]
    drawn = standard_normal(Stream(bytes(32)), (100_000,))
    assert (drawn > 1.0).mean() == pytest.approx(tails.float_tail(1.0), abs=5e-3)


def test_the_command_tells_what_is_not_as_it_should_be(tmp_path, monkeypatch):
    result = CliRunner().invoke(audit, ["machine", "tails", "--runs", "200", "--json", str(tmp_path / "found.json")])
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "found.json").read_text())
    assert [outcome["arithmetic"] for outcome in found] == [FLOAT, GRID] * 2
    broken = Outcome("tails", "a sum", GRID, "", "", broken=True)
    monkeypatch.setattr("dpconvex.audit.command.attack_machine", lambda *_: iter([broken]))
    assert CliRunner().invoke(audit, ["machine"]).exit_code == 1
