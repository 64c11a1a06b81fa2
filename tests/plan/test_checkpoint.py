"""Checkpoints under attack: power that fails, processes that are killed or race, files that are altered or put back."""

import collections
import json
import os
import shutil
import signal
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.audit.machine.checkpoint import Ours, PlainJournal, lose_power, tamper
from dpconvex.audit.machine.disk import watching
from dpconvex.errors import InputError
from dpconvex.plan import session as sessions
from dpconvex.plan.checkpoint import Checkpoint
from dpconvex.plan.session import Session

PLAN = dc.algorithms.PrivateFTRL("blt", batch=4).plan_stream(
    dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0)), d=3, budget=dc.Budget(2.0, 1e-6)
)


def rows(seed, n=8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] > 0, 1.0, -1.0)


@pytest.fixture
def place(tmp_path):
    """A folder with a stream of eight records in it, and its key in a folder of its own."""
    (tmp_path / "keys").mkdir(mode=0o700)
    session = PLAN.start(dataset=f"stream in {tmp_path.name}")
    session.feed(*rows(0))
    session.save_checkpoint(tmp_path / "stream", tmp_path / "keys" / "key")
    return tmp_path


def resumed(place):
    return Session.resume(PLAN, Checkpoint(place / "stream", place / "keys" / "key"))


def elsewhere(*jobs):
    """Do jobs in forked processes at once; what each returns, the error it ends in, or None if it was killed."""
    pipes = []
    for job in jobs:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            sessions._READ.clear()  # what another process would not know
            try:
                answer = job()
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
            os.write(writing, json.dumps(answer).encode())
            os._exit(0)
        os.close(writing)
        pipes.append((child, reading))
    answers = []
    for child, reading in pipes:
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        answers.append(json.loads(answer) if answer else None)
    return answers if len(jobs) > 1 else answers[0]


def fed(place, *portions):
    """What a process releases that resumes the stream and reads portions."""
    session = resumed(place)
    for portion in portions:
        session.feed(*portion)
    return session._port._noisy["sums"][-1].tolist()


# Power -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("images", "again", "every"),
    [(4, 3, 9), pytest.param(6, 2, 3, marks=pytest.mark.heavy)],
)
def test_no_loss_of_power_lets_noise_serve_two_portions(tmp_path, images, again, every):
    found = lose_power(Ours, tmp_path, images=images, again=again, every=every)
    assert found.moments > 40
    assert found.images > 100
    assert (found.forgotten, found.unreadable) == (0, 0)


class Extra(PlainJournal):
    synchronous = "EXTRA"


class Late(Ours):
    """Writes a portion down when the next one comes, after its noise was used."""

    late = None

    def announce(self, portion):
        if self.late is not None:
            super().announce(self.late)
        self.late = portion


@pytest.mark.parametrize(("journal", "forgets"), [(PlainJournal, True), (Extra, False), (Late, True)])
def test_the_same_losses_of_power_break_journals_that_do_not_wait(tmp_path, journal, forgets):
    found = lose_power(journal, tmp_path, images=4, every=5)
    assert (found.forgotten >= 5) == forgets
    assert found.forgotten == 0 or forgets


def test_a_journal_of_sqlite_that_comes_back_after_its_removal_undoes_nothing(place):
    """As after a loss of power, had the removal not reached the disk: its inode is kept under another name."""

    def keep(number):
        for journal in place.glob("stream-journal"):
            (place / "kept").unlink(missing_ok=True)
            os.link(journal, place / "kept")

    first = rows(1)
    with watching(keep):
        session = resumed(place)
        session.feed(*first)
    os.link(place / "kept", place / "stream-journal")
    again = resumed(place)
    assert again.pending == 1
    with pytest.raises(InputError, match="the same ones in the same portions"):
        again.feed(*rows(2))
    again.feed(*first)
    assert np.array_equal(again.solution().weights, session.solution().weights)


def last_sum(session):
    return session._port.released("sums").tolist()


