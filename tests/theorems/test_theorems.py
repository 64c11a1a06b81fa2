import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import lsq_linear, minimize

import dpconvex as dc
from dpconvex import theorems
from dpconvex.errors import HypothesisError
from dpconvex.kernel.claims import Bounded, Guarantee, Release, Scope, concludes_claim, concludes_fact, need_records
from dpconvex.kernel.profiles import GDP, ApproxDP
from dpconvex.problem.facts import Kind
from dpconvex.theorems.schedules import Constant, Growing, Listed

PROBLEM = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))


@concludes_fact
def assumed(kind: str, value: float, relation: str | None = None) -> Bounded:
    """A fact for tests: the kernel's own decorator seals it."""
    return Bounded(Kind[kind], value, "assumed by a test", relation)


@concludes_claim
def assumed_claim(eps: float, dlt: float) -> Guarantee:
    return Guarantee(ApproxDP(eps, dlt), "replace_one", Scope.EVERY)


def sensitivity(value, relation="replace_one"):
    return assumed("SENSITIVITY", value, relation)


def gaussian(mu, name="x", relation="replace_one"):
    return theorems.gaussian(sensitivity(mu, relation), Release(name, "gaussian", 1.0, (2,)))


def chain(s, c, nu, period, **options):
    return theorems.noisy_contraction(
        [sensitivity(v) for v in s],
        [assumed("CONTRACTION", v) for v in c],
        [Release(f"step {t}", "gaussian", v, (1,)) for t, v in enumerate(nu)],
        period,
        **options,
    )


# gaussian, parallel, compose, post_process, group ----------------------------------------------------------------


def test_gaussian_is_sensitivity_over_scale():
    claim = theorems.gaussian(sensitivity(3.0), Release("x", "gaussian", 2.0, (5,)))
    assert claim.profile.mu == pytest.approx(1.5, rel=2e-11)
    assert claim.relation == "replace_one"
    assert claim.scope is Scope.EVERY


def test_gaussian_refuses_what_it_cannot_use():
    release = Release("x", "gaussian", 2.0, (5,))
    with pytest.raises(HypothesisError, match="must be a Fact"):
        theorems.gaussian(3.0, release)
    with pytest.raises(HypothesisError, match="SENSITIVITY"):
        theorems.gaussian(PROBLEM.lipschitz(3), release)
    with pytest.raises(HypothesisError, match="Gaussian noise only"):
        theorems.gaussian(sensitivity(3.0), Release("x", "laplace", 2.0, (5,)))
    with pytest.raises(HypothesisError, match="no noise"):
        theorems.gaussian(sensitivity(3.0), Release("x", "gaussian", 0.0, (5,)))


def test_compose_adds_squares_and_parallel_takes_the_largest():
    claims = [gaussian(3.0, "a"), gaussian(4.0, "b")]
    assert theorems.compose(claims).profile.mu == pytest.approx(5.0, rel=4e-11)
    assert theorems.parallel(claims, [range(0, 5), range(5, 9)]).profile.mu == pytest.approx(4.0, rel=2e-11)


def test_composition_of_gaussians_equals_the_exact_joint_mechanism():
    # Two releases of a pair that moves both means are one Gaussian in the plane: distance hypot(mu1, mu2).
    total = theorems.compose([gaussian(0.6, "a"), gaussian(0.8, "b")])
    assert total.delta(0.5) == pytest.approx(GDP(1.0).delta(0.5), rel=1e-9)


