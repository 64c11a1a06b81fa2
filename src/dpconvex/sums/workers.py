"""Parts read by workers: any executor of `concurrent.futures`, or the workers of a Dask cluster.

A task is a part and a question; what comes back is a sum, encrypted under a key of the run, for the process that runs
the plan. A worker that dies costs its task and nothing else: the task is given to another one, and since a sum is a
function of the rows, so is the result. What a worker keeps of a run it lets go of when it begins another.
"""

from __future__ import annotations

import ipaddress
import os
import pickle
import platform
import sys
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import BrokenExecutor, CancelledError
from dataclasses import dataclass
from importlib.metadata import version
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpconvex.data.opened import OpenedPart, OpenedParts
from dpconvex.errors import InputError, PartsError
from dpconvex.sums.parts import Engine, Question, Reader, Which, answer
from dpconvex.sums.store import Store
from dpconvex.version import VERSION

_AHEAD = 64  # tasks given out before the first of them is needed, or three for each core of a cluster
_PATIENCE = 20  # workers that may die over one task
_LOCK = Lock()
_STORES: dict[bytes, Store] = {}  # what this process keeps, by run
_RUNS = 2  # of which it keeps anything


@dataclass(frozen=True, eq=False)
class Task:
    """A part, and what is asked of it. Its form shows nothing of either."""

    kind: tuple[str, ...]
    run: bytes
    key: bytes
    seal: bytes
    room: int
    scratch: str | None
    number: int
    part: OpenedPart
    local: Which
    question: Question

    def __repr__(self) -> str:
        return "<Task>"


def kind() -> tuple[str, ...]:
    """What workers must have in common, for sums to have the same bits."""
    packages = tuple(f"{name} {version(name)}" for name in ("numpy", "numba", "scipy"))
    return f"dpconvex {VERSION}", "python {}.{}".format(*sys.version_info), *packages, platform.machine()


def work(task: Task) -> bytes:
    """Do a task in a worker, and return the answer, or what went wrong, for nobody but who asked."""
    found: tuple[bool, Any]
    try:
        if task.kind != (ours := kind()):
            differ = [f"{a} and {b}" for a, b in zip(task.kind, ours, strict=True) if a != b]
            raise PartsError(f"a worker differs from the process that runs the plan: {', '.join(differ)}")
        reader = Reader(task.key, _store(task))
        try:
            found = True, answer(reader, task.number, task.part, task.local, task.question, lambda more: None)
        finally:
            reader.close()
    except PartsError as error:
        found = False, str(error)
    except Exception as error:
        found = False, f"{task.part.part.name} could not be added up ({type(error).__name__})"
    nonce = os.urandom(12)
    return nonce + AESGCM(task.seal).encrypt(nonce, pickle.dumps(found, protocol=5), task.number.to_bytes(8, "big"))


def opened(sealed: bytes, seal: bytes, number: int) -> tuple[np.ndarray | None, dict[int, bytes]]:
    """Open what `work` returned."""
    plain = AESGCM(seal).decrypt(sealed[:12], sealed[12:], number.to_bytes(8, "big"))
    good, found = pickle.loads(plain)
    if not good:
        raise PartsError(found)
    return found


def _store(task: Task) -> Store:
    with _LOCK:
        store = _STORES.pop(task.run, None) or Store(task.room, task.scratch)
        _STORES[task.run] = store
        while len(_STORES) > _RUNS:
            _STORES.pop(next(iter(_STORES))).close()
    return store


