"""From a table to the input of a plan: rows within a bound, targets, and the weight of each row.

The steps are methods of `Declared`, which holds what was declared beforehand. Undeclared facts are read from the data,
with a warning, and the result of the step names them in `read`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from dpconvex import canonical
from dpconvex.context import DEFAULT_DATASET
from dpconvex.data import frames
from dpconvex.data.arrays import open_people, open_weights
from dpconvex.data.encoding import Encoding
from dpconvex.data.frames import as_texts, text
from dpconvex.data.schema import Classes, Range, Schema
from dpconvex.errors import InputError, PrivacyLeakWarning, RowError, warn
from dpconvex.plain import normal_name
from dpconvex.plan.people import first_rows
from dpconvex.problem.bounds import L2, LARGEST, SMALLEST, Bound
from dpconvex.problem.losses import Logistic, Loss
from dpconvex.problem.problem import Problem

_NOTHING: tuple[str, ...] = ()
_CONSTANT = (
    0.3  # share of the bound on a row that the constant feature gets where no schema says how many columns share it
)


_Kind = TypeVar("_Kind", Classes, Range)
_WORDS: dict[type, str] = {Classes: "a list of classes", Range: "a range of numbers"}


class Opened(NamedTuple):
    """Rows ready for a plan, their public facts, the data set to charge (None: the default), and where fits start."""

    X: Any
    bound: Bound
    constant: float
    rows_per_person: int
    dataset: str | None
    read: tuple[str, ...] = _NOTHING
    start: np.ndarray | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])


class Target(NamedTuple):
    """The target: one number per record, the loss, and the public facts that predictions need.

    Rows whose target is missing or not as declared are not `known` (None where targets were not declared, so that all
    are). They have weight 0 where the algorithm takes weights; elsewhere they count as the first class, or the middle.
    """

    values: np.ndarray
    loss: Loss
    public: dict[str, Any]
    read: tuple[str, ...] = _NOTHING
    known: np.ndarray | None = None


class Units(NamedTuple):
    """The weight of each row, from 0 to 1, and its group id; None where none were given."""

    weights: np.ndarray | None = None
    people: Any = None
    weighted: bool = False  # by the caller, not only to leave out rows
    read: tuple[str, ...] = _NOTHING


class Table(NamedTuple):
    """Everything that a run needs from a table."""

    rows: Opened
    target: Target
    units: Units

    @property
    def read(self) -> tuple[str, ...]:
        """Names of the facts that were read from the data."""
        return self.rows.read + self.target.read + self.units.read

    def weights_for(self, takes: Collection[str]) -> np.ndarray | None:
        """Weights for an algorithm that takes these things of records: 0 where no target is known."""
        weights, known = self.units.weights, self.target.known
        if known is None or "sample_weight" not in takes:
            return weights
        return known.astype(np.float64) if weights is None else weights * known


@dataclass(frozen=True)
class Declared:
    """The facts that the parameters of a model declare about its table; fields as in the models.

    Examples
    --------
    >>> declared = Declared(classes=["no", "yes"], feature_bound=1.0, weight_cap=2.0)
    >>> rows = declared.open_matrix(np.eye(2), None)
    >>> rows.bound, rows.constant, rows.read
    (L2(radius=1.0), 0.3, ())
    >>> declared.encode_labels(None, ["yes", "no", "perhaps"], None)
    (array([1, 0, 0]), array(['no', 'yes'], dtype='<U3'), (), array([ True,  True, False]))
    >>> declared.open_units(rows, Target(np.ones(2), Logistic(), {}), [1.0, 5.0], None).weights
    array([0.5, 1. ])
    """

    schema: Schema | None = None
    feature_bound: float | Bound | None = None
    classes: Any = None
    target_range: Any = None
    rows_per_person: int = 1
    weight_cap: float | None = None
    class_weight: Any = None
    strict: bool = False
    dataset: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Schema | None):
            raise InputError(
                f"schema must be a dpconvex.Schema, got {type(self.schema).__name__}: Schema.load(path) reads a file, "
                "and Schema.from_dict(description) a draft that was filled in"
            )
        named = DEFAULT_DATASET if self.schema is None else self.schema.name
        other = self.dataset is not None and normal_name(self.dataset, "dataset") != normal_name(named, "dataset")
        if other and named != DEFAULT_DATASET:
            raise InputError(f"dataset is {self.dataset!r}, and the schema is of {named!r}: give only one of them")

    # Rows ----------------------------------------------------------------------------------------------------------

    def open_matrix(self, X: Any, sample_weight: Any) -> Opened:
        """Rows of numbers within the declared bound. Nothing is read from rows of weight 0."""
        bound, read = self.feature_bound, _NOTHING
        if bound is None:
            read = self._read("feature_bound", "The bound on a row of X was")
            bound = _longest(X[_counted(sample_weight, X.shape[0])])
        return self.rows_within(X, bound)._replace(read=read)

    def rows_within(self, X: Any, bound: Any) -> Opened:
        """Rows of numbers within that bound; a float bounds the l2 norm."""
        known = Problem(Logistic(), feature_bound=bound).feature_bound
        constant = max(_CONSTANT * known.l2(X.shape[1]), SMALLEST)
        return Opened(X, known, constant, self.rows_per_person, self.dataset)

    def open_table(self, X: Any) -> Opened:
        """Rows of a table, encoded by the schema; of None a placeholder."""
        assert self.schema is not None
        if self.feature_bound is not None:
            raise InputError("feature_bound follows from the schema: give only one of them")
        rows = self.rows_of_schema(X)
        if self.rows_per_person not in (1, self.schema.rows_per_person):
            raise InputError("rows_per_person differs from what the schema declares: give only one of them")
        return rows

    def rows_of_schema(self, table: Any = None, n: int = 0) -> Opened:
        """Rows of a table as the schema encodes them; without a table a placeholder of n rows, for a plan."""
        assert self.schema is not None
        encoding = Encoding(self.schema)
        X = np.broadcast_to(0.0, (n, len(encoding.names))) if table is None else encoding.rows(table)
        constant, bound = encoding.constant, L2(encoding.row_bound)
        dataset = self.dataset if self.schema.name == DEFAULT_DATASET else self.schema.name
        return Opened(X, bound, constant, self.schema.rows_per_person, dataset)

    # Targets -------------------------------------------------------------------------------------------------------

    def encode_labels(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[np.ndarray, np.ndarray, tuple[str, ...], np.ndarray | None]:
        """Return the index of every label in the sorted classes, the classes, what was read, and which are known."""
        declared = self._declared_target(Classes, "classes", partial(Classes, "y"), y)
        if declared is None:
            y = column_or_1d(y, warn=True)
            read = self._read("classes", "The list of classes was")
            try:
                check_classification_targets(y)
                classes = np.unique(y[_counted(sample_weight, len(y))])
            except TypeError:
                raise RowError("y holds labels of several types: declare `classes`, all text or all numbers") from None
            except ValueError as error:  # scikit-learn's words name the kind of y
                raise RowError(str(error)) from None
            if len(classes) < 2:
                raise RowError("y holds one class only: declare all classes in `classes` to fit nevertheless")
            return np.minimum(np.searchsorted(classes, y), len(classes) - 1), classes, read, None
        if len({isinstance(label, str) for label in declared.labels}) > 1:
            raise InputError("classes must be all text or all numbers")
        labels = np.array(declared.labels)
        order = np.argsort(labels)
        codes = self._in_frame(X) if y is None else declared.encode(column_or_1d(y, warn=True))
        return np.where(codes < 0, 0, np.argsort(order)[codes]), labels[order], _NOTHING, codes >= 0

    def encode_numbers(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[np.ndarray, tuple[float, float], tuple[str, ...], np.ndarray | None]:
        """Return the targets, clipped to their range, the range, what was read, and which are known."""
        declared = self._declared_target(Range, "target_range", _range, y)
        if y is not None:
            y = column_or_1d(y, warn=True)
            if y.dtype.kind == "c":
                raise InputError("y holds complex numbers (Complex data not supported)")
        if declared is None:
            read, numbers = self._read("target_range", "The range of the target was"), frames.read_numbers(y)
            if numbers is None or not np.isfinite(numbers).all():
                raise RowError("y must hold finite numbers for their range to be read: declare `target_range`")
            numbers = np.clip(numbers, -LARGEST, LARGEST)
            counted = numbers[_counted(sample_weight, len(y))]
            low, high = float(counted.min()), float(counted.max())
            low, high = (low, high) if low < high else (low - 1.0, high + 1.0)
            return np.clip(numbers, low, high), (low, high), read, None
        values, low, high = self._in_frame(X) if y is None else declared.encode(y), declared.low, declared.high
        known = ~np.isnan(values)
        return np.where(known, values, low / 2.0 + high / 2.0), (low, high), _NOTHING, known

    def _declared_target(self, kind: type[_Kind], parameter: str, make: Callable[[Any], _Kind], y: Any) -> _Kind | None:
        """The target that the schema or else the parameter declares; None if neither does."""
        target, given = None if self.schema is None else self.schema.target, getattr(self, parameter)
        if target is None:
            if y is None:
                raise InputError("pass y, or declare the target in the schema")
            return None if given is None else make(given)
        if given is not None:
            raise InputError(f"{parameter} follows from the target of the schema: give only one of them")
        if not isinstance(target, kind):
            wanted, found = (_WORDS[one] for one in (kind, type(target)))
            raise InputError(f"the target of the schema is {found}, and this model needs {wanted}")
        return target

    def _in_frame(self, X: Any) -> np.ndarray:
        assert self.schema is not None
        return self.schema.read_target(X)

    # Units ---------------------------------------------------------------------------------------------------------

    def open_units(self, rows: Opened, target: Target, sample_weight: Any, groups: Any) -> Units:
        """Weights divided by their cap, times class weights; surplus rows of a person get weight 0."""
        weights, read = self._record_weights(sample_weight, rows.n)
        if self.class_weight is not None:
            of_classes = _class_weights(self.class_weight, target)
            weights = of_classes if weights is None else weights * of_classes
        weighted = weights is not None
        if groups is None or rows.rows_per_person == 1:
            return Units(weights, groups, weighted, read)
        first = first_rows(*open_people(groups, rows.n), rows.rows_per_person).astype(np.float64)
        return Units(first if weights is None else weights * first, None, weighted, read)

    def _record_weights(self, sample_weight: Any, n: int) -> tuple[np.ndarray | None, tuple[str, ...]]:
        cap, read = self.weight_cap, _NOTHING
        if sample_weight is None:
            return (None if cap is None else open_weights(np.ones(n), cap, n)), read
        if cap is None:
            counted = _counted(sample_weight, n)
            read = self._read("weight_cap", "The largest sample_weight was")
            cap = float(LARGEST * open_weights(sample_weight, LARGEST, n)[counted].max())
        return open_weights(sample_weight, cap, n), read

    def _read(self, name: str, what: str) -> tuple[str, ...]:
        """Warn that a fact is read from the data, and name it; raise an error if the model is strict."""
        if self.strict:
            raise InputError(f"{name} was not declared, and strict=True forbids reading it from the data: declare it")
        warn(
            f"{what} not declared and is read from the data, which the guarantee does not cover. "
            f"Declare `{name}`, or a schema.",
            PrivacyLeakWarning,
        )
        return (name,)


def number_between(value: Any, low: float, high: float, message: str) -> float:
    """Return a number strictly between two bounds as a float; anything else raises `InputError` with the message.

    Examples
    --------
    >>> number_between(np.float32(0.5), 0.0, 1.0, "quantile must lie strictly between 0 and 1")
    0.5
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not low < float(value) < high:
        raise InputError(message)
    return float(value)


