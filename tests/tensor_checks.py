"""What sums over tensors must be, whatever makes the tensors: the same as sums over rows in memory."""

import math
import warnings

import numpy as np

import dpconvex as dc
from dpconvex.loops.rows import Dense, Tensors
from dpconvex.namespaces import host, namespace
from dpconvex.sums import careful, protocol, rowwise
from dpconvex.sums.memory import Memory
from dpconvex.sums.symbols import Graph
from dpconvex.sums.tensors import TensorSums

LOSSES = [
    dc.losses.Logistic(),
    dc.losses.Logistic(0.7, 1.5),
    dc.losses.SmoothedHinge(0.5),
    dc.losses.Squared(),
    dc.losses.Huber(0.5),
    dc.losses.LogCosh(0.7),
    dc.losses.Hinge(),
    dc.losses.Absolute(),
    dc.losses.Pinball(0.3),
    dc.losses.Linear(2.0),
]
SHAPES = [(2500, 5, 0.0, np.float64), (3000, 7, 0.3, np.float32), (1, 1, 0.0, np.float64), (1024, 2, 0.5, np.float32)]


def check_loss(loss, tensor, rng):
    """Values, slopes and curvatures are those of the scalar loss but for a few units in the last place."""
    z, y = 5.0 * rng.normal(size=2000), rng.choice([-1.0, 1.0], 2000)
    z[:4], y[:4] = [1.0, -1.0, 0.0, -0.0], [1.0, -1.0, 1.0, -1.0]
    z[4:8] = [700.0, -700.0, 1e-300, -1e15]
    for name, function in (("value", rowwise.values), ("slope", rowwise.slopes), ("curvature", rowwise.curvatures)):
        with np.errstate(over="ignore"):
            exact = np.array([getattr(loss, name)(*pair) for pair in zip(z, y, strict=True)])
        found = host(function(loss, tensor(z), tensor(y)))
        assert (np.abs(found - exact) <= np.maximum(1e-15, 16 * 2.0**-53 * np.abs(exact))).all(), name


def check_softmax(tensor, rng):
    loss, Z, y = dc.losses.Softmax(4, 0.3), 5.0 * rng.normal(size=(500, 4)), rng.integers(0, 4, 500).astype(float)
    for function in (rowwise.values, rowwise.slopes, rowwise.curvatures):
        assert np.allclose(host(function(loss, tensor(Z), tensor(y))), function(loss, Z, y), rtol=0, atol=4e-15)


def check_careful_slope(tensor, rng):
    """Pairs of tensors are those of the compiled scalar code, to a hundred bits."""
    graph, z = Graph(careful.logistic_slope, (), 5), 5.0 * rng.normal(size=500)
    low, y, one = z * 2.0**-54 * rng.uniform(-1, 1, 500), rng.choice([-1.0, 1.0], 500), np.ones(500)
    high, rest = map(host, graph(tuple(map(tensor, (z, low, y, 0.9 * one, 0.5 * one))), namespace(tensor(z))))
    exact = np.array([careful.logistic_slope(*given, 0.9, 0.5) for given in zip(z, low, y, strict=True)])
    assert np.abs((high - exact[:, 0]) + (rest - exact[:, 1])).max() < 2.0**-98


def pair_of_sums(tensor, n, d, constant, kind, rng, classes=None):
    X = 2.0 * rng.normal(size=(n, d)).astype(kind)
    y = rng.integers(0, classes, n).astype(float) if classes else rng.choice([-1.0, 1.0], n)
    said = {"weights": rng.random(n), "people": np.unique(rng.integers(0, 400, n), return_inverse=True)[1]}
    exact, found = Memory(Dense(X, 3.0, constant, **said), y), TensorSums(Tensors(tensor(X), 3.0, constant, **said), y)
    exact.open()
    found.open()
    return exact, found


def far(found, exact):
    exact = np.asarray(exact)
    return np.abs(found - exact).max() / max(1.0, np.abs(exact).max()) if exact.size else 0.0


