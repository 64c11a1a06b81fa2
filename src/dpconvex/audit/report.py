"""What an audit leaves behind: numbers, plain JSON, and a page with the two curves."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dpconvex import plots
from dpconvex.audit.measure import Evidence, judge
from dpconvex.audit.stated import Stated
from dpconvex.drawing import INK, RED, RIGHT, Panel, decades, picture, text
from dpconvex.kernel.profiles import gaussian_mu
from dpconvex.version import VERSION


@dataclass(frozen=True)
class AuditReport:
    """What the attack found. `refuted` means: at this confidence, the claim is false.

    `mu_lower` and `epsilon_lower` are lower bounds on the privacy parameters of the mechanism. Where the statistic is
    known to be Gaussian (`law`), the bound is the one for two Gaussians; error rates at thresholds fixed in advance,
    for which no law is assumed, are tested against the whole claimed curve. `caught` names the checks that refute.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> def count(x, rng):
    ...     return x.sum() + rng.laplace()
    >>> report = dc.audit.audit_function(count, np.zeros(3), np.eye(3)[0], dc.Budget(0.5, 1e-6), runs=5000)
    >>> report.refuted, report.caught, 0.8 < report.epsilon_lower < 1.0
    (True, ('total variation', 'error rates'), True)
    """

    name: str
    relation: str
    claimed_epsilon: float
    claimed_mu: float
    epsilon_lower: float
    mu_lower: float
    refuted: bool
    caught: tuple[str, ...]
    delta: float
    runs: int
    confidence: float
    neighbours: str
    statistic: str
    law: str
    seed: int
    curve: tuple[tuple[float, float, float], ...] = field(repr=False)

    def __str__(self) -> str:
        verdict = "REFUTED" if self.refuted else "not refuted"
        gaussian = (
            "" if math.isnan(self.claimed_mu) else f"claimed mu {self.claimed_mu:.4f}, found {self.mu_lower:.4f} "
        )
        return (
            f"{verdict} at confidence {self.confidence:g}: {gaussian}(ratio {self.ratio:.3f}); "
            f"claimed epsilon {self.claimed_epsilon:.4f} at delta {self.delta:g}, found {self.epsilon_lower:.4f}; "
            f"{self.runs} runs a side, {self.neighbours}"
        )

    @property
    def ratio(self) -> float:
        """How much of the claim was found: mu found over mu claimed; for another curve, at its best epsilon.

        At each epsilon a delta is turned into the mu of the Gaussian that has it.
        """
        if not math.isnan(self.claimed_mu):
            return self.mu_lower / self.claimed_mu
        pairs = [(e, c, min(f, 1.0 - 1e-12)) for e, c, f in self.curve if f > 0.0 and 0.0 < c < 1.0]
        return max((gaussian_mu(e, f) / gaussian_mu(e, c) for e, c, f in pairs), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """Plain form; what is not finite is null."""
        plain = {**asdict(self), "ratio": self.ratio, "caught": list(self.caught), "library": VERSION}
        plain["curve"] = [dict(zip(("epsilon", "claimed", "found"), map(finite, p), strict=True)) for p in self.curve]
        return {k: finite(v) for k, v in plain.items()}

    def to_html(self) -> str:
        """One page: the verdict, the claimed curve against the one found, and how they were got."""
        return page(f"Audit: {self.name}", _section(self))

    def plot(self, ax: Any = None) -> Any:
        """Plot the claimed curve and the one found, with matplotlib (extra `plot`); returns the axes."""
        return plots.claimed_and_found(ax, self.curve)

    def _repr_html_(self) -> str:
        return _section(self)

    def save(self, path: str | Path) -> None:
        """Write the page, or the JSON if the name ends so."""
        path = Path(path)
        text = json.dumps(self.to_json(), indent=1) + "\n" if path.suffix == ".json" else self.to_html()
        path.write_text(text, encoding="utf-8")


def finite(value: Any) -> Any:
    """Return the value, or None for a float that JSON cannot hold."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def conclude(
    name: str, claim: Stated, evidence: Sequence[Evidence], *, runs: int, confidence: float, neighbours: str,
    statistic: str, law: str, seed: int,
) -> AuditReport:  # fmt: skip
    """Put the evidence of one or several attacks beside the claim."""
    judged = judge(claim, evidence)
    return AuditReport(
        name=name,
        relation=claim.relation,
        claimed_epsilon=claim.epsilon,
        claimed_mu=claim.mu,
        epsilon_lower=max(item.epsilon(claim.delta) for item in evidence),
        mu_lower=max(0.0, *(item.mu_lower for item in evidence)),
        refuted=bool(judged.caught),
        caught=judged.caught,
        delta=claim.delta,
        runs=runs,
        confidence=confidence,
        neighbours=neighbours,
        statistic=statistic,
        law=law,
        seed=seed,
        curve=judged.curve,
    )