@pytest.mark.parametrize("every", [17, pytest.param(3, marks=pytest.mark.heavy)])
def test_a_process_killed_at_any_step_has_released_nothing_that_other_records_could_share(place, every):
    """SIGKILL at the steps of SQLite while a portion is announced, a checkpoint written, another portion announced."""
    portions, begin = (rows(1), rows(2)), place.with_name(f"{place.name} aside")
    shutil.copytree(place, begin)

    def live(die_at):
        def before(number):
            if number == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

        with watching(before) as steps:
            session = resumed(place)
            for portion in portions:
                session.feed(*portion)
                with open(place / "released", "a") as file:
                    file.write(json.dumps(last_sum(session)) + "\n")
                if portion is portions[0]:
                    session.save_checkpoint(place / "stream", place / "keys" / "key")
        return len(steps)

    def restart():
        session = resumed(place)
        base, pending = session.records // 8 - 1, session.pending
        refused = "" if pending else "no portion is to be read again"
        try:
            if pending:
                session.feed(*rows(3))
        except InputError as error:
            refused = str(error)
        released = []
        for portion in portions[base : base + pending]:
            session.feed(*portion)
            released.append(last_sum(session))
        return base, released, refused

    def again(die_at):
        for path in (*place.glob("*"), *(place / "keys").glob("*")):
            if path.is_file():
                path.unlink()
        shutil.copytree(begin, place, dirs_exist_ok=True)
        steps = elsewhere(lambda: live(die_at))
        lines = (place / "released").read_text().splitlines() if (place / "released").is_file() else []
        return steps, [json.loads(line) for line in lines]

    steps, whole = again(None)
    assert len(whole) == 2
    assert steps > 100
    for die_at in range(0, steps, every):
        survived, released = again(die_at)
        assert survived is None
        base, again_released, refused = elsewhere(restart)
        assert base + len(again_released) >= len(released)  # all that was released is known of,
        assert again_released == whole[base : base + len(again_released)]  # and comes out again for the same records,
        assert refused  # and for no others


# Copies, and files that were altered -------------------------------------------------------------------------------


def test_no_alteration_without_the_key_lets_noise_serve_two_portions(tmp_path):
    for journal, succeeds in ((Ours, False), (PlainJournal, True)):
        (tmp_path / journal.__name__).mkdir(mode=0o700)
        found = tamper(journal, tmp_path / journal.__name__)
        assert len(found) >= 7
        assert set(found.values()) == {succeeds}


def test_entries_deleted_without_the_key_are_missed_even_where_the_counter_was_put_back(place):
    shutil.copytree(place, place / "older")
    elsewhere(lambda: fed(place, rows(1)))
    counter = next((place / "keys").glob("*.counter"))
    shutil.copy(place / "older" / "keys" / counter.name, counter)
    with closing(sqlite3.connect(place / "stream", isolation_level=None)) as altered:
        altered.execute("DELETE FROM journal")
    with pytest.raises(InputError, match="entries of its journal are missing"):
        resumed(place)


def test_an_older_copy_is_noticed_by_the_counter_beside_the_key(place):
    older = shutil.copy(place / "stream", place / "older")
    fed(place, rows(1))
    with pytest.raises(InputError, match="older copy of the checkpoint"):
        Session.resume(PLAN, Checkpoint(older, place / "keys" / "key"))
    session = resumed(place)
    session.feed(*rows(1))
    shutil.copy(older, place / "stream")  # under a process that goes on
    for go_on in (lambda: session.feed(*rows(2)), lambda: session.save_checkpoint(place / "stream")):
        with pytest.raises(InputError, match="an older copy of it was put back"):
            go_on()


def test_a_copy_that_is_resumed_first_is_the_stream_and_the_other_one_is_an_older_copy(place):
    copied = Path(shutil.copy(place / "stream", place / "copied"))
    first = Session.resume(PLAN, Checkpoint(copied, place / "keys" / "key"))
    second = resumed(place)
    first.feed(*rows(1))
    sessions._READ.clear()
    with pytest.raises(InputError, match="another process has gone on"):
        second.feed(*rows(2))
    with pytest.raises(InputError, match="older copy"):
        resumed(place)


