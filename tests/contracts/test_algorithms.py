"""Every algorithm of the registry: the plan is data-free, the run keeps to it, and what may not be done is refused."""

import dataclasses

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import HypothesisError, InputError, ReleaseError
from dpconvex.kernel.claims import grid_of
from dpconvex.plan.port import NoisePort
from dpconvex.testing.algorithms import CHECKS, check_run_and_receipt

LOGISTIC = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
CAPPED = dc.Problem(dc.losses.Logistic(cap=0.5, shift=0.5), domain=dc.domains.Box(-1.0, 2.0), intercept=1.0)
HINGE = dc.Problem(dc.losses.SmoothedHinge(0.5), l2=3.0)
SQUARED = dc.Problem(dc.losses.Squared(), domain=dc.domains.L2Ball(2.0), feature_bound=dc.bounds.Linf(0.5))
HUBER = dc.Problem(dc.losses.Huber(0.5), feature_bound=dc.bounds.Lp(3, 1.0), intercept=0.5)
LOGCOSH = dc.Problem(dc.losses.LogCosh(0.5), feature_bound=2.0)
SOFTMAX = dc.Problem(dc.losses.Softmax(3, shift=1.0), intercept=0.5)
SEVERAL = dc.Problem(dc.losses.Softmax(4), domain=dc.domains.L2Ball(3.0), l2=0.5)
KINK = dc.Problem(dc.losses.Hinge(), domain=dc.domains.L2Ball(4.0))
ABSOLUTE = dc.Problem(dc.losses.Absolute(), domain=dc.domains.Box(-1.0, 2.0), intercept=1.0)
PINBALL = dc.Problem(dc.losses.Pinball(0.8), l2=3.0)
SPARSE = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L1Ball(3.0), feature_bound=dc.bounds.Linf(1.0))
LASSO = dc.Problem(dc.losses.Squared(), domain=dc.domains.L1Ball(2.0), feature_bound=dc.bounds.Linf(0.5))
SPARSE_HINGE = dc.Problem(dc.losses.SmoothedHinge(0.5), domain=dc.domains.L1Ball(1.0), l2=3.0)
SPARSE_HUBER = dc.Problem(dc.losses.Huber(0.5), dc.domains.L1Ball(2.0), dc.bounds.Lp(3, 1.0), intercept=2.0)
SPARSE_LOGCOSH = dc.Problem(dc.losses.LogCosh(0.5), dc.domains.L1Ball(2.0), dc.bounds.Linf(2.0))
LP = dc.Problem(dc.losses.Logistic(cap=0.5, shift=0.5), domain=dc.domains.LpBall(4.0, 1.0), intercept=1.0)
LP_HUBER = dc.Problem(dc.losses.Huber(0.5), dc.domains.LpBall(np.inf, 1.0), dc.bounds.Lp(3, 1.0), l2=3.0)
MIXTURE = dc.Problem(dc.losses.Logistic(), domain=dc.domains.Simplex(3.0), feature_bound=dc.bounds.Linf(1.0))
FREE = dc.Problem(dc.losses.Logistic(cap=0.5, shift=0.5), intercept=1.0)
FREE_SQUARED = dc.Problem(dc.losses.Squared(), feature_bound=dc.bounds.Linf(0.5))

