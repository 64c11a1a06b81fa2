"""A PostgreSQL server of one's own, for tests and benchmarks: `python benchmarks/servers.py` says what is missing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

_USER = "postgres"  # a server refuses to run as root


def binaries() -> Path | None:
    """The folder of the programs of a server, or None."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def missing() -> list[str]:
    """What is missing, and how to get it."""
    found = [] if binaries() else ["a PostgreSQL server: apt-get install postgresql"]
    packages = [name for name in ("sqlalchemy", "psycopg") if find_spec(name) is None]
    return found + ([f"{' and '.join(packages)}: pip install 'dpconvex[postgres]'"] if packages else [])


def _as_server() -> str | None:
    return _USER if hasattr(os, "geteuid") and os.geteuid() == 0 else None


@contextmanager
def server() -> Iterator[str]:
    """A server with an empty database on this machine, and its URL; it ends with the block."""
    folder, programs = tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None), binaries()
    assert programs is not None
    user, data = _as_server(), Path(folder, "data")
    if user:
        shutil.chown(folder, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = Path(folder, "log")

    def call(program: str, *arguments: str) -> None:
        command = [str(programs / program), *arguments]
        done = subprocess.run(command, user=user, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout}{done.stderr}{log.read_text() if log.exists() else ''}")

    try:
        call("initdb", "-D", str(data), "-A", "trust", "-U", _USER, "--no-sync", "-E", "UTF8", "--locale", "C")
        options = f"-c listen_addresses=127.0.0.1 -p {port} -c unix_socket_directories={folder}"
        call("pg_ctl", "-D", str(data), "-l", str(log), "-w", "-t", "120", "-o", options, "start")
        try:
            yield f"postgresql://{_USER}@127.0.0.1:{port}/{_USER}"
        finally:
            call("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def execute(url: str, *statements: str) -> None:
    """Execute statements on a server, each in a transaction of its own."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def emptied(url: str) -> None:
    """Take the ledger out of a database."""
    execute(url, "DROP TABLE IF EXISTS dpconvex_ledger", "DROP FUNCTION IF EXISTS dpconvex_refuse")


class Cut:
    """A wire to a server that is cut when a word passes, before or after the server has got it.

    Examples
    --------
    >>> Cut("postgresql://postgres@127.0.0.1:1/postgres").url.startswith("postgresql://postgres@127.0.0.1:")
    True
    """

    def __init__(self, url: str) -> None:
        self._there = url.split("@")[1].split("/")[0].split(":")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(":".join(self._there), f"127.0.0.1:{self._listener.getsockname()[1]}")
        self.word: bytes | None = None
        self.before = True
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            there, lost = socket.create_connection((self._there[0], int(self._there[1]))), threading.Event()
            for one, other, forward in ((here, there, True), (there, here, False)):
                threading.Thread(target=self._carry, args=(one, other, forward, lost), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket, forward: bool, lost: threading.Event) -> None:
        with suppress(OSError):
            while part := one.recv(65536):
                if forward and self.word is not None and self.word in part:
                    self.word = None
                    if self.before:
                        break
                    lost.set()  # the server gets it, and its answer does not arrive
                elif lost.is_set() and not forward:
                    break
                other.sendall(part)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()


if __name__ == "__main__":
    for what in missing():
        print(f"missing: {what}")
    if missing():
        sys.exit(1)
    print(f"PostgreSQL: {binaries()}")
