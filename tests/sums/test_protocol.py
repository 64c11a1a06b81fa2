"""What algorithms ask of rows: responses travel, no answer has an entry per record, and caches may vanish."""

import dataclasses
import inspect
import math
import pickle

import numpy as np
import pytest
from contracts.test_algorithms import CASES, IDS
from scipy import sparse

import dpconvex as dc
from dpconvex.data.arrays import open_people, open_rows
from dpconvex.errors import RowError
from dpconvex.loops.rows import CSR, Dense
from dpconvex.problem.losses import Kinked
from dpconvex.queries import evaluation
from dpconvex.queries.curvature import Curvature
from dpconvex.queries.evaluation import HeldOut
from dpconvex.queries.records import Cells, ScoreCounts, Scored
from dpconvex.sums import memory, protocol, recent
from dpconvex.sums.accuracy import Accumulation
from dpconvex.sums.memory import Memory, open_sums
from dpconvex.sums.protocol import Answer, Frame, Sums
from dpconvex.testing.algorithms import made_up

LOSS, W, V = dc.losses.Logistic(0.9, 0.5), np.array([0.5, -1.0, 0.2]), np.array([-0.3, 0.4, 1.0])
FRAME = Frame(np.array([0.6, 0.0, 0.8]), 0.5, 0.9)
RESPONSES = [
    protocol.Ones(),
    protocol.Labels(),
    protocol.Slopes(LOSS, W),
    protocol.Curvatures(LOSS, W),
    protocol.Bend(LOSS, W, V),
    protocol.FrameLengths(FRAME),
    *(protocol.Clipped(LOSS, W, 0.2, q) for q in (2.0, 3.0, math.inf)),
    protocol.Clipped(LOSS, W, 0.2, frame=FRAME),
    *(protocol.Truncated(LOSS, W, 0.2, 3.0, zero) for zero in (False, True)),
    protocol.Difference(LOSS, W, V, 2.0, 1.5, 0.3),
]
TERMS = [
    ScoreCounts(W, 3.0),
    Cells(LOSS, W, (0.2, 0.5)),
    *(Scored(name, LOSS, W, 0.01) for name in ("accuracy", "log_loss", "brier", "calibration", "calibration bins")),
    Scored("accuracy", LOSS, W, 0.01, numbered=True),
    *(Scored(name, dc.losses.Squared(), W, 0.01, 0.7, 0.1) for name in ("mse", "mae", "r2", "r2 spread")),
]


def table(rng, n=3000, d=3):
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)


def both(X, y, **said):
    thin = sparse.csr_array(X)
    dense = Dense(X, 1.5, 0.0)._replace(**said)
    return Memory(dense, y), Memory(CSR(thin.data, thin.indices, thin.indptr, X.shape[1], 1.5, 0.0)._replace(**said), y)


# Responses --------------------------------------------------------------------------------------------------------


def test_every_response_and_every_term_is_tried():
    made = {c for c in vars(protocol).values() if inspect.isclass(c) and issubclass(c, Answer) and c is not Answer}
    assert {type(r) for r in RESPONSES} == made == set(Answer.__subclasses__())
    summed = {c for c in vars(evaluation).values() if inspect.isclass(c) and c is not HeldOut and hasattr(c, "points")}
    assert {type(t) for t in TERMS} == summed


@pytest.mark.parametrize("response", [*RESPONSES, *TERMS], ids=lambda r: type(r).__name__)
def test_a_response_is_frozen_and_travels(response, rng):
    X, y = table(rng)
    again = pickle.loads(pickle.dumps(response))
    assert again is not response
    for field in dataclasses.fields(response):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(response, field.name, None)
        assert not callable(getattr(response, field.name)) or isinstance(getattr(response, field.name), Frame)
    for sums in both(X, y):
        ask = sums.fold if hasattr(response, "sum") else sums.sweep
        assert np.array_equal(ask(again), ask(response))


@pytest.mark.parametrize("response", RESPONSES, ids=lambda r: type(r).__name__)
def test_a_sweep_is_what_numpy_makes_of_the_rows(response, rng):
    X, y = table(rng, 200)
    omega = rng.random(200)
    full = X * np.minimum(1.0, 1.5 / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]

    def told(r):
        order = {0.0: 2.0}.get(r.norm, r.norm)
        norms = np.linalg.norm(full, order, axis=1)
        return protocol.Part(tuple(full @ w for w in r.points), y, norms, tuple(k.rows(told(k)) for k in r.kept), np)

    expected = (omega * response.rows(told(response))) @ full
    for sums in both(X, y, weights=omega):
        assert np.allclose(sums.sweep(response), expected, atol=1e-10)
        halves = [sums.view(0, 77), sums.sampled(np.arange(77, 200))]
        assert np.allclose(sum(half.sweep(response) for half in halves), expected, atol=1e-10)
        assert not sums.sampled(np.arange(0)).sweep(response).any()