CASES = [
    *((dc.algorithms.PhasedSGD(), p) for p in (LOGISTIC, CAPPED, HINGE, SQUARED, HUBER, LOGCOSH)),
    *((dc.algorithms.PhasedSGD(release="every iterate"), p) for p in (LOGISTIC, CAPPED)),
    *((dc.algorithms.PhasedSGD(constants="paper"), p) for p in (LOGISTIC, LP)),
    *((dc.algorithms.PhasedSGD(release=r), p) for r in ("last iterate", "every iterate") for p in (LP, LP_HUBER)),
    *((dc.algorithms.PhasedERM(), p) for p in (LOGISTIC, CAPPED, SQUARED, HUBER, KINK, ABSOLUTE, PINBALL)),
    (dc.algorithms.PhasedERM(release="every iterate"), KINK),
    (dc.algorithms.PhasedERM(reduction=True), HINGE),
    *((dc.algorithms.PhasedERM(constants="paper"), p) for p in (LOGISTIC, KINK)),
    *((dc.algorithms.NoisySGD(), p) for p in (LOGISTIC, CAPPED, HINGE, SQUARED, HUBER, LOGCOSH)),
    *((dc.algorithms.NoisySGD(release="every iterate", average=0.5), p) for p in (LOGISTIC, CAPPED)),
    (dc.algorithms.NoisySGD(shuffle=True), LOGISTIC),
    *((dc.algorithms.SnowballSGD(), p) for p in (LOGISTIC, HINGE)),
    *((dc.algorithms.NoisyGD(steps=4), p) for p in (LOGISTIC, CAPPED, SQUARED, HUBER, SOFTMAX)),
    (dc.algorithms.NoisyGD(steps=4), dataclasses.replace(SOFTMAX, domain=dc.domains.LpBall(1.5, 1.0))),
    *((dc.algorithms.PoissonSGD(0.2, steps=8), p) for p in (LOGISTIC, CAPPED, HUBER, SOFTMAX, KINK)),
    (dc.algorithms.PoissonSGD(1.0, steps=4), LOGISTIC),
    *((dc.algorithms.OnlineToBatch(rounds=2), p) for p in (LOGISTIC, CAPPED, HINGE, SQUARED, HUBER, KINK, SPARSE)),
    *((dc.algorithms.OnlineToBatch(), p) for p in (LOGISTIC, LOGCOSH)),
    *((dc.algorithms.OnlineToBatch(noise=noise, power=2.0), CAPPED) for noise in ("tree", "honaker", "blt")),
    *((dc.algorithms.OnlineToBatch("OptimisticDescent", power=0.5), p) for p in (LOGISTIC, ABSOLUTE)),
    (dc.algorithms.OnlineToBatch("StronglyConvexDescent"), HINGE),
    (dc.algorithms.OnlineToBatch("ParameterFree"), LOGISTIC),
    (dc.algorithms.OnlineToBatch("DiagonalFTRL", clip=1.0), CAPPED),
    (dc.algorithms.OnlineToBatch(constants="paper"), LOGISTIC),
    *((dc.algorithms.PrivateFTRL(), p) for p in (LOGISTIC, CAPPED, HINGE, SQUARED, HUBER, KINK, SPARSE)),
    *((dc.algorithms.PrivateFTRL(mode, batch=2), LOGCOSH) for mode in ("blt", "tree", "honaker", "composition")),
    (dc.algorithms.PrivateFTRL(p=1.5), SPARSE),
    (dc.algorithms.PrivateFTRL("linear"), dc.Problem(dc.losses.Linear(), dc.domains.L2Ball(2.0))),
    *((dc.algorithms.FrankWolfe(), p) for p in (SPARSE, LASSO, SPARSE_HINGE, SPARSE_HUBER, SPARSE_LOGCOSH)),
    *((dc.algorithms.FrankWolfe(steps=20, clip=0.25), p) for p in (SPARSE, MIXTURE)),
    (dc.algorithms.FrankWolfe(), dataclasses.replace(LASSO, domain=dc.domains.Simplex(), intercept=0.5)),
    *((dc.algorithms.MirrorDescent(steps=4), p) for p in (FREE, HINGE, FREE_SQUARED, HUBER, LOGCOSH)),
    *((dc.algorithms.MirrorDescent(p=p, steps=4), HUBER) for p in (1.01, 2.0)),
    *((dc.algorithms.MirrorDescent(noise=noise, steps=4), HUBER) for noise in ("gaussian", "generalised")),
    (dc.algorithms.MirrorDescent(constants="paper"), FREE),
    *((dc.algorithms.TruncatedMirrorDescent(), p) for p in (LOGISTIC, FREE, HINGE, SQUARED, HUBER, KINK, SPARSE)),
    *((dc.algorithms.TruncatedMirrorDescent(p=p, truncation=0.3), HUBER) for p in (1.01, 2.0)),
    *((dc.algorithms.TruncatedMirrorDescent(noise=noise, batches=2), HUBER) for noise in ("gaussian", "generalised")),
    *((dc.algorithms.TruncatedMirrorDescent(shuffle=True, batches=b), FREE) for b in (None, 2)),
    (dc.algorithms.TruncatedMirrorDescent(constants="paper"), FREE),
    *((dc.algorithms.HeavyTailedSGD(), p) for p in (LOGISTIC, CAPPED, HINGE, SQUARED, HUBER, KINK, SPARSE)),
    *((dc.algorithms.HeavyTailedSGD(batches=2, norm=norm), CAPPED) for norm in ("coordinates", "l2")),
    (dc.algorithms.HeavyTailedSGD(constants="paper"), LOGISTIC),
    *((dc.algorithms.MeanDirection(), p) for p in (LOGISTIC, CAPPED, SQUARED)),
    (dc.algorithms.SufficientStatistics(), SQUARED),
    *((dc.algorithms.ObjectivePerturbation(), p) for p in (LOGISTIC, CAPPED, HINGE, HUBER, LOGCOSH, SOFTMAX)),
    (dc.algorithms.ObjectivePerturbation(accounting="coupled"), LOGISTIC),
    (dc.algorithms.ObjectivePerturbation(accounting="published"), dataclasses.replace(HINGE, l2=30.0)),
    (dc.algorithms.ObjectivePerturbation(accounting="paper"), dataclasses.replace(LOGISTIC, l2=20.0)),
    *((dc.algorithms.MirrorDescent(steps=4), p) for p in (LOGISTIC, SPARSE_HUBER)),
    (dc.algorithms.MirrorDescent(p=1.5, steps=4), dataclasses.replace(LP_HUBER, domain=dc.domains.LpBall(1.5, 1.0))),
    *((dc.algorithms.FramedPerturbation(), p) for p in (LOGISTIC, CAPPED, HUBER)),
    *((dc.algorithms.PhasedSGD(batch=b), SOFTMAX) for b in (None, 2)),
    (dc.algorithms.PhasedSGD(release="every iterate"), SEVERAL),
    (dc.algorithms.PhasedSGD(), dataclasses.replace(SOFTMAX, domain=dc.domains.LpBall(4.0, 1.0))),
    *((dc.algorithms.NoisySGD(), p) for p in (SOFTMAX, SEVERAL)),
    (dc.algorithms.NoisySGD(release="every iterate", average=0.5), SEVERAL),
    (dc.algorithms.SnowballSGD(), SEVERAL),
    (dc.algorithms.OnlineToBatch(rounds=2), SOFTMAX),
    (dc.algorithms.OnlineToBatch("FTRL"), SEVERAL),
    *((dc.algorithms.PrivateFTRL(), p) for p in (SOFTMAX, SEVERAL)),
    (dc.algorithms.PrivateFTRL(p=1.5, batch=2), dataclasses.replace(SEVERAL, domain=dc.domains.L1Ball(3.0))),
]
IDS = [f"{type(a).__name__}-{i}-{type(p.loss).__name__}" for i, (a, p) in enumerate(CASES)]
LISTED = {type(algorithm).__name__ for algorithm, _ in CASES}
FOUND = [  # an algorithm that is not listed is checked in the settings of its own attacks
    (attack.algorithm, attack.problem)
    for name in dc.algorithms.names()
    if name not in LISTED
    for attack in dc.algorithms.get(name).attacks()
]
NAMES = [*IDS, *(type(a).__name__ for a, _ in FOUND)]
every_case = pytest.mark.parametrize(("algorithm", "problem"), [*CASES, *FOUND], ids=NAMES)
# Runs on every kind of rows take seconds: every test run has one setting in two of each algorithm.
SEEN = [type(algorithm) for algorithm, _ in (*CASES, *FOUND)]
IN_SLICE = [SEEN[:i].count(kind) % 2 == 0 for i, kind in enumerate(SEEN)]


