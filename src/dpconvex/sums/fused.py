"""Passes over rows on a CUDA device that read every row once: kernels in Triton.

All sums are in float64. A block of 1024 rows is added up in some order, and blocks as pairs of a high and a low part,
in groups that the number of rows alone decides; the pairs of the groups are joined by a tree. How many multiprocessors
there are, and in what order they work, changes no bit of the result. Bounds: docs/proofs/computed_sums.md.

The slope of a loss comes from its plain method (`symbols`), and so does the arithmetic in twice the precision.
"""

from __future__ import annotations

import linecache
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from dpconvex.problem.losses import Logistic
from dpconvex.sums.symbols import Graph, traced
from dpconvex.theorems.computed_sums import BLOCK

__all__ = ["GROUPS", "WIDEST", "adjoint", "predict", "squares", "sweep"]

GROUPS = 2**10  # groups of blocks, at most
WIDEST = 2048  # features a row, at most, whose numbers a program holds at once
CLASSES = 64  # predictions a row, at most
_ROUND = 6755399441055744.0  # 1.5 2^52: adding it rounds to a whole number
SLOPE, CLIPPED, BEND = range(3)


# Functions of numbers as functions of kernels -------------------------------------------------------------------------


def _call(name: str, of: list[str]) -> str:
    if name == "number":
        return f"tl.full([], {of[0]}, tl.float64)"  # a choice between two literals would be one of float32
    if name == "choose":
        return f"tl.where({', '.join(of)})"
    if name == "neg":
        return f"-{of[0]}"
    if name in ("abs", "fabs"):
        return f"tl.abs({of[0]})"
    if name == "round":
        return f"({of[0]} + {_ROUND}) - {_ROUND}"
    if name == "two_to":
        return f"(({of[0]}.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)"
    if name in ("exp", "log", "floor"):
        return f"tl.{name}({of[0]})"
    if name == "sqrt":
        return f"libdevice.sqrt({of[0]})"
    return f"libdevice.{name}({of[0]})"


def function(name: str, graph: Graph, inputs: tuple[str, ...]) -> Any:
    """A function for kernels that does what the graph says."""
    text = graph.text(name, inputs, _call)
    file = f"<dpconvex {name} {hash(text)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    made: dict[str, Any] = {"tl": tl, "libdevice": libdevice, "__name__": __name__}
    exec(compile(text, file, "exec"), made)
    return triton.jit(made[name])


@lru_cache(maxsize=64, typed=True)
def _slope(loss: Any) -> Any:
    return function("slope", traced(loss, "slope"), ("z", "y"))


# Sums ---------------------------------------------------------------------------------------------------------------


@triton.jit
def two_sum(a, b):
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


@triton.jit
def join(a, a_low, b, b_low):
    total, error = two_sum(a, b)
    return total, (a_low + b_low) + error


