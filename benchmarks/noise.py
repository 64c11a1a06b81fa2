"""Noise per second on a grid, exactly distributed, against value + scale * standard_normal in the same run.

    python benchmarks/noise.py [--size 1000000] [--repeats 15]

Both add noise to the same array on one thread; they take turns. Processor time; each ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.rounded import rounded_gaussian
from dpconvex.noise.source import Source

FINENESS = (10, 20, 24, 27, 30, 34)  # grids of 2^-k standard deviations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    source, value = Source(), np.random.default_rng(0).normal(size=given.size) * 100.0
    jobs: dict[str, Callable[[], np.ndarray]] = {
        "float64": lambda: value + 1.0 * standard_normal(source.stream("noise"), value.shape)
    }
    for k in FINENESS:
        jobs[f"grid 2^-{k}"] = lambda k=k: rounded_gaussian(source.stream("noise"), value, 1.0, 2.0**-k)  # type: ignore[misc]
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for repeat in range(given.repeats + 1):
        for name, job in jobs.items():
            start = time.process_time()
            job()
            if repeat:  # the first compiles
                times[name].append(time.process_time() - start)
    base = median(times["float64"])
    for name, taken in times.items():
        each = median(taken)
        print(f"{name:10}  {1e9 * each / given.size:6.2f} ns per variate  {base / each:5.2f} of float64's per second")


if __name__ == "__main__":
    main()
