"""A plan is everything about a run that can be known before the data: schedule, noise, cost and guarantee."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from dpconvex.canonical import digest
from dpconvex.data.arrays import Batches, form_of, open_people, open_subgroups, open_weights
from dpconvex.data.opened import OpenedParts
from dpconvex.data.parts import Parts
from dpconvex.data.tensors import at_home, tensor_form
from dpconvex.errors import (
    BudgetWarning,
    FormError,
    HypothesisError,
    InputError,
    PartsError,
    ReleaseError,
    RowError,
    warn,
)
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import PERSON, Claim, Release, Scope, stated_facts
from dpconvex.kernel.receipt import Receipt, known_facts
from dpconvex.loops.rows import Rows
from dpconvex.plain import whole
from dpconvex.plan.port import NoisePort
from dpconvex.plan.run import Run, plain_form, public_form, schedule_digest, without_values
from dpconvex.problem.facts import Fact, Kind
from dpconvex.problem.losses import Loss, log_odds
from dpconvex.problem.problem import Problem
from dpconvex.sums.scores import score_rows
from dpconvex.theorems.bounded_support import need_support
from dpconvex.theorems.excess import MostExcess
from dpconvex.theorems.lower_bounds import LeastExcess, least_excess
from dpconvex.words import SCOPE_WORDS, as_html, declared_words, grid_words, neighbour_words, own_parts

if TYPE_CHECKING:
    from dpconvex.plan.session import Session

__all__ = ["Plan", "Solution"]


class Algorithm(Protocol):
    """What a plan needs of the algorithm that made it.

    An algorithm whose runs may be given weights of records, or whose they are, says so in a set `takes` of the names
    "sample_weight" and "groups". One that reads rows once, in the order given, says so by `streams`, and has a method
    `execute_batches` that takes `Batches` in place of rows and labels.
    """

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Run the schedule on the data; what matters leaves through the port."""

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Compute the solution from the noisy values the port has kept, without the data."""

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the schedule, for a person."""


@dataclass(frozen=True)
class Solution:
    """What a run releases: the weights and the receipt, and every noisy value if the claim allows it."""

    weights: np.ndarray
    receipt: Receipt
    problem: Problem
    iterates: dict[str, np.ndarray]

    def __repr__(self) -> str:
        return f"<Solution: {self.weights.size} weights, epsilon {self.receipt.epsilon:.6g} at {self.receipt.delta:g}>"

    @property
    def coef(self) -> np.ndarray:
        """Weights of the features, one row a class for a softmax."""
        return self.weights[..., :-1] if self.problem.intercept else self.weights

    @property
    def intercept(self) -> np.ndarray:
        """What the constant feature adds to every prediction."""
        if not self.problem.intercept:
            return np.zeros(self.weights.shape[:-1])
        return np.asarray(self.problem.intercept * self.weights[..., -1])

    def predict(self, X: Any) -> np.ndarray:
        """Predict rows: the probability of +1, the probabilities of the classes, or a target within its range.

        Rows are brought within the feature bound as in training, and the loss's own link turns scores into
        probabilities. New rows cost nothing: the weights are public.
        """
        loss = self.problem.loss
        if loss.traits.records:
            raise InputError("a loss of a record says nothing of predictions: compute them from the weights")
        scores = score_rows(X, self.weights, self.problem)
        if loss.traits.labels == "bounded":
            return np.clip(scores, -loss.traits.target, loss.traits.target)
        return probabilities(loss, scores)


def probabilities(loss: Loss, scores: np.ndarray) -> np.ndarray:
    """Probability of +1 at each score, or of each class at each row of scores, by the link of the loss."""
    odds = log_odds(loss, scores)
    if loss.traits.outputs > 1:
        return np.asarray(np.exp(odds - np.logaddexp.reduce(odds, axis=1, keepdims=True)))
    return np.asarray(np.exp(-np.logaddexp(0.0, -odds)))


