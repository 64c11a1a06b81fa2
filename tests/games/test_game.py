import numpy as np
import pytest

from dpconvex.errors import InputError
from dpconvex.games import Simplex, run_game, streams
from dpconvex.games.learners import FTRL, Fixed, OptimisticDescent, SubgradientDescent
from dpconvex.games.losses import AbsoluteLoss, HingeLoss, LinearLoss, QuadraticLoss
from dpconvex.problem.domains import Box, Everywhere, L1Ball, L2Ball


class Stubborn:
    """A player of somebody else's: the protocol, and nothing more."""

    def __init__(self, x):
        self.x, self.seen = np.asarray(x, dtype=float), 0

    def play(self):
        return self.x

    def observe(self, loss):
        self.seen += 1


def test_a_game_by_hand():
    player = Stubborn([1.0, 0.0])
    game = run_game(player, [np.array([2.0, 0.0]), LinearLoss(np.array([-1.0, 5.0]))], comparator=np.array([0.0, -1.0]))
    assert player.seen == game.rounds == 2
    assert game.paid.tolist() == [2.0, -1.0]
    assert game.cumulative.tolist() == [2.0, 1.0]
    assert (game.total, game.regret, game.switches) == (1.0, 6.0, 0)
    assert game.regret_against(np.zeros(2)) == 1.0
    assert game.start.tolist() == [1.0, 0.0]


def test_without_a_domain_the_comparator_has_to_be_named():
    game = run_game(Stubborn([1.0]), np.ones((3, 1)))
    with pytest.raises(InputError, match="comparator"):
        _ = game.regret
    assert game.regret_against(np.zeros(1)) == 3.0


@pytest.mark.parametrize("domain", [L2Ball(2.0), Box(-0.5, 2.0), L1Ball(1.5), Simplex()], ids=str)
def test_the_best_fixed_point_is_best(domain):
    rng = np.random.default_rng(0)
    linear = [LinearLoss(g) for g in rng.normal(size=(50, 3))]
    curved = [QuadraticLoss(rng.normal(size=3), rng.uniform(), rng.normal(size=3)) for _ in range(50)]
    for losses in (linear, curved, linear + curved):
        game = run_game(SubgradientDescent(domain).player(3), losses)
        assert np.allclose(domain.project(game.comparator), game.comparator)
        for u in 3.0 * rng.normal(size=(60, 3)):
            assert game.regret >= game.regret_against(domain.project(u)) - 1e-9
        near = domain.project(game.comparator + 1e-3 * rng.normal(size=3))
        assert game.regret >= game.regret_against(near) - 1e-9


def test_losses_whose_best_point_is_not_known():
    losses = [AbsoluteLoss(np.ones(2), 1.0), HingeLoss(np.ones(2), -1.0)]
    game = run_game(SubgradientDescent(L2Ball(1.0)).player(2), losses)
    with pytest.raises(InputError, match="closed form"):
        _ = game.regret
    assert game.regret_against(np.zeros(2)) == pytest.approx(np.sqrt(2.0))


