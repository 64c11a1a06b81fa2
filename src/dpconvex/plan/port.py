"""The noise port: the only way noise reaches a run.

There are two kinds of noise.

Enforced: `add`, `accumulate` and `select` add the noise themselves, as often as the claim says and at the scale it was
proved for, and keep the noisy values. The output of a run is computed from what the port has kept, so no algorithm can
scale this noise down or leave it out. Where the claim is about the last value of a release, earlier ones are dropped.
Of a choice the port keeps which entry was the largest under noise, and nothing else.

Trusted: `lend`, `lend_variates` and `lend_rounds` hand noise to a loop that has to use it inside (a tilt, a walk,
running sums), `lend_order` an order of records, `lend_sample` a secret sample of them, and `lend_stream` the randomness
itself. The port cannot see what the loop does with it. It notes the loop and a digest of its source (`trusted`), which
the receipt names; `dpconvex.audit.lent` has a check for each such loop that fails if the noise is not used.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from dpconvex.errors import ReleaseError
from dpconvex.kernel.claims import SAMPLING, Claim, Release, Scope
from dpconvex.loops.protocol import source_digest
from dpconvex.noise.bernoulli import chosen
from dpconvex.noise.counts import random_order
from dpconvex.noise.dithered import dithered
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.generalised import rounded_generalised, rounded_laplace
from dpconvex.noise.gumbel import noisy_argmax
from dpconvex.noise.prefix_sum import PrefixSum, PrefixSumStream, Run, adding, lead_given
from dpconvex.noise.rounded import Variates, rounded_gaussian
from dpconvex.noise.source import Source, Stream
from dpconvex.problem.renyi_law import RenyiLaw
from dpconvex.theorems.correlated_noise import PREFIX_SUMS
from dpconvex.theorems.generalised_gaussian import exponent_of
from dpconvex.theorems.laplace import LAPLACE
from dpconvex.theorems.report_noisy_max import GUMBEL

__all__ = ["NoisePort"]

Drawn = TypeVar("Drawn")


class Repetition(Source):
    """The streams of one run among several, apart from those of all others."""

    def __init__(self, source: Source, number: int) -> None:
        self._whole, self._number = source, number

    def stream(self, name: str) -> Stream:
        """Stream of that name in this repetition."""
        return self._whole.stream(f"repetition {self._number}/{name}")


class NoisePort:
    """Hands out the noise of a claim, by release name, each exactly as often as the claim says (mostly once).

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic(), dc.domains.L2Ball(1.0))
    >>> plan = dc.algorithms.PhasedSGD(phases=2).plan(problem, n=100, d=2, budget=dc.Budget(1.0, 1e-6))
    >>> port = NoisePort(plan.claim, Source())
    >>> noisy = port.add("phase 1", np.zeros(2))
    >>> port.add("phase 1", np.zeros(2))
    Traceback (most recent call last):
        ...
    dpconvex.errors.ReleaseError: release 'phase 1' was drawn before; it is drawn once
    """

    exact = True  # whether releases on a grid are rounded exactly; not where noise is given or left out

    def __init__(
        self,
        claim: Claim,
        source: Source,
        history: bool = True,
        choices: Sequence[str] = (),
        laws: Mapping[str, RenyiLaw] = MappingProxyType({}),
    ) -> None:
        self._releases = {r.name: r for r in claim.releases}
        self._laws = laws  # of the user's own
        self._choices = tuple(f"{label}/" for label in choices)
        self._trusted: dict[str, str] = {}
        self._drawn: Counter[str] = Counter()
        self._every = history and claim.scope is Scope.EVERY
        self._source = source
        self._streams: dict[str, Stream] = {}
        self._sums: dict[str, PrefixSumStream] = {}
        self._noisy: dict[str, list[np.ndarray]] = {}

    def add(self, name: str, value: np.ndarray) -> np.ndarray:
        """Return value plus the noise of that release, rounded to its grid, read-only."""
        release = self._planned(name)
        if release.law == GUMBEL:
            raise ReleaseError(f"release {name!r} is a choice: noisy values are not released, select an entry")
        if release.law in PREFIX_SUMS:
            raise ReleaseError(f"release {name!r} is a sequence of running sums: give their increments to accumulate")
        return self._keep(name, self._perturbed(release, value))

    def accumulate(self, name: str, increments: np.ndarray, scales: Sequence[float] | np.ndarray) -> np.ndarray:
        """Return the noisy running sums after each of the next rounds, read-only, one row a round.

        A row of `increments` is what its round adds. One record moves it by at most its scale times the sensitivity
        that the claim was proved for; a scale is computed from released values only.
        """
        release, sizes = self._planned(name), np.array(scales, dtype=float)
        if release.law not in PREFIX_SUMS:
            raise ReleaseError(f"release {name!r} is noise of law {release.law!r}, not of running sums")
        if increments.shape != (sizes.size, *release.shape) or sizes.ndim != 1 or increments.dtype != np.float64:
            raise ReleaseError(
                f"release {name!r} is planned for float64 increments of shape {release.shape}, one a scale"
            )
        if not sizes.size or not (np.isfinite(sizes) & (sizes > 0.0)).all():
            raise ReleaseError(f"release {name!r}: scales must be positive, finite numbers, at least one")
        if sizes.size > release.times - self._drawn[name]:
            raise ReleaseError(f"release {name!r} is planned for {release.times} rounds, fewer than are asked for")
        return self._keep_sums(release, sizes.size, adding(increments.reshape(sizes.size, -1), sizes))

    def lend(self, name: str, loop: Callable[..., Any]) -> np.ndarray:
        """Return the noise of a release, on its grid, for a loop that has to use it inside. The loop is trusted."""
        self._trust(loop)
        return self.add(name, np.zeros(self._planned(name).shape))

    def lend_variates(self, name: str, loop: Callable[..., Any]) -> Variates:
        """Return the variates of a release for a loop that adds them to values of its own, and rounds to the grid.

        Nothing is kept: the values stay hidden. The loop is trusted to scale the variates as the claim says, to round
        what it adds them to, and to leave to `Variates.settle` what float64 does not show.
        """
        self._trust(loop)
        release = self._planned(name)
        if release.law != "gaussian":
            raise ReleaseError(f"release {name!r} is noise of law {release.law!r}, not variates for a walk")
        variates = self._variates(release)
        self._drawn[name] += 1
        return variates

    def _variates(self, release: Release) -> Variates:
        if release.grid is None or not self.exact:
            return Variates.given(self._draw(release.name, release.law, release.shape), release.scale)
        return Variates.drawn(self._stream(release.name), release.shape, release.scale, release.grid)

    def lend_order(self, name: str, loop: Callable[..., Any]) -> np.ndarray:
        """Return a random order of as many records as the release has variates. The loop is trusted to follow it.

        It is that of independent real variates, exactly uniform: float64 variates would tie now and then. What is kept
        is the place of every record.
        """
        if not self.exact:
            return np.argsort(self.lend(name, loop))
        self._trust(loop)
        order = random_order(self._stream(name), self._planned(name).shape[0])
        self._keep(name, np.argsort(order).astype(float))
        return order

    def lend_stream(
        self, name: str, loop: Callable[..., Any], use: Callable[[Stream], Drawn], *, draws: int = 1, aside: str = ""
    ) -> Drawn:
        """Let a sampler, which is trusted, draw from the stream of a release; count that as `draws` of it.

        A sampler that draws nothing is refused. Without draws for what is drawn before any record was read. `aside`
        names another stream of the same release.
        """
        self._trust(loop)
        if draws:
            self._planned(name)
            self._drawn[name] += draws
        stream = self._stream(aside or name)
        before = stream.drawn
        result = use(stream)
        if stream.drawn == before:
            raise ReleaseError(f"release {name!r}: the sampler did not use the randomness that it was lent")
        return result

    def lend_rounds(self, name: str, rounds: int, run: Run, loop: Callable[..., Any]) -> np.ndarray:
        """Let a loop enter the next rounds, where each increment depends on the noisy sum before it.

        Noise is added to what the loop enters, and noisy sums come out. The loop is trusted to keep to them, and to
        enter nothing that one record moves by more than the sensitivity that the claim was proved for. `loop` is the
        compiled loop in `run`. Returns the noisy running sums, one row per round, which are kept.
        """
        self._trust(loop)
        release = self._planned(name)
        if release.law not in PREFIX_SUMS:
            raise ReleaseError(f"release {name!r} is noise of law {release.law!r}, not of running sums")
        if rounds > release.times - self._drawn[name]:
            raise ReleaseError(f"release {name!r} is planned for {release.times} rounds, fewer than are asked for")
        return self._keep_sums(release, rounds, run)

    def part(self, label: str, claim: Claim, number: int) -> NoisePort:
        """Port of one of the runs that a selection makes, with streams of its own: of a claim below that label."""
        if f"{label}/" not in self._choices:
            raise ReleaseError(f"{label!r} is not among the choices of this run")
        for release in claim.releases:
            if self._releases.get(f"{label}/{release.name}") != replace(release, name=f"{label}/{release.name}"):
                raise ReleaseError(f"release {release.name!r} is not planned below {label!r}")
        return NoisePort(claim, Repetition(self._source, number), laws=self._laws)

    def selected(self, part: NoisePort) -> None:
        """Trust what the part that is released has trusted; of the others nothing may be told, not even that."""
        self._trusted |= part.trusted

    @property
    def trusted(self) -> dict[str, str]:
        """Loops that were lent noise so far: name, and digest of the source."""
        return dict(self._trusted)

    def _trust(self, loop: Callable[..., Any]) -> None:
        function = getattr(loop, "py_func", loop)
        self._trusted[f"{function.__module__}.{function.__name__}"] = source_digest(loop)

    def left(self, name: str) -> int:
        """How often a release may still be drawn."""
        return self._releases[name].times - self._drawn[name]

    def _last_sum(self, release: Release) -> np.ndarray:
        return self._noisy[release.name][-1] if release.name in self._noisy else np.zeros(release.shape)

    def _keep_sums(self, release: Release, rounds: int, run: Run) -> np.ndarray:
        name, noisy = release.name, self._led(release, rounds, run).reshape(rounds, *release.shape)
        noisy.setflags(write=False)
        if self._every:
            self._noisy.setdefault(name, []).extend(noisy)
            self._drawn[name] += len(noisy)
        else:
            self._keep(name, noisy[-1].copy(), len(noisy))
        return noisy

    def _led(self, release: Release, rounds: int, run: Run) -> np.ndarray:
        if self.exact:
            return self._stream_of(release).lead(rounds, run)
        noise = release.scale * self._draw(release.name, release.law, (rounds, *release.shape))
        return lead_given(noise.reshape(rounds, -1), self._last_sum(release).ravel(), run)

    def _stream_of(self, release: Release) -> PrefixSumStream:
        if release.name not in self._sums:
            (backend, is_open), size = PREFIX_SUMS[release.law], math.prod(release.shape)
            noise = PrefixSum(backend, None if is_open else release.times)
            self._sums[release.name] = noise.stream(
                size, release.scale, float(release.grid or 0.0), self._source, release.name
            )
        return self._sums[release.name]

    def state(self) -> dict[str, Any]:
        """Everything needed to go on with running sums: as secret as the data, for it gives their noise away."""
        name, stream = next(iter(self._sums.items()))
        return {
            "name": name,
            "drawn": self._drawn[name],
            "stream": stream.state(),
            "trusted": self.trusted,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on where `state` was taken, with the noise that was to come."""
        name, release = saved["name"], self._releases.get(saved["name"])
        stream = PrefixSum.resume(saved["stream"])
        law = None if release is None else PREFIX_SUMS.get(release.law)
        if release is None or law is None or stream.noise != PrefixSum(law[0], None if law[1] else release.times):
            raise ReleaseError("the saved noise is not that of this plan")
        if (stream.scale, stream.grid, stream.d) != (release.scale, release.grid, math.prod(release.shape)):
            raise ReleaseError("the saved noise is not of the size of this plan's")
        if not stream.round == saved["drawn"] <= release.times:
            raise ReleaseError("the saved noise is not of the round that was saved")
        self._sums[name], self._drawn[name] = stream, saved["drawn"]
        self._trusted = dict(saved["trusted"])
        self._keep(name, stream.last.reshape(release.shape), 0)

    def select(self, name: str, value: np.ndarray) -> int:
        """Return which entry of value is the largest under the noise of that release; the noisy values are dropped."""
        release = self._planned(name)
        if release.law != GUMBEL:
            raise ReleaseError(f"release {name!r} is noise of law {release.law!r}, not a choice")
        _check_value(release, value)
        return int(self._keep(name, np.array(self._largest(release, value))))

    def _largest(self, release: Release, value: np.ndarray) -> int:
        return noisy_argmax(self._stream(release.name), value, release.scale)

    def _perturbed(self, release: Release, value: np.ndarray) -> np.ndarray:
        _check_value(release, value)
        if release.grid is None or not self.exact:
            return np.asarray(value + release.scale * self._draw(release.name, release.law, release.shape))
        if (r := exponent_of(release.law)) is not None:
            return rounded_generalised(self._stream(release.name), value, release.scale, release.grid, r)
        if release.law == LAPLACE:
            return rounded_laplace(self._stream(release.name), value, release.scale, release.grid)
        if release.law in self._laws:
            stream = self._stream(release.name)
            variates = self._laws[release.law].draw(stream)
            return dithered(stream, value, release.scale, release.grid, variates)
        if release.law != "gaussian":
            raise ReleaseError(f"release {release.name!r}: no sampler for the law {release.law!r} on a grid")
        return rounded_gaussian(self._stream(release.name), value, release.scale, release.grid)

    def _keep(self, name: str, noisy: np.ndarray, draws: int = 1) -> np.ndarray:
        noisy.setflags(write=False)
        if self._every:
            self._noisy.setdefault(name, []).append(noisy)
        else:
            self._noisy[name] = [noisy]
        self._drawn[name] += draws
        return noisy

    def lend_sample(self, name: str, loop: Callable[..., Any]) -> np.ndarray:
        """Return the records that a loop is to use, each chosen with the probability of that release; nothing is kept.

        The loop is trusted to use these and no others.
        """
        self._trust(loop)
        release = self._planned(name)
        if release.law != SAMPLING:
            raise ReleaseError(f"release {name!r} is noise of law {release.law!r}, not a sample of records")
        self._drawn[name] += 1
        return self._choose(name, release.shape[0], release.scale)

    @property
    def kept(self) -> list[str]:
        """Names of the releases whose values were kept: samples and the points of a walk stay hidden."""
        return [name for name in self._releases if name in self._noisy]

    def _planned(self, name: str) -> Release:
        release = self._releases.get(name)
        if release is None:
            raise ReleaseError(f"release {name!r} is not in the plan")
        if self._drawn[name] == release.times:
            often = "once" if release.times == 1 else f"{release.times} times"
            raise ReleaseError(f"release {name!r} was drawn before; it is drawn {often}")
        return release

    def _draw(self, name: str, law: str, shape: tuple[int, ...]) -> np.ndarray:
        if law == "gaussian":
            return standard_normal(self._stream(name), shape)
        if (r := exponent_of(law)) is not None:
            return rounded_generalised(self._stream(name), np.zeros(shape), 1.0, 2.0**-40, r)
        if law == LAPLACE:
            return rounded_laplace(self._stream(name), np.zeros(shape), 1.0, 2.0**-40)
        if law in self._laws:
            return self._laws[law].draw(self._stream(name)).reshape(shape)
        raise ReleaseError(f"release {name!r}: no sampler for the law {law!r}")

    def _choose(self, name: str, count: int, probability: float) -> np.ndarray:
        return chosen(self._stream(name), count, probability)

    def _stream(self, name: str) -> Stream:
        if name not in self._streams:
            self._streams[name] = self._source.stream(name)
        return self._streams[name]

    def released(self, name: str) -> np.ndarray:
        """Return the last noisy value of a release that was drawn."""
        if not self._drawn[name]:
            raise ReleaseError(f"release {name!r} was not drawn")
        if name not in self._noisy:
            raise ReleaseError(f"release {name!r} stays hidden: nothing of it is kept")
        return self._noisy[name][-1]

    def history(self, name: str) -> np.ndarray:
        """Return every noisy value of a release that is kept, in order, stacked."""
        self.released(name)
        rows = self._noisy[name]
        return np.concatenate(rows).reshape(-1, *rows[0].shape) if rows[0].ndim else np.array(rows)

    def close(self) -> list[str]:
        """Return the names drawn, in the order of the claim, or raise if a planned draw is missing."""
        planned = {name: r for name, r in self._releases.items() if not name.startswith(self._choices)}
        missing = [name for name, r in planned.items() if self._drawn[name] < _least(r)]
        if missing:
            raise ReleaseError(f"planned but never drawn: {', '.join(missing)}")
        return list(self._releases)


def own_laws(planned: Any) -> dict[str, RenyiLaw]:
    """The laws of noise of the user's own that a plan draws from, by what its releases call them."""
    noise = getattr(getattr(planned, "algorithm", None), "noise", None)
    return {noise.law: noise} if isinstance(noise, RenyiLaw) else {}


def _check_value(release: Release, value: np.ndarray) -> None:
    if value.shape != release.shape or value.dtype != np.float64:
        raise ReleaseError(f"release {release.name!r} is planned for float64 values of shape {release.shape}")


def _least(release: Release) -> int:
    """How often a release has to be drawn: at least once if its horizon is open, else as planned."""
    return 1 if PREFIX_SUMS.get(release.law, ("", False))[1] else release.times
