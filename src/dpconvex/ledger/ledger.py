"""Ledgers: budgets that outlive the process, are shared by colleagues, and can be shown to whoever is accountable.

A data set is declared once, with its budget. Before a run touches data, what its claim takes from the budget is
reserved; when something is released, that is committed. Nothing is ever given back: a run that fails or is interrupted
stays charged. The rules by which claims add up are in `filters`; how entries are kept from being changed is in `chain`.
"""

from __future__ import annotations

import getpass
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from dpconvex import plots
from dpconvex.context import LEDGER_VARIABLE, settings
from dpconvex.errors import BudgetError, InputError, LedgerError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import PERSON, Claim
from dpconvex.kernel.receipt import Receipt
from dpconvex.ledger.chain import FORMAT, Entry, entry_after, now_after
from dpconvex.ledger.filters import UNITS, Filter, filter_of
from dpconvex.ledger.store import Execute, SQLite, Store, UnsureError, open_store
from dpconvex.plain import normal_name, plain_text, whole
from dpconvex.words import unit_words

__all__ = ["Declared", "Ledger", "Reservation"]

_FEW = 5  # names that a message lists
_ROW = "number, body, hash"


@dataclass(frozen=True)
class Declared:
    """What a ledger says of a data set."""

    name: str
    budget: Budget
    unit: int | str
    owner: str
    expires: str | None
    approval: bool
    filter: Filter
    number: int

    @staticmethod
    def of(body: Mapping[str, Any]) -> Declared:
        """Read an entry."""
        return Declared(
            body["name"], Budget(**body["budget"]), body["unit"], body["owner"], body["expires"], body["approval"],
            Filter.from_json(body["filter"]), body["number"],
        )  # fmt: skip


@dataclass(frozen=True)
class Reservation:
    """What a run has reserved: its entry in a ledger."""

    ledger: Ledger = field(repr=False)
    dataset: str
    run: str
    number: int
    hash: str

    def stamp(self) -> dict[str, Any]:
        """What the receipts of the run say of its entry."""
        return {"ledger": self.ledger.id, "entry": self.number, "hash": self.hash}

    def commit(self, receipt: Receipt) -> None:
        """Record what was released; a `LedgerError` if that fails, and then it must not be handed out."""
        self.ledger._commit(self, receipt)


