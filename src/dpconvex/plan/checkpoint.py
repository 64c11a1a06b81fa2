"""Checkpoints: the secret state of a stream in a file, encrypted, so that a stream outlives its process.

A checkpoint is an SQLite file with the state, and a journal of the records that were read after it. An entry is written
before its records are, so that after a crash it is known which records the noise to come was used for: they have to be
read again, the same ones in the same portions, and nothing else. Of records the journal holds keyed hashes.

The state holds the noise of rounds to come and of the last rounds (with Toeplitz noise, of all): whoever reads it can
subtract that noise. It is encrypted under a key that lies in a file of its own, apart from the checkpoint and from the
model. All of this guards against accidents. Who restores an old copy of the file, and goes on from it with other
records than before, uses noise twice: only a ledger outside of the file could tell.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpconvex.errors import InputError

__all__ = ["Checkpoint"]

FORMAT = "dpconvex-checkpoint/1"
KEY_VARIABLE = "DPCONVEX_KEY_FILE"
_TABLES = (
    "CREATE TABLE stream (format TEXT, generation BLOB, state BLOB)",
    "CREATE TABLE journal (place INTEGER PRIMARY KEY, entry BLOB)",
)


class UnsureError(InputError):
    """It is not known whether something was written."""


class Checkpoint:
    """The file of one stream, and how far this process has followed its journal.

    Parameters
    ----------
    path : str or Path
    key_file : str or Path, optional
        File of the key, made if there is none. By default the file that the environment variable DPCONVEX_KEY_FILE
        names, or else `~/.config/dpconvex/checkpoint.key`.

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
        self.path = Path(path).absolute()
        self._key_file = (Path(key_file) if key_file is not None else default_key_file()).absolute()
        self._cipher = AESGCM(_key(self._key_file))
        self._generation = b""  # of the state that this process has written or read
        self._place = 0  # entries of the journal that it has followed
        self._entries: list[bytes] = []

    @property
    def pending(self) -> int:
        """Portions of records that were read after the checkpoint, and have to be read again."""
        return len(self._entries) - self._place

    def write(self, state: Mapping[str, Any]) -> None:
        """Put a state in place of the one before, and begin a journal; all of it or, if interrupted, nothing."""
        self.check_followed()
        generation = os.urandom(16)
        with self._transaction(create=True) as file:
            if file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                for table in _TABLES:
                    file.execute(table)
            else:
                self._check_ours(file)
            file.execute("DELETE FROM stream")
            file.execute("DELETE FROM journal")
            file.execute(
                "INSERT INTO stream VALUES (?, ?, ?)", (FORMAT, generation, self._seal(_pack(state), generation))
            )
        self._generation, self._place, self._entries = generation, 0, []

    def check_same(self, path: str | Path, key_file: str | Path | None) -> None:
        """Refuse another path or another key: the old file could be gone on from, with the same noise."""
        if Path(path).absolute() != self.path or (key_file is not None and Path(key_file).absolute() != self._key_file):
            raise InputError("a stream has one checkpoint: keep to its path and its key file")

    def check_followed(self) -> None:
        """Refuse to go on while records that were read before a crash are to be read again."""
        if self.pending:
            raise InputError(
                f"{self.pending} portions of records were read before the crash and not since: read them again first"
            )

    def read(self) -> dict[str, Any]:
        """The state of the checkpoint."""
        if not self.path.is_file() or not self.path.stat().st_size:
            raise InputError("there is no checkpoint at that path")
        with self._transaction() as file:
            _, generation, sealed = self._stream(file)
            entries = file.execute("SELECT place, entry FROM journal ORDER BY place").fetchall()
        state = _unpack(self._open(sealed, generation))
        if [place for place, _ in entries] != list(range(len(entries))):
            raise InputError("the checkpoint was altered: its journal has gaps")
        self._entries = [self._open(entry, generation + bytes([1]) + b"%d" % place) for place, entry in entries]
        self._generation, self._place = generation, 0
        return state

    def announce(self, fingerprint: bytes) -> None:
        """Write down, before they are read, which records come next; or check that they are those announced before."""
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
            place = len(self._entries)
            entry = self._seal(fingerprint, self._generation + bytes([1]) + b"%d" % place)
            file.execute("INSERT INTO journal VALUES (?, ?)", (place, entry))
        self._entries.append(fingerprint)
        self._place += 1

    @contextmanager
    def _transaction(self, create: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            mode = "rwc" if create else "rw"
            file = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None)
        except sqlite3.Error:
            raise InputError(
                "the checkpoint cannot be opened: is its folder there, and may it be written to?"
            ) from None
        try:
            file.execute("PRAGMA synchronous = FULL")
            file.execute("BEGIN IMMEDIATE")
            yield file
            self._commit(file)
        except sqlite3.DatabaseError:
            raise InputError("the checkpoint cannot be read or written: it is no checkpoint, or is in use") from None
        finally:
            file.close()

    def _commit(self, file: sqlite3.Connection) -> None:
        try:
            file.execute("COMMIT")
        except sqlite3.DatabaseError:
            raise UnsureError("it is not known whether the checkpoint was written: is the disk full?") from None

    def _stream(self, file: sqlite3.Connection) -> tuple[str, bytes, bytes]:
        found = file.execute("SELECT format, generation, state FROM stream").fetchall()
        if len(found) != 1 or found[0][0] != FORMAT:
            raise InputError(f"not a checkpoint of the format {FORMAT!r}")
        return found[0]

    def _check_ours(self, file: sqlite3.Connection) -> None:
        """Refuse to go on from a state that somebody else has gone on from: the noise would be used twice."""
        generation = self._stream(file)[1]
        (written,) = file.execute("SELECT count(*) FROM journal").fetchone()
        if not self._generation:
            raise InputError("there is a checkpoint of another stream at that path: take another path, or resume it")
        if generation != self._generation or written != len(self._entries):
            raise InputError(
                "another process has gone on from this checkpoint: two streams with the same noise would give it away. "
                "Nothing was released"
            )

    def _seal(self, plain: bytes, about: bytes) -> bytes:
        nonce = os.urandom(12)
        return nonce + self._cipher.encrypt(nonce, plain, FORMAT.encode() + about)

    def _open(self, sealed: bytes, about: bytes) -> bytes:
        try:
            return self._cipher.decrypt(sealed[:12], sealed[12:], FORMAT.encode() + about)
        except InvalidTag:
            raise InputError("the checkpoint was made under another key, or altered") from None


def default_key_file() -> Path:
    """Where the key of checkpoints lies unless another file is named."""
    named = os.environ.get(KEY_VARIABLE)
    return Path(named) if named else Path.home() / ".config" / "dpconvex" / "checkpoint.key"


def _key(path: Path) -> bytes:
    """Read a key, or make one that nobody but its owner may read."""
    try:
        if not path.exists():
            _make_key(path)
        key = bytes.fromhex(path.read_text(encoding="ascii"))
        others = path.stat().st_mode & 0o077 if os.name == "posix" else 0
    except (OSError, ValueError):
        key, others = b"", 0
    if others:
        raise InputError("the key file may be read by others than its owner: take that right away (chmod 600)")
    if len(key) != 32:
        raise InputError("the key file cannot be read or made, or does not hold a key: 64 hexadecimal digits")
    return key


def _make_key(path: Path) -> None:
    """Write a key all at once; where another process was faster, its key stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(AESGCM.generate_key(256).hex() + "\n")
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

    return rich(json.loads(arrays[0].tobytes().decode()))
