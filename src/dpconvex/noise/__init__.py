"""RANDOMNESS: the source of random bits, and the laws drawn from them."""

from dpconvex.noise.prefix_sum import PrefixSum
from dpconvex.noise.source import Source
from dpconvex.problem.renyi_law import RenyiLaw

__all__ = ["PrefixSum", "RenyiLaw", "Source"]