class Ledger:
    """Budgets of data sets, in an SQLite file or a PostgreSQL database. Get one by `Ledger.open`.

    Examples
    --------
    >>> import tempfile, numpy as np, dpconvex as dc
    >>> ledger = dc.Ledger.open(tempfile.mkdtemp() + "/budget.db")
    >>> ledger.declare("trial 7", budget=dc.Budget(3.0, 1e-6), owner="Ada")
    >>> problem = dc.Problem(dc.losses.Logistic())
    >>> plan = dc.algorithms.MeanDirection().plan(problem, n=4, d=2, budget=dc.Budget(1.0, 1e-6))
    >>> with dc.context(ledger=ledger):
    ...     solution = plan.run(np.ones((4, 2)), np.ones(4), dataset="Trial 7")
    >>> ledger.remaining("trial 7")
    2.76936
    """

    def __init__(self, store: Store, identity: str) -> None:
        self.store = store
        self.id = identity

    @classmethod
    def open(cls, url: str | Path, *, create: bool = True) -> Ledger:
        """Open a ledger, and make it if there is none.

        Parameters
        ----------
        url : str or Path
            A path, for SQLite, or `postgresql://user:password@host/database`.
        create : bool
            Whether to make a ledger where there is none.

        Raises
        ------
        LedgerError
            If there is something else in its place, or it cannot be read or written.
        """
        store, new = open_store(os.fspath(url), create)
        if new:
            said = {"format": FORMAT, "ledger": os.urandom(16).hex()}
            with store.transaction() as execute:
                if _last(execute) is None:
                    _append(execute, entry_after(None, "open", now_after(None), _user(), said))
        with store.transaction(write=False) as execute:
            rows = execute(f"SELECT {_ROW} FROM dpconvex_ledger WHERE number = 1")
        if not rows:
            raise LedgerError("the ledger was altered: it has no first entry")
        body = _entry(rows[0]).checked()
        if body.get("format") != FORMAT:
            raise LedgerError(f"the ledger has format {body.get('format')!r}, and this version reads {FORMAT!r}")
        return cls(store, str(body["ledger"]))

    @property
    def url(self) -> str:
        """Where it lies."""
        return self.store.url

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.url,)

    def __repr__(self) -> str:
        return f"<Ledger {self.id[:8]}>"

    # What people decide ---------------------------------------------------------------------------------------------

    def declare(
        self,
        dataset: str,
        *,
        budget: Budget,
        unit: int | str = 1,
        owner: str = "",
        expires: str | date | None = None,
        approval: bool = False,
        form: str = "gdp",
        aside: float = 1e-2,
        order: float | None = None,
        by: str | None = None,
    ) -> None:
        """Declare a data set and its budget, once and for all.

        Parameters
        ----------
        dataset : str
            Case, blanks and width make no difference.
        budget : Budget
            What all releases about the data set may take together, and the relation they must be about.
        unit : int or "person"
            Number of records per person that the budget protects together, or all the rows of one person. Runs must
            be about the same unit.
        owner : str
            Who is accountable.
        expires : str or date, optional
            Last day (UTC) on which runs are allowed, as "2030-12-31".
        approval : bool
            Whether every plan must be approved before it is run (`approve`). Then no fact may be read from the data.
        form, aside, order :
            How claims add up: see `dpconvex.ledger.filters.filter_of`.
        by : str, optional
            Who declares it, by default the user of this process.

        Raises
        ------
        InputError
            If the name is declared already: a budget that could be raised after results were seen would be none.
        """
        key, name = normal_name(dataset, "dataset"), " ".join(plain_text(dataset, "dataset").split())
        if not isinstance(budget, Budget):
            raise InputError(f"budget must be a dpconvex.Budget, got {type(budget).__name__}")
        if unit != PERSON:
            unit = whole(unit, "unit")
        if not isinstance(approval, bool):
            raise InputError("approval must be True or False")
        says = {
            "dataset": key,
            "name": name,
            "budget": budget.to_json(),
            "unit": unit,
            "owner": plain_text(owner, "owner"),
            "expires": _day(expires),
            "approval": approval,
            "filter": filter_of(budget, form, aside=aside, order=order).to_json(),
        }
        with self.store.transaction() as execute:
            if _declared(execute, key) is not None:
                raise InputError(
                    f"the data set {name!r} is declared already, and a budget is declared once: one that could be "
                    "raised after results were seen would be none"
                )
            self._append(execute, "declare", by, says, dataset=key)

    def approve(self, plan: Any, dataset: str, *, by: str, times: int = 1, note: str = "") -> None:
        """Approve a plan for a data set, to be run once, or so many times, with this version of the library.

        Parameters
        ----------
        plan : plan, its plain form, or its digest
            As `plan.to_json()` gives it.
        dataset : str
        by : str
            Who approves.
        times : int
            How many runs.
        note : str
            Why.
        """
        digest, words = _named(plan), plain_text(by, "by").strip()
        if not words:
            raise InputError("by must name who approves")
        key = normal_name(dataset, "dataset")
        says = {
            "dataset": key,
            "plan": digest,
            "times": whole(times, "times"),
            "note": plain_text(note, "note"),
        }
        with self.store.transaction() as execute:
            self._need(execute, key)
            self._append(execute, "approve", words, says, dataset=key, plan=digest)

    # What runs do ---------------------------------------------------------------------------------------------------

    def reserve(
        self,
        dataset: str,
        claim: Claim,
        *,
        plan: str,
        about: Mapping[str, Any] | None = None,
        private: bool = True,
        undeclared: Sequence[str] = (),
        run: str | None = None,
    ) -> Reservation:
        """Reserve what a claim takes from the budget of its data set. Called by runs, before they touch data.

        Parameters
        ----------
        dataset : str
        claim : Claim
        plan : str
            Digest of the plan.
        about : mapping, optional
            What else to record of the plan.
        private : bool
            Whether the noise is secret.
        undeclared : sequence of str
            What was read from the data to make the plan.
        run : str, optional
            Public name of a stream: it is charged once, whichever processes go on with it.

        Raises
        ------
        BudgetError
            If the run is not allowed; nothing was recorded.
        LedgerError
            If the ledger cannot be used. The run must not start, and may have been charged.
        """
        key = normal_name(dataset, "dataset")
        if not private:
            raise BudgetError("under a ledger no run may have a seed: whoever knows it can subtract the noise")
        with self.store.transaction(write=False) as execute:
            declared = self._need(execute, key)
            first = _latest(execute, key) is None
        self._check(declared, claim, undeclared)
        amounts, whole_budget = _taken(declared, claim, first)
        units = [UNITS] * len(declared.filter.names) if whole_budget else declared.filter.units(amounts)
        with self.store.transaction() as execute:
            if run is not None and (found := _reserved(execute, run)) is not None:
                return self._resumed(found, key, plan, run)
            last = _last(execute)
            _check_open(declared, now_after(last))
            if declared.approval:
                _check_approved(execute, key, plan, declared.name)
            before = _latest(execute, key)
            if whole_budget and before is not None:
                raise BudgetError(_beyond(declared, [UNITS] * len(units)))
            spent = [0] * len(units) if before is None else before["spent"]
            after = [a + b for a, b in zip(spent, units, strict=True)]
            if max(after) > UNITS:
                raise BudgetError(_beyond(declared, spent))
            name = run or os.urandom(16).hex()
            says = {
                "dataset": key,
                "of": declared.number,
                "plan": plan,
                "run": name,
                "about": dict(about or {}),
                "amounts": amounts,
                "whole": whole_budget,
                "units": units,
                "spent": after,
            }
            made = self._append(execute, "reserve", None, says, dataset=key, plan=plan, run=name)
        return Reservation(self, key, name, made.number, made.hash)

    def _resumed(self, found: Entry, key: str, plan: str, run: str) -> Reservation:
        body = found.checked()
        if (body["dataset"], body["plan"]) != (key, plan):
            raise BudgetError("this stream was charged for another plan or another data set")
        return Reservation(self, key, run, found.number, found.hash)

    def _commit(self, entry: Reservation, receipt: Receipt) -> None:
        sections = receipt.sections
        says = {
            "dataset": entry.dataset,
            "run": entry.run,
            "receipt": sections["digest"],
            "claim": {"epsilon": receipt.epsilon, "delta": receipt.delta},
            "outside": sections["outside"]["read_from_data"],
        }
        try:
            self._record(says, entry)
        except UnsureError:
            if not any(
                body["kind"] == "commit" and body["receipt"] == says["receipt"] for body in self._of_run(entry.run)
            ):
                self._record(says, entry)

    def _record(self, says: dict[str, Any], entry: Reservation) -> None:
        with self.store.transaction(durable=False) as execute:  # the reservation is on the disk; this is a note
            self._append(execute, "commit", None, says, dataset=entry.dataset, run=entry.run)

    def _of_run(self, run: str) -> list[dict[str, Any]]:
        with self.store.transaction(write=False) as execute:
            rows = execute(f"SELECT {_ROW} FROM dpconvex_ledger WHERE run = :run ORDER BY number", run=run)
        return [_entry(row).checked() for row in rows]

    # What is known --------------------------------------------------------------------------------------------------

    def declared(self, dataset: str) -> Declared:
        """What was declared about a data set; a `BudgetError` if nothing was."""
        with self.store.transaction(write=False) as execute:
            return self._need(execute, normal_name(dataset, "dataset"))

    def spent(self, dataset: str) -> float:
        """Epsilon of everything charged to a data set so far, at the delta of its budget."""
        declared, used = self._standing(dataset)
        return declared.filter.epsilon(used, declared.budget)

    def remaining(self, dataset: str, delta: float | None = None) -> float:
        """Largest epsilon that one more release may have: 0 if there can be none.

        It is exact for releases that are Gaussian (`GDP` claims). Others take a few hundredths more: their claims are
        brought to a form that adds up, which costs something. The first release may take the whole budget, whatever
        its form.

        Parameters
        ----------
        dataset : str
        delta : float, optional
            At which the next release states its epsilon; by default the delta of the budget.
        """
        declared, used = self._standing(dataset)
        if is_over(declared, now_after(None)):
            return 0.0
        at = declared.budget.delta if delta is None else Budget(1.0, delta).delta
        if not any(used) and at == declared.budget.delta:
            return declared.budget.epsilon
        return declared.filter.left(used, at)

    def _standing(self, dataset: str) -> tuple[Declared, list[int]]:
        with self.store.transaction(write=False) as execute:
            declared = self._need(execute, normal_name(dataset, "dataset"))
            before = _latest(execute, normal_name(dataset, "dataset"))
        return declared, [0] * len(declared.filter.names) if before is None else list(before["spent"])

    def plot(self, dataset: str, ax: Any = None) -> Any:
        """Plot when a budget was spent, with matplotlib (extra `plot`); returns the axes."""
        from dpconvex.ledger.standing import standings

        declared = self.declared(dataset)
        runs = next(one for one in standings(self) if one.declared == declared).runs
        if not runs:
            raise InputError(f"nothing was run on {dataset!r} under this ledger")
        times = [datetime.fromisoformat(run.when) for run in runs]
        return plots.spent(ax, times, [run.after for run in runs], declared.budget.epsilon)

    def entries(self) -> Iterator[Entry]:
        """All entries, in order."""
        number = 0
        while True:
            with self.store.transaction(write=False) as execute:
                rows = execute(
                    f"SELECT {_ROW} FROM dpconvex_ledger WHERE number > :number ORDER BY number LIMIT 500",
                    number=number,
                )
            if not rows:
                return
            yield from map(_entry, rows)
            number = int(rows[-1][0])

    @property
    def head(self) -> Entry:
        """The last entry. Whoever notes its number and hash can tell later whether the ledger was put back."""
        with self.store.transaction(write=False) as execute:
            last = _last(execute)
        assert last is not None
        return last

    def backup(self, path: str | Path) -> None:
        """Write a consistent copy of an SQLite ledger to a new file, while others go on."""
        if not isinstance(self.store, SQLite):
            raise InputError("back up a ledger in PostgreSQL with the tools of the database, such as pg_dump")
        self.store.backup(path)

    # Entries --------------------------------------------------------------------------------------------------------

    def _append(self, execute: Execute, kind: str, by: str | None, says: dict[str, Any], **columns: str) -> Entry:
        last = _last(execute)
        if last is None:
            raise LedgerError("the ledger was altered: it has no first entry")
        last.checked()
        who = _user() if by is None else plain_text(by, "by")
        made = entry_after(last, kind, now_after(last), who, says)
        _append(execute, made, **columns)
        return made

    def _need(self, execute: Execute, key: str) -> Declared:
        if (declared := _declared(execute, key)) is not None:
            return declared
        rows = execute("SELECT dataset FROM dpconvex_ledger WHERE kind = 'declare' ORDER BY number")
        known = ", ".join(repr(name) for (name,) in rows[:_FEW]) + (", ..." if len(rows) > _FEW else "")
        raise BudgetError(
            f"the data set {key!r} is not declared in the ledger{f', which has {known}' if rows else ''}: name the "
            "data set of the run (in its schema, by dataset=, or by dpconvex.context(dataset=...)), or declare it. "
            "Nothing was drawn or charged"
        )

    def _check(self, declared: Declared, claim: Claim, undeclared: Sequence[str]) -> None:
        """Refuse claims that the budget is not about."""
        if claim.relation != declared.budget.relation:
            raise BudgetError(
                f"the budget of the data set {declared.name!r} is about {declared.budget.relation}, and the run about "
                f"{claim.relation}: they are never mixed. Nothing was drawn or charged"
            )
        if claim.unit != declared.unit:
            raise BudgetError(
                f"the budget of the data set {declared.name!r} is about {unit_words(declared.unit)}, and the run "
                f"about {unit_words(claim.unit)}: they are never mixed. Plan the run for that unit (rows_per_person, "
                "groups). Nothing was drawn or charged"
            )
        if declared.approval and undeclared:
            raise BudgetError(
                f"the data set {declared.name!r} takes approved plans only, and these were made from what was read in "
                f"the data: {', '.join(undeclared)}. Declare it (strict=True names what is missing). Nothing was drawn "
                "or charged"
            )


