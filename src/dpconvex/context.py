"""What surrounds a run, set for a block of code rather than in keywords of `run` and `fit`.

A setting is a field of `Settings` whose metadata holds its check. Contexts nest, each changing what it names, and
belong to the thread or asyncio task that entered them; tasks hand them on to the tasks they create. Other threads and
other processes (joblib workers) do not see them, with one exception: a ledger holds for the whole process, and for the
processes that it starts.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from pathlib import Path
from time import monotonic
from typing import Any

from dpconvex.errors import InputError
from dpconvex.plain import plain_name

DEFAULT_DATASET = "default"
LEDGER_VARIABLE = "DPCONVEX_LEDGER"  # environment variable that names the ledger of a process


def _name(value: object) -> str | None:
    try:
        plain_name(value, "dataset")
    except InputError:
        return "a name without control characters"
    return None


_UNITS = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "b": 1, "": 1}


def read_bytes(value: object) -> int | None:
    """Return a number of bytes from a number or from text such as "500 MB"; None for anything else.

    Examples
    --------
    >>> read_bytes("1.5 GB"), read_bytes(4096), read_bytes("much")
    (1500000000, 4096, None)
    """
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", value.lower())
        return round(float(found[1]) * _UNITS[found[2]]) if found and found[2] in _UNITS else None
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _memory(value: object) -> str | None:
    return None if read_bytes(value) is not None else 'a number of bytes of at least 0, or text such as "500 MB"'


def _folder(value: object) -> str | None:
    return None if value is None or (isinstance(value, str | Path) and str(value)) else "a folder, or None"


def _executor(value: object) -> str | None:
    fits = value is None or callable(getattr(value, "submit", None))
    return None if fits else "an executor of concurrent.futures, or a Dask client"


def _ledger(value: object) -> str | None:
    fits = value is None or all(hasattr(value, name) for name in ("reserve", "url"))
    return None if fits else "a ledger: dpconvex.Ledger.open(...)"


def _device(value: object) -> str | None:
    return None if value is None or (isinstance(value, str) and value) else 'the name of a device, such as "cuda"'


def _seconds(value: object) -> str | None:
    number = isinstance(value, Real) and not isinstance(value, bool) and 0.0 < float(value) < math.inf
    return None if value is None or number else "a positive number of seconds"


def _setting(default: Any, expected: Callable[[object], str | None]) -> Any:
    """Declare a setting; `expected` returns None for a valid value and otherwise says what is."""
    return field(default=default, metadata={"expected": expected})


@dataclass(frozen=True)
class Settings:
    """Settings of the current context, with their defaults."""

    dataset: str = _setting(DEFAULT_DATASET, _name)
    memory: int | str = _setting(2**27, _memory)
    scratch: str | Path | None = _setting(None, _folder)
    executor: Any = _setting(None, _executor)
    ledger: Any = _setting(None, _ledger)
    device: str | None = _setting(None, _device)
    pad_time: float | None = _setting(None, _seconds)
    entered: float = 0.0  # when the block that pads time was


_CURRENT: ContextVar[Settings] = ContextVar("dpconvex.context", default=Settings())  # noqa: B039  # frozen


def settings() -> Settings:
    """Settings of the context this code runs in."""
    return _CURRENT.get()


def charged(dataset: str | None) -> str:
    """The data set to charge: the one that was named, or else that of the context."""
    return settings().dataset if dataset is None else plain_name(dataset, "dataset")


@contextmanager
def context(**changes: Any) -> Iterator[Settings]:
    """Change settings for the runs and fits of a `with` block; what held before is restored at its end.

    Contexts nest. They belong to the thread or asyncio task that enters them: other threads and processes, such as the
    joblib workers of `GridSearchCV(n_jobs=2)`, use the defaults, so enter the context inside the function they run.

    Parameters
    ----------
    dataset : str, default="default"
        Name of the data set that the account charges where a run names none, and where an estimator has no schema
        or one without a name.
    memory : int or str, default=2**27
        Bytes of opened rows of parts (`dpconvex.data.Parts`) that a run keeps between passes, such as "500 MB". The
        others are read again on every pass. What a run takes beside them does not depend on the number of rows.
    scratch : str or Path, optional
        A folder where a run keeps the opened rows of parts that memory has no room for, encrypted under a key that is
        never written, in a file that has no name and vanishes with the run. Worth it where opening them takes longer
        than reading them, as with text.
    executor : concurrent.futures.Executor or dask.distributed.Client, optional
        Whose workers read parts and add them up. They return sums to this process, which draws the noise. `memory` and
        `scratch` are then those of every worker.
    ledger : Ledger, optional
        The ledger that runs are charged to. While the block lasts it holds for all threads of the process that have no
        ledger of their own, and for processes started meanwhile, by the environment variable DPCONVEX_LEDGER. Worker
        processes that are running already do not see it: set the variable before they start.
    device : str, optional
        Where sums over dense rows are computed, by PyTorch: "cuda", or another of its devices. Rows in host memory are
        copied there once if they fit, and else in parts on every pass. By default where the rows lie: tensors on an
        accelerator there, all others by NumPy and numba.
    pad_time : float, optional
        Runs in the block end, by a result or an error, only at whole multiples of so many seconds since the block was
        entered, so that whoever waits for them learns little from how long they took. For services: a block for each
        request, and more seconds than a run ever needs.

    Raises
    ------
    InputError
        For an unknown setting or a value of the wrong form; nothing is changed.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic(), feature_bound=1.0)
    >>> plan = dc.choose(problem, n=100, d=1, budget=dc.Budget(1.0, 1e-6))
    >>> with dc.context(dataset="survey of May"):
    ...     solution = plan.run([[1.0], [-1.0]] * 50, [1.0, -1.0] * 50)
    >>> solution.receipt.sections["dataset"]["name"], len(dc.account("survey of May").claims)
    ('survey of May', 1)
    """
    known = {setting.name: setting.metadata["expected"] for setting in fields(Settings) if setting.metadata}
    for name, value in changes.items():
        if name not in known:
            raise InputError(f"no such setting: {name!r}; the settings of a context are {', '.join(known)}")
        if expected := known[name](value):
            raise InputError(f"{name} must be {expected}")
    clock: dict[str, Any] = {"entered": monotonic()} if "pad_time" in changes else {}
    token = _CURRENT.set(replace(settings(), **changes, **clock))
    try:
        with _exported(changes.get("ledger")):
            yield settings()
    finally:
        _CURRENT.reset(token)


_EXPORTED: list[Any] = []  # ledgers of the contexts that are open in this process
_EXPORTING = threading.Lock()
_before: list[str | None] = []  # the variable as it was outside of all contexts


@contextmanager
def _exported(ledger: Any) -> Iterator[None]:
    """Name a ledger in the environment: threads and processes that the block starts must not do without."""
    if ledger is None:
        yield
        return
    with _EXPORTING:
        if not _EXPORTED:
            _before[:] = [os.environ.get(LEDGER_VARIABLE)]
        _EXPORTED.append(ledger)
        os.environ[LEDGER_VARIABLE] = ledger.url
    try:
        yield
    finally:
        with _EXPORTING:
            _EXPORTED.remove(ledger)
            name = _EXPORTED[-1].url if _EXPORTED else _before[0]
            if name is None:
                os.environ.pop(LEDGER_VARIABLE, None)
            else:
                os.environ[LEDGER_VARIABLE] = name
