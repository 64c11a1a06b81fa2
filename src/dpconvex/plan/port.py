"""The noise port: the only way noise reaches a run.

The port knows the releases of the claim. It adds each one's noise to the value it is given, once, at the scale the
claim was proved for, and keeps the noisy value: the output of a run is read from the port, so a run cannot release
what the port has not perturbed.
"""

from __future__ import annotations

import numpy as np

from dpconvex.errors import ReleaseError
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.source import Source
from dpconvex.privacy.claims import Claim


class NoisePort:
    """Hands out the noise of a claim, by release name, each exactly once.

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
    dpconvex.errors.ReleaseError: release 'phase 1' was drawn before; each is drawn once
    """

    def __init__(self, claim: Claim, source: Source) -> None:
        self._releases = {r.name: r for r in claim.releases}
        self._source = source
        self._noisy: dict[str, np.ndarray] = {}

    def add(self, name: str, value: np.ndarray) -> np.ndarray:
        """Return value plus the noise of that release, read-only."""
        release = self._releases.get(name)
        if release is None:
            raise ReleaseError(f"release {name!r} is not in the plan")
        if name in self._noisy:
            raise ReleaseError(f"release {name!r} was drawn before; each is drawn once")
        if value.shape != release.shape or value.dtype != np.float64:
            raise ReleaseError(f"release {name!r} is planned for float64 values of shape {release.shape}")
        noisy = value + release.scale * self._draw(name, release.law, release.shape)
        noisy.setflags(write=False)
        self._noisy[name] = noisy
        return noisy

    def _draw(self, name: str, law: str, shape: tuple[int, ...]) -> np.ndarray:
        if law != "gaussian":
            raise ReleaseError(f"release {name!r}: no sampler for the law {law!r}")
        return standard_normal(self._source.stream(name), shape)

    def released(self, name: str) -> np.ndarray:
        """Return the noisy value of a release that was drawn."""
        if name not in self._noisy:
            raise ReleaseError(f"release {name!r} was not drawn")
        return self._noisy[name]

    def close(self) -> list[str]:
        """Return the names drawn, in the order of the claim, or raise if a planned release is missing."""
        missing = [name for name in self._releases if name not in self._noisy]
        if missing:
            raise ReleaseError(f"planned but never drawn: {', '.join(missing)}")
        return list(self._releases)