def test_a_release_drawn_many_times_costs_the_root_of_their_number():
    claim = theorems.gaussian(sensitivity(0.1), Release("steps", "gaussian", 2.0, (5,), 100))
    singles = [theorems.gaussian(sensitivity(0.1), Release(f"s{t}", "gaussian", 2.0, (5,))) for t in range(100)]
    assert claim.profile.mu == pytest.approx(0.5, rel=2e-11)
    assert claim.profile.mu == pytest.approx(theorems.compose(singles).profile.mu, rel=1e-10)
    for bad in (0, -1, 1.5, True):
        with pytest.raises(HypothesisError, match="times"):
            Release("steps", "gaussian", 2.0, (5,), bad)
    with pytest.raises(HypothesisError, match="drawn once"):
        theorems.noisy_contraction(
            [sensitivity(1.0)], [assumed("CONTRACTION", 1.0)], [Release("x", "gaussian", 1.0, (1,), 2)], 1
        )


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_sums_over_records_never_move_more_than_stated(relation):
    rng = np.random.default_rng(5)
    row, target = assumed("ROW_BOUND", 1.5), 0.7
    second, cross, eigenvalue = (
        theorems.moment_sums(row, target, relation, which) for which in ("second", "cross", "eigenvalue")
    )
    clipped = theorems.clipped_sum(0.3, relation)
    gradients = theorems.gradient_sum(assumed("LIPSCHITZ", 0.3), relation)
    assert {f.relation for f in (second, cross, eigenvalue, clipped, gradients)} == {relation}
    assert {f.kind for f in (second, cross, eigenvalue, clipped, gradients)} == {Kind.SENSITIVITY}
    most = np.zeros(4)
    for trial in range(4000):
        d = int(rng.integers(1, 4))
        x, z = rng.normal(size=(2, d))
        x, z = 1.5 * x / np.linalg.norm(x), 1.5 * z / np.linalg.norm(z)
        if trial % 3 == 0:
            z = -x
        if trial % 3 == 1:  # orthogonal where there is room
            z = np.roll(np.eye(d)[0], 1) * 1.5
            x = np.eye(d)[0] * 1.5
        if trial % 11 == 0:
            z = np.zeros(d)
        y, v = rng.choice([-target, target], 2)
        gone = relation == "zero_out"
        others = rng.normal(size=(3, d)) * rng.choice([0.0, 0.3])
        A = others.T @ others
        after = A if gone else A + np.outer(z, z)
        before = A + np.outer(x, x)
        moved = (
            np.linalg.norm(before - after),
            np.linalg.norm(y * x - (0.0 if gone else v * z)),
            abs(np.linalg.eigvalsh(before)[0] - np.linalg.eigvalsh(after)[0]),
            np.linalg.norm(0.2 * x - (0.0 if gone else 0.2 * z)),
        )
        most = np.maximum(most, moved)
    stated = np.array([second.value, cross.value, eigenvalue.value, clipped.value])
    assert (most <= stated * (1 + 1e-12)).all()
    assert most == pytest.approx(stated, rel=1e-9)
    assert clipped.value == gradients.value


def test_sums_refuse_what_they_cannot_use():
    row = assumed("ROW_BOUND", 1.0)
    for bad in (0.0, -1.0, math.inf, math.nan, True, "1"):
        with pytest.raises(HypothesisError, match="clip"):
            theorems.clipped_sum(bad, "replace_one")
        with pytest.raises(HypothesisError, match="target"):
            theorems.moment_sums(row, bad, "replace_one", "cross")
    with pytest.raises(HypothesisError, match="which"):
        theorems.moment_sums(row, 1.0, "replace_one", "third")
    with pytest.raises(HypothesisError, match="ROW_BOUND"):
        theorems.moment_sums(assumed("LIPSCHITZ", 1.0), 1.0, "replace_one", "cross")
    with pytest.raises(HypothesisError, match="LIPSCHITZ"):
        theorems.gradient_sum(row, "replace_one")
    for theorem in (
        lambda: theorems.clipped_sum(1.0, "swap"),
        lambda: theorems.gradient_sum(assumed("LIPSCHITZ", 1.0), "swap"),
        lambda: theorems.moment_sums(row, 1.0, "swap", "cross"),
    ):
        with pytest.raises(dc.errors.InputError, match="relation"):
            theorem()


def test_approx_dp_adds_up_and_mixtures_compose_as_curves():
    total = theorems.compose([assumed_claim(0.5, 1e-6), assumed_claim(0.25, 2e-6)])
    assert (total.profile.eps, total.profile.dlt) == pytest.approx((0.75, 3e-6))
    mixed = theorems.compose([assumed_claim(0.5, 1e-6), gaussian(1.0)])
    assert mixed.delta(2.0) == pytest.approx(1e-6 + GDP(1.0).delta(1.5), rel=1e-4)
    assert mixed.delta(2.0) >= 1e-6 + GDP(1.0).delta(1.5) * (1 - 1e-9)
    largest = theorems.parallel([assumed_claim(0.5, 1e-3), gaussian(0.3)], [range(0, 5), range(5, 9)])
    assert largest.delta(2.0) == pytest.approx(1e-3, rel=1e-6)
    assert largest.delta(0.3) == pytest.approx(ApproxDP(0.5, 1e-3).delta(0.3), rel=1e-4)


