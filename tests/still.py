"""Runs without noise, for looking at what an algorithm computes."""

import numpy as np

from dpconvex.data.arrays import open_rows
from dpconvex.plan.port import NoisePort


class StillPort(NoisePort):
    """A port that adds nothing."""

    def __init__(self, plan):
        super().__init__(plan.claim, None)
        self._relative = {}

    def accumulate(self, name, increments, scales):
        for increment, scale in zip(increments, scales, strict=True):
            self._relative.setdefault(name, []).append(increment / scale)
        return super().accumulate(name, increments, scales)

    def lend_rounds(self, name, rounds, run, loop):
        """One round at a time, from the sum that was answered last."""
        return np.concatenate([self._one(name, run, loop) for _ in range(rounds)])

    def _one(self, name, run, loop):
        before = self._last_sum(self._releases[name])
        noisy = super().lend_rounds(name, 1, run, loop)
        self._relative.setdefault(name, []).append(noisy[0] - before)
        return noisy

    def values(self, name):
        """What would have been perturbed: of running sums the increments, in units of their scales."""
        return np.stack(self._relative[name]) if name in self._relative else self.history(name)

    def _draw(self, name, law, shape):
        return np.zeros(shape)

    def _choose(self, name, count, probability):
        return np.arange(count)


class PinnedPort(StillPort):
    """A port that adds nothing and answers what an earlier run has released, so that both runs have the same past."""

    def __init__(self, plan, past):
        super().__init__(plan)
        self._past = past

    def add(self, name, value):
        super().add(name, value)
        return self._past.history(name)[len(self._noisy[name]) - 1]

    def _one(self, name, run, loop):
        super()._one(name, run, loop)
        self._noisy[name][-1] = self._past.history(name)[len(self._noisy[name]) - 1]
        return self._noisy[name][-1][None]

    def accumulate(self, name, increments, scales):
        super().accumulate(name, increments, scales)
        done = len(self._noisy[name])
        return self._past.history(name)[done - len(increments) : done]


def without_noise(plan, X, y, past=None):
    """Return the port with every value that would have been perturbed, and the solution."""
    port = StillPort(plan) if past is None else PinnedPort(plan, past)
    plan.algorithm.execute(plan, *open_rows(X, y, plan.problem, plan.n, plan.d), port)
    port.close()
    return port, plan.algorithm.finish(plan, port)
