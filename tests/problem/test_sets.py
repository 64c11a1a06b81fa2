"""Sets beyond balls and boxes, and sets of the user's own: projections, bounds, plans and receipts."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import dpconvex as dc
from dpconvex.errors import InputError, UserCodeError

D = dc.domains
SETS = [
    (D.Bounds((-1.0, 0.0, -2.0, -0.5), (1.0, 3.0, 0.0, 0.5)), 4),
    (D.Ellipsoid((3.0, 1.0, 0.5, 2.0)), 4),
    (D.Polytope(((1.0, 1.0, 1.0), (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, -1.0)), (2.0, 0.0, 0.0, 0.0), 2.0), 3),
    (D.Polytope(((1.0, 0.5), (-1.0, 0.5), (0.0, -1.0)), (1.0, 1.0, 0.5), math.hypot(1.25, 0.5) + 1.0), 2),
    (D.SemidefiniteTrace(3, 2.0), 9),
    (D.SemidefiniteTrace(1, 2.0), 1),
    (D.NuclearBall(2, 4, 1.5), 8),
    (D.NuclearBall(4, 2, 1.5), 8),
    (D.Convex(lambda w: np.clip(w, 0.0, 1.0), radius=2.0, name="shares"), 4),
]
every_set = pytest.mark.parametrize(("domain", "d"), SETS, ids=lambda part: str(part)[:18])
BUDGET = dc.Budget(1.0, 1e-6)


@every_set
def test_projections_and_bounds(domain, d):
    if d > 1:
        assert dc.check(dc.losses.Logistic(), domain, d)


@every_set
def test_the_projection_is_nearest_to_1e_9(domain, d, rng):
    """Variational inequality against points of the set, idempotence, and support against far points."""
    for _ in range(30):
        w, v = 10.0 ** rng.uniform(-1, 1) * rng.normal(size=(2, d))
        p, q = domain.project(w), domain.project(v)
        assert (w - p) @ (q - p) <= 1e-9
        assert np.abs(domain.project(p) - p).max() <= 1e-9
        assert np.linalg.norm(p) <= domain.reach(d) * (1 + 1e-9)
        assert np.linalg.norm(p - q) <= domain.diameter(d) * (1 + 1e-9)
        low = domain.lowest(v)
        assert np.abs(domain.project(low) - low).max() <= 1e-5
        assert v @ low <= v @ p + 1e-9 * (1 + np.abs(v).sum())
        assert domain.support(-v) == pytest.approx(-(v @ low), rel=1e-6, abs=1e-9)
        assert np.linalg.norm(w - p) <= domain.farthest(w) * (1 + 1e-9)


def test_polytopes_agree_with_another_solver(rng):
    A, b = rng.normal(size=(8, 3)), rng.uniform(0.5, 1.0, 8)
    A = np.vstack([A, np.eye(3), -np.eye(3)])
    b = np.concatenate([b, np.full(6, 2.0)])
    domain = D.Polytope(A, b, radius=4.0)
    for _ in range(5):
        w = 5.0 * rng.normal(size=3)
        constraint = {"type": "ineq", "fun": lambda x: b - A @ x}
        found = minimize(lambda x, w=w: ((x - w) ** 2).sum(), np.zeros(3), constraints=[constraint], tol=1e-12).x
        assert np.allclose(domain.project(w), found, atol=1e-5)
        assert (A @ domain.project(w)).max() <= b.max() + 1e-9


WRONG = [
    (lambda: D.Bounds((1.0,), (0.0,)), "lo <= hi"),
    (lambda: D.Bounds((0.0,), (0.0,)), "differ"),
    (lambda: D.Bounds((math.nan,), (0.0,)), "finite"),
    (lambda: D.Ellipsoid((1.0, 0.0)), "positive"),
    (lambda: D.Polytope(((1.0,), (-1.0,)), (-2.0, 1.0), 1.0), "no points"),
    (lambda: D.Polytope(((1.0,),), (1.0, 2.0), 1.0), "every entry"),
    (lambda: D.Polytope(((1.0,),), (1.0,), math.inf), "radius"),
    (lambda: D.SemidefiniteTrace(0), "order"),
    (lambda: D.SemidefiniteTrace(2, -1.0), "trace"),
    (lambda: D.NuclearBall(2, 2, 0.0), "radius"),
    (lambda: D.Convex(3, radius=1.0), "a function"),
    (lambda: D.Convex(abs, radius=-1.0), "radius"),
    (lambda: D.SemidefiniteTrace(2).project(np.zeros(3)), "4 weights"),
]


@pytest.mark.parametrize(("make", "words"), WRONG)
def test_what_is_no_set_is_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def towards(w, X, y):
    away = (w - X).reshape(len(X), -1)
    return 1.0 / np.sqrt(1.0 + (away**2).sum(axis=1)), w - X


@pytest.mark.parametrize("place", [1, 2, 4, 6, 8])
@pytest.mark.parametrize(
    "algorithm",
    [
        dc.algorithms.PhasedSGD(),
        dc.algorithms.NoisyGD(steps=4),
        dc.algorithms.PoissonSGD(0.5, steps=3),
        dc.algorithms.HeavyTailedSGD(batches=3),
    ],
    ids=lambda part: type(part).__name__,
)
def test_runs_end_in_the_set_and_receipts_verify(algorithm, place, rng):
    domain, d = SETS[place]
    shape = {4: (3, 3), 6: (2, 4)}.get(place, (d,))
    loss = dc.losses.Convex(towards, lipschitz=1.0, smoothness=1.0, shape=shape)
    problem = dc.Problem(loss, domain=domain)
    plan = algorithm.plan(problem, n=60, d=d, budget=BUDGET)
    solution = plan.run(rng.normal(size=(60, *shape)), dataset="sets")
    assert solution.weights.shape == shape
    assert np.allclose(domain.project(solution.weights), solution.weights, atol=1e-9)
    read = dc.Receipt.from_json(solution.receipt.to_json())
    assert dc.verify(read).name == "DECLARED"
    assert read.problem == problem


def test_linear_models_on_a_set(rng):
    """The set is the library's own, so the receipt is proved."""
    problem = dc.Problem(dc.losses.Logistic(), domain=D.Ellipsoid((2.0, 0.5)))
    plan = dc.algorithms.PhasedSGD().plan(problem, n=60, d=2, budget=BUDGET)
    solution = plan.run(rng.normal(size=(60, 2)), np.ones(60), dataset="sets")
    assert dc.verify(dc.Receipt.from_json(solution.receipt.to_json())).name == "PROVED"
    with pytest.raises(dc.errors.HypothesisError, match="does not run on"):
        dc.algorithms.NoisySGD().plan(problem, n=60, d=2, budget=BUDGET)


