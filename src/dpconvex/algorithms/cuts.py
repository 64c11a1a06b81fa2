"""Where records are cut into batches and phases."""

from __future__ import annotations

from dpconvex.theorems.schedules import Listed


def even_batches(n: int, batches: int) -> Listed:
    """Cut n records into batches that differ by at most one record, the larger ones last.

    Examples
    --------
    >>> even_batches(11, 4)
    Listed(entries=(2.0, 3.0), counts=(1, 3))
    """
    size, more = divmod(n, batches)
    return Listed((size, size + 1), (batches - more, more)) if more else Listed((size,), (batches,))


def halving(n: int, phases: int) -> list[int]:
    """Cut points of phases, each half as long as the one before: cumulative sizes rounded down, empty phases dropped.

    Examples
    --------
    >>> halving(20, 3)
    [0, 11, 17, 20]
    """
    whole = 2.0 - 2.0 ** (1 - phases)
    cuts = [int(n * (2.0 - 2.0 ** (1 - i)) / whole) for i in range(phases)]
    return sorted({*cuts, n})
