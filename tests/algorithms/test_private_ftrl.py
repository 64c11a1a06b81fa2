"""PrivateFTRL: the compiled rounds against plain ones, its modes, its steps, and what it refuses."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.algorithms.private_ftrl import Leader, PrivateFTRL
from dpconvex.errors import HypothesisError, InputError
from dpconvex.games import losses
from dpconvex.games.game import run_game
from dpconvex.noise import PrefixSum, Source
from dpconvex.theorems.correlated_noise import PREFIX_SUMS

LOGISTIC = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(2.0))
BUDGET = dc.Budget(2.0, 1e-6)
PROBLEMS = [
    LOGISTIC,
    dataclasses.replace(LOGISTIC, domain=dc.domains.Everywhere(), intercept=0.5),
    dataclasses.replace(LOGISTIC, domain=dc.domains.Box(-0.1, 0.2), l2=40.0),
    dc.Problem(dc.losses.Hinge(), domain=dc.domains.L2Ball(0.1), feature_bound=dc.bounds.Linf(0.5), l2=3.0),
]


def some_rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    return X, np.where(X @ np.ones(d) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{type(p.domain).__name__}-{p.l2:g}")
@pytest.mark.parametrize("kind", ["dense", "float32", "sparse", "weighted"])
def test_compiled_rounds_are_those_of_the_port_that_adds_the_noise_itself(problem, kind, monkeypatch):
    """The loop that is handed its noise adds it: round by round the same sums as with the port's own addition."""
    X, y = some_rows(200, 4)
    X = {"sparse": sparse.csr_array(X * (abs(X) > 0.3)), "float32": X.astype(np.float32)}.get(kind, X)
    given = {"sample_weight": np.linspace(0, 2, 200), "weight_cap": 1.5} if kind == "weighted" else {}
    plan = PrivateFTRL("blt", batch=7).plan(problem, n=200, d=4, budget=BUDGET)
    fast = plan.run(X, y, seed=3, **given)
    monkeypatch.setattr(Leader, "_compiled", False)
    slow = plan.run(X, y, seed=3, **given)
    assert np.allclose(fast.iterates["sums"], slow.iterates["sums"], rtol=1e-11, atol=1e-11)
    assert np.allclose(fast.weights, slow.weights, rtol=1e-10)
    assert fast.iterates["sums"].shape[0] == 29  # 28 rounds of 7, and one of 4


@pytest.mark.parametrize("fixed", [False, True])
def test_sums_are_those_of_the_gradients_at_the_plays_and_the_noise_of_the_law(fixed):
    X, y = some_rows(60, 3)
    plan = PrivateFTRL("tree", batch=5, step=0.7, fixed=fixed).plan(LOGISTIC, n=60, d=3, budget=BUDGET)
    solution = plan.run(X, y, seed=11)
    (release,) = plan.releases
    backend, _ = PREFIX_SUMS[release.law]
    stream = PrefixSum(backend, release.times).stream(3, release.scale, release.grid, Source(11), "sums")
    rows = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    total, mean, weight = np.zeros(3), np.zeros(3), 0.0
    for t in range(12):
        play = -0.7 / (1.0 if fixed else np.sqrt(max(5 * t, 1))) * total
        play *= min(1.0, 2.0 / max(np.linalg.norm(play), 1e-300))
        some = slice(5 * t, 5 * t + 5)
        slope = -y[some] / (1.0 + np.exp(y[some] * (rows[some] @ play)))
        (total,) = stream.add((slope @ rows[some])[None], [1.0])
        assert np.allclose(solution.iterates["sums"][t], total, rtol=1e-12, atol=1e-12)
        index = np.arange(5 * t + 1, 5 * t + 6).sum()  # record i counts i
        mean, weight = mean + index * play, weight + index
    assert np.allclose(solution.weights, mean / weight, rtol=1e-10)