@pytest.mark.parametrize(
    "records",
    [
        [range(0, 5), range(4, 9)],
        [range(0, 5)],
        [range(0, 5), range(5, 5)],
        [range(0, 10, 2), range(1, 10, 2)],
        [[0, 1, 2], [3, 4]],
        [np.array([True, False]), np.array([False, True])],
        [lambda x: x > 0, lambda x: x <= 0],
    ],
)
def test_parallel_takes_disjoint_index_ranges_only(records):
    with pytest.raises(HypothesisError, match="range"):
        theorems.parallel([gaussian(1.0, "a"), gaussian(1.0, "b")], records)


def test_parallel_refuses_groups():
    claims = [theorems.group(gaussian(1.0, "a"), 2), theorems.group(gaussian(1.0, "b"), 2)]
    with pytest.raises(HypothesisError, match="group"):
        theorems.parallel(claims, [range(0, 5), range(5, 9)])


def test_claims_of_different_relations_or_units_do_not_add_up():
    with pytest.raises(HypothesisError, match="relations"):
        theorems.compose([gaussian(1.0, "a"), gaussian(1.0, "b", "zero_out")])
    with pytest.raises(HypothesisError, match="units"):
        theorems.compose([gaussian(1.0, "a"), theorems.group(gaussian(1.0, "b"), 2)])
    for bad in ([], [1.0], [GDP(1.0)]):
        with pytest.raises(HypothesisError, match="Claim"):
            theorems.compose(bad)


def test_one_release_cannot_stand_twice_in_a_derivation():
    with pytest.raises(HypothesisError, match="used once"):
        theorems.compose([gaussian(1.0, "a"), gaussian(1.0, "a")])
    total = theorems.compose([theorems.fresh_run(gaussian(1.0, "a"), f"run {i}") for i in (1, 2)])
    assert [r.name for r in total.releases] == ["run 1/a", "run 2/a"]


def test_group_scales_mu_and_matches_the_exact_gaussian():
    claim = theorems.group(gaussian(0.3), 4)
    assert claim.profile.mu == pytest.approx(1.2, rel=4e-11)
    assert claim.unit == 4
    assert theorems.group(claim, 2).unit == 8
    for bad in (0, -1, 1.5, True):
        with pytest.raises(HypothesisError, match="size"):
            theorems.group(gaussian(0.3), bad)


def test_group_of_approx_dp_dominates_randomised_response():
    # Randomised response on k bits told apart as a group: epsilon k, delta 0.
    assert theorems.group(assumed_claim(0.7, 0.0), 3).profile.eps == pytest.approx(2.1, rel=2e-11)
    assert theorems.group(assumed_claim(0.7, 0.0), 3).profile.dlt == 0.0
    grouped = theorems.group(assumed_claim(1.0, 1e-6), 3).profile
    assert grouped.dlt == pytest.approx(1e-6 * (1 + math.e + math.e**2))
    assert theorems.group(assumed_claim(700.0, 1e-6), 3).profile.dlt == 1.0


def test_post_process_keeps_everything():
    claim = gaussian(0.3)
    after = theorems.post_process(claim, "projection")
    assert (after.profile, after.relation, after.scope) == (claim.profile, claim.relation, claim.scope)
    with pytest.raises(HypothesisError, match="words"):
        theorems.post_process(claim, 3)


# stable_sgd ------------------------------------------------------------------------------------------------------


def linear_pass(gradients, steps, weights, l2=0.0):
    w = average = 0.0
    for g, eta, theta in zip(gradients, steps, weights, strict=True):
        w = w - eta * (g + l2 * w)
        average += theta * w
    return average


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("l2", [0.0, 3.0])
@pytest.mark.parametrize(
    ("steps", "weighting"),
    [
        (Constant(0.1, 40), "uniform"),
        (Growing(0.1, 40, 0.4), "steps"),
        (Growing(0.1, 40), "uniform"),
        (Listed((0.3, 0.01, 0.2)), "steps"),
        (Constant(0.5, 1), "uniform"),
    ],
)
def test_linear_losses_attain_the_stated_sensitivity(steps, weighting, relation, l2):
    n = 40
    problem = dc.Problem(dc.losses.Linear(1.0), l2=l2)
    stated = theorems.stable_sgd(
        problem.lipschitz(1), problem.smoothness(n, 1), problem.strong_convexity(n), relation, steps, weighting
    )
    eta = steps.values()
    theta = theorems.iterate_weights(eta, weighting)
    found = 0.0
    for t in range(len(eta)):
        plain, changed = np.zeros(len(eta)), np.zeros(len(eta))
        plain[t], changed[t] = 1.0, -1.0 if relation == "replace_one" else 0.0
        found = max(found, abs(linear_pass(plain, eta, theta, l2 / n) - linear_pass(changed, eta, theta, l2 / n)))
    assert stated.kind is Kind.SENSITIVITY
    assert stated.relation == relation
    assert found <= stated.value
    assert found == pytest.approx(stated.value, rel=2e-11)


