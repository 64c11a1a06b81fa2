"""Lazy learners: marginals, moves, regret, refusals. A Kolmogorov-Smirnov p-value must exceed 1e-3."""

import math

import numpy as np
import pytest
from scipy.special import gammainc, logsumexp, ndtr
from scipy.stats import binom, kstest, truncnorm
from slices import one_in

from dpconvex.errors import InputError
from dpconvex.games import lazy, losses, run_game, streams
from dpconvex.games.lazy import BlockedFTRL, LazyGibbs, LazyLeader
from dpconvex.noise.gibbs import GibbsBall
from dpconvex.problem.domains import Box, Everywhere, L1Ball, L2Ball

BALL, BOX = L2Ball(1.0), Box(-1.0, 1.0)
P_VALUE = 1e-3
LAZY = [LazyGibbs, LazyLeader]
ALL = [LazyGibbs, LazyLeader, BlockedFTRL]


def budget(horizon=50, switches=10.0, lipschitz=1.0, **more):
    return {"lipschitz": lipschitz, "horizon": horizon, "switches": switches} | more


def test_with_300_moves_in_10000_rounds_regret_is_less_than_half_of_that_of_blocks():
    rounds, d = 10_000, 10
    found = {}
    for learner in ALL:
        games = []
        for seed in range(3):
            own = {} if learner is BlockedFTRL else {"seed": seed}
            player = learner(BALL, **budget(rounds, 300, **own)).player(d)
            games.append(run_game(player, streams.stationary(rounds, d, seed=seed)))
            assert games[-1].regret <= player.learner.bound(games[-1])
        found[learner] = np.mean([[game.switches, game.regret] for game in games], axis=0)
    assert found[LazyGibbs][0] <= 300
    assert found[BlockedFTRL][0] <= 300
    assert found[LazyLeader][0] <= 300 * 1.1  # 300 is what is expected, with a standard error near 10
    assert found[LazyGibbs][1] <= 0.5 * found[BlockedFTRL][1]
    assert found[LazyLeader][1] <= 0.5 * found[BlockedFTRL][1]


def last_points(learner, domain, gradients, runs, entry, **own):
    """What the chain holds in the round after the last but one gradient, in many games."""
    points = []
    for seed in range(runs):
        player = learner(domain, **(budget(len(gradients) + 1, 8.0, seed=seed) | own)).player(gradients.shape[1])
        player.run(gradients)
        points.append(player._state[entry])
    return np.array(points), player.learner.setting(gradients.shape[1])


def test_after_many_rounds_the_point_in_the_ball_has_the_gibbs_law():
    gradients = streams.stationary(20, 3, seed=4, bias=0.5)
    x, setting = last_points(LazyGibbs, BALL, gradients, 1200, "x")
    total = gradients.sum(axis=0)
    a, c = setting.beta * np.linalg.norm(total), setting.beta * setting.lam
    z = np.linspace(-1.0, 1.0, 100_001)
    p = np.exp(a * (z - 1.0) - c * z * z / 2) * gammainc(1.0, c * (1.0 - z * z) / 2)
    whole = np.concatenate([[0.0], np.cumsum(p[1:] + p[:-1])])
    assert kstest(-x @ total / np.linalg.norm(total), lambda y: np.interp(y, z, whole / whole[-1])).pvalue > P_VALUE
    across = np.cross(total, [1.0, 0.0, 0.0])  # symmetric, and as for a fresh sample
    fresh = GibbsBall(setting.beta * total, c, 1.0).draw(lazy.stream_of(lazy.fresh_key(5), 0), 20_000)
    assert kstest(x @ across, fresh @ across).pvalue > P_VALUE


def test_after_many_rounds_the_point_in_the_box_has_the_gibbs_law():
    gradients = streams.drifting(20, 2, seed=4)
    x, setting = last_points(LazyGibbs, Box(-1.0, 0.5), gradients, 1200, "x")
    sd = 1.0 / math.sqrt(setting.beta * setting.lam)
    for j, mean in enumerate(-gradients.sum(axis=0) / setting.lam):
        assert kstest(x[:, j], truncnorm((-1.0 - mean) / sd, (0.5 - mean) / sd, mean, sd).cdf).pvalue > P_VALUE


