"""A fit to 10^12 rows on clusters of named sizes: a simulation of the schedule, with costs measured on this machine.

    python benchmarks/cluster.py                 # measures the costs first
    python benchmarks/cluster.py --row 800 --task 5 --pair 10    # ns a row, ms a task, us a pair: as given

A pass is one task for each part. Workers take tasks in order, at most three for each core ahead of the first one that
is not done; the time of a task varies by a factor with standard deviation 0.2, and one in a thousand is lost with its
worker and done again. The process that runs the plan receives a pair of sums for each part and adds them one by one.
"""

from __future__ import annotations

import argparse
import heapq
import tempfile
import time
from pathlib import Path

import numpy as np

D = 100
CLUSTERS = {"one machine, 16 cores": 16, "10 machines, 160 cores": 160, "100 machines, 1600 cores": 1600}


def measured() -> tuple[float, float, float]:
    """Nanoseconds of processor time a row of a Parquet file, milliseconds a task of Dask, microseconds a pair."""
    import distributed
    from parts import made_numbers

    import dpconvex as dc
    from dpconvex.data.opened import OpenedParts
    from dpconvex.sums.matrix import merge
    from dpconvex.sums.parts import PartSums
    from dpconvex.sums.protocol import Clipped

    problem = dc.Problem(dc.losses.Logistic(), intercept=0.3)
    with tempfile.TemporaryDirectory() as folder, dc.context(memory=0):
        made_numbers(Path(folder), 300_000)
        sums = PartSums(OpenedParts(dc.data.Parts.parquet(folder, target="y"), problem, D))
        question = Clipped(problem.loss, np.ones(D + 1), 1.0)
        sums.sweep(question)
        began = time.process_time()
        sums.sweep(question)
        row = (time.process_time() - began) / sums.n * 1e9
    tiny = dc.data.Parts.arrays(np.ones((400, D)) / D, np.ones(400), rows=2)
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0", "processes": False}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as client,
        dc.context(executor=client),
    ):
        sums = PartSums(OpenedParts(tiny, problem, D))
        sums.sweep(question)
        began = time.process_time()
        sums.sweep(question)
        task = (time.process_time() - began) / len(tiny) * 1e3
    total, pair = np.zeros((2, D + 1)), np.ones((2, D + 1))
    merge(total, pair)
    began = time.process_time()
    for _ in range(1000):
        merge(total, pair)
    return row, task, (time.process_time() - began) * 1e3


def one_pass(parts: int, rows: float, cores: int, costs: tuple[float, float, float], rng: np.random.Generator) -> float:
    """Seconds of a pass over so many parts of so many rows each; costs in seconds."""
    row, task, pair = costs
    times = rows * row * np.exp(0.2 * rng.normal(size=parts)) + task
    times *= 1.0 + (rng.random(parts) < 1e-3)
    free = [0.0] * cores
    ends, head, given = np.empty(parts), 0, 0
    added = 0.0
    while head < parts:
        while given < parts and given - head < 3 * cores:
            start = max(heapq.heappop(free), added if given >= 3 * cores else 0.0)
            ends[given] = start + times[given]
            heapq.heappush(free, ends[given])
            given += 1
        added = max(added, ends[head]) + pair + task / 10.0  # what the scheduler and this process do for each answer
        head += 1
    return added


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e12)
    parser.add_argument("--parts", type=int, default=2**16)
    for name in ("row", "task", "pair"):
        parser.add_argument(f"--{name}", type=float)
    given = parser.parse_args()
    costs = (given.row, given.task, given.pair) if given.row else measured()
    print(f"{costs[0]:.0f} ns a row, {costs[1]:.1f} ms a task, {costs[2]:.0f} us a pair")
    seconds = costs[0] * 1e-9, costs[1] * 1e-3, costs[2] * 1e-6
    rng = np.random.default_rng(0)
    for name, cores in CLUSTERS.items():
        took = one_pass(given.parts, given.rows / given.parts, cores, seconds, rng)
        ideal = given.rows * seconds[0] / cores
        print(
            f"{name:<26} a pass {took / 3600:6.2f} h ({ideal / took:.2f} of ideal)   15 passes {15 * took / 3600:6.1f} "
            f"h   {15 * took / 3600 * cores:8,.0f} core hours   reads {given.rows * 8 * (D + 1) / took / 1e9:6.1f} GB/s"
        )
    print(f"network: {given.parts * 16 * (D + 1) / 1e6:.0f} MB of sums a pass")


if __name__ == "__main__":
    main()
