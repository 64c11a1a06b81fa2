import math

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.errors import InputError, ReleaseError
from dpconvex.loops.rows import CSR, EVEN, Dense
from dpconvex.sums import solver as newton
from dpconvex.sums.accuracy import Accumulation
from dpconvex.sums.memory import Memory
from dpconvex.sums.rowwise import bend, curvatures, slopes, values
from dpconvex.sums.solver import Work, least_tolerance, minimise, most_work

SCALAR = [
    dc.losses.Logistic(1.0),
    dc.losses.Logistic(0.3, 1.0),
    dc.losses.SmoothedHinge(0.5),
    dc.losses.SmoothedHinge(0.02),
    dc.losses.Squared(1.0),
    dc.losses.Huber(0.1, 1.0),
    dc.losses.LogCosh(0.1, 1.0),
    dc.losses.Linear(1.0),
]
LOSSES = [*SCALAR, dc.losses.Softmax(2.0), dc.losses.Softmax(4.0, 1.0)]


def containers(X, radius, constant, weights=EVEN):
    thin = sparse.csr_array(X)
    parts = thin.data, thin.indices, thin.indptr, X.shape[1]
    return Dense(X, radius, constant, weights), CSR(*parts, radius, constant, weights)


def augmented(X, radius, constant):
    X = X.astype(np.float64)
    X = X * np.minimum(1.0, radius / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300))
    return np.hstack([X, np.full((len(X), 1), constant)]) if constant else X


def labels(loss, n, rng):
    if isinstance(loss, dc.losses.Softmax):
        return rng.integers(0, int(loss.classes), n).astype(float)
    return rng.uniform(-1.0, 1.0, n) if loss.traits.labels == "bounded" else rng.choice([-1.0, 1.0], n)


def shape(loss, size):
    return (int(loss.classes), size) if isinstance(loss, dc.losses.Softmax) else (size,)


def certifiable(wanted, loss, l2, tilt, n, d, radius=1.0, constant=0.0):
    """The tolerance wanted, or the least that float64 can certify."""
    problem = dc.Problem(loss, feature_bound=radius, l2=l2, intercept=constant)
    return max(wanted, least_tolerance(problem, n, d, float(np.linalg.norm(tilt))))


def gradient(full, y, loss, l2, tilt, w, omega=1.0):
    return (omega * slopes(loss, full @ w.T, y).T) @ full + l2 * w + tilt


