"""One way out of a run: the only place that charges, opens a port and issues a receipt.

A run is charged before its port lends or adds any noise, and stays charged whatever happens afterwards, an interrupt
included. One thing strikes the charge out: data of the wrong form (`FormError`), which are found before anything is
released.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from dpconvex.context import charged
from dpconvex.errors import FormError
from dpconvex.kernel.claims import Claim
from dpconvex.kernel.receipt import Receipt, issue
from dpconvex.ledger.account import begin, charge, void
from dpconvex.noise.source import Source
from dpconvex.plan.port import NoisePort


class Planned(Protocol):
    """What can be run: a claim, and everything public about the run in plain form."""

    @property
    def claim(self) -> Claim:
        """What is promised."""

    def to_json(self) -> dict[str, Any]:
        """Plain form, of the fields `PLAN_FIELDS`."""


class Run:
    """A run of a plan: one charge, one port, and a receipt.

    Parameters
    ----------
    plan : Planned
    dataset : str, optional
        Name under which the run is charged; by default that of `dpconvex.context`.
    seed : int, optional
        For tests only: the receipt then says "not private".
    undeclared : sequence of str
        What the caller read from the data to make the plan.
    declared : str, optional
        Digest of what the caller declared beyond the problem.
    stream : str, optional
        Secret id of a run that gets its records as they come (`new_stream`). It is charged once in a process, has a
        receipt after every portion, and keeps the last of its noisy values only.
    choices : sequence of str
        Labels of the claims of which a secret number is run, each with a port of its own (`NoisePort.part`).

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic())
    >>> plan = dc.algorithms.MeanDirection().plan(problem, n=4, d=2, budget=dc.Budget(1.0, 1e-6))
    >>> run = Run(plan, "an example")
    >>> run.once(lambda port: port.add("direction", np.zeros(2)))
    >>> dc.verify(run.receipt(np.zeros(2))), len(dc.account("an example").claims)
    (True, 1)
    """

    def __init__(
        self,
        plan: Planned,
        dataset: str | None = None,
        seed: int | None = None,
        *,
        undeclared: Sequence[str] = (),
        declared: str | None = None,
        stream: str | None = None,
        choices: Sequence[str] = (),
    ) -> None:
        self.plan, self.dataset, self.stream = plan, charged(dataset), stream
        self.undeclared, self.declared = tuple(undeclared), declared
        self._source = Source(seed)
        self._charged = False
        self._choices = tuple(choices)
        self.port = self.reopen()

    @property
    def private(self) -> bool:
        """False if the noise comes from a fixed seed."""
        return self._source.private

    def reopen(self) -> NoisePort:
        """Start again, with the same noise: for rows that turned out to need taming before anything was released."""
        self.port = NoisePort(self.plan.claim, self._source, history=self.stream is None, choices=self._choices)
        return self.port

    def once(self, job: Callable[[NoisePort], object]) -> None:
        """Charge the run, do all of it, and check that every planned release was drawn."""
        entry = charge(self.dataset, self.plan.claim, self.private)
        self._charged = True
        try:
            job(self.port)
        except FormError:
            void(self.dataset, entry)
            raise
        self.port.close()

    def begin(self) -> None:
        """Charge a stream, unless this process has charged it before."""
        assert self.stream is not None
        begin(self.stream, self.dataset, self.plan.claim, self.private)
        self._charged = True

    def receipt(self, weights: np.ndarray, plan: Planned | None = None) -> Receipt:
        """Write the receipt of what was released; `plan` is this run's plan with what only the run could tell."""
        assert self._charged
        name = None if self.stream is None else hashlib.blake2b(self.stream.encode(), digest_size=16).hexdigest()
        return issue(
            (plan or self.plan).to_json(),
            self.plan.claim,
            [release.name for release in self.plan.claim.releases],
            self.private,
            self._source.description,
            weights,
            self.dataset,
            self.undeclared,
            self.declared,
            stream=name,
            loops=self.port.trusted,
        )


def new_stream() -> str:
    """Secret id of a new stream."""
    return os.urandom(16).hex()
