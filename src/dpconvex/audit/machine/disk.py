"""A disk that may lose power at any moment: the writes, syncs and removals of SQLite, and what they leave behind.

SQLite reaches its files through a table of functions (a VFS). `watching` puts a table before the usual one that notes
each call and passes it on, so the library under attack runs unchanged, on real files. `Disk` replays the notes up to
any call and says what a disk may hold if the power fails there: whatever was synced, and any part of the rest.
"""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dpconvex.errors import UnavailableError

__all__ = ["Disk", "Step", "watching"]

_SECTOR = 512  # a write may be torn between two of them
_JOURNAL = 0x800 | 0x4000  # a journal, or that of a transaction over several files: SQLite syncs their folder, too
_CREATE = 0x4
_INT, _INT64, _TEXT, _POINTER = ctypes.c_int, ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p
_OPEN = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _POINTER, _INT, _POINTER)
_DELETE = ctypes.CFUNCTYPE(_INT, _POINTER, _TEXT, _INT)
_CLOSE = ctypes.CFUNCTYPE(_INT, _POINTER)
_WRITE = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _INT, _INT64)
_TRUNCATE = ctypes.CFUNCTYPE(_INT, _POINTER, _INT64)
_SYNC = ctypes.CFUNCTYPE(_INT, _POINTER, _INT)