@pytest.mark.parametrize(
    ("algorithm", "problem", "check"),
    [
        pytest.param(
            *case, check, id=f"{check.__name__.removeprefix('check_')}-{name}",
            marks=[pytest.mark.heavy] * (check is check_run_and_receipt and not in_slice),
        )
        for check in CHECKS
        for case, name, in_slice in zip((*CASES, *FOUND), NAMES, IN_SLICE, strict=True)
    ],
)  # fmt: skip
def test_the_contract(algorithm, problem, check, rng):
    check(algorithm, problem, rng)


@every_case
@pytest.mark.parametrize(
    ("relation", "epsilon"),
    [
        ("replace_one", 1.0),
        ("zero_out", 8.0),
        pytest.param("zero_out", 1.0, marks=pytest.mark.heavy),
        pytest.param("replace_one", 8.0, marks=pytest.mark.heavy),
    ],
)
def test_the_budget_is_used_up(algorithm, problem, relation, epsilon):
    """Noise is made less where the budget allows it, and not only more where it asks for it."""
    if "paper" not in str(algorithm):
        plan = algorithm.plan(problem, n=50, d=3, budget=dc.Budget(epsilon, 1e-6, relation))
        assert plan.claim.epsilon(1e-6) > 0.995 * epsilon


class HalfTheNoise(dc.algorithms.MeanDirection):
    """Plans the noise for a row bound of half the size."""

    def execute(self, plan, rows, y, port):
        super().execute(plan, rows._replace(radius=2.0 * rows.radius), y, port)