def reference(full, y, loss, l2, tilt, omega=1.0):
    """Newton's method with the whole Hessian and halved steps, until the gradient is at the level of rounding."""
    w = np.zeros_like(tilt)

    def objective(v):
        return (omega * values(loss, full @ v.T, y)).sum() + l2 / 2 * np.vdot(v, v) + np.vdot(tilt, v)

    for _ in range(300):
        g, h = gradient(full, y, loss, l2, tilt, w, omega), curvatures(loss, full @ w.T, y)
        basis = np.eye(w.size).reshape(-1, *w.shape)
        H = np.array([((omega * bend(h, full @ e.T).T) @ full + l2 * e).ravel() for e in basis])
        move, t = -np.linalg.solve(H, g.ravel()).reshape(w.shape), 1.0
        while t > 1e-9 and objective(w + t * move) > objective(w) + 1e-4 * t * np.vdot(g, move) + 1e-13 * abs(
            objective(w)
        ):
            t /= 2
        w = w + t * move
        if np.linalg.norm(g) < 1e-12 * len(y):
            break
    return w


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("l2", [0.01, 1.0, 100.0])
def test_the_minimiser_is_found(loss, l2, rng):
    n, d = 80, 5
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    y = labels(loss, n, rng)
    for constant, size in ((0.0, 0.0), (0.7, 3.0)):
        full = augmented(X, 1.5, constant)
        tilt = size * rng.normal(size=shape(loss, full.shape[1]))
        best = reference(full, y, loss, l2, tilt)
        tolerance = certifiable(1e-8, loss, l2, tilt, n, d, 1.5, constant)
        assert tolerance < 1e-6
        for rows in containers(X, 1.5, constant):
            w = minimise(Memory(rows, y), loss, l2, tilt, tolerance, curvature=loss.curvature_bound())
            assert np.linalg.norm(gradient(full, y, loss, l2, tilt, w)) <= tolerance
            assert np.linalg.norm(w - best) <= tolerance / l2 + 1e-11


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_minimiser_of_a_weighted_sum_is_found(loss, dtype, rng):
    n, d, l2 = 80, 5, 0.5
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)).astype(dtype)
    y, omega = labels(loss, n, rng), rng.integers(0, 5, n) / 4.0
    full = augmented(X, 1.5, 0.7)
    tilt = rng.normal(size=shape(loss, d + 1))
    best = reference(full, y, loss, l2, tilt, omega)
    assert np.linalg.norm(best - reference(full, y, loss, l2, tilt)) > 1e-3
    tolerance = certifiable(1e-8, loss, l2, tilt, n, d, 1.5, 0.7)
    for rows in containers(X, 1.5, 0.7, omega):
        w = minimise(Memory(rows, y), loss, l2, tilt, tolerance)
        assert np.linalg.norm(gradient(full, y, loss, l2, tilt, w, omega)) <= tolerance
        assert np.linalg.norm(w - best) <= tolerance / l2 + 1e-11


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("domain", [dc.domains.Everywhere(), dc.domains.L2Ball(0.4)], ids=str)
@pytest.mark.parametrize("factored", [512, 0])
def test_a_weight_is_so_many_records(loss, domain, factored, rng, monkeypatch):
    """A quarter, weighted 0 to 4, against rows repeated so often, a quarter each: enough for a start from few rows."""
    monkeypatch.setattr(newton, "_FACTORED", factored)
    n, d, l2 = 2000, 3, 2.0
    X, y, times = rng.normal(size=(n, d)), labels(loss, n, rng), rng.integers(0, 5, n)
    tilt = rng.normal(size=shape(loss, d))
    many = times.sum()
    tolerance = certifiable(1e-9, loss, l2, tilt, many, d)
    found = []
    for rows in containers(X, 1.0, 0.0, times / 4.0):
        found.append(minimise(Memory(rows, y), loss, l2, tilt, tolerance, domain=domain))
    for rows in containers(np.repeat(X, times, axis=0), 1.0, 0.0, np.full(many, 0.25)):
        found.append(minimise(Memory(rows, np.repeat(y, times)), loss, l2, tilt, tolerance, domain=domain))
    assert max(np.linalg.norm(w - found[0]) for w in found) <= 2 * tolerance / l2 + 1e-12


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 2000])
def test_weights_of_one_change_no_bit_and_weights_of_zero_leave_the_tilt(loss, n, rng):
    X, y, tilt = rng.normal(size=(n, 3)), labels(loss, n, rng), rng.normal(size=shape(loss, 3))
    tolerance = certifiable(1e-8, loss, 2.0, tilt, n, 3)
    for plain, ones, none in zip(*(containers(X, 1.0, 0.0, o) for o in (EVEN, np.ones(n), np.zeros(n))), strict=True):
        w = minimise(Memory(plain, y), loss, 2.0, tilt, tolerance)
        assert np.array_equal(w, minimise(Memory(ones, y), loss, 2.0, tilt, tolerance))
        alone = minimise(Memory(none, y), loss, 2.0, tilt, tolerance)
        assert np.linalg.norm(alone + tilt / 2.0) <= tolerance / 2.0


