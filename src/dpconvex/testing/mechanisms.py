"""What a sampler of noise promises: its law, independence between names, and no repetition between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpconvex.noise.source import Source

KOLMOGOROV = 1.95  # exceeded with probability 1e-3 by a perfect sampler
Draw = Callable[[Any, tuple[int, ...]], np.ndarray]
Law = Callable[[np.ndarray], np.ndarray]


def check_mechanism(
    draw: Draw, law: Callable[[np.ndarray], np.ndarray], *, size: int = 1_000_000, seed: int = 0
) -> None:
    """Check a sampler of independent numbers against its distribution function.

    Parameters
    ----------
    draw : callable
        `draw(stream, shape)` returns noise of that shape from a named stream of a `dpconvex.noise.source.Source`.
    law : callable
        Distribution function, on arrays.
    size : int
        Number of variates.
    seed : int
        Seed of the source: the test gives the same answer every time.

    Raises
    ------
    AssertionError
        At the first promise that is broken.

    Examples
    --------
    >>> from scipy.special import ndtr
    >>> from dpconvex.noise.gaussian import standard_normal
    >>> check_mechanism(standard_normal, ndtr, size=100_000)
    >>> check_mechanism(lambda stream, shape: 0.97 * standard_normal(stream, shape), ndtr, size=1_000_000)
    Traceback (most recent call last):
        ...
    AssertionError: the sample does not follow its law: Kolmogorov's statistic is ..., above 1.95
    """
    sample = draw(Source(seed).stream("law"), (size,))
    assert sample.shape == (size,), f"the sampler must return the shape asked for, got {sample.shape}"
    assert np.isfinite(sample).all(), "the sampler returned what is no finite number"
    gap = kolmogorov(sample, law)
    assert gap < KOLMOGOROV, (
        f"the sample does not follow its law: Kolmogorov's statistic is {gap:.3g}, above {KOLMOGOROV}"
    )
    names = [f"release {i}" for i in range(20)]
    draws = np.array([draw(Source(seed).stream(name), (2000,)) for name in names])
    again = draw(Source(seed).stream(names[0]), (2000,))
    assert np.array_equal(draws[0], again), "the same stream of the same seed must give the same noise"
    ranks = draws.argsort(axis=1).argsort(axis=1)
    largest = np.abs(np.asarray(np.corrcoef(ranks))[np.triu_indices(len(names), 1)]).max()
    assert largest < 5.0 / 2000**0.5, f"noise of two names is correlated: {largest:.3g}"
    fresh = {draw(Source().stream("release"), (4,)).tobytes() for _ in range(20)}
    assert len(fresh) == 20, "two private sources gave the same noise"


def kolmogorov(sample: np.ndarray, law: Law) -> float:
    """Largest gap between a sample and a distribution function, times the square root of its size."""
    at, n = law(np.sort(sample, axis=None)), sample.size
    return float(max((np.arange(1, n + 1) / n - at).max(), (at - np.arange(n) / n).max()) * n**0.5)