class _Vfs(ctypes.Structure):
    """The beginning of `sqlite3_vfs`, https://sqlite.org/c3ref/vfs.html; the rest is copied as it is."""

    _fields_ = (
        ("iVersion", _INT), ("szOsFile", _INT), ("mxPathname", _INT), ("pNext", _POINTER), ("zName", _TEXT),
        ("pAppData", _POINTER), ("xOpen", _POINTER), ("xDelete", _POINTER), ("others", _POINTER * 14),
    )  # fmt: skip


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods`, https://sqlite.org/c3ref/io_methods.html, up to version 3."""

    _fields_ = (
        ("iVersion", _INT), ("xClose", _POINTER), ("xRead", _POINTER), ("xWrite", _POINTER), ("xTruncate", _POINTER),
        ("xSync", _POINTER), ("others", _POINTER * 13),
    )  # fmt: skip


class Step(NamedTuple):
    """One call that reached the disk, or (kind "mark") something that the program under attack did in between."""

    kind: str  # create, write, truncate, sync, delete, mark
    path: str
    offset: int = 0  # of a write; the new size of what is truncated
    body: bytes = b""
    folder: bool = False  # the folder was synced as well


@contextmanager
def watching(before: Callable[[int], object] = lambda number: None) -> Iterator[list[Step]]:
    """Note what SQLite does to its files; `before` is called with the number of each step, before it is done.

    Raises
    ------
    UnavailableError
        If Python was built so that SQLite cannot be reached from it.
    """
    library = _library()
    usual = ctypes.cast(library.sqlite3_vfs_find(None), ctypes.POINTER(_Vfs)).contents
    shim = _Shim(usual, before)
    library.sqlite3_vfs_register(ctypes.byref(shim.vfs), 1)
    try:
        yield shim.steps
    finally:
        library.sqlite3_vfs_unregister(ctypes.byref(shim.vfs))
        library.sqlite3_vfs_register(ctypes.byref(usual), 1)


def _library() -> Any:
    """The SQLite that Python's own module uses."""
    import _sqlite3

    library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
    if not hasattr(library, "sqlite3_vfs_register"):
        raise UnavailableError(
            "SQLite cannot be reached from this Python: its module hides the functions of the library"
        )
    library.sqlite3_vfs_find.restype = _POINTER
    library.sqlite3_vfs_find.argtypes = [_TEXT]
    library.sqlite3_vfs_register.argtypes = [_POINTER, _INT]
    library.sqlite3_vfs_unregister.argtypes = [_POINTER]
    return library


class _Shim:
    """A table of functions that notes calls and passes them on. An open file is known by its address."""

    def __init__(self, usual: _Vfs, before: Callable[[int], object]) -> None:
        self.steps: list[Step] = []
        self._before = before
        self._files: dict[int, tuple[str, Any]] = {}  # path, and the usual methods
        self._new: set[str] = set()  # journals whose folder SQLite syncs with them
        self._tables: dict[int, _Methods] = {}
        self._open, self._delete = _OPEN(usual.xOpen), _DELETE(usual.xDelete)
        self._kept = (_OPEN(self._on_open), _DELETE(self._on_delete))
        self._methods = {
            "xClose": _CLOSE(self._on_close),
            "xWrite": _WRITE(self._on_write),
            "xTruncate": _TRUNCATE(self._on_truncate),
            "xSync": _SYNC(self._on_sync),
        }
        self.vfs = _Vfs.from_buffer_copy(usual)
        self.vfs.zName = b"watched"
        self.vfs.xOpen, self.vfs.xDelete = (ctypes.cast(one, _POINTER) for one in self._kept)

    def _note(self, step: Step, call: Callable[[], int]) -> int:
        self._before(len(self.steps))
        result = call()
        if not result:
            self.steps.append(step)
        return result

    def _on_open(self, vfs: int, name: int | None, file: int, flags: int, out: int) -> int:
        path = ctypes.string_at(name).decode() if name else ""
        new = bool(path) and not os.path.exists(path)
        if new and flags & _CREATE:
            result = self._note(Step("create", path), lambda: int(self._open(vfs, name, file, flags, out)))
        else:
            result = int(self._open(vfs, name, file, flags, out))
        if path and not result:
            self._watch(file, path)
            if flags & _JOURNAL and flags & _CREATE:
                self._new.add(path)
        return result

    def _watch(self, file: int, path: str) -> None:
        """Put our methods before those of an open file."""
        slot = ctypes.cast(file, ctypes.POINTER(_POINTER))
        usual = slot[0]
        self._files[file] = (path, _Methods.from_address(usual))
        if usual not in self._tables:
            table = _Methods.from_buffer_copy(_Methods.from_address(usual))
            for name, method in self._methods.items():
                setattr(table, name, ctypes.cast(method, _POINTER))
            self._tables[usual] = table
        slot[0] = ctypes.addressof(self._tables[usual])

    def _on_close(self, file: int) -> int:
        return int(_CLOSE(self._files.pop(file)[1].xClose)(file))

    def _on_write(self, file: int, body: int, size: int, offset: int) -> int:
        path, usual = self._files[file]
        step = Step("write", path, offset, ctypes.string_at(body, size))
        return self._note(step, lambda: int(_WRITE(usual.xWrite)(file, body, size, offset)))

    def _on_truncate(self, file: int, size: int) -> int:
        path, usual = self._files[file]
        return self._note(Step("truncate", path, size), lambda: int(_TRUNCATE(usual.xTruncate)(file, size)))

    def _on_sync(self, file: int, flags: int) -> int:
        path, usual = self._files[file]
        step = Step("sync", path, folder=path in self._new)
        self._new.discard(path)
        return self._note(step, lambda: int(_SYNC(usual.xSync)(file, flags)))

    def _on_delete(self, vfs: int, name: bytes, folder: int) -> int:
        step = Step("delete", name.decode(), folder=bool(folder & 1))
        return self._note(step, lambda: int(self._delete(vfs, name, folder)))


@dataclass
class _File:
    synced: bytes = b""
    loose: list[tuple[int, bytes | None]] = field(default_factory=list)  # writes since; None cuts the file off there

    def body(self, chosen: Callable[[], bool]) -> bytes:
        """Content, if only those of the loose writes reached the disk that are chosen."""
        found = bytearray(self.synced)
        for offset, piece in self.loose:
            if not chosen():
                continue
            if piece is None:
                del found[offset:]
                continue
            found.extend(bytes(max(0, offset - len(found))))
            found[offset : offset + len(piece)] = piece
        return bytes(found)


class Disk:
    """What a disk holds for sure, and what it may hold besides, after the steps that were applied.

    Parameters
    ----------
    image : mapping from paths to contents
        What it holds at first.

    Examples
    --------
    >>> disk = Disk({"/a": b"old"})
    >>> disk.apply(Step("write", "/a", 0, b"new"))
    >>> sorted(image["/a"] for image in disk.images(10))
    [b'new', b'old']
    >>> disk.apply(Step("sync", "/a"))
    >>> [image["/a"] for image in disk.images(10)]
    [b'new']
    """

    def __init__(self, image: Mapping[str, bytes]) -> None:
        self._names = {path: _File(body) for path, body in image.items()}  # for sure
        self._loose: list[tuple[str, _File | None]] = []  # names given since, or taken away
        self._now = dict(self._names)

    def apply(self, step: Step) -> None:
        """Do what was done in one step."""
        if step.kind == "create":
            self._now[step.path] = _File()
            self._loose.append((step.path, self._now[step.path]))
        elif step.kind == "delete":
            del self._now[step.path]
            self._loose.append((step.path, None))
        elif step.kind != "mark":
            self._change(self._now[step.path], step)
        if step.folder:
            self._sync_folder(str(Path(step.path).parent))

    def _change(self, file: _File, step: Step) -> None:
        if step.kind == "sync":
            file.synced, file.loose = file.body(lambda: True), []
        elif step.kind == "truncate":
            file.loose.append((step.offset, None))
        else:
            file.loose.extend(_sectors(step.offset, step.body))

    def _sync_folder(self, folder: str) -> None:
        for path, file in self._loose:
            if str(Path(path).parent) == folder:
                _name(self._names, path, file)
        self._loose = [one for one in self._loose if str(Path(one[0]).parent) != folder]

    def images(self, most: int, seed: int = 0) -> Iterator[dict[str, bytes]]:
        """What the disk may hold if the power fails now: all of it if that is at most so many, and else some of it.

        Nothing of what was not synced, everything, and then parts: a name alone, a write alone, all but one, and parts
        drawn by lot.
        """
        files = {id(file): file for file in [*self._names.values(), *(f for _, f in self._loose if f is not None)]}
        count = len(self._loose) + sum(len(file.loose) for file in files.values())
        seen = set()
        for chosen in _parts(count, most, seed):
            image = self._image(iter(chosen), list(files.values()))
            mark = tuple(sorted(image.items()))
            if mark not in seen:
                seen.add(mark)
                yield image

    def _image(self, chosen: Iterator[bool], files: list[_File]) -> dict[str, bytes]:
        names = dict(self._names)
        for path, file in self._loose:
            if next(chosen):
                _name(names, path, file)
        bodies = {id(file): file.body(lambda: next(chosen)) for file in files}
        return {path: bodies[id(file)] for path, file in names.items()}


def _name(names: dict[str, _File], path: str, file: _File | None) -> None:
    if file is None:
        names.pop(path, None)
    else:
        names[path] = file


def _sectors(offset: int, body: bytes) -> Iterator[tuple[int, bytes]]:
    """A write, in pieces that reach the disk whole or not at all."""
    while body:
        size = _SECTOR - offset % _SECTOR
        yield offset, body[:size]
        offset, body = offset + size, body[size:]


def _parts(count: int, most: int, seed: int) -> Iterator[list[bool]]:
    """Which of so many things reached the disk."""
    if 2**count <= most:
        for bits in range(2**count):
            yield [bool(bits >> i & 1) for i in range(count)]
        return
    rng = random.Random(seed)
    parts = [[False] * count, [True] * count]
    for i in rng.sample(range(count), min(count, most // 3)):
        parts += [[j == i for j in range(count)], [j != i for j in range(count)]]
    while len(parts) < most:
        share = rng.random()
        parts.append([rng.random() < share for _ in range(count)])
    yield from parts[:most]
