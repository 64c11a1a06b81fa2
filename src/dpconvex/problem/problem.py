"""A problem says what is minimised: sum_i loss(<x_i, w>; y_i) + (l2/2) |w|^2 over a convex domain."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from dpconvex.errors import HypothesisError, InputError
from dpconvex.hints import named
from dpconvex.plain import whole
from dpconvex.problem import bounds, domains, losses, own, sets
from dpconvex.problem.facts import DECLARED, Fact, Kind, state_fact
from dpconvex.problem.geometry import lp_norms
from dpconvex.rounding import round_down, round_up


@named
@dataclass(frozen=True)
class Problem:
    """What is minimised, and the public facts about a row.

    The objective is a sum over records, with no n in it: sum_i l(<x_i, w>; y_i) + (l2/2) |w|^2.

    Parameters
    ----------
    loss : one of `dpconvex.losses`
        Or a loss of your own: `losses.Convex`, or a NamedTuple with the methods of those in `dpconvex.losses`, in which
        case facts about it are yours to declare, and receipts say so.
    domain : one of `dpconvex.domains`
    feature_bound : float or one of `dpconvex.bounds`
        A float bounds the l2 norm of a row. Rows beyond the bound are shortened or clipped to it.
    l2 : float
        Weight of the quadratic term, on the scale of the sum.
    intercept : float
        Value of a constant feature appended to every row, 0 for none. It counts in the row bound and in every
        constant, and its weight is regularised like the others.
    start : array, optional
        Weights at which runs start, such as those of a public model: a point of the domain, of the shape of the
        weights. It must not depend on the data. By default the origin, or the middle of a simplex.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0), feature_bound=1.0)
    >>> round(problem.lipschitz(50).value, 4), problem.smoothness(1000, 50).value
    (0.9997, 0.25)
    """

    loss: losses.Loss
    domain: domains.Domain = domains.Everywhere()
    feature_bound: bounds.Bound = bounds.L2(1.0)
    l2: float = 0.0
    intercept: float = 0.0
    start: Any = None

    def __init_subclass__(cls) -> None:
        raise TypeError("Problem has no subclasses: its methods state the facts that guarantees rest on")

    def __post_init__(self) -> None:
        if isinstance(self.feature_bound, Real) and not isinstance(self.feature_bound, bool):
            object.__setattr__(self, "feature_bound", bounds.L2(float(self.feature_bound)))
        for name, room in (("loss", losses), ("domain", domains), ("feature_bound", bounds)):
            part = getattr(self, name)
            ours = getattr(room, type(part).__name__, None) is type(part)
            if not ours and (name != "loss" or not isinstance(part, tuple)):
                usual = {
                    "loss": "losses.Logistic()",
                    "domain": "domains.L2Ball(8.0)",
                    "feature_bound": "bounds.L2(1.0)",
                }
                raise InputError(
                    f"{name} must be an instance from dpconvex.{room.__name__.rpartition('.')[2]}, such as "
                    f"dpconvex.{usual[name]}, got {'a class' if isinstance(part, type) else type(part).__name__}"
                )
            if not ours and (wrong := own.complaint(part)):
                raise InputError(f"{name} {wrong}")
        for name in ("loss", "domain"):
            part = getattr(self, name)
            if isinstance(part, tuple):
                part = _in_floats(part, name)
            if complaint := part.check() if hasattr(part, "check") else None:
                raise InputError(f"{name}: {complaint}")
            object.__setattr__(self, name, part)
        if self.loss.traits.records and (self.feature_bound != bounds.L2(1.0) or self.intercept):
            raise InputError(
                "a loss of a record says itself how long gradients are: leave out feature_bound and intercept"
            )
        for name in ("l2", "intercept"):
            value = getattr(self, name)
            if isinstance(value, bool) or not (isinstance(value, Real) and 0.0 <= float(value) < math.inf):
                raise InputError(f"{name} must be a finite number of at least 0")
            object.__setattr__(self, name, float(value))
        if self.start is not None:
            object.__setattr__(self, "start", _nested(self.start, self.domain))
        if self.intercept and not bounds.SMALLEST <= self.intercept <= bounds.LARGEST:
            raise InputError(f"intercept must be 0 or lie between {bounds.SMALLEST:g} and {bounds.LARGEST:g}")

    def weight_shape(self, d: int) -> tuple[int, ...]:
        """Shape of the weights for rows of d features: a vector, or a matrix with one row per class."""
        size = whole(d, "d") + bool(self.intercept)
        shape = self.loss.traits.weight_shape(size)
        if self.loss.traits.records and math.prod(shape) != d:
            raise InputError(f"d must be the number of weights, {math.prod(shape)} of shape {shape}, got {d}")
        return shape

    def begin(self, d: int) -> np.ndarray:
        """Weights at which runs start, public.

        Examples
        --------
        >>> Problem(losses.Logistic(), start=[0.5, -0.5]).begin(2), Problem(losses.Softmax(2)).begin(1)
        (array([ 0.5, -0.5]), array([[0.],
               [0.]]))
        """
        shape = self.weight_shape(d)
        if self.start is None:
            return self.domain.centre(math.prod(shape)).reshape(shape)
        found = np.array(self.start, dtype=np.float64)
        if found.shape != shape:
            raise InputError(f"start must have the shape of the weights, {shape}, got {found.shape}")
        return found

    def farthest(self, d: int) -> float:
        """Largest distance from where runs start to a point of the domain."""
        if self.start is None:
            return self.domain.reach(math.prod(self.weight_shape(d)))
        return self.domain.farthest(self.begin(d).reshape(-1))

    def row_bound(self, d: int) -> Fact:
        """Bound on the l2 norm of a row, constant feature included."""
        value = math.hypot(self.feature_bound.l2(whole(d, "d")), self.intercept)
        return state_fact(Kind.ROW_BOUND, value, f"{self.feature_bound} with a constant feature of {self.intercept:g}")

    def largest_entry(self) -> float:
        """Largest absolute entry of a row, constant feature included."""
        bound = self.feature_bound
        if isinstance(bound, bounds.Columns):
            return float(max(self.intercept, *(max(-a, b) for a, b in zip(bound.lo, bound.hi, strict=True))))
        return float(max(self.intercept, bound.radius))

    def dual_row_bound(self, d: int, q: float) -> float:
        """Largest l_q norm of a row, q >= 2, constant feature included.

        Examples
        --------
        >>> from dpconvex.problem.bounds import L2, Linf, Lp
        >>> [
        ...     round(Problem(losses.Logistic(), feature_bound=b).dual_row_bound(16, 4.0), 6)
        ...     for b in (L2(1.0), Linf(1.0), Lp(8, 1.0))
        ... ]
        [1.0, 2.0, 1.414214]
        """
        bound = self.feature_bound
        self.row_bound(d)  # refuses a bound that is not about d columns
        if isinstance(bound, bounds.Columns):
            row = float(lp_norms(np.maximum(-np.array(bound.lo), np.array(bound.hi)), q))
        else:
            p = 2.0 if isinstance(bound, bounds.L2) else math.inf if isinstance(bound, bounds.Linf) else bound.p
            row = bound.radius * float(d) ** max(0.0, 1.0 / q - 1.0 / p)
        return round_up(float(lp_norms(np.array([row, self.intercept]), q)))

    def lipschitz(self, d: int) -> Fact:
        """Bound on the norm of the gradient of one record's loss.

        The quadratic term contains no data and does not count.

        Raises
        ------
        HypothesisError
            If the slope of the loss is unbounded on the domain.
        """
        row = self.row_bound(d).value
        inside = self.domain.traits.inside
        slope = self.loss.slope_bound(row * self.domain.reach(math.prod(self.weight_shape(d))) if inside else math.inf)
        if not math.isfinite(slope):
            where = f"on {type(self.domain).__name__}: use a bounded domain, or"
            if not inside:
                where = "and runs are projected onto the l_p ball only at their end: use an l2 ball or a box, or"
            raise HypothesisError(
                f"{type(self.loss).__name__} has unbounded slope {where} a loss with bounded slope such as Huber"
                if not self.loss.traits.records
                else f"no largest gradient was declared of {self.loss}: state lipschitz, or use an algorithm that clips"
            )
        return self._about_loss(
            Kind.LIPSCHITZ, round_up(slope * row), f"slope of {self.loss} <= {slope:g}, row <= {row:g}"
        )

    def smoothness(self, n: int, d: int) -> Fact:
        """Bound on the largest eigenvalue of one record's Hessian, its share l2/n of the quadratic term included.

        Raises
        ------
        HypothesisError
            If the loss has a kink.
        """
        if self.loss.traits.kinked and self.loss.traits.records:
            raise HypothesisError(
                f"no smoothness was declared of {self.loss}: state smoothness, or use an algorithm that needs none"
            )
        if self.loss.traits.kinked:
            raise HypothesisError(
                f"{type(self.loss).__name__} has a kink, but a smooth loss is needed: gradient steps do not contract "
                "across a kink; use SmoothedHinge, Huber or LogCosh, or an algorithm for kinks such as PhasedERM"
            )
        row = self.row_bound(d).value
        share = self.l2 / whole(n, "n")
        value = self.loss.curvature_bound() * row**2 + share
        return self._about_loss(
            Kind.SMOOTHNESS, value, f"curvature of {self.loss}, row <= {row:g}, plus l2/n = {share:g}"
        )

    def strong_convexity(self, n: int) -> Fact:
        """Lower bound on the eigenvalues of one record's Hessian: its share l2/n of the quadratic term."""
        share = self.l2 / whole(n, "n")
        if isinstance(self.loss, losses.Convex):
            least = self.loss.strong_convexity
            source = f"curvature of {self.loss} >= {least:g}, plus l2/n = {share:g}"
            return self._about_loss(Kind.STRONG_CONVEXITY, max(0.0, round_down(least + share)), source)
        return state_fact(Kind.STRONG_CONVEXITY, share, f"l2/n = {share:g}")

    def monotone_margin(self) -> Fact:
        """Whether the label determines the sign of the slope, as 1 or 0."""
        return self._about_loss(Kind.MONOTONE_MARGIN, float(self.loss.traits.monotone), _name_of(self.loss))

    def diameter(self, d: int) -> Fact:
        """Diameter of the domain."""
        return state_fact(Kind.DIAMETER, self.domain.diameter(math.prod(self.weight_shape(d))), f"{self.domain}")

    def loss_at_origin(self) -> Fact:
        """Largest loss of a record at weights of zero; there is none for a loss that may be negative."""
        return state_fact(Kind.LOSS_AT_ORIGIN, round_up(losses.worst_at_origin(self.loss)), f"{self.loss} at 0")

    def slope(self) -> Fact:
        """Largest |slope| of the scalar loss at any prediction."""
        return self._about_loss(Kind.SLOPE, self._scalar().slope_bound(math.inf), f"{self.loss}")

    def slope_width(self) -> Fact:
        """Largest slope of one record minus its smallest."""
        loss = self._scalar()
        value = loss.slope_bound(math.inf) * (1.0 if loss.traits.monotone else 2.0)
        return self._about_loss(Kind.SLOPE_WIDTH, value, f"{self.loss}")

    def curvature_law(self) -> Fact:
        """Curvature of the scalar loss in terms of its slope."""
        return self._about_loss(Kind.CURVATURE_LAW, own.curvature_law(self._scalar()), f"{self.loss}")

    def classes(self) -> Fact:
        """Number of classes of a softmax."""
        if (count := self.loss.traits.outputs) == 1:
            raise HypothesisError(f"{type(self.loss).__name__} has no classes: use Softmax")
        return state_fact(Kind.CLASSES, float(count), f"{self.loss}")

    def _scalar(self) -> losses.Scalar:
        if isinstance(self.loss, losses.Softmax | losses.Convex):
            several = f"{type(self.loss).__name__} has several predictions per row"
            raise HypothesisError(f"{several}, but a loss with one prediction is needed")
        return self.loss  # type: ignore[return-value]

    def _about_loss(self, kind: Kind, value: float | tuple[float, ...], source: str) -> Fact:
        """State a fact about the loss, declared by the user if the loss is."""
        return state_fact(kind, value, f"{DECLARED}{source}" if self.own else source)

    @property
    def own(self) -> bool:
        """Whether the loss is the user's own, so that facts about it rest on the user's word."""
        ours = getattr(losses, type(self.loss).__name__, None) is type(self.loss)
        return not ours or isinstance(self.loss, losses.Convex | losses.Declared)

    def facts(self, n: int, d: int) -> dict[Kind, Fact]:
        """Every fact that holds for n records of d features, by kind; facts that do not exist are left out."""
        stated: dict[Kind, Fact] = {}
        for fact in (
            lambda: self.row_bound(d),
            lambda: self.lipschitz(d),
            lambda: self.smoothness(n, d),
            lambda: self.strong_convexity(n),
            lambda: self.monotone_margin(),
            lambda: self.diameter(d),
            self.loss_at_origin,
            self.slope,
            self.slope_width,
            self.curvature_law,
            self.classes,
        ):
            try:
                found = fact()
            except HypothesisError:
                continue
            stated[found.kind] = found
        return stated

    def to_json(self, d: int | None = None) -> dict[str, Any]:
        """Plain description, read back by `from_json`; of an own loss, what was declared as far as plans for d ask."""

        def part(p: Any) -> dict[str, Any]:
            fields = p._asdict() if hasattr(p, "_asdict") else dataclasses.asdict(p)
            plain = {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items() if v != math.inf}
            return {"name": type(p).__name__, **plain}

        return {
            "loss": own.describe(self.loss, self._reaches(d)) if self.own else part(self.loss),
            "domain": self.domain.to_plain() if isinstance(self.domain, domains.Sets) else part(self.domain),
            "feature_bound": part(self.feature_bound),
            "l2": self.l2,
            "intercept": self.intercept,
            **({} if self.start is None else {"start": _listed(self.start)}),
        }

    def _reaches(self, d: int | None) -> tuple[float, ...]:
        """Sizes of predictions up to which plans for d features ask for the largest slope."""
        if d is None or self.loss.traits.records:
            return ()
        reach = self.domain.reach(math.prod(self.weight_shape(d)))
        return (0.0, self.row_bound(d).value * reach, self.largest_entry() * reach)

    @staticmethod
    def from_json(description: dict[str, Any]) -> Problem:
        """Rebuild a problem from `to_json`."""

        def part(room: Any, plain: Any) -> Any:
            fields = dict(plain)
            if room is losses and "own" in fields:
                return own.rebuilt(fields)
            if room is domains and fields.get("name") in _JOINED:
                inner = tuple(part(domains, given) for given in fields.pop("parts"))
                return getattr(domains, fields.pop("name"))(inner, **fields)
            if room is domains and ("own" in fields or fields["name"] in _SETS):
                return sets.rebuilt(fields)
            cls = getattr(room, name, None) if (name := fields.pop("name")) in room.__all__ else None
            if not isinstance(cls, type) or not (issubclass(cls, tuple) or room is bounds):
                raise InputError("the plain form of a problem names no such part")
            return cls(**{k: tuple(map(_number, v)) if isinstance(v, list) else _number(v) for k, v in fields.items()})

        try:
            return Problem(
                part(losses, description["loss"]),
                part(domains, description["domain"]),
                part(bounds, description["feature_bound"]),
                description["l2"],
                description["intercept"],
                description.get("start"),
            )
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"not the plain form of a problem: {type(error).__name__}") from None


