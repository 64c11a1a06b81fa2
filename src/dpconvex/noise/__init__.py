"""RANDOMNESS: the source of random bits, and the laws drawn from them."""

from dpconvex.noise.generalised import GeneralizedGaussian
from dpconvex.noise.prefix_sum import PrefixSum
from dpconvex.noise.source import Source

__all__ = ["GeneralizedGaussian", "PrefixSum", "Source"]
