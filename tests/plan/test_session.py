"""Streams under one guarantee: portions, mistakes, crashes, checkpoints."""

import copy
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from contextlib import closing

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.algorithms.private_ftrl import Leader
from dpconvex.errors import BudgetError, BudgetWarning, FormError, InputError, ReleaseError, RowError
from dpconvex.ledger import account as accounts
from dpconvex.plan import checkpoint as checkpoints
from dpconvex.plan import session as sessions
from dpconvex.plan.checkpoint import Checkpoint
from dpconvex.plan.session import Session
from dpconvex.verify import add_up

PROBLEM = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
BUDGET = dc.Budget(2.0, 1e-6)


def stream_plan(rounds=None, mode="blt", batch=4, d=3, budget=BUDGET):
    return dc.algorithms.PrivateFTRL(mode, batch=batch).plan_stream(PROBLEM, d=d, budget=budget, rounds=rounds)


def rows(n, seed=0, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] > 0, 1.0, -1.0)


@pytest.fixture
def files(tmp_path):
    return tmp_path / "stream", tmp_path / "key"


# Reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["blt", "tree", "honaker", "composition"])
def test_portions_of_whole_rounds_give_what_one_run_gives(mode):
    X, y = rows(96)
    plan = dc.algorithms.PrivateFTRL(mode, batch=4).plan(PROBLEM, n=96, d=3, budget=BUDGET)
    whole = plan.run(X, y, seed=5)
    session = plan.start(dataset=f"portions {mode}", seed=5)
    for part in np.split(np.arange(96), [8, 12, 60]):
        session.feed(X[part], y[part])
    assert np.array_equal(session.solution().weights, whole.weights)
    assert session.records == 96


def test_every_prefix_has_a_receipt_that_holds():
    session = stream_plan().start(dataset="prefixes")
    X, y = rows(30)
    for k in (1, 2, 7, 20):
        session.feed(X[:k], y[:k])
        solution = session.solution()
        assert dc.verify(solution.receipt)
        assert solution.receipt.covers(solution.weights)
        assert solution.receipt.private
        assert solution.receipt.epsilon <= 2.0
    assert len(dc.account("prefixes").claims) == 1  # charged once, whatever comes after


def test_dense_sparse_and_single_precision_rows_mix():
    X, y = rows(24)
    sessions = [stream_plan().start(dataset=f"kinds {i}", seed=1) for i in range(2)]
    for kind in (lambda a: a, sparse.csr_array, sparse.coo_array, lambda a: a.tolist()):
        sessions[0].feed(kind(X), y)
        sessions[1].feed(X, y)
    assert np.allclose(*(s.solution().weights for s in sessions), rtol=1e-12)
    sessions[0].feed(X.astype(np.float32), y, sample_weight=np.full(24, 2.0), weight_cap=4.0)
    assert sessions[0].records == 120


def test_one_row_one_feature_and_no_rows():
    session = stream_plan(d=1, batch=1).start(dataset="one row")
    session.feed(np.empty((0, 1)), [])
    with pytest.raises(InputError, match="nothing was read so far"):
        session.solution()
    assert dc.account("one row").claims == ()
    session.feed([[1e300]], [1.0])
    assert session.records == 1
    assert np.isfinite(session.solution().weights).all()


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones((2, 4)), [1, -1], "d = 3"),
        (np.ones(3), [1], "two dimensions"),
        (np.ones((2, 3)), [1], "one label a row"),
        (np.ones((2, 3)), [0, 1], "labels -1 and"),
        (np.array([[1.0, np.nan, 0.0]]), [1], "not finite"),
        (np.array([[1.0, np.inf, 0.0]]), [1], "not finite"),
        (np.array([["a", "b", "c"]]), [1], "real numbers"),
    ],
)
def test_mistakes_of_form_change_nothing_and_the_stream_goes_on(X, y, message):
    good = rows(12)
    sessions = [stream_plan().start(dataset=f"mistakes {i}", seed=2) for i in range(2)]
    for session in sessions:
        session.feed(*good)
    with pytest.raises(InputError, match=message):
        sessions[0].feed(X, y)
    for session in sessions:
        session.feed(*good)
    assert np.array_equal(*(s.solution().weights for s in sessions))