def test_phase_contraction_is_attained_by_quadratics():
    n, l2 = 10, 2.0
    problem = dc.Problem(dc.losses.Linear(1.0), l2=l2)
    steps = Listed((0.5, 1.0, 0.25))
    stated = theorems.phase_contraction(problem.smoothness(n, 1), problem.strong_convexity(n), steps, "steps")
    theta = theorems.iterate_weights(steps.values(), "steps")
    moved, w = 0.0, 1.0
    for eta, weight in zip(steps.values(), theta, strict=True):
        w *= 1 - eta * l2 / n
        moved += weight * w
    assert stated.value == pytest.approx(moved, rel=1e-11)


def facts(problem=PROBLEM, n=10, d=2):
    return problem.lipschitz(d), problem.smoothness(n, d), problem.strong_convexity(n)


def test_stable_sgd_rejects_each_broken_hypothesis():
    lipschitz, beta, m = facts()
    steps = Constant(0.1, 10)
    with pytest.raises(HypothesisError, match="2/beta"):
        theorems.stable_sgd(lipschitz, beta, m, "replace_one", Constant(8.001, 10), "uniform")
    theorems.stable_sgd(lipschitz, beta, m, "replace_one", Constant(8.0, 10), "uniform")
    with pytest.raises(HypothesisError, match="must be a Fact"):
        theorems.stable_sgd(1.0, beta, m, "replace_one", steps, "uniform")
    with pytest.raises(HypothesisError, match="SMOOTHNESS"):
        theorems.stable_sgd(lipschitz, lipschitz, m, "replace_one", steps, "uniform")
    with pytest.raises(HypothesisError, match="above 0"):
        theorems.stable_sgd(lipschitz, beta, m, "replace_one", Constant(0.0, 10), "steps")
    with pytest.raises(HypothesisError, match="weighting"):
        theorems.stable_sgd(lipschitz, beta, m, "replace_one", steps, "last")
    with pytest.raises(dc.errors.InputError, match="relation"):
        theorems.stable_sgd(lipschitz, beta, m, "swap", steps, "uniform")
    with pytest.raises(dc.errors.InputError, match="steps"):
        theorems.stable_sgd(lipschitz, beta, m, "replace_one", Listed((0.1, -0.1)), "uniform")
    with pytest.raises(dc.errors.InputError, match="schedule"):
        theorems.stable_sgd(lipschitz, beta, m, "replace_one", [0.1] * 10, "uniform")
    with pytest.raises(HypothesisError, match="strong convexity"):
        theorems.stable_sgd(
            lipschitz, assumed("SMOOTHNESS", 0.1), assumed("STRONG_CONVEXITY", 0.2), "replace_one", steps, "uniform"
        )


# noisy_contraction -----------------------------------------------------------------------------------------------


def shifts_by_quadratic_program(s, c, nu, period, record):
    """Least sum of (a_t/nu_t)^2 over z >= 0, a_t = c_t z_{t-1} + s_t - z_t, z_0 = z_T = 0, by bounded least squares."""
    steps = len(s)
    jump = np.where(np.arange(steps) % period == record, s, 0.0)
    A = np.zeros((steps, steps - 1))
    for t in range(steps):
        if t > 0:
            A[t, t - 1] = c[t]
        if t < steps - 1:
            A[t, t] = -1.0
    if steps == 1:
        return float((jump / nu) @ (jump / nu))
    fit = lsq_linear(A / nu[:, None], -jump / nu, bounds=(0.0, np.inf), method="bvls", tol=1e-16, max_iter=10_000)
    residual = (A @ fit.x + jump) / nu
    return float(residual @ residual)