def test_clipped_entries_and_people_of_a_part_are_those_of_its_rows(rng):
    X, y = table(rng, 60)
    people = rng.integers(0, 9, 60)
    r = protocol.Slopes(LOSS, W)
    alone = both(X[20:50], y[20:50], people=people[20:50])
    for sums, few in zip(both(X, y, people=people), alone, strict=True):
        part = sums.view(20, 50)
        assert np.allclose(part.entries(r, 0.1), few.entries(r, 0.1), atol=1e-14)
        assert np.allclose(part.people(r, 0.3), few.people(r, 0.3), atol=1e-14)
        some = np.isin(people, [2, 5])
        chosen = Memory(Dense(X[some], 1.5, 0.0, people=people[some]), y[some])
        assert np.allclose(sums.sampled(np.array([2, 5, 99])).people(r, 0.3), chosen.people(r, 0.3), atol=1e-14)
        assert not sums.sampled(np.array([99])).people(r, 0.3).any()


# Opening ----------------------------------------------------------------------------------------------------------


def test_opening_shortens_what_is_long_and_refuses_what_is_not_finite():
    X = np.array([[3e150, 4e150], [0.5, 0.0]])
    for rows in (Dense(X, 1.0, 0.0), Dense(np.array([[0.6, 0.8], [0.5, 0.0]]), 1.0, 0.0)):
        assert np.allclose(open_sums(rows, np.ones(2)).sweep(protocol.Ones()), [1.1, 0.8])
    for wrong in (np.nan, np.inf):
        with pytest.raises(RowError, match="not finite"):
            open_sums(Dense(np.array([[wrong, 1.0]]), 1.0, 0.0), np.ones(1))


# No entry per record ----------------------------------------------------------------------------------------------

N, D = 53, 3  # no other size of a plan is 53 or a multiple of it
ASKED = {name for name in vars(Sums) if not name.startswith("_")}


class Watched:
    """Sums that answer what others answer, and nothing of the size of the number of records."""

    def __init__(self, sums, seen):
        self._sums, self._seen = sums, seen

    def __getattr__(self, name):
        assert name in ASKED, f"{name} is not part of the protocol"
        value = getattr(self._sums, name)
        return self._ask(name, value) if callable(value) else value

    def _ask(self, name, method):
        def asked(*args, **options):
            for value in (*args, *options.values()):
                self._look(value, pickled=name not in ("sampled",))
            answer = method(*args, **options)
            self._seen.add(name)
            if isinstance(answer, Memory):
                return Watched(answer, self._seen)
            assert answer is None or isinstance(answer, np.ndarray | Accumulation)
            if isinstance(answer, np.ndarray):
                self._look(answer)
            return answer

        return asked

    def _look(self, value, pickled=True):
        if dataclasses.is_dataclass(value):
            pickle.dumps(value)
            for field in dataclasses.fields(value):
                self._look(getattr(value, field.name))
        else:
            assert not callable(value)
            assert not (pickled and isinstance(value, np.ndarray)) or not any(s % N == 0 for s in value.shape if s)
            assert not (pickled and isinstance(value, np.ndarray)) or value.size % N or not value.size


def watched(monkeypatch):
    """Give algorithms sums that are watched, and return the names of the methods they ask."""
    seen = set()
    monkeypatch.setattr(memory, "open_sums", lambda rows, y: Watched(open_sums(rows, y), seen))
    return seen


def is_sum(algorithm, problem):
    """Passes of one record at a time over rows, coordinate ascent, and frames that measure every row, are no sums."""
    name = type(algorithm).__name__
    if name == "FramedPerturbation":
        return False
    one_pass = name == "PrivateFTRL" and algorithm.mode != "linear"
    return not (one_pass or (name == "PhasedERM" and isinstance(problem.loss, Kinked)))


@pytest.mark.parametrize("case", [i for i, case in enumerate(CASES) if is_sum(*case)], ids=lambda i: IDS[i])
def test_nothing_of_the_size_of_the_records_reaches_an_algorithm(case, monkeypatch):
    algorithm, problem = CASES[case]
    plan = algorithm.plan(problem, n=N, d=D, budget=dc.Budget(1.0, 1e-6))
    X, y = made_up(problem, N, D, np.random.default_rng(3))
    expected = plan.run(X, y, dataset="watched", seed=5).weights
    seen = watched(monkeypatch)
    assert np.array_equal(plan.run(X, y, dataset="watched", seed=5).weights, expected)
    assert bool(seen) != (type(algorithm).__name__ in ("PhasedSGD", "NoisySGD", "SnowballSGD"))


@pytest.mark.parametrize("name", ["NoisyGD", "PoissonSGD", "SufficientStatistics"])
def test_nothing_of_the_size_of_the_records_reaches_an_algorithm_for_people(name, monkeypatch):
    X, y = made_up(dc.Problem(dc.losses.Squared()), N, D, np.random.default_rng(3))
    options = {} if name == "SufficientStatistics" else {"steps": 3}
    algorithm = getattr(dc.algorithms, name)(per_person=True, **options)
    plan = algorithm.plan(dc.Problem(dc.losses.Squared()), n=N, d=D, budget=dc.Budget(1.0, 1e-6))
    owner = np.arange(N) % 7
    expected = plan.run(X, y, groups=owner, dataset="watched", seed=5).weights
    seen = watched(monkeypatch)
    assert np.array_equal(plan.run(X, y, groups=owner, dataset="watched", seed=5).weights, expected)
    assert seen & {"people", "averaged"}