def test_an_older_copy_of_the_checkpoint_and_of_the_folder_of_its_key_cannot_be_noticed(place):
    """The limit that the guide states: nothing is left that would know better."""
    older = place.with_name(f"{place.name} older")
    shutil.copytree(place, older)
    released = [elsewhere(lambda at=at, seed=seed: fed(at, rows(seed))) for at, seed in ((place, 1), (older, 2))]
    assert all(isinstance(one, list) for one in released)


def test_a_checkpoint_without_its_counter_is_refused(place):
    next((place / "keys").glob("*.counter")).unlink()
    with pytest.raises(InputError, match=r"the counter of the stream, key\.[0-9a-f]{16}\.counter, is missing"):
        resumed(place)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE stream SET name = 7",
        "UPDATE stream SET name = '../../other'",
        "UPDATE stream SET generation = 10000000000000",
        "UPDATE stream SET state = NULL",
        "UPDATE head SET link = 'text'",
        "DELETE FROM head",
        "UPDATE journal SET entry = 3",
        "INSERT INTO journal VALUES (1, x'00')",
        "INSERT INTO stream SELECT * FROM stream",
        "DROP TABLE journal",
        "DELETE FROM stream",
    ],
)
def test_what_was_altered_without_the_key_is_refused(place, change):
    fed(place, rows(1))
    with closing(sqlite3.connect(place / "stream", isolation_level=None)) as altered:
        altered.execute(change)
    with pytest.raises(InputError, match=r"altered|no checkpoint|not a checkpoint"):
        resumed(place)


def test_a_trigger_that_drops_entries_is_noticed(place):
    with closing(sqlite3.connect(place / "stream", isolation_level=None)) as altered:
        altered.execute("CREATE TRIGGER drop_it BEFORE INSERT ON journal BEGIN SELECT RAISE(IGNORE); END")
    assert isinstance(elsewhere(lambda: fed(place, rows(1))), list)
    with pytest.raises(InputError, match="entries of its journal are missing"):
        resumed(place)


def test_a_file_that_was_turned_to_another_journal_of_sqlite_is_turned_back(place):
    with closing(sqlite3.connect(place / "stream", isolation_level=None)) as altered:
        assert altered.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    fed(place, rows(1))
    assert resumed(place).pending == 1
    assert not list(place.glob("stream-wal"))


def test_checkpoints_of_other_versions_are_refused_by_name(place):
    (place / "old").touch(0o600)
    with closing(sqlite3.connect(place / "old", isolation_level=None)) as old:
        old.execute("CREATE TABLE stream (format TEXT, generation BLOB, state BLOB)")
        old.execute("INSERT INTO stream VALUES ('dpconvex-checkpoint/1', x'00', x'00')")
    with pytest.raises(InputError, match="another version of the library"):
        Checkpoint(place / "old", place / "keys" / "key").read()


# Who may read them -------------------------------------------------------------------------------------------------


def test_files_are_for_their_owner_only(tmp_path):
    """At every step of SQLite; only the list of journals of a transaction, which holds paths, may be read by others."""
    folder, seen = tmp_path / "stream", set()

    def look(number):
        for path in folder.rglob("*"):
            if path.is_file() and "-mj" not in path.name:
                seen.add(path.suffix or path.name)
                assert stat.S_IMODE(path.stat().st_mode) == 0o600

    mask = os.umask(0)
    try:
        folder.mkdir(mode=0o700)
        with watching(look):
            journal = Ours(folder)
            journal.begin()
            journal.announce(b"one")
    finally:
        os.umask(mask)
    assert seen == {"key", "stream", "stream-journal", ".counter", ".counter-journal"}


@pytest.mark.parametrize("name", ["stream", "keys/key", "keys/*.counter"])
def test_files_that_others_may_read_are_refused(place, name):
    next(place.glob(name)).chmod(0o640)
    with pytest.raises(InputError, match="chmod 600"):
        resumed(place)