def test_only_a_mistake_of_public_form_in_the_first_portion_costs_nothing():
    session = stream_plan().start(dataset="first mistake")
    with pytest.raises(FormError):
        session.feed([[0.0, 0.0]], [1.0])
    assert dc.account("first mistake").claims == ()
    with pytest.raises(RowError):
        session.feed([[np.nan, 0.0, 0.0]], [1.0])
    assert len(dc.account("first mistake").claims) == 1


def test_a_round_past_the_horizon_is_refused_before_anything_is_read():
    session = stream_plan(rounds=3).start(dataset="horizon")
    X, y = rows(13)
    with pytest.raises(InputError, match="4 rounds are needed and 3 are left"):
        session.feed(X, y)
    session.feed(X[:1], y[:1])
    session.feed(X[:8], y[:8])
    with pytest.raises(InputError, match="1 rounds are needed and 0 are left"):
        session.feed(X[:1], y[:1])
    with pytest.raises(InputError, match="0 are left"):
        session.observe(np.ones(3))
    assert session.records == 9


def test_an_interrupted_portion_ends_the_stream(monkeypatch):
    session = stream_plan().start(dataset="interrupted")
    X, y = rows(8)
    session.feed(X, y)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Leader, "observe", interrupt)
    with pytest.raises(KeyboardInterrupt):
        session.feed(X, y)
    monkeypatch.undo()
    for go_on in (
        lambda: session.feed(X, y),
        lambda: session.observe(np.ones(3)),
        lambda: session.save_checkpoint("x"),
    ):
        with pytest.raises(ReleaseError, match="interrupted"):
            go_on()
    assert dc.verify(session.solution().receipt)  # what was released before stays


def test_gradients_of_any_length_are_brought_within_the_bound():
    session = stream_plan(batch=1).start(dataset="gradients", seed=4)
    other = stream_plan(batch=1).start(dataset="gradients", seed=4)
    limit = PROBLEM.lipschitz(3).value
    for huge in (1e300, 1e3, 2.0, np.float32(7.0), 2**62):
        session.observe(np.array([huge, 0, 0]))
        other.observe(np.array([limit, 0.0, 0.0]))
    session.observe(np.full(3, -(2**63)))  # whose absolute value is no int64
    other.observe(-np.full(3, limit / 3**0.5))
    assert np.allclose(session.solution().weights, other.solution().weights, rtol=1e-9)
    for wrong in (np.ones(2), np.array([np.nan, 0, 0]), np.array(["a", "b", "c"])):
        with pytest.raises(InputError, match=r"3 numbers|not finite"):
            session.observe(wrong)


def test_a_limit_refuses_the_stream_before_the_first_row():
    dc.limit("limited stream", dc.Budget(1.0, 1e-6))
    session = stream_plan().start(dataset="limited stream")
    with pytest.raises(BudgetError):
        session.feed(*rows(4))
    assert session.records == 0


def test_streams_cannot_be_copied_and_other_algorithms_have_none():
    session = stream_plan().start(dataset="copies")
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="must never be used twice"):
            attempt(session)
    plan = dc.algorithms.NoisyGD(steps=2).plan(PROBLEM, n=20, d=2, budget=BUDGET)
    with pytest.raises(InputError, match="plan with PrivateFTRL"):
        plan.start()


def test_seeded_streams_say_so():
    session = stream_plan().start(dataset="seeded", seed=1)
    session.feed(*rows(4))
    assert not session.solution().receipt.private


