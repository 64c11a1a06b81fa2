"""Noise for running sums released after every round: far less than independent noise on each sum would be."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dpconvex.errors import InputError
from dpconvex.noise.factors import Factor, factor_of, memory_of, rows_until
from dpconvex.noise.gaussian import standard_normals
from dpconvex.noise.rounded import ratio_of, settle
from dpconvex.noise.source import Owner, Source, Stream
from dpconvex.rounding import round_up

if TYPE_CHECKING:
    from dpconvex.noise.rounds import Rounds

BACKENDS = ("blt", "tree", "honaker", "independent")
LONGEST = 10**9  # horizon
GROWTH = 16  # factor by which epochs of an open horizon grow
FORMAT = "dpconvex-prefix-sum/2"
_CHUNK, _ENTRIES = 256, 2**16  # rounds whose words are drawn at once, and words, at most
# Computes the increments of the next rounds, compiled: run(rounds, first, at, entered, sums, out). Rows of `out` are
# the noisy sums after `first` rounds of this call and more; those from `at` on are to be filled, and `sums`, the sum
# before them, kept in step. Each goes through `enter` and `leave`. Where `enter` returns more than 0 the loop stops and
# returns that row; it is called again with it, `entered`. At the end it returns the number of rows.
Run = Callable[["Rounds", int, int, bool, np.ndarray, np.ndarray], int]
_FIELDS = ("backend", "horizon", "count")


@dataclass(frozen=True)
class PrefixSum:
    """Correlated Gaussian noise for running sums that are mu-GDP all together.

    Round t adds an increment g_t, which one record changes by at most s_t, and every record is used in one round. For
    every t a noisy g_1 + ... + g_t is released. Increments and scales s_t may depend on everything released before.
    Scales must not depend on the data in any other way.

    What is released are rows of C x, x_t = g_t / s_t, for a factorisation B C of the matrix of running sums, with
    independent Gaussian noise that is rounded to a grid, exactly. Sums are computed from those.

    Parameters
    ----------
    backend : {"blt", "tree", "honaker", "independent"}
        How noise is correlated. "blt" has nearly the least error and remembers five numbers a coordinate. "honaker"
        and "tree" are for comparison, and so is "independent": fresh noise on every increment, whose sum grows like
        the square root of the rounds.
    horizon : int, optional
        Largest number of rounds. None is an open horizon: rounds fall into epochs of 16, 256, 4096, ..., each with
        independent noise. This costs no privacy, but the errors of the epochs add up.
    count : {"exact", "paper"}
        Number of tree nodes that contain a record, for T rounds: floor(log2 T) + 1, or the log2(2T) of Zhang, Tran and
        Cutkosky (2022), which adds more noise than needed.

    Examples
    --------
    >>> noise = PrefixSum("blt", horizon=1000)
    >>> round(noise.rms_error(), 2), round(noise.max_error(), 2), round(1000**0.5, 2)  # and of fresh noise on each sum
    (3.09, 3.27, 31.62)
    >>> stream = noise.stream(d=3, scale=2.0, grid=2.0**-20, source=Source())  # 0.5-GDP
    >>> stream.add(np.zeros((2, 3)), scales=[2.0, 0.1]).shape, stream.round
    ((2, 3), 2)
    """

    backend: str
    horizon: int | None = None
    count: str = "exact"

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise InputError(f"backend must be one of {', '.join(BACKENDS)}, got {self.backend!r}")
        if self.count not in ("exact", "paper") or (self.count == "paper" and self.backend != "tree"):
            raise InputError("count must be 'exact', or 'paper' with the back-end 'tree'")
        if self.horizon is not None:
            object.__setattr__(self, "horizon", _whole(self.horizon, "horizon"))
            if self.horizon > LONGEST:
                raise InputError(f"horizon must be at most {LONGEST}")

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
        last = int(math.log(LONGEST, GROWTH) + 1e-9)
        return sum(GROWTH**epoch for epoch in range(1, last + 1))

    def stream(
        self, d: int, scale: float, grid: float, source: Source, name: str = "prefix sum"
    ) -> PrefixSumStream:  # fmt: skip
        """Noisy running sums of d coordinates, which are 1/scale-GDP if a record moves an increment by its scale.

        Rows of C x lie on the grid, a power of two. Use each name once: it determines the noise.
        """
        if not isinstance(source, Source):
            raise InputError(f"source must be a Source, got {type(source).__name__}")
        return PrefixSumStream(self, d, scale, grid, source.stream(name).words(4).tobytes())

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
            stream = PrefixSumStream(noise, saved["d"], saved["scale"], saved["grid"], bytes.fromhex(saved["key"]))
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
        if (self.horizon is not None and epoch) or length > LONGEST:
            raise InputError("no round is left")
        return factor_of(self.backend, length)

    def _square(self, factor: Factor) -> float:
        return math.log2(2 * factor.horizon) if self.count == "paper" else _square(self.backend, factor.horizon)


class PrefixSumStream:
    """One sequence of noisy running sums, round by round; returned by `PrefixSum.stream`.

    Examples
    --------
    >>> stream = PrefixSum("blt", horizon=10).stream(d=2, scale=2.0, grid=2.0**-20, source=Source())
    >>> first, state = stream.add([[0.5, 0.0]], scales=[1.0]), stream.state()
    >>> again = PrefixSum.resume(state)  # the state is as secret as the data
    >>> bool((stream.add([[0.0, 0.5]], [1.0]) == again.add([[0.0, 0.5]], [1.0])).all())
    True
    """

    def __init__(self, noise: PrefixSum, d: int, scale: float, grid: float, key: bytes) -> None:
        self.noise, self.d, self.round = noise, _whole(d, "d"), 0
        self.scale, self.grid = _positive(scale, "scale"), _positive(grid, "grid")
        self._key, self._owner, self._interrupted = key, Owner(), False
        self._sum = np.zeros(self.d)
        self._epoch, self._start, self._used = 0, 0, 0  # the chunk begins after round `start` of the epoch
        self._factor, self._length = noise._factor(0), _length(self.d)
        self._memory, self._ratio = memory_of(self._factor, self.d), self._deviation()
        self._chunk: tuple[Stream, np.ndarray, np.ndarray] | None = None  # words and the variates made of them

    def add(self, increments: np.ndarray, scales: Sequence[float] | np.ndarray) -> np.ndarray:
        """Noisy running sums after each of the next rounds, read-only: a row of increments and a scale per round."""
        given, sizes = np.array(increments, dtype=float, order="C"), np.array(scales, dtype=float)
        if sizes.ndim != 1 or not (np.isfinite(sizes) & (sizes > 0.0)).all():
            raise InputError("scales must be a sequence of positive, finite numbers, one per round")
        if given.shape != (sizes.size, self.d):
            raise InputError(f"increments must be rows of {self.d} numbers, one per scale")
        found = self.lead(sizes.size, adding(given, sizes))
        found.setflags(write=False)
        return found

    def lead(self, count: int, run: Run) -> np.ndarray:
        """Noisy running sums after the next rounds, whose increments a compiled loop computes from the sums before."""
        self._check(count)
        found, have = np.empty((count, self.d)), 0
        while have < count:
            stream, words, noise = self._current()
            kind, first = self._factor.form.kind, self._start + self._used
            part = min(count - have, self._left())
            above = rows_until(kind, self._start)
            rows = slice(rows_until(kind, first) - above, rows_until(kind, first + part) - above)
            rounds = self._rounds(first, part, words[rows], noise[rows])
            self._used, self.round = self._used + part, self.round + part
            self._interrupted = True
            out, at, entered = found[have : have + part], 0, False
            while (at := run(rounds, have, at, entered, self._sum, out)) < part:
                self._settle(stream, rounds, at, rows.start)
                entered = True
            self._interrupted, have = False, have + part
        return found

    def state(self) -> dict[str, Any]:
        """State needed to continue, as numbers, text and arrays.

        It is as secret as the data: it holds sums of increments without noise, and the key of the noise to come.
        Continue from a state only once: two streams continued from one state have the same noise, which cancels if
        they are given different data.
        """
        self._check(0)
        return {
            "format": FORMAT,
            **{field: getattr(self.noise, field) for field in _FIELDS},
            "d": self.d,
            "scale": self.scale,
            "grid": self.grid,
            "key": self._key.hex(),
            "round": self.round,
            "epoch": self._epoch,
            "start": self._start,
            "used": self._used,
            "sum": self._sum.copy(),
            "memory": self._memory.copy(),
        }

    @property
    def last(self) -> np.ndarray:
        """Noisy sum after the last round, or 0."""
        return self._sum.copy()

    def _restore(self, saved: Mapping[str, Any]) -> None:
        self.round, self._epoch, self._start, self._used = (saved[k] for k in ("round", "epoch", "start", "used"))
        self._factor = self.noise._factor(self._epoch)
        self._ratio, shape = self._deviation(), self._memory.shape
        if self._epoch:
            shape = memory_of(self._factor, self.d).shape
        self._sum, self._memory = (np.array(saved[name], dtype=float) for name in ("sum", "memory"))
        before = sum(self.noise._factor(epoch).horizon for epoch in range(self._epoch))
        sound = (
            len(self._key) == 32
            and self.round == before + self._start + self._used
            and 0 <= self._start < self._factor.horizon
            and self._start % self._length == 0
            and 0 <= self._used <= min(self._length, self._factor.horizon - self._start)
            and (self._sum.shape, self._memory.shape) == ((self.d,), shape)
            and bool(np.isfinite(self._sum).all() and np.isfinite(self._memory).all())
        )
        if not sound:
            raise InputError("the state of this prefix-sum stream contradicts itself: take one with its method state()")

    def _check(self, count: int) -> None:
        self._owner.check()
        if self._interrupted:
            raise InputError("these running sums were interrupted, and end here: their noise would be used twice")
        horizon = self.noise.horizon
        if horizon is not None and self.round + count > horizon:
            raise InputError(
                f"round {self.round + count} is past the horizon of {horizon} rounds: declare a longer one, or None"
            )

    def _left(self) -> int:
        """Rounds left of the chunk."""
        return min(self._length, self._factor.horizon - self._start) - self._used

    def _current(self) -> tuple[Stream, np.ndarray, np.ndarray]:
        """The chunk that holds the next round."""
        if not self._left():
            start, memory = self._start + self._length, self._memory
            epoch, factor = self._epoch, self._factor
            if start >= factor.horizon:
                epoch, start, factor = epoch + 1, 0, self.noise._factor(epoch + 1)
                memory = memory_of(factor, self.d)
            self._chunk = None  # first, so that no noise is used twice if this is interrupted
            self._epoch, self._factor, self._start, self._used, self._memory = epoch, factor, start, 0, memory
            self._key, self._ratio = _derived(self._key, "next"), self._deviation()  # which reveals no earlier chunk
        if self._chunk is None:
            self._chunk = self._drawn()
        return self._chunk

    def _drawn(self) -> tuple[Stream, np.ndarray, np.ndarray]:
        stream = Stream(_derived(self._key, "chunk"))  # each chunk has words of its own, so it can be drawn again
        kind, end = self._factor.form.kind, self._start + self._used + self._left()
        rows = rows_until(kind, end) - rows_until(kind, self._start)
        words = stream.words(rows * self.d)
        return stream, words.reshape(rows, self.d), standard_normals(words).reshape(rows, self.d)

    def _rounds(self, before: int, count: int, words: np.ndarray, noise: np.ndarray) -> Rounds:
        from dpconvex.noise.rounds import noisy_rounds

        return noisy_rounds(self._factor, self._memory, before, count, words, noise, self._ratio, self.grid)

    def _settle(self, stream: Stream, rounds: Rounds, at: int, above: int) -> None:
        """Decide what float64 could not round in a round that was entered."""
        first, last = rounds.firsts[at : at + 2].tolist()
        for row, i in np.argwhere(rounds.unsure[: last - first]).tolist():
            word, value, place = rounds.words[first + row, i], rounds.values[row, i], (above + first + row) * self.d + i
            rounds.noise[first + row, i] = settle(stream, place, int(word), float(value), self._ratio, self.grid)

    def _deviation(self) -> float:
        """Standard deviation of the noise on rows of C, in multiples of the grid."""
        return ratio_of(math.sqrt(self.noise._square(self._factor)) * self.scale, self.grid)

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
    return round_up(exact * (1.0 + 1e-13)) if backend == "blt" else exact


def _derived(key: bytes, name: str) -> bytes:
    return hashlib.blake2b(name.encode(), key=key, digest_size=32).digest()


def adding(increments: np.ndarray, scales: np.ndarray) -> Run:
    """Run of rounds whose increments and scales are known."""
    from dpconvex.noise.rounds import add_up

    def run(rounds: Rounds, first: int, at: int, entered: bool, sums: np.ndarray, out: np.ndarray) -> int:
        part = slice(first, first + len(out))
        return int(add_up(rounds, at, entered, increments[part], scales[part], sums, out))

    return run


def after(run: Run, done: int) -> Run:
    """The same run, of which that many rounds are done."""
    return lambda rounds, first, at, entered, sums, out: run(rounds, done + first, at, entered, sums, out)


def lead_given(noise: np.ndarray, sums: np.ndarray, run: Run) -> np.ndarray:
    """What a run makes of that noise on the increments, for looking at what it does: never release it."""
    from dpconvex.noise.rounds import given_rounds

    out, factor = np.empty(noise.shape), factor_of("independent", len(noise))
    rounds = given_rounds(factor, memory_of(factor, noise.shape[1]), 0, len(noise), noise.copy())
    run(rounds, 0, 0, False, sums.copy(), out)
    return out


def decoded(factor: Factor, noise: np.ndarray, rounds: int) -> np.ndarray:
    """Increments of the running sums when rows of C x are the given ones, for looking at the law of noise."""
    from dpconvex.noise.rounds import add_up, given_rounds

    made = given_rounds(factor, memory_of(factor, noise.shape[1]), 0, rounds, noise.copy())
    out = np.empty((rounds, noise.shape[1]))
    add_up(made, 0, False, np.zeros(out.shape), np.ones(rounds), np.zeros(noise.shape[1]), out)
    return np.diff(out, axis=0, prepend=0.0)


def _length(d: int) -> int:
    """Rounds of a chunk, a power of 2."""
    return 1 << min(_CHUNK, max(1, _ENTRIES // d)).bit_length() - 1


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1")
    return int(value)


def _positive(value: object, name: str) -> float:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not 0.0 < float(value) < math.inf:  # type: ignore[arg-type]
        raise InputError(f"{name} must be a positive, finite number")
    return float(value)  # type: ignore[arg-type]
