import asyncio
import sys
import threading

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.context import charged, settings
from dpconvex.data.schema import Classes, Number
from dpconvex.errors import InputError

X = np.linspace(-1.0, 1.0, 40).reshape(-1, 1)
Y = np.where(X[:, 0] > 0.0, 1.0, -1.0)


def plan():
    return dc.choose(dc.Problem(dc.losses.Logistic()), n=40, d=1, budget=dc.Budget(1.0, 1e-6))


def test_runs_are_charged_to_the_data_set_of_the_context():
    with dc.context(dataset="of the context"):
        assert plan().run(X, Y).receipt.data["dataset"]["name"] == "of the context"
        assert plan().run(X, Y, dataset="named").receipt.data["dataset"]["name"] == "named"
    assert len(dc.account("of the context").claims) == len(dc.account("named").claims) == 1
    assert settings().dataset == "default"


def test_batches_and_streams_are_charged_to_it_too():
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(1.0))
    options = {"n": 40, "d": 1, "budget": dc.Budget(1.0, 1e-6)}
    with dc.context(dataset="in pieces"):
        batches = dc.algorithms.PhasedSGD(shuffle=False).plan(problem, **options).run_batches([(X, Y)])
        stream = dc.algorithms.PrivateFTRL().plan(problem, **options).start()
    assert batches.receipt.data["dataset"]["name"] == stream.dataset == "in pieces"


@pytest.mark.parametrize(("name", "expected"), [(None, "fits"), ("default", "fits"), ("own name", "own name")])
def test_fits_are_charged_to_it_unless_their_schema_has_a_name(name, expected):
    model = dc.PrivateLogisticRegression(feature_bound=1.0, classes=[-1.0, 1.0])
    table = X
    if name is not None:
        table = {"x": X[:, 0]}
        model = dc.PrivateLogisticRegression(schema=dc.Schema({"x": Number(-1, 1)}, Classes("y", [-1, 1]), name=name))
    with dc.context(dataset="fits"):
        assert model.fit(table, Y).receipt_.data["dataset"]["name"] == expected


def test_contexts_nest():
    with dc.context(dataset="outer"):
        with dc.context(dataset="inner") as inner:
            assert inner is settings()
            assert charged(None) == "inner"
        with dc.context():
            assert charged(None) == "outer"
    assert charged(None) == "default"


def test_a_context_ends_with_an_exception():
    with pytest.raises(ZeroDivisionError), dc.context(dataset="inner"):
        raise ZeroDivisionError
    assert charged(None) == "default"


def test_a_context_belongs_to_its_thread():
    seen = []
    with dc.context(dataset="main"):
        thread = threading.Thread(target=lambda: seen.append(charged(None)))
        thread.start()
        thread.join()
    assert seen == ["default"]


def test_a_context_belongs_to_its_task():
    async def work(name):
        with dc.context(dataset=name):
            await asyncio.sleep(0.01)
            return charged(None)

    async def both():
        return await asyncio.gather(work("one"), work("two"))

    assert asyncio.run(both()) == ["one", "two"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "x"}, "no such setting: 'data'; the settings of a context are dataset"),
        ({"dataset": 3}, "dataset must be a name"),
        ({"dataset": ""}, "dataset must be a name"),
    ],
)
def test_what_is_no_setting_is_refused(changes, message):
    with pytest.raises(InputError, match=message), dc.context(**changes):
        pass
    assert settings().dataset == "default"


# Time --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def slept(monkeypatch):
    """A clock that stands still but for what the library sleeps and a job takes."""
    clock, slept = [100.0], []

    def sleep(seconds):
        slept.append(seconds)
        clock[0] += seconds

    for module in ("dpconvex.context", "dpconvex.plan.run"):
        monkeypatch.setattr(sys.modules[module], "monotonic", lambda: clock[0])
    monkeypatch.setattr("dpconvex.plan.run.sleep", sleep)
    return clock, slept


def test_runs_end_at_whole_multiples_of_the_padded_time(slept, monkeypatch):
    clock, waits = slept
    execute = dc.algorithms.MeanDirection.execute
    takes = [0.3, 2.25, 0.0, 0.0, 0.0]

    def slow(self, *args):
        clock[0] += takes.pop(0)
        execute(self, *args)

    monkeypatch.setattr(dc.algorithms.MeanDirection, "execute", slow)
    mean = dc.algorithms.MeanDirection().plan(dc.Problem(dc.losses.Logistic()), n=40, d=1, budget=dc.Budget(1.0, 1e-6))
    with dc.context(pad_time=1.0):
        clock[0] += 0.25  # a table is opened
        mean.run(X, Y, seed=1)
        assert clock[0] == 101.0
        mean.run(X, Y, seed=1)
        assert clock[0] == 104.0
        mean.run(X, Y, seed=1)
        assert clock[0] == 104.0
        with dc.context(dataset="of a request"), pytest.raises(dc.errors.RowError):
            mean.run(np.full_like(X, np.nan), Y, seed=1)
        assert clock[0] == 104.0
    assert waits == [pytest.approx(0.45), pytest.approx(0.75), 0.0, 0.0]
    mean.run(X, Y, seed=1)
    assert len(waits) == 4


@pytest.mark.parametrize("failure", [MemoryError, KeyboardInterrupt, dc.errors.RowError])
def test_errors_are_padded_too(slept, monkeypatch, failure):
    clock, _ = slept

    def broken(self, *args):
        clock[0] += 0.125
        raise failure

    made = plan()
    monkeypatch.setattr(type(made.algorithm), "execute", broken)
    with dc.context(pad_time=0.5), pytest.raises(failure):
        made.run(X, Y, seed=1)
    assert clock[0] == 100.5


def test_portions_of_a_stream_are_padded(slept):
    clock, waits = slept
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(1.0))
    stream = dc.algorithms.PrivateFTRL().plan(problem, n=40, d=1, budget=dc.Budget(1.0, 1e-6)).start(seed=1)
    with dc.context(pad_time=0.5):
        clock[0] += 0.125
        stream.feed(X[:20], Y[:20])
        clock[0] += 0.125
        with pytest.raises(dc.errors.RowError):
            stream.feed(X[:1] * np.inf, Y[:1])
        clock[0] += 0.125
        stream.observe(np.ones(1))
    assert waits == [0.375] * 3
    assert clock[0] == 101.5


@pytest.mark.parametrize("seconds", [0.0, -1.0, np.nan, np.inf, True, "1"])
def test_padded_time_is_a_positive_number(seconds):
    with pytest.raises(InputError, match="positive number of seconds"), dc.context(pad_time=seconds):
        pass


def test_only_settings_can_be_set():
    with pytest.raises(InputError, match="no such setting: 'entered'"), dc.context(entered=0.0):
        pass
