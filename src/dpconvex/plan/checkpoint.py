"""Checkpoints: the secret state of a stream in a file, encrypted, so that a stream outlives its process.

A checkpoint is an SQLite file with the state, and a journal of the records that were read after it. An entry is written
before its records are, so that after a crash it is known which records the noise to come was used for: they have to be
read again, the same ones in the same portions, and nothing else. Of records the journal holds keyed hashes.

The state holds the key of the noise to come, and sums of increments without noise: whoever reads it knows
both. It is encrypted under a key that lies in a file of its own, apart from the checkpoint and from the
model. The journal is a chain: every entry is sealed for its place behind all entries before it, and the head of the
chain is sealed in the file, so that none can be taken out, moved or put in without the key.

Beside the key lies a counter of the stream, a second SQLite file with the head of the chain, which the same transaction
changes. So a copy of the checkpoint that the stream has gone on from is noticed, unless the folder of the key was put
back to an older state, too: then nothing could tell.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpconvex.errors import InputError
from dpconvex.noise.source import Owner
from dpconvex.plain import read_json

__all__ = ["Checkpoint"]

FORMAT = "dpconvex-checkpoint/2"
KEY_VARIABLE = "DPCONVEX_KEY_FILE"
_TABLES = (
    "CREATE TABLE stream (format TEXT, name TEXT, generation BLOB, state BLOB)",
    "CREATE TABLE journal (place INTEGER PRIMARY KEY, entry BLOB)",
    "CREATE TABLE head (link BLOB)",
    "CREATE TABLE counter.counter (link BLOB)",
)
_GONE_ON = (
    "another process has gone on from this checkpoint, or an older copy of it was put back: two streams with the same "
    "noise would give it away. Nothing was released"
)


class UnsureError(InputError):
    """It is not known whether something was written."""


class Checkpoint:
    """The file of one stream, and how far this process has followed its journal.

    Parameters
    ----------
    path : str or Path
    key_file : str or Path, optional
        File of the key; the first checkpoint of a stream makes it if there is none. By default the file that the
        environment variable DPCONVEX_KEY_FILE names, or else `~/.config/dpconvex/checkpoint.key`. The counter of the
        stream is kept in the same folder.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> Checkpoint(folder / "stream", folder / "key").write({"round": 7, "sum": np.arange(3.0)})
    >>> again = Checkpoint(folder / "stream", folder / "key")
    >>> again.read()["sum"], again.pending
    (array([0., 1., 2.]), 0)
    """

    def __init__(self, path: str | Path, key_file: str | Path | None = None) -> None:
        self.path = Path(path).resolve()
        self._key_file = (Path(key_file) if key_file is not None else default_key_file()).resolve()
        self._owner = Owner()
        self._cipher: AESGCM | None = None
        self._name = ""  # of the counter
        self._generation = b""  # of the state that this process has written or read
        self._link = b""  # head of the chain: a hash of the generation and of all entries
        self._place = 0  # entries of the journal that it has followed
        self._entries: list[bytes] = []

    @property
    def pending(self) -> int:
        """Portions of records that were read after the checkpoint, and have to be read again."""
        return len(self._entries) - self._place

    def write(self, state: Mapping[str, Any]) -> None:
        """Put a state in place of the one before, and begin a journal; all of it or, if interrupted, nothing."""
        self._owner.check()
        self.check_followed()
        generation, begins = os.urandom(16), not self._generation
        if begins:
            self._make_files()
        with self._transaction() as file:
            if not begins:
                self._check_ours(file)
            elif file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise InputError(
                    "there is a checkpoint of another stream at that path: take another path, or resume it"
                )
            else:
                for table in _TABLES:
                    file.execute(table)
            for table in ("stream", "journal"):
                file.execute(f"DELETE FROM {table}")
            sealed = self._seal(_pack(state), self._about("state", generation))
            file.execute("INSERT INTO stream VALUES (?, ?, ?, ?)", (FORMAT, self._name, generation, sealed))
            self._move(file, generation, generation)
            self._commit(file)
        self._generation, self._link, self._place, self._entries = generation, generation, 0, []

    def reopened(self) -> Checkpoint:
        """The same file, followed from its beginning."""
        return Checkpoint(self.path, self._key_file)

    def check_same(self, path: str | Path, key_file: str | Path | None) -> None:
        """Refuse another path or another key: the old file could be gone on from, with the same noise."""
        if Path(path).resolve() != self.path or (key_file is not None and Path(key_file).resolve() != self._key_file):
            raise InputError("a stream has one checkpoint: keep to its path and its key file")

    def check_followed(self) -> None:
        """Refuse to go on while records that were read before a crash are to be read again."""
        if self.pending:
            raise InputError(
                f"{self.pending} portions of records were read before the crash and not since: read them again first"
            )

    def read(self) -> dict[str, Any]:
        """The state of the checkpoint. Nothing is made: neither a key nor a file."""
        self._owner.check()
        if not self.path.is_file() or not self.path.stat().st_size:
            raise InputError("there is no checkpoint at that path")
        _check_private(self.path, "checkpoint")
        self._cipher = AESGCM(_key(self._key_file))
        with self._connection() as file:
            self._recognise(file)
        with self._transaction() as file:
            generation = self._recognise(file)
            (sealed,) = file.execute("SELECT state FROM stream").fetchone()
            state = _unpack(self._open(sealed, self._about("state", generation)))
            link, entries = generation, []
            for (entry,) in file.execute("SELECT entry FROM journal ORDER BY place"):
                entries.append(self._open(entry, b"entry" + link))
                link = _chained(link, entries[-1])
            if self._head(file, generation) != link:
                raise InputError("the checkpoint was altered: entries of its journal are missing")
            if self._counter(file) != link:
                raise InputError(
                    "this is an older copy of the checkpoint: the counter beside the key says that the stream has gone "
                    "on, and its noise would be used twice. Resume the newest checkpoint, or begin another stream"
                )
        self._entries, self._generation, self._link, self._place = entries, generation, link, 0
        return state

    def announce(self, fingerprint: bytes) -> None:
        """Write down, before they are read, which records come next; or check that they are those announced before."""
        self._owner.check()
        if self.pending:
            if self._entries[self._place] != fingerprint:
                raise InputError(
                    "after a crash the records that were read last have to be read again, the same ones in the same "
                    f"portions: these are not the next of the {self.pending} portions. Nothing was released"
                )
            self._place += 1
            return
        with self._transaction() as file:
            self._check_ours(file)
            entry, link = self._seal(fingerprint, b"entry" + self._link), _chained(self._link, fingerprint)
            file.execute("INSERT INTO journal VALUES (?, ?)", (len(self._entries), entry))
            self._move(file, self._generation, link)
            self._commit(file)
        self._entries.append(fingerprint)
        self._link = link
        self._place += 1

    # Files ---------------------------------------------------------------------------------------------------------

    def _make_files(self) -> None:
        """Make a key if there is none, and files for a checkpoint and a counter, that only their owner may read."""
        if self.path.exists() and self.path.stat().st_size:
            raise InputError("there is a checkpoint of another stream at that path: take another path, or resume it")
        self._name = os.urandom(8).hex()
        self._cipher = AESGCM(_key(self._key_file, make=True))
        for path, what in ((self.path, "checkpoint"), (self._counter_file, "counter beside the key")):
            try:
                _make(path, b"")
            except OSError:
                raise InputError(f"the {what} cannot be made: is its folder there, and may it be written to?") from None
            _check_private(path, what)

    @property
    def _counter_file(self) -> Path:
        return self._key_file.with_name(f"{self._key_file.name}.{self._name}.counter")

    def _recognise(self, file: sqlite3.Connection) -> bytes:
        """Make sure that it is a checkpoint under our key; keep the name of its counter, return its generation."""
        if file.execute("SELECT format FROM stream").fetchall() != [(FORMAT,)]:
            raise InputError(
                f"not a checkpoint of the format {FORMAT!r}: if another version of the library wrote it, begin another "
                "stream"
            )
        self._name, generation = file.execute("SELECT name, generation FROM stream").fetchone()
        self._head(file, generation)  # sealed for both
        return bytes(generation)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            file = sqlite3.connect(_address(self.path), uri=True, isolation_level=None)
        except sqlite3.Error:
            raise InputError(
                "the checkpoint cannot be opened: is its folder there, and may it be written to?"
            ) from None
        try:
            yield file
        except sqlite3.DatabaseError:
            raise InputError("the checkpoint cannot be read or written: it is no checkpoint, or is in use") from None
        finally:
            file.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Checkpoint and counter, locked for this process; what is not committed is undone."""
        if not self._counter_file.is_file():
            raise InputError(
                f"the counter of the stream, {self._counter_file.name}, is missing beside the key: without it nobody "
                "knows whether this is an older copy. Keep the whole folder of the key"
            )
        _check_private(self._counter_file, "counter beside the key")
        with self._connection() as file:
            _wait_for_disk(file, "main")
            file.execute("ATTACH ? AS counter", (_address(self._counter_file),))
            _wait_for_disk(file, "counter")
            file.execute("BEGIN IMMEDIATE")
            yield file

    def _commit(self, file: sqlite3.Connection) -> None:
        """Change both files or neither; on return that has reached the disk."""
        try:
            file.execute("COMMIT")
            _flush_drive(self.path.parent)
        except (sqlite3.DatabaseError, OSError):
            raise UnsureError("it is not known whether the checkpoint was written: is the disk full?") from None

    # What is in them -----------------------------------------------------------------------------------------------

    def _check_ours(self, file: sqlite3.Connection) -> None:
        """Refuse to go on from a state that somebody else has gone on from: the noise would be used twice."""
        found = file.execute("SELECT format, name, generation FROM stream").fetchall()
        ours = found == [(FORMAT, self._name, self._generation)]
        if not ours or not self._head(file, self._generation) == self._link == self._counter(file):
            raise InputError(_GONE_ON)

    def _head(self, file: sqlite3.Connection, generation: object) -> bytes:
        (sealed,) = file.execute("SELECT link FROM head").fetchone() or (b"",)
        return self._open(sealed, self._about("head", generation))

    def _counter(self, file: sqlite3.Connection) -> object:
        return (file.execute("SELECT link FROM counter.counter").fetchone() or (None,))[0]

    def _move(self, file: sqlite3.Connection, generation: bytes, link: bytes) -> None:
        """Put the head of the chain into both files."""
        for table, value in (("head", self._seal(link, self._about("head", generation))), ("counter.counter", link)):
            file.execute(f"REPLACE INTO {table} (rowid, link) VALUES (1, ?)", (value,))

    def _about(self, kind: str, generation: object) -> bytes:
        if not isinstance(self._name, str) or not isinstance(generation, bytes):
            raise InputError("the checkpoint was altered: its name is none")
        return f"{kind}/{self._name}/".encode() + generation

    def _seal(self, plain: bytes, about: bytes) -> bytes:
        assert self._cipher is not None
        nonce = os.urandom(12)
        return nonce + self._cipher.encrypt(nonce, plain, FORMAT.encode() + about)

    def _open(self, sealed: bytes, about: bytes) -> bytes:
        assert self._cipher is not None
        try:
            return self._cipher.decrypt(sealed[:12], sealed[12:], FORMAT.encode() + about)
        except (InvalidTag, TypeError, ValueError):
            raise InputError("the checkpoint was made under another key, or altered") from None


