"""Linear models from one pass over the rows, which may come in batches: memory holds one batch at a time.

What they share with the online models (`dpconvex.estimators.online`): the choice of a loss by name, a ball for the
weights, and two classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from dpconvex.algorithms.options import check_choice, check_positive, check_whole
from dpconvex.algorithms.phased_sgd import PhasedSGD
from dpconvex.chooser import largest_slope
from dpconvex.data.schema import Schema
from dpconvex.errors import FormError, InputError
from dpconvex.estimators.base import PrivateClassifier, PrivateRegressor, Unweighted, seed_from, warn_of_selection
from dpconvex.estimators.table import Declared, Opened, Units, declared_digest
from dpconvex.kernel.budget import Budget
from dpconvex.plan.people import protect_people
from dpconvex.plan.plan import Plan
from dpconvex.problem.bounds import Bound
from dpconvex.problem.domains import L2Ball
from dpconvex.problem.losses import Huber, LogCosh, Logistic, Loss, SmoothedHinge, Squared
from dpconvex.problem.problem import Problem


class SinglePass(Unweighted):
    """A model that reads every row once, with a loss chosen by name and weights within a ball."""

    LOSSES: ClassVar[Mapping[str, Loss]]
    REACH: ClassVar[Mapping[str, float]]  # largest prediction within the default radius, by loss
    TARGET: ClassVar[str]  # parameter that declares the target where no schema does

    def _chosen_loss(self) -> Loss:
        check_choice("loss", self.loss, self.LOSSES)
        return self.LOSSES[self.loss]

    def _problem_for(self, loss: Loss, rows: Opened, n: int, budget: Budget) -> Problem:
        d = int(rows.X.shape[1])
        problem = Problem(loss, feature_bound=rows.bound, intercept=rows.constant if self.fit_intercept else 0.0)
        if isinstance(loss, Squared):
            problem = replace(problem, loss=LogCosh(largest_slope(problem, n, d, budget) * loss.target, loss.target))
        radius = self.REACH[self.loss] / problem.row_bound(d).value if self.radius is None else self.radius
        check_positive("radius", radius)
        return replace(problem, domain=L2Ball(radius))


class OnePass(SinglePass):
    """A model that PhasedSGD fits, to rows in memory or to rows in batches."""

    def fit_batches(self, batches: Any) -> Self:
        """Fit to rows that come in batches, in the order in which they come; one batch is held at a time.

        Nothing but their number of features is read from the rows to plan the fit: `n_rows`, the bound on a row and the
        target have to be declared.

        Parameters
        ----------
        batches : iterable of pairs (X, y), or of frames that hold the target, with a schema
            Of any sizes, `n_rows` rows together, for example a generator that reads a file piece by piece.

        Notes
        -----
        Every call is a release and is charged before the second batch is asked for. A mistake of form in any batch (a
        label that is no class, an entry that is not finite), and fewer or more rows than `n_rows`, which is public,
        raise `InputError`: nothing was released, and the charge is struck out. Any other exception, such as one that
        `batches` raises, passes through: nothing was released, but the fit stays charged.
        """
        warn_of_selection(type(self).__name__)
        declared = self._declared()
        self._refuse_undeclared(declared)
        target = self._read_target(declared, None, np.empty(0))
        try:
            coming = filter(_count, map(self._as_pair, batches))
        except TypeError:
            raise InputError(f"batches must be an iterable of {_BATCHES}, got {type(batches).__name__}") from None
        plan, dataset, first = self._begin(declared, target.loss, coming)
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
        needed += [self.TARGET] if declared.schema is None or declared.schema.target is None else []
        if missing := [name for name in needed if getattr(self, name) is None]:
            raise InputError(
                f"fit_batches reads no public facts from the rows: declare {' and '.join(missing)}"
                + ("" if missing == ["n_rows"] else ", or a schema with a target")
            )
        check_whole("n_rows", self.n_rows)

    def _begin(
        self, declared: Declared, loss: Loss, coming: Iterator[tuple[Any, Any]]
    ) -> tuple[Plan, str | None, list[tuple[Any, Any]]]:
        """Plan for the features of the first batch. Return the plan, the data set to charge, and that batch, opened."""
        for X, y in coming:
            rows = self._open_rows(declared, X, y)
            plan = self._plan_for(loss, rows, self.n_rows, shuffle=False)
            return plan, rows.dataset, [(rows.X, self._read_target(declared, X, y).values)]
        raise InputError(f"the batches hold no rows, and n_rows = {self.n_rows} were declared")

    def _as_pair(self, batch: Any) -> tuple[Any, Any]:
        X, y = batch if isinstance(batch, tuple | list) and len(batch) == 2 else (batch, None)
        if y is None and self.schema is None:
            raise FormError(f"batches must be an iterable of {_BATCHES}, got {type(batch).__name__} without y")
        return X, y

    def _open_batch(self, declared: Declared, batch: tuple[Any, Any]) -> tuple[Any, np.ndarray]:
        X, y = batch
        try:
            return self._encoded(X), self._read_target(declared, X, y).values
        except (TypeError, ValueError) as error:  # what the schema and scikit-learn find wrong are mistakes of form too
            raise FormError(str(error)) from None

    def _plan(self, loss: Loss, rows: Opened, budget: Budget, units: Units) -> Plan:
        return self._plan_for(loss, rows, rows.n, self.shuffle)

    def _plan_for(self, loss: Loss, rows: Opened, n: int, shuffle: bool | str) -> Plan:
        self._need_rows(n)
        budget = Budget(self.epsilon, self.delta, self.relation)
        d = int(rows.X.shape[1])
        problem = self._problem_for(loss, rows, n, budget)
        algorithm = PhasedSGD(shuffle=shuffle)
        return protect_people(
            lambda allowed: algorithm.plan(problem, n=n, d=d, budget=allowed), budget, rows.rows_per_person
        )


class TwoClasses(SinglePass, PrivateClassifier):  # type: ignore[misc]  # its fit takes no weights
    """A classifier of two classes, with probabilities under the logistic loss."""

    LOSSES: ClassVar[Mapping[str, Loss]] = {"log_loss": Logistic(), "hinge": SmoothedHinge()}
    REACH: ClassVar[Mapping[str, float]] = {"log_loss": 15.0, "hinge": 8.0}
    TARGET = "classes"
    _MULTICLASS = False

    def _loss(self, classes: int) -> Loss:
        return self._chosen_loss()

    @available_if(lambda self: self.loss == "log_loss")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, with the log_loss."""
        return self._probabilities(X)

    @available_if(lambda self: self.loss == "log_loss")
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of the probability of each class, with the log_loss."""
        scores = self.decision_function(X)
        return np.column_stack([-np.logaddexp(0.0, scores), -np.logaddexp(0.0, -scores)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn asks for an accuracy of 0.83 on 300 rows: too few for one pass with this noise.
        tags.classifier_tags.poor_score = self.epsilon < 100.0
        return tags


class WithinRange(SinglePass, PrivateRegressor):  # type: ignore[misc]  # its fit takes no weights
    """A regressor of a number within a range."""

    LOSSES: ClassVar[Mapping[str, Loss]] = {"squared_error": Squared(), "huber": Huber(0.2)}
    REACH: ClassVar[Mapping[str, float]] = {"squared_error": 3.0, "huber": 3.0}
    TARGET = "target_range"

    def _loss(self, half: float) -> Loss:
        return self._chosen_loss()


class PrivateSGDClassifier(OnePass, TwoClasses):  # type: ignore[misc]
    """Linear classifier, for two classes, from one private pass over the rows.

    For rows that do not fit into memory, or that are too many for several passes (`fit_batches`). The algorithm is
    `dpconvex.algorithms.PhasedSGD`.

    Parameters
    ----------
    loss : {"log_loss", "hinge"}, default="log_loss"
        Logistic regression, which has probabilities, or a support vector machine with a rounded hinge.
    epsilon, delta : float, default=1.0 and 1e-6
        The budget of one fit. Keep delta well below one over the number of rows.
    schema : Schema, optional
        The public facts of a table. With it, raw frames go straight in: text, dates, missing values. It also declares
        the target, the bound and the rows a person has, and names the data set in the account of the process.
    feature_bound : float or one of `dpconvex.bounds`, optional
        Bound on a row, a float being its l2 norm. Rows beyond it are brought back. Not with a schema, which implies it.
        If neither is given, `fit` reads the longest row from the data, with a `PrivacyLeakWarning`.
    classes : pair of labels, optional
        If neither they nor a schema are given, `fit` reads them from `y`, with a warning.
    n_rows : int, optional
        Number of rows that `fit_batches` will be given. `fit` counts them itself.
    radius : float, optional
        Largest norm of the weights. By default 15 for "log_loss" and 8 for "hinge", over the bound on a row with its
        constant feature: no prediction is then beyond that number.
    fit_intercept : bool, default=True
        Whether to add a constant feature. It counts in the bound of a row.
    shuffle : {True, False, "secret"}, default=True
        Whether `fit` takes the rows in a random order, as in `PhasedSGD`. `fit_batches` takes them as they come, so
        that their order has to be as good as random.
    relation : {"replace_one", "zero_out"}, default="replace_one"
        What a neighbouring data set is.
    rows_per_person : int, default=1
        The most rows that one person has; the guarantee is then about all of them together.
    random_state : int or RandomState, optional
        For tests only. None takes cryptographic noise; anything else makes the noise reproducible, and the receipt says
        that the fit is not private.
    strict : bool, default=False
        Refuse to read anything from the data that was not declared. `fit_batches` never does.

    Attributes
    ----------
    classes_ : array of labels, sorted
    weights_ : array, what was released, the constant feature last
    coef_, intercept_ : arrays, the same in the shapes scikit-learn uses
    receipt_ : Receipt
    n_features_in_, feature_names_in_ : what `fit` was given

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
    ) -> None:
        self._set(locals())


