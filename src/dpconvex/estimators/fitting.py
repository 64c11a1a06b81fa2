"""What every estimator does around a plan: open what it is given, declare or read public facts, plan, seed."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dpconvex import algorithms, canonical
from dpconvex.chooser import choose
from dpconvex.context import DEFAULT_DATASET, charged
from dpconvex.data.arrays import open_people, open_weights
from dpconvex.data.frames import as_texts, text
from dpconvex.data.schema import Classes, Range, Schema
from dpconvex.errors import InputError, PrivacyLeakWarning, SelectionWarning, warn
from dpconvex.estimators.preprocess import PrivatePreprocessor
from dpconvex.kernel.budget import Budget
from dpconvex.plan.people import keep_first, protect_people
from dpconvex.plan.plan import Plan
from dpconvex.problem.bounds import L2, LARGEST, SMALLEST, Bound
from dpconvex.problem.losses import Kinked, Logistic, Loss
from dpconvex.problem.problem import Problem

_SELECTING = ("sklearn.model_selection", "sklearn.feature_selection", "sklearn.calibration", "sklearn.inspection")
CONSTANT = 0.3  # of the bound on a row: what the constant feature gets where no schema says how many columns share it


class Opened(NamedTuple):
    """Rows ready for a plan, with their public facts and the name that is charged for them."""

    X: Any
    bound: Bound
    constant: float
    rows_per_person: int
    dataset: str

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])


def open_features(model: Any, X: Any, y: Any, sample_weight: Any, undeclared: list[str]) -> Opened:
    """Check the form of what `fit` was given and encode the rows; what had to be read off them joins `undeclared`.

    Rows of weight 0 are as if they were not there: nothing is read off them.
    """
    if model.schema is None:
        if y is None:
            raise InputError(f"{type(model).__name__} requires y to be passed, but the target y is None")
        X = _validated(model, X, reset=True)
        bound = model.feature_bound
        if bound is None:
            _leak(model, "feature_bound", "The bound on a row of X was", undeclared)
            bound = _longest(X[_counted(sample_weight, X.shape[0])])
        bound = Problem(Logistic(), feature_bound=bound).feature_bound  # a number there means an l2 norm
        return Opened(X, bound, constant_of(bound, X.shape[1]), model.rows_per_person, charged(None))
    schema = _schema(model)
    if model.feature_bound is not None:
        raise InputError("feature_bound follows from the schema: give one of the two")
    encoder = PrivatePreprocessor(schema)
    rows = encoder.fit_transform(X)
    model.n_features_in_ = encoder.n_features_in_
    model.feature_names_in_ = encoder.feature_names_in_
    dataset = charged(None if schema.name == DEFAULT_DATASET else schema.name)
    return Opened(rows, L2(encoder.row_bound_), encoder.constant_, _people(model, schema), dataset)


def constant_of(bound: Bound, d: int) -> float:
    """Constant feature where no schema says how many columns share the bound."""
    return max(CONSTANT * bound.l2(d), SMALLEST)


def encoded(model: Any, X: Any) -> Any:
    """Rows to predict, in the form the weights are for."""
    if model.schema is None:
        return _validated(model, X, reset=False)
    return PrivatePreprocessor(_schema(model)).fit_transform(X)


def encode_labels(
    model: Any, X: Any, y: Any, sample_weight: Any, undeclared: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of every label among the classes, and the classes, sorted."""
    declared = _declared_classes(model)
    _need_target(model, y)
    if declared is None:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        _leak(model, "classes", "The list of classes was", undeclared)
        classes = np.unique(y[_counted(sample_weight, len(y))])
        if len(classes) < 2:
            raise InputError("y holds one class only; declare all of them in `classes` to fit nevertheless")
        return np.minimum(np.searchsorted(classes, y), len(classes) - 1), classes
    labels = _label_array(declared.labels)
    order = np.argsort(labels)
    codes = model.schema.read_target(X) if y is None else declared.encode(column_or_1d(y, warn=True))
    return np.argsort(order)[codes], labels[order]


def _need_target(model: Any, y: Any) -> None:
    if y is None and (model.schema is None or model.schema.target is None):
        raise InputError("pass y, or declare the target in the schema")


def encode_targets(
    model: Any, X: Any, y: Any, sample_weight: Any, undeclared: list[str]
) -> tuple[np.ndarray, tuple[float, float]]:
    """Return the targets, clipped to their range, and the range."""
    declared = _declared_range(model)
    _need_target(model, y)
    if declared is not None and y is None:
        return model.schema.read_target(X), (declared.low, declared.high)
    y = _target_column(y)
    if declared is None:
        plain = Range("y", -LARGEST, LARGEST).encode(y)[_counted(sample_weight, len(y))]
        _leak(model, "target_range", "The range of the target was", undeclared)
        low, high = float(plain.min()), float(plain.max())
        declared = Range("y", low, high) if low < high else Range("y", low - 1.0, high + 1.0)
    return declared.encode(y), (declared.low, declared.high)