@pytest.mark.parametrize(
    ("query", "loss"),
    [
        (Curvature((0.1, 0.2, -0.3)), LOSS),
        (HeldOut((0.1, 0.2, -0.3), ("accuracy", "log_loss", "auc", "calibration")), dc.losses.Logistic()),
        (HeldOut((0.1, 0.2, -0.3), ("mse", "mae", "r2")), dc.losses.Squared()),
    ],
)
def test_nothing_of_the_size_of_the_records_reaches_a_query(query, loss, monkeypatch):
    problem = dc.Problem(loss)
    plan = query.plan(problem, n=N, d=D, budget=dc.Budget(1.0, 1e-6))
    X, y = made_up(problem, N, D, np.random.default_rng(3))
    expected = plan.run(X, y, dataset="watched", seed=5).weights
    seen = watched(monkeypatch)
    assert np.array_equal(plan.run(X, y, dataset="watched", seed=5).weights, expected)
    assert seen & {"hessian", "fold"}


@pytest.mark.parametrize("loss", [dc.losses.Logistic(), dc.losses.Huber(0.5), dc.losses.Softmax(3)], ids=str)
@pytest.mark.parametrize(
    "domain", [dc.domains.Everywhere(), dc.domains.L2Ball(0.3), dc.domains.Box(-0.2, 0.1)], ids=str
)
@pytest.mark.parametrize("factored", [512, 1])
def test_nothing_of_the_size_of_the_records_reaches_the_solver(loss, domain, factored, monkeypatch, rng):
    """A table large enough for a glance at some of its rows, and hard enough for a search along lines."""
    from dpconvex.sums import solver

    n = 128 * N
    X, tilt = 3.0 * rng.normal(size=(n, 3)), 20.0 * rng.normal(size=(3, 3) if loss.traits.labels == "class" else 3)
    y = rng.integers(0, 3, n) * 1.0 if loss.traits.labels == "class" else np.where(X[:, 0] > 0, 1.0, -1.0)
    monkeypatch.setattr(solver, "_FACTORED", factored)
    sums, seen = Memory(Dense(X, 2.0, 0.0), y), set()
    found = solver.minimise(sums, loss, 0.3, tilt, 1e-6, domain=domain)
    assert np.array_equal(solver.minimise(Watched(sums, seen), loss, 0.3, tilt, 1e-6, domain=domain), found)
    assert {"sweep", "error", "view"} <= seen


# Caches may vanish ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [i for i, case in enumerate(CASES) if is_sum(*case)], ids=lambda i: IDS[i])
def test_a_run_that_keeps_no_predictions_has_the_same_bits(case, monkeypatch):
    algorithm, problem = CASES[case]
    plan = algorithm.plan(problem, n=N, d=D, budget=dc.Budget(1.0, 1e-6))
    X, y = made_up(problem, N, D, np.random.default_rng(3))
    expected = plan.run(X, y, dataset="forgetful", seed=5).weights
    monkeypatch.setattr(recent, "KEPT", 0)
    assert np.array_equal(plan.run(X, y, dataset="forgetful", seed=5).weights, expected)


@pytest.mark.parametrize("loss", [dc.losses.Logistic(), dc.losses.Softmax(3)], ids=str)
def test_predictions_are_those_of_the_weights_as_they_are(loss, rng):
    """Weights that are changed in place are other weights."""
    X, y = table(rng)
    y = (y > 0) * 1.0 if loss.traits.labels == "class" else y
    shape = (3, 3) if loss.traits.labels == "class" else (3,)
    w, to = rng.normal(size=shape), rng.normal(size=shape)
    for sums in both(X, y):
        first = [sums.sweep(protocol.Slopes(loss, w), keep=True), sums.along(loss, w, to, (0.5,))]
        w *= 2.0
        fresh = both(X, y)[isinstance(sums.matrix.rows, CSR)]
        now = [sums.sweep(protocol.Slopes(loss, w), keep=True), sums.along(loss, w, to, (0.5,))]
        then = [fresh.sweep(protocol.Slopes(loss, w)), fresh.along(loss, w, to, (0.5,))]
        assert all(np.array_equal(a, b) for a, b in zip(now, then, strict=True))
        assert not any(np.array_equal(a, b) for a, b in zip(now, first, strict=True))
        assert np.array_equal(sums.diagonal(loss, w), fresh.diagonal(loss, w))


def test_rows_of_people_are_opened_like_any_others(rng):
    X, y = table(rng, 20)
    rows, labels = open_rows(X, y, dc.Problem(LOSS), 20, 3)
    sums = open_sums(rows._replace(people=open_people(np.arange(20) % 4, 20)[0]), labels)
    assert sums.averaged().sweep(protocol.Ones()).shape == (3,)
    assert sums.error() == Accumulation(20, 3, sums.row)