def _chained(link: bytes, fingerprint: bytes) -> bytes:
    """Head of the chain after one more entry."""
    return hashlib.blake2b(link + fingerprint, digest_size=32).digest()


def _address(path: Path) -> str:
    return f"{path.as_uri()}?mode=rw"


def _wait_for_disk(file: sqlite3.Connection, schema: str) -> None:
    """Let a commit return only when it would survive a loss of power, the removal of SQLite's own journal included."""
    (mode,) = file.execute(f"PRAGMA {schema}.journal_mode = DELETE").fetchone()
    for pragma in (f"{schema}.synchronous = EXTRA", "fullfsync = ON", "checkpoint_fullfsync = ON"):
        file.execute(f"PRAGMA {pragma}")
    (level,) = file.execute(f"PRAGMA {schema}.synchronous").fetchone()
    if (mode, level) != ("delete", 3):
        raise InputError("the checkpoint cannot be written safely: it is in use, or this SQLite is older than 3.12")


def _flush_drive(folder: Path) -> None:
    """Wait for the drive: on macOS the sync of a folder, which SQLite does, ends in the cache of the drive."""
    if sys.platform == "darwin":
        import fcntl

        held = os.open(folder, os.O_RDONLY)
        try:
            fcntl.fcntl(held, fcntl.F_FULLFSYNC)
        finally:
            os.close(held)


