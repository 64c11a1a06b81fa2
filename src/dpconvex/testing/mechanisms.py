"""What a sampler of noise promises: its law, independence between names, and no repetition between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpconvex.audit.measure import judge, weigh
from dpconvex.audit.stated import Stated
from dpconvex.noise.source import Source
from dpconvex.problem.geometry import lp_norms
from dpconvex.problem.renyi_law import RenyiLaw
from dpconvex.theorems.numerics.renyi import Renyi

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


def check_noise(law: RenyiLaw, *, draws: int = 20_000, seed: int = 0) -> None:
    """Try to refute what was declared of a law of noise of your own; what is not refuted is not proved.

    The same bits give the same variate, and no number twice, as far as `accuracy` allows. The mean squared norm is at
    most `second_moment`. Moved along one axis, or along all of them, the law is no easier to tell from itself than its
    divergences allow: by thresholds, at confidence 0.999.

    Parameters
    ----------
    law : RenyiLaw
    draws : int
    seed : int
        Seed of the source: the test gives the same answer every time.

    Raises
    ------
    AssertionError
        At the first promise that is broken.

    Examples
    --------
    >>> from scipy.special import ndtri
    >>> check_noise(RenyiLaw(lambda uniform: ndtri(uniform(2)), size=2, second_moment=2.0))
    >>> check_noise(RenyiLaw(lambda uniform: 0.5 * ndtri(uniform(2)), size=2, second_moment=2.0))
    Traceback (most recent call last):
        ...
    AssertionError: lambda: moved by ... it is easier to tell from itself than was declared
    """
    source = Source(seed)
    first, again = (law.draw(source.stream("again")) for _ in range(2))
    assert np.array_equal(first, again), f"{law.name}: the same bits give another variate"
    stream = source.stream("sample")
    drawn = np.array([law.draw(stream) for _ in range(2 * draws)])
    coarse = law.accuracy > 1e-9 or len(np.unique(drawn[:, 0])) == len(drawn)
    assert coarse, f"{law.name}: numbers repeat, so they are further from exact variates than {law.accuracy:g}"
    squares = np.square(lp_norms(drawn, law.norm))
    far = squares.mean() - 4.0 * squares.std() / len(squares) ** 0.5
    assert far <= law.second_moment, (
        f"{law.name}: the mean squared norm is about {squares.mean():.3g}, above what is declared"
    )
    tests = [(direction, rho) for direction in (np.eye(law.size)[0], np.ones(law.size)) for rho in (0.1, 1.0, 3.0)]
    for direction, rho in tests:
        v = direction * ((2.0 * rho / law.kappa) ** 0.5 / float(lp_norms(direction, law.norm)))
        at, move = drawn @ direction, float(v @ direction)
        parts = np.array_split(at, 4)  # so that no two samples share a variate
        evidence = weigh((parts[0], parts[1] + move), (parts[2], parts[3] + move), 1e-3, 1e-3 / len(tests), "any")
        caught = judge(Stated(Renyi(rho, law.orders), "replace_one", 1e-3), [evidence]).caught
        length = float(lp_norms(v, law.norm))
        assert not caught, f"{law.name}: moved by {length:.3g} it is easier to tell from itself than was declared"


def kolmogorov(sample: np.ndarray, law: Law) -> float:
    """Largest gap between a sample and a distribution function, times the square root of its size."""
    at, n = law(np.sort(sample, axis=None)), sample.size
    return float(max((np.arange(1, n + 1) / n - at).max(), (at - np.arange(n) / n).max()) * n**0.5)
