"""Linear models of a stream of rows: a model after every call of `partial_fit`, all of them under one guarantee."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from dpconvex.algorithms.options import check_whole
from dpconvex.algorithms.private_ftrl import PrivateFTRL
from dpconvex.context import DEFAULT_DATASET
from dpconvex.data.schema import Schema
from dpconvex.errors import BudgetWarning, InputError
from dpconvex.estimators.base import documented, keep_arguments, seed_from, warn_of_selection
from dpconvex.estimators.predictors import PrivateClassifier, PrivateRegressor
from dpconvex.estimators.sgd import CLASSIFIERS, REGRESSORS, SinglePass
from dpconvex.estimators.table import Opened, Table, Units, declared_digest, read_facts
from dpconvex.kernel.budget import Budget
from dpconvex.plain import normal_name
from dpconvex.plan.checkpoint import Checkpoint
from dpconvex.plan.people import plan_for_people, protect_people
from dpconvex.plan.plan import Plan
from dpconvex.plan.session import Session
from dpconvex.problem.bounds import Bound
from dpconvex.problem.losses import Loss
from dpconvex.problem.problem import Problem

_TYPICAL = 10_000  # number of rows for which slopes of a squared loss are bounded where none is known


class _Online(SinglePass):
    """A model that PrivateFTRL fits to rows as they come."""

    def fit(self, X: Any, y: Any = None) -> Self:  # type: ignore[override]  # takes no weights
        """Fit to rows and targets, in the order given: a stream that ends with them, charged as one release."""
        if hasattr(self, "_stream"):
            raise InputError("fit would end the open stream: close() it first, or fit a new estimator")
        self.__dict__.pop("n_samples_seen_", None)
        return super().fit(X, y)

    def close(self) -> None:
        """End the stream: the model stays, and reads no more rows."""
        for name in ("_stream", "_settings"):
            self.__dict__.pop(name, None)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Read more rows; with a schema, `y` may stay in the frame. A row that is given twice counts as two.

        If no stream is open (at first, and after `fit`, `close` or `dpconvex.load`), a new one starts and is charged;
        it ignores earlier rows. Rows without the declared columns raise `InputError`, and so, without a schema, do
        entries that are not finite: nothing was read, and the stream continues, charged.
        """
        warn_of_selection(type(self).__name__)
        if not hasattr(self, "_stream"):
            return self._begin(X, y)
        if any(value is not self._settings[name] for name, value in self.get_params(deep=False).items()):
            raise InputError("settings were changed in mid-stream: start another stream with a new estimator")
        self._feed(self._stream, self._reopen(X, y))
        return self._keep_stream({name: getattr(self, name) for name in self.PUBLIC})

    @staticmethod
    def _feed(stream: Session, table: Table) -> None:
        stream.feed(table.rows.X, table.target.values, table.weights_for(PrivateFTRL.takes))

    def _begin(self, X: Any, y: Any) -> Self:
        table = self._open(X, y)
        rows, target, _ = table
        plan = self._stream_plan(target.loss, rows)
        declared = declared_digest(self.schema, target.public)
        stream = Session(plan, rows.dataset, seed_from(self.random_state), list(table.read), declared)
        self._feed(stream, table)
        if not stream.records:
            raise InputError("there are no rows to start the stream with")
        self._stream, self._settings = stream, self.get_params(deep=False)
        return self._keep_stream(target.public)

    def _keep_stream(self, public: Mapping[str, Any]) -> Self:
        self.n_samples_seen_ = self._stream.records
        return self._keep(self._stream.solution(), public)

    def _plan(self, loss: Loss, rows: Opened, budget: Budget, units: Units) -> Plan:
        self._need_rows(rows.n)
        problem = self._problem_for(loss, rows, rows.n, budget)
        learner = PrivateFTRL("blt", batch=min(self._batch_size(), max(1, rows.n // 100)))  # enough rounds to learn
        return plan_for_people(learner, problem, rows.n, rows.d, budget, rows.rows_per_person)

    def _stream_plan(self, loss: Loss, rows: Opened) -> Plan:
        budget = Budget(self.epsilon, self.delta, self.relation)
        problem, learner = self._problem_for(loss, rows, _TYPICAL, budget), PrivateFTRL("blt", batch=self._batch_size())

        def make(allowed: Budget) -> Plan:
            return learner.plan_stream(problem, d=rows.d, budget=allowed, rounds=self.max_rounds)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)  # the number of rows to come is unknown
            return protect_people(make, budget, rows.rows_per_person)

    def _batch_size(self) -> int:
        check_whole("batch_size", self.batch_size, 10**6)
        return int(self.batch_size)

    # Checkpoints ---------------------------------------------------------------------------------------------------

    def save_checkpoint(self, path: str | Path, key_file: str | Path | None = None) -> None:
        """Write an encrypted file from which the stream can resume after a crash; it replaces an earlier checkpoint.

        The file holds noise: keep it, and its key, apart from the model. From then on a journal in the same file
        records which rows are read, before they are read. A stream keeps to one path and one key.

        Parameters
        ----------
        path : str or Path
        key_file : str or Path, optional
            File of the key; created, readable by its owner only, if it does not exist. By default the file named by the
            environment variable DPCONVEX_KEY_FILE, or else `~/.config/dpconvex/checkpoint.key`.

        Raises
        ------
        InputError
            If no stream is open.
        """
        if not hasattr(self, "_stream"):
            raise InputError("no stream is open: call partial_fit first")
        facts = {**self._facts(), "problem": self._problem.to_json(), "d": self._stream.plan.d}
        self._stream.save_checkpoint(path, key_file, facts)

    def resume(self, path: str | Path, key_file: str | Path | None = None) -> Self:
        """Resume from a checkpoint, with the noise that was still to come; nothing is charged again.

        The estimator needs the settings of the stream. `n_samples_seen_` says after which row to continue. Rows
        that were read between the checkpoint and a crash have to be read again, the same rows in the same portions:
        their noise has been used, and `partial_fit` refuses other rows.

        Raises
        ------
        InputError
            If a stream is open, the file cannot be read with the key, or it belongs to a stream with other settings.
        """
        if hasattr(self, "_stream"):
            raise InputError("a stream is open: resume with a new estimator of the same settings")
        checkpoint = Checkpoint(path, key_file)
        saved = checkpoint.read()
        facts = saved["facts"]
        if facts.get("estimator") != type(self).__name__:
            raise InputError(f"the checkpoint is not of a {type(self).__name__}: use the class that wrote it")
        public = self._resumed_target(facts["public"])
        about = saved["session"]
        if about["declared"] != declared_digest(self.schema, public) or (
            self.schema is not None and not _names(self.schema, about["dataset"])
        ):
            raise InputError("the checkpoint is of a stream with another schema: give the schema of the stream")
        if self.strict and about["undeclared"]:
            raise InputError("strict=True: facts of this stream were read from the data; resume with strict=False")
        self._restore_features(facts)
        stream = Session.resume(self._resumed_plan(facts, public), checkpoint)
        self._stream, self._settings = stream, self.get_params(deep=False)
        return self._keep_stream(public)

    def _resumed_plan(self, facts: Mapping[str, Any], public: Mapping[str, Any]) -> Plan:
        """The plan of these settings, with the facts read from the first rows where they are undeclared."""
        declared = self._declared()
        if declared.schema is not None:
            return self._stream_plan(self._loss(), self._started(declared.rows_of_schema(), public))
        bound = Problem.from_json(facts["problem"]).feature_bound if self.feature_bound is None else self.feature_bound
        rows = declared.rows_within(np.empty((0, facts["d"])), bound)
        return self._stream_plan(self._loss(), self._started(rows, public))

    def _resumed_target(self, public: Mapping[str, Any]) -> dict[str, Any]:
        """Public facts of the target of the stream, which have to match those that this estimator declares."""
        for name, fact in public.items():
            declared = getattr(self, name.removesuffix("_"))
            if declared is not None and sorted(np.asarray(declared).tolist()) != list(fact):
                raise InputError(f"the checkpoint is of a stream with other {name.removesuffix('_')}")
        return read_facts(public)

    def __getstate__(self) -> Any:
        if hasattr(self, "_stream"):
            raise TypeError(
                "a private stream cannot be copied or pickled while it is open: its noise must never be used twice. "
                "Save the model with save(), write a checkpoint, or close() the stream first"
            )
        return super().__getstate__()


@documented
class PrivateOnlineClassifier(_Online, PrivateClassifier):
    """Differentially private linear classifier for two classes, from a stream of rows read by `partial_fit`.

    Every call yields a model; all models together are one release under one budget, charged once, however long the
    stream. The algorithm is `dpconvex.algorithms.PrivateFTRL`, and the model is the mean of its iterates.

    Parameters
    ----------
    loss : {"log_loss", "hinge"}, default="log_loss"
        Logistic regression, which predicts probabilities, or a support vector machine with a smoothed hinge.
    epsilon, delta : float, default=1.0 and 1e-6
        The budget of the whole stream. Keep delta well below one over the number of rows.
    batch_size : int, default=256
        Largest number of rows per round. A call reads its rows in rounds of this size; the last may be smaller.
    max_rounds : int, optional
        Largest number of rounds, if it is known: slightly less noise. Without it the limit is about 286 million.
    radius : float, optional
        Largest norm of the weights. By default 15 for "log_loss" and 8 for "hinge", divided by the bound on a row with
        its constant feature: no prediction then exceeds that number.
    rows_per_person : int, default=1
        The largest number of rows per person in the whole stream; the guarantee then covers all of them together.
    {shared}

    Attributes
    ----------
    classes_ : array of labels, sorted
    weights_ : array, the weights released last, the constant feature last
    coef_, intercept_ : arrays, the same in the shapes scikit-learn uses
    n_samples_seen_ : int, number of rows that `partial_fit` has read
    receipt_ : Receipt, of the stream so far
    n_features_in_, feature_names_in_ : number and names of the features

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> model = dc.PrivateOnlineClassifier(feature_bound=dc.bounds.Linf(1.0), classes=["no", "yes"], epsilon=2.0)
    >>> for _ in range(20):
    ...     X = rng.uniform(-1, 1, size=(1000, 3))
    ...     model = model.partial_fit(X, np.where(X[:, 0] > 0.1 * rng.normal(size=1000), "yes", "no"))
    >>> bool(model.score(X, np.where(X[:, 0] > 0, "yes", "no")) > 0.9), model.n_samples_seen_
    (True, 20000)
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
        batch_size: int = 256,
        max_rounds: int | None = None,
        radius: float | None = None,
        fit_intercept: bool = True,
        relation: str = "replace_one",
        rows_per_person: int = 1,
        random_state: Any = None,
        strict: bool = False,
        dataset: str | None = None,
        start: Any = None,
    ) -> None:
        keep_arguments(locals())

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:
        """Read more rows; with a schema, `y` may stay in the frame. A row that is given twice counts as two.

        If no stream is open (at first, and after `fit`, `close` or `dpconvex.load`), a new one starts and is charged;
        it ignores earlier rows. Rows without the declared columns raise `InputError`, and so, without a schema, do
        entries that are not finite: nothing was read, and the stream continues, charged.

        Parameters
        ----------
        X, y : rows and labels
        classes : pair of labels, optional
            Needed in the first call if the estimator does not declare them.
        """
        known = self.classes_ if hasattr(self, "_stream") else self.classes
        if classes is None or known is not None:
            if classes is not None and sorted(np.asarray(classes).tolist()) != sorted(np.asarray(known).tolist()):
                raise InputError("classes differ from those that were declared before")
            return super().partial_fit(X, y)
        self.classes = classes
        try:
            super().partial_fit(X, y)
        finally:
            self.classes = None
        self._settings["classes"] = None
        return self


@documented
class PrivateOnlineRegressor(_Online, PrivateRegressor):
    """Differentially private linear regression within a public range, from a stream of rows read by `partial_fit`.

    Every call yields a model; all models together are one release under one budget, charged once, however long the
    stream. The algorithm is `dpconvex.algorithms.PrivateFTRL`, and the model is the mean of its iterates.

    Parameters
    ----------
    loss : {"squared_error", "huber"}, default="squared_error"
        As in `PrivateSGDRegressor`.
    epsilon, delta : float, default=1.0 and 1e-6
        The budget of the whole stream. Keep delta well below one over the number of rows.
    batch_size : int, default=64
        Largest number of rows per round. A call reads its rows in rounds of this size; the last may be smaller.
    max_rounds : int, optional
        Largest number of rounds, if it is known: slightly less noise. Without it the limit is about 286 million.
    radius : float, optional
        Largest norm of the weights, in units of half the range of the target. By default 3 divided by the bound on a
        row with its constant feature.
    rows_per_person : int, default=1
        The largest number of rows per person in the whole stream; the guarantee then covers all of them together.
    {shared}

    Attributes
    ----------
    weights_ : array, the weights released last, in units of half the range of the target, the constant feature last
    coef_, intercept_ : array and float, the same in units of the target
    target_range_ : pair of float
    n_samples_seen_ : int, number of rows that `partial_fit` has read
    receipt_ : Receipt, of the stream so far
    n_features_in_, feature_names_in_ : number and names of the features

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> model = dc.PrivateOnlineRegressor(feature_bound=dc.bounds.Linf(1.0), target_range=(0, 100), epsilon=2.0)
    >>> for _ in range(20):
    ...     X = rng.uniform(-1, 1, size=(1000, 3))
    ...     model = model.partial_fit(X, 50 + 20 * X[:, 0])
    >>> bool(model.score(X, 50 + 20 * X[:, 0]) > 0.8)
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
        batch_size: int = 64,
        max_rounds: int | None = None,
        radius: float | None = None,
        fit_intercept: bool = True,
        relation: str = "replace_one",
        rows_per_person: int = 1,
        random_state: Any = None,
        strict: bool = False,
        dataset: str | None = None,
        start: Any = None,
    ) -> None:
        keep_arguments(locals())


def _names(schema: Schema, dataset: str) -> bool:
    """Whether a schema names the data set, or none."""
    return normal_name(schema.name, "dataset") in (DEFAULT_DATASET, normal_name(dataset, "dataset"))
