import json
import math

import numpy as np
import pytest

from dpconvex.errors import InputError
from dpconvex.games import Simplex, run_game, streams
from dpconvex.games.learners import (
    FTRL,
    Adaptive,
    DiagonalFTRL,
    Entropy,
    Fixed,
    OnlineMirrorDescent,
    OptimisticDescent,
    ParameterFree,
    PNorm,
    Root,
    StronglyConvexDescent,
    SubgradientDescent,
)
from dpconvex.games.losses import AbsoluteLoss, HingeLoss, QuadraticLoss
from dpconvex.problem.domains import Box, Everywhere, L1Ball, L2Ball

DOMAINS = [L2Ball(2.0), Box(-0.5, 2.0), L1Ball(1.5), Simplex()]
STEPS = [Fixed(0.05), Root(1.0), Adaptive(), Adaptive(0.3)]
LEARNERS = [
    *[SubgradientDescent(domain, step) for domain in DOMAINS for step in STEPS],
    *[OptimisticDescent(domain, step) for domain in DOMAINS for step in STEPS],
    *[FTRL(domain, step) for domain in DOMAINS for step in STEPS],
    *[FTRL(domain, step, optimistic=True) for domain in DOMAINS for step in STEPS],
    *[FTRL(domain, step, PNorm(1.3)) for domain in DOMAINS[1:3] for step in STEPS],
    *[FTRL(Simplex(), step, Entropy(), optimistic) for step in STEPS for optimistic in (False, True)],
    *[OnlineMirrorDescent(domain, 0.05) for domain in DOMAINS],
    *[OnlineMirrorDescent(domain, 0.05, PNorm(1.3)) for domain in DOMAINS[1:3]],
    OnlineMirrorDescent(Simplex(), 0.05, Entropy()),
    *[DiagonalFTRL(domain, eta) for domain in DOMAINS[:3] for eta in (None, 0.3)],
    *[ParameterFree(domain, wealth=wealth) for domain in DOMAINS for wealth in (0.01, 1.0)],
]  # fmt: skip
STREAMS = {
    "stationary": streams.stationary,
    "drifting": streams.drifting,
    "orthogonal": streams.orthogonal,
    "contrary": streams.contrary,
    "spikes": lambda T, d, seed: np.random.default_rng(seed).normal(size=(T, d)) * np.geomspace(1e-3, 1e3, T)[:, None],
    "alternating": lambda T, d, seed: np.where(np.arange(T)[:, None] % 2, 1.0, -1.0) * np.eye(d)[0],
}


def inside(domain, plays):
    return max(float(np.abs(domain.project(x) - x).max()) for x in plays) <= 1e-9


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_regret_is_below_the_bound_and_plays_are_inside(learner, stream):
    game = run_game(learner.player(4), STREAMS[stream](120, 4, 1))
    assert game.regret <= learner.bound(game) * (1 + 1e-9) + 1e-9
    assert inside(learner.domain, game.plays)
    for u in (game.start, game.plays[-1], -game.comparator):  # whoever it is compared with, in the domain
        if inside(learner.domain, [u]):
            against = run_game(learner.player(4), game.gradients, comparator=u)
            assert against.regret <= learner.bound(against) * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_one_dimension_and_one_round(learner):
    game = run_game(learner.player(1), STREAMS["contrary"](50, 1, 2))
    assert game.regret <= learner.bound(game) * (1 + 1e-9) + 1e-9
    assert inside(learner.domain, game.plays)
    once = run_game(learner.player(3), np.array([[0.3, -0.2, 0.1]]))
    assert once.regret <= learner.bound(once) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_zero_gradients_change_nothing(learner):
    player = learner.player(3)
    first = player.play()
    plays = player.run(np.zeros((5, 3)))
    assert np.allclose(plays, first)
    assert np.isfinite(player.play()).all()


@pytest.mark.parametrize("learner", [x for x in LEARNERS if isinstance(getattr(x, "step", None), Adaptive)], ids=str)
def test_adaptive_steps_do_not_mind_the_scale_of_the_losses(learner):
    gradients = streams.drifting(60, 4, seed=3)
    plays = learner.player(4).run(gradients)
    for scale in (1e-60, 1e60):
        assert np.allclose(learner.player(4).run(scale * gradients), plays, atol=1e-7)