class ReadsData(dc.algorithms.MeanDirection):
    """Another plan each time."""

    seen = 0

    def plan(self, problem, *, n, d, budget):
        type(self).seen += 1
        return super().plan(problem, n=n + self.seen, d=d, budget=budget)


class ForgetsRows(dc.algorithms.MeanDirection):
    """Refuses what rows say."""

    def execute(self, plan, rows, y, port):
        assert len(set(y.tolist())) > 1
        super().execute(plan, rows, y, port)


@pytest.mark.parametrize("broken", [HalfTheNoise, ReadsData, ForgetsRows])
def test_a_broken_algorithm_breaks_the_contract(broken):
    with pytest.raises((AssertionError, InputError)):
        dc.testing.check_algorithm(broken(), LOGISTIC)


@every_case
def test_gaussian_noise_lies_on_a_grid(algorithm, problem):
    plan = algorithm.plan(problem, n=50, d=3, budget=dc.Budget(1.0, 1e-6))
    assert all(r.grid is not None and r.grid <= grid_of(r.scale) for r in plan.releases if r.law == "gaussian")


def test_noise_added_in_float64_is_caught(monkeypatch):
    """Porous noise: what a value can be then depends on the value."""
    monkeypatch.setattr(NoisePort, "exact", False)
    with pytest.raises(AssertionError, match="beside their grid"):
        dc.testing.check_algorithm(dc.algorithms.MeanDirection(), LOGISTIC)


@pytest.mark.parametrize("name", sorted(dc.algorithms.REGISTRY))
def test_what_is_no_budget_is_refused(name):
    with pytest.raises(InputError, match=r"^budget must"):
        getattr(dc.algorithms, name)().plan(SQUARED, n=10, d=2, budget=1.0)


