"""Runs without noise, for looking at what an algorithm computes."""

import numpy as np

from dpconvex.data.arrays import open_rows
from dpconvex.plan.port import NoisePort


class StillPort(NoisePort):
    """A port that adds nothing."""

    def __init__(self, plan):
        super().__init__(plan.claim, None)

    def _draw(self, name, law, shape):
        return np.zeros(shape)


def without_noise(plan, X, y):
    """Return the port with every value that would have been perturbed, and the solution."""
    port = StillPort(plan)
    plan.algorithm.execute(plan, *open_rows(X, y, plan.problem, plan.n, plan.d), port)
    port.close()
    return port, plan.algorithm.finish(plan, port)
