"""Opened rows that are kept between passes: in memory as far as there is room, then encrypted in a scratch folder."""

from __future__ import annotations

import pickle
import tempfile
import threading
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpconvex.errors import InputError, PartsError
from dpconvex.loops.rows import Dense
from dpconvex.sums.fingerprints import fingerprint
from dpconvex.sums.memory import Memory
from dpconvex.sums.packing import Packed, packed

__all__ = ["Scratch", "Store"]

SAMPLE = 2**26  # bytes of one row of every so many, which are kept while they are asked about


class Store:
    """The first chunks that were read, as far as there is room: in memory, then in a scratch folder.

    Parameters
    ----------
    room : int
        Bytes of opened rows that may be kept in memory.
    folder : str, optional
        Folder for opened rows beyond that, encrypted under a key that is held in memory alone.
    """

    def __init__(self, room: int, folder: str | None) -> None:
        self.room, self.folder = room, folder
        self._left, self._full, self._lock = room, room == 0, threading.Lock()
        self._kept: dict[tuple[int, int], tuple[Memory | Packed, bytes]] = {}
        self._scratch = None if folder is None else Scratch(folder)
        self._places: dict[tuple[int, int], int] = {}
        self.samples = Samples()

    def find(self, key: bytes, at: tuple[int, int]) -> tuple[Memory, bytes] | None:
        """Return a chunk that was kept, with its fingerprint."""
        if (found := self._kept.get(at)) is not None:
            kept, name = found
            memory = _unpacked(kept)
            return memory, name if kept is not memory or _owned(memory) else _name(key, memory)
        if self._scratch is None or at not in self._places:
            return None
        with self._lock:
            stored, name = pickle.loads(self._scratch.read(self._places[at]))
        return _unpacked(stored) if isinstance(stored, Packed) else Memory(*stored), name

    def keep(self, at: tuple[int, int], memory: Memory, name: bytes) -> None:
        """Keep a chunk where there is room."""
        if self._full and (self._scratch is None or at in self._places):
            return
        rows = memory.matrix.rows
        small = packed(rows, memory.y) if _owned(memory) else None
        size = _bytes(small or memory)
        with self._lock:
            if size <= self._left:
                self._left -= size
                self._kept[at] = small or memory, name
                return
            self._full = True
            if self._scratch is not None and at not in self._places:
                plain = pickle.dumps((small or (rows, memory.y), name), protocol=5)
                self._places[at] = self._scratch.write(plain)

    def close(self) -> None:
        """Let go of everything."""
        self._kept = {}
        self.samples.close()
        if self._scratch is not None:
            self._scratch.close()


class Samples:
    """One row of so many of each part, which a solver asks about many times before it asks about all rows."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, range], list[tuple[int, Memory | Packed | None, bytes]]] = {}
        self._left = SAMPLE
        self._lock = threading.Lock()

    def find(self, key: tuple[int, range]) -> Iterator[tuple[int, Memory | None, bytes]] | None:
        """Return the sample of a part, if it was kept."""
        kept = self._kept.get(key)
        return None if kept is None else ((place, rows and _unpacked(rows), name) for place, rows, name in kept)

    def keep(self, key: tuple[int, range], sample: list[tuple[int, Memory | None, bytes]]) -> None:
        """Keep the sample of a part where there is room."""
        small = [(place, rows and (packed(rows.matrix.rows, rows.y) or rows), name) for place, rows, name in sample]
        size = sum(_bytes(rows) for _, rows, _ in small if rows is not None)
        with self._lock:
            if size <= self._left and key not in self._kept:
                self._left -= size
                self._kept[key] = small

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._kept, self._left = {}, SAMPLE


def _owned(memory: Memory) -> bool:
    """Whether the rows lie in memory that nobody outside this process can write to."""
    rows = memory.matrix.rows
    base: Any = rows.X if isinstance(rows, Dense) else rows.data
    while base is not None:
        if isinstance(base, np.memmap):
            return False
        base = getattr(base, "base", None)
    return True


def _unpacked(kept: Memory | Packed) -> Memory:
    return Memory(*kept.unpacked()) if isinstance(kept, Packed) else kept


def _name(key: bytes, memory: Memory) -> bytes:
    return fingerprint(key, memory.matrix.rows, memory.y)


def _bytes(kept: Memory | Packed) -> int:
    """Memory that keeping rows takes: themselves, and two to eight numbers of each that sums over them keep."""
    if isinstance(kept, Packed):
        return kept.nbytes
    rows = kept.matrix.rows
    stored = (rows.X,) if isinstance(rows, Dense) else (rows.data, rows.indices, rows.indptr)
    return (sum(column.nbytes for column in stored) if _owned(kept) else 0) + 8 * kept.y.nbytes


class Scratch:
    """Blocks of bytes in a file without a name, encrypted: gone with the process, and of no use without its memory."""

    def __init__(self, folder: str) -> None:
        try:
            self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        except OSError as error:
            raise InputError(f"scratch: no file can be made in {folder} ({type(error).__name__})") from None
        self._cipher = AESGCM(AESGCM.generate_key(256))
        self._places: list[tuple[int, int]] = []

    def write(self, plain: bytes) -> int:
        """Keep a block, and return its number."""
        number, start = len(self._places), sum(self._places[-1]) if self._places else 0
        sealed = self._cipher.encrypt(_nonce(number), plain, None)
        self._file.seek(start)
        self._file.write(sealed)
        self._places.append((start, len(sealed)))
        return number

    def read(self, number: int) -> bytes:
        """Return the block of that number."""
        start, length = self._places[number]
        self._file.seek(start)
        try:
            return self._cipher.decrypt(_nonce(number), self._file.read(length), None)
        except Exception as error:
            raise PartsError(f"the scratch file was changed ({type(error).__name__})") from None

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")  # every block is written once under the key