@pytest.mark.parametrize("name", [".", "keys"])
def test_folders_that_everybody_may_write_to_are_refused(place, name):
    (place / name).chmod(0o777)
    with pytest.raises(InputError, match="a folder of your own"):
        resumed(place)


def test_a_folder_that_cannot_be_synced_is_refused(place, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != place)
    with pytest.raises(InputError, match="the folder of the checkpoint cannot be read"):
        resumed(place)


def test_a_wrong_key_path_makes_nothing(place):
    def files():
        return sorted(str(path) for path in place.rglob("*"))

    before = files()
    for wrong in (place / "keys" / "other", place / "nowhere" / "key"):
        with pytest.raises(InputError, match="there is no key at that path"):
            Session.resume(PLAN, Checkpoint(place / "stream", wrong))
        model = dc.PrivateOnlineClassifier(feature_bound=1.0, classes=[0, 1])
        with pytest.raises(InputError, match="there is no key at that path"):
            model.resume(place / "stream", key_file=wrong)
    assert files() == before


# Processes and threads ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", [3, pytest.param(20, marks=pytest.mark.heavy)])
def test_of_processes_that_race_for_a_portion_one_wins(place, trials):
    begin = place.with_name(f"{place.name} aside")
    shutil.copytree(place, begin)

    def race(seed, start):
        session = resumed(place)
        time.sleep(max(0.0, start - time.time()))
        session.feed(*rows(seed))
        return seed

    for _ in range(trials):
        shutil.copytree(begin, place, dirs_exist_ok=True)
        start = time.time() + 0.15
        answers = elsewhere(*(lambda seed=seed, start=start: race(seed, start) for seed in range(4)))
        outcomes = collections.Counter(type(answer) for answer in answers)
        assert outcomes == {int: 1, str: 3}
        refusals = [answer for answer in answers if isinstance(answer, str)]
        assert all("Nothing was released" in answer or "in use" in answer for answer in refusals)
        (winner,) = (answer for answer in answers if isinstance(answer, int))
        assert resumed(place).pending == 1
        assert isinstance(elsewhere(lambda winner=winner: fed(place, rows(winner))), list)


def test_a_checkpoint_is_refused_to_a_process_that_inherits_it(place):
    checkpoint = Checkpoint(place / "stream", place / "keys" / "key")
    checkpoint.read()
    for job in (checkpoint.read, lambda: checkpoint.announce(b"x"), lambda: checkpoint.write({})):
        assert "inherited through a fork" in elsewhere(job)
    checkpoint.announce(b"x")


def test_rows_that_are_written_over_while_they_are_read_are_those_that_were_announced(place, monkeypatch):
    session = resumed(place)
    X, y = rows(1)
    plain = Checkpoint.announce

    def write_over(self, fingerprint):
        plain(self, fingerprint)
        X[:] = 0.0
        y[:] = 1.0

    monkeypatch.setattr(Checkpoint, "announce", write_over)
    session.feed(X, y)
    monkeypatch.undo()
    assert np.allclose(fed(place, rows(1)), last_sum(session), rtol=0, atol=0)


def test_streams_resumed_from_one_checkpoint_object_do_not_share_it(place):
    checkpoint = Checkpoint(place / "stream", place / "keys" / "key")
    first, second = (Session.resume(PLAN, checkpoint) for _ in range(2))
    first.feed(*rows(1))
    first.save_checkpoint(place / "stream")
    with pytest.raises(InputError, match="Nothing was released"):
        second.feed(*rows(2))
    sessions._SAVED.clear()  # what another process would not know
    with pytest.raises(InputError, match="another process has gone on"):
        second.feed(*rows(2))
    first.feed(*rows(3))


def test_a_copy_of_everything_is_stopped_within_one_process_after_the_next_checkpoint_too(place):
    copied = place.with_name(f"{place.name} copied")
    shutil.copytree(place, copied)
    first, second = resumed(place), resumed(copied)
    first.feed(*rows(1))
    for _ in range(2):
        with pytest.raises(InputError, match="another stream of this process has gone on"):
            second.feed(*rows(2))
        first.save_checkpoint(place / "stream")
