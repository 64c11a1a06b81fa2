"""The lazy player without a certified sampler: its chain tends to the law, moves are few, and it says what it is."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

import dpconvex as dc
from dpconvex.errors import InputError
from dpconvex.games.losses import AbsoluteLoss, HingeLoss, LinearLoss, LogisticLoss, QuadraticLoss
from dpconvex.games.uncertified import UncertifiedLazyGibbs, _MarginSum
from dpconvex.noise.gibbs import GibbsBall, GibbsBox
from dpconvex.noise.hit_and_run import UncertifiedHitAndRun
from dpconvex.noise.source import Source
from dpconvex.problem.domains import Box, L1Ball, L2Ball

TILT = np.array([3.0, -1.0])


@pytest.mark.parametrize(
    ("domain", "law"),
    [(L2Ball(1.0), GibbsBall(TILT, 2.0, 1.0)), (Box(-0.5, 1.0), GibbsBox(TILT, 2.0, -0.5, 1.0))],
)
def test_the_chain_tends_to_its_law_where_that_is_known(domain, law):
    """Seeds, steps and level fixed beforehand."""
    stream = Source(5).stream("chain")
    chain = UncertifiedHitAndRun(lambda x: float(TILT @ x + x @ x), domain, np.zeros(2), 25)
    x = np.array([chain.draw(stream) for _ in range(600)])
    fresh = law.draw(Source(6).stream("law"), 20_000)
    for j in range(2):
        assert kstest(x[:, j], fresh[:, j]).pvalue > 1e-3
    assert all(np.allclose(domain.project(v), v) for v in x)
    assert not chain.certified
    assert not hasattr(chain, "tv_error")
    with pytest.raises(InputError, match="steps"):
        UncertifiedHitAndRun(lambda x: 0.0, domain, np.zeros(2), 0)


def test_sums_are_those_of_the_losses():
    rng = np.random.default_rng(0)
    total, losses = _MarginSum(3), []
    for _ in range(30):
        a, b = rng.normal(size=3), float(rng.choice([-1.0, 1.0]))
        losses += [LinearLoss(a), AbsoluteLoss(a, b), HingeLoss(a, b), LogisticLoss(a, b)]
    for loss in losses:
        total.add(loss)
    x = rng.normal(size=3)
    assert total.value(x) == pytest.approx(sum(loss.value(x) for loss in losses))


@pytest.mark.parametrize("kind", [AbsoluteLoss, HingeLoss, LogisticLoss])
@pytest.mark.parametrize("domain", [L2Ball(2.0), Box(-1.0, 2.0)])
def test_games_have_few_moves_and_reports_say_that_nothing_is_proved(kind, domain):
    horizon, rng = 300, np.random.default_rng(1)
    rows = rng.normal(size=(horizon, 2))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    target = np.array([0.9, 0.3])
    heights = rows @ target if kind is AbsoluteLoss else np.where(rows @ target > 0.0, 1.0, -1.0)
    losses, moves, regrets = [kind(a, float(b)) for a, b in zip(rows, heights, strict=True)], [], []
    for seed in range(6):
        player = UncertifiedLazyGibbs(domain, 1.0, horizon, 60, dimension=2, seed=seed, steps=10)
        game = dc.games.run_game(player, losses, comparator=target)
        moves.append(game.switches)
        regrets.append(game.regret)
        assert player.moves == game.switches
        assert all(np.allclose(domain.project(x), x) for x in game.plays[::50])
    assert np.mean(moves) <= 60 + 4 * math.sqrt(60 / 6)
    centre = sum(loss.value(domain.project(np.zeros(2))) - loss.value(target) for loss in losses)
    assert np.mean(regrets) < 0.8 * centre  # it learns
    assert "UNCERTIFIED" in player.report()
    assert "nothing is proved" in player.report()
    assert not player.certified


def test_what_it_refuses_and_who_refuses_it():
    options = {"domain": L2Ball(1.0), "lipschitz": 1.0, "horizon": 9, "switches": 3.0, "dimension": 2}
    for wrong in (
        {"domain": L1Ball(1.0)}, {"lipschitz": 0.0}, {"horizon": 0}, {"switches": 0.0}, {"dimension": 0}, {"steps": 0},
        {"seed": "x"},
    ):  # fmt: skip
        with pytest.raises(InputError):
            UncertifiedLazyGibbs(**(options | wrong))
    player = UncertifiedLazyGibbs(**options, seed=0)
    with pytest.raises(InputError, match="play"):
        player.observe(np.zeros(2))
    player.play()
    for loss in (
        lambda x: x, QuadraticLoss(np.zeros(2)), AbsoluteLoss(np.ones(2), 0.0), AbsoluteLoss(np.ones(3), 0.0),
        np.array([np.nan, 0]), HingeLoss(np.array([0.5, 0.0]), 3.0), HingeLoss(np.array([0.5, 0.0]), math.nan),
    ):  # fmt: skip
        with pytest.raises(InputError):
            player.observe(loss)
    player.observe([0.5, 0.5])
    for _ in range(8):
        player.play()
        player.observe(np.zeros(2))
    with pytest.raises(InputError, match="horizon"):
        player.play()
    for kind in (dc.games.Pomer, dc.games.BlockedGibbs):
        private = kind(L2Ball(1.0), 1.0, 9, dc.Budget(4.0, 1e-6), dimension=2, dataset="uncertified", seed=0)
        private.play()
        with pytest.raises(InputError, match="UncertifiedLazyGibbs plays them as they are, without privacy"):
            private.observe(AbsoluteLoss(np.array([0.5, 0.0]), 0.0))