@pytest.mark.parametrize("domain", [dc.domains.Everywhere(), dc.domains.Box(-0.1, 0.2)], ids=str)
def test_weighted_gradient_steps_alone_reach_the_certificate(domain, rng, monkeypatch):
    X, y, omega = rng.normal(size=(60, 3)), rng.choice([-1.0, 1.0], 60), rng.random(60)
    sums, tilt = Memory(Dense(X, 1.0, 0.0, omega), y), rng.normal(size=3)
    whole = minimise(sums, SCALAR[0], 0.3, tilt, 1e-8, domain=domain)
    monkeypatch.setattr(newton, "_PATIENCE", 0)
    assert np.linalg.norm(minimise(sums, SCALAR[0], 0.3, tilt, 1e-8, domain=domain) - whole) <= 2e-8 / 0.3


@pytest.mark.parametrize("loss", SCALAR, ids=str)
@pytest.mark.parametrize(
    "domain", [dc.domains.Everywhere(), dc.domains.L2Ball(0.4), dc.domains.Box(-0.2, 0.1)], ids=str
)
def test_conjugate_gradients_and_cholesky_agree(loss, domain, rng, monkeypatch):
    X, y = rng.normal(size=(100, 6)), labels(loss, 100, rng)
    sums, tilt = Memory(Dense(X, 2.0, 0.5), y), rng.normal(size=7)
    tolerance = certifiable(1e-8, loss, 0.5, tilt, 100, 6, 2.0, 0.5)
    factored = minimise(sums, loss, 0.5, tilt, tolerance, domain=domain)
    monkeypatch.setattr(newton, "_FACTORED", 0)
    iterated = minimise(sums, loss, 0.5, tilt, tolerance, domain=domain)
    assert np.linalg.norm(iterated - factored) <= 2 * tolerance / 0.5 < 1e-6


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(
    "domain", [dc.domains.Everywhere(), dc.domains.L2Ball(0.4), dc.domains.Box(-0.2, 0.1)], ids=str
)
def test_a_start_from_few_rows_changes_nothing_that_is_certified(loss, domain, rng, monkeypatch):
    n, d = 3000, 3
    if isinstance(loss, dc.losses.Softmax) and not isinstance(domain, dc.domains.Everywhere):
        domain = dc.domains.L2Ball(0.4)
    X = rng.normal(size=(n, d)) / 2
    y = np.sort(labels(loss, n, rng))  # the worst order for whoever looks at a part
    tilt = 3.0 * rng.normal(size=shape(loss, d))
    tolerance = certifiable(1e-7, loss, 2.0, tilt, n, d)
    found = []
    for few in (8, 10**9):
        monkeypatch.setattr(newton, "_EVERY", few)
        for rows in containers(X, 1.0, 0.0):
            w = minimise(Memory(rows, y), loss, 2.0, tilt, tolerance, domain=domain)
            assert np.allclose(domain.project(w), w)
            found.append(w)
    assert max(np.linalg.norm(w - found[0]) for w in found) <= 2 * tolerance / 2.0 + 1e-12


def test_a_start_beyond_the_bound_on_the_work_is_not_used(rng, monkeypatch):
    X, y = rng.normal(size=(200, 3)), rng.choice([-1.0, 1.0], 200)
    sums, tilt = Memory(Dense(X, 1.0, 0.0), y), np.zeros(3)
    expected = minimise(sums, SCALAR[0], 1.0, tilt, 1e-8)
    monkeypatch.setattr(newton, "_glance", lambda *_: (np.full(3, 1e12), None))
    assert np.linalg.norm(minimise(sums, SCALAR[0], 1.0, tilt, 1e-8) - expected) <= 2e-8