def _check_private(path: Path, what: str) -> None:
    """Refuse a file that others may read, and a folder in which anybody may put other files in its place."""
    if os.name != "posix":
        return
    try:
        mode, folder = path.stat().st_mode, path.parent.stat().st_mode
    except OSError:
        raise InputError(f"the {what} cannot be read") from None
    if mode & 0o077:
        raise InputError(f"the {what} may be read by others than its owner: take that right away (chmod 600)")
    if folder & 0o002:
        raise InputError(f"the folder of the {what} may be written to by everybody: take a folder of your own")
    if not os.access(path.parent, os.R_OK):
        raise InputError(f"the folder of the {what} cannot be read: SQLite could not make sure of what it writes there")


def default_key_file() -> Path:
    """Where the key of checkpoints lies unless another file is named."""
    named = os.environ.get(KEY_VARIABLE)
    return Path(named) if named else Path.home() / ".config" / "dpconvex" / "checkpoint.key"


def _key(path: Path, make: bool = False) -> bytes:
    """Read a key, or make one that nobody but its owner may read."""
    try:
        if make and not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make(path, AESGCM.generate_key(256).hex().encode() + b"\n")
        text = path.read_bytes() if path.exists() else None
    except OSError:
        text = b""
    if text is None:
        raise InputError("there is no key at that path: name the key under which the checkpoint was made")
    if not re.fullmatch(rb"[0-9a-fA-F]{64}\s*", text):
        raise InputError("the key file cannot be read or made, or does not hold a key: 64 hexadecimal digits")
    _check_private(path, "key file")
    return bytes.fromhex(text.decode())


