"""Summaries of fitted models: every coefficient by the name and in the units of its column, beside the noise in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from dpconvex import plots
from dpconvex.data.encoding import Encoding
from dpconvex.drawing import BLUE, HEIGHT, INK, LEFT, RIGHT, WIDTH, picture, round_numbers, text
from dpconvex.errors import UnavailableError
from dpconvex.words import align, receipt_line

if TYPE_CHECKING:
    from dpconvex.estimators.base import PrivateLinearModel
    from dpconvex.estimators.inference import NoiseReport

__all__ = ["Summary"]

INTERCEPT = "(intercept)"
_UNITS = (
    "The effect is the change of {what} per unit of the column, within its declared range{rows}. The intercept is "
    "{what} in the middle of every range, outside every category."
)
_MARKED = (
    "A coefficient with a mark (~) is within the noise: its interval holds 0. All categories of a column add up to the "
    "constant feature, so that only differences between them can be told apart."
)
_UNKNOWN = "How far the noise moved the coefficients is not known here: {why}"
_LINE = 20.0  # height of a row of the forest plot


@dataclass(frozen=True)
class Summary:
    """Coefficients of a fitted model by name; `print` shows a table.

    Attributes
    ----------
    names : tuple of str
        The encoded columns, and "(intercept)" last if there is one; with more than two classes after the class.
    units : tuple of str
        What `effect` is per: "unit", "day", "doubling" of a column on a logarithmic scale, or "if so" of a category.
    coef : array
        Coefficients of the encoded columns, as in `coef_`.
    effect : array
        The same in the units of the table: of the log-odds or score of a class, or in units of a numeric target.
    std_error, low, high : arrays
        Standard errors of the effects that are due to the noise, and intervals; NaN where no report is available.
    noise_only : array of bool
        Whether the interval holds 0: noise alone could explain the coefficient.
    confidence : float
    report : NoiseReport or None
        What the standard errors are from.

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> age = rng.uniform(20, 80, 20_000)
    >>> frame = {"age": age, "ward": rng.choice(["A", "B"], 20_000), "stay": age / 8 + rng.normal(size=20_000)}
    >>> columns = {"age": dc.schema.Number(20, 80), "ward": dc.schema.Category(["A", "B"])}
    >>> schema = dc.Schema(columns, target=dc.schema.Range("stay", 0, 20), name="summary of stays")
    >>> model = dc.PrivateRidge(schema=schema, algorithm="SufficientStatistics").fit(frame)
    >>> found = model.summary()
    >>> found.names, found.units[0], bool(abs(found.effect[0] - 1 / 8) < 0.03)
    (('age', 'ward=A', 'ward=B', '(intercept)'), 'unit', True)
    >>> list(found.to_dict())
    ['column', 'per', 'effect', 'noise s.e.', 'low', 'high', 'within the noise', 'coefficient']
    >>> found.to_svg().count("<circle")  # all but the intercept
    3
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    coef: np.ndarray
    effect: np.ndarray
    std_error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    confidence: float
    report: NoiseReport | None
    what: str
    scaled: bool
    why: str
    receipts: tuple[tuple[str, Any], ...]

    @property
    def noise_only(self) -> np.ndarray:
        """Whether noise alone could explain a coefficient; False where the noise in it is not known."""
        return (self.low <= 0.0) & (self.high >= 0.0)

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns of the table, for any library of frames."""
        return {
            "column": list(self.names),
            "per": list(self.units),
            "effect": self.effect.tolist(),
            "noise s.e.": self.std_error.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "within the noise": self.noise_only.tolist(),
            "coefficient": self.coef.tolist(),
        }

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame.

        Raises
        ------
        UnavailableError
            If pandas is not installed; `to_dict` needs nothing.
        """
        try:
            import pandas as pd
        except ImportError:
            raise UnavailableError("a frame needs pandas, which is not installed: take to_dict()") from None
        return pd.DataFrame(self.to_dict())

    def to_svg(self) -> str:
        """Draw a forest plot: coefficients with their intervals, those within the noise hollow; no intercept.

        They are those of the encoded columns, which can be compared with each other, not effects in units of the table.
        """
        kept, ends = self._shown()
        low, high = min(0.0, float(ends[:, kept].min())), max(0.0, float(ends[:, kept].max()))
        widest = max(len(self.names[k]) for k in kept)
        left = min(LEFT + 6.5 * widest, WIDTH / 2.0)
        span = (high - low) or 1.0

        def across(value: float) -> float:
            return left + (value - low) / span * (RIGHT - left)

        bottom = 30.0 + _LINE * len(kept)
        body = [f'<line x1="{across(0.0):.1f}" y1="20" x2="{across(0.0):.1f}" y2="{bottom:.1f}" stroke="{INK}"/>']
        body += [text(across(v), bottom + 18.0, words, "middle") for v, words in round_numbers(low, high)]
        body.append(text((left + RIGHT) / 2.0, bottom + 38.0, f"coefficient, with {self._interval}", "middle"))
        for row, k in enumerate(kept):
            y, noise = 34.0 + _LINE * row, bool(self.noise_only[k])
            colour = INK if noise else BLUE
            a, b = (across(float(end)) for end in ends[:, k])
            inside, x = ("none" if noise else colour), across(float(self.coef[k]))
            body += [
                text(left - 8.0, y + 4.5, self.names[k], "end"),
                f'<line x1="{a:.1f}" y1="{y:.1f}" x2="{b:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="2"/>',
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{inside}" stroke="{colour}"/>',
            ]
        words = f"{len(kept)} coefficients; {int(self.noise_only[kept].sum())} are within the noise and drawn hollow."
        return picture(body, "Coefficients and the noise in them", words, max(bottom + 50.0, HEIGHT / 3.0))

    def plot(self, ax: Any = None) -> Any:
        """Plot the coefficients as in `to_svg`, with matplotlib (extra `plot`); returns the axes."""
        kept, ends = self._shown()
        values = [(float(ends[0, k]), float(self.coef[k]), float(ends[1, k])) for k in kept]
        hollow = [bool(self.noise_only[k]) for k in kept]
        return plots.forest(ax, [self.names[k] for k in kept], values, hollow, f"coefficient, with {self._interval}")

    def _shown(self) -> tuple[list[int], np.ndarray]:
        """Coefficients that are drawn, all but the intercept, and the ends of the intervals of all."""
        kept = [k for k, name in enumerate(self.names) if not name.endswith(INTERCEPT)] or [0]
        factor = np.divide(self.coef, self.effect, out=np.ones_like(self.coef), where=self.effect != 0.0)
        return kept, np.stack([np.where(np.isnan(end), self.effect, end) for end in (self.low, self.high)]) * factor

    @property
    def _interval(self) -> str:
        return f"{100 * self.confidence:g}% interval"

    def __str__(self) -> str:
        head: tuple[str, ...] = ("", f"effect on {self.what}", "per", "noise s.e.", self._interval, "", "")
        rows: list[tuple[str, ...]] = [
            (name, _cell(effect), unit, *map(_cell, (error, a, b)), "~" if mark else "")
            for name, effect, unit, error, a, b, mark in zip(
                self.names, self.effect, self.units, self.std_error, self.low, self.high, self.noise_only, strict=True
            )
        ]
        if self.report is None:
            head, rows = head[:3], [row[:3] for row in rows]
        rows_kept = ", for rows whose numbers are not shortened together" if self.scaled else ""
        notes = [_UNITS.format(what=self.what, rows=rows_kept)]
        if self.report is None:
            notes.append(_UNKNOWN.format(why=self.why))
        else:
            notes.append(_MARKED)
            notes.append(f"The intervals cover {self.report.covers}. They say nothing about sampling error.")
        return "\n".join(
            [
                *align([head, *rows]),
                "",
                *(fill(note, 100) for note in notes),
                *(receipt_line(name, receipt) for name, receipt in self.receipts),
            ]
        )

    def _repr_html_(self) -> str:
        return self.to_svg()