@triton.jit
def _tree(pairs, out, count, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Join the pairs of all groups, column by column, by a tree."""
    rows, cols = tl.arange(0, ROWS), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    there = (rows[:, None] < count) & (cols[None, :] < width)
    at = pairs + (2 * rows[:, None]).to(tl.int64) * width + cols[None, :]
    high, low = tl.load(at, mask=there, other=0.0), tl.load(at + width, mask=there, other=0.0)
    high, low = tl.reduce((high, low), 0, join)
    tl.store(out + cols, high, mask=cols < width)
    tl.store(out + width + cols, low, mask=cols < width)


def _joined(pairs: torch.Tensor) -> torch.Tensor:
    """The sum of pairs (groups, 2, ...) as a pair."""
    count, width = len(pairs), pairs[0, 0].numel()
    out = torch.empty_like(pairs[0])
    rows = triton.next_power_of_2(count)
    _tree[(triton.cdiv(width, 8),)](pairs, out, count, width, ROWS=rows, COLUMNS=8, num_warps=8)
    return out


def groups_of(n: int) -> tuple[int, int]:
    """How many groups, and blocks in each."""
    blocks = -(-n // BLOCK)
    per = -(-blocks // GROUPS)
    return -(-blocks // per), per


def constants(X: torch.Tensor, *numbers: float) -> torch.Tensor:
    """Numbers for a kernel: given as they are, they would be rounded to float32."""
    return torch.tensor(numbers, dtype=torch.float64, device=X.device)


@triton.jit
def _sweep_kernel(
    X, units, n, wide, W, numbers, y, lengths, shorten, omega, kept, out, per,
    slope: tl.constexpr, MODE: tl.constexpr, WEIGHTED: tl.constexpr, KEEP: tl.constexpr, CONSTANT: tl.constexpr,
    UNIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr, SPREAD: tl.constexpr,
):  # fmt: skip
    group, d = tl.program_id(0), wide * UNIT
    cols = tl.arange(0, COLUMNS)
    inside = cols < d
    w = tl.load(W + cols, mask=inside, other=0.0)
    constant, clip = tl.load(numbers), tl.load(numbers + 1)
    added = constant * 0.0
    if CONSTANT:
        added = tl.load(W + d) * constant
    width = d + (1 if CONSTANT else 0)
    to = out + (2 * group).to(tl.int64) * width
    first = group * per
    for block in range(first, tl.minimum(first + per, tl.cdiv(n, 1024))):
        total, ones = tl.zeros([COLUMNS], tl.float64), constant * 0.0
        for tile in tl.range(0, 1024 // ROWS, num_stages=STAGES):
            rows = block * 1024 + tile * ROWS + tl.arange(0, ROWS)
            there = rows < n
            at = X + rows[:, None].to(tl.int64) * units * UNIT + cols[None, :]
            x = tl.load(at, mask=there[:, None] & inside[None, :], other=0.0).to(tl.float64)
            z = tl.sum(x * w[None, :], axis=1)
            which = tl.arange(0, SPREAD) % ROWS  # a slope per thread, not all slopes in each
            mine = block * 1024 + tile * ROWS + which
            valid = mine < n
            z = tl.gather(z, which, 0)
            factor = tl.load(shorten + mine, mask=valid, other=0.0)
            label = tl.load(y + mine, mask=valid, other=1.0)
            z = tl.where(factor > 0.0, factor * z, 0.0) + added
            if KEEP:
                tl.store(kept + mine, z, mask=valid)
            r = label * z if MODE == 2 else slope(z, label)
            if MODE == 1:
                length = tl.load(lengths + mine, mask=valid, other=1.0)
                cut = clip / tl.maximum(tl.abs(r) * length, clip)
                r = tl.where(cut >= 1e-290, r * cut, 0.0)
            if WEIGHTED:
                r = r * tl.load(omega + mine, mask=valid, other=0.0)
            r = tl.where(valid, r, 0.0)
            s = r * factor
            s = tl.gather(s, tl.arange(0, ROWS), 0)
            total += tl.sum(x * s[:, None], axis=0)
            if CONSTANT:
                ones += tl.sum(tl.gather(r, tl.arange(0, ROWS), 0), axis=0)
        if block == first:
            tl.store(to + cols, total, mask=inside)
            tl.store(to + width + cols, total * 0.0, mask=inside)
            if CONSTANT:
                tl.store(to + d, ones * constant)
                tl.store(to + width + d, constant * 0.0)
        else:
            high, low = tl.load(to + cols, mask=inside), tl.load(to + width + cols, mask=inside)
            high, low = join(high, low, total, 0.0)
            tl.store(to + cols, high, mask=inside)
            tl.store(to + width + cols, low, mask=inside)
            if CONSTANT:
                high, low = join(tl.load(to + d), tl.load(to + width + d), ones * constant, 0.0)
                tl.debug_barrier()
                tl.store(to + d, high)
                tl.store(to + width + d, low)
        tl.debug_barrier()


def units_of(X: torch.Tensor, d: int) -> tuple[int, int, int]:
    """Distance of rows, their length, and the number of entries that both are counted in: loads are that wide."""
    aligned = X.data_ptr() % 16 == 0
    unit = next((unit for unit in (4, 2) if aligned and X.stride(0) % unit == 0 and d % unit == 0), 1)
    return X.stride(0) // unit, d // unit, unit


def _tile(d: int) -> dict[str, int]:
    """Rows and columns that a program holds at a time: what was fastest at 1000 columns."""
    columns = max(128, triton.next_power_of_2(d))
    warps = max(1, columns // 512)
    rows = max(4, min(16, 4096 // columns))
    return {"ROWS": rows, "COLUMNS": columns, "STAGES": 4, "num_warps": warps, "SPREAD": 32 * warps}


def sweep(
    X: torch.Tensor,
    d: int,
    W: torch.Tensor,
    constant: float,
    y: torch.Tensor,
    shorten: torch.Tensor,
    omega: torch.Tensor | None,
    *,
    loss: Any = None,
    mode: int = SLOPE,
    lengths: torch.Tensor | None = None,
    clip: float = 1.0,
    kept: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sum of r_i x_i as a pair, in one pass: r_i the slope at <x_i, w>, clipped perhaps, or y_i <x_i, w>.

    Predictions are stored in `kept`, if given.
    """
    n, (units, wide, unit) = len(X), units_of(X, d)
    count, per = groups_of(n)
    out = torch.empty((count, 2, len(W)), dtype=torch.float64, device=X.device)
    slope = _slope(loss if loss is not None else Logistic())
    _sweep_kernel[(count,)](
        X, units, n, wide, W, constants(X, constant, clip), y, y if lengths is None else lengths, shorten,
        y if omega is None else omega, y if kept is None else kept, out, per, slope=slope, MODE=mode,
        WEIGHTED=omega is not None, KEEP=kept is not None, CONSTANT=constant != 0.0, UNIT=unit, **_tile(d),
    )  # fmt: skip
    return _joined(out)


@triton.jit
def _squares_kernel(X, units, n, wide, out, UNIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = rows < n
    at = X + rows[:, None].to(tl.int64) * units * UNIT
    total = tl.zeros([ROWS, COLUMNS], tl.float64)
    for start in range(0, wide * UNIT, COLUMNS):
        cols = start + tl.arange(0, COLUMNS)
        x = tl.load(at + cols[None, :], mask=there[:, None] & (cols < wide * UNIT)[None, :], other=0.0).to(tl.float64)
        total = tl.fma(x, x, total)
    tl.store(out + rows, tl.sum(total, axis=1), mask=there)


def squares(X: torch.Tensor, d: int) -> torch.Tensor:
    """Squared norms of the rows."""
    n, (units, wide, unit) = len(X), units_of(X, d)
    out = torch.empty(n, dtype=torch.float64, device=X.device)
    _squares_kernel[(n,)](X, units, n, wide, out, UNIT=unit, ROWS=1, COLUMNS=1024, num_warps=4)
    return out


# Any number of predictions a row, in two passes -----------------------------------------------------------------------


@triton.jit
def _predict_kernel(
    X, units, n, wide, W, width, out, shorten, numbers,
    K: tl.constexpr, PADDED: tl.constexpr, CONSTANT: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    d = wide * UNIT
    rows, ks = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, PADDED)
    there = rows < n
    at = X + rows[:, None].to(tl.int64) * units * UNIT
    z = tl.zeros([ROWS, PADDED], tl.float64)
    for start in range(0, d, 1024):
        part = tl.zeros([ROWS, PADDED], tl.float64)
        for first in tl.range(start, tl.minimum(start + 1024, d), COLUMNS, num_stages=STAGES):
            cols = first + tl.arange(0, COLUMNS)
            x = tl.load(at + cols[None, :], mask=there[:, None] & (cols < d)[None, :], other=0.0)
            w = tl.load(
                W + ks[None, :] * width + cols[:, None], mask=(cols < d)[:, None] & (ks < K)[None, :], other=0.0
            )
            part = tl.dot(x.to(tl.float64), w, part, out_dtype=tl.float64)
        z += part
    factor = tl.load(shorten + rows, mask=there, other=0.0)[:, None]
    z = tl.where(factor > 0.0, factor * z, 0.0)
    if CONSTANT:
        z += tl.load(numbers) * tl.load(W + ks * width + d, mask=ks < K, other=0.0)[None, :]
    tl.store(out + rows[:, None].to(tl.int64) * K + ks[None, :], z, mask=there[:, None] & (ks < K)[None, :])


def predict(
    X: torch.Tensor,
    d: int,
    W: torch.Tensor,
    constant: float,
    shorten: torch.Tensor,
) -> torch.Tensor:
    """Predictions (n, K) of the rows for weights (K, size)."""
    n, K, (units, wide, unit) = len(X), len(W), units_of(X, d)
    chosen = {"ROWS": 64, "COLUMNS": 64, "STAGES": 4, "num_warps": 4}
    out = torch.empty((n, K), dtype=torch.float64, device=X.device)
    _predict_kernel[(triton.cdiv(n, chosen["ROWS"]),)](
        X, units, n, wide, W, W.shape[1], out, shorten, constants(X, constant), K=K,
        PADDED=max(16, triton.next_power_of_2(K)), CONSTANT=constant != 0.0, UNIT=unit, **chosen,
    )  # fmt: skip
    return out


@triton.jit
def _adjoint_kernel(
    X, units, n, wide, R, shorten, out, width, per,
    K: tl.constexpr, PADDED: tl.constexpr, SQUARED: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    d = wide * UNIT
    cols, group = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.program_id(1)
    ks = tl.arange(0, PADDED)
    high, low = tl.zeros([PADDED, COLUMNS], tl.float64), tl.zeros([PADDED, COLUMNS], tl.float64)
    first = group * per
    for block in range(first, tl.minimum(first + per, tl.cdiv(n, 1024))):
        total = tl.zeros([PADDED, COLUMNS], tl.float64)
        for tile in tl.range(0, 1024 // ROWS, num_stages=STAGES):
            rows = block * 1024 + tile * ROWS + tl.arange(0, ROWS)
            there = rows < n
            at = X + rows[:, None].to(tl.int64) * units * UNIT + cols[None, :]
            x = tl.load(at, mask=there[:, None] & (cols < d)[None, :], other=0.0).to(tl.float64)
            r = tl.load(
                R + rows[None, :].to(tl.int64) * K + ks[:, None], mask=(ks < K)[:, None] & there[None, :], other=0.0
            )
            factor = tl.load(shorten + rows, mask=there, other=0.0)
            if SQUARED:
                x *= factor[:, None]
                x *= x
            else:
                r *= factor[None, :]
            total = tl.dot(r, x, total, out_dtype=tl.float64)
        high, low = join(high, low, total, 0.0)
    to = out + (2 * group * K + ks[:, None]).to(tl.int64) * width + cols[None, :]
    fits = (ks < K)[:, None] & (cols < d)[None, :]
    tl.store(to, high, mask=fits)
    tl.store(to + K * width, low, mask=fits)


def adjoint(
    X: torch.Tensor,
    d: int,
    R: torch.Tensor,
    constant: float,
    shorten: torch.Tensor,
    *,
    squared: bool = False,
) -> torch.Tensor:
    """Sum of r_i x_i as a pair (2, K, size) for answers R of shape (n, K); or of r_i x_i^2, entry by entry."""
    (n, K), (units, wide, unit) = R.shape, units_of(X, d)
    count, per = groups_of(n)
    size = d + (constant != 0.0)
    out = torch.empty((count, 2, K, size), dtype=torch.float64, device=X.device)
    chosen = {"ROWS": 16, "COLUMNS": 256, "STAGES": 4, "num_warps": 4}
    _adjoint_kernel[(triton.cdiv(d, chosen["COLUMNS"]), count)](
        X, units, n, wide, R, shorten, out, size, per, K=K, PADDED=max(16, triton.next_power_of_2(K)), SQUARED=squared,
        UNIT=unit, **chosen,
    )  # fmt: skip
    if constant == 0.0:
        return _joined(out)
    out[..., d] = 0.0
    pair = _joined(out)
    blocks = torch.zeros((count * per * BLOCK, K), dtype=torch.float64, device=X.device)
    blocks[:n] = R
    sums = (constant * constant if squared else constant) * blocks.reshape(count * per, BLOCK, K).sum(dim=1)
    pair[:, :, d] = _long(torch.stack([sums, torch.zeros_like(sums)], dim=1))
    return pair


def _long(pairs: torch.Tensor) -> torch.Tensor:
    """The sum of any number of pairs."""
    while len(pairs) > GROUPS:
        pairs = torch.stack([_joined(part) for part in pairs.split(GROUPS)])
    return _joined(pairs)
