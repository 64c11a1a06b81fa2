"""Parts read by workers: the same bits, one charge, and nothing to be seen on the way."""

import logging
import os
import pickle
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor

import numpy as np
import pytest
from cryptography.exceptions import InvalidTag

import dpconvex as dc
from dpconvex.data.opened import OpenedParts
from dpconvex.data.parts import Parts
from dpconvex.errors import InputError, PartsError
from dpconvex.sums import protocol, workers
from dpconvex.sums.parts import PartSums
from dpconvex.sums.workers import check_addresses

PROBLEM = dc.Problem(dc.losses.Logistic(), intercept=0.3)
BUDGET = dc.Budget(2.0, 1e-6)


class Travels:
    """An executor that does a task at once, after sending it and its result through pickle."""

    def __init__(self):
        self.sent = []

    def submit(self, function, task):
        self.sent.append(pickle.dumps((function, task)))
        future = Future()
        function, task = pickle.loads(self.sent[-1])
        future.set_result(pickle.loads(pickle.dumps(function(task))))
        return future


@pytest.fixture
def made(rng, tmp_path, monkeypatch):
    monkeypatch.setattr("dpconvex.data.opened.chunk_rows", lambda d: 1024)
    X = rng.normal(size=(6000, 3)) / 2
    y = np.where(X[:, 0] + rng.normal(size=6000) / 2 > 0, 1.0, -1.0)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    return X, y, Parts.arrays(tmp_path / "X.npy", tmp_path / "y.npy", rows=1700)


def plans(n=6000):
    ball = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    for algorithm, problem in (
        (dc.algorithms.NoisyGD(steps=4), PROBLEM),
        (dc.algorithms.ObjectivePerturbation(), PROBLEM),
        (dc.algorithms.PoissonSGD(steps=4), PROBLEM),
        (dc.algorithms.OnlineToBatch(rounds=9), ball),
        (dc.algorithms.PhasedSGD(), ball),
    ):
        yield algorithm.plan(problem, n=n, d=3, budget=BUDGET)


def test_workers_release_the_bits_and_the_receipt_of_this_process(made, tmp_path):
    X, y, parts = made
    memory = Parts.arrays(X, y, rows=1700)
    for plan in plans():
        here = plan.run(memory, seed=4, dataset="workers")
        for executor in (Travels(), ThreadPoolExecutor(3)):
            with dc.context(executor=executor, memory=40_000, scratch=tmp_path):
                there = plan.run(parts, seed=4, dataset="workers")
            assert np.array_equal(here.weights, there.weights)
            assert here.receipt.data == there.receipt.data


def test_answers_are_encrypted_for_who_asked_and_tasks_show_nothing(made):
    _X, _y, parts = made
    executor = Travels()
    with dc.context(executor=executor):
        sums = PartSums(OpenedParts(parts, PROBLEM, 3))
        total = sums.sweep(protocol.Ones())
    _, task = pickle.loads(executor.sent[0])
    assert repr(task) == "<Task>"
    sealed = workers.work(task)
    pair, _ = workers.opened(sealed, task.seal, task.number)
    assert pair[0].tobytes() not in sealed
    assert not np.array_equal(total, pair[0])
    for broken in (sealed[:-1] + b"x", sealed[1:]):
        with pytest.raises(InvalidTag):
            workers.opened(broken, task.seal, task.number)
    with pytest.raises(InvalidTag):
        workers.opened(sealed, task.seal, task.number + 1)  # the answer of another part


def test_what_goes_wrong_in_a_worker_names_the_part_and_no_value(made, tmp_path, caplog):
    _X, y, parts = made
    plan = next(plans())
    with caplog.at_level(logging.DEBUG), dc.context(executor=Travels(), memory=0):
        bad = y.copy()
        bad[4000] = 123.456
        np.save(tmp_path / "y.npy", bad)
        before = len(dc.account("bad workers").claims)
        with pytest.raises(PartsError, match="rows 3400 to 5099: y must hold the labels") as caught:
            plan.run(parts, dataset="bad workers")
        assert len(dc.account("bad workers").claims) == before + 1
        assert "123" not in str(caught.value)
        os.remove(tmp_path / "X.npy")
        with pytest.raises(PartsError, match="the file is missing"):
            plan.run(parts, dataset="bad workers")
    assert "123.4" not in caplog.text


def test_a_part_that_changes_is_seen_across_workers(made, tmp_path):
    _X, _y, parts = made
    with dc.context(executor=Travels(), memory=0):
        sums = PartSums(OpenedParts(parts, PROBLEM, 3))
    sums.sweep(protocol.Ones())
    np.load(tmp_path / "X.npy", mmap_mode="r+")[2000, 1] *= -1.0
    with pytest.raises(PartsError, match="rows 1700 to 3399: the rows are not those"):
        sums.sweep(protocol.Ones())


def test_a_worker_of_another_version_is_refused(made, monkeypatch):
    _X, _y, parts = made
    executor = Travels()
    with dc.context(executor=executor):
        sums = PartSums(OpenedParts(parts, PROBLEM, 3))
        ours = workers.kind()
        real = workers.work

        def elsewhere(task):
            monkeypatch.setattr(workers, "kind", lambda: (*ours[:1], "python 2.7", *ours[2:]))
            try:
                return real(task)
            finally:
                monkeypatch.setattr(workers, "kind", lambda: ours)

        monkeypatch.setattr(executor, "submit", lambda function, task: done(elsewhere(task)))
        with pytest.raises(PartsError, match=r"a worker differs .*: python 3\.\d+ and python 2\.7"):
            sums.sweep(protocol.Ones())


def done(result=None, error=None):
    future = Future()
    future.set_exception(error) if error else future.set_result(result)
    return future


def test_executors_that_break_end_the_run(made):
    _X, _y, parts = made

    class Breaks(Travels):
        def submit(self, function, task):
            return done(error=BrokenExecutor("secret 3.14"))

    class Refuses(Travels):
        def submit(self, function, task):
            return done(error=TypeError("cannot pickle 3.14"))

    for executor, words in ((Breaks(), "worker process died"), (Refuses(), r"could not be sent .*TypeError")):
        with dc.context(executor=executor), pytest.raises(PartsError, match=words) as caught:
            next(plans()).run(parts, dataset="broken")
        assert "3.14" not in str(caught.value)
    with pytest.raises(InputError, match="executor must be"), dc.context(executor="four"):
        pass


def test_workers_keep_rows_of_the_last_runs_only(made):
    _X, _y, parts = made
    with dc.context(executor=Travels()):
        for _ in range(4):
            next(plans()).run(parts, seed=1)
    assert len(workers._STORES) == 2


@pytest.mark.parametrize("address", ["tcp://10.1.2.3:8786", "ucx://[2001:db8::1]:1", "tcp://data.example.org:1"])
def test_addresses_elsewhere_need_tls(address):
    with pytest.raises(InputError, match="TLS"):
        check_addresses(["tcp://127.0.0.1:1", address])
    check_addresses([address.replace(address.partition(":")[0], "tls"), "tcp://[::1]:2", "tcp://localhost:3"])


def test_a_dask_client_in_this_process_reads_parts(made):
    import distributed

    _X, _y, parts = made
    plan = next(plans())
    here = plan.run(parts, seed=4, dataset="workers")
    options = {"processes": False, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as client,
        dc.context(executor=client),
    ):
        there = plan.run(parts, seed=4, dataset="workers")
    assert np.array_equal(here.weights, there.weights)
    assert here.receipt.data == there.receipt.data