def _cell(value: float) -> str:
    return "?" if math.isnan(value) else f"{value:.4g}"


def summarise(model: PrivateLinearModel, report: NoiseReport | None, why: str, confidence: float) -> Summary:
    """Summarise a fitted model; `why` says why there is no report of its noise."""
    schema = model._declared().schema
    if schema is not None:
        encoding = Encoding(schema)
        names, units, factors = encoding.names, encoding.units, encoding.factors
        scaled = encoding.shortens
    else:
        names = tuple(getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)]))
        units, factors, scaled = ("unit",) * len(names), np.ones(len(names)), False
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    if model._problem.intercept:
        names, units, factors = (*names, INTERCEPT), (*units, ""), np.append(factors, 1.0)
        coef = np.column_stack([coef, intercept])
    if len(coef) > 1:
        names = tuple(f"{label}: {name}" for label in model.classes_ for name in names)
        units, factors = units * len(coef), np.tile(factors, len(coef))
    flat = coef.ravel()
    unknown = np.full(flat.size, math.nan)
    error, low, high = unknown, unknown, unknown
    receipts = [(model.receipt_.sections["plan"]["algorithm"]["name"], model.receipt_)]
    if report is not None:
        low, high = (factors * end for end in report.interval(confidence))
        error = factors * report.std_errors
        receipts += [(r.sections["plan"]["algorithm"]["name"], r) for r in report.receipts[1:]]
    return Summary(
        tuple(names), tuple(units), flat, factors * flat, error, low, high, confidence, report, _predicted(model),
        scaled, why, tuple(receipts),
    )  # fmt: skip


def _predicted(model: PrivateLinearModel) -> str:
    """What coefficients add up to."""
    target = model.schema.target if model.schema is not None else None
    if not hasattr(model, "classes_"):
        return "the prediction" if target is None else repr(target.name)
    of = "the class" if len(model.classes_) > 2 else repr(np.asarray(model.classes_)[1:].tolist()[0])
    return f"{'the log-odds' if model._predicts_probabilities else 'the score'} of {of}"