def test_bounds_are_not_idle():
    """Each on the opponent that hurts it: a bound that is far too large would pass every other test."""
    T, ball = 2000, L2Ball(1.0)
    for learner, stream, share in [
        (SubgradientDescent(ball), "orthogonal", 0.35),
        (FTRL(ball, Root(math.sqrt(0.5))), "orthogonal", 0.7),
        (FTRL(ball, Fixed(1 / math.sqrt(T))), "orthogonal", 0.99),
        (FTRL(ball), "orthogonal", 0.32),
        (OptimisticDescent(ball), "orthogonal", 0.15),
        (DiagonalFTRL(Box(-1.0, 1.0)), "contrary", 0.1),
        (ParameterFree(ball), "orthogonal", 0.09),
    ]:
        game = run_game(learner.player(4), STREAMS[stream](T, 4, 4))
        assert share * learner.bound(game) <= game.regret <= learner.bound(game), learner


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("stream", ["stationary", "drifting", "spikes", "alternating"])
def test_perfect_hints_leave_no_regret(domain, stream):
    gradients = STREAMS[stream](500, 4, 5)
    learners = [OptimisticDescent(domain), FTRL(domain, optimistic=True)]
    learners += [FTRL(domain, potential=Entropy(), optimistic=True)] if isinstance(domain, Simplex) else []
    for learner in learners:
        game = run_game(learner.player(4), gradients, hints=gradients)
        assert game.regret <= 1e-9 * np.abs(gradients).sum()
        assert learner.bound(game) == 0.0
        blind = run_game(learner.player(4), gradients, hints=np.zeros_like(gradients))
        assert game.total < blind.total


def test_hints_that_are_nearly_right_cost_little_and_wrong_ones_not_much():
    rng = np.random.default_rng(6)
    gradients = STREAMS["drifting"](2000, 5, 6)
    for learner in (OptimisticDescent(L2Ball(1.0)), FTRL(L2Ball(1.0), optimistic=True)):
        regrets = []
        for noise in (1e-3, 1e-1, 10.0):
            hints = gradients + noise * rng.normal(size=gradients.shape)
            game = run_game(learner.player(5), gradients, hints=hints)
            assert game.regret <= learner.bound(game)
            regrets.append(learner.bound(game))
        assert regrets[0] < 0.02 * math.sqrt(2000) * 10
        assert regrets[0] < regrets[1] < regrets[2]


def test_the_last_gradient_is_the_hint_unless_one_is_given():
    gradients = streams.drifting(50, 3, seed=7)
    before = np.vstack([np.zeros(3), gradients[:-1]])
    for learner in (OptimisticDescent(Box(-1.0, 1.0)), FTRL(L2Ball(1.0), optimistic=True)):
        told = run_game(learner.player(3), gradients, hints=before)
        untold = run_game(learner.player(3), gradients)
        assert np.array_equal(told.plays, untold.plays)
        assert learner.bound(told) == learner.bound(untold)


@pytest.mark.parametrize("domain", [Everywhere(), L2Ball(1.0), Box(-0.2, 0.3), L1Ball(1.0), Simplex()], ids=str)
def test_strongly_convex_regret(domain):
    rng = np.random.default_rng(8)
    for mus in (np.ones(400), rng.uniform(0.0, 2.0, 400), np.arange(1.0, 401.0), np.r_[1.0, np.zeros(399)]):
        losses = [QuadraticLoss(rng.normal(size=3), mu, rng.normal(size=3)) for mu in mus]
        learner = StronglyConvexDescent(domain)
        game = run_game(learner.player(3), losses)
        stated = (np.linalg.norm(game.gradients, axis=1) ** 2 / (2.0 * np.cumsum(mus))).sum()
        assert learner.bound(game) == pytest.approx(stated)
        assert game.regret <= stated * (1 + 1e-9)
        if isinstance(domain, Everywhere):  # no step of the proof loses anything
            assert game.regret == pytest.approx(stated, rel=1e-9)
        assert inside(domain, game.plays)
    # with equal curvature and no constraint, the point is the mean of the centres so far
    centres = rng.normal(size=(20, 3))
    player = StronglyConvexDescent(Everywhere()).player(3)
    run_game(player, [QuadraticLoss(c) for c in centres])
    assert np.allclose(player.play(), centres.mean(axis=0))
    plain = StronglyConvexDescent(Everywhere(), mu=1.0).player(1)  # the learner's mu, where the losses have none
    assert plain.run(np.ones((3, 1))).ravel().tolist() == [0.0, -1.0, -1.5]