def test_the_compiled_rounds_keep_every_bit_of_the_filters():
    """Compilers may reorder sums over rows, but not those of filters, which keep their own errors: no bit differs."""
    problem = dc.Problem(dc.losses.Linear(), domain=dc.domains.L2Ball(1.0))
    plan = PrivateFTRL(batch=3).plan(problem, n=2400, d=5, budget=BUDGET)
    X = np.random.default_rng(2).integers(-1, 2, size=(2400, 5)) / 4.0  # whose sums are exact
    (release,) = plan.releases
    found = plan.run(X, np.ones(2400), seed=4).iterates["sums"]
    stream = PrefixSum("blt", release.times).stream(5, release.scale, release.grid, Source(4), "sums")
    assert np.array_equal(found, stream.add(-X.reshape(800, 3, 5).sum(axis=1), np.ones(800)))


def test_the_same_rows_give_the_same_bits_wherever_they_lie_in_memory():
    """A stream that is resumed releases a model again: it has to be the same one."""
    problem = dc.Problem(dc.losses.SmoothedHinge(), domain=dc.domains.L2Ball(1.0), intercept=0.5)
    plan = PrivateFTRL("blt", batch=32).plan_stream(problem, d=3, budget=BUDGET)
    X, y = some_rows(640, 3)
    rng, kept, found = np.random.default_rng(0), [], set()
    for _ in range(120):
        session = plan.start(dataset="same bits", seed=1)
        for first in range(0, 640, 64):
            kept.append(np.empty(rng.integers(1, 300)))  # so that arrays lie elsewhere each time
            session.feed(X[first : first + 64].copy(), y[first : first + 64])
        del kept[:-40]
        found.add(session.solution().weights.tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("mode", ["blt", "tree", "honaker", "composition", "linear"])
def test_the_claim_is_the_whole_budget_and_no_more(mode, relation):
    problem = dc.Problem(dc.losses.Linear(), domain=dc.domains.L2Ball(1.0)) if mode == "linear" else LOGISTIC
    budget = dc.Budget(1.0, 1e-6, relation)
    plan = PrivateFTRL(mode).plan(problem, n=500, d=3, budget=budget)
    moved = problem.lipschitz(3).value * (2.0 if relation == "replace_one" else 1.0)
    assert plan.releases[0].scale == pytest.approx(moved / budget.mu, rel=1e-9)
    assert plan.claim.profile.mu == pytest.approx(budget.mu, rel=1e-9)
    assert plan.claim.profile.mu <= budget.mu
    assert len(plan.releases) == 1


def test_linear_mode_is_one_noisy_sum_and_the_leader_after_it():
    X, y = some_rows(100, 3)
    problem = dc.Problem(dc.losses.Linear(2.0), domain=dc.domains.L2Ball(1.5))
    plan = PrivateFTRL("linear", step=5.0).plan(problem, n=100, d=3, budget=dc.Budget(1e3, 1e-6))
    solution = plan.run(X, y, seed=0)
    rows = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    expected = 5.0 / 10.0 * 2.0 * y @ rows
    expected *= min(1.0, 1.5 / np.linalg.norm(expected))
    assert np.allclose(solution.weights, expected, rtol=0.05)
    assert solution.iterates["sum"].shape == (1, 3)


@pytest.mark.parametrize("p", [1.05, 1.3, 2.0])
def test_any_p_on_the_l1_ball_and_the_box_finds_a_sparse_truth(p):
    X, _ = some_rows(4000, 20, seed=2)
    y = np.where(X[:, 3] > 0, 1.0, -1.0)
    for domain in (dc.domains.L1Ball(3.0), dc.domains.Box(-3.0, 3.0)):
        plan = PrivateFTRL(p=p, batch=40).plan(
            dataclasses.replace(LOGISTIC, domain=domain), n=4000, d=20, budget=dc.Budget(8.0, 1e-6)
        )
        w = plan.run(X, y, seed=1).weights
        assert np.abs(w).argmax() == 3
        assert np.array_equal(domain.project(w), w)


def test_correlated_noise_beats_the_tree_and_the_tree_fresh_noise():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(20_000, 10))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    truth = 5.0 * np.eye(10)[0]
    y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-X @ truth)), 1.0, -1.0)
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))

    def mean_loss(mode):
        plan = PrivateFTRL(mode).plan(problem, n=20_000, d=10, budget=dc.Budget(0.2, 1e-6))
        found = [plan.run(X, y, seed=s).weights for s in range(8)]
        return np.mean([np.logaddexp(0, -y * (X @ w)).mean() for w in found])

    best = np.logaddexp(0, -y * (X @ truth)).mean()
    blt, tree, fresh = (mean_loss(mode) - best for mode in ("blt", "tree", "composition"))
    assert blt < 0.8 * tree < 0.4 * fresh


