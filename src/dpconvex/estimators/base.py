"""What the private linear models share: from a table to a release, and from a release to predictions.

`fit` opens the table according to what is declared about it (`table`), plans, runs, and keeps what was released. A
model states its loss, and its constant feature and domain where they differ from the default.
"""

from __future__ import annotations

import inspect
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dpconvex import algorithms
from dpconvex.algorithms.base import Algorithm
from dpconvex.chooser import choose
from dpconvex.chooser.prediction import hope, hopeless
from dpconvex.chooser.recommend import HOPELESS_WORDS
from dpconvex.data.arrays import as_array
from dpconvex.data.encoding import Encoding
from dpconvex.data.parts import Parts
from dpconvex.data.schema import Classes, Range
from dpconvex.errors import DpconvexError, HopelessFitWarning, InputError, RowError, SelectionWarning, warn
from dpconvex.estimators.parts import open_parts, weighed
from dpconvex.estimators.start import starting_weights
from dpconvex.estimators.table import (
    Declared,
    Opened,
    Table,
    Target,
    Units,
    check_confidence,
    declared_digest,
    plain_facts,
)
from dpconvex.hints import check_arguments
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.receipt import Receipt
from dpconvex.ledger.ledger import check_current, current
from dpconvex.plan.people import protect_people
from dpconvex.plan.plan import Plan, Solution
from dpconvex.problem.bounds import Bound
from dpconvex.problem.domains import Domain, Everywhere
from dpconvex.problem.losses import Loss
from dpconvex.problem.problem import Problem
from dpconvex.sums.scores import score_rows

if TYPE_CHECKING:
    from dpconvex.estimators.inference import NoiseReport
    from dpconvex.estimators.summary import Summary