_JOINED = {"Intersection", "Product"}
_SETS = {"Bounds", "Ellipsoid", "NuclearBall", "Polytope", "SemidefiniteTrace"}


def _name_of(loss: losses.Loss) -> str:
    return str(loss.plain["name"]) if isinstance(loss, losses.Declared) else type(loss).__name__


def _in_floats(part: Any, name: str) -> Any:
    """The part with its numbers as floats: one numeric type, so that loops compile once."""
    for field, value in part._asdict().items():
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InputError(f"{name}: {field} must be a number, got {type(value).__name__}")
    return type(part)(*(float(v) for v in part))


def _nested(start: Any, domain: domains.Domain) -> Any:
    """The weights as nested tuples, which a problem can hold; refused outside of the domain."""
    try:
        found = np.array(start, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("start must hold numbers, in the shape of the weights") from None
    if not found.size or found.ndim > 3 or not np.isfinite(found).all():
        raise InputError("start must hold finite numbers, in the shape of the weights")
    inside = domain.project(found.reshape(-1)).reshape(found.shape)
    if float(np.linalg.norm(inside - found)) > 1e-9 * (1.0 + float(np.linalg.norm(found))):
        raise InputError("start must lie in the domain")
    return _tuples(inside.tolist())


def _tuples(nested: Any) -> Any:
    return tuple(_tuples(part) for part in nested) if isinstance(nested, list) else nested


def _listed(nested: Any) -> Any:
    return [_listed(part) for part in nested] if isinstance(nested, tuple) else nested


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"the fields of a problem are numbers, not {type(value).__name__}")
    return value