def _counted(sample_weight: Any, n: int) -> Any:
    """The rows of a weight above 0."""
    if sample_weight is None:
        return slice(None)
    counted = open_weights(sample_weight, 1.0, n) > 0.0
    if not counted.any():
        raise InputError("sample_weight is zero for every row: nothing is left to fit")
    return counted


class Units(NamedTuple):
    """How much each row counts, from 0 to 1, and whose it is; None where nothing was said."""

    weights: np.ndarray | None
    people: Any
    weighted: bool  # by the caller, and not only to leave rows out


def open_units(model: Any, sample_weight: Any, groups: Any, rows: Opened, target: Any, undeclared: list[str]) -> Units:
    """Weights as parts of their cap, with the weights of classes; later rows of people who have too many count 0."""
    weights = _record_weights(model, sample_weight, rows.n, undeclared)
    of_classes = _class_weights(model, target)
    if of_classes is not None:
        weights = of_classes if weights is None else weights * of_classes
    weighted = weights is not None
    if groups is None or rows.rows_per_person == 1:
        return Units(weights, groups, weighted)
    first = keep_first(open_people(groups, rows.n), rows.rows_per_person).astype(np.float64)
    return Units(first if weights is None else weights * first, None, weighted)


def _record_weights(model: Any, sample_weight: Any, n: int, undeclared: list[str]) -> np.ndarray | None:
    cap = getattr(model, "weight_cap", None)
    if sample_weight is None:
        return None if cap is None else open_weights(np.ones(n), cap, n)
    if cap is None:
        _counted(sample_weight, n)
        _leak(model, "weight_cap", "The largest sample_weight was", undeclared)
        cap = float(np.asarray(sample_weight).max())
    return open_weights(sample_weight, cap, n)


def _class_weights(model: Any, target: Any) -> np.ndarray | None:
    declared = getattr(model, "class_weight", None)
    if declared is None:
        return None
    if not isinstance(declared, Mapping):
        raise InputError(
            "class_weight must be a dict from classes to numbers; 'balanced' would be counted from the data"
        )
    classes = as_texts(target.public["classes_"])
    known = {text(label): weight for label, weight in declared.items()}
    if unknown := set(known) - set(classes):
        raise InputError(f"class_weight names {len(unknown)} labels that are no classes")
    weights = [known.get(label, 1.0) for label in classes]
    if not all(isinstance(w, Real) and not isinstance(w, bool) and 0.0 <= float(w) < math.inf for w in weights):
        raise InputError("class_weight must hold finite numbers of at least 0")
    top = max(map(float, weights))
    if not top:
        raise InputError("class_weight must give some class a weight above 0")
    of_class = np.array(weights, dtype=np.float64) / top
    indices = (target.values > 0).astype(int) if len(classes) == 2 else target.values.astype(int)
    return np.asarray(of_class[indices])


def plan_fit(
    model: Any, loss: Loss, rows: Opened, budget: Budget, weighted: bool = False, by_person: bool = False
) -> Plan:
    """Plan with the algorithm the model names, so that the budget holds for every person.

    The plan of a weighted fit does not depend on the number of rows, so that counting a row twice is the same as a
    weight of 2.
    """
    constant = model._constant(rows.bound, rows.constant) if model.fit_intercept else 0.0
    problem = Problem(loss, model._domain(rows.bound, constant), rows.bound, intercept=constant)
    n, d = rows.X.shape
    if n < 2:
        raise InputError(f"{type(model).__name__} needs at least 2 rows, got n_samples = {n}")
    chosen = _algorithm(model.algorithm)
    if by_person:
        chosen = _by_person(chosen, loss)

    def make(allowed: Budget) -> Plan:
        if chosen is None:
            return choose(problem, n=n, d=d, budget=allowed, weighted=weighted)
        return chosen.plan(problem, n=n, d=d, budget=allowed)

    return protect_people(make, budget, rows.rows_per_person)


def declared_digest(
    schema: Schema | None, public: Mapping[str, Any], digest: Callable[[Any], str] = canonical.digest
) -> str:
    """Name what was declared of the table, so that a receipt holds for no other."""
    return digest({"schema": schema.to_dict() if schema else None, **plain_facts(public)})