def test_accounting_equals_the_quadratic_program_on_300_schedules():
    rng = np.random.default_rng(1)
    for _ in range(300):
        period, epochs = int(rng.integers(1, 6)), int(rng.integers(1, 6))
        steps = period * epochs
        s, nu = rng.uniform(0.05, 1.0, steps), rng.uniform(0.05, 1.0, steps)
        c = np.ones(steps) if rng.random() < 0.5 else rng.uniform(0.5, 1.0, steps)
        mu = max(shifts_by_quadratic_program(s, c, nu, period, j) for j in range(period)) ** 0.5
        assert chain(s, c, nu, period).profile.mu == pytest.approx(mu, rel=1e-9)


def test_late_noise_far_below_early_noise_still_counts():
    """Steps and noise that fall by seven orders of magnitude: sums from the start would lose the end."""
    steps, period = 60, 6
    fall = 10.0 ** (-7 * np.arange(steps) / (steps - 1))
    mu = chain(fall, np.ones(steps), fall, period).profile.mu
    exact = 0.0
    for j in range(period):  # the same minorant in exact arithmetic
        points, total = [], Fraction(0)
        variance = [Fraction(float(v)) ** 2 for v in fall]
        for t in range(j, steps, period):
            points.append((sum(variance[:t]), total))
            total += Fraction(float(fall[t]))
        points.append((sum(variance), total))
        hull = []
        for x, y in points:
            while len(hull) > 1 and (y - hull[-1][1]) * (hull[-1][0] - hull[-2][0]) <= (hull[-1][1] - hull[-2][1]) * (
                x - hull[-1][0]
            ):
                hull.pop()
            hull.append((x, y))
        exact = max(exact, float(sum((b[1] - a[1]) ** 2 / (b[0] - a[0]) for a, b in pairwise(hull))) ** 0.5)
    assert exact <= mu <= exact * (1 + 1e-10)


def test_tiny_and_huge_scales_do_not_underflow():
    for size in (1e-160, 1e160):
        mu = chain(np.full(6, size), np.ones(6), np.full(6, 2 * size), 3).profile.mu
        assert mu == pytest.approx(0.5 * (1 + 1 / 3) ** 0.5, rel=1e-10)


def test_one_pass_closed_form():
    rng = np.random.default_rng(2)
    s, c, nu = rng.uniform(0.1, 1.0, (3, 12))
    gamma = np.array([np.prod(c[t + 1 :]) for t in range(12)])
    mu = max(gamma[t] * s[t] / math.sqrt(((gamma * nu)[t:] ** 2).sum()) for t in range(12))
    assert chain(s, c, nu, 12).profile.mu == pytest.approx(mu, rel=1e-11)


@pytest.mark.parametrize(("batches", "epochs"), [(1, 7), (5, 1), (5, 20), (40, 3)])
def test_cyclic_law(batches, epochs):
    steps = batches * epochs
    mu = chain(np.full(steps, 0.3), np.ones(steps), np.full(steps, 2.0), batches).profile.mu
    assert mu**2 == pytest.approx((0.3 / 2.0) ** 2 * (1 + (epochs - 1) / batches), rel=1e-10)


@pytest.mark.parametrize(("c", "steps"), [(0.5, 3), (0.9, 50), (0.99, 400), (0.5, 3000)])
def test_strongly_convex_full_batch_law(c, steps):
    mu = chain(np.full(steps, 0.3), np.full(steps, c), np.full(steps, 2.0), 1).profile.mu
    law = (0.3 / 2.0) ** 2 * (1 - c**steps) / (1 + c**steps) * (1 + c) / (1 - c)
    assert mu**2 == pytest.approx(law, rel=1e-9)


def test_linear_gaussian_adversaries_attain_the_bound_and_never_exceed_it():
    rng = np.random.default_rng(3)
    best_ratios = []
    for _ in range(12):
        period, epochs = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        steps, record = period * epochs, int(rng.integers(0, period))
        nu = rng.uniform(0.2, 1.0, steps)
        s = np.where(np.arange(steps) % period == record, rng.uniform(0.2, 1.0, steps), 0.0)
        bound = chain(s, np.ones(steps), nu, period).profile.mu ** 2

        def gain(x, s=s, nu=nu):
            c = 1 / (1 + np.exp(-x))
            gamma = np.append(np.cumprod(c[::-1])[::-1][1:], 1.0)
            return (gamma @ s) ** 2 / ((gamma**2) @ nu**2)

        best = 0.0
        for _ in range(10):
            start = rng.uniform(-1.0, 5.0, steps)
            fit = minimize(lambda x: -math.log(gain(x) + 1e-300), start, method="L-BFGS-B", bounds=[(-30, 30)] * steps)
            best = max(best, gain(fit.x))
        assert best <= bound * (1 + 1e-9)
        best_ratios.append(best / bound)
    assert np.median(best_ratios) > 0.9999
    assert min(best_ratios) > 0.99