@dataclass(frozen=True)
class Plan:
    """A run before it happens. Made by an algorithm from public facts; `run` touches the data once.

    Attributes
    ----------
    one_record : Budget, optional
        What the noise was planned for, if the budget is that of several records of one person.
    stream : int, optional
        Rounds of a stream, 0 if it may be of any length; None if all records are there from the start.
    seal : str
        Names what the algorithm planned. A plan that was changed afterwards does not run.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    >>> budget = dc.Budget(epsilon=1.0, delta=1e-6)
    >>> plan = dc.algorithms.PhasedSGD().plan(problem, n=20_000, d=50, budget=budget)
    >>> plan.claim.epsilon(1e-6) <= 1.0, plan.gradient_evaluations
    (True, 20000)
    """

    algorithm: Algorithm
    problem: Problem
    n: int
    d: int
    budget: Budget
    claim: Claim
    schedule: tuple[Any, ...]
    gradient_evaluations: int
    utility: str
    one_record: Budget | None = None
    stream: int | None = None
    seal: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.seal:
            object.__setattr__(self, "seal", self._seal())
        if self.claim.relation != self.budget.relation:
            raise ReleaseError("the claim of a plan must be about the relation of its budget")
        if self.claim.epsilon(self.budget.delta) > self.budget.epsilon:
            raise ReleaseError("the claim of a plan must stay within its budget")
        need_support(self.claim, self.budget)

    @property
    def releases(self) -> tuple[Release, ...]:
        """Every draw of noise the run will make."""
        return self.claim.releases

    def _seal(self) -> str:
        parts = self.problem, self.n, self.d, self.releases, schedule_digest(self.schedule)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def check_seal(self) -> None:
        """Refuse to run what no algorithm planned: the claim was proved for another schedule."""
        if self.seal != self._seal():
            raise ReleaseError("this plan was changed after its algorithm made it: plan again, with other options")

    def _facts(self) -> list[Fact]:
        """Facts of the problem that the claim rests on, each once."""
        return sorted(set(stated_facts(self.claim)), key=lambda f: f.kind.name)

    def to_json(self) -> dict[str, Any]:
        """Plain form; its digest names the plan on receipts."""
        return public_form(
            plain_form(self.algorithm), self.problem, self.n, self.d, self.budget, self.claim,
            self.gradient_evaluations, self.schedule, one_record=self.one_record, stream=self.stream,
        )  # fmt: skip

    def run(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        weight_cap: float = 1.0,
        groups: Any = None,
        subgroups: Any = None,
        dataset: str | None = None,
        seed: int | None = None,
        undeclared: Sequence[str] = (),
        declared: str | None = None,
        strict: bool = False,
    ) -> Solution:
        """Open the data once and release the solution.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            float32 or float64 is used as it is. Rows beyond the feature bound are brought back. For a loss of a record,
            whatever has a first axis of length n. A tensor of PyTorch, CuPy or JAX on an accelerator is used there, for
            algorithms that need no more than sums over rows (`dpconvex.context` has a `device`). Or
            `dpconvex.data.Parts` of n rows together, which hold labels and perhaps weights: they are read in memory
            that does not depend on n, by algorithms that need no more than sums over rows, or one pass.
        y : array of shape (n,)
            Labels -1 and +1, or targets. Left out with parts; a loss of a record needs none.
        sample_weight : array of shape (n,), optional
            How much each record counts: at most `weight_cap`, to which larger ones are clipped; a weight that is
            negative or no number counts as 0. The fit is that of the losses times weight / cap, so that one record
            counts no more than without weights.
        weight_cap : float
            A public number.
        groups : array of shape (n,), optional
            Whose each row is, for plans that protect people. Rows of nobody (a missing id) have weight 0.
        subgroups : array of shape (n,), optional
            Number of the public subgroup of each row, from 0, for evaluations by subgroup; -1 for none of them.
        dataset : str, optional
            Name under which the account of this process charges the run. By default that of `dpconvex.context`.
        seed : int, optional
            For tests only: reproducible noise, a warning, and a receipt that says "not private".
        undeclared : sequence of str
            What the caller read from the data to make this plan: the guarantee does not cover it, and the receipt
            says so.
        declared : str, optional
            Digest of what the caller declared beyond the problem (a schema, classes), for the receipt to name.
        strict : bool
            Refuse to run if the guarantee rests on what was declared of parts of your own.

        Notes
        -----
        Arrays of another shape or type than planned raise `FormError`, and nothing is charged. Whatever else happens,
        the run is charged. Entries that are not finite and labels that the loss does not know raise `RowError`: nothing
        is released, and the run stays charged. It tells the caller that there is such a row, which no noise hides; a
        `Schema` has a substitute for every cell, and none of its fits is refused for what rows say. Parts that cannot
        be read, are not as declared, or change from one pass to the next raise `PartsError`, after the charge as well.
        """
        self.check_seal()
        if strict and (words := self.declared()):
            raise InputError(f"strict=True, but the guarantee rests on what you declared: {'; '.join(words)}")
        if subgroups is None and getattr(self.algorithm, "subgroups", None):
            raise FormError("subgroups are planned: say in which of them each row is")
        if isinstance(X, Parts):
            if any(given is not None for given in (y, sample_weight, groups, subgroups)):
                raise InputError("parts hold labels and weights: leave out y, sample_weight, groups and subgroups")
            return self._run_parts(X, weight_cap, dataset, seed, undeclared, declared)
        tensors = tensor_form(X, y, self.problem, self.n, self.d)
        if tensors is not None and (why := self._not_sums()):
            raise InputError(f"{type(self.algorithm).__name__} {why}: give it rows in host memory, and no device")
        form = tensors or form_of(X, y, self.problem, self.n, self.d)
        sample_weight, groups, subgroups = (at_home(given) for given in (sample_weight, groups, subgroups))
        for name, given in (("sample_weight", sample_weight), ("groups", groups), ("subgroups", subgroups)):
            if given is not None and name not in getattr(self.algorithm, "takes", ()):
                raise InputError(f"{type(self.algorithm).__name__} takes no {name}")
        if self.claim.unit == PERSON and groups is None:
            raise FormError("the plan is about people: say whose each row is, with run(X, y, groups=...)")
        if self.claim.unit != PERSON and groups is not None:
            raise FormError("the plan is about rows, not about people: plan with per_person=True, or leave out groups")
        about: dict[str, Any] = {}
        if sample_weight is not None:
            about["weights"] = open_weights(sample_weight, weight_cap, self.n)
        if groups is not None:
            about["people"], known = open_people(groups, self.n)
            about["weights"] = about.get("weights", 1.0) * known.astype(np.float64)
        if subgroups is not None:
            about["people"] = open_subgroups(subgroups, self.n)

        def job(port: NoisePort) -> None:
            rows: Any
            rows, labels = form.open()
            self.algorithm.execute(self, rows._replace(**about), labels, port)

        where = "memory" if tensors is None else tensors.where
        return self._release(job, Run(self, dataset, seed, undeclared=undeclared, declared=declared, rows=where))

    def _not_sums(self) -> str | None:
        """Why sums over rows are not enough for a run; None where they are."""
        why: str | None = getattr(self.algorithm, "in_memory", lambda problem: None)(self.problem)
        return "reads one row at a time" if getattr(self.algorithm, "streams", False) else why

    def refuse(self, why: str, *, dataset: str | None = None, seed: int | None = None) -> NoReturn:
        """Charge a run and refuse it, for something that only the rows could tell."""

        def job(port: NoisePort) -> None:
            raise RowError(why)

        Run(self, dataset, seed).once(job)
        raise AssertionError

    def _run_parts(
        self,
        parts: Parts,
        weight_cap: float,
        dataset: str | None,
        seed: int | None,
        undeclared: Sequence[str],
        declared: str | None,
    ) -> Solution:
        self.check_takes_parts()
        if parts.n != self.n:
            raise InputError(f"the parts hold {parts.n} rows, the plan was made for n = {self.n}")
        open_weights([], weight_cap, 0)  # refuses a bad cap
        streams = getattr(self.algorithm, "streams", False)
        takes = "sample_weight" in getattr(self.algorithm, "takes", ()) and not streams
        per_person = self.claim.unit == PERSON
        if per_person and parts.person is None:
            raise FormError("the plan is about people: name the column that says whose a row is, Parts.of(person=...)")
        if parts.most is not None and not takes:
            raise InputError(
                f"{type(self.algorithm).__name__} cannot leave out the later rows of people who have too many: leave "
                "them out of the parts, or choose another algorithm (PoissonSGD)"
            )
        if parts.person is not None and not per_person and parts.most is None:
            raise FormError("the plan is about rows, not about people: plan with per_person=True, or name no person")
        if per_person or parts.most is not None:
            from dpconvex.sums.gather import check_room

            check_room(self.n, self.d)
        cap = weight_cap if takes else None
        opened = OpenedParts(parts, self.problem, self.d, cap, parts.whose, per_person)

        def job(port: NoisePort) -> None:
            self.execute_on_parts(opened, port)

        return self._release(job, Run(self, dataset, seed, undeclared=undeclared, declared=declared, rows="parts"))

    def check_takes_parts(self) -> None:
        """Refuse parts where the algorithm needs its rows in memory."""
        if self.problem.loss.traits.records:
            raise InputError("parts hold rows of features: give records of a loss of your own in memory")
        why = getattr(self.algorithm, "in_memory", lambda problem: None)(self.problem)
        if why is not None:
            raise InputError(f"{type(self.algorithm).__name__} {why}: it cannot run on parts")

    def execute_on_parts(self, opened: OpenedParts, port: NoisePort) -> None:
        """Do what the plan says, on rows that lie in parts: within a run that was charged.

        Raises
        ------
        PartsError
            If the parts cannot be read, or are not as declared.
        """
        try:
            with opened.exit:
                if getattr(self.algorithm, "streams", False):
                    batches = Batches(opened.in_order(), self.problem, self.n, self.d)
                    self.algorithm.execute_batches(self, batches, port)  # type: ignore[attr-defined]
                    batches.close()
                else:
                    self.algorithm.execute(self, opened, np.empty(0), port)  # type: ignore[arg-type]
        except (FormError, RowError) as error:
            raise PartsError(str(error)) from None

    def run_batches(
        self,
        batches: Any,
        *,
        dataset: str | None = None,
        seed: int | None = None,
        undeclared: Sequence[str] = (),
        declared: str | None = None,
    ) -> Solution:
        """Release the solution from rows that come in batches, of which one is held at a time.

        The result is that of `run` on the rows of all batches, whatever their sizes. For algorithms that read every row
        once, in the order given: PhasedSGD.

        Parameters
        ----------
        batches : iterable of pairs (X, y)
            Of any sizes, all dense or all sparse: n rows together.
        dataset, seed, undeclared, declared : as in `run`

        Notes
        -----
        The run is charged before the first batch is asked for, and stays charged. Batches of another shape or type,
        and fewer or more rows than n, raise `FormError`; what `run` refuses raises `RowError`; an exception that
        `batches` raises passes through. Nothing was released then. More rows are noticed, not read.
        """
        self.check_seal()
        if not getattr(self.algorithm, "streams", False):
            raise InputError(
                f"{self.algorithm} does not read rows once in the order given, which batches need: "
                "plan with PhasedSGD(), without shuffle, or PrivateFTRL()"
            )
        opened = Batches(batches, self.problem, self.n, self.d)

        def job(port: NoisePort) -> None:
            self.algorithm.execute_batches(self, opened, port)  # type: ignore[attr-defined]
            opened.close()

        return self._release(job, Run(self, dataset, seed, undeclared=undeclared, declared=declared))

    def start(self, *, dataset: str | None = None, seed: int | None = None) -> Session:
        """Begin a run that is given its records as they come: see `dpconvex.plan.session.Session`.

        It is charged with the first record, once, whatever comes after. For algorithms that play: PrivateFTRL.
        """
        from dpconvex.plan.session import Session

        return Session(self, dataset, seed)

    def least_excess(self) -> LeastExcess:
        """Mean excess loss that no algorithm with this guarantee stays below on every such problem.

        See `dpconvex.theorems.lower_bounds.least_excess`, which says for which problems it is known.
        """
        return least_excess(self.problem, n=self.n, d=self.d, budget=self.budget)

    def most_excess(self, beta: float | None = None, *, moment: float | None = None) -> MostExcess:
        """Excess loss that the plan is proved to stay below: on average, or except with probability `beta`.

        Parameters
        ----------
        beta : float, optional
            Probability with which the bound may fail. By default the bound is about the mean.
        moment : float, optional
            For `TruncatedMirrorDescent`: root mean square of the length of a gradient, in the norm in which it is cut,
            at every point that the run can reach. By default the largest length.

        Raises
        ------
        HypothesisError
            If no such bound is proved for this algorithm and this problem; `utility` says what is.

        Examples
        --------
        >>> import dpconvex as dc
        >>> problem = dc.Problem(dc.losses.Linear(), domain=dc.domains.L2Ball(1.0))
        >>> algorithm = dc.algorithms.PrivateFTRL("linear")
        >>> plan = algorithm.plan(problem, n=100_000, d=10, budget=dc.Budget(1.0, 1e-6))
        >>> print(plan.most_excess(beta=0.05))
        excess loss at most 0.01888 with probability 0.95 or more
        >>> plan.least_excess().value < plan.most_excess().value
        True
        """
        bound = getattr(self.algorithm, "most_excess", None)
        if bound is None:
            raise HypothesisError(
                f"{type(self.algorithm).__name__} has no such bound: see the line `utility` of the plan"
            )
        found: MostExcess = bound(self, beta, moment)
        return found

    def declared(self) -> list[str]:
        """What the guarantee rests on that was declared of parts of the user's own, in words."""
        return declared_words(known_facts(self.claim), self._parts())

    def _parts(self) -> dict[str, Any]:
        return {"problem": self.problem.to_json(self.d), "algorithm": plain_form(self.algorithm)}

    def _release(self, job: Callable[[NoisePort], None], run: Run) -> Solution:
        run.once(without_values(job) if own_parts(self._parts()) else job)
        weights = np.array(self.algorithm.finish(self, run.port))
        every = run.port.kept if self.claim.scope is Scope.EVERY else []
        iterates = {name: run.port.history(name) for name in every}
        return Solution(weights, run.receipt(weights), self.problem, iterates)

    def _repr_html_(self) -> str:
        return as_html(str(self))

    def __str__(self) -> str:
        b = self.budget
        return "\n".join(
            [
                f"{type(self.algorithm).__name__} for {self.n} records of {self.d} features",
                f"  problem     {self.problem.loss} on {self.problem.domain}"
                + ("" if self.problem.loss.traits.records else f", rows within {self.problem.feature_bound}")
                + (f", l2 = {self.problem.l2:g}" if self.problem.l2 else "")
                + (f", constant feature {self.problem.intercept:g}" if self.problem.intercept else ""),
                *(f"  {line}" for line in self.algorithm.describe(self)),
                f"  cost        {self.gradient_evaluations} gradient evaluations",
                f"  arithmetic  {grid_words(self.releases)}",
                f"  guarantee   ({self.claim.epsilon(b.delta):.4g}, {b.delta:.3g})-DP for "
                + neighbour_words(b.relation, self.claim.unit),
                f"  releases    {SCOPE_WORDS[self.claim.scope]}",
                f"  assumes     {'; '.join(_words(f) for f in self._facts()) or 'nothing of the loss'}",
                *([f"  on your word {'; '.join(words)}"] if (words := self.declared()) else []),
                f"  accuracy    {self.utility}",
                f"  plan        {digest(self.to_json())[:16]}",
            ]
        )


