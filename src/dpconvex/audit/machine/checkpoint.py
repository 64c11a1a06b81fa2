"""Attacks on the checkpoint of a stream, to make its noise serve two different portions of records.

The attacker has the file but not its key: rows of the journal are taken out, exchanged or brought in from a copy that
was gone on from with other records; older copies are put back. And the power fails, at every write, sync and removal
that SQLite does (`disk`), again while the file is being repaired. Whatever a stream has announced before, that is what
its noise was used for: a restart that does not know of it would use the noise again.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dpconvex.audit.machine.disk import Disk, Step, watching
from dpconvex.errors import InputError
from dpconvex.plan.checkpoint import Checkpoint

__all__ = ["Ours", "PlainJournal", "PowerLosses", "lose_power", "tamper"]


class Journal(Protocol):
    """What is attacked: it writes portions down before their noise is used, and knows them after a restart."""

    def __init__(self, folder: Path) -> None: ...

    def begin(self) -> None:
        """Make the files of a new stream."""

    def resume(self) -> list[bytes]:
        """Portions that were announced so far, in order."""

    def announce(self, portion: bytes) -> None:
        """Write a portion down; on return its noise is used."""

    def save(self) -> None:
        """Begin a new checkpoint, after all portions so far."""


Story = Callable[[Journal, Callable[[bytes], object]], None]
Image = tuple[dict[str, bytes], list[bytes]]  # what a disk holds, and the portions that a restart knows of


class Ours:
    """The checkpoint of this library, with a list of portions for a state.

    Examples
    --------
    >>> import tempfile
    >>> journal = Ours(Path(tempfile.mkdtemp()))
    >>> journal.begin()
    >>> journal.announce(b"first")
    >>> Ours(journal.folder).resume()
    [b'first']
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "keys").mkdir(mode=0o700, exist_ok=True)
        self._file = Checkpoint(folder / "stream", folder / "keys" / "key")
        self._served: list[bytes] = []

    def begin(self) -> None:
        """Write the first checkpoint."""
        self.save()

    def resume(self) -> list[bytes]:
        """Read it, and follow its journal."""
        self._served = [bytes.fromhex(name) for name in self._file.read()["served"]]
        self._served += self._file._entries
        for portion in self._file._entries:
            self._file.announce(portion)
        return list(self._served)

    def announce(self, portion: bytes) -> None:
        """Announce a portion."""
        self._file.announce(portion)
        self._served.append(portion)

    def save(self) -> None:
        """Write the next checkpoint."""
        self._file.write({"served": [portion.hex() for portion in self._served]})


class PlainJournal:
    """The obvious way, for comparison: a row per portion in an SQLite file, with `synchronous` at its default, FULL.

    Examples
    --------
    >>> import tempfile
    >>> journal = PlainJournal(Path(tempfile.mkdtemp()))
    >>> journal.begin()
    >>> journal.announce(b"first")
    >>> journal.resume()
    [b'first']
    """

    synchronous = "FULL"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self) -> None:
        """Make the table."""
        with self._file() as file:
            file.execute("CREATE TABLE journal (place INTEGER PRIMARY KEY, entry BLOB)")

    def resume(self) -> list[bytes]:
        """Read the table."""
        with self._file() as file:
            return [entry for (entry,) in file.execute("SELECT entry FROM journal ORDER BY place")]

    def announce(self, portion: bytes) -> None:
        """Add a row."""
        with self._file() as file:
            (place,) = file.execute("SELECT count(*) FROM journal").fetchone()
            file.execute("INSERT INTO journal VALUES (?, ?)", (place, portion))

    def save(self) -> None:
        """Nothing: the journal is kept whole."""

    @contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.folder / "stream", isolation_level=None)) as file:
            file.execute(f"PRAGMA synchronous = {self.synchronous}")
            yield file


@dataclass
class PowerLosses:
    """What came of so many losses of power.

    Attributes
    ----------
    moments : int
        Steps of SQLite at which the power failed.
    images : int
        Different contents of the disk after that.
    forgotten : int
        Of these, how many let noise that was used for one portion serve another.
    unreadable : int
        How many could not be resumed, although portions were announced: that costs the stream, but no privacy.
    """

    moments: int = 0
    images: int = 0
    forgotten: int = 0
    unreadable: int = 0


def lose_power(
    journal: type[Journal], folder: Path, *, images: int = 12, again: int = 0, every: int = 1, seed: int = 0
) -> PowerLosses:
    """Let the power fail while a stream begins, announces portions and writes checkpoints.

    Parameters
    ----------
    journal : type
        What is attacked.
    folder : Path
        An empty folder to work in.
    images : int
        How many contents of the disk to try per moment.
    again : int
        How many of them to resume, and lose power again while they are repaired and gone on from.
    every : int
        Try every so manieth moment only.
    seed : int

    Examples
    --------
    >>> import tempfile
    >>> lose_power(PlainJournal, Path(tempfile.mkdtemp()), images=4).forgotten > 0
    True
    """
    trial = _Trial(journal, folder, images, every, random.Random(seed))
    resumable = trial.run({}, [], _story)
    for image, known in trial.rng.sample(resumable, min(again, len(resumable))):
        trial.run(image, known, _sequel)
    return trial.found


def _story(journal: Journal, served: Callable[[bytes], object]) -> None:
    """A stream from its beginning over two checkpoints."""
    journal.begin()
    for number in range(5):
        if number == 3:
            journal.save()
        portion = b"%032d" % number
        journal.announce(portion)
        served(portion)


