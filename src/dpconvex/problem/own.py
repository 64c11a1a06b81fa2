"""Losses of your own: of one prediction, of a record, and from automatic differentiation.

What such a loss says of itself is *declared*: facts about it name the user as their source, and receipts list them.
A receipt also holds a digest of the code, and with what was declared a plan can be made again without the code.

A loss of one prediction is a NamedTuple of numbers with the methods of those in `dpconvex.problem.losses`, and runs in
the same compiled loops. A loss of a record (`Convex`) states gradients of whole records. The rest of the library treats
it as a loss of as many predictions as there are weights, for a row that holds a single 1: the gradient of the record is
then the slope in the predictions, lengths of rows are 1, and all that is known of such losses holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import lru_cache
from importlib.util import find_spec
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from dpconvex.errors import InputError, UnavailableError, UserCodeError
from dpconvex.plain import is_digest, plain_name
from dpconvex.problem.code import code_digest
from dpconvex.problem.traits import LossTraits

__all__ = ["Convex", "from_jax", "from_torch"]

T = TypeVar("T")

METHODS = ("value", "slope", "curvature", "slope_bound", "curvature_bound", "traits")  # of one prediction
BY_CONSTRUCTION = "by construction: the code is given one record at a time"
BY_WORD = "on the word of the user: the code is given several records at once"


@dataclass(frozen=True)
class Convex:
    """A convex loss of a record, given by its gradients; what it promises is declared by you.

    Parameters
    ----------
    gradients : callable
        `gradients(w, X, y)` returns the gradients at the weights w of the records X[0], X[1], ..., an array with one of
        the shape of w for each. X is whatever was given to a run, some records at a time; y is None if no y was given.
        Nothing else may decide what it returns: not the other records, and nothing it remembers. Where each gradient is
        a number times an array, it may return the pair of numbers and arrays, which saves time.
    lipschitz : float, optional
        Largest l2 norm of the gradient of a record on the domain. Algorithms that clip gradients hold without it.
    smoothness : float, optional
        Largest eigenvalue of the Hessian of a record on the domain. None declares nothing, as for a loss with kinks.
    strong_convexity : float, default=0.0
        Smallest eigenvalue of the Hessian of a record on the domain.
    shape : tuple of int, optional
        Shape of the weights, if they are not a vector; d, the number of weights, is then its product.
    values : callable, optional
        `values(w, X, y)` returns the losses of the records. Only `dpconvex.check` uses it.
    per_record : bool, default=False
        Whether `gradients(w, x, y)` is given one record and returns one gradient. It is compiled by numba, so that no
        record can reach another.
    name : str, optional
        Name on plans and receipts; by default that of the function.

    Notes
    -----
    Bounds are about the numbers that the code returns. A gradient that is not finite counts as 0.

    Examples
    --------
    The geometric median minimises the sum of distances to the records:

    >>> import dpconvex as dc
    >>> def directions(w, X, y):
    ...     away = w - X
    ...     return away / np.sqrt(0.01 + (away**2).sum(axis=1, keepdims=True))
    >>> loss = dc.losses.Convex(directions, lipschitz=1.0, smoothness=10.0, name="geometric median")
    >>> problem = dc.Problem(loss, domain=dc.domains.L2Ball(2.0))
    >>> plan = dc.algorithms.PhasedSGD().plan(problem, n=4000, d=2, budget=dc.Budget(1.0, 1e-6))
    >>> X = np.random.default_rng(0).normal(size=(4000, 2)) / 4 + [0.5, -0.5]
    >>> plan.run(X).weights.round(1)
    array([ 0.5, -0.5])
    """

    gradients: Callable[..., Any]
    _: KW_ONLY
    lipschitz: float | None = None
    smoothness: float | None = None
    strong_convexity: float = 0.0
    shape: tuple[int, ...] | None = None
    values: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    per_record: bool = False
    name: str = ""
    code: str = field(default="", repr=False)
    traits: LossTraits = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.gradients):
            raise InputError("gradients must be a function of weights and records")
        if self.values is not None and not callable(self.values):
            raise InputError("values must be a function of weights and records, or None")
        for key in ("lipschitz", "smoothness", "strong_convexity"):
            value = getattr(self, key)
            if value is None and key != "strong_convexity":
                continue
            if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < math.inf:
                raise InputError(f"{key} must be a finite number of at least 0")
            object.__setattr__(self, key, float(value))
        if self.lipschitz == 0.0:
            raise InputError("lipschitz must be above 0")
        if self.smoothness is not None and self.strong_convexity > self.smoothness:
            raise InputError("strong_convexity cannot exceed smoothness")
        if self.shape is not None:
            object.__setattr__(self, "shape", _shape(self.shape))
        if not isinstance(self.per_record, bool):
            raise InputError("per_record must be True or False")
        name = self.name or getattr(self.gradients, "__name__", type(self.gradients).__name__).strip("<>")
        object.__setattr__(self, "name", plain_name(name, "name"))
        code = self.code or code_digest(self.gradients)
        object.__setattr__(self, "code", code)
        size = 1.0 if self.lipschitz is None else self.lipschitz
        kinked = self.smoothness is None
        traits = LossTraits("any", None, target=size, records=True, shape=self.shape, kinked=kinked)
        object.__setattr__(self, "traits", traits)

    def __str__(self) -> str:
        return f"Convex({self.name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Convex) and self.to_plain() == other.to_plain()

    def __hash__(self) -> int:
        return hash(self.code)

    def slopes(self, w: np.ndarray, records: Any) -> np.ndarray:
        """Gradients at w of some records, one a row, as float64; those that are not finite are 0.

        Parameters
        ----------
        w : ndarray
            Weights.
        records : pair (X, y)
        """
        factors, rows = self._made(w, records)
        gradients = rows if factors is None else factors[:, None] * rows
        with np.errstate(all="ignore"):
            finite = math.isfinite(float(gradients.sum()))
        return gradients if finite else _without_wild(gradients)

    def total(self, w: np.ndarray, records: Any) -> np.ndarray:
        """Sum of the gradients at w of some records, of the shape of w."""
        factors, rows = self._made(w, records)
        with np.errstate(all="ignore"):
            total = (np.ones(len(rows)) if factors is None else factors) @ rows
            if not math.isfinite(float(total @ total)):  # faster than a sum; what is huge takes this way too
                total = _without_wild(rows if factors is None else factors[:, None] * rows).sum(axis=0)
        return np.asarray(total.reshape(w.shape))

    def clipped_total(self, w: np.ndarray, records: Any, clip: float, weights: np.ndarray) -> np.ndarray:
        """Sum of the gradients at w of some records, each no longer than `clip`, times their weights if there are any.

        Where each is a number times an array, they are not written out.
        """
        factors, rows = self._made(w, records)
        with np.errstate(all="ignore"):
            lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
            lengths = lengths if factors is None else np.abs(factors) * lengths
            shares = clip / np.maximum(lengths, clip)
            shares *= shares >= 1e-290  # smaller ones are not exact
            shares = shares if factors is None else factors * shares
            shares = shares if not len(weights) else weights * shares
            total = shares @ rows
            if not math.isfinite(float(total @ total)):  # faster than a sum; what is huge takes this way too
                wild = ~np.isfinite(shares) | ~np.isfinite(rows).all(axis=1)
                total = np.where(wild, 0.0, shares) @ np.where(wild[:, None], 0.0, rows)
        return np.asarray(total)

    def _made(self, w: np.ndarray, records: Any) -> tuple[np.ndarray | None, np.ndarray]:
        """What the code returns, checked: factors or None, and a row for each record."""
        X, y = records
        compute, m = _compiled(self.gradients) if self.per_record else self.gradients, X.shape[0]
        made = guarded(f"loss {self.name!r}", lambda: compute(_locked(w), _locked(X), _locked(y)))
        factors, rows = made if isinstance(made, tuple) and len(made) == 2 else (None, made)
        factors, rows = None if factors is None else np.asarray(factors), np.asarray(rows)
        shapes = (rows.shape, (m,) if factors is None else factors.shape)
        kinds = rows.dtype.kind + ("" if factors is None else factors.dtype.kind)
        if shapes != ((m, *w.shape), (m,)) or not set(kinds) <= set("biuf"):
            raise UserCodeError(
                f"loss {self.name!r}: gradients must return numbers of shape {(m, *w.shape)}, one gradient for each "
                f"record (or a pair: a factor for each, and these), and returned {rows.dtype} of shape {rows.shape}"
            )
        if factors is not None:
            factors = factors.astype(np.float64, copy=False)
        return factors, rows.reshape(m, -1).astype(np.float64, copy=False)

    @property
    def apart(self) -> bool:
        """Whether no record can reach another within the code."""
        return self.per_record or bool(getattr(self.gradients, "per_record", False))

    def slope_bound(self, reach: float) -> float:
        """Largest norm of a gradient; infinite if none was declared."""
        return math.inf if self.lipschitz is None else self.lipschitz

    def curvature_bound(self) -> float:
        """Largest eigenvalue of the Hessian of a record; infinite if none was declared."""
        return math.inf if self.smoothness is None else self.smoothness

    def check(self) -> str | None:
        """Nothing is left to check."""
        return None

    def to_plain(self, reaches: tuple[float, ...] = ()) -> dict[str, Any]:
        """All that was declared, and the digest of the code."""
        return {
            "own": "record",
            "name": self.name,
            "lipschitz": self.lipschitz,
            "smoothness": self.smoothness,
            "strong_convexity": self.strong_convexity,
            "shape": None if self.shape is None else list(self.shape),
            "apart": self.apart,
            "code": self.code,
        }


class Absent:
    """In place of code that is not at hand."""

    def __init__(self, per_record: bool) -> None:
        self.per_record = per_record

    def __call__(self, *_: Any) -> Any:
        """Refuse to compute."""
        raise UserCodeError("the code of this loss is not at hand: the problem was read from a receipt or a model")


def guarded(whose: str, call: Callable[[], T]) -> T:
    """Call code of the user's within a run; what it says when it fails may hold values, and is dropped."""
    failed = ""
    try:
        with np.errstate(all="ignore"):
            return call()
    except UserCodeError:
        raise
    except Exception as error:
        failed = type(error).__name__
    raise UserCodeError(  # beyond the `except`, so that it has no context
        f"{whose}: your code raised {failed}; its message is not shown, since it may hold values of records. If this "
        "was within a run, the run stays charged"
    )


