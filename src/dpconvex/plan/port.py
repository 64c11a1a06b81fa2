"""The noise port: the only way noise reaches a run.

The port knows the releases of the claim. It adds each one's noise to the value it is given, as often as the claim
says and at the scale it was proved for, and keeps the noisy values: the output of a run is computed from what the
port has kept, so a run cannot release what the port has not perturbed. Which records a step samples it draws as
well, and keeps to itself.
"""

from __future__ import annotations

import numpy as np

from dpconvex.errors import ReleaseError
from dpconvex.noise.bernoulli import chosen
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.source import Source, Stream
from dpconvex.privacy.claims import SAMPLING, Claim, Release


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

    def __init__(self, claim: Claim, source: Source) -> None:
        self._releases = {r.name: r for r in claim.releases}
        self._source = source
        self._streams: dict[str, Stream] = {}
        self._noisy: dict[str, list[np.ndarray]] = {name: [] for name in self._releases}

    def add(self, name: str, value: np.ndarray) -> np.ndarray:
        """Return value plus the noise of that release, read-only."""
        release = self._planned(name)
        if value.shape != release.shape or value.dtype != np.float64:
            raise ReleaseError(f"release {name!r} is planned for float64 values of shape {release.shape}")
        noisy = value + release.scale * self._draw(name, release.law, release.shape)
        noisy.setflags(write=False)
        self._noisy[name].append(noisy)
        return noisy

    def sample(self, name: str) -> np.ndarray:
        """Return the records that a step uses, each chosen with the probability of that release; nothing is kept."""
        release = self._planned(name)
        if release.law != SAMPLING:
            raise ReleaseError(f"release {name!r} is noise of law {release.law!r}, not a sample of records")
        self._noisy[name].append(np.empty(0))
        return self._choose(name, release.shape[0], release.scale)

    @property
    def kept(self) -> list[str]:
        """Names of the releases whose values are kept: all but samples, which are secret."""
        return [name for name, r in self._releases.items() if r.law != SAMPLING]

    def _planned(self, name: str) -> Release:
        release = self._releases.get(name)
        if release is None:
            raise ReleaseError(f"release {name!r} is not in the plan")
        if len(self._noisy[name]) == release.times:
            often = "once" if release.times == 1 else f"{release.times} times"
            raise ReleaseError(f"release {name!r} was drawn before; it is drawn {often}")
        return release

    def _draw(self, name: str, law: str, shape: tuple[int, ...]) -> np.ndarray:
        if law != "gaussian":
            raise ReleaseError(f"release {name!r}: no sampler for the law {law!r}")
        return standard_normal(self._stream(name), shape)

    def _choose(self, name: str, count: int, probability: float) -> np.ndarray:
        return chosen(self._stream(name), count, probability)

    def _stream(self, name: str) -> Stream:
        if name not in self._streams:
            self._streams[name] = self._source.stream(name)
        return self._streams[name]

    def released(self, name: str) -> np.ndarray:
        """Return the last noisy value of a release that was drawn."""
        if not self._noisy.get(name):
            raise ReleaseError(f"release {name!r} was not drawn")
        if name not in self.kept:
            raise ReleaseError(f"release {name!r} is a secret sample of records: nothing of it is kept")
        return self._noisy[name][-1]

    def history(self, name: str) -> np.ndarray:
        """Return every noisy value of a release, in order, stacked."""
        self.released(name)
        return np.stack(self._noisy[name])

    def close(self) -> list[str]:
        """Return the names drawn, in the order of the claim, or raise if a planned draw is missing."""
        missing = [name for name, r in self._releases.items() if len(self._noisy[name]) < r.times]
        if missing:
            raise ReleaseError(f"planned but never drawn: {', '.join(missing)}")
        return list(self._releases)