def test_without_noise_regret_grows_like_the_root_of_the_rounds():
    """FTRL on linear losses, its steps set by hand: at most (D^2/(2 eta) + eta) L sqrt(T)."""
    problem = dc.Problem(dc.losses.Linear(), domain=dc.domains.L2Ball(1.0))
    rng = np.random.default_rng(0)
    for T in (100, 1000, 4000):
        plan = PrivateFTRL("blt", batch=1, step=0.7).plan(problem, n=T, d=3, budget=dc.Budget(1e3, 1e-6))
        gradients = rng.normal(size=(T, 3))
        gradients /= np.linalg.norm(gradients, axis=1, keepdims=True)
        game = run_game(plan.start(dataset=f"regret {T}", seed=0), gradients)
        assert game.regret <= (0.5 / 0.7 + 0.7) * np.sqrt(T) + 1.0
        assert (np.linalg.norm(game.plays, axis=1) <= 1.0 + 1e-12).all()


def test_a_private_player_learns_from_absolute_losses():
    problem = dc.Problem(dc.losses.Linear(), domain=dc.domains.L2Ball(2.0))
    rng = np.random.default_rng(1)
    rows, u = rng.normal(size=(4000, 3)), np.array([1.0, -0.5, 0.0])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    plan = PrivateFTRL("blt").plan_stream(problem, d=3, budget=dc.Budget(4.0, 1e-6))
    player = plan.start(dataset="a game of absolute losses", seed=0)
    game = run_game(player, [losses.AbsoluteLoss(a, a @ u) for a in rows], comparator=u)
    assert game.regret < 0.5 * sum(abs(rows @ u))  # of what standing still pays
    assert np.linalg.norm(player.solution().weights - u) < 0.35


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "paper"}, "mode must be one of"),
        ({"p": 1.0}, r"p must be a number in \(1, 2\]"),
        ({"p": 2.5}, r"p must be a number in \(1, 2\]"),
        ({"batch": 0}, "batch must be a whole number"),
        ({"batch": 2.5}, "batch must be a whole number"),
        ({"step": 0.0}, "step must be a number"),
        ({"step": float("nan")}, "step must be a number"),
        ({"fixed": True}, "fixed=True needs a step"),
        ({"fixed": 1, "step": 1.0}, "fixed must be"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        PrivateFTRL(**options)


def test_what_cannot_be_planned_says_what_to_use():
    with pytest.raises(InputError, match="batch must not exceed"):
        PrivateFTRL(batch=50).plan(LOGISTIC, n=20, d=2, budget=BUDGET)
    with pytest.raises(HypothesisError, match="needs the loss Linear"):
        PrivateFTRL("linear").plan(LOGISTIC, n=20, d=2, budget=BUDGET)
    linear = dc.Problem(dc.losses.Linear(), domain=dc.domains.L2Ball(1.0))
    with pytest.raises(HypothesisError, match="use another mode for a stream"):
        PrivateFTRL("linear").plan_stream(linear, d=2, budget=BUDGET)
    with pytest.raises(InputError, match="releases one sum, after all records"):
        PrivateFTRL("linear").plan(linear, n=20, d=2, budget=BUDGET).start()
    with pytest.raises(HypothesisError, match="leave l2 at 0"):
        PrivateFTRL().plan_stream(dataclasses.replace(LOGISTIC, l2=1.0), d=2, budget=BUDGET)
    with pytest.raises(InputError, match="rounds must be a whole number"):
        PrivateFTRL().plan_stream(LOGISTIC, d=2, budget=BUDGET, rounds=0)
    with pytest.raises(InputError, match="rounds are too many"):
        PrivateFTRL(batch=1).plan(LOGISTIC, n=2**30, d=2, budget=dc.Budget(1.0, 1e-12))
    with pytest.raises(InputError, match="p < 2"):
        PrivateFTRL(p=1.5).plan(LOGISTIC, n=20, d=2, budget=BUDGET)
    with pytest.raises(InputError, match="budget must be"):
        PrivateFTRL().plan_stream(LOGISTIC, d=2, budget=1.0)


def test_plans_read_well():
    text = str(PrivateFTRL("blt").plan_stream(LOGISTIC, d=2, budget=BUDGET))
    assert "any number of 64 records at most" in text
    assert "by blt, open horizon" in text
    assert "1000 of 2 records at most" in str(PrivateFTRL().plan(LOGISTIC, n=2000, d=2, budget=BUDGET))


def test_the_last_play_is_returned_if_asked_for():
    """The leader on all noisy sums: what a stream would play next, and not the mean of the plays."""
    X, y = some_rows(60, 3)
    for batch in (1, 7):
        plans = [
            PrivateFTRL("tree", batch=batch, step=0.7, last=last).plan(LOGISTIC, n=60, d=3, budget=BUDGET)
            for last in (False, True)
        ]
        mean, last = (plan.run(X, y, seed=3, dataset="last play") for plan in plans)
        assert np.array_equal(mean.iterates["sums"], last.iterates["sums"])
        theta = -0.7 / math.sqrt(60) * last.iterates["sums"][-1]
        assert np.allclose(last.weights, LOGISTIC.domain.project(theta))
        assert not np.allclose(mean.weights, last.weights)
        assert plans[0].claim.profile == plans[1].claim.profile
        assert dc.verify(last.receipt)


def test_the_printed_constants_are_for_linear_losses():
    problem = dc.Problem(dc.losses.Linear(2.0), domain=dc.domains.L2Ball(1.5))
    plan = PrivateFTRL("linear", constants="paper").plan(problem, n=400, d=3, budget=dc.Budget(1.0, 1e-6))
    alpha = 1.0 + 2.0 * math.log(1e6)
    sigma = 2.0 * alpha * 2.0 / math.sqrt(400 * 0.5)  # of every round, Theorem 4.1
    assert plan.releases[0].scale == pytest.approx(sigma * math.sqrt(400), rel=1e-9)
    assert plan.schedule[0].eta == pytest.approx(1.5 / math.sqrt(2.0 * 400 * (4.0 + 3.0 * sigma**2)))
    assert 0.0 < plan.claim.epsilon(1e-6) < 0.2
    X, y = some_rows(400, 3)
    solution = plan.run(X, y, seed=0, dataset="printed leader")
    theta = -plan.schedule[0].eta * solution.iterates["sum"][0]
    assert np.allclose(solution.weights, problem.domain.project(theta))
    assert dc.verify(solution.receipt)
    with pytest.raises(InputError, match="false"):
        PrivateFTRL(constants="paper")
    with pytest.raises(InputError, match="unset"):
        PrivateFTRL("linear", constants="paper", step=1.0)
    with pytest.raises(HypothesisError, match="bounded"):
        PrivateFTRL("linear", constants="paper").plan(
            dc.Problem(dc.losses.Linear()), n=20, d=2, budget=dc.Budget(1.0, 1e-6)
        )
