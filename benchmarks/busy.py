"""Time of a fit beside busy processes: default threads against one thread, medians of alternating runs.

python benchmarks/busy.py [--busy 4] [--repeats 3] [--rows 200000] [--features 300]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

FIT = """
import time, warnings
import numpy as np
import dpconvex as dc
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=({rows}, {features})).astype(np.float32)
X /= np.linalg.norm(X, axis=1, keepdims=True)
y = np.where(X[:, :5].sum(axis=1) + 0.1 * rng.normal(size={rows}) > 0, 1, 0)
model = dc.PrivateLogisticRegression(epsilon=1.0, random_state=0)
model.fit(X[:5000], y[:5000])  # compiles
start = time.perf_counter()
model.fit(X, y)
print(time.perf_counter() - start)
"""


def seconds(code: str, threads: str | None) -> float:
    """Time of one fit in a process of its own."""
    env = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    if threads:
        env["OMP_NUM_THREADS"] = threads
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    """Print both medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("busy", 4), ("repeats", 3), ("rows", 200_000), ("features", 300)):
        parser.add_argument(f"--{name}", type=int, default=value)
    chosen = parser.parse_args()
    code = FIT.format(rows=chosen.rows, features=chosen.features)
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(chosen.busy)]
    try:
        runs = [(seconds(code, None), seconds(code, "1")) for _ in range(chosen.repeats)]
    finally:
        for other in others:
            other.kill()
            other.wait()
    many, one = (statistics.median(column) for column in zip(*runs, strict=True))
    print(f"{chosen.busy} busy processes: default {many:.2f} s, one thread {one:.2f} s, ratio {many / one:.2f}")


if __name__ == "__main__":
    main()