class PrivateLinearModel(BaseEstimator, ABC):
    """A differentially private linear model.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-6
        The budget of one call of `fit`. Keep delta well below one over the number of rows.
    schema : Schema, optional
        The public facts of a table. With a schema, `fit` takes raw frames: text, dates, missing values. The schema also
        declares the target, the bound on a row and the number of rows per person, and it names the data set in the
        ledger, or in the account of the process.
    feature_bound : float or one of `dpconvex.bounds`, optional
        Bound on each row; a float bounds the l2 norm. Rows beyond the bound are scaled back to it. Not allowed with a
        schema, which implies the bound. If neither is given, the longest row is read from the data, with a
        `PrivacyLeakWarning`.
    classes : sequence of labels, optional
        All possible labels. If neither `classes` nor a schema is given, they are read from `y`, with a
        `PrivacyLeakWarning`.
    target_range : pair of float, optional
        The smallest and the largest possible target; targets outside are clipped. If neither `target_range` nor a
        schema is given, the range is read from `y`, with a `PrivacyLeakWarning`.
    fit_intercept : bool, default=True
        Whether to append a constant feature. It counts towards the bound on a row.
    n_rows : int, optional
        Number of rows that `fit_batches` will be given. `fit` counts them itself.
    shuffle : {True, False, "secret"}, default=True
        Whether `fit` takes the rows in a random order, as in `PhasedSGD`. `fit_batches` takes them as they come, so
        their order should be as good as random.
    algorithm : "auto", the name of an algorithm or an instance, default="auto"
        "auto" asks `dpconvex.choose`.
    relation : {"replace_one", "zero_out"}, default="replace_one"
        The neighbouring relation: one record replaced by any other, or its contribution masked.
    rows_per_person : int, default=1
        The largest number of rows per person; the guarantee then covers all rows of a person together.
    weight_cap : float, optional
        Upper bound on `sample_weight`; larger weights are clipped. The noise is proportional to it. If weights are
        given without a cap, the largest is read from the data, with a `PrivacyLeakWarning`.
    class_weight : dict from labels to numbers, optional
        Weight of the rows of each class, 1 for classes not named. Declared, never counted from the data.
    random_state : int or RandomState, optional
        For tests only. None draws cryptographic noise; anything else makes the noise reproducible, and the receipt says
        that the fit is not private.
    strict : bool, default=False
        Raise `InputError` instead of reading undeclared facts from the data, and instead of making a fit of which next
        to nothing is to be expected (`HopelessFitWarning`).
    dataset : str, optional
        Name of the data set in the ledger, or in the account of the process. By default that of the schema, or else of
        `dpconvex.context`. In a `Pipeline` the model does not see the schema of the steps before it.
    start : optional
        A public model at which the fit starts: coefficients as in `coef_`, a pair (coefficients, intercept), a fitted
        linear model, or effects in the units of the table by name, as `summary` shows them (columns left out are 0).
        It must not depend on the rows, except through private releases. A default ball of weights grows by its norm.

    Notes
    -----
    No model has all of these parameters; `documented` writes those that a model has into its docstring.
    """

    PUBLIC: ClassVar[tuple[str, ...]]  # public facts of the target, as attributes of a fitted model
    _USUAL: ClassVar[dict[str, Any]]  # parameters that declare a target as it mostly is
    _POOR_SCORE: ClassVar[bool] = False  # whether scikit-learn's checks of scores have too few rows for this noise
    weights_: np.ndarray

    def __new__(cls, *_: Any, **named: Any) -> Self:
        """Refuse parameters that the model does not have; Python would name the class that declares them."""
        check_arguments(cls, named)
        return super().__new__(cls)

    @abstractmethod
    def loss_for(self, target: Classes | Range | None) -> Loss:
        """Return the loss for a declared target.

        Raises
        ------
        InputError
            If the target is not of the kind that the model predicts.
        """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to rows and targets. With a schema, `y` may stay in the frame, under the name of the target.

        Every call is a release and is charged to the ledger, or to the account of the process (`dpconvex.account`).

        Parameters
        ----------
        X, y : rows and targets
            Or `dpconvex.data.Parts` in place of both: files, or whatever does not fit in memory. Everything public must
            then be declared.
        sample_weight : array of shape (n,), optional
            Weight of each row, up to `weight_cap`.
        groups : array of shape (n,), optional
            The group id of each row: rows with the same id belong to one person. The guarantee then covers all rows of
            a person, whatever their number. If `rows_per_person` is declared, it covers that many rows per person:
            later rows of people with more are left out, and the group ids count as public.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If parameters, columns, shapes or types are not as declared; nothing is charged.
        RowError
            Without a schema, if X holds entries that are not finite; nothing is released, and the fit stays charged.
            With a schema, no fit is refused for what rows say: cells that do not fit have a declared substitute. Rows
            whose target does not fit have weight 0; algorithms that take no weights count them as the first class, or
            the middle of the range.
        BudgetError
            If the account of the data set has a limit that this fit would exceed.
        """
        return self._fit(X, y, sample_weight, groups)

    # From a table to a release -------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        warn_of_selection(type(self).__name__)
        budget = Budget(self.epsilon, self.delta, self.relation)
        table = self._open(X, y, sample_weight, groups)
        try:
            plan = self._plan(table.target.loss, table.rows, budget, table.units)
        except DpconvexError as error:
            if table.target.read:  # what was read may have decided
                self._refuse(table.rows, error)
            raise
        refuse_hopeless(plan, self.strict)
        takes = getattr(plan.algorithm, "takes", ())
        if groups is not None and table.units.people is None and "sample_weight" not in takes:
            raise InputError(
                f"{type(plan.algorithm).__name__} cannot leave out the later rows of people who have too many: give it "
                f"at most {table.rows.rows_per_person} rows per person and no groups, or choose another algorithm "
                "(PoissonSGD)"
            )
        return self._keep(self._run(plan, table, table.read), table.target.public)

    def _open(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Table:
        """Open the table as declared, and read from it what was not declared."""
        declared = self._declared()
        if isinstance(X, Parts):
            table = self._open_parts(declared, X, y, sample_weight, groups)
            return table._replace(rows=self._started(table.rows, table.target.public))
        rows = self._open_rows(declared, X, y, sample_weight)
        target = None
        try:
            target = self._read_target(declared, X, y, sample_weight)
            started = self._started(rows, target.public)
        except DpconvexError as error:
            if isinstance(error, RowError) or (target is not None and target.read):  # what was read may have decided
                self._refuse(rows, error)
            raise
        return Table(started, target, declared.open_units(rows, target, sample_weight, groups))

    def _started(self, rows: Opened, public: Mapping[str, Any]) -> Opened:
        """The rows with the weights at which a fit to them starts."""
        return rows._replace(start=starting_weights(self, rows, public))

    def _refuse(self, rows: Opened, error: DpconvexError) -> NoReturn:
        """Charge a fit that is refused for what was read of the targets: rows never decide between free answers.

        What is wrong with the parameters is wrong for the usual targets too, and stays free.
        """
        usual = self._read_target(self._declared(**self._USUAL), None, np.zeros(2)).loss
        plan = self._plan(usual, rows, Budget(self.epsilon, self.delta, self.relation), Units())
        plan.refuse(str(error).rstrip("."), dataset=rows.dataset, seed=seed_from(self.random_state))
        raise AssertionError

    def _open_parts(self, declared: Declared, parts: Parts, *others: Any) -> Table:
        """Open parts as declared. Targets, weights and whose the rows are come with the parts."""
        if any(other is not None for other in others):
            raise InputError("parts hold targets and weights: leave out y, sample_weight and groups")
        table = open_parts(self, declared, parts, tuple(name.removesuffix("_") for name in self.PUBLIC))
        self.n_features_in_ = table.rows.d
        self.__dict__.pop("feature_names_in_", None)
        if declared.schema is not None:
            self.feature_names_in_ = np.array(list(declared.schema.columns), dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        return table

    def _declared(self, **facts: Any) -> Declared:
        """The facts of the table that the parameters declare, with further facts."""
        check_current(self.__dict__.get("_ledger"))
        params = self.get_params(deep=False) | facts
        return Declared(**{f.name: params[f.name] for f in fields(Declared) if f.name in params})

    def _declared_by_fit(self) -> Declared:
        """The facts of the table after a fit: the classes, or the range, are no longer read from the data."""
        if self.schema is not None and self.schema.target is not None:
            return self._declared()
        return self._declared(**{name.removesuffix("_"): getattr(self, name) for name in self.PUBLIC})

    def _open_rows(self, declared: Declared, X: Any, y: Any, sample_weight: Any = None) -> Opened:
        if declared.schema is not None:
            rows = declared.open_table(X)
            self.feature_names_in_ = np.array(list(declared.schema.columns), dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
            return rows
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        return declared.open_matrix(self._matrix(X, reset=True, finite=False), sample_weight)

    def _matrix(self, X: Any, reset: bool, finite: bool) -> Any:
        """Rows of numbers, as scikit-learn validates them; `finite` refuses other entries, which a run would charge."""
        kinds = {getattr(dtype, "kind", None) for dtype in (*getattr(X, "dtypes", ()), getattr(X, "dtype", None))}
        if kinds & {"m", "M", "c"}:
            raise InputError("X holds dates or complex numbers (Complex data not supported): declare a dpconvex.Schema")
        if kinds & {"U", "S"} or (hasattr(X, "columns") and "O" in kinds):
            raise InputError("X holds text: declare its columns in a dpconvex.Schema, or encode them")
        if isinstance(X, list | tuple) or "O" in kinds:
            X = as_array(X, "X")  # types of cells are theirs: those that are no number become NaN
        if getattr(X, "ndim", 2) != 2:  # scikit-learn quotes the rows
            raise InputError(f"Expected 2D array, got {X.ndim}D array. Reshape your data: rows and features")
        try:
            return validate_data(
                self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=finite, reset=reset
            )
        except ValueError as error:
            if "could not convert" in str(error):  # numpy quotes the cell
                raise InputError("X holds text: declare its columns in a dpconvex.Schema, or encode them") from None
            if "contains NaN" in str(error):
                raise InputError("X holds NaN: declare its columns in a Schema, which takes missing values") from None
            raise

    @abstractmethod
    def _read_target(self, declared: Declared, X: Any, y: Any, sample_weight: Any = None) -> Target:
        """Read the targets, from the frame or from y."""

    def _plan(self, loss: Loss, rows: Opened, budget: Budget, units: Units) -> Plan:
        """Plan with the chosen algorithm, so that the budget holds per person.

        The plan of a weighted fit does not depend on the number of rows, so that repeating a row is the same as giving
        it weight 2.
        """
        self._need_rows(rows.n)
        chosen = _algorithm(self.algorithm)
        constant = self._constant(rows.bound, rows.constant) if self.fit_intercept else 0.0
        domain = self._domain(rows.bound, constant, rows.start)
        problem = Problem(loss, domain, rows.bound, intercept=constant, start=rows.start)
        if units.people is not None:
            chosen = _by_person(chosen, problem)

        def make(allowed: Budget) -> Plan:
            if chosen is None:
                return choose(problem, n=rows.n, d=rows.d, budget=allowed, weighted=units.weighted)
            return chosen.plan(problem, n=rows.n, d=rows.d, budget=allowed)

        return protect_people(make, budget, rows.rows_per_person)

    def _constant(self, bound: Bound, constant: float) -> float:
        """The constant feature, given the bound on a row and the default for it."""
        return constant

    def _domain(self, bound: Bound, constant: float, start: np.ndarray | None) -> Domain:
        """The domain of the weights, given the bound on a row, the constant feature, and where the fit starts."""
        return Everywhere()

    def _need_rows(self, n: int) -> None:
        if n < 2:
            raise InputError(f"{type(self).__name__} needs at least 2 rows, got n_samples = {n}")

    def _run(self, plan: Plan, table: Table, undeclared: Sequence[str], declared: str | None = None) -> Solution:
        """Run the plan. `declared` is the digest on the receipt of an earlier run on the same table."""
        rows, target, units = table
        takes = getattr(plan.algorithm, "takes", ())
        return plan.run(
            weighed(rows.X, takes) if isinstance(rows.X, Parts) else rows.X,
            None if isinstance(rows.X, Parts) else target.values,
            sample_weight=None if isinstance(rows.X, Parts) else table.weights_for(takes),
            groups=None if isinstance(rows.X, Parts) else units.people,
            dataset=rows.dataset,
            seed=seed_from(self.random_state),
            undeclared=undeclared,
            declared=declared or declared_digest(self.schema, target.public),
        )

    def _keep(self, solution: Solution, public: Mapping[str, Any]) -> Self:
        """Keep what was released, and the public facts of the target."""
        for name, fact in public.items():
            setattr(self, name, fact)
        self.weights_ = solution.weights
        self.receipt_ = solution.receipt
        for name in ("moments_", "_ledger"):  # of an earlier fit, and of where it was sent from
            self.__dict__.pop(name, None)
        fitted = fitted_by(solution.receipt)
        if fitted is not None and fitted.keeps_releases:
            self.moments_ = solution.iterates  # released too, and what `noise_report` needs
        return self

    def _facts(self) -> dict[str, Any]:
        """The public facts of a fitted model, for a file."""
        names = getattr(self, "feature_names_in_", None)
        return {
            "estimator": type(self).__name__,
            "public": plain_facts({name: getattr(self, name) for name in self.PUBLIC}),
            "n_features_in": self.n_features_in_,
            "feature_names_in": None if names is None else list(names),
        }

    def _restore_features(self, facts: Mapping[str, Any]) -> None:
        """Restore the number and the names of the features from the facts in a file."""
        self.n_features_in_ = int(facts["n_features_in"])
        if facts["feature_names_in"] is not None:
            self.feature_names_in_ = np.array(facts["feature_names_in"], dtype=object)

    # After a fit ---------------------------------------------------------------------------------------------------

    @property
    def _problem(self) -> Problem:
        return self.receipt_.problem

    @property
    def _half_range(self) -> float:
        """Unit of the weights: half the range of the target for numbers, 1 for classes."""
        return 1.0

    @property
    def _coef_and_intercept(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the features, and what the constant feature adds, in units of the target."""
        weights, constant = self._half_range * self.weights_, self._problem.intercept
        return (weights[..., :-1], constant * weights[..., -1]) if constant else (weights, 0.0 * weights[..., 0])

    def _encoded(self, X: Any, finite: bool = True) -> Any:
        """Rows in the form that the weights apply to."""
        schema = self._declared().schema
        return self._matrix(X, False, finite) if schema is None else Encoding(schema).rows(X)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return score_rows(self._encoded(X), self.weights_, self._problem)

    def _reopen(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, n: int | None = None) -> Table:
        """Open the table of the fit again, which has n rows, or another table of the same form."""
        problem, dataset = self._problem, self.receipt_.sections["dataset"]
        declared = self._declared_by_fit()
        table = self._open_parts(declared, X, y, sample_weight, groups) if isinstance(X, Parts) else None
        encoded = self._encoded(X, finite=False) if table is None else table.rows.X
        rows = Opened(encoded, problem.feature_bound, problem.intercept, dataset["unit"], dataset["name"])
        if n not in (None, rows.n):
            raise InputError(f"the model was fitted to {n} rows and these are {rows.n}: give the same rows")
        if table is not None:
            return table._replace(rows=rows)
        target = self._read_target(declared, X, y, sample_weight)
        return Table(rows, target, declared.open_units(rows, target, sample_weight, groups))

    def noise_report(
        self, X: Any = None, y: Any = None, budget: Budget | None = None, sample_weight: Any = None, groups: Any = None
    ) -> NoiseReport:
        """Report how far the noise may have moved the coefficients: standard errors, intervals, and a table.

        The report is about the noise of the mechanism and says nothing about sampling error. Most reports follow from
        what was released already, need no data and cost nothing. After `ObjectivePerturbation` the report needs another
        release, the Hessian of the objective with noise, which is charged to the account like any other.

        Parameters
        ----------
        X, y, sample_weight, groups : what `fit` was given
            Only needed after `ObjectivePerturbation`.
        budget : Budget
            The budget of the additional release. A fraction of the budget of the fit is enough.

        Returns
        -------
        NoiseReport

        Raises
        ------
        InputError
            If no report is available for the algorithm, or the additional release lacks rows or a budget.
        VerificationError
            If the receipt of the model does not hold.
        """
        from dpconvex.estimators.inference import needs_hessian, noise_report, plan_hessian, stated_scales

        check_is_fitted(self)
        scales, receipt = stated_scales(self.receipt_), self.receipt_.sections
        if not needs_hessian(self.receipt_):
            return noise_report(self, scales)
        if X is None or not isinstance(budget, Budget):
            raise InputError(
                f"the error of {receipt['plan']['algorithm']['name']} depends on the Hessian, which is private: give "
                "the rows and targets of the fit again, and a dpconvex.Budget for one more release"
            )
        table = self._reopen(X, y, sample_weight, groups, n=receipt["plan"]["n"])
        plan = plan_hessian(self.weights_, self._problem, table.rows, budget)
        undeclared = list(dict.fromkeys((*receipt["outside"]["read_from_data"], *table.read)))
        return noise_report(self, scales, self._run(plan, table, undeclared, receipt["dataset"]["declared"]))

    def summary(
        self,
        X: Any = None,
        y: Any = None,
        budget: Budget | None = None,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        confidence: float = 0.95,
    ) -> Summary:
        """Summarise the coefficients: by name, in the units of the table, beside the noise in them.

        Without rows it costs nothing. Where the noise in the coefficients depends on the rows (`noise_report`), its
        standard errors are then left out; given what `noise_report` takes, they are one more release.

        Returns
        -------
        Summary
            `print` shows a table; `to_frame()` is the same for pandas, `to_svg()` a forest plot.
        """
        from dpconvex.estimators.summary import summarise

        check_is_fitted(self)
        confidence = check_confidence(confidence)
        report, why = None, ""
        try:
            report = self.noise_report(X, y, budget, sample_weight, groups)
        except InputError as error:
            if X is not None or budget is not None:
                raise
            why = str(error)
        return summarise(self, report, why, confidence)

    def save(self, path: str | Path) -> None:
        """Write the fitted model and its receipt to a JSON file; `dpconvex.load` reads it back."""
        from dpconvex.estimators.store import save

        check_is_fitted(self)
        save(self, path)

    def __getstate__(self) -> Any:
        """State to send to another process, which may not fit under another ledger, or under none."""
        state, ledger = super().__getstate__(), current()
        return state if ledger is None or hasattr(self, "weights_") else {**state, "_ledger": ledger.id}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.schema is None
        tags.input_tags.string = tags.input_tags.categorical = self.schema is not None
        tags.input_tags.allow_nan = self.schema is not None
        return tags