def test_a_model_from_elsewhere_leads_to_the_same_point(rng, monkeypatch):
    """However wrong the curvature is with which the solver begins."""
    X, y = rng.normal(size=(400, 3)), rng.choice([-1.0, 1.0], 400)
    sums, tilt = Memory(Dense(X, 1.0, 0.0), y), rng.normal(size=3)
    expected = minimise(sums, SCALAR[0], 1.0, tilt, 1e-8)
    for H in (np.eye(3) * 1e-3, np.eye(3) * 1e9, np.diag([1.0, 1e6, 1e-6]), 30.0 * np.eye(3)):
        monkeypatch.setattr(newton, "_glance", lambda *_, H=H: (np.zeros(3), newton._Factored(H.copy(), 0.0)))
        assert np.linalg.norm(minimise(sums, SCALAR[0], 1.0, tilt, 1e-8) - expected) <= 2e-8


def test_rows_of_zeros_have_their_minimiser_at_the_start():
    sums = Memory(Dense(np.zeros((2000, 3)), 1.0, 0.0), np.ones(2000))
    assert minimise(sums, SCALAR[0], 1.0, np.zeros(3), 1e-8).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("good", [1.0, 30.0, math.inf])
def test_stale_hessians_reach_the_same_point(good, rng, monkeypatch):
    X, y = rng.normal(size=(500, 4)), rng.choice([-1.0, 1.0], 500)
    sums, tilt = Memory(Dense(X, 3.0, 0.0), y), 5.0 * rng.normal(size=4)
    expected = minimise(sums, SCALAR[0], 0.1, tilt, 1e-7)
    monkeypatch.setattr(newton, "_GOOD", good)
    assert np.linalg.norm(minimise(sums, SCALAR[0], 0.1, tilt, 1e-7) - expected) <= 2e-6


@pytest.mark.parametrize("size", [1e-60, 1e60])
def test_rows_that_single_precision_could_not_hold(size, rng):
    X, y = rng.normal(size=(3000, 3)), rng.choice([-1.0, 1.0], 3000)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    expected = minimise(Memory(Dense(X, 1.0, 0.0), y), SCALAR[0], 1.0, np.ones(3), 1e-7)
    tall = Memory(Dense(size * X, size, 0.0), y)
    found = minimise(tall, SCALAR[0], size**2, size * np.ones(3), 1e-7 * size)
    assert np.linalg.norm(found * size - expected) <= 3e-7


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_more_features_than_are_factored(dtype, rng):
    n, d = 300, 700
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.05)).astype(dtype)
    y = rng.choice([-1.0, 1.0], n)
    full, tilt = augmented(X, 1.0, 1.0), rng.normal(size=d + 1)
    for rows in containers(X, 1.0, 1.0):
        w = minimise(Memory(rows, y), SCALAR[0], 0.1, tilt, 1e-7)
        assert np.linalg.norm(gradient(full, y, SCALAR[0], 0.1, tilt, w)) <= 1e-7


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_small_and_degenerate_data(loss, rng):
    X = rng.normal(size=(40, 3))
    cases = {
        "one record": (X[:1], labels(loss, 1, rng)),
        "one feature": (X[:, :1], labels(loss, 40, rng)),
        "constant labels": (X, np.ones(40)),
        "duplicate columns": (np.hstack([X, X, X[:, :1]]), labels(loss, 40, rng)),
        "rows of zeros": (np.zeros((40, 2)), labels(loss, 40, rng)),
        "equal records": (np.ones((40, 2)), np.ones(40)),
    }
    for name, (A, y) in cases.items():
        tilt = np.zeros(shape(loss, A.shape[1]))
        full = augmented(A, 1.0, 0.0)
        for rows in containers(A, 1.0, 0.0):
            w = minimise(Memory(rows, y), loss, 0.05, tilt, 1e-8)
            assert np.linalg.norm(gradient(full, y, loss, 0.05, tilt, w)) <= 1e-8, name


@pytest.mark.parametrize("loss", [dc.losses.Logistic(1.0), dc.losses.Logistic(0.1), dc.losses.SmoothedHinge(0.001),
                                  dc.losses.Softmax(2.0)], ids=str)  # fmt: skip
