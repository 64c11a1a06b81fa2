"""The gradient of logistic losses in twice the precision, on a CUDA device: kernels in Triton.

What `careful` does to each record, in two passes over X. Nothing here may be contracted to fused operations but the
product, which is exact with one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl

from dpconvex.problem.losses import Logistic
from dpconvex.sums.careful import logistic_slope
from dpconvex.sums.fused import GROUPS, constants, function, groups_of, join, two_sum, units_of
from dpconvex.sums.symbols import Graph
from dpconvex.theorems.computed_sums import BLOCK

__all__ = ["careful_pair"]


@lru_cache(maxsize=1)
def _careful_slope() -> Any:
    return function("careful_slope", Graph(logistic_slope, (), 5), ("z", "low", "y", "cap", "shift"))


@triton.jit
def _plus(a, a_low, b, b_low):
    s, e = two_sum(a, b)
    t, f = two_sum(a_low, b_low)
    s, e = two_sum(s, e + t)
    return two_sum(s, e + f)


@triton.jit
def _product(a, b):
    p = a * b
    return p, tl.fma(a, b, -p)


@triton.jit
def _times(a, a_low, b, b_low):
    p, e = _product(a, b)
    return two_sum(p, e + (a * b_low + a_low * b))


@triton.jit
def _careful_predict_kernel(
    X, units, n, wide, W, shorten, out, UNIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, COLUMNS)
    inside = cols < wide * UNIT
    w = tl.load(W + cols, mask=inside, other=0.0)
    first = tl.program_id(0) * 1024
    for tile in tl.range(0, 1024 // ROWS, num_stages=STAGES):
        rows = first + tile * ROWS + tl.arange(0, ROWS)
        there = rows < n
        at = X + rows[:, None].to(tl.int64) * units * UNIT + cols[None, :]
        x = tl.load(at, mask=there[:, None] & inside[None, :], other=0.0).to(tl.float64)
        factor = tl.load(shorten + rows, mask=there, other=0.0)
        p, error = _product(tl.where((factor > 0.0)[:, None], x, 0.0), w[None, :])
        z, z_low = tl.reduce((p, error), 1, join)
        tl.store(out + rows, z, mask=there)
        tl.store(out + n + rows, z_low, mask=there)


@triton.jit
def _careful_slope_kernel(
    pairs, n, W, d, numbers, y, shorten, omega,
    slope: tl.constexpr, WEIGHTED: tl.constexpr, CONSTANT: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Put slopes, and slopes times what shortens the row, in place of predictions."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = rows < n
    constant, cap, shift = tl.load(numbers), tl.load(numbers + 1), tl.load(numbers + 2)
    z, z_low = tl.load(pairs + rows, mask=there, other=0.0), tl.load(pairs + n + rows, mask=there, other=0.0)
    factor = tl.load(shorten + rows, mask=there, other=0.0)
    z, z_low = two_sum(z, z_low)
    z, z_low = _times(z, z_low, factor, 0.0)
    if CONSTANT:
        added, added_low = _product(constant, tl.load(W + d))
        z, z_low = _plus(z, z_low, added, added_low)
    r, r_low = slope(z, z_low, tl.load(y + rows, mask=there, other=1.0), cap, shift)
    if WEIGHTED:
        r, r_low = _times(r, r_low, tl.load(omega + rows, mask=there, other=0.0), 0.0)
    s, s_low = _times(r, r_low, factor, 0.0)
    tl.store(pairs + rows, s, mask=there)
    tl.store(pairs + n + rows, s_low, mask=there)
    if CONSTANT:
        r, r_low = _times(r, r_low, constant, 0.0)
        tl.store(pairs + 2 * n + rows, r, mask=there)
        tl.store(pairs + 3 * n + rows, r_low, mask=there)


@triton.jit
def _careful_adjoint_kernel(
    X, units, n, wide, pairs, shorten, out, width, per, UNIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    cols, group = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.program_id(1)
    inside = cols < wide * UNIT
    high, low = tl.zeros([COLUMNS], tl.float64), tl.zeros([COLUMNS], tl.float64)
    first = group * per
    for block in range(first, tl.minimum(first + per, tl.cdiv(n, 1024))):
        total, rest = tl.zeros([COLUMNS], tl.float64), tl.zeros([COLUMNS], tl.float64)
        for tile in tl.range(0, 1024 // ROWS, num_stages=STAGES):
            rows = block * 1024 + tile * ROWS + tl.arange(0, ROWS)
            there = rows < n
            at = X + rows[:, None].to(tl.int64) * units * UNIT + cols[None, :]
            x = tl.load(at, mask=there[:, None] & inside[None, :], other=0.0).to(tl.float64)
            s = tl.load(pairs + rows, mask=there, other=0.0)
            s_low = tl.load(pairs + n + rows, mask=there, other=0.0)
            x = tl.where((s != 0.0)[:, None], x, 0.0)
            p, error = _product(tl.broadcast_to(s[:, None], [ROWS, COLUMNS]), x)
            error += s_low[:, None] * x
            p, error = tl.reduce((p, error), 0, join)
            total, e = two_sum(total, p)
            rest += e + error
        total, rest = two_sum(total, rest)
        high, low = _plus(high, low, total, rest)
    to = out + (2 * group).to(tl.int64) * width
    tl.store(to + cols, high, mask=inside)
    tl.store(to + width + cols, low, mask=inside)


@triton.jit
def _careful_ones_kernel(pairs, n, out, ROWS: tl.constexpr):
    """Sums of pairs, ROWS at a time."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = rows < n
    high, low = tl.load(pairs + rows, mask=there, other=0.0), tl.load(pairs + n + rows, mask=there, other=0.0)
    high, low = tl.reduce((high, low), 0, join)
    high, low = two_sum(high, low)
    tl.store(out + 2 * tl.program_id(0), high)
    tl.store(out + 2 * tl.program_id(0) + 1, low)