def test_the_code_of_a_set_shows_nothing():
    def broken(w):
        if w.any():
            raise ValueError(f"at {w}")
        return w

    problem = dc.Problem(dc.losses.Logistic(), domain=D.Convex(broken, radius=1.0))
    plan = dc.algorithms.NoisyGD(steps=2).plan(problem, n=60, d=2, budget=BUDGET)
    with pytest.raises(UserCodeError, match="raised ValueError"):
        plan.run(np.ones((60, 2)), np.ones(60), dataset="broken set")
    assert len(dc.account("broken set").claims) == 1


MUTANTS = [
    ("projected onto half the radius", lambda w: w * min(1.0, 0.5 / max(np.linalg.norm(w), 1e-300)) * 1.5, 1.0, None),
    ("sign slip", lambda w: np.clip(-w, -0.5, 0.5), 1.0, None),
    ("radius x 0.9", lambda w: np.clip(w, -0.5, 0.5), 0.9, None),
    ("radius x 0.5", lambda w: np.clip(w, -0.5, 0.5), 0.5, None),
    ("width x 0.9", lambda w: np.clip(w, -0.5, 0.5), 1.0, 1.8),
    ("width x 0.5", lambda w: np.clip(w, -0.5, 0.5), 1.0, 1.0),
    ("not convex", lambda w: w / max(np.linalg.norm(w), 1e-300), 1.0, None),
    ("scaled, not nearest", lambda w: w / max(1.0, 2.0 * np.abs(w).max()), 1.0, None),
    ("one coordinate forgotten", lambda w: np.concatenate([w[:1], np.clip(w[1:], -0.5, 0.5)]), 1.0, None),
]


@pytest.mark.parametrize(("onto", "radius", "width"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_mutants_of_a_set_are_refuted(onto, radius, width):
    assert dc.check(dc.losses.Logistic(), D.Convex(lambda w: np.clip(w, -0.5, 0.5), radius=1.0), 4)
    assert not dc.check(dc.losses.Logistic(), D.Convex(onto, radius=radius, width=width), 4)