def test_separable_data_with_hardly_any_regularisation(loss, rng):
    X = rng.normal(size=(200, 4))
    X[:, 0] += np.where(X[:, 0] > 0, 0.5, -0.5)
    side = np.where(X[:, 0] > 0, 1.0, -1.0)
    y = (side > 0).astype(float) if isinstance(loss, dc.losses.Softmax) else side
    sums, tilt = Memory(Dense(X, 1.0, 0.0), y), np.zeros(shape(loss, 4))
    tolerance = certifiable(1e-7, loss, 1e-5, tilt, 200, 4)
    w = minimise(sums, loss, 1e-5, tilt, tolerance)
    assert np.linalg.norm(gradient(augmented(X, 1.0, 0.0), y, loss, 1e-5, tilt, w)) <= tolerance < 1e-4
    assert np.linalg.norm(w) > 10.0 or not isinstance(loss, dc.losses.Logistic) or loss.cap < 1.0


def by_projected_gradient(full, y, loss, l2, tilt, domain):
    """Plain accelerated steps, to the level of rounding."""
    w = ahead = np.zeros_like(tilt)
    smoothness = loss.curvature_bound() * np.linalg.norm(full, 2) ** 2 + l2
    momentum = (np.sqrt(smoothness / l2) - 1) / (np.sqrt(smoothness / l2) + 1)
    for _ in range(3000):
        before, w = w, domain.project(ahead - gradient(full, y, loss, l2, tilt, ahead) / smoothness)
        ahead = w + momentum * (w - before)
    return w


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(
    "domain",
    [dc.domains.L2Ball(0.05), dc.domains.L2Ball(0.5), dc.domains.L2Ball(50.0), dc.domains.Box(-0.05, 0.1),
     dc.domains.Box(0.0, 0.3), dc.domains.Box(-20.0, 20.0)],
    ids=str,
)  # fmt: skip
def test_the_minimiser_over_a_domain(loss, domain, rng):
    n, d, l2 = 40, 4, 2.0
    X, y = rng.normal(size=(n, d)), labels(loss, n, rng)
    full = augmented(X, 1.0, 0.5)
    tilt = 4.0 * rng.normal(size=shape(loss, d + 1))
    best = by_projected_gradient(full, y, loss, l2, tilt, domain)
    tolerance = 1e-8
    for rows in containers(X, 1.0, 0.5):
        w = minimise(Memory(rows, y), loss, l2, tilt, tolerance, domain=domain)
        assert np.linalg.norm(domain.project(w) - w) <= 1e-15 * np.linalg.norm(w)
        assert np.linalg.norm(w - best) <= tolerance / l2 + 1e-11
        inward = domain.project(w - gradient(full, y, loss, l2, tilt, w)) - w
        assert np.linalg.norm(inward) <= 1.01 * tolerance


@pytest.mark.parametrize(
    "domain", [dc.domains.Everywhere(), dc.domains.L2Ball(0.3), dc.domains.Box(-0.1, 0.2)], ids=str
)
@pytest.mark.parametrize("loss", [SCALAR[0], SCALAR[2], dc.losses.Softmax(3.0)], ids=str)
def test_gradient_steps_alone_reach_the_certificate_within_the_stated_work(loss, domain, rng, monkeypatch):
    X, y = rng.normal(size=(60, 3)), labels(loss, 60, rng)
    sums, tilt = Memory(Dense(X, 1.0, 0.0), y), rng.normal(size=shape(loss, 3))
    whole = minimise(sums, loss, 0.3, tilt, 1e-8, domain=domain)
    monkeypatch.setattr(newton, "_PATIENCE", 0)
    assert np.linalg.norm(minimise(sums, loss, 0.3, tilt, 1e-8, domain=domain) - whole) <= 2e-8 / 0.3