def current() -> Ledger | None:
    """The ledger that runs are charged to: that of the context, or else of the environment, if there is one."""
    given: Ledger | None = settings().ledger
    if given is not None:
        return given
    url = os.environ.get(LEDGER_VARIABLE)
    return _reopened(url) if url else None


def check_current(identity: str | None) -> None:
    """Refuse to go on under another ledger than the one an estimator was sent from, or under none."""
    if identity is None:
        return
    found = current()
    if found is None or found.id != identity:
        raise BudgetError(
            f"this estimator was sent here from under the ledger {identity[:8]}, and this process is "
            f"{'under none' if found is None else f'under {found.id[:8]}'}: workers that were started before see "
            f"nothing of it. Set {LEDGER_VARIABLE} before they start. Nothing was drawn or charged"
        )


_OPEN: dict[str, Ledger] = {}
_OPENING = threading.Lock()


def _reopened(url: str) -> Ledger:
    """The ledger that exists there, opened once in a process."""
    with _OPENING:
        if url not in _OPEN:
            _OPEN[url] = Ledger.open(url, create=False)
        return _OPEN[url]


def _user() -> str:
    try:
        return plain_text(getpass.getuser(), "user")
    except (OSError, KeyError, InputError):
        return "unknown"


def _day(expires: str | date | None) -> str | None:
    if expires is None:
        return None
    try:
        return (expires if isinstance(expires, date) else date.fromisoformat(expires)).strftime("%Y-%m-%d")
    except (TypeError, ValueError):
        raise InputError("expires must be a day, such as '2030-12-31'") from None


