"""Private fits on a CUDA device: passes against the bandwidth of its memory, fits against two CPU cores and DP-SGD.

    python benchmarks/gpu.py [--rows 10000000] [--features 1000] [--small 1000000] [--limit 120] [--out gpu.json]

Rows are Gaussian with norms of about 1, labels those of a linear rule with noise. Figures are medians of 5 runs after
one that compiles. DP-SGD takes per-sample gradients by `torch.func.vmap(grad(...))`, as Opacus does by hooks: random
batches, gradients clipped to 1, Gaussian noise for Poisson samples by the RDP accountant of dp-accounting. It is
charged no time for evaluating its loss, and may stop at the first point that is as good as the private fit.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.func import grad, vmap

import dpconvex as dc
from dpconvex.loops.rows import Tensors
from dpconvex.sums.protocol import Clipped, Slopes
from dpconvex.sums.tensors import TensorSums

BUDGET = dc.Budget(1.0, 1e-8)
PROBLEM = dc.Problem(dc.losses.Logistic(), feature_bound=1.0)
SAME = ("format", "plan", "claim", "facts", "arithmetic", "outside")
FOUND: dict[str, Any] = {}


def say(name: str, out: Path, **values: Any) -> None:
    FOUND.setdefault(name, {}).update(values)
    print(name, json.dumps(values), flush=True)
    out.write_text(json.dumps(FOUND, indent=1))


def seconds(work: Callable[[], Any], times: int = 5, warm: int = 1) -> list[float]:
    taken = []
    for k in range(warm + times):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        if k >= warm:
            taken.append(time.perf_counter() - begin)
    return taken


def rows(n: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(5)
    X = torch.empty((n, d), device="cuda")
    for part in X.split(1_000_000):
        part.normal_()
    X *= d**-0.5
    w = 3.0 * torch.randn(d, device="cuda")
    y = torch.where(X @ w + torch.randn(n, device="cuda") > 0.0, 1.0, -1.0)
    return X, y.double()


def mean_loss(X: torch.Tensor, y: torch.Tensor, w: Any) -> float:
    w = torch.as_tensor(w, dtype=torch.float32, device=X.device)
    total = 0.0
    for a, b in zip(X.split(1_000_000), y.split(1_000_000), strict=True):
        total += float(torch.nn.functional.softplus(-b * (a @ w).double()).sum())
    return total / len(X)


def passes(X: torch.Tensor, y: torch.Tensor, out: Path) -> None:
    size = X.numel() * X.element_size()
    some = X[: min(len(X), 2_000_000)]
    room = torch.empty_like(some)
    bandwidth = 2.0 * some.numel() * 4 / statistics.median(seconds(lambda: room.copy_(some)))
    say("copy", out, terabytes_per_second=bandwidth / 1e12)
    sums = TensorSums(Tensors(X, 1.0, 0.0), y)
    sums.open()
    rng = np.random.default_rng(0)

    def asks(name: str, ask: Callable[[], Any], on: TensorSums, bound: float) -> None:
        taken = statistics.median(seconds(lambda: on.sweep(ask())))
        say(name, out, milliseconds=1e3 * taken, share_of_copy_bandwidth=size / taken / bandwidth, at_least=bound)

    d = X.shape[1]
    asks("gradient pass", lambda: Clipped(dc.losses.Logistic(), rng.normal(size=d), 0.5), sums, 0.7)
    classes = TensorSums(Tensors(X, 1.0, 0.0), torch.randint(0, 10, (len(X),), device=X.device).double())
    classes._measured = sums._measures
    asks("softmax pass, 10 classes", lambda: Slopes(dc.losses.Softmax(10), rng.normal(size=(10, d))), classes, 0.5)


def fits(X: torch.Tensor, y: torch.Tensor, out: Path) -> None:
    n, d = X.shape
    for name, algorithm, most in (
        ("objective perturbation", dc.algorithms.ObjectivePerturbation(), 3.0),
        ("NoisyGD, 100 steps", dc.algorithms.NoisyGD(steps=100), 1.5),
    ):
        plan = algorithm.plan(PROBLEM, n=n, d=d, budget=BUDGET)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        solutions: list[Any] = []
        taken = seconds(lambda plan=plan, kept=solutions: kept.append(plan.run(X, y, seed=1)))
        peak = (torch.cuda.max_memory_allocated() - before + X.numel() * 4) / (X.numel() * 4)
        say(name, out, rows=n, seconds=statistics.median(taken), every=taken, at_most=most, peak_over_X=peak)
        same = all(np.array_equal(s.weights, solutions[0].weights) for s in solutions)
        say(name, out, same_bits=same, loss=mean_loss(X, y, solutions[0].weights))


def against_cpu(X: torch.Tensor, y: torch.Tensor, out: Path) -> None:
    n, d = X.shape
    here, labels = X.cpu().numpy(), y.cpu().numpy()
    cores = os.sched_getaffinity(0)
    for name, algorithm, times in (
        ("objective perturbation", dc.algorithms.ObjectivePerturbation(), 5),
        ("NoisyGD, 5 steps", dc.algorithms.NoisyGD(steps=5), 5),
    ):
        plan = algorithm.plan(PROBLEM, n=n, d=d, budget=BUDGET)
        kept: list[Any] = []
        fast = statistics.median(seconds(lambda plan=plan, kept=kept: kept.append(plan.run(X, y, seed=1))))
        device = kept[-1]
        os.sched_setaffinity(0, set(sorted(cores)[:2]))
        try:
            few, many = here[:20_000], labels[:20_000]
            algorithm.plan(PROBLEM, n=20_000, d=d, budget=BUDGET).run(few, many, seed=1)  # compiles
            slow = statistics.median(
                seconds(lambda plan=plan, kept=kept: kept.append(plan.run(here, labels, seed=1)), times, 0)
            )
        finally:
            os.sched_setaffinity(0, cores)
        cpu = kept[-1]
        grid = max(float(np.max(r.grid)) for r in plan.releases if r.grid is not None)
        bound = 2.0 * getattr(plan.schedule[0], "tolerance", 0.0) + grid * math.sqrt(d)
        far = float(np.linalg.norm(cpu.weights - device.weights))
        engines = [{**s.receipt.sections["engine"], "rows": ""} for s in (cpu, device)]
        same = all(cpu.receipt.sections[part] == device.receipt.sections[part] for part in SAME)
        say(
            f"{name}: two CPU cores", out, rows=n, device_seconds=fast, cpu_seconds=slow, ratio=slow / fast,
            distance=far, distance_allowed=bound, receipts_equal=same and engines[0] == engines[1],
            verified=bool(dc.verify(device.receipt)), line=device.receipt.sections["engine"]["rows"],
        )  # fmt: skip


def noise_multiplier(q: float, steps: int) -> float:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, calibrate_dp_mechanism
    from dp_accounting.rdp import RdpAccountant

    def event(sigma: float) -> Any:
        return SelfComposedDpEvent(PoissonSampledDpEvent(q, GaussianDpEvent(sigma)), steps)

    return float(calibrate_dp_mechanism(RdpAccountant, event, BUDGET.epsilon, BUDGET.delta))


def per_sample(
    X: torch.Tensor, y: torch.Tensor, batch: int, epochs: float, rate: float, target: float, most: float
) -> Any:
    """DP-SGD; its loss and seconds when it was first at most the target, or at its end."""
    n, d = X.shape
    q, steps = min(1.0, batch / n), math.ceil(epochs * n / batch)
    sigma = noise_multiplier(q, steps)
    labels = y.float()

    def loss(w: torch.Tensor, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.softplus(-label * (x @ w))

    gradients = vmap(grad(loss), in_dims=(None, 0, 0))
    w, taken, best = torch.zeros(d, device=X.device), 0.0, (math.inf, 0.0)
    gradients(w, X[:16], labels[:16])
    torch.cuda.synchronize()
    every, done = max(1, steps // 40), 0
    while done < steps and taken < most:
        begin = time.perf_counter()
        for _ in range(min(every, steps - done)):
            size = int(np.random.default_rng(done).binomial(n, q))
            chosen = torch.randint(0, n, (size,), device=X.device)  # as costly as a Poisson sample
            g = gradients(w, X[chosen], labels[chosen])
            g = g * torch.clamp(1.0 / torch.linalg.vector_norm(g, dim=1).clamp(min=1e-12), max=1.0)[:, None]
            w = w - rate / batch * (g.sum(dim=0) + sigma * torch.randn(d, device=X.device))
            done += 1
        torch.cuda.synchronize()
        taken += time.perf_counter() - begin
        best = min(best, (mean_loss(X, y, w), taken))
        if best[0] <= target:
            break
    return {"batch": batch, "epochs": epochs, "rate": rate, "sigma": sigma, "steps": done, "loss": best[0],
            "seconds": best[1], "reached": best[0] <= target, "spent": taken}  # fmt: skip


def against_dp_sgd(X: torch.Tensor, y: torch.Tensor, out: Path, limit: float) -> None:
    n, d = X.shape
    plan = dc.algorithms.ObjectivePerturbation().plan(PROBLEM, n=n, d=d, budget=BUDGET)
    kept: list[Any] = []
    ours = statistics.median(seconds(lambda: kept.append(plan.run(X, y, seed=1))))
    target, begin, tried = mean_loss(X, y, kept[-1].weights), time.perf_counter(), []
    for batch, epochs, rate in (
        (65_536, 10.0, 2000.0),
        (65_536, 40.0, 2000.0),
        (16_384, 10.0, 500.0),
        (16_384, 20.0, 2000.0),
        (262_144, 100.0, 4000.0),
        (4_096, 5.0, 200.0),
    ):
        left = limit - (time.perf_counter() - begin)
        if left <= 0.0:
            break
        torch.manual_seed(1)
        tried.append(per_sample(X, y, batch, epochs, rate, target, left))
        print(tried[-1], flush=True)
    reached = [t["seconds"] for t in tried if t["reached"]]
    fastest = min(reached) if reached else None
    say(
        f"DP-SGD, {n} rows", out, ours_seconds=ours, ours_loss=target, tried=tried, fastest_to_our_loss=fastest,
        ratio=None if fastest is None else fastest / ours, at_least=20.0,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--small", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=1000)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for all settings of DP-SGD together")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if not torch.cuda.is_available():
        raise SystemExit("a CUDA device is needed")
    say("device", given.out, device=torch.cuda.get_device_name(), torch=torch.__version__, rows=given.rows)
    X, y = rows(given.small, given.features)
    against_cpu(X, y, given.out)
    del X, y
    torch.cuda.empty_cache()
    X, y = rows(given.rows, given.features)
    passes(X, y, given.out)
    fits(X, y, given.out)
    against_dp_sgd(X, y, given.out, given.limit)


if __name__ == "__main__":
    main()
