"""Rows never decide between answers that cost nothing: an analyst who may only ask for fits learns nothing for free."""

import json
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from cli_helpers import dpconvex
from scipy import sparse

import dpconvex as dc
from dpconvex.errors import BudgetError, InputError

N = 60
RNG = np.random.default_rng(4)
SALARY, AGE = RNG.integers(20_000, 90_000, N), RNG.integers(20, 60, N)
FRAME = {"salary": SALARY.tolist(), "age": AGE.tolist()}
ILL = RNG.choice(["no", "yes"], N).tolist()
X = RNG.uniform(-0.5, 0.5, (N, 2))
Y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
NAMES = (f"oracle {k}" for k in count())
ODD = (np.nan, np.inf, None, "text", 1e300, -7.0, 10**400)


def schema(name, ages=range(121), labels=("no", "yes")):
    columns = {"salary": dc.schema.Number(0, 100_000), "age": dc.schema.Category([*map(str, ages), "never"])}
    return dc.Schema(columns, target=dc.schema.Classes("y", labels), name=name)


# The attack that read out a column ---------------------------------------------------------------------------------


def test_schemas_ask_no_questions_under_a_limit():
    """87 refused fits recovered all distinct ages, for nothing: whether all cells were declared was an answer."""
    name = next(NAMES)
    dc.limit(name, dc.Budget(0.001, 1e-6))
    answers = set()
    for ages in ([], range(121), *([a for a in range(121) if a != k] for k in range(20, 60))):
        model = dc.PrivateLogisticRegression(schema=schema(name, ages, ["zzz1", "zzz2"]), epsilon=1.0)
        with pytest.raises(BudgetError) as refused:
            model.fit(FRAME, ILL)
        answers.add(str(refused.value))
    assert len(answers) == 1
    assert dc.account(name).claims == ()


# Every way in ------------------------------------------------------------------------------------------------------


def spoilt(table, odd):
    """A neighbour: one cell of the table is odd."""
    if isinstance(table, dict):
        return {
            name: [odd if (name, i) == ("age", 7) else cell for i, cell in enumerate(c)] for name, c in table.items()
        }
    if isinstance(table, list):
        return [odd if i == 7 else cell for i, cell in enumerate(table)]
    cells = table.astype(object)
    cells[(7, 1) if table.ndim == 2 else 7] = odd
    try:
        return cells.astype(float)
    except (TypeError, ValueError, OverflowError):
        return cells


def fit(model):
    return lambda name, table, y, **more: model(name).fit(table, y, **more)


def batches(name, table, y):
    model = dc.PrivateSGDClassifier(schema=schema(name), n_rows=N)
    cut = [slice(0, 20), slice(20, N)]
    return model.fit_batches([({k: c[part] for k, c in table.items()}, y[part]) for part in cut])


def stream(name, table, y):
    return dc.PrivateOnlineClassifier(schema=schema(name)).partial_fit(table, y)


def held_out(name, table, y):
    return dc.evaluate(MODELS.schema, table, y, budget=dc.Budget(1.0, 1e-6), dataset=name)


def of_arrays(name, table, y):
    return dc.evaluate(MODELS.arrays, table, y, budget=dc.Budget(1.0, 1e-6), dataset=name)


def recalibrated(name, table, y):
    return dc.recalibrate(MODELS.solution, table, y, budget=dc.Budget(1.0, 1e-6), dataset=name)


def planned(name, table, y, **more):
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
    return (
        dc.algorithms.NoisyGD(steps=3)
        .plan(problem, n=N, d=2, budget=dc.Budget(1.0, 1e-6))
        .run(table, y, dataset=name, **more)
    )


def session(name, table, y):
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
    started = dc.algorithms.PrivateFTRL().plan_stream(problem, d=2, budget=dc.Budget(1.0, 1e-6)).start(dataset=name)
    return started.feed(table, y)


