"""Linear models of a stream: rows come bit by bit, and after every bit there is a model under one guarantee."""

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
from dpconvex.estimators.base import seed_from, warn_of_selection
from dpconvex.estimators.sgd import SinglePass, TwoClasses, WithinRange
from dpconvex.estimators.table import Opened, Units, declared_digest, plain_facts
from dpconvex.kernel.budget import Budget
from dpconvex.plan.checkpoint import Checkpoint
from dpconvex.plan.people import protect_people
from dpconvex.plan.plan import Plan
from dpconvex.plan.session import Session
from dpconvex.problem.bounds import Bound
from dpconvex.problem.losses import Loss
from dpconvex.problem.problem import Problem

TYPICAL = 10_000  # rows for which the slopes of a squared loss are bounded where no number of rows is known


class Online(SinglePass):
    """A model that PrivateFTRL fits, to rows as they come."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to rows and targets, in the order given, and end: a stream of its own, charged as one release."""
        if hasattr(self, "_stream"):
            raise InputError("fit would end the stream that is open: close() it first, or fit a new estimator")
        self.__dict__.pop("n_samples_seen_", None)
        return super().fit(X, y)

    def close(self) -> None:
        """End the stream: the model stays, and no more rows can be read into it."""
        for name in ("_stream", "_settings"):
            self.__dict__.pop(name, None)

    def _read(self, X: Any, y: Any) -> Self:
        warn_of_selection(type(self).__name__)
        if not hasattr(self, "_stream"):
            return self._begin(X, y)
        if any(value is not self._settings[name] for name, value in self.get_params(deep=False).items()):
            raise InputError("settings were changed in mid-stream: begin another stream with a new estimator")
        rows, target, _ = self._reopen(X, y)
        self._stream.feed(rows.X, target.values)
        return self._keep_stream(target.public)

    def _begin(self, X: Any, y: Any) -> Self:
        table = self._open(X, y)
        rows, target, _ = table
        plan = self._stream_plan(target.loss, rows)
        declared = declared_digest(self.schema, target.public)
        stream = Session(plan, rows.dataset, seed_from(self.random_state), list(table.read), declared)
        stream.feed(rows.X, target.values)
        if not stream.records:
            raise InputError("there are no rows to begin the stream with")
        self._stream, self._settings = stream, self.get_params(deep=False)
        return self._keep_stream(target.public)

    def _keep_stream(self, public: Mapping[str, Any]) -> Self:
        self.n_samples_seen_ = self._stream.records
        return self._keep(self._stream.solution(), public)

    def _plan(self, loss: Loss, rows: Opened, budget: Budget, units: Units) -> Plan:
        self._need_rows(rows.n)
        problem, d = self._problem_for(loss, rows, rows.n, budget), int(rows.X.shape[1])
        learner = PrivateFTRL("blt", batch=min(self._batch_size(), max(1, rows.n // 100)))  # rounds enough to learn
        return protect_people(
            lambda allowed: learner.plan(problem, n=rows.n, d=d, budget=allowed), budget, rows.rows_per_person
        )

    def _stream_plan(self, loss: Loss, rows: Opened) -> Plan:
        budget = Budget(self.epsilon, self.delta, self.relation)
        problem, d = self._problem_for(loss, rows, TYPICAL, budget), int(rows.X.shape[1])
        learner = PrivateFTRL("blt", batch=self._batch_size())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)  # the number of rows to come is not known
            return protect_people(
                lambda allowed: learner.plan_stream(problem, d=d, budget=allowed, rounds=self.max_rounds),
                budget,
                rows.rows_per_person,
            )

    def _batch_size(self) -> int:
        check_whole("batch_size", self.batch_size, 10**6)
        return int(self.batch_size)

    # Checkpoints ---------------------------------------------------------------------------------------------------

    def save_checkpoint(self, path: str | Path, key_file: str | Path | None = None) -> None:
        """Write what is needed to go on after a crash: an encrypted file, in place of the checkpoint before.

        It holds noise, so keep it, and the key, apart from the model. From then on a journal in the same file says,
        before rows are read, which ones they are. A stream keeps to one path and one key.

        Parameters
        ----------
        path : str or Path
        key_file : str or Path, optional
            File of the key; made, for its owner alone, if there is none. By default the file that the environment
            variable DPCONVEX_KEY_FILE names, or else `~/.config/dpconvex/checkpoint.key`.
        """
        if not hasattr(self, "_stream"):
            raise InputError("no stream is open: read rows with partial_fit first")
        names = getattr(self, "feature_names_in_", None)
        facts = {
            "estimator": type(self).__name__,
            "problem": self._problem.to_json(),
            "public": plain_facts({name: getattr(self, name) for name in self.PUBLIC}),
            "n_features_in": self.n_features_in_,
            "feature_names_in": None if names is None else list(names),
            "d": self._stream.plan.d,
        }
        self._stream.save_checkpoint(path, key_file, facts)

    def resume(self, path: str | Path, key_file: str | Path | None = None) -> Self:
        """Go on from a checkpoint, with the noise that was to come; nothing is charged again.

        The estimator needs the settings of the stream. `n_samples_seen_` says after which row to go on. Rows that were
        read between the checkpoint and a crash have to be read again, the same ones in the same portions: the noise
        has been used for them, and `partial_fit` refuses others.
        """
        if hasattr(self, "_stream"):
            raise InputError("a stream is open: resume with a new estimator of the same settings")
        checkpoint = Checkpoint(path, key_file)
        saved = checkpoint.read()
        facts = saved["facts"]
        if facts.get("estimator") != type(self).__name__:
            raise InputError(f"the checkpoint is not of a {type(self).__name__}")
        public = self._resumed_target(facts["public"])
        about = saved["session"]
        if about["declared"] != declared_digest(self.schema, public) or (
            self.schema is not None and self.schema.name not in (DEFAULT_DATASET, about["dataset"])
        ):
            raise InputError("the checkpoint is of a stream with another schema")
        if self.strict and about["undeclared"]:
            raise InputError("strict=True: facts of this stream were read from the data")
        stream = Session.resume(self._resumed_plan(facts), checkpoint)
        self.n_features_in_ = facts["n_features_in"]
        if facts["feature_names_in"] is not None:
            self.feature_names_in_ = np.array(facts["feature_names_in"], dtype=object)
        self._stream, self._settings = stream, self.get_params(deep=False)
        return self._keep_stream(public)

    def _resumed_plan(self, facts: Mapping[str, Any]) -> Plan:
        """The plan of these settings, with what was read from the first rows where nothing is declared."""
        declared = self._declared()
        if declared.schema is not None:
            return self._stream_plan(self._chosen_loss(), declared.rows_of_schema())
        bound = Problem.from_json(facts["problem"]).feature_bound if self.feature_bound is None else self.feature_bound
        return self._stream_plan(self._chosen_loss(), declared.rows_within(np.empty((0, facts["d"])), bound))

    def _resumed_target(self, public: Mapping[str, Any]) -> dict[str, Any]:
        """Public facts of the target of the stream; those that this estimator declares have to be the same."""
        for name, fact in public.items():
            declared = getattr(self, name.removesuffix("_"))
            if declared is not None and sorted(np.asarray(declared).tolist()) != list(fact):
                raise InputError(f"the checkpoint is of a stream with other {name.removesuffix('_')}")
        return {name: np.array(fact) if name == "classes_" else tuple(fact) for name, fact in public.items()}

    def __getstate__(self) -> Any:
        if hasattr(self, "_stream"):
            raise TypeError(
                "a private stream cannot be copied or pickled while it is open: its noise must never be used twice. "
                "Save the model with save(), write a checkpoint, or close() the stream first"
            )
        return super().__getstate__()


class PrivateOnlineClassifier(Online, TwoClasses):  # type: ignore[misc]  # its fit takes no weights
    """Linear classifier, for two classes, of a stream of rows: `partial_fit` reads them as they come.

    After every call there is a model; all of them together, for as long as rows come, are one release under one budget,
    charged once. The algorithm is `dpconvex.algorithms.PrivateFTRL`, and the model the mean of its plays.

    Parameters
    ----------
    loss : {"log_loss", "hinge"}, default="log_loss"
        Logistic regression, which has probabilities, or a support vector machine with a rounded hinge.
    epsilon, delta : float, default=1.0 and 1e-6
        The budget of the whole stream. Keep delta well below one over the number of rows.
    schema : Schema, optional
        The public facts of a table. With it, raw frames go straight in: text, dates, missing values. It also declares
        the target, the bound and the rows a person has, and names the data set in the account of the process.
    feature_bound : float or one of `dpconvex.bounds`, optional
        Bound on a row, a float being its l2 norm. Rows beyond it are brought back. Not with a schema, which implies it.
        If neither is given, the longest row of the first call is taken, with a `PrivacyLeakWarning`.
    classes : pair of labels, optional
        If neither they nor a schema are given here or to `partial_fit`, they are read from the first call, with a
        warning.
    batch_size : int, default=64
        Most rows of a round. A call reads its rows in rounds of so many; the last may have fewer.
    max_rounds : int, optional
        The most rounds there will be, if that is known: somewhat less noise. Without it there may be some 286 million.
    radius : float, optional
        Largest norm of the weights. By default 15 for "log_loss" and 8 for "hinge", over the bound on a row with its
        constant feature: no prediction is then beyond that number.
    fit_intercept : bool, default=True
        Whether to add a constant feature. It counts in the bound of a row.
    relation : {"replace_one", "zero_out"}, default="replace_one"
        What a neighbouring stream is.
    rows_per_person : int, default=1
        The most rows that one person has in the whole stream; the guarantee is then about all of them together.
    random_state : int or RandomState, optional
        For tests only. None takes cryptographic noise; anything else makes the noise reproducible, and the receipt says
        that the fit is not private.
    strict : bool, default=False
        Refuse to read anything from the data that was not declared.

    Attributes
    ----------
    classes_ : array of labels, sorted
    weights_ : array, what was released last, the constant feature last
    coef_, intercept_ : arrays, the same in the shapes scikit-learn uses
    n_samples_seen_ : int, rows read by `partial_fit` so far
    receipt_ : Receipt, of the stream up to here
    n_features_in_, feature_names_in_ : what was given

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

    def __init__(
        self,
        loss: str = "log_loss",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: Schema | None = None,
        feature_bound: float | Bound | None = None,
        classes: Any = None,
        batch_size: int = 64,
        max_rounds: int | None = None,
        radius: float | None = None,
        fit_intercept: bool = True,
        relation: str = "replace_one",
        rows_per_person: int = 1,
        random_state: Any = None,
        strict: bool = False,
    ) -> None:
        self._set(locals())

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:
        """Read more rows; with a schema, `y` may stay in the frame. A row that is given twice counts as two.

        Where no stream is open (at first, and after `fit`, `close` or `dpconvex.load`) one begins, and is charged; it
        knows nothing of rows before. A mistake of form raises `InputError` before anything is released, and the stream
        goes on.

        Parameters
        ----------
        X, y : rows and labels
        classes : pair of labels, optional
            Where the estimator does not declare them: needed in the first call.
        """
        known = self.classes_ if hasattr(self, "_stream") else self.classes
        if classes is None or known is not None:
            if classes is not None and sorted(np.asarray(classes).tolist()) != sorted(np.asarray(known).tolist()):
                raise InputError("classes differ from those that were declared before")
            return self._read(X, y)
        self.classes = classes
        try:
            self._read(X, y)
        finally:
            self.classes = None
        self._settings["classes"] = None
        return self


class PrivateOnlineRegressor(Online, WithinRange):  # type: ignore[misc]  # its fit takes no weights
    """Linear regression of a number within a public range, of a stream of rows: `partial_fit` reads them as they come.

    After every call there is a model; all of them together, for as long as rows come, are one release under one budget,
    charged once. The algorithm is `dpconvex.algorithms.PrivateFTRL`, and the model the mean of its plays.

    Parameters
    ----------
    loss : {"squared_error", "huber"}, default="squared_error"
        As in `PrivateSGDRegressor`.
    epsilon, delta, schema, feature_bound, batch_size, max_rounds : as in `PrivateOnlineClassifier`
    fit_intercept, relation, rows_per_person, random_state, strict : as in `PrivateOnlineClassifier`
    target_range : pair of float, optional
        The least and the largest target there can be; others are clipped. If neither it nor a schema is given, it is
        read from the first call, with a warning.
    radius : float, optional
        Largest norm of the weights, in units of half the range of the target. By default 3 over the bound on a row with
        its constant feature.

    Attributes
    ----------
    weights_ : array, what was released last: in units of half the range of the target, the constant feature last
    coef_, intercept_ : array and float, the same in units of the target
    target_range_ : pair of float
    n_samples_seen_ : int, rows read by `partial_fit` so far
    receipt_ : Receipt, of the stream up to here
    n_features_in_, feature_names_in_ : what was given

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
    ) -> None:
        self._set(locals())

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Read more rows; with a schema, `y` may stay in the frame. A row that is given twice counts as two.

        Where no stream is open (at first, and after `fit`, `close` or `dpconvex.load`) one begins, and is charged; it
        knows nothing of rows before. A mistake of form raises `InputError` before anything is released, and the stream
        goes on.
        """
        return self._read(X, y)