# Pages -----------------------------------------------------------------------------------------------------------

_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .6rem .25rem 0;vertical-align:top;
border-bottom:1px solid #ddd}svg{width:100%;height:auto}.refuted{color:#b00020;font-weight:600}
.stands{color:#1b5e20;font-weight:600}"""


def page(title: str, body: str) -> str:
    """A whole page around a body."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>\n<h1>{html.escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def _section(report: AuditReport) -> str:
    verdict = '<span class="refuted">refuted</span>' if report.refuted else '<span class="stands">not refuted</span>'
    rows = [
        ("verdict", f"{verdict} at confidence {report.confidence:g}"),
        ("claimed", f"epsilon {report.claimed_epsilon:.4g} at delta {report.delta:g}{_mu(report.claimed_mu)}"),
        ("found", f"epsilon at least {report.epsilon_lower:.4g}{_mu(report.mu_lower)}, ratio {report.ratio:.3f}"),
        ("caught by", html.escape(", ".join(report.caught)) or "nothing"),
        ("relation", html.escape(report.relation)),
        ("neighbours", html.escape(report.neighbours)),
        ("statistic", html.escape(f"{report.statistic} (law: {report.law})")),
        ("runs", f"{report.runs} on each data set, and a tenth as many to fix thresholds"),
        ("seed", str(report.seed)),
        ("library", f"dpconvex {VERSION}"),
    ]
    table = "".join(f"<tr><th>{k}</th><td>{v}</td></tr>" for k, v in rows)
    return f"{draw_curves(report.curve)}\n<table>{table}</table>"


def _mu(mu: float) -> str:
    return "" if math.isnan(mu) else f", mu {mu:.4g}"


def draw_curves(curve: Sequence[tuple[float, float, float]]) -> str:
    """Claimed and found delta against epsilon, delta on a logarithmic scale, as an SVG.

    Examples
    --------
    >>> draw_curves([(0.0, 0.5, 0.4), (1.0, 0.1, 0.05)]).count("<polyline")
    2
    """
    right = max(e for e, _, _ in curve) or 1.0
    positive = [v for _, c, f in curve for v in (c, f) if v > 0.0]
    low = max(-12, min(-1, math.floor(math.log10(min(positive, default=1e-3)))))
    up = 10.0**low, 1.0
    panel = Panel((0.0, right), up, logarithmic=(False, True))
    quarters = [(right * k / 4.0, f"{right * k / 4.0:.3g}") for k in range(5)]
    body = panel.frame("epsilon", "delta", quarters, decades(up, max(1, -low // 6)))
    for which, colour, words in ((1, INK, "claimed"), (2, RED, "found at least")):
        points = [(p[0], min(p[which], 1.0)) for p in curve if p[which] >= up[0]]
        body += [panel.line(points, colour, 2.0), text(RIGHT - 4.0, 22.0 + 18.0 * which, words, "end", colour)]
    return picture(body, "Delta against epsilon", "The claimed curve, and lower bounds found by the attack.")