class Unweighted(PrivateLinearModel):
    """A model in which all rows have the same weight."""

    _POOR_SCORE = True

    def fit(self, X: Any, y: Any = None) -> Self:  # type: ignore[override]
        """Fit to rows and targets. With a schema, `y` may stay in the frame, under the name of the target.

        Every call is a release and is charged to the ledger, or to the account of the process (`dpconvex.account`).
        """
        return self._fit(X, y, None, None)


def documented(model: type[Any]) -> type[Any]:
    """Replace {shared} in a docstring by the parameters of its model that it does not describe itself."""
    doc, accepted = str(model.__doc__), inspect.signature(model).parameters
    entries = re.findall(r"^(    (\w+).* : .*\n(?: {8}.*\n)+)", str(PrivateLinearModel.__doc__), re.MULTILINE)
    shared = (entry for entry, name in entries if name in accepted and not re.search(rf"\n    {name}[, ]", doc))
    model.__doc__ = doc.replace("    {shared}\n", "".join(shared))
    return model


def refuse_hopeless(plan: Plan, strict: bool) -> None:
    """Warn, or if strict raise an error, where public facts say that next to nothing is to be expected of a plan."""
    allowed, facts = plan.one_record or plan.budget, (plan.problem, plan.n, plan.d)
    if not hopeless(*facts, allowed):
        return
    words = (
        f"{HOPELESS_WORDS}: {plan.n} records, {plan.d} features, epsilon = {plan.budget.epsilon:g}. Use about "
        f"{hope(plan.problem, plan.d, allowed)} records, fewer features or a larger epsilon"
    )
    if strict:
        raise InputError(f"strict=True forbids a fit that is likely to be useless: {words}")
    warn(words, HopelessFitWarning)


