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
    (D.Product((D.L2Ball(1.0), D.L1Ball(2.0), D.Ellipsoid((1.0, 0.5))), (3, 2, 2)), 7),
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


# Products and intersections -----------------------------------------------------------------------------------------

INTERSECTIONS = [
    (D.Intersection((D.L2Ball(1.0), D.Box(-0.5, 0.8))), 4),
    (D.Intersection((D.L1Ball(2.0), D.Box(-1.0, 1.0), D.L2Ball(1.2))), 5),
    (D.Intersection((D.Ellipsoid((2.0, 0.5, 1.0)), D.Bounds((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))), 3),
    (D.Intersection((D.SemidefiniteTrace(3, 2.0), D.L2Ball(1.0))), 9),
    (D.Intersection((D.Everywhere(), D.LpBall(4.0, 1.0), D.L1Ball(1.5))), 3),
]
every_intersection = pytest.mark.parametrize(("domain", "d"), INTERSECTIONS, ids=lambda part: str(part)[:40])


@every_intersection
def test_projections_onto_intersections_are_certified(domain, d, rng):
    """The point lies in every part, nearest to within its certificate, which is 1e-7 or less."""
    for _ in range(6):
        w, v = 10.0 ** rng.uniform(-1, 1) * rng.normal(size=(2, d))
        (p, off), q = domain.certified(w), domain.project(v)
        scale = max(np.linalg.norm(w), domain.reach(d))
        assert off <= 1e-7 * scale
        for part in domain.parts:
            assert np.linalg.norm(part.project(p) - p) <= 2e-13 * scale
        assert (w - p) @ (q - p) <= 2.0 * off * scale + 1e-12
        assert np.array_equal(domain.project(p), p)
        assert np.linalg.norm(p) <= domain.reach(d) * (1 + 1e-12)
        assert np.linalg.norm(p - q) <= domain.diameter(d) * (1 + 1e-12)
        assert domain.support(v) >= v @ q - 1e-9
        assert np.linalg.norm(w - p) <= domain.farthest(w) * (1 + 1e-9)


def test_intersections_agree_with_closed_forms(rng):
    boxes, corner = D.Intersection((D.Box(-1.0, 0.5), D.Box(-0.25, 2.0))), D.Box(-0.25, 0.5)
    ball, half = D.L2Ball(1.0), D.Bounds((0.0, -9.0), (9.0, 9.0))
    for _ in range(10):
        w = 3.0 * rng.normal(size=2)
        assert np.allclose(boxes.project(w), corner.project(w), atol=1e-9)
        exact = ball.project(np.maximum(w, [0.0, -9.0]))  # a ball and a cone
        assert np.allclose(D.Intersection((ball, half)).project(w), exact, atol=1e-6)


def test_a_certificate_is_never_below_the_truth(rng):
    """Sets that meet at a very small angle: few cycles are not enough, and the certificate says so."""
    narrow = D.Intersection((D.Ellipsoid((100.0, 0.01)), D.Polytope(((0.01, 1.0), (-0.01, 1.0), (0.0, -1.0)),
                                                                   (0.0101, 0.0101, 1.0), radius=300.0)))  # fmt: skip
    for w in 50.0 * rng.normal(size=(1, 2)):
        p, off = narrow.certified(w)
        bounds = {"method": "SLSQP", "tol": 1e-14}
        inside = [{"type": "ineq", "fun": lambda x: 1.0 - (x[0] / 100.0) ** 2 - (x[1] / 0.01) ** 2},
                  {"type": "ineq", "fun": lambda x: 0.0101 - np.abs(0.01 * x[0]) - x[1]}]  # fmt: skip
        found = minimize(lambda x, w=w: ((x - w) ** 2).sum(), p, constraints=inside, **bounds).x
        nearer = np.linalg.norm(w - p) - np.linalg.norm(w - found)
        assert nearer <= off + 1e-6


@pytest.mark.parametrize("domain", [INTERSECTIONS[0][0], SETS[-1][0]], ids=["intersection", "product"])
def test_runs_on_them_verify(domain, rng):
    d = 7
    problem = dc.Problem(dc.losses.Logistic(), domain=domain)
    X = rng.normal(size=(60, d)) / 3
    for algorithm in (
        dc.algorithms.PhasedSGD(),
        dc.algorithms.NoisyGD(steps=4),
        dc.algorithms.PoissonSGD(0.2, steps=4),
    ):
        solution = algorithm.plan(problem, n=60, d=d, budget=BUDGET).run(X, np.sign(X[:, 0]), dataset="joined")
        assert np.allclose(domain.project(solution.weights), solution.weights, atol=1e-6)
        read = dc.Receipt.from_json(solution.receipt.to_json())
        assert dc.verify(read).name == "PROVED"
        assert read.problem == problem
    with pytest.raises(dc.errors.HypothesisError, match="does not run on"):
        dc.algorithms.NoisySGD().plan(problem, n=60, d=d, budget=BUDGET)


def test_an_unbounded_product():
    free = D.Product((D.L2Ball(1.0), D.Everywhere()), (2, 1))
    assert free.project(np.array([3.0, 4.0, 9.0])).round(9).tolist() == [0.6, 0.8, 9.0]
    assert free.lowest(np.ones(3)) is None
    assert free.reach(3) == math.inf
    assert not free.traits.bounded
    plan = dc.algorithms.PhasedSGD().plan(dc.Problem(dc.losses.Logistic(), domain=free), n=20, d=3, budget=BUDGET)
    assert dc.verify(plan.run(np.eye(3)[[0, 1, 2, 0] * 5], np.ones(20), dataset="joined").receipt)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: D.Product((D.L2Ball(1.0),), (2,)), "two domains"),
        (lambda: D.Product((D.L2Ball(1.0), D.Box()), (2,)), "sizes must hold"),
        (lambda: D.Product((D.L2Ball(1.0), D.Ellipsoid((1.0, 2.0))), (2, 3)), "about 2 weights"),
        (lambda: D.Product((D.L2Ball(1.0), SETS[8][0]), (2, 3)), "of your own"),
        (lambda: D.Intersection((D.L2Ball(1.0), "a ball")), "two domains"),
        (lambda: D.Intersection((D.L2Ball(1.0), D.Simplex())), "hold the origin"),
        (lambda: D.Intersection((D.Everywhere(), D.Everywhere())), "bounded part"),
        (lambda: D.Intersection((D.Ellipsoid((1.0, 2.0)), D.SemidefiniteTrace(2))), "different numbers"),
        (lambda: D.Intersection((D.L2Ball(-1.0), D.Box())), "radius"),
        (lambda: D.Intersection((D.Box(0.0, 1.0), D.Box(-1.0, 0.0))).project(np.ones(2)), "on their boundary"),
        (lambda: D.Product((D.L2Ball(1.0), D.Box()), (2, 3)).project(np.ones(4)), "about 5 weights"),
    ],
)
def test_what_is_no_joined_set_is_refused(call, match):
    with pytest.raises(InputError, match=match):
        call()