@pytest.mark.parametrize("own", [{"coupling": "rejection", "switches": 15.0}, {"hard": True, "switches": 20.0}])
@pytest.mark.parametrize("domain", one_in(2, [Box(-1.0, 0.5), BALL]))
def test_the_other_ways_to_follow_the_gibbs_laws_follow_them(own, domain):
    """Seeds, number of games and level fixed beforehand. The errors of rejection add up to some 0.04 at most."""
    gradients = streams.drifting(20, 2, seed=4)
    x, setting = last_points(LazyGibbs, domain, gradients, 1200, "x", **own)
    assert len(np.unique(x, axis=0)) == 1200
    law = lazy._law(domain, setting, gradients.sum(axis=0))
    fresh = law.draw(lazy.stream_of(lazy.fresh_key(6), 0), 50_000)
    for j in range(2):
        assert kstest(x[:, j], fresh[:, j]).pvalue > P_VALUE


def test_after_many_rounds_the_perturbed_leader_is_normal():
    gradients = streams.stationary(20, 3, seed=4, bias=0.5)
    y, setting = last_points(LazyLeader, BALL, gradients, 1200, "y")
    scaled = (y + gradients.sum(axis=0) / setting.lam) * math.sqrt(setting.beta * setting.lam)
    for j in range(3):
        assert kstest(scaled[:, j], "norm").pvalue > P_VALUE


@pytest.mark.parametrize("learner", LAZY)
def test_moves_are_as_frequent_as_the_laws_differ(learner):
    g, runs = 1.0, 4000
    setting = learner(BOX, **budget(3, 0.8)).setting(1)
    c = setting.beta * setting.lam
    x = np.linspace(-1.0, 1.0, 20_001)
    if learner is LazyGibbs:
        p, q = (np.exp(-setting.beta * s * x - c * x * x / 2) for s in (0.0, g))
        exact = 0.5 * np.abs(p / p.sum() - q / q.sum()).sum()
    else:
        exact = 2 * ndtr(g * math.sqrt(setting.beta / setting.lam) / 2) - 1
    moved = 0
    for seed in range(runs):
        player = learner(BOX, **budget(3, 0.8, seed=seed)).player(1)
        before = player._state["x" if learner is LazyGibbs else "y"]
        player.run(np.array([[g]]))
        moved += int((player._state["x" if learner is LazyGibbs else "y"] != before).any())
    assert abs(moved / runs - exact) < 4 * math.sqrt(exact * (1 - exact) / runs)
    assert exact <= 0.4 + 1e-9


def test_rejection_on_a_grid_keeps_to_its_errors_and_moves():
    """The law of the point, round by round, without any sampling: distance to the Gibbs law, probability of a move."""
    for horizon, switches in ((12, 6.0), (12, 2.0), (30, 29.0), (30, 1e-3)):
        learner = LazyGibbs(BOX, **budget(horizon, switches, coupling="rejection"))
        setting, rule = learner.setting(1), lazy.rejection_closeness(horizon, switches)
        x = np.linspace(-1.0, 1.0, 4001)
        for stream in (np.ones(horizon), np.tile([1.0, -1.0], horizon)[:horizon]):
            logs = -setting.beta * (np.append(0.0, np.cumsum(stream))[:, None] * x + setting.lam / 2 * x * x)
            logs -= logsumexp(logs, axis=1, keepdims=True)
            laws = np.exp(logs)
            point, moves = laws[0], 0.0
            for t in range(horizon - 1):
                keep = np.exp(np.minimum(0.0, logs[t + 1] - logs[t] - rule.width))
                leave = float(point @ (1.0 - keep))
                point, moves = point * keep + leave * laws[t + 1], moves + leave
                assert 0.5 * np.abs(point - laws[t + 1]).sum() <= (t + 1) * rule.drift + 1e-12
            assert moves <= setting.moves * (1 + 1e-9)
            assert setting.moves <= switches * (1 + 1e-9)
            assert moves >= 0.4 * switches


def test_a_hard_budget_is_rarely_used_up_and_its_tail_is_as_stated():
    rng = np.random.default_rng(0)
    for horizon, most in ((50, 3), (1000, 40), (1000, 900), (100_000, 10)):
        eta, s = lazy.hard_closeness(horizon, most), math.sqrt(2 * math.log(2 * horizon**2))
        leave = -math.expm1(-(eta**2) / 2 - eta * s)
        assert binom.sf(most, horizon - 1, leave) == pytest.approx(0.5 / horizon, rel=1e-6)
        z = rng.normal(size=100_000)  # far inside, ln of the ratio is -eta z - eta^2 / 2
        assert (-eta * z - eta**2 / 2 < -(eta**2) / 2 - eta * s).mean() <= 0.5 / horizon**2 + 1e-4
    assert lazy.hard_closeness(10, 9) == lazy.hard_closeness(10, 50) == 6.0