@pytest.mark.parametrize(
    "loss",
    [
        LinearLoss(np.array([1.0, -2.0])),
        AbsoluteLoss(np.array([1.0, 2.0]), 0.3),
        HingeLoss(np.array([1.0, 2.0]), -1.0),
        QuadraticLoss(np.array([0.5, 0.1]), 3.0),
        QuadraticLoss(np.array([0.5, 0.1]), 2.0, np.array([1.0, -1.0])),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_losses_are_convex_with_the_gradient_and_curvature_they_state(loss):
    rng = np.random.default_rng(1)
    for x, y in rng.normal(size=(200, 2, 2)):
        off = y - x
        assert loss.value(y) >= loss.value(x) + loss.gradient(x) @ off + loss.strong_convexity / 2 * off @ off - 1e-12
        slope = (loss.value(x + 1e-6 * off) - loss.value(x - 1e-6 * off)) / 2e-6
        assert slope == pytest.approx(loss.gradient(x) @ off, abs=1e-4)


def test_kinks_have_gradient_zero():
    assert not AbsoluteLoss(np.ones(2), 0.0).gradient(np.zeros(2)).any()
    assert not HingeLoss(np.ones(2), 1.0).gradient(np.array([0.5, 0.5])).any()


def test_switches_count_moves():
    game = run_game(SubgradientDescent(Box(-1.0, 1.0)).player(1), np.ones((10, 1)))
    assert game.plays.ravel().tolist() == [0.0] + [-1.0] * 9
    assert game.switches == 1


def test_bad_games():
    player = SubgradientDescent(L2Ball(1.0)).player(2)
    with pytest.raises(InputError, match="at least one round"):
        run_game(player, [])
    with pytest.raises(InputError, match="at least one round"):
        run_game(player, np.zeros((0, 2)))
    with pytest.raises(InputError, match="shape"):
        run_game(player, np.zeros((3, 3)))
    with pytest.raises(InputError, match="not finite"):
        run_game(player, np.full((3, 2), np.nan))
    with pytest.raises(InputError, match="takes no hints"):
        run_game(player, np.zeros((3, 2)), hints=np.zeros((3, 2)))
    with pytest.raises(InputError, match="comparator has shape"):
        run_game(player, np.zeros((3, 2)), comparator=np.zeros(3))
    hinted = OptimisticDescent(L2Ball(1.0))
    for count in (2, 4):
        with pytest.raises(InputError, match="one hint for every round"):
            run_game(hinted.player(2), np.zeros((3, 2)), hints=np.zeros((count, 2)))
    with pytest.raises(InputError, match="hint has shape"):
        run_game(hinted.player(2), np.zeros((3, 2)), hints=np.zeros((3, 5)))


@pytest.mark.parametrize("make", [streams.stationary, streams.drifting, streams.orthogonal, streams.contrary])
def test_streams(make):
    for rounds, d in ((0, 3), (-1, 3), (5, 0)):
        with pytest.raises(InputError, match="at least 1"):
            make(rounds, d, seed=0)
    first, again = (run_game(FTRL(L2Ball(1.0)).player(3), make(50, 3, seed=2)) for _ in range(2))
    assert np.array_equal(first.gradients, again.gradients)
    assert np.linalg.norm(first.gradients, axis=1).max() <= 1.0 + 1e-12
    assert first.rounds == 50
    other = run_game(FTRL(L2Ball(1.0)).player(3), make(50, 3, seed=3))
    assert not np.array_equal(first.gradients, other.gradients)


def test_stationary_has_its_mean_and_drifting_turns():
    mean = streams.stationary(20_000, 5, seed=0).mean(axis=0)
    assert 0.1 < np.linalg.norm(mean) < 0.25
    drift = streams.drifting(20_000, 5, seed=0)
    assert np.linalg.norm(drift.mean(axis=0)) < 0.02
    assert np.linalg.norm(drift[:500].mean(axis=0)) > 0.3
    assert streams.drifting(4, 1, seed=0).shape == (4, 1)
    with pytest.raises(InputError, match="contrary"):
        streams.orthogonal(5, 2, seed=0)


def test_nobody_beats_the_orthogonal_opponent():
    for player in (FTRL(L2Ball(3.0)).player(4), SubgradientDescent(L2Ball(3.0)).player(4)):
        assert run_game(player, streams.orthogonal(900, 4, seed=1)).regret == pytest.approx(3.0 * 30.0, rel=1e-9)


def test_linear_losses_everywhere_have_a_best_point_only_if_they_cancel():
    player = SubgradientDescent(Everywhere(), Fixed(0.1)).player(1)
    with pytest.raises(InputError, match="comparator"):
        _ = run_game(player, np.ones((2, 1))).regret
    assert run_game(player, np.array([[1.0], [-1.0]])).comparator.tolist() == [0.0]