def check_confidence(confidence: Any) -> float:
    """Return the confidence of an interval as a float."""
    return number_between(confidence, 0.0, 1.0, "confidence must lie strictly between 0 and 1, such as 0.95")


def _range(target_range: Any) -> Range:
    if not isinstance(target_range, Sequence | np.ndarray) or len(target_range) != 2:
        raise InputError("target_range must be a pair of numbers, low and high")
    return Range("y", *target_range)


def declared_digest(
    schema: Schema | Mapping[str, Any] | None,
    public: Mapping[str, Any],
    digest: Callable[[Any], str] = canonical.digest,
) -> str:
    """Digest of what was declared about a table, which binds a receipt to it; a schema may be given in plain form."""
    plain = schema.to_dict() if isinstance(schema, Schema) else schema
    return digest({"schema": plain, **plain_facts(public)})


def plain_facts(public: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Public facts of a target, for a file."""
    return {name: np.asarray(fact).tolist() for name, fact in public.items()}


def read_facts(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Public facts of a target, as `plain_facts` wrote them."""
    return {name: np.array(fact) if name == "classes_" else tuple(fact) for name, fact in plain.items()}


def _counted(sample_weight: Any, n: int) -> Any:
    """The rows with a weight above 0."""
    if sample_weight is None:
        return slice(None)
    counted = open_weights(sample_weight, 1.0, n) > 0.0
    if not counted.any():
        raise InputError("sample_weight is zero for every row: nothing is left to fit")
    return counted


def _longest(X: Any) -> float:
    """Norm of the longest row, in units of the largest entry so that no square overflows.

    Entries that are not finite are left out: rows with such entries are refused by the run.
    """
    X = X.copy() if sparse.issparse(X) else np.array(X)
    entries = X.data if sparse.issparse(X) else X
    entries[~np.isfinite(entries)] = 0.0
    top = float(abs(X).max()) or 1.0
    scaled = X / top
    squares = scaled.multiply(scaled).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", scaled, scaled)
    return float(np.clip(top * math.sqrt(squares.max()) or 1.0, SMALLEST, LARGEST))


def _class_weights(declared: Any, target: Target) -> np.ndarray:
    """The weight of each row by its class, scaled so that the largest is 1."""
    if not isinstance(declared, Mapping):
        raise InputError(
            "class_weight must be a dict from classes to numbers; 'balanced' would be counted from the data"
        )
    classes = as_texts(target.public["classes_"])
    known = {text(label): weight for label, weight in declared.items()}
    if unknown := set(known) - set(classes):
        raise InputError(f"class_weight names {len(unknown)} labels that are not among the classes")
    weights = [known.get(label, 1.0) for label in classes]
    if not all(isinstance(w, Real) and not isinstance(w, bool) and 0.0 <= float(w) < math.inf for w in weights):
        raise InputError("class_weight must hold finite numbers of at least 0")
    top = max(map(float, weights))
    if not top:
        raise InputError("class_weight must give some class a weight above 0")
    of_class = np.array(weights, dtype=np.float64) / top
    indices = (target.values > 0).astype(int) if len(classes) == 2 else target.values.astype(int)
    return np.asarray(of_class[indices])