_FACT_WORDS = {
    Kind.ROW_BOUND: "rows no longer than {:.6g}",
    Kind.LIPSCHITZ: "gradients of a record no longer than {:.6g}",
    Kind.SMOOTHNESS: "curvature of a record at most {:.6g}",
    Kind.STRONG_CONVEXITY: "curvature of a record at least {:.6g}",
    Kind.SLOPE: "slopes of the loss within {:.6g}",
    Kind.SLOPE_WIDTH: "a range of slopes {:.6g} wide",
    Kind.CURVATURE_LAW: "curvature of the loss at most {:.6g} {:+.6g} s {:+.6g} s^2 where its slope is s",
    Kind.CLASSES: "{:.6g} classes",
    Kind.DIAMETER: "a domain {:.6g} across",
    Kind.LOSS_AT_ORIGIN: "losses from 0, at most {:.6g} at weights of zero",
    Kind.RENYI_LAW: "noise whose Renyi divergences of order a grow as {:.6g} a/2 times the squared l_{:.6g} distance",
}


def _words(fact: Fact) -> str:
    if fact.kind is Kind.MONOTONE_MARGIN:
        return "slopes whose sign the label fixes" if fact.value else "slopes of either sign"
    values = fact.value if isinstance(fact.value, tuple) else (fact.value,)
    return _FACT_WORDS[fact.kind].format(*values)


