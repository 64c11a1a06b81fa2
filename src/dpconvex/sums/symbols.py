"""One definition of every loss: its plain method on numbers, run once on symbols, gives its form for tensors.

A method such as `Logistic.slope` is plain Python on scalars, with `math`, comparisons and `if`. Run on symbols it
leaves behind the operations it did. A comparison of symbols has no truth: the method is run again for the other answer,
and the results are joined by a choice. What is left is a graph of operations (`Graph`), which is evaluated on arrays,
or written out as the text of a kernel. The operations and their order are those of the method.
"""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from dpconvex.errors import InputError

__all__ = ["Graph", "traced"]

_PATHS = 64  # ways through a method, at most
_CALLS = ("exp", "log", "log1p", "expm1", "sqrt", "tanh", "cosh", "sinh", "fabs", "floor")
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=="}
_SIGNS["ne"] = "!="
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


class _Trace:
    """The operations met so far, each once, and the answers to comparisons on the way that is being followed."""

    def __init__(self) -> None:
        self.nodes: list[tuple[Any, ...]] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self._choices: dict[tuple[int, int, int], int] = {}
        self.answers: list[tuple[int, bool]] = []
        self.given: list[bool] = []

    def node(self, *what: Any) -> int:
        key = tuple((type(part), part, math.copysign(1.0, part) if isinstance(part, float) else 0) for part in what)
        if key not in self._known:
            self._known[key] = len(self.nodes)
            self.nodes.append(what)
        return self._known[key]

    def chosen(self, which: int, a: int, b: int) -> int:
        """One of two numbers; where the same operation made both, it is done once, on chosen numbers."""
        if a == b:
            return a
        if (found := self._choices.get((which, a, b))) is None:
            (name, *left), (other, *right) = self.nodes[a], self.nodes[b]
            if name != other or name in ("number", "input"):
                found = self.node("choose", which, a, b)
            else:
                found = self.node(name, *[self.chosen(which, *pair) for pair in zip(left, right, strict=True)])
            self._choices[which, a, b] = found
        return found

    def decide(self, node: int) -> bool:
        """Truth of a comparison on this way; one that was met before keeps its answer."""
        for known, answer in self.answers:
            if known == node:
                return answer
        answer = self.given[len(self.answers)] if len(self.answers) < len(self.given) else True
        self.answers.append((node, answer))
        return answer


class _Symbol:
    """A number that is not known yet."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, trace: _Trace, node: int) -> None:
        self.trace, self.node = trace, node

    def _made(self, name: str, *parts: Any) -> _Symbol:
        return _Symbol(self.trace, self.trace.node(name, *[_node(self.trace, part) for part in parts]))

    def __bool__(self) -> bool:
        return self.trace.decide(self.node)

    def __neg__(self) -> _Symbol:
        return self._made("neg", self)

    def __pos__(self) -> _Symbol:
        return self

    def __abs__(self) -> _Symbol:
        return self._made("abs", self)

    def __pow__(self, power: Any) -> _Symbol:
        if power != 2:
            raise InputError("powers other than 2 have no form for tensors: write products")
        return self._made("mul", self, self)

    def __rpow__(self, base: Any) -> _Symbol:
        if base != 2.0:
            raise InputError("powers of numbers other than 2 have no form for tensors: use math.exp")
        return self._made("two_to", self)

    def __float__(self) -> float:
        raise InputError("a number that is converted to a Python float has no form for tensors")


def _node(trace: _Trace, part: Any) -> int:
    return part.node if isinstance(part, _Symbol) else trace.node("number", float(part))


def _operator(name: str, swapped: bool) -> Callable[[Any, Any], Any]:
    def apply(self: _Symbol, other: Any) -> _Symbol:
        return self._made(name, other, self) if swapped else self._made(name, self, other)

    return apply


for _name in _BINARY:
    _python = {"div": "truediv"}.get(_name, _name)
    setattr(_Symbol, f"__{_python}__", _operator(_name, False))
    if _name in ("add", "sub", "mul", "div"):
        setattr(_Symbol, f"__r{_python}__", _operator(_name, True))


def _call(name: str) -> Callable[[Any], Any]:
    def apply(x: Any) -> Any:
        return x._made(name, x) if isinstance(x, _Symbol) else getattr(math, name)(x)

    return apply


def _choose(above: bool) -> Callable[..., Any]:
    """Python's max or min: the first of the largest, or smallest."""

    def apply(first: Any, *others: Any) -> Any:
        for other in others:
            if not isinstance(first, _Symbol) and not isinstance(other, _Symbol):
                first = max(first, other) if above else min(first, other)
                continue
            known = first if isinstance(first, _Symbol) else other
            better = known._made("gt" if above else "lt", other, first)
            first = known._made("choose", better, other, first)
        return first

    return apply


_MATH = types.SimpleNamespace(
    **{name: getattr(math, name) for name in dir(math) if not name.startswith("_")}
    | {name: _call(name) for name in _CALLS}
)
_NUMPY = types.SimpleNamespace(
    **{name: _call(name) for name in (*_CALLS, "round")}, abs=abs, pi=math.pi, e=math.e, inf=math.inf,
    float64=lambda x: x, maximum=_choose(True), minimum=_choose(False),
)  # fmt: skip
_PLAIN = {"max": _choose(True), "min": _choose(False), "float": lambda x: x if isinstance(x, _Symbol) else float(x)}


