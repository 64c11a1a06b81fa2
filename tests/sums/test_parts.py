"""Sums over parts: the sums of rows in memory, wherever the parts lie, and refused where parts change."""

import io
import os
import pickle
from itertools import pairwise

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from rich.console import Console

import dpconvex as dc
from dpconvex.context import settings
from dpconvex.data.opened import OpenedParts
from dpconvex.data.parts import Parts
from dpconvex.errors import InputError, PartsError
from dpconvex.loops.rows import Dense
from dpconvex.sums import parts as engines
from dpconvex.sums import progress, protocol
from dpconvex.sums.fingerprints import fingerprint
from dpconvex.sums.memory import Memory, open_sums
from dpconvex.sums.packing import packed
from dpconvex.sums.parts import PartSums
from dpconvex.sums.protocol import Frame
from dpconvex.sums.store import Scratch, Store

LOGISTIC = dc.Problem(dc.losses.Logistic(), intercept=0.3)
BALL = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0), intercept=0.3)
SPARSE = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L1Ball(8.0), feature_bound=dc.bounds.Linf(1.0))
ROBUST = dc.Problem(dc.losses.LogCosh(0.5), domain=dc.domains.L2Ball(4.0))
CUTS = (0, 1000, 1001, 2600, 4000)
ALGORITHMS = {
    "FrankWolfe": ({"steps": 6}, SPARSE),
    "HeavyTailedSGD": ({"batches": 5}, ROBUST),
    "MeanDirection": ({}, LOGISTIC),
    "MirrorDescent": ({"steps": 4}, dc.Problem(dc.losses.Logistic())),
    "NoisyGD": ({"steps": 5}, LOGISTIC),
    "ObjectivePerturbation": ({}, LOGISTIC),
    "OnlineToBatch": ({"rounds": 7}, BALL),
    "PhasedERM": ({}, BALL),
    "PhasedSGD": ({"batch": 3}, BALL),
    "PoissonSGD": ({"steps": 5}, LOGISTIC),
    "PrivateFTRL": ({"batch": 7}, dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))),
    "SufficientStatistics": ({}, dc.Problem(dc.losses.Squared())),
    "TruncatedMirrorDescent": ({"batches": 5}, dc.Problem(dc.losses.Logistic())),
}
IN_MEMORY = {"FramedPerturbation", "NoisySGD", "SnowballSGD"}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of 1024 rows, so that few rows make several."""
    monkeypatch.setattr("dpconvex.data.opened.chunk_rows", lambda d: 1024)


def table(rng, n=4000, d=3):
    X = rng.normal(size=(n, d)) / 2
    return X, np.where(X[:, 0] + rng.normal(size=n) / 2 > 0, 1.0, -1.0)


def held(X, y, cuts=CUTS, *more):
    return Parts.of([tuple(c[a:b] for c in (X, y, *more)) for a, b in pairwise(cuts)])


def on_disk(folder, X, y, cuts=CUTS):
    for i, (a, b) in enumerate(pairwise(cuts)):
        columns = {f"x{j}": X[a:b, j] for j in range(X.shape[1])} | {"y": y[a:b]}
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"{i}.parquet")
    return Parts.parquet(folder, target="y")


def planned(name, n, d, **options):
    given, problem = ALGORITHMS[name]
    return dc.algorithms.get(name)(**(given | options)).plan(problem, n=n, d=d, budget=dc.Budget(2.0, 1e-6))


# Every algorithm --------------------------------------------------------------------------------------------------


def test_every_algorithm_is_tried():
    assert set(ALGORITHMS) | IN_MEMORY == set(dc.algorithms.names())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_files_and_memory_release_the_same_bits_under_the_same_claim(name, rng, tmp_path):
    X, y = table(rng)
    plan = planned(name, 4000, 3)
    memory, files = held(X, y), on_disk(tmp_path, X, y)
    found = plan.run(memory, seed=5, dataset="parts")
    with dc.context(memory=0):
        read = plan.run(files, seed=5, dataset="parts")
    with dc.context(memory=60_000, scratch=str(tmp_path)):
        again = plan.run(files, seed=5, dataset="parts")
    assert np.array_equal(found.weights, read.weights)
    assert np.array_equal(found.weights, again.weights)
    assert found.receipt.data == read.receipt.data == again.receipt.data
    assert dc.verify(read.receipt)
    whole = plan.run(X, y, seed=5, dataset="parts")
    assert np.allclose(found.weights, whole.weights, rtol=1e-6, atol=1e-8)
    assert found.receipt.data["claim"] == whole.receipt.data["claim"]
    assert found.receipt.data["engine"]["rows"] == "parts"
    assert sorted(os.listdir(tmp_path)) == [f"{i}.parquet" for i in range(4)]


@pytest.mark.parametrize("name", sorted(IN_MEMORY))
def test_those_that_need_rows_in_memory_say_so(name, rng):
    plan = dc.algorithms.get(name)().plan(BALL, n=4000, d=3, budget=dc.Budget(2.0, 1e-6))
    why = "measures every row in the frame" if name == "FramedPerturbation" else "order of its own"
    refuse(plan, held(*table(rng)), f"{why}: it cannot run on parts")


def refuse(plan, parts, words):
    """Refused by what is public, so not charged."""
    before = len(dc.account("refused parts").claims)
    with pytest.raises(InputError, match=words):
        plan.run(parts, dataset="refused parts")
    assert len(dc.account("refused parts").claims) == before


def test_what_is_no_sum_says_so(rng):
    parts, budget = held(*table(rng)), dc.Budget(2.0, 1e-6)
    kinked = dc.Problem(dc.losses.Hinge(), domain=dc.domains.L2Ball(4.0))
    refuse(dc.algorithms.PhasedERM().plan(kinked, n=4000, d=3, budget=budget), parts, "kink")
    refuse(dc.algorithms.PhasedSGD(shuffle=True).plan(BALL, n=4000, d=3, budget=budget), parts, "another order")
    refuse(planned("TruncatedMirrorDescent", 4000, 3, shuffle=True), parts, "secret order")
    refuse(planned("NoisyGD", 4000, 3, per_person=True), parts, "whose a row is")
    refuse(planned("NoisyGD", 3999, 3), parts, "parts hold 4000 rows")
    plan = planned("NoisyGD", 4000, 3)
    with pytest.raises(InputError, match="leave out y"):
        plan.run(parts, np.ones(4000))
    once = Parts.of(iter([table(rng)]), rows=4000)
    with pytest.raises(InputError, match="read only once"):
        plan.run(once, seed=1)


def test_batches_that_come_once_are_enough_for_one_pass(rng):
    X, y = table(rng)
    for name in ("PhasedSGD", "PrivateFTRL"):
        plan = planned(name, 4000, 3)
        coming = ((X[a : a + 333], y[a : a + 333]) for a in range(0, 4000, 333))
        found = plan.run(Parts.of(coming, rows=4000), seed=2, dataset="once")
        assert np.array_equal(found.weights, plan.run(X, y, seed=2, dataset="once").weights)


def test_weights_of_records_come_with_parts(rng):
    X, y = table(rng)
    weights = rng.random(4000) * 3
    plan = planned("NoisyGD", 4000, 3)
    found = plan.run(held(X, y, CUTS, weights), weight_cap=2.0, seed=1)
    whole = plan.run(X, y, sample_weight=weights, weight_cap=2.0, seed=1)
    assert np.allclose(found.weights, whole.weights, rtol=1e-9)
    for name in ("PhasedERM", "PrivateFTRL"):  # one does not take them, one not in batches
        with pytest.raises(PartsError, match="holds weights"):
            planned(name, 4000, 3).run(held(X, y, CUTS, weights), seed=1)


# Sums -------------------------------------------------------------------------------------------------------------


def test_every_sum_over_parts_is_that_over_memory(rng):
    X, y = table(rng)
    loss, w, v = LOGISTIC.loss, rng.normal(size=4), rng.normal(size=4)
    frame = Frame(np.array([0.6, 0.0, 0.8, 0.0]), 0.5, 0.9)
    parts = PartSums(OpenedParts(held(X, y), LOGISTIC, 3))
    memory = open_sums(Dense(X, 1.0 * (1.0 - 19 * 2.3e-16), 0.3), y)
    assert (parts.n, parts.size, parts.row, parts.error()) == (memory.n, memory.size, memory.row, memory.error())
    members = np.sort(rng.choice(4000, 500, replace=False))
    for ours, theirs in (
        (parts, memory),
        (parts.view(900, 3100, 3), memory.view(900, 3100, 3)),
        (parts.view(100, 3900).view(7, 3000, 8), memory.view(100, 3900).view(7, 3000, 8)),
        (parts.view(5, 6), memory.view(5, 6)),
        (parts.sampled(members), memory.sampled(members)),
    ):
        assert ours.n == theirs.n
        for r in (
            protocol.Labels(),
            protocol.Slopes(loss, w),
            protocol.Bend(loss, w, v),
            protocol.Clipped(loss, w, 0.2, frame=frame),
            protocol.Truncated(loss, w, 0.2, 3.0),
            protocol.Difference(loss, w, v, 2.0, 1.5, 0.3),
        ):
            assert np.allclose(ours.sweep(r), theirs.sweep(r), rtol=1e-12, atol=1e-12)
        r = protocol.Slopes(loss, w)
        assert np.allclose(ours.entries(r, 0.1), theirs.entries(r, 0.1), atol=1e-12)
        assert np.allclose(ours.hessian(loss, w), theirs.hessian(loss, w), atol=1e-12)
        assert np.allclose(ours.diagonal(loss, w), theirs.diagonal(loss, w), atol=1e-12)
        assert np.allclose(ours.along(loss, w, v, (0.0, 0.5)), theirs.along(loss, w, v, (0.0, 0.5)), atol=1e-12)
        assert np.allclose(ours.careful(loss, w, v), theirs.careful(loss, w, v), rtol=0, atol=1e-14)
    none = parts.sampled(np.arange(0))
    assert not none.sweep(protocol.Labels()).any()
    assert none.hessian(loss, w).shape == (4, 4)


def test_careful_sums_of_many_parts_are_as_careful_as_of_one(rng):
    X, y = table(rng, 3000)
    w = 30.0 * rng.normal(size=4)
    rest = -open_sums(Dense(X, 1.0, 0.3), y).careful(LOGISTIC.loss, w, np.zeros(4))  # what is left is rounding
    many = PartSums(OpenedParts(held(X, y, tuple(range(0, 3001, 10))), LOGISTIC, 3))
    assert np.abs(many.careful(LOGISTIC.loss, w, rest)).max() < 1e-12
    rows = PartSums(OpenedParts(held(X, y, (0, 1500, 3000)), LOGISTIC, 3))
    assert np.abs(many.careful(LOGISTIC.loss, w, rest) - rows.careful(LOGISTIC.loss, w, rest)).max() < 1e-25


def test_one_pass_in_order_reads_every_part_once(rng):
    X, y = table(rng)
    read = []

    def source(k, a, b):
        def make():
            read.append(k)
            return [(X[a:b], y[a:b])]

        return make

    parts = Parts.of([source(k, a, b) for k, (a, b) in enumerate(pairwise(CUTS))], rows=list(np.diff(CUTS)))
    with dc.context(memory=0):
        planned("OnlineToBatch", 4000, 3, rounds=40).run(parts, seed=1)
    assert read == [0, 1, 2, 3]


# What goes wrong --------------------------------------------------------------------------------------------------


def fails(plan, parts, words):
    """Ends the run, which is charged, with an error that holds no value."""
    before = len(dc.account("bad parts").claims)
    with pytest.raises(PartsError, match=words):
        plan.run(parts, dataset="bad parts")
    assert len(dc.account("bad parts").claims) == before + 1


@pytest.mark.parametrize("what", ["label", "entry", "order"])
def test_a_part_that_changes_between_two_passes_ends_the_run(rng, what):
    X, y = table(rng, 2000)
    changed = X.copy(), y.copy()
    if what == "label":
        changed[1][1500] *= -1.0
    elif what == "entry":
        changed[0][3, 1] = np.nextafter(X[3, 1], 9.0)
    else:
        changed = X[::-1], y[::-1]
    calls = []

    def source():
        calls.append(1)
        return [(X, y) if len(calls) < 3 else changed]

    parts = Parts.of([source], rows=[2000])
    assert parts.width() == 3
    with dc.context(memory=0):
        fails(planned("NoisyGD", 2000, 3), parts, "the stream: the rows are not those of an earlier pass")
    calls.clear()
    with dc.context(memory=10**7):  # what was kept cannot change
        planned("NoisyGD", 2000, 3).run(parts, seed=1)


def test_a_mapped_array_that_changes_ends_the_run_even_where_its_rows_are_kept(rng, tmp_path):
    X, y = table(rng, 2000)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    parts = Parts.arrays(tmp_path / "X.npy", tmp_path / "y.npy", rows=1500)
    sums = PartSums(OpenedParts(parts, LOGISTIC, 3))
    sums.sweep(protocol.Ones())
    np.load(tmp_path / "X.npy", mmap_mode="r+")[1700, 0] += 1.0
    with pytest.raises(PartsError, match="rows 1500 to 1999: the rows are not those"):
        sums.sweep(protocol.Ones())


def test_parts_that_are_not_as_declared_end_the_run_charged(rng, tmp_path):
    X, y = table(rng, 2000)
    plan = planned("NoisyGD", 2000, 3)
    files = on_disk(tmp_path, X, y, (0, 1000, 2000))
    (tmp_path / "1.parquet").unlink()
    fails(plan, files, r"1\.parquet, row group 0: the file is missing")
    (tmp_path / "1.parquet").write_bytes(b"something else")
    fails(plan, files, r"1\.parquet, row group 0 could not be read \(Arrow")
    for bad, words in (
        ((X * np.where(np.arange(2000) == 9, np.nan, 1.0)[:, None], y), "not finite"),
        ((X, np.where(np.arange(2000) == 9, 0.5, y)), "labels -1 and"),
        ((X[:, :2], y), "shape"),
    ):
        fails(plan, Parts.of([lambda b=bad: [b]], rows=[2000]), words)


@pytest.mark.parametrize("kind", ["another schema", "no rows", "more rows", "fewer rows"])
def test_a_file_that_was_replaced_after_the_parts_were_made_ends_the_run_charged(rng, tmp_path, kind):
    X, y = table(rng, 2000)
    files = on_disk(tmp_path, X, y, (0, 1000, 2000))
    stored = pyarrow.parquet.read_table(tmp_path / "1.parquet")
    changed, words = {
        "another schema": (stored.rename_columns([f"other {name}" for name in stored.column_names]), "no column 'y'"),
        "no rows": (stored[:0], "fewer rows than the 1000|could not be read"),
        "more rows": (pyarrow.concat_tables([stored, stored[:1]]), "more rows than the 1000"),
        "fewer rows": (stored[:999], "fewer rows than the 1000"),
    }[kind]
    pyarrow.parquet.write_table(changed, tmp_path / "1.parquet")
    fails(planned("NoisyGD", 2000, 3), files, rf"1\.parquet.*({words})")
    fails(planned("PhasedSGD", 2000, 3), files, rf"1\.parquet.*({words})")


def test_rows_too_long_to_be_squared_are_tamed_as_in_memory(rng):
    X, y = table(rng, 2000)
    X[1234] *= 1e200
    plan = planned("NoisyGD", 2000, 3)
    assert np.allclose(plan.run(held(X, y, (0, 1100, 2000)), seed=1).weights, plan.run(X, y, seed=1).weights, rtol=1e-9)


# Secrets ----------------------------------------------------------------------------------------------------------


def test_scratch_is_encrypted_has_no_name_and_is_checked(rng, tmp_path):
    X, y = table(rng, 3000)
    store, key = Store(0, str(tmp_path)), os.urandom(16)
    memory = Memory(Dense(X, 9.0, 0.0), y)
    store.keep((0, 0), memory, b"name")
    assert os.listdir(tmp_path) == []
    file = store._scratch._file
    file.seek(0)
    stored = file.read()
    assert X[0].tobytes() not in stored
    assert X[7, :1].tobytes() not in stored
    again, name = store.find(key, (0, 0))
    assert np.array_equal(again.matrix.rows.X, X)
    assert name == b"name"
    file.seek(1000)
    file.write(b"another text")
    with pytest.raises(PartsError, match="scratch file was changed"):
        store.find(key, (0, 0))
    store.close()
    with pytest.raises(InputError, match="scratch"):
        Scratch(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_packed_comes_out_with_the_same_bits(rng, dtype):
    X = np.zeros((1000, 19), dtype)
    X[np.arange(1000), rng.integers(0, 16, 1000)] = 0.4
    X[:, 16:18] = rng.normal(size=(1000, 2))
    X[5, 0], X[6, 18], X[7, 18] = -0.0, np.nan, 1e30
    rows, y = Dense(X, 9.0, 0.3, rng.random(1000)), np.where(rng.random(1000) < 0.5, 1.0, -1.0)
    small = packed(rows, y)
    assert 3 * small.nbytes < X.nbytes + rows.weights.nbytes + y.nbytes or dtype == np.float32
    again, labels = pickle.loads(pickle.dumps(small)).unpacked()
    assert again.X.dtype == dtype
    assert again.X.tobytes() == X.tobytes()
    assert np.array_equal(labels, y)
    assert np.array_equal(again.weights, rows.weights)
    assert packed(rows, y + 0.5).unpacked()[1].tolist() == (y + 0.5).tolist()
    assert packed(rows._replace(X=rng.normal(size=(100, 3))), y[:100]) is None


def test_fingerprints_tell_any_bit_apart_and_depend_on_the_key(rng):
    X, y = table(rng, 50)
    key = os.urandom(16)
    kinds = [Dense(X, 1.0, 0.0), Dense(X.astype(np.float32), 1.0, 0.0)]
    seen = {fingerprint(key, rows, y) for rows in kinds}
    assert fingerprint(bytes(16), kinds[0], y) not in seen
    for bit in range(64):
        for at in (0, 1, 7, 149):
            Z = X.copy()
            Z.reshape(-1).view(np.uint64)[at] ^= np.uint64(1) << np.uint64(bit)
            seen.add(fingerprint(key, Dense(Z, 1.0, 0.0), y))
    seen.add(fingerprint(key, Dense(X[:, ::-1], 1.0, 0.0), y))
    seen.add(fingerprint(key, Dense(X, 1.0, 0.0, y / 2 + 0.5), y))
    seen.add(fingerprint(key, kinds[0], -y))
    assert len(seen) == 2 + 4 * 64 + 3


def test_questions_and_parts_show_nothing_of_what_they_hold(rng):
    X, y = table(rng, 20)
    opened = OpenedParts(Parts.of((X, y)), LOGISTIC, 3)
    question = engines.Question("sweep", (protocol.Slopes(LOGISTIC.loss, np.array([1.25, 0.0, 0.0, 0.0])), False))
    assert "1.25" not in repr(question) + repr(opened.piece(0))


# Progress ---------------------------------------------------------------------------------------------------------


def test_progress_is_for_terminals_and_for_passes_of_more_than_two_seconds(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    for terminal, seconds, shown in ((False, 9.0, False), (True, 1.0, False), (True, 9.0, True)):
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, width=100)
        now[0] = 0.0
        with progress.passing(1000, console) as done:
            done(100)
            now[0] = seconds
            done(400)
        assert ("reading 1,000 rows" in out.getvalue()) == shown
        assert "pass" not in out.getvalue()


def test_memory_and_scratch_are_settings():
    with dc.context(memory="1.5 MB", scratch="/somewhere"):
        assert settings().memory == "1.5 MB"
    for bad in ({"memory": -1}, {"memory": "much"}, {"memory": True}, {"scratch": 3}):
        with pytest.raises(InputError, match=r"memory must be a number|scratch must be a folder"), dc.context(**bad):
            pass
