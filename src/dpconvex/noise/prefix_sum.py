"""Noise for running sums released after every round: far less than independent noise on each sum would be."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from dpconvex.errors import InputError
from dpconvex.noise.factors import CHUNK, Factor, Toeplitz, factor_of
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.source import Owner, Source, Stream
from dpconvex.rounding import round_up

LONGEST = {"tree": 10**9, "honaker": 10**9, "toeplitz": 2**24, "blt": 10**9, "independent": 10**9}  # horizons
GROWTH = 16  # factor by which epochs of an open horizon grow
FORMAT = "dpconvex-prefix-sum/1"
_FIELDS = ("backend", "horizon", "count")


@dataclass(frozen=True)
class PrefixSum:
    """Correlated Gaussian noise for running sums that are mu-GDP all together.

    Round t adds an increment g_t, which one record changes by at most s_t, and every record is used in one round. For
    every t the sum g_1 + ... + g_t is released with noise s_1 zeta_1 + ... + s_t zeta_t. Increments and scales s_t may
    depend on everything released before. Scales must not depend on the data in any other way.

    Parameters
    ----------
    backend : {"tree", "honaker", "toeplitz", "blt", "independent"}
        How noise is correlated. "blt" has nearly the least error and stores numbers for a few rounds only. "toeplitz"
        is as good, but stores all the rounds (twice, in 64 bits). "honaker" and "tree" are for comparison, and so is
        "independent": fresh noise on every increment, whose sum grows like the square root of the rounds.
    horizon : int, optional
        Largest number of rounds. None is an open horizon: rounds fall into epochs of 16, 256, 4096, ..., each with
        independent noise. This costs no privacy, but the errors of the epochs add up.
    count : {"exact", "paper"}
        Number of tree nodes that contain a record, for T rounds: floor(log2 T) + 1, or the log2(2T) of Zhang, Tran and
        Cutkosky (2022), which adds more noise than needed.

    Examples
    --------
    >>> noise = PrefixSum("toeplitz", horizon=1000)
    >>> round(noise.rms_error(), 2), round(noise.max_error(), 2), round(1000**0.5, 2)  # and of fresh noise on each sum
    (3.1, 3.27, 31.62)
    >>> stream = noise.stream(d=3, mu=0.5, source=Source())
    >>> stream.next(scale=2.0).shape, stream.block(scales=[2.0, 0.1]).shape, stream.round
    ((3,), (2, 3), 3)
    """

    backend: str
    horizon: int | None = None
    count: str = "exact"

    def __post_init__(self) -> None:
        if self.backend not in LONGEST:
            raise InputError(f"backend must be one of {', '.join(LONGEST)}, got {self.backend!r}")
        if self.count not in ("exact", "paper") or (self.count == "paper" and self.backend != "tree"):
            raise InputError("count must be 'exact', or 'paper' with the back-end 'tree'")
        if self.horizon is not None:
            longest = LONGEST[self.backend]
            object.__setattr__(self, "horizon", _whole(self.horizon, "horizon"))
            if self.horizon > longest:
                raise InputError(
                    f"horizon must be at most {longest} with the back-end {self.backend!r}" + _longer(longest)
                )

    def rms_error(self, rounds: int | None = None) -> float:
        """Root mean square of the noise after rounds 1, ..., rounds, in units of s/mu if all scales are s.

        By default over all rounds of the horizon.
        """
        rounds, total, before = self._rounds(rounds), 0.0, 0.0
        for factor, part in self._parts(rounds):
            square = self._square(factor)
            total += part * before + square * factor.total_variance(part)
            before += square * factor.variance(part)
        return math.sqrt(total / rounds)

    def max_error(self, rounds: int | None = None) -> float:
        """Largest standard deviation of the noise after any of the rounds 1, ..., rounds, in units of s/mu."""
        largest, before = 0.0, 0.0
        for factor, part in self._parts(self._rounds(rounds)):
            square = self._square(factor)
            largest = max(largest, before + square * factor.largest_variance(part))
            before += square * factor.variance(part)
        return math.sqrt(largest)

    def longest(self) -> int:
        """Largest number of rounds: the horizon, or for an open one the total of its epochs."""
        if self.horizon is not None:
            return self.horizon
        last = int(math.log(LONGEST[self.backend], GROWTH) + 1e-9)
        return sum(GROWTH**epoch for epoch in range(1, last + 1))

    def stream(self, d: int, mu: float, source: Source, name: str = "prefix sum") -> PrefixSumStream:
        """Noise of d coordinates that makes the running sums mu-GDP. Use each name once: it determines the noise."""
        if not isinstance(source, Source):
            raise InputError(f"source must be a Source, got {type(source).__name__}")
        return PrefixSumStream(self, d, mu, source.stream(name).words(4).tobytes())

    @staticmethod
    def resume(saved: Mapping[str, Any]) -> PrefixSumStream:
        """Continue from a state returned by `PrefixSumStream.state`, with the same future noise.

        Raises
        ------
        InputError
            If `saved` is not such a state.
        """
        try:
            if saved["format"] != FORMAT:
                raise InputError(f"not the state of a prefix-sum stream: format {FORMAT!r} expected")
            noise = PrefixSum(*(saved[field] for field in _FIELDS))
            stream = PrefixSumStream(noise, saved["d"], saved["mu"], bytes.fromhex(saved["key"]))
            stream._restore(saved)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError("not the state of a prefix-sum stream: take one with its method state()") from None
        return stream

    def _rounds(self, rounds: int | None) -> int:
        if rounds is None and self.horizon is None:
            raise InputError("the horizon is open: pass the number of rounds")
        whole = _whole(self.horizon if rounds is None else rounds, "rounds")
        if self.horizon is not None and whole > self.horizon:
            raise InputError(f"rounds must be at most the horizon {self.horizon}")
        return whole

    def _parts(self, rounds: int) -> Iterator[tuple[Factor, int]]:
        """The factor of each epoch, and how many of the first `rounds` rounds fall into it."""
        epoch = 0
        while rounds:
            factor = self._factor(epoch)
            part = min(rounds, factor.horizon)
            yield factor, part
            rounds, epoch = rounds - part, epoch + 1

    def _factor(self, epoch: int) -> Factor:
        length = self.horizon if self.horizon is not None else GROWTH ** (epoch + 1)
        if (self.horizon is not None and epoch) or length > LONGEST[self.backend]:
            raise InputError(f"no round is left with the back-end {self.backend!r}" + _longer(length))
        return factor_of(self.backend, length)

    def _square(self, factor: Factor) -> float:
        return math.log2(2 * factor.horizon) if self.count == "paper" else _square(self.backend, factor.horizon)


class PrefixSumStream:
    """The noise of one sequence of running sums, round by round; returned by `PrefixSum.stream`.

    Examples
    --------
    >>> stream = PrefixSum("blt", horizon=10).stream(d=2, mu=1.0, source=Source())
    >>> first, state = stream.next(), stream.state()
    >>> again = PrefixSum.resume(state)  # the state is as secret as the data
    >>> bool((stream.next(0.5) == again.next(0.5)).all())
    True
    """

    def __init__(self, noise: PrefixSum, d: int, mu: float, key: bytes) -> None:
        self.noise, self.d, self.mu, self.round = noise, _whole(d, "d"), _positive(mu, "mu"), 0
        self._key, self._owner = key, Owner()
        self._sum: np.ndarray | None = np.zeros(self.d)  # None once increments are handed out
        self._epoch, self._start, self._used = 0, 0, 0  # the chunk begins after round `start` of the epoch
        self._factor = noise._factor(0)
        self._memory = self._after = tuple(np.zeros(shape) for shape in self._factor.shapes(0, self.d))
        self._chunk: np.ndarray | None = None

    def next(self, scale: float = 1.0) -> np.ndarray:
        """Noise of the running sum after the next round, read-only: the last one plus scale times a new increment."""
        factor, so_far = _positive(scale, "scale"), self._sums()
        self._check(1)
        zeta = self._current()[self._used]
        self._used, self.round = self._used + 1, self.round + 1
        self._sum = factor * zeta + so_far
        self._sum.setflags(write=False)
        return self._sum

    def block(self, scales: Sequence[float] | np.ndarray) -> np.ndarray:
        """Noise of the running sums after each of the next rounds, read-only: what repeated calls of `next` return."""
        factors = np.array(scales, dtype=float)
        if factors.ndim != 1 or not (np.isfinite(factors) & (factors > 0.0)).all():
            raise InputError("scales must be a sequence of positive, finite numbers, one per round")
        so_far = self._sums()
        sums = factors[:, None] * self._take(len(factors))
        if len(sums):
            sums[0] += so_far
            np.cumsum(sums, axis=0, out=sums)
            self._sum = sums[-1].copy()
        sums.setflags(write=False)
        return sums

    def increments(self, count: int) -> np.ndarray:
        """The increments zeta of the next rounds, for loops that multiply them by the scales and sum them.

        A stream returns either increments or sums, never both: a sum would lack the increments returned before.
        """
        if self.round and self._sum is not None:
            raise InputError("this stream returns sums: take all rounds from it, or none, as increments")
        found = self._take(_whole(count, "count"))
        self._sum = None
        return found

    def state(self) -> dict[str, Any]:
        """State needed to continue, as numbers, text and arrays.

        It is as secret as the data, because it reveals the future noise and that of the last rounds (with "toeplitz",
        of all rounds). Continue from a state only once: two streams continued from one state have the same noise, which
        cancels if they are given different data.
        """
        self._owner.check()
        return {
            "format": FORMAT,
            **{field: getattr(self.noise, field) for field in _FIELDS},
            "d": self.d,
            "mu": self.mu,
            "key": self._key.hex(),
            "round": self.round,
            "epoch": self._epoch,
            "start": self._start,
            "used": self._used,
            "sum": None if self._sum is None else self._sum.copy(),
            "memory": [part.copy() for part in self._memory],
        }

    def _restore(self, saved: Mapping[str, Any]) -> None:
        self.round, self._epoch, self._start, self._used = (saved[k] for k in ("round", "epoch", "start", "used"))
        self._factor = self.noise._factor(self._epoch)
        self._sum = None if saved["sum"] is None else np.array(saved["sum"], dtype=float)
        self._memory = tuple(np.array(part, dtype=float) for part in saved["memory"])
        before = sum(self.noise._factor(epoch).horizon for epoch in range(self._epoch))
        arrays = [*self._memory, *(() if self._sum is None else (self._sum,))]
        shapes = [*self._factor.shapes(self._start, self.d), *(() if self._sum is None else ((self.d,),))]
        sound = (
            len(self._key) == 32
            and self.round == before + self._start + self._used
            and 0 <= self._start < self._factor.horizon
            and self._start % _length(self._factor) == 0
            and 0 <= self._used <= min(_length(self._factor), self._factor.horizon - self._start)
            and [part.shape for part in arrays] == shapes
            and all(np.isfinite(part).all() for part in arrays)
        )
        if not sound:
            raise InputError("the state of this prefix-sum stream contradicts itself: take one with its method state()")

    def _sums(self) -> np.ndarray:
        if self._sum is None:
            raise InputError("this stream hands out increments: the caller keeps the sums")
        return self._sum

    def _check(self, count: int) -> None:
        self._owner.check()
        horizon = self.noise.horizon
        if horizon is not None and self.round + count > horizon:
            raise InputError(
                f"round {self.round + count} is past the horizon of {horizon} rounds: declare a longer one, or None"
            )

    def _take(self, count: int) -> np.ndarray:
        self._check(count)
        found, have = np.empty((count, self.d)), 0
        while have < count:
            chunk = self._current()
            part = chunk[self._used : self._used + count - have]
            found[have : have + len(part)] = part
            have, self._used, self.round = have + len(part), self._used + len(part), self.round + len(part)
        return found

    def _current(self) -> np.ndarray:
        """The chunk of increments that holds the next round."""
        if self._chunk is None:
            self._chunk = self._made()
        if self._used == len(self._chunk):
            start, memory = self._start + len(self._chunk), self._after
            epoch, factor = self._epoch, self._factor
            if start == factor.horizon:
                epoch, start, factor = epoch + 1, 0, self.noise._factor(epoch + 1)
                memory = tuple(np.zeros(shape) for shape in factor.shapes(0, self.d))
            self._chunk = None  # first, so that no increment is returned twice if this is interrupted
            self._epoch, self._factor, self._start, self._used, self._memory = epoch, factor, start, 0, memory
            self._key = _derived(self._key, "next")  # the key of a chunk reveals nothing about earlier chunks
            self._chunk = self._made()
        return self._chunk

    def _made(self) -> np.ndarray:
        stream = Stream(_derived(self._key, "chunk"))  # each chunk has its own white noise, so it can be computed again
        zeta, self._after = self._factor.chunk(
            self._memory, self._start, lambda count: standard_normal(stream, (count, self.d))
        )
        zeta *= math.sqrt(self.noise._square(self._factor)) / self.mu
        return zeta[: self._factor.horizon - self._start]

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a prefix-sum stream cannot be copied or pickled: its noise must never be used twice; see state()"
        )

    __copy__ = __reduce__

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()


@lru_cache
def _square(backend: str, horizon: int) -> float:
    """Squared norm of the longest column of C, with room for the rounding of products and sums of that many terms."""
    exact = factor_of(backend, horizon).squared_norm
    return exact if backend in ("tree", "honaker", "independent") else round_up(exact * (1.0 + 1e-15 * (100 + horizon)))


def _derived(key: bytes, name: str) -> bytes:
    return hashlib.blake2b(name.encode(), key=key, digest_size=32).digest()


def _length(factor: Factor) -> int:
    return factor.block if isinstance(factor, Toeplitz) else CHUNK


def _longer(length: int) -> str:
    return "; take 'blt'" if length < LONGEST["blt"] else ""


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1")
    return int(value)


def _positive(value: object, name: str) -> float:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not 0.0 < float(value) < math.inf:  # type: ignore[arg-type]
        raise InputError(f"{name} must be a positive, finite number")
    return float(value)  # type: ignore[arg-type]