class Workers(Engine):
    """Asks parts by the workers of an executor, and adds up nothing itself.

    Parameters
    ----------
    rows, key, store : as for `Engine`
    executor : concurrent.futures.Executor, or a Dask client
    """

    def __init__(self, rows: OpenedParts, key: bytes, store: Store, executor: Any) -> None:
        super().__init__(rows, key, store)
        self._run, self._seal = os.urandom(16), AESGCM.generate_key(256)
        self._room, self._scratch = store.room, store.folder
        self._give = _Dask(executor) if hasattr(executor, "scheduler_info") else _Pool(executor)

    def ask(
        self, asked: list[tuple[int, Which]], question: Question, done: Callable[[int], None]
    ) -> Generator[np.ndarray | None, None, None]:
        """Yield the answer of each part, in order."""
        if all(self._short(number, local) for number, local in asked):  # steps of one pass in order
            yield from super().ask(asked, question, done)
            return
        self._give.begin()
        coming, waiting = iter(asked), deque[tuple[Task, Any]]()
        try:
            while True:
                while len(waiting) < self._give.ahead and (one := next(coming, None)) is not None:
                    task = self._task(*one, question)
                    waiting.append((task, self._give(task)))
                if not waiting:
                    return
                task, future = waiting.popleft()
                total, names = opened(self._give.result(task, future), self._seal, task.number)
                self.compare(task.number, names)
                done(len(task.local) if isinstance(task.local, range) else self.rows.parts.parts[task.number].rows)
                yield total
        finally:
            for _, future in waiting:
                future.cancel()

    def _short(self, number: int, local: Which) -> bool:
        return isinstance(local, range) and local.step == 1 and len(local) < self.rows.parts.parts[number].rows

    def _task(self, number: int, local: Which, question: Question) -> Task:
        part = self.rows.piece(number)
        return Task(
            kind(), self._run, self.key, self._seal, self._room, self._scratch, number, part, local, question
        )  # fmt: skip


class _Pool:
    """Any executor of `concurrent.futures`."""

    def __init__(self, executor: Any) -> None:
        self._executor, self.ahead = executor, _AHEAD

    def begin(self) -> None:
        """Begin a pass."""

    def __call__(self, task: Task) -> Any:
        """Give a task to a worker."""
        try:
            return self._executor.submit(work, task)
        except BrokenExecutor:
            raise PartsError("a worker process died, and its executor takes no more tasks") from None

    def result(self, task: Task, future: Any) -> bytes:
        """Wait for a task."""
        try:
            return future.result()
        except BrokenExecutor:
            raise PartsError("a worker process died, and its executor takes no more tasks") from None
        except CancelledError:
            raise PartsError("a task was cancelled") from None
        except Exception as error:
            raise PartsError(f"a part could not be sent to a worker ({type(error).__name__})") from None


class _Dask(_Pool):
    """The workers of a Dask cluster: the same part goes to the same worker, as long as none comes or goes."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self._workers: list[str] = []
        self._seen: frozenset[str] | None = None
        check_addresses([client.scheduler.address])

    def begin(self) -> None:
        """Look which workers there are."""
        cores, before = self._executor.ncores(), self._seen
        check_addresses(cores)
        self._seen = frozenset(cores)
        self.ahead = max(_AHEAD, 3 * sum(cores.values()))
        steady = before in (None, self._seen)
        self._workers = [address for address in sorted(cores) for _ in range(cores[address])] if steady else []

    def __call__(self, task: Task) -> Any:
        """Give a task to a worker."""
        where: dict[str, Any] = {}
        if self._workers:
            where = {"workers": self._workers[task.number % len(self._workers)], "allow_other_workers": True}
        try:
            return self._executor.submit(work, task, pure=False, **where)
        except Exception as error:
            raise PartsError(f"a part could not be sent to a worker ({type(error).__name__})") from None

    def result(self, task: Task, future: Any) -> bytes:
        """Wait for a task; where its worker dies, give it to another."""
        for _ in range(_PATIENCE):
            try:
                found: bytes = future.result()
            except Exception as error:
                failed = type(error).__name__
                if failed not in ("KilledWorker", "CancelledError", "FutureCancelledError", "CommClosedError"):
                    raise PartsError(f"a task failed on the cluster ({failed})") from None
                self._workers = []  # somebody died: whoever is there may take it
                future = self(task)
            else:
                future.release()
                return found
        raise PartsError(f"{_PATIENCE} workers died over one part")


def check_addresses(addresses: Any) -> None:
    """Refuse addresses that are neither of this machine nor encrypted.

    Examples
    --------
    >>> check_addresses(["tls://10.0.0.3:8786", "tcp://127.0.0.1:8786", "inproc://10.0.0.3/1/2"])
    >>> check_addresses(["tcp://10.0.0.3:8786"])
    Traceback (most recent call last):
        ...
    dpconvex.errors.InputError: sums without noise would travel unencrypted to another machine: connect the Dask \
client and its workers by TLS (distributed.Security)
    """
    for address in addresses:
        parts = urlsplit(address)
        if parts.scheme in ("tls", "inproc") or _loopback(parts.hostname):
            continue
        raise InputError(
            "sums without noise would travel unencrypted to another machine: connect the Dask client and its workers "
            "by TLS (distributed.Security)"
        )


def _loopback(host: str | None) -> bool:
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"