def test_threads_take_turns():
    """Every portion has noise of its own, and every record is counted."""
    session = stream_plan(batch=1, d=400).start(dataset="threads", seed=0)
    X, y = np.zeros((40, 400)), np.ones(40)
    workers = [threading.Thread(target=lambda: [session.feed(X, y) for _ in range(20)]) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    alone = stream_plan(batch=1, d=400).start(dataset="threads", seed=0)
    alone.feed(np.zeros((3200, 400)), np.ones(3200))
    assert session.records == 3200
    assert np.array_equal(session._port.released("sums"), alone._port.released("sums"))


def test_a_forked_process_cannot_use_the_noise():
    session = stream_plan().start(dataset="forked")
    session.feed(*rows(4))
    child = os.fork()
    if not child:
        try:
            session.feed(*rows(4, seed=1))
        except ReleaseError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    session.feed(*rows(4, seed=1))


def test_a_delta_that_is_too_large_for_the_stream_warns_once():
    session = stream_plan(budget=dc.Budget(1.0, 0.05)).start(dataset="delta")
    session.feed(*rows(19))
    with pytest.warns(BudgetWarning, match="1/delta = 20"):
        session.feed(*rows(1))
    session.feed(*rows(30))


def test_receipts_of_one_stream_are_one_release():
    session = stream_plan().start(dataset="added up")
    receipts = []
    for _ in range(3):
        session.feed(*rows(4))
        receipts.append(session.solution().receipt)
    (found,) = add_up(receipts)
    assert len(found.claims) == 1
    assert "one record of the stream 'added up'" in str(receipts[0])


# Checkpoints -------------------------------------------------------------------------------------------------------


def resumed(plan, files):
    return Session.resume(plan, Checkpoint(*files))


@pytest.mark.parametrize("mode", ["blt", "tree", "honaker", "composition"])
@pytest.mark.parametrize("horizon", [None, 1200])
def test_a_resumed_stream_releases_what_an_uninterrupted_one_would(mode, horizon, files):
    """In the middle of chunks of noise, at their ends, and across epochs of an open horizon."""
    plan = stream_plan(horizon, mode, batch=1)
    X, y = rows(600)
    for cut in (5, 16, 256, 300):
        whole, session = (plan.start(dataset=f"resumed {mode} {horizon} {cut}", seed=cut) for _ in range(2))
        whole.feed(X[:cut], y[:cut])
        session.feed(X[:cut], y[:cut])
        path = files[0].with_name(f"stream {cut}")
        session.save_checkpoint(path, files[1])
        again = resumed(plan, (path, files[1]))
        assert again.records == cut
        for part in np.split(np.arange(cut, 600), [1, 3, 100]):
            whole.feed(X[part], y[part])
            again.feed(X[part], y[part])
            assert np.array_equal(whole.solution().weights, again.solution().weights)


def test_a_resumed_stream_is_not_charged_again(files):
    plan = stream_plan()
    session = plan.start(dataset="charged once")
    session.feed(*rows(8))
    session.save_checkpoint(*files)
    again = resumed(plan, files)
    again.feed(*rows(8, seed=1))
    assert len(dc.account("charged once").claims) == 1
    assert again.solution().receipt.private


def test_after_a_crash_other_rows_are_refused_and_the_same_rows_give_the_same_model(files):
    plan = stream_plan()
    session = plan.start(dataset="crash")
    session.feed(*rows(8))
    session.save_checkpoint(*files)
    session.feed(*rows(8, seed=1))
    session.feed(*rows(5, seed=2))
    expected = session.solution().weights
    again = resumed(plan, files)  # as after a crash of the first
    assert again.pending == 2
    X, y = rows(8, seed=1)
    flipped = y.copy()
    flipped[3] *= -1
    for wrong in (rows(8, seed=3), (X, flipped), (X[:7], y[:7]), (X.astype(np.float32), y), rows(5, seed=2)):
        with pytest.raises(InputError, match="the same ones in the same portions"):
            again.feed(*wrong)
    with pytest.raises(InputError, match="read them again first"):
        again.save_checkpoint(*files)
    again.feed(X, y)
    again.feed(*rows(5, seed=2))
    assert again.pending == 0
    assert np.array_equal(again.solution().weights, expected)
    again.feed(*rows(3, seed=9))
    again.save_checkpoint(*files)


def test_observed_losses_are_announced_like_rows(files):
    plan = stream_plan(batch=1)
    session = plan.start(dataset="observed")
    session.feed(*rows(8))
    session.save_checkpoint(*files)
    session.observe(np.array([0.5, 0.0, 0.0]))
    again = resumed(plan, files)
    assert again.pending == 1
    with pytest.raises(InputError, match="the same ones in the same portions"):
        again.observe(np.array([0.0, 0.0, -0.25]))
    again.observe(np.array([0.5, 0.0, 0.0]))
    assert np.array_equal(again.solution().weights, session.solution().weights)


def test_weights_are_part_of_what_is_announced(files):
    plan = stream_plan()
    session = plan.start(dataset="weights announced")
    session.feed(*rows(8))
    session.save_checkpoint(*files)
    session.feed(*rows(4), sample_weight=np.ones(4))
    with pytest.raises(InputError, match="the same ones in the same portions"):
        resumed(plan, files).feed(*rows(4), sample_weight=np.full(4, 0.5))


def test_whole_numbers_beyond_64_bits_are_the_same_rows_after_a_crash(files):
    plan = stream_plan()
    session = plan.start(dataset="big numbers")
    session.feed(*rows(8))
    session.save_checkpoint(*files)
    session.feed([[2**70, 0, 1]], [1])
    resumed(plan, files).feed([[2**70, 0, 1]], [1])


def test_a_stream_keeps_to_one_path_and_one_key(files, tmp_path, monkeypatch):
    plan = stream_plan()
    session = plan.start(dataset="one path")
    with pytest.raises(InputError, match="nothing was read so far"):
        session.save_checkpoint(*files)
    session.feed(*rows(8))
    monkeypatch.chdir(tmp_path)
    session.save_checkpoint("stream", "key")
    for path, key in (("other", "key"), ("stream", "other key")):
        with pytest.raises(InputError, match="keep to its path"):
            session.save_checkpoint(path, key)
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")
    with pytest.raises(InputError, match="keep to its path"):
        session.save_checkpoint("stream")
    session.feed(*rows(4))
    session.save_checkpoint(tmp_path / "stream")
    assert resumed(plan, files).records == 12


@pytest.mark.parametrize("moment", ["write", "announce"])
def test_an_interrupted_write_ends_the_stream(files, moment, monkeypatch):
    """Whether or not it was written: the process does not know, so it must not go on."""
    plan = stream_plan()
    session = plan.start(dataset=f"interrupted {moment}")
    session.feed(*rows(8))
    session.save_checkpoint(*files)
    plain = getattr(Checkpoint, moment)

    def interrupt(self, *given):
        plain(self, *given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, moment, interrupt)
    with pytest.raises(KeyboardInterrupt):
        session.save_checkpoint(*files) if moment == "write" else session.feed(*rows(4, seed=1))
    monkeypatch.undo()
    with pytest.raises(ReleaseError, match="interrupted"):
        session.feed(*rows(4, seed=2))
    again = resumed(plan, files)
    assert again.pending == (moment == "announce")
    again.feed(*rows(4, seed=1))


def test_a_commit_that_fails_ends_the_stream(files, monkeypatch):
    session = stream_plan().start(dataset="disk full")
    session.feed(*rows(8))
    session.save_checkpoint(*files)

    def fail(self, file):
        raise checkpoints.UnsureError("it is not known whether the checkpoint was written")

    monkeypatch.setattr(Checkpoint, "_commit", fail)
    with pytest.raises(InputError, match="not known"):
        session.feed(*rows(4))
    monkeypatch.undo()
    with pytest.raises(ReleaseError, match="interrupted"):
        session.feed(*rows(4))


def test_a_new_process_charges_what_it_resumes(files):
    plan = stream_plan()
    session = plan.start(dataset="resumed elsewhere")
    session.feed(*rows(8))
    session.save_checkpoint(*files)
    accounts._STREAMS.discard(session._secret)  # as in a process that knows nothing of it
    resumed(plan, files)
    assert len(dc.account("resumed elsewhere").claims) == 2


def test_a_state_that_contradicts_itself_is_refused(files):
    plan = stream_plan()
    session = plan.start(dataset="contradictions")
    session.feed(*rows(8))
    port, leader = session._port.state(), session._leader.state()
    fresh = plan.start(dataset="contradictions")
    for wrong in ({"drawn": 3}, {"name": "others"}):
        with pytest.raises(ReleaseError, match="saved noise"):
            fresh._port.restore({**port, **wrong})
    with pytest.raises(ReleaseError, match="not that of this plan"):
        stream_plan(rounds=9).start(dataset="contradictions")._port.restore(port)
    for wrong in ({"sums": np.zeros(2)}, {"mean": np.full(3, np.nan)}):
        with pytest.raises(InputError, match="saved state does not fit this plan"):
            fresh._leader.restore({**leader, **wrong})


def test_what_is_sealed_for_one_place_opens_at_no_other(files):
    plan = stream_plan()
    session = plan.start(dataset="places")
    session.feed(*rows(8))
    session.save_checkpoint(*files)
    session.feed(*rows(4, seed=1))
    session.feed(*rows(4, seed=2))
    with closing(sqlite3.connect(files[0], isolation_level=None)) as altered:
        (first,), (second,) = altered.execute("SELECT entry FROM journal ORDER BY place").fetchall()
        altered.execute("UPDATE journal SET entry = ? WHERE place = 0", (second,))
        altered.execute("UPDATE journal SET entry = ? WHERE place = 1", (first,))
    with pytest.raises(InputError, match="altered"):
        Checkpoint(*files).read()


def test_every_commit_waits_for_the_disk(files, monkeypatch):
    session = stream_plan().start(dataset="synchronous")
    session.feed(*rows(8))
    seen = []
    plain = Checkpoint._commit
    monkeypatch.setattr(
        Checkpoint,
        "_commit",
        lambda self, file: (
            seen.extend(
                file.execute(f"PRAGMA {pragma}").fetchone()[0]
                for pragma in ("synchronous", "counter.synchronous", "fullfsync", "journal_mode")
            ),
            plain(self, file),
        ),
    )
    session.save_checkpoint(*files)
    session.feed(*rows(4))
    assert seen == 2 * [3, 3, 1, "delete"]  # 3 is EXTRA


def test_two_processes_cannot_go_on_from_one_checkpoint(files):
    plan = stream_plan()
    session = plan.start(dataset="two processes")
    session.feed(*rows(8))
    session.save_checkpoint(*files)
    first, second = resumed(plan, files), resumed(plan, files)
    first.feed(*rows(4, seed=1))
    with pytest.raises(InputError, match="another stream of this process has gone on"):
        second.feed(*rows(4, seed=2))
    sessions._READ.clear()  # what another process would not know
    for other in (second, session):
        with pytest.raises(InputError, match="another process has gone on"):
            other.feed(*rows(4, seed=2))
        with pytest.raises(InputError, match="another process has gone on"):
            other.save_checkpoint(*files)
    first.feed(*rows(4, seed=3))


def test_a_mistake_of_form_is_not_announced(files):
    session = stream_plan().start(dataset="mistake after a checkpoint")
    session.feed(*rows(8))
    session.save_checkpoint(*files)
    with pytest.raises(InputError, match="not finite"):
        session.feed([[np.nan, 0.0, 0.0]], [1.0])
    assert resumed(session.plan, files).pending == 0


def test_what_is_no_checkpoint_of_this_stream_is_refused(files, tmp_path):
    path, key = files
    plan = stream_plan()
    session = plan.start(dataset="refusals")
    session.feed(*rows(8))
    session.save_checkpoint(path, key)
    with pytest.raises(InputError, match="another plan"):
        resumed(stream_plan(batch=5), files)
    Checkpoint(tmp_path / "another", tmp_path / "other key").write({})
    with pytest.raises(InputError, match="another key"):
        Checkpoint(path, tmp_path / "other key").read()
    with pytest.raises(InputError, match="no checkpoint at that path"):
        Checkpoint(tmp_path / "nothing", key).read()
    (tmp_path / "text").write_text("not a database, but long enough to be taken for one" * 40)
    (tmp_path / "text").chmod(0o600)
    with pytest.raises(InputError, match="no checkpoint"):
        Checkpoint(tmp_path / "text", key).read()
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE people (name TEXT)")
    (tmp_path / "other.db").chmod(0o600)
    with pytest.raises(InputError, match="no checkpoint"):
        Checkpoint(tmp_path / "other.db", key).read()
    fresh = plan.start(dataset="refusals, another")
    fresh.feed(*rows(4))
    with pytest.raises(InputError, match="another stream at that path"):
        fresh.save_checkpoint(path, key)
    with pytest.raises(InputError, match="cannot be made"):
        fresh.save_checkpoint(tmp_path / "no folder" / "stream", key)
    with closing(sqlite3.connect(path, isolation_level=None)) as altered:
        (state,) = altered.execute("SELECT state FROM stream").fetchone()
        altered.execute("UPDATE stream SET state = ?", (state[:-1] + bytes([state[-1] ^ 1]),))
    with pytest.raises(InputError, match="another key, or altered"):
        resumed(plan, files)


def test_a_journal_with_gaps_is_refused(files):
    session = stream_plan().start(dataset="gaps")
    session.feed(*rows(8))
    session.save_checkpoint(*files)
    for seed in (1, 2):
        session.feed(*rows(4, seed=seed))
    with closing(sqlite3.connect(files[0], isolation_level=None)) as altered:
        altered.execute("DELETE FROM journal WHERE place = 0")
    with pytest.raises(InputError, match="altered"):
        Checkpoint(*files).read()


def test_nothing_in_the_file_is_readable_without_the_key(files):
    session = stream_plan().start(dataset="nothing to read here")
    session.feed(*rows(8))
    session.save_checkpoint(*files)
    session.feed(*rows(8, seed=1))
    body = files[0].read_bytes()
    port = session._port.state()
    secrets = [
        bytes.fromhex(port["stream"]["key"]),
        port["stream"]["sum"].tobytes(),
        port["stream"]["memory"].tobytes(),
        session._secret.encode(),
        b"nothing to read",
    ]
    secrets += [port["stream"]["key"].encode(), session.dataset.encode()]
    assert not any(secret in body for secret in secrets)
    assert oct(files[1].stat().st_mode & 0o777) == "0o600"


def test_keys(tmp_path, monkeypatch):
    monkeypatch.setenv(checkpoints.KEY_VARIABLE, str(tmp_path / "deep" / "key"))
    Checkpoint(tmp_path / "a").write({"x": 1.5, "y": [np.arange(2), None, "text", True], "z": {}})
    assert (tmp_path / "deep" / "key").is_file()
    found = Checkpoint(tmp_path / "a").read()
    assert found["x"] == 1.5
    assert found["y"][1:] == [None, "text", True]
    assert found["z"] == {}
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="no checkpoint at that path"):
        Checkpoint(tmp_path / "empty").read()
    (tmp_path / "deep" / "key").chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        Checkpoint(tmp_path / "a").read()
    (tmp_path / "deep" / "key").chmod(0o600)
    for wrong in (b"no key", b"ab" * 31, b"\xff" * 64):
        (tmp_path / "deep" / "key").write_bytes(wrong)
        with pytest.raises(InputError, match="64 hexadecimal digits"):
            Checkpoint(tmp_path / "a").read()
    monkeypatch.delenv(checkpoints.KEY_VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert checkpoints.default_key_file() == tmp_path / ".config" / "dpconvex" / "checkpoint.key"


CHILD = textwrap.dedent(
    """
    import sys, numpy as np, dpconvex as dc
    path, key, stop = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
    plan = dc.algorithms.PrivateFTRL("blt", batch=4).plan_stream(problem, d=3, budget=dc.Budget(2.0, 1e-6))
    if stop:
        session = plan.start(dataset="killed")
    else:
        from dpconvex.plan.checkpoint import Checkpoint
        from dpconvex.plan.session import Session
        session = Session.resume(plan, Checkpoint(path, key))
    while session.records < 2000:
        first = session.records
        session.feed(X[first:first + 10], y[first:first + 10])
        print(session.records, session.solution().weights.tobytes().hex(), flush=True)
        if session.records % 50 == 0:
            session.save_checkpoint(path, key)
    print("charged", len(dc.account("killed").claims))
    """
)


def test_killed_in_mid_stream_and_resumed(tmp_path):
    """SIGKILL again and again, at no chosen moment: what is released twice is the same, and there is one sequence."""
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    released, done = {}, False
    for attempt in range(6):
        command = [sys.executable, str(script), str(tmp_path / "stream"), str(tmp_path / "key"), str(int(not attempt))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            for seen, line in enumerate(child.stdout):
                if line == "charged 1\n":
                    done = True
                    break
                records, weights = line.split()
                assert released.setdefault(int(records), weights) == weights
                if seen == 13 + 4 * attempt and attempt < 5:
                    child.send_signal(signal.SIGKILL)
    assert done
    assert sorted(released) == list(range(10, 2001, 10))


def test_streams_of_a_wide_problem_fit_into_a_checkpoint(files):
    plan = stream_plan(rounds=64, d=200)
    session = plan.start(dataset="wide")
    session.feed(*rows(40, d=200))
    session.save_checkpoint(*files)
    assert resumed(plan, files).records == 40