def _on_symbols(function: Any, done: dict[int, Any]) -> Any:
    """The same code with functions of symbols in place of those of numbers."""
    function = getattr(function, "py_func", function)
    if id(function) in done:
        return done[id(function)]
    names: dict[str, Any] = {}
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    done[id(function)] = copy
    names.update(function.__globals__)
    names.update(_PLAIN)
    for name in function.__code__.co_names:
        known = names.get(name)
        if known is math:
            names[name] = _MATH
        elif known is np:
            names[name] = _NUMPY
        elif isinstance(getattr(known, "py_func", known), types.FunctionType) and name not in _PLAIN:
            names[name] = _on_symbols(known, done)
        elif isinstance(known, types.BuiltinFunctionType) and getattr(known, "__module__", "") == "math":
            names[name] = getattr(_MATH, known.__name__)
    return copy


class Graph:
    """What a plain function of numbers does, for arrays and for kernels.

    Parameters
    ----------
    function : callable
        Plain Python, or compiled by numba from it.
    fixed : tuple
        What its first arguments are.
    count : int
        How many arguments come after them, each a number.

    Examples
    --------
    >>> from dpconvex.problem.losses import Huber
    >>> graph = Graph(Huber.slope, (Huber(0.5),), 2)
    >>> graph((np.array([0.75, 3.0]), np.array([1.0, 1.0])), np)[0]
    array([-0.25,  0.5 ])
    """

    def __init__(self, function: Any, fixed: tuple[Any, ...], count: int) -> None:
        trace = _Trace()
        inputs = [_Symbol(trace, trace.node("input", float(k))) for k in range(count)]
        run = _on_symbols(function, {})
        self._trace, self._ways = trace, 0
        self.outputs: list[int] = self._follow(trace, lambda: run(*fixed, *inputs), [])
        self.nodes, self.outputs = _used(trace.nodes, self.outputs)

    def _follow(self, trace: _Trace, run: Callable[[], Any], given: list[bool]) -> list[int]:
        self._ways += 1
        if self._ways > _PATHS:
            raise InputError(f"a function with more than {_PATHS} ways through it has no form for tensors")
        trace.answers, trace.given = [], given
        made = run()
        ends = [_node(trace, part) for part in (made if isinstance(made, tuple) else (made,))]
        met = list(trace.answers)
        for at in range(len(met) - 1, len(given) - 1, -1):  # join what follows from the other answer
            other = self._follow(trace, run, [answer for _, answer in met[:at]] + [False])
            ends = [trace.chosen(met[at][0], a, b) for a, b in zip(ends, other, strict=True)]
        return ends

    def __call__(self, given: tuple[Any, ...], xp: Any) -> tuple[Any, ...]:
        """Evaluate on arrays of one shape."""
        found: list[Any] = []
        with np.errstate(all="ignore"):  # of the ways that are not chosen
            for name, *parts in self.nodes:
                if name in ("number", "input"):
                    found.append(parts[0] if name == "number" else given[int(parts[0])])
                    continue
                values = [found[part] for part in parts]
                found.append(_evaluated(name, values, given[0], xp))
            return tuple(_filled(found[end], given[0], xp) for end in self.outputs)

    def text(self, name: str, inputs: tuple[str, ...], call: Callable[[str, list[str]], str]) -> str:
        """Write it out as the source of a function, with `call` to write numbers, and what is not a sign."""
        lines = [f"def {name}({', '.join(inputs)}):"]
        words: list[str] = []
        for k, (what, *parts) in enumerate(self.nodes):
            if what == "input":
                words.append(inputs[int(parts[0])])
                continue
            if what == "number":
                literal = repr(parts[0]) if math.isfinite(parts[0]) else f'float("{parts[0]}")'
                words.append(call("number", [literal]))
                continue
            of = [words[part] for part in parts]
            right = f"{of[0]} {_SIGNS[what]} {of[1]}" if what in _SIGNS else call(what, of)
            words.append(f"v{k}")
            lines.append(f"    v{k} = {right}")
        ends = ", ".join(words[end] for end in self.outputs)
        return "\n".join([*lines, f"    return {ends}"]) + "\n"


def _used(nodes: list[tuple[Any, ...]], ends: list[int]) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Leave out what no result is made of."""
    wanted = set(ends)
    for k in range(len(nodes) - 1, -1, -1):
        if k in wanted and nodes[k][0] not in ("number", "input"):
            wanted.update(nodes[k][1:])
    places = {k: place for place, k in enumerate(sorted(wanted))}
    kept = [
        node if node[0] in ("number", "input") else (node[0], *[places[part] for part in node[1:]])
        for node in (nodes[k] for k in sorted(wanted))
    ]
    return kept, [places[end] for end in ends]


def _evaluated(name: str, values: list[Any], like: Any, xp: Any) -> Any:
    if name in _BINARY:
        return _BINARY[name](*values)
    if name == "neg":
        return -values[0]
    if name == "choose":
        which, a, b = values
        if isinstance(which, bool):
            return a if which else b
        return xp.where(which, _filled(a, like, xp), _filled(b, like, xp))
    if name == "two_to":
        return xp.pow(_filled(2.0, like, xp), values[0])
    return getattr(xp, {"fabs": "abs"}.get(name, name))(values[0])


def _filled(value: Any, like: Any, xp: Any) -> Any:
    return value + xp.zeros_like(like) if isinstance(value, float | int) else value


@lru_cache(maxsize=256, typed=True)
def traced(loss: Any, method: str) -> Graph:
    """Trace the method of a loss of one prediction that is given a prediction and a label.

    Examples
    --------
    >>> from dpconvex.problem.losses import Logistic
    >>> z, y = np.array([0.3, -2.0]), np.array([1.0, -1.0])
    >>> [Logistic(0.7).slope(*pair) for pair in zip(z, y)] == traced(Logistic(0.7), "slope")((z, y), np)[0].tolist()
    True
    """
    return Graph(getattr(type(loss), method), (loss,), 2)
