"""RANDOMNESS: the source of random bits, and the laws drawn from them."""

from dpconvex.noise.prefix_sum import PrefixSum
from dpconvex.noise.source import Source

__all__ = ["PrefixSum", "Source"]