def test_parameter_free_regret_is_proportional_to_the_distance_over_four_decades():
    T, learner = 5000, ParameterFree(Everywhere(), wealth=1e-3)
    rng = np.random.default_rng(9)
    a = rng.normal(size=(T, 3))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    shares = []
    for r in (1e-2, 1e-1, 1.0, 10.0, 100.0):
        u = r * np.array([0.6, 0.0, -0.8])
        game = run_game(learner.player(3), [AbsoluteLoss(row, float(row @ u)) for row in a], comparator=u)
        assert game.regret <= learner.bound(game)
        shares.append(game.regret / (r * math.sqrt(T * math.log(1.0 + T * r / learner.wealth))))
    assert max(shares) <= 2.0
    assert max(shares) <= 10.0 * min(shares)  # |u| itself changes by a factor of 10^4


def test_parameter_free_pays_at_most_its_wealth_against_the_start():
    for stream in ("stationary", "orthogonal", "contrary"):
        for domain in (L2Ball(1.0), Box(-1.0, 1.0)):
            x = np.array([0.1, 0.2, -0.3])
            game = run_game(ParameterFree(domain, wealth=0.1).player(3, x), STREAMS[stream](1000, 3, 10), comparator=x)
            assert game.regret <= 0.1 + 1e-9


@pytest.mark.parametrize("bias", [0.0, 0.05, 0.5])
def test_parameter_free_wealth_is_what_was_won_and_grows_as_proved(bias):
    gradients = 0.2 * streams.stationary(500, 3, seed=11, bias=bias)
    player = ParameterFree(Everywhere(), wealth=2.0).player(3)
    plays, coins = [], []
    for g in gradients:
        plays.append(player.play())
        coins.append(g @ player.state["direction"])
        player.observe(g)
    wealth = player.state["wealth"]
    assert wealth == pytest.approx(2.0 - (gradients * plays).sum())
    theta, total = abs(sum(coins)), np.square(coins).sum()  # Lemma 3 of the proof note
    beta = (2.0 - math.log(3.0)) / 2.0
    poor = math.exp(beta / 8.0) * (1.0 + 4.0 * total) ** (0.5 / beta)
    assert wealth >= 2.0 / poor * math.exp(min(theta**2 / (4.0 * total), theta / 4.0))


@pytest.mark.parametrize("domain", [L2Ball(1.0), Box(-1.0, 1.0), L1Ball(1.0)], ids=str)
def test_parameter_free_bets_do_not_run_away_outside_of_the_domain(domain):
    """A bet that wins for long while it is outside would take as long to come back."""
    gradients = np.repeat([[-1.0, 0.0], [1.0, 0.0]], [1000, 1500], axis=0)
    learner = ParameterFree(domain)
    game = run_game(learner.player(2), gradients)
    assert game.comparator[0] == -1.0
    assert game.regret <= learner.bound(game) < 1000.0
    assert (game.plays[1600:, 0] < 0.0).all()


def test_parameter_free_raises_its_scale():
    learner = ParameterFree(L2Ball(3.0), lipschitz=1e-3)
    game = run_game(learner.player(4), STREAMS["spikes"](400, 4, 12))
    assert game.regret <= learner.bound(game)
    norms = np.linalg.norm(game.gradients, axis=1)
    known = np.maximum.accumulate(np.r_[1e-3, norms])
    cut = np.maximum(norms - known[:-1], 0.0)
    assert cut.sum() <= known[-1] - 1e-3 + 1e-9


@pytest.mark.parametrize("kind", [AbsoluteLoss, HingeLoss])
@pytest.mark.parametrize(
    "learner",
    [SubgradientDescent(L2Ball(2.0)), FTRL(Box(-1.0, 1.0)), DiagonalFTRL(L1Ball(2.0)), ParameterFree(L2Ball(2.0))],
    ids=str,
)
def test_convex_losses(learner, kind):
    rng = np.random.default_rng(13)
    A, u = rng.normal(size=(400, 3)), np.array([0.5, -0.5, 0.1])
    losses = [kind(a, float(np.sign(a @ u)) if kind is HingeLoss else float(a @ u)) for a in A]
    game = run_game(learner.player(3), losses, comparator=u)
    assert game.regret <= learner.bound(game)
    assert game.total < 0.5 * sum(loss.value(np.zeros(3)) for loss in losses)


