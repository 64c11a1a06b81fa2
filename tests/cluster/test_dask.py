"""A Dask cluster of real processes: the bits of one process, also where workers are killed."""

import os
import signal
import threading
import time

import distributed
import numpy as np
import pytest

import dpconvex as dc
from dpconvex.data.parts import Parts
from dpconvex.errors import InputError, PartsError

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]

PROBLEM = dc.Problem(dc.losses.Logistic(), intercept=0.3)
N, D = 200_000, 20


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("rows"), np.random.default_rng(3)
    X = rng.normal(size=(N, D)) / 5
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", np.where(X[:, 0] + rng.normal(size=N) / 5 > 0, 1.0, -1.0))
    return Parts.arrays(folder / "X.npy", folder / "y.npy", rows=15_000)


def planned(algorithm):
    return algorithm.plan(PROBLEM, n=N, d=D, budget=dc.Budget(1.0, 1e-7))


def cluster(workers, **options):
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=":0", memory_limit=0, **options
    )


@pytest.mark.parametrize("algorithm", [dc.algorithms.ObjectivePerturbation(), dc.algorithms.NoisyGD(steps=6)], ids=str)
def test_one_and_three_workers_release_the_bits_of_one_process(parts, algorithm):
    plan = planned(algorithm)
    here = plan.run(parts, seed=1, dataset="cluster")
    for count in (1, 3):
        with cluster(count) as workers, distributed.Client(workers) as client, dc.context(executor=client):
            there = plan.run(parts, seed=1, dataset="cluster")
        assert np.array_equal(here.weights, there.weights)
        assert here.receipt.data == there.receipt.data
        assert dc.verify(there.receipt)


def test_a_worker_killed_every_five_seconds_changes_nothing(parts):
    plan = planned(dc.algorithms.NoisyGD(steps=12))
    here = plan.run(parts, seed=1, dataset="killed")
    killed, over = [], threading.Event()

    def kill(workers):
        while not over.wait(5.0):
            pid = next(iter(workers.workers.values())).pid
            if pid is not None:  # not while it starts again
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

    with cluster(2) as workers, distributed.Client(workers) as client:
        thread = threading.Thread(target=kill, args=(workers,))
        thread.start()
        try:
            before, began = len(dc.account("killed").claims), time.monotonic()
            with dc.context(executor=client):
                while time.monotonic() - began < 12.0:
                    there = plan.run(parts, seed=1, dataset="killed")
                plan.run(parts, dataset="killed")
        finally:
            over.set()
            thread.join()
    assert len(killed) >= 2
    assert np.array_equal(here.weights, there.weights)
    assert here.receipt.data["claim"] == there.receipt.data["claim"]
    assert len(dc.account("killed").claims) == before + 1


def test_a_scheduler_that_others_can_reach_needs_tls(parts):
    with cluster(1, host="0.0.0.0", protocol="tcp") as workers:
        address = workers.scheduler_address
        if not address.startswith("tcp://127."):
            with distributed.Client(address) as client, dc.context(executor=client), pytest.raises(InputError):
                planned(dc.algorithms.MeanDirection()).run(parts, seed=1)


def test_tls_serves(parts, tmp_path):
    security = distributed.Security.temporary()
    plan = planned(dc.algorithms.MeanDirection())
    here = plan.run(parts, seed=1)
    with cluster(2, security=security) as workers:
        assert workers.scheduler_address.startswith("tls://")
        with distributed.Client(workers, security=security) as client, dc.context(executor=client):
            assert np.array_equal(plan.run(parts, seed=1).weights, here.weights)


def test_errors_of_workers_hold_no_value_in_any_log(parts, tmp_path, capfd):
    X, y = np.load(parts.parts[0].source.paths[0]), np.load(parts.parts[0].source.paths[1])
    y[100_000] = 123.456
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "X.npy", X)
    bad = Parts.arrays(tmp_path / "X.npy", tmp_path / "y.npy", rows=15_000)
    with cluster(2) as workers, distributed.Client(workers) as client, dc.context(executor=client):
        with pytest.raises(PartsError, match="rows 90000 to 104999: y must hold"):
            planned(dc.algorithms.NoisyGD(steps=3)).run(bad, seed=1)
        logs = str(client.get_worker_logs()) + str(client.get_scheduler_logs())
    seen = capfd.readouterr()
    assert "123.4" not in logs + seen.out + seen.err
