"""Attacks of the gallery, some runs at a time, so that a person can watch two data sets being told apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from dpconvex.audit.gallery import EXHIBITS, Exhibit
from dpconvex.audit.measure import learn_statistic, weigh
from dpconvex.audit.report import finite
from dpconvex.audit.stated import read_claim
from dpconvex.errors import InputError

__all__ = ["Attacks", "exhibits"]

BINS, BLOCKS, CONFIDENCE = 60, 40, 0.99


def exhibits() -> dict[str, Exhibit]:
    """Exhibits whose mechanism can be run, by name.

    Examples
    --------
    >>> "float64" in exhibits()
    True
    """
    return {name: exhibit for name, exhibit in EXHIBITS.items() if exhibit.case is not None and exhibit.case.batch}


@dataclass
class _Attack:
    """Runs so far on both data sets, and what was fixed before the first of them."""

    exhibit: Exhibit
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    scores: list[list[np.ndarray]] = field(default_factory=lambda: [[], []])

    def __post_init__(self) -> None:
        case = self.exhibit.case
        assert case is not None
        self.case, self.stated = case, read_claim(case.claim)
        outputs = [self._run(side, max(self.exhibit.runs // 10, 500)) for side in (0, 1)]
        self.statistic = case.statistic or learn_statistic(*outputs)[0]
        self.pilot = [np.asarray(self.statistic(part), dtype=float) for part in outputs]
        low, high = np.quantile(np.concatenate(self.pilot), [0.001, 0.999])
        self.edges = np.linspace(low - 1e-9, high + 1e-9, BINS + 1)

    @property
    def block(self) -> int:
        """Runs on each data set in one step."""
        return max(1, self.exhibit.runs // BLOCKS)

    def more(self) -> dict[str, Any]:
        """Run some more, unless all runs are there, and say what was found."""
        runs = sum(map(len, self.scores[0]))
        if runs < self.exhibit.runs:
            count = min(self.block, self.exhibit.runs - runs)
            for side in (0, 1):
                self.scores[side].append(np.asarray(self.statistic(self._run(side, count)), dtype=float))
            runs += count
        first, second = (np.concatenate(parts) for parts in self.scores)
        sample = (first, second)
        found = weigh((self.pilot[0], self.pilot[1]), sample, self.stated.delta, 1.0 - CONFIDENCE, self.case.law)
        counts = [np.histogram(np.clip(s, self.edges[0], self.edges[-1]), self.edges)[0].tolist() for s in sample]
        return {
            "runs": runs,
            "all": self.exhibit.runs,
            "claimed": finite(self.stated.epsilon),
            "found": finite(found.epsilon(self.stated.delta)),
            "counts": counts,
        }

    def _run(self, side: int, runs: int) -> np.ndarray:
        records = (self.case.data, self.case.neighbour)[side]
        made = np.asarray(self.case.f(records, self.rng, runs), dtype=float)
        return made.reshape(runs, -1)


class Attacks:
    """Attacks under way, by the name of their exhibit.

    Examples
    --------
    >>> attacks = Attacks()
    >>> first, second = attacks.more("float64"), attacks.more("float64")
    >>> first["runs"], second["runs"], second["found"] > second["claimed"]
    (50, 100, True)
    """

    def __init__(self) -> None:
        self._under_way: dict[str, _Attack] = {}
        self._lock = Lock()

    def more(self, name: str, again: bool = False) -> dict[str, Any]:
        """Run some more of an attack, or begin it again."""
        known = exhibits()
        if name not in known:
            raise InputError(f"no such exhibit; there are {', '.join(known)}")
        with self._lock:
            if again or name not in self._under_way:
                self._under_way[name] = _Attack(known[name])
            return self._under_way[name].more()