def _sequel(journal: Journal, served: Callable[[bytes], object]) -> None:
    """A restart, another portion, and another checkpoint."""
    before = journal.resume()
    for number in range(2):
        portion = b"%031d+" % (len(before) + number)
        journal.announce(portion)
        served(portion)
        journal.save()


@dataclass
class _Trial:
    journal: type[Journal]
    folder: Path
    images: int
    every: int
    rng: random.Random
    found: PowerLosses = field(default_factory=PowerLosses)

    def run(self, image: Mapping[str, bytes], used: Sequence[bytes], story: Story) -> list[Image]:
        """Let a story run from an image, then fail at each of its steps; return what can be resumed after that."""
        _restore(self.folder, image)
        with watching() as steps:
            story(self.journal(self.folder), lambda portion: steps.append(Step("mark", "", body=portion)))
        disk, used, resumable = Disk({**_made(self.folder, steps), **image}), list(used), []
        for number, step in enumerate(steps):
            disk.apply(step)
            if step.kind == "mark":
                used.append(step.body)
            elif number % self.every:
                continue
            self.found.moments += 1
            for after in disk.images(self.images, self.rng.randrange(2**32)):
                _restore(self.folder, after)
                known = _resumed(self.journal(self.folder))
                self._judge(known, used)
                resumable += [] if known is None else [(after, known)]
        return resumable

    def _judge(self, known: list[bytes] | None, used: list[bytes]) -> None:
        self.found.images += 1
        if known is None:
            self.found.unreadable += bool(used)
        else:
            self.found.forgotten += known[: len(used)] != used


def _made(folder: Path, steps: Sequence[Step]) -> dict[str, bytes]:
    """Files that were made before SQLite opened them: keys, which are synced, and empty ones."""
    created = {step.path for step in steps if step.kind == "create"}
    paths = [path for path in folder.rglob("*") if path.is_file() and str(path) not in created]
    return {str(path): path.read_bytes() if path.name == "key" else b"" for path in paths}


def _resumed(stream: Journal) -> list[bytes] | None:
    try:
        return stream.resume()
    except (InputError, sqlite3.DatabaseError):
        return None


def _restore(folder: Path, image: Mapping[str, bytes]) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()
    for name, body in image.items():
        Path(name).parent.mkdir(mode=0o700, exist_ok=True)
        Path(name).write_bytes(body)
        Path(name).chmod(0o600)


def tamper(journal: type[Journal], folder: Path) -> dict[str, bool]:
    """Alter the file of a stream without its key, and say of each way whether a restart would use noise again.

    Examples
    --------
    >>> import tempfile
    >>> any(tamper(Ours, Path(tempfile.mkdtemp())).values())
    False
    >>> all(tamper(PlainJournal, Path(tempfile.mkdtemp())).values())
    True
    """
    found = {}
    for number, (name, way) in enumerate(_WAYS.items()):
        (at := folder / f"{number}").mkdir(mode=0o700)
        found[name] = _uses_again(journal, at, way)
    return found


def _uses_again(journal: type[Journal], folder: Path, way: Callable[[Path, Path, Path], None]) -> bool:
    """Attack a stream, with what may have been kept of it before, and look what a restart knows."""
    here, older, other = (folder / name for name in ("here", "older", "other"))
    here.mkdir(mode=0o700)
    stream, used = journal(here), [b"%032d" % number for number in range(3)]
    stream.begin()
    stream.announce(used[0])
    for copy in (older, other):
        shutil.copytree(here, copy)
    fork = journal(other)  # with a folder of keys of its own
    fork.resume()
    for portion in (b"of a fork", b"and another"):
        fork.announce(portion)
    for portion in used[1:]:
        stream.announce(portion)
    way(here / "stream", older / "stream", other / "stream")
    known = _resumed(journal(here))
    return known is not None and known[: len(used)] != used


def _statement(text: str) -> Callable[[Path, Path, Path], None]:
    """Run a statement on the file; it may read the older copy and that of the fork."""

    def way(here: Path, older: Path, other: Path) -> None:
        with closing(sqlite3.connect(here, isolation_level=None)) as file:
            file.execute("ATTACH ? AS older", (str(older),))
            file.execute("ATTACH ? AS other", (str(other),))
            file.execute(text)

    return way


_LAST = "(SELECT max(place) FROM main.journal)"
_WAYS: dict[str, Callable[[Path, Path, Path], None]] = {
    "the journal emptied": _statement("DELETE FROM main.journal"),
    "the first entry taken out": _statement(
        "DELETE FROM main.journal WHERE place = (SELECT min(place) FROM main.journal)"
    ),
    "the last entry taken out": _statement(f"DELETE FROM main.journal WHERE place = {_LAST}"),
    "two entries exchanged": _statement(
        "UPDATE main.journal SET entry = (SELECT entry FROM main.journal AS j WHERE j.place = "
        f"2 * {_LAST} - 1 - main.journal.place) WHERE place >= {_LAST} - 1"
    ),
    "the last entry of a fork": _statement(
        f"UPDATE main.journal SET entry = (SELECT entry FROM other.journal WHERE place = {_LAST}) WHERE place = {_LAST}"
    ),
    "an older copy put back": lambda here, older, other: Path(shutil.copy(older, here)).touch(),
    "the file of a fork put in its place": lambda here, older, other: Path(shutil.copy(other, here)).touch(),
}
