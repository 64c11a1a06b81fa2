"""Linear models from a single pass over the rows, which may come in batches: memory holds one batch at a time.

`SinglePass` holds what they share with the online models (`dpconvex.estimators.online`): a loss chosen by name, and a
ball for the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dpconvex.algorithms.options import check_choice, check_positive, check_whole
from dpconvex.algorithms.phased_sgd import PhasedSGD
from dpconvex.chooser import largest_slope
from dpconvex.data.parts import Parts
from dpconvex.data.schema import Schema
from dpconvex.errors import FormError, InputError
from dpconvex.estimators.base import Unweighted, documented, keep_arguments, seed_from, warn_of_selection
from dpconvex.estimators.predictors import PrivateClassifier, PrivateRegressor
from dpconvex.estimators.table import Declared, Opened, Target, Units, declared_digest
from dpconvex.kernel.budget import Budget
from dpconvex.plan.people import plan_for_people
from dpconvex.plan.plan import Plan
from dpconvex.problem.bounds import Bound
from dpconvex.problem.domains import L2Ball
from dpconvex.problem.losses import Huber, LogCosh, Logistic, Loss, SmoothedHinge, Squared
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up


class _LossByName(NamedTuple):
    """A loss that is chosen by name, and the largest prediction within the default radius of its weights."""

    loss: Loss
    reach: float


CLASSIFIERS = {"log_loss": _LossByName(Logistic(), 15.0), "hinge": _LossByName(SmoothedHinge(), 8.0)}
REGRESSORS = {"squared_error": _LossByName(Squared(), 3.0), "huber": _LossByName(Huber(0.2), 3.0)}


class SinglePass(Unweighted):
    """A model that reads every row once, with a loss chosen by name and weights within a ball."""

    LOSSES: ClassVar[Mapping[str, _LossByName]]
    _MULTICLASS = False

    @property
    def _predicts_probabilities(self) -> bool:
        return bool(self.loss == "log_loss")

    def _loss(self, _: float = 0.0) -> Loss:
        check_choice("loss", self.loss, self.LOSSES)
        return self.LOSSES[self.loss].loss

    def _problem_for(self, loss: Loss, rows: Opened, n: int, budget: Budget) -> Problem:
        problem = Problem(loss, feature_bound=rows.bound, intercept=rows.constant if self.fit_intercept else 0.0)
        if loss.traits.quadratic:
            slope, target = largest_slope(problem, n, rows.d, budget), loss.traits.target
            problem = replace(problem, loss=LogCosh(slope * target, target))
        radius = self.radius
        if radius is None:
            radius = self.LOSSES[self.loss].reach / problem.row_bound(rows.d).value
            radius = radius if rows.start is None else round_up(radius + float(np.linalg.norm(rows.start)))
        check_positive("radius", radius)
        return replace(problem, domain=L2Ball(radius), start=rows.start)


class _OnePass(SinglePass):
    """A model that PhasedSGD fits to rows in memory or in batches."""

    def fit_batches(self, batches: Any) -> Self:
        """Fit to rows that come in batches, in the order in which they come; one batch is held at a time.

        The plan reads only the number of features from the rows: `n_rows`, the bound on a row and the target have to be
        declared.

        Parameters
        ----------
        batches : iterable of pairs (X, y), or of frames that hold the target, with a schema
            Of any sizes, `n_rows` rows in total, for example a generator that reads a file piece by piece.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If a public fact is undeclared, or the first batch lacks columns: nothing is charged. If a later batch does,
            entries of X are not finite (without a schema), or the number of rows is not `n_rows`: nothing was released,
            and the fit stays charged.

        Notes
        -----
        Every call is a release, charged before the second batch is requested. Exceptions raised by `batches` itself
        pass through: nothing was released, but the fit stays charged. PhasedSGD takes no weights: rows whose target
        does not fit count as the first class, or the middle of the range.
        """
        warn_of_selection(type(self).__name__)
        declared = self._declared()
        self._refuse_undeclared(declared)
        target = self._read_target(declared, None, np.empty(0))
        try:
            coming = filter(_count, map(self._as_pair, batches))
        except TypeError:
            raise InputError(f"batches must be an iterable of {_BATCHES}, got {type(batches).__name__}") from None
        plan, dataset, first = self._begin(declared, target, coming)
        solution = plan.run_batches(
            chain(_emptied(first), map(partial(self._open_batch, declared), coming)),
            dataset=dataset,
            seed=seed_from(self.random_state),
            declared=declared_digest(self.schema, target.public),
        )
        return self._keep(solution, target.public)

    def _refuse_undeclared(self, declared: Declared) -> None:
        needed = ["n_rows"]
        needed += ["feature_bound"] if declared.schema is None else []
        if declared.schema is None or declared.schema.target is None:
            needed += [name.removesuffix("_") for name in self.PUBLIC]
        if missing := [name for name in needed if getattr(self, name) is None]:
            raise InputError(
                f"fit_batches reads no public facts from the rows: declare {' and '.join(missing)}"
                + ("" if missing == ["n_rows"] else ", or a schema with a target")
            )
        check_whole("n_rows", self.n_rows)

    def _begin(
        self, declared: Declared, target: Target, coming: Iterator[tuple[Any, Any]]
    ) -> tuple[Plan, str | None, list[tuple[Any, Any]]]:
        """Plan for the features of the first batch. Return the plan, the data set to charge, and that batch, opened."""
        for X, y in coming:
            rows = self._started(self._open_rows(declared, X, y), target.public)
            plan = self._plan_for(target.loss, rows, self.n_rows, shuffle=False)
            return plan, rows.dataset, [(rows.X, self._read_target(declared, X, y).values)]
        raise InputError(f"the batches hold no rows, but n_rows = {self.n_rows} was declared")

    def _as_pair(self, batch: Any) -> tuple[Any, Any]:
        X, y = batch if isinstance(batch, tuple | list) and len(batch) == 2 else (batch, None)
        if y is None and self.schema is None:
            raise FormError(f"batches must be an iterable of {_BATCHES}, got {type(batch).__name__} without y")
        return X, y

    def _open_batch(self, declared: Declared, batch: tuple[Any, Any]) -> tuple[Any, np.ndarray]:
        X, y = batch
        try:
            return self._encoded(X, finite=False), self._read_target(declared, X, y).values
        except (TypeError, ValueError) as error:  # raised by the schema or scikit-learn, for mistakes of form too
            raise FormError(str(error)) from None

    def _plan(self, loss: Loss, rows: Opened, budget: Budget, units: Units) -> Plan:
        return self._plan_for(loss, rows, rows.n, not isinstance(rows.X, Parts) and self.shuffle)

    def _plan_for(self, loss: Loss, rows: Opened, n: int, shuffle: bool | str) -> Plan:
        self._need_rows(n)
        budget = Budget(self.epsilon, self.delta, self.relation)
        problem = self._problem_for(loss, rows, n, budget)
        return plan_for_people(PhasedSGD(shuffle=shuffle), problem, n, rows.d, budget, rows.rows_per_person)


@documented
class PrivateSGDClassifier(_OnePass, PrivateClassifier):
    """Differentially private linear classifier for two classes, from a single pass over the rows.

    For data that do not fit into memory, or with too many rows for several passes (`fit_batches`). The algorithm is
    `dpconvex.algorithms.PhasedSGD`.

    Parameters
    ----------
    loss : {"log_loss", "hinge"}, default="log_loss"
        Logistic regression, which predicts probabilities, or a support vector machine with a smoothed hinge.
    radius : float, optional
        Largest norm of the weights. By default 15 for "log_loss" and 8 for "hinge", divided by the bound on a row with
        its constant feature: no prediction then exceeds that number.
    {shared}

    Attributes
    ----------
    classes_ : array of labels, sorted
    weights_ : array, the released weights, the constant feature last
    coef_, intercept_ : arrays, the same in the shapes scikit-learn uses
    receipt_ : Receipt
    n_features_in_, feature_names_in_ : number and names of the features given to `fit`

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> def batches():
    ...     for _ in range(20):
    ...         X = rng.uniform(-1, 1, size=(1000, 3))
    ...         yield X, np.where(X[:, 0] > 0.1 * rng.normal(size=1000), "yes", "no")
    >>> model = dc.PrivateSGDClassifier(feature_bound=dc.bounds.Linf(1.0), classes=["no", "yes"], n_rows=20_000)
    >>> model = model.fit_batches(batches())
    >>> X, y = next(batches())
    >>> bool(model.score(X, y) > 0.9), bool(dc.verify(model.receipt_))
    (True, True)
    """

    LOSSES = CLASSIFIERS

    def __init__(
        self,
        loss: str = "log_loss",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: Schema | None = None,
        feature_bound: float | Bound | None = None,
        classes: Any = None,
        n_rows: int | None = None,
        radius: float | None = None,
        fit_intercept: bool = True,
        shuffle: bool | str = True,
        relation: str = "replace_one",
        rows_per_person: int = 1,
        random_state: Any = None,
        strict: bool = False,
        dataset: str | None = None,
        start: Any = None,
    ) -> None:
        keep_arguments(locals())


@documented
class PrivateSGDRegressor(_OnePass, PrivateRegressor):
    """Differentially private linear regression within a public range, from a single pass over the rows.

    For data that do not fit into memory, or with too many rows for several passes (`fit_batches`). The algorithm is
    `dpconvex.algorithms.PhasedSGD`.

    Parameters
    ----------
    loss : {"squared_error", "huber"}, default="squared_error"
        The slope of the squared loss grows with the residual, and the noise with it. A log-cosh loss is fitted instead,
        as in `dpconvex.choose`: quadratic near the target, linear beyond a quarter of its range or less. "huber" is
        linear beyond a tenth of the range, and less sensitive to outliers.
    radius : float, optional
        Largest norm of the weights, in units of half the range of the target. By default 3 divided by the bound on a
        row with its constant feature.
    {shared}

    Attributes
    ----------
    weights_ : array, the released weights in units of half the range of the target, the constant feature last
    coef_, intercept_ : array and float, the same in units of the target
    target_range_ : pair of float
    receipt_ : Receipt
    n_features_in_, feature_names_in_ : number and names of the features given to `fit`

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> def batches():
    ...     for _ in range(20):
    ...         X = rng.uniform(-1, 1, size=(1000, 3))
    ...         yield X, 50 + 20 * X[:, 0] + rng.normal(size=1000)
    >>> model = dc.PrivateSGDRegressor(feature_bound=dc.bounds.Linf(1.0), target_range=(0, 100), n_rows=20_000)
    >>> X, y = next(batches())
    >>> bool(model.fit_batches(batches()).score(X, y) > 0.9)
    True
    """

    LOSSES = REGRESSORS

    def __init__(
        self,
        loss: str = "squared_error",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: Schema | None = None,
        feature_bound: float | Bound | None = None,
        target_range: Any = None,
        n_rows: int | None = None,
        radius: float | None = None,
        fit_intercept: bool = True,
        shuffle: bool | str = True,
        relation: str = "replace_one",
        rows_per_person: int = 1,
        random_state: Any = None,
        strict: bool = False,
        dataset: str | None = None,
        start: Any = None,
    ) -> None:
        keep_arguments(locals())


_BATCHES = "pairs (X, y), or of frames with a schema"


def _count(pair: tuple[Any, Any]) -> int:
    """Number of rows of a batch; anything that is not a table counts as one row and is refused later."""
    X = pair[0]
    if isinstance(X, Mapping):
        X = next(iter(X.values()), ())
    shape = np.shape(X) if isinstance(X, list | tuple) else getattr(X, "shape", ())
    return int(shape[0]) if shape else 1


def _emptied(queue: list[Any]) -> Iterator[Any]:
    """Yield the items of a list, which keeps none of them."""
    while queue:
        yield queue.pop(0)