def _without_wild(rows: np.ndarray) -> np.ndarray:
    """Rows with 0 in place of those that are not finite."""
    return np.where(np.isfinite(rows).all(axis=1)[:, None], rows, 0.0)


def _locked(part: Any) -> Any:
    """A view that cannot be written to: code of the user's must not change what later records are computed from."""
    if not isinstance(part, np.ndarray):
        return part
    view = part.view()
    view.flags.writeable = False
    return view


@lru_cache(maxsize=64)
def _compiled(gradient: Callable[..., Any]) -> Callable[..., Any]:
    """Turn the gradient of one record into those of several, compiled by numba."""
    from numba import njit
    from numba.extending import is_jitted

    one: Any = gradient if is_jitted(gradient) else njit(nogil=True)(gradient)

    @njit(nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
    def labelled(w: Any, X: Any, y: Any, out: Any) -> None:
        for i in range(out.shape[0]):
            out[i] = one(w, X[i], y[i])

    @njit(nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
    def bare(w: Any, X: Any, out: Any) -> None:
        for i in range(out.shape[0]):
            out[i] = one(w, X[i], None)

    def gradients(w: np.ndarray, X: Any, y: Any) -> np.ndarray:
        out = np.empty((X.shape[0], *w.shape))
        if y is None:
            bare(w, X, out)
        else:
            labelled(w, X, y, out)
        return out

    return gradients


# Automatic differentiation ------------------------------------------------------------------------------------------


def from_torch(loss: Callable[..., Any], **declared: Any) -> Convex:
    """Make a loss of a record of `loss(w, x, y)`, written in PyTorch for one record; y is None if there is none.

    Gradients are those of `torch.func`, one record at a time: no record can reach another. PyTorch is an extra
    (`pip install dpconvex[torch]`).

    Parameters
    ----------
    loss : callable
        Returns the loss of one record as a tensor with one number. It is given float64 tensors.
    **declared
        As for `Convex`.

    Returns
    -------
    Convex
    """
    return _differentiated("torch", _Torch(loss), loss, declared)


def from_jax(loss: Callable[..., Any], **declared: Any) -> Convex:
    """Make a loss of a record of `loss(w, x, y)`, written in JAX for one record; y is None if there is none.

    Gradients are those of `jax.vmap(jax.grad(loss))`: no record can reach another. JAX is an extra
    (`pip install dpconvex[jax]`). They are computed in double precision, whatever its flag `jax_enable_x64` says.

    Parameters
    ----------
    loss : callable
        Returns the loss of one record.
    **declared
        As for `Convex`.

    Returns
    -------
    Convex
    """
    return _differentiated("jax", _Jax(loss), loss, declared)


def _differentiated(extra: str, gradients: Any, loss: Callable[..., Any], declared: dict[str, Any]) -> Convex:
    if not callable(loss):
        raise InputError("loss must be a function of weights and one record")
    if find_spec(extra) is None:
        raise UnavailableError(f"from_{extra} needs {extra}: pip install 'dpconvex[{extra}]'")
    name = declared.pop("name", "") or getattr(loss, "__name__", "loss").strip("<>")
    return Convex(gradients, values=gradients.values, name=name, code=code_digest(loss), **declared)


class _Torch:
    per_record = True

    def __init__(self, loss: Callable[..., Any]) -> None:
        self._loss = loss

    def __call__(self, w: np.ndarray, X: Any, y: Any) -> np.ndarray:
        import torch

        return self._mapped(torch.func.grad(self._loss), w, X, y)

    def values(self, w: np.ndarray, X: Any, y: Any) -> np.ndarray:
        return self._mapped(self._loss, w, X, y)

    def _mapped(self, function: Any, w: np.ndarray, X: Any, y: Any) -> np.ndarray:
        import torch

        given = [torch.from_numpy(np.array(part, dtype=np.float64)) for part in (w, X)]
        labels = None if y is None else torch.from_numpy(np.array(y, dtype=np.float64))
        mapped = torch.func.vmap(function, in_dims=(None, 0, None if y is None else 0))
        return np.asarray(mapped(*given, labels).detach().numpy())


class _Jax:
    per_record = True

    def __init__(self, loss: Callable[..., Any]) -> None:
        self._loss = loss

    def __call__(self, w: np.ndarray, X: Any, y: Any) -> np.ndarray:
        return self._mapped(True, w, X, y)

    def values(self, w: np.ndarray, X: Any, y: Any) -> np.ndarray:
        return self._mapped(False, w, X, y)

    def _mapped(self, gradient: bool, w: np.ndarray, X: Any, y: Any) -> np.ndarray:
        import jax

        with _in_double_precision(jax):
            mapped = _jitted(self._loss, gradient, y is not None)
            return np.asarray(mapped(np.asarray(w), np.asarray(X), y), dtype=np.float64)


@lru_cache(maxsize=64)
def _jitted(loss: Callable[..., Any], gradient: bool, labelled: bool) -> Callable[..., Any]:
    """The loss, or its gradient, of several records: compiled once for each number of them."""
    import jax

    function = jax.grad(loss) if gradient else loss
    compiled: Callable[..., Any] = jax.jit(jax.vmap(function, in_axes=(None, 0, 0 if labelled else None)))
    return compiled


def _in_double_precision(jax: Any) -> Any:
    """A block in which JAX computes in double precision; recent versions have moved it."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64

    return enable_x64()


# Losses of one prediction -------------------------------------------------------------------------------------------


def complaint(loss: Any) -> str | None:
    """Describe what keeps an object from being a loss of one prediction of the user's own, or return None."""
    if not getattr(loss, "_fields", None):
        return "must be one of dpconvex.losses, or a NamedTuple of numbers with their methods"
    if missing := [name for name in METHODS if not hasattr(type(loss), name)]:
        return f"has no {missing[0]}: write it as those of dpconvex.losses are written"
    traits = loss.traits
    if not isinstance(traits, LossTraits):
        return "must state dpconvex.losses.LossTraits as its traits"
    if traits.outputs != 1 or traits.records or traits.shape is not None:
        return "must be a loss of one prediction; for others use dpconvex.losses.Convex"
    if traits.careful or traits.probabilities or traits.quadratic or traits.constant:
        return "its traits careful, probabilities, quadratic and constant must be left at False"
    return None


@dataclass(frozen=True)
class Declared:
    """What was declared of a loss of one prediction, without its code: enough to plan again."""

    plain: dict[str, Any] = field(hash=False)
    traits: LossTraits = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "traits", LossTraits(**self.plain["traits"]))

    def __str__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self.plain["parameters"].items())
        return f"{self.plain['name']}({given})"

    def slope_bound(self, reach: float) -> float:
        """Bound that was declared for the least reach that is stated and at least as large."""
        stated = [(math.inf if at is None else at, slope) for at, slope in self.plain["slopes"]]
        fit = [slope for at, slope in stated if at >= reach * (1.0 - 1e-9)]
        return math.inf if not fit or fit[0] is None else float(fit[0])

    def curvature_bound(self) -> float:
        """Bound that was declared."""
        return _or_infinite(self.plain["curvature"])

    def curvature_law(self) -> tuple[float, float, float]:
        """Law that was declared."""
        a, b, c = self.plain["law"]
        return _or_infinite(a), float(b), float(c)

    def value(self, z: float, y: float) -> float:
        """Largest loss at prediction 0, the only one that plans ask for."""
        return _or_infinite(self.plain["at_origin"])

    def check(self) -> str | None:
        """Nothing is left to check."""
        return None

    def to_plain(self, reaches: tuple[float, ...] = ()) -> dict[str, Any]:
        """All that was declared, and the digest of the code."""
        return self.plain


