"""What every estimator does around a plan: open what it is given, declare or read public facts, plan, seed."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dpconvex import algorithms
from dpconvex.chooser import choose
from dpconvex.errors import InputError, PrivacyLeakWarning, warn
from dpconvex.estimators.preprocess import PrivatePreprocessor
from dpconvex.estimators.schema import Classes, Schema
from dpconvex.plan.people import protect_people
from dpconvex.plan.plan import Plan
from dpconvex.privacy.budget import Budget
from dpconvex.privacy.receipt import digest
from dpconvex.problem.bounds import L2, LARGEST, SMALLEST, Bound
from dpconvex.problem.losses import Logistic, Loss
from dpconvex.problem.problem import Problem

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


def open_features(model: Any, X: Any, y: Any, undeclared: list[str]) -> Opened:
    """Check the form of what `fit` was given and encode the rows; what had to be read off them joins `undeclared`."""
    if model.schema is None:
        if y is None:
            raise InputError(f"{type(model).__name__} requires y to be passed, but the target y is None")
        X = _validated(model, X, reset=True)
        bound = model.feature_bound
        if bound is None:
            _leak(model, "feature_bound", "The bound on a row of X was", undeclared)
            bound = _longest(X)
        bound = Problem(Logistic(), feature_bound=bound).feature_bound  # a number there means an l2 norm
        constant = max(CONSTANT * bound.l2(X.shape[1]), SMALLEST)
        return Opened(X, bound, constant, model.rows_per_person, "default")
    schema = _schema(model)
    if model.feature_bound is not None:
        raise InputError("feature_bound follows from the schema: give one of the two")
    encoder = PrivatePreprocessor(schema)
    rows = encoder.fit_transform(X)
    model.n_features_in_ = encoder.n_features_in_
    model.feature_names_in_ = encoder.feature_names_in_
    return Opened(rows, L2(encoder.row_bound_), encoder.constant_, _people(model, schema), schema.name)


def encoded(model: Any, X: Any) -> Any:
    """Rows to predict, in the form the weights are for."""
    if model.schema is None:
        return _validated(model, X, reset=False)
    return PrivatePreprocessor(_schema(model)).fit_transform(X)


def encode_labels(model: Any, X: Any, y: Any, undeclared: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of every label among the classes, and the classes, sorted."""
    declared = _declared_classes(model)
    if declared is None:
        if y is None:
            raise InputError("pass y, or declare the target in the schema")
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        _leak(model, "classes", "The list of classes was", undeclared)
        classes, indices = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise InputError("y holds one class only; declare all of them in `classes` to fit nevertheless")
        return indices, classes
    labels = _label_array(declared.labels)
    order = np.argsort(labels)
    codes = model.schema.read_target(X) if y is None else declared.encode(column_or_1d(y, warn=True))
    return np.argsort(order)[codes], labels[order]


def plan_fit(model: Any, loss: Loss, rows: Opened, budget: Budget) -> Plan:
    """Plan with the algorithm the model names, so that the budget holds for every person."""
    problem = Problem(loss, feature_bound=rows.bound, intercept=rows.constant if model.fit_intercept else 0.0)
    n, d = rows.X.shape
    if n < 2:
        raise InputError(f"{type(model).__name__} needs at least 2 rows, got n_samples = {n}")
    chosen = _algorithm(model.algorithm)

    def make(allowed: Budget) -> Plan:
        plan = choose if chosen is None else chosen.plan
        return plan(problem, n=n, d=d, budget=allowed)

    return protect_people(make, budget, rows.rows_per_person)


def declared_digest(schema: Schema | None, classes: np.ndarray) -> str:
    """Name what was declared of the table, so that a receipt holds for no other."""
    return digest({"schema": schema.to_dict() if schema else None, "classes": classes.tolist()})


def seed_from(random_state: Any) -> int | None:
    """Seed for the noise: None, for a private fit, unless a random state was set."""
    if random_state is None:
        return None
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _algorithm(name: Any) -> Any:
    if isinstance(name, str):
        if name == "auto":
            return None
        if name not in algorithms.REGISTRY:
            raise InputError(f"algorithm must be 'auto', one of {', '.join(algorithms.REGISTRY)}, or an instance")
        return getattr(algorithms, name)()
    if type(name).__name__ not in algorithms.REGISTRY:
        raise InputError(f"algorithm must be 'auto', one of {', '.join(algorithms.REGISTRY)}, or an instance")
    return name


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
