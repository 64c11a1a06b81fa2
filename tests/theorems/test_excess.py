"""Upper bounds on the excess loss: against measured excess, plain sums, and how often they fail."""

import dataclasses
import math

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.algorithms.objective_perturbation import excess_loss
from dpconvex.errors import HypothesisError, InputError
from dpconvex.games.potentials import PNorm
from dpconvex.theorems.excess import leader_excess, linear_error, linear_excess, normal_length, truncated_excess

BALL = dc.domains.L2Ball(1.0)
BUDGET = dc.Budget(4.0, 1e-6)
LINEAR, SQUARED = dc.Problem(dc.losses.Linear(), BALL), dc.Problem(dc.losses.Squared(1.0), BALL)
TRUTH = np.array([0.6, -0.3, 0.0])


def drawn(n, seed, linear=True):
    """Records on the sphere, whose least population loss is known."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    if linear:  # the label is the sign of a feature but for a third: mean gradient -E y x
        return X, np.where(rng.random(n) < 1 / 3, 1.0, np.sign(X[:, 0]))
    return X, np.clip(X @ TRUTH + 0.2 * rng.uniform(-1, 1, n), -1, 1)


def excess(w, linear=True):
    """Population excess loss: E y x = (1/3, 0, 0), two thirds of E |x_1| = 1/2; and E x x' = I / 3."""
    return (1.0 - w[0]) / 3.0 if linear else np.sum((w - TRUTH) ** 2) / 6.0


@pytest.mark.parametrize(
    ("options", "linear", "n"),
    [
        ({"mode": "linear"}, True, 2000),
        ({"mode": "linear", "constants": "paper"}, True, 2000),
        ({"step": 0.1}, True, 2000),
        ({"step": 0.1}, False, 2000),
        ({"step": 0.002, "fixed": True, "batch": 10}, False, 2000),
        ({}, False, 20_000),
    ],
    ids=["linear", "printed", "step", "squares", "fixed", "default"],
)
def test_measured_excess_stays_below_the_bound(options, linear, n):
    """On average below the mean, and never once in forty runs above what may be exceeded once in five."""
    plan = dc.algorithms.PrivateFTRL(**options).plan(LINEAR if linear else SQUARED, n=n, d=3, budget=BUDGET)
    runs = 40 if n == 2000 else 4
    found = np.array(
        [excess(plan.run(*drawn(n, s, linear), seed=s, dataset="bounds").weights, linear) for s in range(runs)]
    )
    mean, likely = plan.most_excess(), plan.most_excess(beta=0.2)
    assert 0.0 <= found.mean() <= mean.value < likely.value
    assert (found > likely.value).mean() <= 0.2
    assert str(mean) in plan.utility
    assert "vacuous" in plan.utility if not options else "vacuous" not in plan.utility
    assert "probability 0.8 or more" in str(likely)


def test_the_bound_for_linear_losses_is_met_within_a_small_factor():
    """A law without a direction to gain: coins. The bound is within four times what the worst of some biases has."""
    plan = dc.algorithms.PrivateFTRL("linear").plan(LINEAR, n=1000, d=3, budget=BUDGET)
    worst = 0.0
    for bias in (0.02, 0.05, 0.1):
        lost = []
        for s in range(30):
            rng = np.random.default_rng(s)
            X = np.where(rng.random((1000, 1)) < (1 + bias) / 2, 1.0, -1.0) * np.array([[1.0, 0.0, 0.0]])
            lost.append(bias * (1.0 - plan.run(X, np.ones(1000), seed=s, dataset="coins").weights[0]))
        worst = max(worst, float(np.mean(lost)))
    assert worst < plan.most_excess().value < 4.0 * worst


def test_the_default_step_of_linear_losses_leaves_no_bias():
    """Short mean gradients: four times as many records halve the bound, and the excess goes with it."""
    plans = [dc.algorithms.PrivateFTRL("linear").plan(LINEAR, n=n, d=3, budget=BUDGET) for n in (1000, 4000, 16_000)]
    bounds = [p.most_excess().value for p in plans]
    assert bounds[0] / bounds[1] == pytest.approx(2.0, abs=0.2)
    assert bounds[1] / bounds[2] == pytest.approx(2.0, abs=0.1)
    n = 16_000
    X = np.where(np.random.default_rng(0).random((n, 1)) < (1 + 1 / 24) / 2, 1.0, -1.0) * np.array([[1.0, 0.0, 0.0]])
    w = plans[2].run(X, np.ones(n), seed=0, dataset="short gradients").weights
    assert (1.0 - w[0]) / 24 < bounds[2] < 1 / 48  # steps of 12 R / (n L) would end half-way: 1/48