def chosen(name, table, y):
    model = dc.PrivateLogisticRegression(schema=schema(name), algorithm="NoisyGD")
    return dc.PrivateSelection(model, {"fit_intercept": [True, False]}, repeats=1.01, epsilon=8.0).fit(table, y)


MODELS = SimpleNamespace()
SCHEMA_WAYS = {
    "fit": fit(lambda name: dc.PrivateLogisticRegression(schema=schema(name), weight_cap=9.0)),
    "fit, one pass": fit(lambda name: dc.PrivateSGDClassifier(schema=schema(name))),
    "fit_batches": batches,
    "partial_fit": stream,
    "evaluate": held_out,
    "select": chosen,
}
ARRAY_WAYS = {
    "run": planned,
    "feed": session,
    "evaluate": of_arrays,
    "recalibrate": recalibrated,
    "fit": lambda name, table, y: under(
        name, dc.PrivateLogisticRegression(feature_bound=1.0, classes=[-1, 1]), table, y
    ),
    "fit in a box": lambda name, table, y: under(
        name, dc.PrivateSGDClassifier(feature_bound=dc.bounds.Linf(1.0), classes=[-1, 1]), table, y
    ),
}


def under(name, model, table, y):
    with dc.context(dataset=name):
        return model.fit(table, y)


@pytest.fixture(scope="module", autouse=True)
def models():
    MODELS.schema = dc.PrivateLogisticRegression(schema=schema("fitted for the oracles")).fit(FRAME, ILL)
    with dc.context(dataset="fitted for the oracles, arrays"):
        MODELS.arrays = dc.PrivateLogisticRegression(feature_bound=1.0, classes=[-1, 1]).fit(X, Y)
        MODELS.solution = planned("fitted for the oracles, plan", X, Y)


def answer(way, table, y, limit=None):
    """What the analyst sees, apart from noise: the kind of error, and how much was charged."""
    name = next(NAMES)
    if limit is not None:
        dc.limit(name, limit)
    try:
        way(name, table, y)
        said = "a release"
    except (InputError, BudgetError, ValueError) as error:
        said = f"{type(error).__name__}: {str(error).replace(name, '')}"
    return said, len(dc.account(name).claims)


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("way", SCHEMA_WAYS)
def test_through_a_schema_no_cell_and_no_label_is_refused(way, odd):
    for table, y in ((spoilt(FRAME, odd), ILL), (FRAME, spoilt(ILL, odd))):
        assert answer(SCHEMA_WAYS[way], table, y) == ("a release", 1)


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("way", ARRAY_WAYS)
def test_of_arrays_what_rows_say_is_refused_after_the_charge_or_not_at_all(way, odd):
    for table, y in ((spoilt(X, odd), Y), (X, spoilt(Y, odd))):
        said, charged = answer(ARRAY_WAYS[way], table, y)
        assert charged == 1, said
        assert said == "a release" or said.startswith("RowError")
    clean, bad = (answer(ARRAY_WAYS[way], table, Y, dc.Budget(0.001, 1e-6)) for table in (X, spoilt(X, odd)))
    assert clean == bad
    assert clean[0].startswith("BudgetError")


@pytest.mark.parametrize("odd", [np.nan, np.inf, None, -1.0, "text"], ids=repr)
@pytest.mark.parametrize("what", ["sample_weight", "groups"])
def test_weights_and_group_ids_refuse_nothing(what, odd):
    given = spoilt(np.arange(1.0, N + 1.0), odd)
    if what == "sample_weight":
        ways = [lambda name, table, y: planned(name, table, y, sample_weight=given, weight_cap=9.0)]
        ways += [lambda name, table, y: SCHEMA_WAYS["fit"](name, FRAME, ILL, sample_weight=given)]
    else:
        people = dc.PrivateLogisticRegression(feature_bound=1.0, classes=[-1, 1], algorithm="NoisyGD")
        ways = [lambda name, table, y: under_groups(name, people, table, y, given)]
    for way in ways:
        assert answer(way, X, Y) == ("a release", 1)


