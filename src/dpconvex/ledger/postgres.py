"""A ledger in a PostgreSQL database, for several machines. Needs the extra `postgres`."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from dpconvex.errors import LedgerError, UnavailableError
from dpconvex.ledger.store import BUSY, FORKING, INDEXES, ONLY_APPEND, STORES, TABLE, Execute, UnsureError

_MAKING = 0x6470636F  # key of the lock under which the table is made
_REFUSE = f"""CREATE FUNCTION dpconvex_refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION '{ONLY_APPEND}'; END $$"""
_TRIGGER = """CREATE TRIGGER dpconvex_only_append BEFORE UPDATE OR DELETE OR TRUNCATE ON dpconvex_ledger
    EXECUTE FUNCTION dpconvex_refuse()"""


class PostgreSQL:
    """A ledger in a PostgreSQL database. Writers take turns by an exclusive lock on the table; readers need none.

    Parameters
    ----------
    url : str
        postgresql://user:password@host/database
    """

    def __init__(self, url: str) -> None:
        try:
            import psycopg  # noqa: F401 (named in the URL)
            import sqlalchemy
        except ImportError:
            raise UnavailableError(
                "a ledger in PostgreSQL needs SQLAlchemy and psycopg: pip install 'dpconvex[postgres]'"
            ) from None
        self.url = url
        self._sql = sqlalchemy
        where = sqlalchemy.make_url(url).set(drivername="postgresql+psycopg")
        self._name = where.render_as_string(hide_password=True)
        self._engine = sqlalchemy.create_engine(where, pool_size=1, max_overflow=0, pool_pre_ping=True)
        weakref.finalize(self, self._engine.dispose)
        self.lock = threading.RLock()
        with FORKING:
            STORES.add(self)

    def make(self, create: bool) -> bool:
        """Make the table unless it is there; whether it was made."""
        with self._begun() as execute:
            execute("SELECT pg_advisory_xact_lock(:key)", key=_MAKING)
            if execute("SELECT to_regclass('dpconvex_ledger')") != [(None,)]:
                return False
            if not create:
                raise LedgerError(f"there is no ledger in {self._name}")
            for statement in (TABLE, *INDEXES, _REFUSE, _TRIGGER):
                execute(statement)
        return True

    @contextmanager
    def transaction(self, *, write: bool = True, durable: bool = True) -> Iterator[Execute]:
        """Context of a function that executes statements with named parameters; all of them hold, or none."""
        with self._begun(write) as execute:
            if write:
                execute(f"SET LOCAL lock_timeout = '{BUSY:g}s'")
                execute(f"SET LOCAL synchronous_commit = '{'on' if durable else 'off'}'")
                execute("LOCK TABLE dpconvex_ledger IN EXCLUSIVE MODE")
            else:
                execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield execute

    def check(self) -> None:
        """Nothing: the server checks its own pages."""

    def close(self) -> None:
        """Close connections; the next transaction opens one again."""
        self._engine.dispose()

    @contextmanager
    def _begun(self, write: bool = True) -> Iterator[Execute]:
        with FORKING:
            self.lock.acquire()
        try:
            try:
                connection = self._engine.connect()
            except self._sql.exc.SQLAlchemyError as error:
                self._refuse(error)
            with connection:

                def execute(statement: str, **given: Any) -> list[tuple[Any, ...]]:
                    result = connection.execute(self._sql.text(statement), given)
                    return [tuple(row) for row in result] if result.returns_rows else []

                try:
                    yield execute
                except self._sql.exc.SQLAlchemyError as error:
                    connection.invalidate()
                    self._refuse(error)
                if not write:
                    return
                try:
                    connection.commit()
                except self._sql.exc.SQLAlchemyError as error:
                    connection.invalidate()
                    raise UnsureError(
                        f"the connection to the ledger {self._name} broke while it was writing: whether that was "
                        "recorded is not known"
                    ) from error
        finally:
            self.lock.release()

    def _refuse(self, error: Exception) -> NoReturn:
        cause = getattr(error, "orig", None) or error
        state = str(getattr(cause, "sqlstate", None))
        why = {
            "55P03": f"other writers kept it busy for {BUSY:g} seconds: try again",
            "53100": "the disk of the server is full",
            "25006": "the database may only be read",
            "42501": "this user may not write to it",
        }.get(state, f"the server says: {' '.join(str(cause).split())[:200]}")
        raise LedgerError(f"the ledger {self._name} cannot be used: {why}") from error