@pytest.mark.parametrize(
    ("algorithm", "problem"),
    [
        (dc.algorithms.PhasedSGD(), dc.Problem(dc.losses.Squared())),
        (dc.algorithms.PhasedSGD(), KINK),
        (dc.algorithms.PhasedERM(), SOFTMAX),
        (dc.algorithms.PhasedERM(), dc.Problem(dc.losses.Squared())),
        (dc.algorithms.PhasedERM(reduction=True), LOGISTIC),
        (dc.algorithms.PhasedERM(constants="paper"), dc.Problem(dc.losses.Hinge())),
        (dc.algorithms.ObjectivePerturbation(), KINK),
        (dc.algorithms.OnlineToBatch(constants="paper"), HUBER),
        (dc.algorithms.PrivateFTRL("linear"), LOGISTIC),
        (dc.algorithms.PrivateFTRL(), dc.Problem(dc.losses.Squared())),
        (dc.algorithms.FrankWolfe(), LOGISTIC),
        (dc.algorithms.PhasedSGD(), SPARSE),
        (dc.algorithms.PhasedSGD(), dataclasses.replace(LOGISTIC, domain=dc.domains.LpBall(1.5, 1.0))),
        (dc.algorithms.PhasedSGD(), dataclasses.replace(SQUARED, domain=dc.domains.LpBall(4.0, 1.0))),
        (dc.algorithms.NoisySGD(), SPARSE),
        (dc.algorithms.SnowballSGD(), SPARSE),
        (dc.algorithms.PhasedERM(), SPARSE),
        (dc.algorithms.ObjectivePerturbation(), SPARSE),
        (dc.algorithms.FrankWolfe(steps=2, clip=1.0), SQUARED),
        (dc.algorithms.FrankWolfe(), dataclasses.replace(SOFTMAX, domain=dc.domains.L1Ball(1.0))),
        (dc.algorithms.FrankWolfe(), dataclasses.replace(KINK, domain=dc.domains.L1Ball(1.0))),
        (dc.algorithms.MirrorDescent(), CAPPED),
        (dc.algorithms.MirrorDescent(), MIXTURE),
        (dc.algorithms.MirrorDescent(), SOFTMAX),
        (dc.algorithms.MirrorDescent(), PINBALL),
        (dc.algorithms.MirrorDescent(constants="paper"), FREE_SQUARED),
        (dc.algorithms.TruncatedMirrorDescent(), SOFTMAX),
        (dc.algorithms.TruncatedMirrorDescent(), CAPPED),
        (dc.algorithms.TruncatedMirrorDescent(batches=101), LOGISTIC),
        (dc.algorithms.TruncatedMirrorDescent(constants="paper"), PINBALL),
        (dc.algorithms.TruncatedMirrorDescent(constants="paper", shuffle=True), LOGISTIC),
        (dc.algorithms.HeavyTailedSGD(), SOFTMAX),
        (dc.algorithms.HeavyTailedSGD(batches=101), LOGISTIC),
        (dc.algorithms.MeanDirection(), SOFTMAX),
        (dc.algorithms.SufficientStatistics(), LOGISTIC),
        (dc.algorithms.SufficientStatistics(), SOFTMAX),
        (dc.algorithms.ObjectivePerturbation(), SQUARED),
        (dc.algorithms.ObjectivePerturbation(), dc.Problem(dc.losses.Linear(), domain=dc.domains.L2Ball(1.0))),
        (dc.algorithms.ObjectivePerturbation(accounting="published"), dataclasses.replace(LOGISTIC, l2=0.1)),
        (dc.algorithms.ObjectivePerturbation(accounting="coupled"), SOFTMAX),
        (dc.algorithms.FramedPerturbation(), SQUARED),
        (dc.algorithms.FramedPerturbation(), KINK),
    ],
    ids=str,
)
def test_problems_outside_an_algorithm_are_refused_at_plan_time(algorithm, problem):
    with pytest.raises((HypothesisError, InputError)):
        algorithm.plan(problem, n=100, d=2, budget=dc.Budget(1.0, 1e-6))


def test_a_claim_beyond_its_budget_makes_no_plan(small_plan):
    with pytest.raises(ReleaseError, match="within its budget"):
        dataclasses.replace(small_plan, budget=dc.Budget(0.5, 1e-6))
    with pytest.raises(ReleaseError, match="relation"):
        dataclasses.replace(small_plan, budget=dc.Budget(1.0, 1e-6, "zero_out"))


def test_plans_take_numpy_integers(ball_problem):
    arguments = {"budget": dc.Budget(1.0, 1e-6)}
    plan = dc.choose(ball_problem, n=np.int64(50), d=np.int32(2), **arguments)
    assert dc.choose(ball_problem, n=50, d=2, **arguments).to_json() == plan.to_json()


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="PhasedSGD"):
        _ = dc.algorithms.Nothing
    assert dir(dc.algorithms) == sorted([*dc.algorithms.names(), "get", "names"])