class PrivateSGDRegressor(OnePass, WithinRange):  # type: ignore[misc]
    """Linear regression of a number within a public range, from one private pass over the rows.

    For rows that do not fit into memory, or that are too many for several passes (`fit_batches`). The algorithm is
    `dpconvex.algorithms.PhasedSGD`.

    Parameters
    ----------
    loss : {"squared_error", "huber"}, default="squared_error"
        The slope of the squared loss, and with it the noise, would grow with the residual. A log-cosh loss is fitted
        in its place, as `dpconvex.choose` does: squared near the target, straight beyond a quarter of its range or
        less. "huber" goes straight at a tenth of the range, and outliers move it less.
    epsilon, delta, schema, feature_bound, n_rows, fit_intercept, shuffle : as in `PrivateSGDClassifier`
    relation, rows_per_person, random_state, strict : as in `PrivateSGDClassifier`
    target_range : pair of float, optional
        The least and the largest target there can be; others are clipped. If neither it nor a schema is given, `fit`
        reads it from `y`, with a warning.
    radius : float, optional
        Largest norm of the weights, in units of half the range of the target. By default 3 over the bound on a row with
        its constant feature.

    Attributes
    ----------
    weights_ : array, what was released: in units of half the range of the target, the constant feature last
    coef_, intercept_ : array and float, the same in units of the target
    target_range_ : pair of float
    receipt_ : Receipt
    n_features_in_, feature_names_in_ : what `fit` was given

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
    ) -> None:
        self._set(locals())


_BATCHES = "pairs (X, y), or of frames with a schema"


def _count(pair: tuple[Any, Any]) -> int:
    """Number of rows of a batch; what is no table counts as one, for others to refuse."""
    X = pair[0]
    if isinstance(X, Mapping):
        X = next(iter(X.values()), ())
    shape = np.shape(X) if isinstance(X, list | tuple) else getattr(X, "shape", ())
    return int(shape[0]) if shape else 1


def _emptied(queue: list[Any]) -> Iterator[Any]:
    """What a list holds, which keeps nothing of it."""
    while queue:
        yield queue.pop(0)