@triton.jit
def _careful_tree(pairs, out, count, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, cols = tl.arange(0, ROWS), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    there = (rows[:, None] < count) & (cols[None, :] < width)
    at = pairs + (2 * rows[:, None]).to(tl.int64) * width + cols[None, :]
    high, low = tl.load(at, mask=there, other=0.0), tl.load(at + width, mask=there, other=0.0)
    high, low = tl.reduce((high, low), 0, _plus)
    tl.store(out + cols, high, mask=cols < width)
    tl.store(out + width + cols, low, mask=cols < width)


def careful_pair(
    X: torch.Tensor,
    d: int,
    W: torch.Tensor,
    constant: float,
    y: torch.Tensor,
    shorten: torch.Tensor,
    omega: torch.Tensor | None,
    loss: Logistic,
) -> torch.Tensor:
    """Gradient of the logistic loss at w as a pair, in twice the precision, in two passes over X."""
    n, (units, wide, unit) = len(X), units_of(X, d)
    count, per = groups_of(n)
    plain, constant_too = {"enable_fp_fusion": False}, constant != 0.0
    columns = max(128, triton.next_power_of_2(d))
    pairs = torch.empty((4 if constant_too else 2, n), dtype=torch.float64, device=X.device)
    _careful_predict_kernel[(triton.cdiv(n, BLOCK),)](
        X,
        units,
        n,
        wide,
        W,
        shorten,
        pairs,
        UNIT=unit,
        ROWS=2,
        COLUMNS=columns,
        STAGES=4,
        num_warps=max(1, columns // 512),
        **plain,
    )
    _careful_slope_kernel[(triton.cdiv(n, 128),)](
        pairs, n, W, d, constants(X, constant, float(loss.cap), float(loss.shift)), y, shorten,
        y if omega is None else omega, slope=_careful_slope(), WEIGHTED=omega is not None, CONSTANT=constant_too,
        ROWS=128, num_warps=4, **plain,
    )  # fmt: skip
    out = torch.empty((count, 2, len(W)), dtype=torch.float64, device=X.device)
    chosen = {"ROWS": 4, "COLUMNS": 512, "STAGES": 3, "num_warps": 4}
    _careful_adjoint_kernel[(triton.cdiv(d, chosen["COLUMNS"]), count)](
        X, units, n, wide, pairs, shorten, out, len(W), per, UNIT=unit, **chosen, **plain
    )
    if constant_too:
        out[..., d] = 0.0
    total = _careful_joined(out)
    if constant_too:
        blocks = torch.empty((triton.cdiv(n, BLOCK), 2, 1), dtype=torch.float64, device=X.device)
        _careful_ones_kernel[(len(blocks),)](pairs[2:], n, blocks, ROWS=BLOCK, num_warps=4, **plain)
        while len(blocks) > GROUPS:
            blocks = torch.stack([_careful_joined(part) for part in blocks.split(GROUPS)])
        total[:, d] = _careful_joined(blocks)[:, 0]
    return total


def _careful_joined(pairs: torch.Tensor) -> torch.Tensor:
    count, width = len(pairs), pairs[0, 0].numel()
    total = torch.empty_like(pairs[0])
    rows = triton.next_power_of_2(count)
    _careful_tree[(triton.cdiv(width, 8),)](
        pairs, total, count, width, ROWS=rows, COLUMNS=8, num_warps=8, enable_fp_fusion=False
    )
    return total