def test_regret_on_any_losses_is_bounded_with_the_noise_that_was_drawn():
    """Inequality (1) of the proof, in a run: with l2, on a box, on losses that change sides."""
    n, B, eta = 240, 4, 0.3
    problem = dc.Problem(dc.losses.Logistic(), dc.domains.Box(-0.5, 0.4), l2=30.0)
    plan = dc.algorithms.PrivateFTRL("tree", batch=B, step=eta).plan(problem, n=n, d=3, budget=BUDGET)
    X, y = drawn(n, 3)
    y = np.where(np.arange(n) // 60 % 2, y, -y)
    noisy = plan.run(X, y, seed=1, dataset="regret").iterates["sums"]
    steep = 1.0 + problem.l2 / n * problem.domain.reach(3)
    total, pull, before, sums = np.zeros(3), np.zeros(3), np.zeros(3), []
    bound, pairs = 0.0, []
    for t in range(n // B):
        step = eta / math.sqrt(max(t, 1) * B)
        w = problem.domain.project(-step * (before + pull))
        part = slice(t * B, t * B + B)
        g = -(y[part] / (1.0 + np.exp(y[part] * (X[part] @ w)))) @ X[part]
        h = g + problem.l2 / n * B * w
        pairs.append((h, w))
        bound += 0.5 * step * (B * steep) ** 2 + B * steep * step * np.linalg.norm(before - total)
        total, pull, before = total + g, pull + problem.l2 / n * B * w, noisy[t]
        sums.append(total)
    for u in (np.array([0.4, 0.4, 0.4]), np.array([-0.5, 0.4, -0.5]), np.zeros(3), -np.array([0.5, 0.5, 0.5])):
        regret = sum(h @ (w - u) for h, w in pairs)
        assert regret <= bound + 0.5 * u @ u * math.sqrt(n - B) / eta
    assert np.linalg.norm(noisy - sums) > 1.0  # there was noise


def plain(n, batch, eta, longest, noise, length, beta):
    """Theorem 1 term by term, with noise that is the same in all rounds."""
    starts = np.arange(0, n, batch)
    etas = np.minimum(eta / np.sqrt(np.maximum(starts, batch)), longest)
    h = math.sqrt(2 * math.log(2 / beta)) if beta else 0.0
    regret = 0.5 / etas[-1] + 0.5 * (etas * batch**2).sum() + batch * (etas[1:] * noise).sum() * (length + h)
    last = n - starts[-1]
    return (regret + (2.0 * math.sqrt(n) * h if beta else 0.0)) * (n - last + (last + 1) / 2) / (n * (n + 1) / 2)


@pytest.mark.parametrize(("n", "batch"), [(10, 3), (1000, 1), (200_000, 1)])
@pytest.mark.parametrize("beta", [None, 0.05])
def test_sums_over_rounds_are_those_of_the_theorem(n, batch, beta):
    given = {"n": n, "batch": batch, "width": 0.5, "slope": 1.0, "steep": 1.0, "length": 2.0, "diameter": 2.0}
    for eta, longest in ((0.3, math.inf), (50.0, 0.2)):
        found = leader_excess(
            **given, step=lambda m, e=eta, c=longest: np.minimum(e / np.sqrt(np.maximum(m, 1)), c), noise=(3.0, 3.0),
            beta=beta,
        )  # fmt: skip
        expected = plain(n, batch, eta, longest, 3.0, 2.0, beta)
        assert expected * (1 - 1e-12) <= found
        assert found <= expected * 1.02


@pytest.mark.parametrize(("size", "p"), [(1, 2.0), (20, 2.0), (20, 1.5), (500, 1.1)])
def test_the_mean_length_of_normal_vectors_is_bounded(size, p):
    z = np.random.default_rng(0).normal(size=(4000, size))
    mean = np.linalg.norm(z, p / (p - 1), axis=1).mean()
    assert mean < normal_length(size, p) < 1.3 * mean


@pytest.mark.parametrize("p", [1.2, 1.6])
def test_other_norms_are_covered(p):
    """On the l1 ball: the leader after one noisy sum is off by no more than stated."""
    domain, n, rng = dc.domains.L1Ball(1.0), 20_000, np.random.default_rng(1)
    potential, noise, length = PNorm(p), 100.0, normal_length(4, p)
    width = potential.width(domain, np.zeros(4))
    given = {"n": n, "width": width, "slope": 1.0, "noise": noise, "length": length, "p": p, "diameter": 2.0}
    eta = 10.0 * math.sqrt(width) / linear_error(n, 1.0, noise, length, p)
    lost = []
    for _ in range(100):
        forward = rng.binomial(n, 0.55)  # of n records +-e_1
        w = potential.respond(
            eta * ((2 * forward - n) * np.eye(4)[0] + noise * rng.normal(size=4)), domain, np.zeros(4)
        )
        lost.append(0.1 * (1.0 - w[0]))
    assert np.mean(lost) <= linear_excess(**given, eta=eta) < 0.1
    assert np.mean(np.array(lost) > linear_excess(**given, eta=eta, beta=0.2)) <= 0.2


def test_heavy_tails_are_bounded_with_high_probability():
    """Targets with t(3) noise, 12 times of 40,000 records: E g^2 = |w - w*|^2 / 3 + E noise^2 <= 4/3 + 1/4."""
    problem = dc.Problem(dc.losses.Squared(target=1e6), BALL)
    algorithm = dc.algorithms.TruncatedMirrorDescent(p=2.0, truncation=6.0, batches=200, noise="gaussian", radius=1.0)
    plan = algorithm.plan(problem, n=40_000, d=3, budget=BUDGET)
    moment = math.sqrt(4 / 3 + 1 / 4)
    found = []
    for s in range(12):
        X, _ = drawn(40_000, s)
        y = X @ TRUTH + 0.5 / math.sqrt(3.0) * np.random.default_rng(s).standard_t(3, 40_000)
        found.append(excess(plan.run(X, y, seed=s, dataset="heavy tails").weights, linear=False))
    mean, likely = plan.most_excess(moment=moment), plan.most_excess(beta=0.25, moment=moment)
    assert np.mean(found) <= mean.value < likely.value < moment  # what the start may have
    assert np.mean(np.array(found) > likely.value) <= 0.25
    printed = dc.algorithms.TruncatedMirrorDescent(p=2.0, constants="paper", noise="gaussian", radius=1.0)
    for seen in (plan, printed.plan(problem, n=40_000, d=3, budget=BUDGET)):
        assert 0.0 < seen.most_excess(moment=moment).value < seen.most_excess(beta=0.01, moment=moment).value


def test_bounds_for_cut_gradients_are_those_of_the_theorem():
    """One step and one batch, by hand; and without cuts, noise or steps the sum of what is left."""
    given = {"batch": 10, "growth": 1.0, "clip": 2.0, "zero": False, "length": 2.0, "kappa": 3.0, "diameter": 4.0}
    found = truncated_excess(**given, steps=1, rate=0.5, cuts=True, moment=1.5, noise=1.0, radius=2.0)
    assert found == pytest.approx(2 * 3 * 4 / 0.5 + 1.5 * 4 + 0.25 * (1.5 + 0.2) ** 2 + 4 * 1.5**2 / 8)
    fewer = truncated_excess(**given, steps=1, rate=0.5, cuts=False, moment=1.5, noise=1.0, radius=2.0)
    assert found - fewer == pytest.approx(4 * 1.5**2 / 8)
    zero = truncated_excess(**{**given, "zero": True}, steps=1, rate=0.5, cuts=True, moment=1.5, noise=1.0, radius=2.0)
    assert zero - fewer == pytest.approx(4 * 1.5**2 / 2)
    log = math.log(4 / 0.1)
    sure = truncated_excess(**given, steps=4, rate=0.5, cuts=False, moment=1.5, noise=1.0, radius=2.0, beta=0.1)
    squares = math.sqrt((math.e - 1) * 1.5**2 + 4 * log / 40) + (2 + math.sqrt(2 * math.log(160))) / 10
    chance = 4 * (1.5 * math.sqrt(2 * log / 40) + 2 * 2 * log / 120) + 2 * 2 / 10 * math.sqrt(2 * log / 4)
    assert sure == pytest.approx((2 * 3 * 4 / 0.5 + 6) / 4 + 0.25 * squares**2 + chance)


def test_what_is_not_proved_is_refused_in_words():
    def plan(problem=SQUARED, n=100, **options):
        return dc.algorithms.PrivateFTRL(**options).plan(problem, n=n, d=3, budget=BUDGET)

    for beta in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(InputError, match="between 0 and 1"):
            plan().most_excess(beta)
    with pytest.raises(HypothesisError, match="last play"):
        plan(last=True).most_excess()
    assert "last play" in plan(last=True).utility
    with pytest.raises(HypothesisError, match="no minimiser"):
        plan(dc.Problem(dc.losses.Linear()), mode="linear").most_excess()
    free = dc.Problem(dc.losses.Logistic())
    assert "for a solution within 5 of the start" in plan(free).utility
    with pytest.raises(HypothesisError, match="bounded domain"):
        plan(free).most_excess(0.1)
    with pytest.raises(HypothesisError, match="unbounded domain"):
        plan(dataclasses.replace(free, l2=1.0)).most_excess()
    stream = dc.algorithms.PrivateFTRL().plan_stream(SQUARED, d=3, budget=BUDGET, rounds=5)
    with pytest.raises(HypothesisError, match="end at any time"):
        stream.most_excess()
    assert "end at any time" in stream.utility
    with pytest.raises(HypothesisError, match="utility"):
        dc.algorithms.NoisyGD().plan(LINEAR, n=100, d=3, budget=BUDGET).most_excess()
    with pytest.raises(InputError, match="TruncatedMirrorDescent"):
        plan().most_excess(moment=1.0)

    def cut(problem=SQUARED, **options):
        return dc.algorithms.TruncatedMirrorDescent(**options).plan(problem, n=100, d=3, budget=BUDGET)

    with pytest.raises(HypothesisError, match="as moment"):
        cut(noise="gaussian").most_excess()
    wide = dc.algorithms.TruncatedMirrorDescent(noise="generalised", p=1.1).plan(SQUARED, n=100, d=50, budget=BUDGET)
    with pytest.raises(HypothesisError, match="Gaussian noise"):
        wide.most_excess(moment=1.0)
    with pytest.raises(InputError, match="moment must be"):
        cut(noise="gaussian").most_excess(moment=0.0)
    smooth = cut(dc.Problem(dc.losses.Logistic(), BALL), noise="gaussian", p=2.0)
    assert smooth.most_excess().value == smooth.most_excess(moment=9.0).value  # gradients are bounded: no moment above
    assert plan(n=2, batch=2).most_excess().value == pytest.approx(2.0)  # one round: the start


def test_a_vacuous_bound_names_the_step_with_the_least():
    plan = dc.algorithms.PrivateFTRL().plan(SQUARED, n=20_000, d=3, budget=BUDGET)
    step = float(plan.utility.split("step=")[1].split()[0])
    stated = float(plan.utility.split("least bound, ")[1].split(")")[0])

    def bound(step):
        return dc.algorithms.PrivateFTRL(step=step).plan(SQUARED, n=20_000, d=3, budget=BUDGET).most_excess().value

    assert bound(step) == pytest.approx(stated, rel=0.05)
    assert bound(step) < min(bound(1.5 * step), bound(step / 1.5))


def test_bounds_lie_above_what_is_possible():
    for n in (1000, 100_000):
        plan = dc.algorithms.PrivateFTRL("linear").plan(LINEAR, n=n, d=3, budget=BUDGET)
        assert plan.least_excess().value < plan.most_excess().value < 12 * plan.least_excess().value


# ---- objective perturbation: the width of the domain


@pytest.mark.parametrize("domain", [dc.domains.L2Ball(0.5), dc.domains.Box(-0.2, 0.2)], ids=str)
def test_the_tilt_costs_no_more_than_its_width_over_the_domain(domain):
    n, d = 400, 10
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)
    problem = dc.Problem(dc.losses.Logistic(), domain, l2=2.0)
    plan = dc.algorithms.ObjectivePerturbation().plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-6))
    best = dc.algorithms.ObjectivePerturbation().plan(problem, n=n, d=d, budget=dc.Budget(1e3, 1e-6))

    def mean_loss(w):
        return (np.logaddexp(0, -y * (X @ w)).sum() + w @ w) / n

    least = mean_loss(best.run(X, y, seed=0, dataset="width").weights)  # all but the minimum
    found = np.array([mean_loss(plan.run(X, y, seed=s, dataset="width").weights) for s in range(40)]) - least
    tilt = plan.releases[0].scale
    by_dimension = (tilt * math.sqrt(d)) ** 2 / (2 * problem.l2) / n
    mean, likely = plan.most_excess(), plan.most_excess(beta=0.2)
    assert 0.0 < found.mean() <= mean.value < 0.5 * by_dimension
    assert (found > likely.value).mean() <= 0.2
    assert mean.value < likely.value
    assert mean.over == "records"
    assert mean.value < math.log(2.0)  # what weights of zero have


def test_the_two_bounds_on_a_tilt_are_those_of_one_dimension():
    """A quadratic function on an interval: the excess can be integrated."""
    z, weight = np.polynomial.hermite_e.hermegauss(200)
    weight /= weight.sum()
    for l2, reach in ((1.0, 0.2), (1.0, 5.0)):
        problem = dc.Problem(dc.losses.Logistic(), dc.domains.L2Ball(reach), l2=l2)
        for tilt in (0.1, 1.0, 10.0):
            w = np.clip(-tilt * z / l2, -reach, reach)  # minimiser of l2 w^2 / 2 + tilt z w
            mean = (weight * 0.5 * l2 * w**2).sum()
            bound = excess_loss(problem, 1, 1, tilt, 0.0, 0.0)
            assert mean <= bound == pytest.approx(min(tilt**2 / (2 * l2), tilt * reach))
            chance = excess_loss(problem, 1, 1, tilt, 0.0, 0.0, beta=0.1)
            assert (weight * (0.5 * l2 * w**2 > chance)).sum() <= 0.1