def _named(plan: Any) -> str:
    """Digest of a plan, of its plain form, or as it was given."""
    from dpconvex.kernel.receipt import form_digest

    if hasattr(plan, "to_json"):
        plan = plan.to_json()
    if isinstance(plan, Mapping):
        try:
            return form_digest(plan)
        except KeyError as missing:
            raise InputError(f"not a plan: it says nothing of {missing}") from None
    digest = plain_text(plan, "plan")
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise InputError("plan must be a plan, what its to_json() returns, or its digest")
    return digest


def _taken(declared: Declared, claim: Claim, first: bool) -> tuple[dict[str, float], bool]:
    """What a claim takes, and whether that is the whole budget: what the first release may take, by its own curve."""
    try:
        amounts = declared.filter.amounts(claim)
        if not first or max(declared.filter.units(amounts)) <= UNITS:
            return amounts, False
    except BudgetError:
        if not first:
            raise
    if claim.epsilon(declared.budget.delta) > declared.budget.epsilon:
        raise BudgetError(_beyond(declared, [0] * len(declared.filter.names)))
    return {name: declared.filter.limits[name] for name in declared.filter.names}, True


def _beyond(declared: Declared, spent: Sequence[int]) -> str:
    budget = declared.budget
    left = declared.filter.left(list(spent), budget.delta) if any(spent) else budget.epsilon
    return (
        f"the run would take the data set {declared.name!r} beyond its budget of ({budget.epsilon:g}, "
        f"{budget.delta:g}), of which one more release may take epsilon {left:.4g} at most. Nothing was drawn or "
        "charged"
    )