_SELECTING = ("sklearn.model_selection", "sklearn.feature_selection", "sklearn.calibration", "sklearn.inspection")


def warn_of_selection(model: str) -> None:
    """Warn if the call comes from a part of scikit-learn that compares or adjusts models on rows without noise."""
    frame = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_SELECTING):
            warn(
                f"{module} looks at rows without noise to score, select or adjust {model}: no finite epsilon covers "
                "the result. Use it on rows that are not private, fix the settings beforehand, or choose among them "
                "with dpconvex.PrivateSelection",
                SelectionWarning,
            )
            return
        frame = frame.f_back  # type: ignore[assignment]


def keep_arguments(arguments: dict[str, Any]) -> None:
    """Set the arguments of a constructor, its `locals()`, as attributes of the same names, as scikit-learn requires."""
    for name, value in arguments.items():
        if name != "self":
            setattr(arguments["self"], name, value)


def seed_from(random_state: Any) -> int | None:
    """Seed for the noise: None, for a private fit, unless a random state was set."""
    if random_state is None:
        return None
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def fitted_by(receipt: Receipt) -> Algorithm | None:
    """The algorithm that a receipt names; None for that of a selection, which is about several plans."""
    name = receipt.sections["plan"]["algorithm"]["name"]
    return algorithms.get(name)() if name in algorithms.names() else None


def _algorithm(name: Any) -> Algorithm | None:
    """The algorithm that is named or given; None for "auto"."""
    if isinstance(name, Algorithm):
        return name
    if isinstance(name, str) and name in ("auto", *algorithms.names()):
        return None if name == "auto" else algorithms.get(name)()
    raise InputError(f"algorithm must be 'auto', one of {', '.join(algorithms.names())}, or an instance")


def _by_person(chosen: Algorithm | None, problem: Problem) -> Algorithm:
    """The algorithm with a limit on the contribution of each person; proofs about rows do not allow for it."""
    made = (algorithms.get(name)() for name in algorithms.names())
    able = [algorithm for algorithm in made if "groups" in algorithm.takes]
    if chosen is None:
        chosen = next((a for a in able if a.needs.complaint(problem) is None), able[0])
    if "groups" not in chosen.takes:
        raise InputError(
            f"groups need an algorithm that limits what a person's rows add up to ("
            f"{', '.join(type(a).__name__ for a in able)}), and {type(chosen).__name__} does not: choose one of these, "
            "or declare rows_per_person"
        )
    return replace(chosen, per_person=True)  # type: ignore[type-var]