def describe(loss: Any, reaches: tuple[float, ...]) -> dict[str, Any]:
    """All that a loss declares as far as plans ask for it, in plain form, with the digest of its code.

    Bounds on slopes are stated for predictions up to each of the reaches, and for all.
    """
    if isinstance(loss, Convex | Declared):
        return loss.to_plain()
    traits = loss.traits
    stated = {f.name: getattr(traits, f.name) for f in fields(traits)}
    return {
        "own": "prediction",
        "name": type(loss).__name__,
        "parameters": dict(loss._asdict()),
        "traits": {key: value for key, value in stated.items() if value is not None or key == "task"},
        "slopes": [[_finite(at), _finite(loss.slope_bound(at))] for at in sorted({*reaches, math.inf})],
        "curvature": _finite(loss.curvature_bound()),
        "law": [_finite(part) for part in curvature_law(loss)],
        "at_origin": _finite(max(loss.value(0.0, traits.target), loss.value(0.0, -traits.target))),
        "code": _class_digest(type(loss)),  # type: ignore[arg-type]
    }


@lru_cache(maxsize=64)
def _class_digest(kind: type) -> str:
    return code_digest(kind)


def curvature_law(loss: Any) -> tuple[float, float, float]:
    """The law that a loss states for its curvature, or else the constant law of its bound."""
    return loss.curvature_law() if hasattr(loss, "curvature_law") else (loss.curvature_bound(), 0.0, 0.0)