def test_averaged_iterates_are_refused_for_good_reason():
    steps = 1000
    with pytest.raises(HypothesisError, match="last iterate only"):
        chain(np.full(4, 0.1), np.ones(4), np.ones(4), 4, output="average of the iterates")
    with pytest.raises(HypothesisError, match="last iterate only"):
        chain(np.full(4, 0.1), np.ones(4), np.ones(4), 4, output=Scope.EVERY)
    # FKT20 section 6: identity maps for k steps, then maps to 0; the average of the points is far from private.
    sigma, worst = steps**-0.5, 0.0
    for k in range(1, steps + 1):
        variance = sigma**2 * (k * (k + 1) * (2 * k + 1) / 6 + steps - k)
        worst = max(worst, k / math.sqrt(variance))
    assert worst == pytest.approx(10.238, abs=1e-3)
    first = np.zeros(steps)
    first[0] = 1.0
    assert chain(first, np.ones(steps), np.full(steps, sigma), steps).profile.mu == pytest.approx(1.0, rel=1e-9)


def test_noisy_contraction_rejects_each_broken_hypothesis():
    one = np.ones(2)
    with pytest.raises(HypothesisError, match="contraction"):
        chain(one, [1.0, 1.01], one, 2)
    with pytest.raises(HypothesisError, match="no noise"):
        chain(one, one, [1.0, 0.0], 2)
    with pytest.raises(HypothesisError, match="period"):
        chain(np.ones(3), np.ones(3), np.ones(3), 2)
    with pytest.raises(HypothesisError, match="every step"):
        theorems.noisy_contraction([], [], [], 1)
    good = [sensitivity(1.0)], [assumed("CONTRACTION", 1.0)], [Release("x", "gaussian", 1.0, (1,))]
    theorems.noisy_contraction(*good, 1)
    with pytest.raises(HypothesisError, match="Gaussian noise only"):
        theorems.noisy_contraction(good[0], good[1], [Release("x", "laplace", 1.0, (1,))], 1)
    with pytest.raises(HypothesisError, match="must be a Fact"):
        theorems.noisy_contraction([1.0], good[1], good[2], 1)
    with pytest.raises(HypothesisError, match="CONTRACTION"):
        theorems.noisy_contraction(good[0], good[0], good[2], 1)
    shapes = [Release("a", "gaussian", 1.0, (1,)), Release("b", "gaussian", 1.0, (2,))]
    with pytest.raises(HypothesisError, match="shape"):
        theorems.noisy_contraction(good[0] * 2, good[1] * 2, shapes, 2)
    mixed = [sensitivity(1.0), sensitivity(1.0, "zero_out")]
    with pytest.raises(HypothesisError, match="one relation"):
        theorems.noisy_contraction(mixed, good[1] * 2, [Release(str(i), "gaussian", 1.0, (1,)) for i in range(2)], 2)


def test_mu_scales_inversely_with_the_noise():
    rng = np.random.default_rng(4)
    s, c, nu = rng.uniform(0.3, 1.0, (3, 12))
    assert chain(s, c, 2 * nu, 4).profile.mu == pytest.approx(chain(s, c, nu, 4).profile.mu / 2, rel=1e-11)


def test_a_claim_about_a_person_holds_for_rows_that_stay_that_person_s():
    """Masking one of several rows may turn a clipped sum round, which is twice as far as masking the person."""
    for relation, steps in (("replace_one", 1), ("zero_out", 2)):
        person = theorems.gaussian(theorems.clipped_sum(1.0, relation, "person"), Release("g", "gaussian", 4.0, (1,)))
        rows = theorems.rows_of_person(person, 3)
        assert rows.unit == 3
        assert rows.profile.mu == pytest.approx(steps * person.profile.mu, rel=1e-9)
        for wrong in (0, True, 1.5):
            with pytest.raises(HypothesisError, match="size"):
                theorems.rows_of_person(person, wrong)
        with pytest.raises(HypothesisError, match="all the rows of one person"):
            theorems.rows_of_person(rows, 1)


def test_what_is_proved_of_records_takes_no_facts_about_people():
    person = theorems.clipped_sum(1.0, "zero_out", "person")
    with pytest.raises(HypothesisError, match="to one record"):
        need_records([person])
