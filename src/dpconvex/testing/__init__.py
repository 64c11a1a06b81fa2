"""Contracts that parts of the library keep: run them on a loss, domain, learner, algorithm or sampler of your own.

Each raises `AssertionError` with what was expected at the first promise that is broken. They need no test framework;
under pytest, call them from a test function.
"""

from dpconvex.testing.algorithms import check_algorithm
from dpconvex.testing.check import CheckReport, check
from dpconvex.testing.domains import check_domain
from dpconvex.testing.learners import check_learner
from dpconvex.testing.losses import check_loss
from dpconvex.testing.mechanisms import check_mechanism, check_noise

__all__ = [
    "CheckReport",
    "check",
    "check_algorithm",
    "check_domain",
    "check_learner",
    "check_loss",
    "check_mechanism",
    "check_noise",
]