@pytest.mark.parametrize(
    "learner",
    [*LEARNERS, StronglyConvexDescent(L2Ball(1.0), mu=0.5), SubgradientDescent(Everywhere(), Fixed(0.1))],
    ids=str,
)
def test_state_is_plain_and_resumes_exactly(learner):
    gradients = streams.drifting(40, 3, seed=14)
    whole = learner.player(3)
    points = whole.run(gradients)
    player = learner.player(3)
    player.run(gradients[:17])
    state = player.state
    text = json.dumps({k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in state.items()})
    again = {k: np.array(v) if isinstance(v, list) else v for k, v in json.loads(text).items()}
    assert np.array_equal(learner.resume(again).run(gradients[17:]), points[17:])
    state["start"][:] = 99.0  # a copy
    assert np.array_equal(player.run(gradients[17:]), points[17:])


def test_resume_refuses_what_is_no_state_of_its_own():
    learner = FTRL(L2Ball(1.0))
    state = learner.player(3).state
    for wrong in (None, {}, state | {"sum": np.zeros(4)}, {k: v for k, v in state.items() if k != "total"}):
        with pytest.raises(InputError, match="state"):
            learner.resume(wrong)
    with pytest.raises(InputError, match="SubgradientDescent"):
        SubgradientDescent(L2Ball(1.0)).resume(state)
    with pytest.raises(InputError, match="not finite"):
        learner.resume(state | {"total": math.nan})


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_bad_gradients_are_refused_and_change_nothing(learner):
    player = learner.player(3)
    player.run(streams.stationary(5, 3, seed=15))
    before, x = player.state, player.play()
    for gradient, message in [
        (np.array([1.0, np.nan, 0.0]), "not finite"),
        (np.array([1.0, np.inf, 0.0]), "not finite"),
        (np.zeros(2), "shape"),
        (np.zeros((3, 1)), "shape"),
        (1.0, "shape"),
        (None, "real numbers"),
        ("abc", "real numbers"),
        (np.array([1j, 0.0, 0.0]), "real numbers"),
        (np.array([1e200, 0.0, 0.0]), "too large for float64"),
    ]:
        with pytest.raises(InputError, match=message):
            player.observe(gradient)
        assert before.keys() == player.state.keys()
        assert all(np.array_equal(before[k], player.state[k]) for k in before)
        assert np.array_equal(player.play(), x)
    player.observe(np.ones(3))


def test_forms_of_gradients():
    learner = SubgradientDescent(L2Ball(1.0))
    want = learner.player(2).run(np.array([[1.0, 2.0], [3.0, -1.0]]))
    for other in (np.array([[1, 2], [3, -1]]), np.array([[1, 2], [3, -1]], dtype=np.float32), [[1, 2], [3, -1]]):
        assert np.array_equal(learner.player(2).run(other), want)
    from scipy import sparse

    with pytest.raises(InputError, match="dense"):
        learner.player(2).run(sparse.csr_array(np.eye(2)))
    for bad in (np.zeros((0, 2)), np.zeros(2), np.zeros((3, 1))):
        with pytest.raises(InputError, match="2 columns and at least one row"):
            learner.player(2).run(bad)
    with pytest.raises(InputError, match="not finite"):
        learner.player(2).run(np.array([[0.0, np.nan]]))


def test_the_order_of_a_round():
    player = FTRL(L2Ball(1.0)).player(2)
    with pytest.raises(InputError, match=r"play\(\) first"):
        player.observe(np.ones(2))
    first = player.play()
    first[:] = 7.0  # a copy
    assert np.array_equal(player.play(), np.zeros(2))
    player.observe(np.ones(2))
    with pytest.raises(InputError, match=r"play\(\) first"):
        player.observe(np.ones(2))


