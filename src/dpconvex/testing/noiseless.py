"""Runs without noise, for looking at what an algorithm computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpconvex.data.arrays import open_rows
from dpconvex.kernel.claims import Release
from dpconvex.noise.prefix_sum import Run, after
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort


class NoiselessPort(NoisePort):
    """A port that adds nothing, and keeps every value it is given.

    Parameters
    ----------
    plan : Plan
    past : NoiselessPort, optional
        Port of an earlier run: this one answers what that one did, so that both runs have the same past.
    """

    exact = False

    def __init__(self, plan: Plan, past: NoiselessPort | None = None) -> None:
        super().__init__(plan.claim, None)  # type: ignore[arg-type]
        self._relative: dict[str, list[np.ndarray]] = {}
        self._past = past

    def add(self, name: str, value: np.ndarray) -> np.ndarray:
        """Release the value as it is, or what the earlier run released."""
        released = super().add(name, value)
        return released if self._past is None else self._past.history(name)[len(self._noisy[name]) - 1]

    def accumulate(self, name: str, increments: np.ndarray, scales: Sequence[float] | np.ndarray) -> np.ndarray:
        """Release running sums as they are, or those of the earlier run."""
        kept = self._relative.setdefault(name, [])
        kept += [increment / scale for increment, scale in zip(increments, scales, strict=True)]
        released = super().accumulate(name, increments, scales)
        done = len(self._noisy[name])
        return released if self._past is None else self._past.history(name)[done - len(increments) : done]

    def lend_rounds(self, name: str, rounds: int, run: Run, loop: Callable[..., Any]) -> np.ndarray:
        """Run a loop one round at a time, from the sum that was answered last."""
        return np.concatenate([self._one_round(name, after(run, done), loop) for done in range(rounds)])

    def values(self, name: str) -> np.ndarray:
        """What would have been perturbed: of running sums the increments, in units of their scales."""
        return np.stack(self._relative[name]) if name in self._relative else self.history(name)

    def _one_round(self, name: str, run: Run, loop: Any) -> np.ndarray:
        before = self._last_sum(self._releases[name])
        released = super().lend_rounds(name, 1, run, loop)
        self._relative.setdefault(name, []).append(released[0] - before)
        if self._past is None:
            return released
        self._noisy[name][-1] = self._past.history(name)[len(self._noisy[name]) - 1]
        return np.asarray(self._noisy[name][-1][None])

    def _largest(self, release: Release, value: np.ndarray) -> int:
        return int(np.argmax(value))

    def _draw(self, name: str, law: str, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape)

    def _choose(self, name: str, count: int, probability: float) -> np.ndarray:
        return np.arange(count)


def run_without_noise(
    plan: Plan, X: Any, y: Any, past: NoiselessPort | None = None
) -> tuple[NoiselessPort, np.ndarray]:
    """Run a plan with no noise at all. Never release what it returns.

    Returns
    -------
    port : NoiselessPort
        It holds every value that noise would have been added to.
    weights : ndarray

    Examples
    --------
    >>> import dpconvex as dc
    >>> plan = dc.algorithms.MeanDirection().plan(
    ...     dc.Problem(dc.losses.Logistic()), n=2, d=1, budget=dc.Budget(1.0, 1e-6)
    ... )
    >>> port, _ = run_without_noise(plan, [[0.5], [0.25]], [1.0, -1.0])
    >>> port.values("direction")
    array([[0.25]])
    """
    port = NoiselessPort(plan, past)
    plan.algorithm.execute(plan, *open_rows(X, y, plan.problem, plan.n, plan.d), port)
    port.close()
    return port, plan.algorithm.finish(plan, port)