def _make(path: Path, body: bytes) -> None:
    """Write a file all at once, which only its owner may read; where another process was faster, its file stays.

    The draft is closed before it gets its name: closing a file takes away every lock that its process has on it.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _pack(state: Mapping[str, Any]) -> bytes:
    """Numbers, text, lists, mappings and arrays as bytes, by JSON and numpy's format without pickles."""
    arrays: list[np.ndarray] = []

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return {"array": len(arrays) - 1}
        if isinstance(value, Mapping):
            return {"mapping": {key: plain(part) for key, part in value.items()}}
        return [plain(part) for part in value] if isinstance(value, list | tuple) else value

    text = json.dumps(plain(state), allow_nan=False)
    file = io.BytesIO()
    np.savez(file, np.frombuffer(text.encode(), dtype=np.uint8), *arrays)
    return file.getvalue()


def _unpack(body: bytes) -> Any:
    with np.load(io.BytesIO(body), allow_pickle=False) as parts:
        arrays = [parts[f"arr_{i}"] for i in range(len(parts.files))]

    def rich(value: Any) -> Any:
        if isinstance(value, dict) and "array" in value:
            return arrays[value["array"] + 1]
        if isinstance(value, dict):
            return {key: rich(part) for key, part in value["mapping"].items()}
        return [rich(part) for part in value] if isinstance(value, list) else value

    return rich(read_json(arrays[0].tobytes().decode(), "the checkpoint", InputError))