def test_hints_are_checked():
    with pytest.raises(InputError, match="takes no hints"):
        FTRL(L2Ball(1.0)).player(2).play(np.ones(2))
    player = OptimisticDescent(L2Ball(1.0)).player(2)
    for bad in (np.ones(3), np.array([np.nan, 0.0]), "x"):
        with pytest.raises(InputError, match="hint"):
            player.play(bad)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SubgradientDescent(Everywhere()), "Everywhere needs step"),
        (lambda: FTRL(Everywhere()), "Everywhere needs step"),
        (lambda: OptimisticDescent(Everywhere(), Adaptive(1.0)), "follows its hints"),
        (lambda: DiagonalFTRL(Everywhere()), "Everywhere needs"),
        (lambda: DiagonalFTRL(Simplex()), "cannot play on Simplex"),
        (lambda: OnlineMirrorDescent(L2Ball(1.0), 0.1, Entropy()), "takes Simplex"),
        (lambda: OnlineMirrorDescent(L2Ball(1.0), 0.1, PNorm(1.5)), "takes Everywhere, Box, L1Ball"),
        (lambda: FTRL(Simplex(), potential=PNorm(1.5)), "cannot play on Simplex"),
        (lambda: FTRL(L1Ball(1.0), potential=PNorm(1.0)), "p must lie in"),
        (lambda: FTRL(L1Ball(1.0), potential=2.0), "PNorm"),
        (lambda: SubgradientDescent(L2Ball(-1.0)), "radius"),
        (lambda: SubgradientDescent(1.0), "cannot play on float"),
        (lambda: SubgradientDescent(L2Ball(1.0), Fixed(0.0)), "eta must be positive"),
        (lambda: SubgradientDescent(L2Ball(1.0), Fixed(math.nan)), "eta must be positive"),
        (lambda: SubgradientDescent(L2Ball(1.0), 0.1), "takes step"),
        (lambda: OnlineMirrorDescent(L2Ball(1.0), -0.1), "eta must be positive"),
        (lambda: StronglyConvexDescent(L2Ball(1.0), mu=-1.0), "mu must be"),
        (lambda: ParameterFree(L2Ball(1.0), lipschitz=0.0), "lipschitz"),
        (lambda: ParameterFree(L2Ball(1.0), wealth=math.inf), "wealth"),
        (lambda: FTRL(L2Ball(1.0)).player(0), "whole number"),
        (lambda: FTRL(L2Ball(1.0)).player(2.0), "whole number"),
        (lambda: FTRL(L2Ball(1.0)).player(2, np.array([3.0, 0.0])), "outside the domain"),
        (lambda: FTRL(L2Ball(1.0)).player(2, np.zeros(3)), "start has shape"),
        (lambda: FTRL(L1Ball(1.0), potential=PNorm(1.5)).player(2, np.array([0.1, 0.0])), "starts at the origin"),
        (lambda: FTRL(Simplex(), potential=Entropy()).player(2, np.array([1.0, 0.0])), "middle of the simplex"),
        (lambda: StronglyConvexDescent(L2Ball(1.0)).player(1).run(np.ones((1, 1))), "strongly convex"),
    ],
)
def test_what_cannot_be_played_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_bets_too_large_for_float64_are_refused():
    player = ParameterFree(Everywhere()).player(1)
    with pytest.raises(InputError, match="too large for float64"):
        player.run(np.ones((5000, 1)))
    assert player.state["round"] == 0


@pytest.mark.parametrize("start", [None, np.array([0.3, -0.2, 0.1])])
@pytest.mark.parametrize("step", [Fixed(0.05), Root(0.5), Adaptive(0.7), Adaptive()], ids=str)
@pytest.mark.parametrize("domain", [Everywhere(), L2Ball(0.8), Box(-0.3, 0.5)], ids=str)
@pytest.mark.parametrize("kind", [SubgradientDescent, FTRL])
def test_compiled_runs_play_the_same_points(kind, domain, step, start):
    if step == Adaptive() and isinstance(domain, Everywhere):
        step = Adaptive(2.0)
    learner, gradients = kind(domain, step), streams.drifting(500, 3, seed=16)
    gradients[:3] = 0.0
    fast, slow = learner.player(3, start), learner.player(3, start)
    assert learner.compiled()
    plays = np.vstack([fast.run(gradients[:200]), fast.run(gradients[200:])])
    assert np.allclose(plays, run_game(slow, gradients).plays, rtol=0.0, atol=1e-12)
    for k, v in fast.state.items():
        assert np.allclose(v, slow.state[k], rtol=1e-12, atol=1e-12)
    with pytest.raises(InputError, match="too large for float64"):
        fast.run(np.full((2, 3), 1e200))
    assert fast.state["round"] == 500


def test_p_norms_suit_sparse_comparators():
    """On the l1 ball in many dimensions, p near 1 has a bound, and a regret, that hardly grow with d."""
    rng = np.random.default_rng(17)
    d, T = 1000, 500
    gradients = rng.choice([-1.0, 1.0], size=(T, d))
    gradients[:, 3] = rng.choice([-1.0, 1.0], size=T, p=[0.75, 0.25])
    sharp = FTRL(L1Ball(1.0), potential=PNorm(1.0 + 1.0 / math.log(d)))
    blunt = FTRL(L1Ball(1.0))
    games = [run_game(learner.player(d), gradients) for learner in (sharp, blunt)]
    assert sharp.bound(games[0]) < 0.5 * blunt.bound(games[1])
    assert games[0].regret < games[1].regret