def check_sums(tensor, shape, loss, rng):
    """Every question of the protocol."""
    exact, found = pair_of_sums(tensor, *shape, rng)
    w, v = rng.normal(size=(2, exact.size))
    frame = protocol.Frame(v / np.linalg.norm(v), 0.5, 0.9)
    some, people = slice(shape[0] // 7, shape[0], 3), np.arange(5, 60)
    responses = [
        protocol.Ones(),
        protocol.Labels(),
        protocol.Slopes(loss, w),
        protocol.Curvatures(loss, w),
        protocol.Bend(loss, w, v),
        protocol.FrameLengths(frame),
        *(protocol.Clipped(loss, w, 0.2, q) for q in (2.0, 3.0, math.inf)),
        protocol.Clipped(loss, w, 0.2, frame=frame),
        *(protocol.Truncated(loss, w, 0.2, 3.0, zero) for zero in (False, True)),
        protocol.Difference(loss, w, v, 2.0, 1.5, 0.3),
    ]
    for r in responses:
        for keep in (True, False):
            assert far(found.sweep(r, keep=keep), exact.sweep(r, keep=keep)) < 1e-12, r
        assert far(found.entries(r, 0.1), exact.entries(r, 0.1)) < 1e-12, r
        if r.points:
            assert far(found.people(r, 0.3), exact.people(r, 0.3)) < 1e-12, r
        views = (sums.view(some.start, some.stop, some.step).sweep(r) for sums in (found, exact))
        assert far(*views) < 1e-12, r
        assert far(found.sampled(people).sweep(r), exact.sampled(people).sweep(r)) < 1e-12, r
    slopes = protocol.Slopes(loss, w)
    assert far(found.averaged().sweep(slopes), exact.averaged().sweep(slopes)) < 1e-12
    assert far(found.hessian(loss, w), exact.hessian(loss, w)) < 1e-12
    assert far(found.hessian(loss, w, True), exact.hessian(loss, w)) < 1e-5
    assert far(found.diagonal(loss, w), exact.diagonal(loss, w)) < 1e-12
    assert far(found.along(loss, w, v, (0.0, 0.5)), exact.along(loss, w, v, (0.0, 0.5))) < 1e-12
    assert found.error() == exact.error()
    if isinstance(loss, dc.losses.Logistic):
        rest = rng.normal(size=exact.size)
        assert far(found.careful(loss, w, rest), exact.careful(loss, w, rest)) < 1e-15


def check_softmax_sums(tensor, rng):
    loss = dc.losses.Softmax(4, 0.3)
    exact, found = pair_of_sums(tensor, 2500, 5, 0.4, np.float32, rng, classes=4)
    W, V = rng.normal(size=(2, 4, exact.size))
    axis = np.eye(exact.size)[0]
    for r in (
        protocol.Slopes(loss, W),
        protocol.Curvatures(loss, W),
        protocol.Bend(loss, W, V),
        protocol.Clipped(loss, W, 0.2),
        protocol.Clipped(loss, W, 0.2, frame=protocol.Frame(axis, 0.5, 0.9)),
    ):
        assert far(found.sweep(r), exact.sweep(r)) < 1e-12
    assert far(found.people(protocol.Slopes(loss, W), 0.3), exact.people(protocol.Slopes(loss, W), 0.3)) < 1e-12
    assert far(found.diagonal(loss, W), exact.diagonal(loss, W)) < 1e-12
    assert far(found.along(loss, W, V, (0.0, 0.5)), exact.along(loss, W, V, (0.0, 0.5))) < 1e-12


def check_a_person_that_overflows(tensor, rng):
    """Whoever adds what is not finite counts as nothing, and reaches nobody else."""
    X, y, people = rng.normal(size=(60, 3)), rng.choice([-1.0, 1.0], 60), np.arange(60) // 3
    ask = protocol.Slopes(dc.losses.Squared(), np.zeros(4))
    for wild in (1e200, np.inf, np.nan):
        y[7] = wild
        exact, found = (
            Memory(Dense(X, 1.0, 0.4, people=people), y),
            TensorSums(Tensors(tensor(X), 1.0, 0.4, people=people), y),
        )
        kept = people != people[7]
        others = Memory(Dense(X[kept], 1.0, 0.4, people=people[kept]), y[kept]).people(ask, 0.3)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = [s.people(ask, 0.3) for s in (exact, found)]
        assert all(far(one, others) < 1e-13 for one in sums)


def check_against_fractions(tensor, rng):
    """A sum that cancels is off by rounding, and by less than the bound that is charged."""
    from fractions import Fraction

    from dpconvex.theorems.computed_sums import sum_error

    x, y = rng.uniform(0.5, 1.0, 20_000), np.tile([1.0, -1.0], 10_000)
    found = TensorSums(Tensors(tensor(x[:, None]), 1.0, 0.0), y).sweep(protocol.Labels())[0]
    exact = sum(Fraction(a) * int(b) for a, b in zip(x, y, strict=True))
    assert abs(Fraction(found) - exact) < Fraction(sum_error(20_000, 1))


def check_runs(tensor, context, rng, n=3000, d=6):
    """Receipts are those of the CPU but for what names the engine; NoisyGD gives the same bits, minimisers are near."""
    X = rng.normal(size=(n, d)).astype(np.float32) / 2.0
    y, classes = np.sign(X[:, 0] + rng.normal(size=n)), rng.integers(0, 3, n).astype(float)
    budget, algorithms = dc.Budget(1.0, 1e-6), dc.algorithms
    for loss, labels in ((dc.losses.Logistic(), y), (dc.losses.Softmax(3), classes)):
        problem = dc.Problem(loss)
        noisy = (algorithms.NoisyGD(steps=20), algorithms.MeanDirection(), algorithms.PoissonSGD(steps=20))
        for algorithm in noisy[: 3 if labels is y else 1]:
            plan = algorithm.plan(problem, n=n, d=d, budget=budget)
            cpu, device = both_ways(plan, X, labels, tensor, context)
            assert np.array_equal(device.weights, cpu.weights), type(algorithm)
            assert differ(cpu.receipt, device.receipt) <= {"engine", "signature", "digest"}
    plan = algorithms.ObjectivePerturbation().plan(dc.Problem(dc.losses.Logistic()), n=n, d=d, budget=budget)
    cpu, device = both_ways(plan, X, y, tensor, context)
    grid = max(float(np.max(release.grid)) for release in plan.releases if release.grid is not None)
    assert np.linalg.norm(device.weights - cpu.weights) <= 2.0 * plan.schedule[0].tolerance + grid * d**0.5
    assert differ(cpu.receipt, device.receipt) <= {"engine", "released", "signature", "digest"}


def both_ways(plan, X, y, tensor, context):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cpu = plan.run(X, y, seed=3)
        with context():
            device = plan.run(tensor(X), tensor(y), seed=3)
    assert cpu.receipt.sections["engine"]["rows"] == "memory"
    assert device.receipt.sections["engine"]["rows"].startswith("tensors on ")
    for line in ("plan", "claim", "facts", "arithmetic"):
        assert cpu.receipt.sections[line] == device.receipt.sections[line]
    assert dc.verify(device.receipt)
    return cpu, device


def differ(one, other):
    """Sections of two receipts that differ; of the engine only the line that says what computed sums may."""
    first, second = (receipt.sections["engine"] | {"rows": ""} for receipt in (one, other))
    assert first == second
    return {name for name in one.sections if one.sections[name] != other.sections[name]}
