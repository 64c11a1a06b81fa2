import asyncio
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