def chase(x):
    """An opponent that sees the point, and makes it move."""
    return x / max(float(np.linalg.norm(x)), 1e-9)


class Warm(LazyGibbs):
    """Laws that move by far more than its own: those hardly ever use the moves up."""

    def setting(self, d):
        return lazy.LazySetting(3.0, 12.0, 0.0, 0.0)


@pytest.mark.parametrize("kind", [LazyGibbs, Warm])
def test_never_more_moves_than_a_hard_budget_in_200_games(kind):
    used_up = 0
    for seed in range(200):
        switches = (1, 2.5, 4, 9)[seed % 4]
        domain = (BALL, Box(-0.5, 1.0))[seed // 4 % 2]
        player = kind(domain, **budget(60, switches, seed=seed, hard=True)).player(2)
        stream = [chase] * 60 if seed % 3 else streams.drifting(60, 2, seed=seed)
        game = run_game(player, stream, comparator=np.zeros(2))
        assert game.switches <= switches
        used_up += game.switches == math.floor(switches)
    assert used_up > 150 if kind is Warm else used_up <= 10  # 200 games, 1/60 each at most if nobody sees the points


def test_a_hard_budget_as_it_is_set():
    rounds, d = 2000, 2
    games = []
    for seed in range(6):
        player = LazyGibbs(BALL, **budget(rounds, 400, seed=seed, hard=True)).player(d)
        games.append(run_game(player, streams.stationary(rounds, d, seed=3)))
        assert games[-1].switches <= 400
    setting = player.learner.setting(d)
    assert at_most([game.regret for game in games], player.learner.bound(games[0]))
    assert player.learner.bound(games[0]) <= setting.regret * (1 + 1e-9)
    assert at_most([game.switches for game in games], player.learner.moves(games[0]))
    assert player.learner.moves(games[0]) <= setting.moves * (1 + 1e-9) < 400
    assert setting.regret > LazyGibbs(BALL, **budget(rounds, 400)).setting(d).regret


@pytest.mark.parametrize("domain", [BALL, Box(-0.5, 1.0)])
def test_regret_and_moves_of_rejection_stay_below_what_is_proved(domain):
    rounds, d = 600, 3
    for losses_of_game in (np.tile([[0.6, -0.8, 0.0]], (rounds, 1)), streams.drifting(rounds, d, seed=2)):
        games = []
        for seed in range(8):
            player = LazyGibbs(domain, **budget(rounds, 60, seed=seed, coupling="rejection")).player(d)
            games.append(run_game(player, losses_of_game))
        learner, setting = player.learner, player.learner.setting(d)
        assert at_most([game.regret for game in games], learner.bound(games[0]))
        assert at_most([game.switches for game in games], learner.moves(games[0]))
        assert np.mean([game.switches for game in games]) > 30  # rejection moves by a coin, whatever the losses are
        assert learner.bound(games[0]) <= setting.regret * (1 + 1e-9)
        assert learner.moves(games[0]) <= setting.moves * (1 + 1e-9) <= 60 * (1 + 2e-9)
        assert setting.regret > LazyGibbs(domain, **budget(rounds, 60)).setting(d).regret


@pytest.mark.parametrize("own", [{"coupling": "rejection"}, {"hard": True}])
def test_edges_of_the_other_ways(own):
    for domain in (BALL, BOX):
        still = run_game(LazyGibbs(domain, **budget(20, 5, **own)).player(2), np.zeros((20, 2)))
        assert still.switches == 0
        for horizon, switches in ((1, 1.0), (2, 1.0), (30, 30.0), (30, 1e9), (30, math.inf)):
            player = LazyGibbs(domain, **budget(horizon, switches, **own)).player(1)
            game = run_game(player, np.ones((horizon, 1)))
            assert math.isfinite(player.learner.bound(game))
            assert game.regret <= player.learner.bound(game) + 10.0
    rows = streams.stationary(200, 3, seed=0)
    learner = LazyGibbs(BALL, **budget(200, 40, seed=3, **own))
    whole, first = learner.player(3).run(rows), learner.player(3)
    half = first.run(rows[:90])
    assert np.array_equal(whole, np.vstack([half, learner.resume(first.state).run(rows[90:])]))


@pytest.mark.parametrize(
    "wrong",
    [{"coupling": "none"}, {"hard": 1}, {"hard": True, "coupling": "rejection"}, {"hard": True, "switches": 0.5}],
)
def test_ways_that_do_not_exist_are_refused(wrong):
    with pytest.raises(InputError, match="LazyGibbs"):
        LazyGibbs(BALL, **(budget() | wrong))


def test_laws_of_neighbouring_rounds_differ_no_more_than_normal_ones():
    rng = np.random.default_rng(0)
    z = np.linspace(-1.0, 1.0, 20_001)
    closest = 0.0
    for _ in range(200):
        c, a, step = 10 ** rng.uniform(-1, 3), rng.normal() * 100, 10 ** rng.uniform(-2, 1)
        lo, hi = np.sort(rng.uniform(-1, 1, 2))
        p, q = (np.where((z >= lo) & (z <= hi), np.exp(-(c / 2) * (z - t / c) ** 2), 0.0) for t in (a, a + step))
        if min(p.sum(), q.sum()) < 1e-100:
            continue
        tv = 0.5 * np.abs(p / p.sum() - q / q.sum()).sum()
        limit = 2 * ndtr(step / math.sqrt(c) / 2) - 1
        assert tv <= limit * (1 + 1e-6)
        closest = max(closest, tv / limit)
    assert closest > 0.9


def at_most(values, bound):
    """Whether the mean exceeds a bound on the expectation by no more than four standard errors."""
    return np.mean(values) <= bound * (1 + 1e-9) + 4 * np.std(values, ddof=1) / math.sqrt(len(values))


PAIRS = [(a, b) for a in ALL for b in (BALL, Box(-0.5, 1.0), L1Ball(2.0)) if (a, type(b)) != (LazyGibbs, L1Ball)]


@pytest.mark.parametrize(("learner", "domain"), PAIRS)
def test_regret_and_moves_stay_below_what_is_proved(learner, domain):
    rounds, d = 1000, 4
    signs = np.random.default_rng(1).choice([-1.0, 1.0], (rounds, 1)) * np.eye(1, d)
    for losses_of_game in (signs, np.tile([[0.6, -0.8, 0.0, 0.0]], (rounds, 1)), streams.drifting(rounds, d, seed=2)):
        games = []
        for seed in range(6):
            own = {} if learner is BlockedFTRL else {"seed": seed}
            player = learner(domain, **budget(rounds, 60, **own)).player(d)
            games.append(run_game(player, losses_of_game))
        assert at_most([game.regret for game in games], player.learner.bound(games[0]))
        assert at_most([game.switches for game in games], 60)
        if learner is not BlockedFTRL:
            setting = player.learner.setting(d)
            assert player.learner.bound(games[0]) <= setting.regret * (1 + 1e-9)
            assert at_most([game.switches for game in games], player.learner.moves(games[0]))
            assert player.learner.moves(games[0]) <= setting.moves * (1 + 1e-9)
            assert setting.moves <= 60 * (1 + 1e-9)


class Shifted(losses.LinearLoss):
    """A linear loss and a constant."""

    def value(self, x):
        return super().value(x) + 1e3


@pytest.mark.parametrize("learner", ALL)
def test_constants_added_to_the_losses_change_nothing(learner):
    own = {} if learner is BlockedFTRL else {"seed": 3}
    rows = streams.stationary(300, 3, seed=0)
    plain, shifted = (
        run_game(learner(BALL, **budget(300, 40, **own)).player(3), [kind(g) for g in rows])
        for kind in (losses.LinearLoss, Shifted)
    )
    assert np.array_equal(plain.plays, shifted.plays)
    assert plain.regret == pytest.approx(shifted.regret_against(plain.comparator), abs=1e-8)


@pytest.mark.parametrize("learner", ALL)
def test_a_game_goes_on_from_its_state(learner):
    own = {} if learner is BlockedFTRL else {"seed": 3}
    rows = streams.stationary(200, 3, seed=0)
    options = learner(BALL, **budget(200, 40, **own))
    whole = options.player(3).run(rows)
    first = options.player(3)
    half = first.run(rows[:90])
    again = options.resume(first.state)
    assert type(again) is type(first)
    assert np.array_equal(whole, np.vstack([half, again.run(rows[90:])]))


def test_without_a_seed_games_differ():
    points = {float(learner(BALL, **budget()).player(2).play()[0]) for learner in LAZY for _ in range(2)}
    assert len(points) == 4


@pytest.mark.parametrize("learner", LAZY)
def test_losses_that_are_not_linear_are_refused(learner):
    player = learner(BALL, **budget()).player(2)
    player.play()
    for loss in (losses.AbsoluteLoss(np.ones(2), 0.0), losses.QuadraticLoss(np.zeros(2))):
        with pytest.raises(InputError, match="linear losses only"):
            player.observe(loss)
    player.observe(losses.LinearLoss(np.array([1.0, 0.0])))


@pytest.mark.parametrize("learner", ALL)
def test_gradients_that_are_not_finite_too_long_or_of_another_shape_change_nothing(learner):
    player = learner(BALL, **budget()).player(2)
    player.play()
    before = player.state
    for wrong in ([np.nan, 0.0], [np.inf, 0.0], [1.0], [1.0, 0.5]):
        with pytest.raises(InputError):
            player.observe(np.array(wrong))
    assert all(np.array_equal(before[k], player.state[k]) for k in before)
    player.observe(np.array([1.0, 0.0], dtype=np.float32))


@pytest.mark.parametrize("learner", ALL)
def test_the_game_is_over_at_the_horizon(learner):
    player = learner(BALL, **budget(horizon=5)).player(2)
    player.run(np.zeros((5, 2)))
    with pytest.raises(InputError, match="horizon"):
        player.play()


@pytest.mark.parametrize("learner", ALL)
@pytest.mark.parametrize("domain", [BALL, BOX])
@pytest.mark.parametrize("d", [1, 3])
def test_edges(learner, domain, d):
    still = run_game(learner(domain, **budget(20, 5)).player(d), np.zeros((20, d)))
    assert still.switches == 0
    for horizon, switches in ((1, 1.0), (2, 1e-6), (30, 30.0), (30, 1e9), (30, math.inf)):
        player = learner(domain, **budget(horizon, switches)).player(d)
        game = run_game(player, np.full((horizon, d), 1.0 / math.sqrt(d)))
        assert math.isfinite(player.learner.bound(game))
        assert (np.abs(domain.project(game.plays[0]) - game.plays[0]) < 1e-12).all()
    assert game.regret <= player.learner.bound(game) + 10.0


@pytest.mark.parametrize("learner", ALL)
@pytest.mark.parametrize(
    "wrong",
    [
        {"switches": 0.0}, {"switches": -1.0}, {"switches": math.nan}, {"horizon": 0}, {"horizon": 2.5},
        {"horizon": True}, {"lipschitz": 0.0}, {"lipschitz": math.inf}, {"lipschitz": math.nan},
    ],
)  # fmt: skip
def test_options_from_which_nothing_follows_are_refused(learner, wrong):
    with pytest.raises(InputError):
        learner(BALL, **(budget() | wrong))


def test_domains_starts_and_seeds_that_do_not_fit_are_refused():
    for learner in ALL:
        for domain in (Everywhere(), L2Ball(-1.0), "ball"):
            with pytest.raises(InputError):
                learner(domain, **budget())
        with pytest.raises(InputError, match="origin"):
            learner(BALL, **budget()).player(2, start=np.array([0.5, 0.0]))
    with pytest.raises(InputError, match="LazyGibbs cannot play on L1Ball"):
        LazyGibbs(L1Ball(1.0), **budget())
    for learner in LAZY:
        with pytest.raises(InputError, match="seed"):
            learner(BALL, **budget(seed="x"))
        with pytest.raises(InputError):
            learner(Box(0.0, 0.0), **budget())


def test_blocks_keep_to_their_number_of_moves():
    for horizon, switches in ((10, 3), (10, 9), (10, 1), (97, 12), (5, 100)):
        learner = BlockedFTRL(BALL, **budget(horizon, switches))
        game = run_game(learner.player(2), streams.stationary(horizon, 2, seed=0))
        assert game.switches <= switches