def rebuilt(plain: dict[str, Any]) -> Convex | Declared:
    """What was declared of a loss, from its plain form, without its code."""
    kind = plain.get("own")
    if kind == "record" and set(plain) == {
        "own", "name", "lipschitz", "smoothness", "strong_convexity", "shape", "apart", "code",
    }:  # fmt: skip
        if not (isinstance(plain["apart"], bool) and is_digest(plain["code"])):
            raise InputError("not the plain form of a loss")
        shape = plain["shape"]
        return Convex(
            Absent(plain["apart"]), lipschitz=plain["lipschitz"], smoothness=plain["smoothness"],
            strong_convexity=plain["strong_convexity"], shape=None if shape is None else tuple(shape),
            name=plain["name"], code=plain["code"],
        )  # fmt: skip
    if kind == "prediction" and set(plain) == {
        "own", "name", "parameters", "traits", "slopes", "curvature", "law", "at_origin", "code",
    }:  # fmt: skip
        plain_name(plain["name"], "name")
        if not is_digest(plain["code"]):
            raise InputError("not the plain form of a loss")
        return Declared(plain)
    raise InputError("not the plain form of a loss of the user's own")


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else float(value)


def _shape(shape: Any) -> tuple[int, ...]:
    try:
        found = tuple(int(k) for k in shape)
    except (TypeError, ValueError):
        raise InputError("shape must hold whole numbers of at least 1") from None
    if not found or any(k < 1 for k in found) or list(found) != list(shape):
        raise InputError("shape must hold whole numbers of at least 1")
    return found