def plain_facts(public: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Public facts of a target, for a file."""
    return {name: np.asarray(fact).tolist() for name, fact in public.items()}


def warn_of_selection(model: Any) -> None:
    """Warn if scikit-learn is about to compare fits, or to adjust them, by rows without noise."""
    frame = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_SELECTING):
            warn(
                f"{module} looks at rows without noise to score, select or adjust {type(model).__name__}: no finite "
                "epsilon covers what comes of it. Use it on rows that are not private, fix the settings beforehand, or "
                "choose among them with dpconvex.PrivateSelection",
                SelectionWarning,
            )
            return
        frame = frame.f_back  # type: ignore[assignment]


def seed_from(random_state: Any) -> int | None:
    """Seed for the noise: None, for a private fit, unless a random state was set."""
    if random_state is None:
        return None
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _by_person(chosen: Any, loss: Loss) -> Any:
    """The algorithm with what a person adds limited; those whose proofs are about rows cannot do that."""
    if chosen is None:
        return (
            algorithms.PoissonSGD(per_person=True) if isinstance(loss, Kinked) else algorithms.NoisyGD(per_person=True)
        )
    if not hasattr(chosen, "per_person"):
        raise InputError(
            f"groups need an algorithm that limits what a person's rows add up to (NoisyGD, PoissonSGD, "
            f"SufficientStatistics), and {type(chosen).__name__} is not one; or declare rows_per_person"
        )
    return dataclasses.replace(chosen, per_person=True)


def _algorithm(name: Any) -> Any:
    if isinstance(name, str) and name == "auto":
        return None
    known = name if isinstance(name, str) else type(name).__name__
    if known not in algorithms.REGISTRY:
        raise InputError(f"algorithm must be 'auto', one of {', '.join(algorithms.REGISTRY)}, or an instance")
    return getattr(algorithms, known)() if known is name else name


def _schema(model: Any) -> Schema:
    if not isinstance(model.schema, Schema):
        raise InputError(
            f"schema must be a dpconvex.Schema, got {type(model.schema).__name__}; Schema.load(path) reads one"
        )
    return model.schema


def _people(model: Any, schema: Schema) -> int:
    if model.rows_per_person not in (1, schema.rows_per_person):
        raise InputError("rows_per_person is declared in the schema too, as another number: give one of the two")
    return schema.rows_per_person


def _declared_classes(model: Any) -> Classes | None:
    target = None if model.schema is None else _schema(model).target
    if target is None:
        return None if model.classes is None else Classes("y", model.classes)
    if model.classes is not None:
        raise InputError("classes follow from the target of the schema: give one of the two")
    if not isinstance(target, Classes):
        raise InputError("the target of the schema is a range of numbers; a classifier needs classes")
    return target


def _declared_range(model: Any) -> Range | None:
    target = None if model.schema is None else _schema(model).target
    if target is None:
        if model.target_range is None:
            return None
        if not isinstance(model.target_range, Sequence | np.ndarray) or len(model.target_range) != 2:
            raise InputError("target_range must be a pair of numbers, low and high")
        return Range("y", *model.target_range)
    if model.target_range is not None:
        raise InputError("target_range follows from the target of the schema: give one of the two")
    if not isinstance(target, Range):
        raise InputError("the target of the schema is a list of classes; a regressor needs a range of numbers")
    return target


def _target_column(y: Any) -> np.ndarray:
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "c":
        raise InputError("y holds complex numbers (Complex data not supported)")
    return np.asarray(y)


def _label_array(labels: tuple[Any, ...]) -> np.ndarray:
    if len({isinstance(label, str) for label in labels}) > 1:
        raise InputError("classes must be all text or all numbers")
    return np.array(labels)


def _leak(model: Any, name: str, what: str, undeclared: list[str]) -> None:
    if model.strict:
        raise InputError(f"{name} was not declared, and strict=True forbids to read it from the data")
    undeclared.append(name)
    warn(
        f"{what} not declared and is read from the data, which the guarantee does not cover. "
        f"Declare `{name}`, or a schema.",
        PrivacyLeakWarning,
    )


def _longest(X: Any) -> float:
    """Norm of the longest row, in units of the largest entry so that no square overflows."""
    top = float(abs(X).max()) or 1.0
    scaled = X / top
    squares = scaled.multiply(scaled).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", scaled, scaled)
    return float(np.clip(top * math.sqrt(squares.max()) or 1.0, SMALLEST, LARGEST))


def _validated(model: Any, X: Any, **options: Any) -> Any:
    if any(
        getattr(kind, "kind", None) in ("m", "M", "c")
        for kind in (*getattr(X, "dtypes", ()), getattr(X, "dtype", None))
    ):
        raise InputError("X holds dates or complex numbers (Complex data not supported): declare a dpconvex.Schema")
    try:
        return validate_data(model, X, accept_sparse="csr", dtype=[np.float64, np.float32], **options)
    except ValueError as error:
        if "could not convert" in str(error):  # numpy quotes the cell
            raise InputError("X holds text: declare its columns in a dpconvex.Schema, or encode them") from None
        if "contains NaN" in str(error):
            raise InputError(
                "X holds NaN: declare its columns in a dpconvex.Schema, which takes missing values"
            ) from None
        raise
