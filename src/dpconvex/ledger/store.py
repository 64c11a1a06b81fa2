"""Where the entries of a ledger lie: an SQLite file, or a PostgreSQL database for several machines.

Both have one table and the same statements. A transaction that writes holds the only lock for writing from its first
statement on, so what it read is still true when it commits. Nothing here knows what entries mean.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol

from dpconvex.errors import InputError, LedgerError

Execute = Callable[..., list[tuple[Any, ...]]]
TABLE = """CREATE TABLE dpconvex_ledger (
    number BIGINT PRIMARY KEY, kind TEXT NOT NULL, dataset TEXT, plan TEXT, run TEXT, hash TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL)"""
INDEXES = (
    "CREATE INDEX dpconvex_ledger_of ON dpconvex_ledger (kind, dataset, number)",
    "CREATE INDEX dpconvex_ledger_run ON dpconvex_ledger (run)",
)
ONLY_APPEND = "entries of a ledger are never changed"
SCHEMA = (
    TABLE,
    *INDEXES,
    *(
        f"CREATE TRIGGER dpconvex_no_{change.lower()} BEFORE {change} ON dpconvex_ledger "
        f"BEGIN SELECT RAISE(ABORT, '{ONLY_APPEND}'); END"
        for change in ("UPDATE", "DELETE")
    ),
)
BROKEN = (sqlite3.Error, UnicodeError)  # a damaged file may raise either
BUSY = 30.0  # seconds to wait for other writers


class UnsureError(LedgerError):
    """It is not known whether something was recorded."""


class Store(Protocol):
    """What a ledger needs of the place where its entries lie."""

    url: str

    def make(self, create: bool) -> bool:
        """Make the table unless it is there; whether it was made."""

    def transaction(self, *, write: bool = True, durable: bool = True) -> Any:
        """Context of a function that executes statements with named parameters; all of them hold, or none."""

    def check(self) -> None:
        """Check the place itself, beyond what it holds; a `LedgerError` says what is wrong."""

    def close(self) -> None:
        """Close connections; the next transaction opens one again."""


# Connections must not live in two processes: a child that shared one would break the locks of its parent. So before
# Python forks, all of them are closed, and nobody opens one until it has forked.
STORES: weakref.WeakSet[Any] = weakref.WeakSet()
FORKING = threading.RLock()  # taken before the locks of stores
_held: list[Any] = []


def _before_fork() -> None:
    FORKING.acquire()
    _held.extend(STORES)
    for store in _held:
        store.lock.acquire()
        store.close()


def _after_fork() -> None:
    while _held:
        _held.pop().lock.release()
    FORKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def open_store(url: str, create: bool) -> tuple[Store, bool]:
    """Open the place that a path or URL names, and say whether it is new."""
    if url.startswith(("postgresql:", "postgres:", "postgresql+psycopg:")):
        from dpconvex.ledger.postgres import PostgreSQL

        store: Store = PostgreSQL(url)
    else:
        store = SQLite(url.removeprefix("sqlite:///"))
    return store, store.make(create)


class SQLite:
    """A ledger in an SQLite file.

    The file is in WAL mode. Transactions that are durable are on the disk when they end; the others survive the end of
    the process, but a loss of power may take the last of them back.

    Examples
    --------
    >>> import tempfile
    >>> store, new = open_store(tempfile.mkdtemp() + "/budget.db", create=True)
    >>> with store.transaction() as execute:
    ...     execute("SELECT count(*) FROM dpconvex_ledger")
    [(0,)]
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser().resolve()
        self.url = str(self.path)
        self.lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        with FORKING:
            STORES.add(self)

    def make(self, create: bool) -> bool:
        """Make the file and its table unless they are there; whether they were made."""
        new = not self.path.exists() or not self.path.stat().st_size
        if new and not create:
            raise LedgerError(f"there is no ledger at {self.path}")
        if new:
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            except OSError as error:
                raise LedgerError(
                    f"the ledger {self.path} cannot be made: {error.strerror}. Is its folder there?"
                ) from None
        with self.transaction(write=create) as execute:
            known = {name for (name,) in execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "dpconvex_ledger" in known:
                return False
            if known or not create:
                raise LedgerError(f"{self.path} is not a ledger of dpconvex")
            for statement in SCHEMA:
                execute(statement)
        return True

    @contextmanager
    def transaction(self, *, write: bool = True, durable: bool = True) -> Iterator[Execute]:
        """Context of a function that executes statements with named parameters; all of them hold, or none."""
        with FORKING:  # a thread that forks first takes this, then the locks of all stores
            self.lock.acquire()
        try:
            try:
                connection = self._opened()
                connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            except BROKEN as error:
                self._refuse(error)
            try:
                yield lambda statement, **given: connection.execute(statement, given).fetchall()
                connection.execute("COMMIT" if write else "ROLLBACK")
            except BROKEN as error:
                self._rolled_back(connection)
                self._refuse(error)
            except BaseException:
                self._rolled_back(connection)
                raise
        finally:
            self.lock.release()

    def check(self) -> None:
        """Check the pages of the file, its indexes and the triggers that refuse changes."""
        with self.transaction(write=False) as execute:
            found = execute("PRAGMA integrity_check(1)")
            made = {row for row in execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")}
        if found != [("ok",)]:
            raise LedgerError(
                f"the ledger {self.path} is damaged: restore a backup, and compare it with later receipts"
            )
        if {" ".join(str(sql).split()) for _, _, sql in made} != {" ".join(sql.split()) for sql in SCHEMA}:
            raise LedgerError("the ledger was altered: its tables are not as they were made")

    def close(self) -> None:
        """Close the connection; the next transaction opens one again."""
        with self.lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    __del__ = close

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None and self._process != os.getpid():
            raise LedgerError(
                "this process was forked, not by Python, while the ledger was open: use multiprocessing or os.fork"
            )
        if self._connection is None:
            connection = sqlite3.connect(
                f"{self.path.as_uri()}?mode=rw", uri=True, timeout=BUSY, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA journal_mode = WAL")
            if sys.platform == "darwin":
                connection.execute("PRAGMA fullfsync = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            self._connection, self._process = connection, os.getpid()
        return self._connection

    def _rolled_back(self, connection: sqlite3.Connection) -> None:
        """End a transaction that failed; a connection that cannot even do that is given up."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except BROKEN:
            self.close()

    def _refuse(self, error: Exception) -> NoReturn:
        code = sqlite3.SQLITE_CORRUPT if isinstance(error, UnicodeError) else getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF
        why = {
            sqlite3.SQLITE_BUSY: f"other writers kept it busy for {BUSY:g} seconds: try again",
            sqlite3.SQLITE_FULL: "the disk is full",
            sqlite3.SQLITE_READONLY: "it may not be written to",
            sqlite3.SQLITE_CANTOPEN: "the file cannot be opened: is its folder there, and may it be written to?",
            sqlite3.SQLITE_CORRUPT: "the file is damaged: restore a backup, and compare it with later receipts",
            sqlite3.SQLITE_NOTADB: "the file is damaged, or is no SQLite file",
            sqlite3.SQLITE_IOERR: "the disk does not answer",
        }.get(-1 if primary is None else primary, str(error))
        if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOTADB):
            self.close()
        raise LedgerError(f"the ledger {self.path} cannot be used: {why}") from error

    def backup(self, path: str | Path) -> None:
        """Write a consistent copy to a new file, while others go on."""
        target = Path(path)
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            raise InputError(f"{target} exists: a backup goes to a new file") from None
        except OSError as error:
            raise InputError(f"{target} cannot be made: {error.strerror}") from None
        with FORKING, self.lock:
            try:
                copy = sqlite3.connect(target)
                try:
                    self._opened().backup(copy)
                finally:
                    copy.close()
            except BROKEN as error:
                self._refuse(error)