def under_groups(name, model, table, y, groups):
    with dc.context(dataset=name):
        return model.fit(table, y, groups=groups)


@pytest.mark.parametrize("thin", [sparse.csr_array, sparse.csc_matrix])
def test_sparse_rows_are_no_other_way_out(thin):
    for odd in (np.nan, np.inf):
        said, charged = answer(planned, thin(spoilt(X, odd)), Y)
        assert said.startswith("RowError")
        assert charged == 1


def test_the_command_line_refuses_no_cell(tmp_path):
    path, data, model = tmp_path / "schema.json", tmp_path / "data.csv", tmp_path / "model.json"
    path.write_text(json.dumps(schema("oracle on the command line").to_dict()), encoding="utf-8")
    for odd in ("text", "", "inf", "nan", "1e400"):
        for column in (0, 1, 2):
            rows = [[str(cell) for cell in row] for row in zip(*FRAME.values(), ILL, strict=True)]
            rows[7][column] = odd
            data.write_text("\n".join(map(",".join, [["salary", "age", "y"], *rows])), encoding="utf-8")
            fitted = dpconvex("fit", data, "--schema", path, "--epsilon", 1, "-o", model, "--force")
            assert fitted.exit_code == 0, fitted.stderr


# Facts that were not declared ----------------------------------------------------------------------------------------

UNDECLARED = {
    "one class": (dc.PrivateLogisticRegression(), np.ones(N)),
    "numbers for labels": (dc.PrivateLogisticRegression(), X[:, 0]),
    "several types": (dc.PrivateLogisticRegression(), np.array([1, "a"] * (N // 2), dtype=object)),
    "three classes": (dc.PrivateLinearSVC(), np.arange(N) % 3),
    "three classes, own algorithm": (dc.PrivateLogisticRegression(algorithm="PhasedERM"), np.arange(N) % 3),
    "a missing number": (dc.PrivateRidge(), np.where(np.arange(N) == 7, np.nan, 1.0)),
    "text": (dc.PrivateRidge(), np.array(["a"] * N)),
    "three classes, selected": (
        dc.PrivateSelection(dc.PrivateLogisticRegression(algorithm="PhasedERM"), {"fit_intercept": [True, False]}, 1.5),
        np.arange(N) % 3,
    ),
    "a stream": (dc.PrivateOnlineClassifier(), np.ones(N)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", UNDECLARED)
def test_targets_that_were_not_declared_are_charged_before_they_decide(case):
    """Whether a target has two classes, or a range, is an answer: it costs as much as a fit."""
    model, y = UNDECLARED[case]
    name = next(NAMES)
    with dc.context(dataset=name), pytest.raises(InputError, match="stays charged"):
        model.fit(X, y)
    assert len(dc.account(name).claims) == 1
    limited = next(NAMES)
    dc.limit(limited, dc.Budget(0.001, 1e-9))
    said = set()
    for target in (y, Y):
        with dc.context(dataset=limited), pytest.raises(BudgetError) as refused:
            model.fit(X, target)
        said.add(str(refused.value))
    assert len(said) == 1


@pytest.mark.filterwarnings("ignore")
def test_what_is_wrong_with_parameters_or_shapes_stays_free():
    name = next(NAMES)
    for model, y in (
        (dc.PrivateLogisticRegression(epsilon=-1.0), np.ones(N)),
        (dc.PrivateLogisticRegression(algorithm="Newton"), np.ones(N)),
        (dc.PrivateLogisticRegression(), np.ones((N, 2))),
        (dc.PrivateLogisticRegression(strict=True), np.ones(N)),
        (dc.PrivateRidge(), np.ones(N - 1)),
    ):
        with dc.context(dataset=name), pytest.raises(ValueError) as refused:  # noqa: PT011
            model.fit(X, y)
        assert "charged" not in str(refused.value)
    assert dc.account(name).claims == ()