def test_a_start_changes_nothing_but_the_way(rng):
    X, y = rng.normal(size=(60, 3)), rng.choice([-1.0, 1.0], 60)
    sums, tilt = Memory(Dense(X, 1.0, 0.0), y), np.zeros(3)
    near, far = (minimise(sums, SCALAR[0], 1.0, tilt, 1e-9, start=s) for s in (None, 1e3 * np.ones(3)))
    assert np.linalg.norm(near - far) <= 2e-9


def test_too_little_work_fails_with_a_constant_message(rng, monkeypatch):
    monkeypatch.setattr(newton, "most_work", lambda *_: Work(2, 0, 1))
    X, y = rng.normal(size=(60, 3)), rng.choice([-1.0, 1.0], 60)
    with pytest.raises(ReleaseError, match=r"^the solver did not reach its certificate; the run stays charged$"):
        minimise(Memory(Dense(X, 1.0, 0.0), y), SCALAR[1], 1.0, np.zeros(3), 1e-9)


def test_a_tolerance_below_rounding_is_refused_before_the_data_is_used(monkeypatch):
    monkeypatch.setattr(Memory, "sweep", None)
    sums = Memory(Dense(np.ones((10, 2)), 1.0, 0.0), np.ones(10))
    for tolerance in (1e-16, 0.0, -1.0, math.nan):
        with pytest.raises(InputError, match="least_tolerance"):
            minimise(sums, SCALAR[0], 1.0, np.zeros(2), tolerance)
    with pytest.raises(InputError, match="l2"):
        minimise(sums, SCALAR[0], 0.0, np.zeros(2), 1e-3)
    with pytest.raises(InputError, match="shape"):
        minimise(sums, SCALAR[0], 1.0, np.zeros(3), 1e-3)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(
    "domain", [dc.domains.Everywhere(), dc.domains.L2Ball(0.5), dc.domains.Box(-0.1, 0.2)], ids=str
)
def test_the_least_tolerance_is_reached(loss, domain, rng):
    n, d = 3000, 4
    X, y = rng.normal(size=(n, d)), labels(loss, n, rng)
    problem = dc.Problem(loss, domain=domain, feature_bound=1.0, l2=3.0, intercept=1.0)
    tilt = 5.0 * rng.normal(size=problem.weight_shape(d))
    least = least_tolerance(problem, n, d, float(np.linalg.norm(tilt)))
    assert 0.0 < least < 1e-5
    w = minimise(Memory(Dense(X, 1.0, 1.0), y), loss, 3.0, tilt, least, domain=domain)
    full = augmented(X, 1.0, 1.0)
    assert np.linalg.norm(domain.project(w - gradient(full, y, loss, 3.0, tilt, w)) - w) <= 1.01 * least


def test_least_tolerance_grows_with_the_records_and_may_not_exist():
    problem = dc.Problem(dc.losses.Logistic(), l2=1.0)
    assert least_tolerance(problem, 10_000, 5) > least_tolerance(problem, 1_000, 5)
    assert least_tolerance(problem, 10_000, 5, tilt=1e4) > least_tolerance(problem, 10_000, 5)
    assert least_tolerance(dc.Problem(dc.losses.Squared(), l2=1e-12), 10**9, 10) == math.inf
    with pytest.raises(InputError, match="l2"):
        least_tolerance(dc.Problem(dc.losses.Logistic()), 100, 5)


def test_the_work_is_known_from_public_facts():
    facts = newton._facts(SCALAR[0], 1.0, dc.domains.Everywhere(), Accumulation(10_000, 5, 1.0), 0.25)
    work = most_work(facts, 1e-6, facts.gradient(0.0))
    assert work.rounds == 11
    assert work.gradient < 1000
    assert most_work(facts, 1e12, 0.0).rounds == 1


def test_every_point_of_the_search_lowers_a_kinked_function():
    """The derivative jumps from -1 to +1 around 0.5: no point comes within a tenth, the left end is returned."""
    t = newton._fall(lambda t: (math.copysign(1.0, t - 0.5), 0.0), -1.0, math.inf)
    assert 0.49 <= t <= 0.5