def is_over(declared: Declared, now: str) -> bool:
    """Whether its budget has expired."""
    return declared.expires is not None and now[:10] > declared.expires


def _check_open(declared: Declared, now: str) -> None:
    if is_over(declared, now):
        raise BudgetError(
            f"the budget of the data set {declared.name!r} expired on {declared.expires}: no run is allowed. Nothing "
            "was drawn or charged"
        )


def _check_approved(execute: Execute, key: str, plan: str, name: str) -> None:
    approvals = execute(
        f"SELECT {_ROW} FROM dpconvex_ledger WHERE kind = 'approve' AND dataset = :dataset AND plan = :plan",
        dataset=key, plan=plan,
    )  # fmt: skip
    allowed = sum(_entry(row).checked()["times"] for row in approvals)
    ((used,),) = execute(
        "SELECT count(*) FROM dpconvex_ledger WHERE kind = 'reserve' AND dataset = :dataset AND plan = :plan",
        dataset=key, plan=plan,
    )  # fmt: skip
    if used >= allowed:
        why = f"its {allowed} approved runs were made" if allowed else "it was not approved"
        raise BudgetError(
            f"the data set {name!r} takes approved plans only, and of the plan {plan[:16]} {why}: have it approved "
            "with `dpconvex ledger approve`. Nothing was drawn or charged"
        )


def _entry(row: Sequence[Any]) -> Entry:
    return Entry(int(row[0]), str(row[1]), str(row[2]))


def _last(execute: Execute) -> Entry | None:
    rows = execute(f"SELECT {_ROW} FROM dpconvex_ledger ORDER BY number DESC LIMIT 1")
    return _entry(rows[0]) if rows else None


def _declared(execute: Execute, key: str) -> Declared | None:
    rows = execute(f"SELECT {_ROW} FROM dpconvex_ledger WHERE kind = 'declare' AND dataset = :key", key=key)
    return Declared.of(_entry(rows[0]).checked()) if rows else None


def _latest(execute: Execute, key: str) -> dict[str, Any] | None:
    """The last reservation of a data set."""
    rows = execute(
        f"SELECT {_ROW} FROM dpconvex_ledger WHERE kind = 'reserve' AND dataset = :key ORDER BY number DESC LIMIT 1",
        key=key,
    )
    return _entry(rows[0]).checked() if rows else None


def _reserved(execute: Execute, run: str) -> Entry | None:
    rows = execute(f"SELECT {_ROW} FROM dpconvex_ledger WHERE kind = 'reserve' AND run = :run", run=run)
    return _entry(rows[0]) if rows else None


def _append(execute: Execute, entry: Entry, **columns: str) -> None:
    given = {"dataset": None, "plan": None, "run": None, **columns}
    execute(
        "INSERT INTO dpconvex_ledger (number, kind, dataset, plan, run, hash, body) "
        "VALUES (:number, :kind, :dataset, :plan, :run, :hash, :body)",
        number=entry.number, kind=entry.body["kind"], hash=entry.hash, body=entry.text, **given,
    )  # fmt: skip