def check_public(n: object, d: object, budget: object, *, pure: bool = False) -> None:
    """Check the public facts every algorithm plans from, and warn of a delta that is too large for n records."""
    check_form(n, d, budget, pure=pure)
    warn_about_delta(int(n), budget)  # type: ignore[call-overload, arg-type]


def check_form(n: object, d: object, budget: object, *, pure: bool = False) -> None:
    """Refuse facts that are none, and delta = 0 except where `pure` budgets can be met."""
    whole(n, "n", 2)
    whole(d, "d")
    if not isinstance(budget, Budget):
        raise InputError(f"budget must be a dpconvex.Budget, got {type(budget).__name__}")
    if not budget.delta and not pure:
        raise HypothesisError(
            "delta = 0 asks for pure privacy, which only some noise gives, and this is planned with other noise: take "
            "delta > 0, or plan with MeanDirection, PhasedERM or FrankWolfe"
        )


def warn_about_delta(n: int, budget: Budget) -> None:
    """Warn of a delta that would allow the release of a whole record now and then."""
    if budget.delta >= 1.0 / n:
        warn(
            f"delta = {budget.delta:g} is not below 1/n: it would allow the release of a whole record now and then. "
            f"Choose {0.01 / n:.0e} or less",
            BudgetWarning,
        )
