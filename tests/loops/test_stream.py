import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from threading import active_count

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.errors import RowError
from dpconvex.loops import stream
from dpconvex.loops.rows import CSR, Dense
from dpconvex.loops.stream import IN_PLACE, ROOM, Chain
from dpconvex.noise.rounded import Variates

LOSSES = [
    dc.losses.Logistic(1.0),
    dc.losses.SmoothedHinge(0.5),
    dc.losses.Squared(1.0),
    dc.losses.Huber(0.5, 1.0),
    dc.losses.Linear(1.0),
]
DOMAINS = [dc.domains.Everywhere(), dc.domains.L2Ball(0.3), dc.domains.Box(-0.1, 0.2)]
# Each is compiled anew, which takes seconds. The slice has all losses and all domains in both types.
COMPILED = [
    pytest.param(
        loss, domain, dtype, id=f"{loss}-{domain}-{dtype.__name__}",
        marks=[] if (i + j) % 3 == (0 if dtype is np.float32 else 1) else [pytest.mark.heavy],
    )
    for i, loss in enumerate(LOSSES)
    for j, domain in enumerate(DOMAINS)
    for dtype in (np.float64, np.float32)
]  # fmt: skip


def reference(X, y, loss, domain, steps, weights, l2, radius, constant):
    """The same pass in plain Python, with the methods of the loss and the domain."""
    w = np.zeros(X.shape[1] + (constant > 0))
    average = np.zeros_like(w)
    for x, label, eta, theta in zip(X.astype(float), y, steps, weights, strict=True):
        x = x * min(1.0, radius / max(np.linalg.norm(x), 1e-300))
        x = np.append(x, constant) if constant else x
        w = domain.project(w - eta * (loss.slope(float(x @ w), label) * x + l2 * w))
        average += theta * w
    return w, average


def descend(size, data, stops, steps, tails, l2, order=IN_PLACE):
    """The last point and the average of a pass that is resumed at every stop but the last."""
    v, m, numbers, at = np.zeros(size), np.zeros(size), np.array([1.0, 0.0, 0.0]), 0
    for stop in stops:
        assert not stream.descend(*data, order, steps, tails, l2, v, m, numbers, 50, 0, at, stop)
        at = stop
    return numbers[0] * v, m + numbers[1] * v


def containers(X, radius, constant):
    thin = sparse.csr_array(X)
    return Dense(X, radius, constant), CSR(thin.data, thin.indices, thin.indptr, X.shape[1], radius, constant)


@pytest.mark.parametrize(("loss", "domain", "dtype"), COMPILED)
def test_a_pass_equals_plain_python(loss, domain, dtype, rng):
    n, d = 150, 6
    for l2 in (0.0, 0.4, 2.0, 3.0):  # a step of 0.5 shrinks the point to nothing at 2 and throws it across at 3
        for constant in (0.0, 0.7):
            X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)).astype(dtype)
            y = rng.choice([-1.0, 1.0], n)
            steps = rng.random(n) * 0.5
            steps[3] = 0.5
            weights = rng.random(n)
            weights /= weights.sum()
            tails = np.cumsum(weights[::-1])[::-1].copy()
            w, average = reference(X, y, loss, domain, steps, weights, l2, 1.0, constant)
            for rows in containers(X, 1.0, constant):
                found = descend(len(w), (rows, y, loss, domain), (61, 61, n), steps, tails, l2)
                assert np.allclose(found[0], w, atol=1e-11)
                assert np.allclose(found[1], average, atol=1e-11)


def test_long_passes_stay_accurate_when_the_ball_is_always_hit(rng):
    n, d = 20_000, 4
    X, y = rng.normal(size=(n, d)), np.ones(n)
    X[:, 0] += 2.0
    steps, weights = np.full(n, 0.5), np.full(n, 1.0 / n)
    domain = dc.domains.L2Ball(0.5)
    w, average = reference(X, y, LOSSES[0], domain, steps, weights, 0.01, 1.0, 0.0)
    tails = np.cumsum(weights[::-1])[::-1].copy()
    for rows in containers(X, 1.0, 0.0):
        found = descend(d, (rows, y, LOSSES[0], domain), (n,), steps, tails, 0.01)
        assert np.allclose(found[0], w, atol=1e-10)
        assert np.allclose(found[1], average, atol=1e-10)
        assert np.linalg.norm(found[0]) <= 0.5 * (1 + 1e-12)


def plain_batches(X, y, loss, domain, cuts, steps, l2, radius, constant, order, noise):
    """Projected SGD over batches in plain Python: every point, and where the last step leads before its projection."""
    X = X.astype(float)
    X = X * np.minimum(1.0, radius / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300))
    X = np.hstack([X, np.full((len(X), 1), constant)]) if constant else X
    w, points, v = np.zeros(X.shape[1]), [], None
    for t, eta in enumerate(steps):
        j = t % (len(cuts) - 1)
        rows = order[cuts[j] : cuts[j + 1]]
        g = sum(loss.slope(float(X[i] @ w), y[i]) * X[i] for i in rows) / len(rows)
        v = w - eta * (g + l2 * w)
        w = domain.project(v + noise[t])
        points.append(w)
    return points, v


@pytest.mark.parametrize(("loss", "domain", "dtype"), COMPILED)
def test_batches_equal_plain_python(loss, domain, dtype, rng):
    """Batches of 1 to 9 rows (four at a time, and what is left over), in order and shuffled, with and without noise."""
    cuts = np.cumsum([0, 1, 2, 3, 4, 5, 8, 9])
    n, d, batches = int(cuts[-1]), 6, len(cuts) - 1
    for l2, constant, shuffled in ((0.0, 0.0, False), (0.4, 0.7, True), (3.0, 0.0, True)):
        X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)).astype(dtype)
        X[3] *= 40
        y = rng.choice([-1.0, 1.0], n)
        order = rng.permutation(n) if shuffled else np.arange(n)
        given = order if shuffled else np.empty(0, dtype=np.int64)
        steps = rng.random(2 * batches) * 0.5
        size = d + (constant > 0)
        noise = rng.normal(size=(2 * batches, size)) * 0.01
        shape = rng.random(2 * batches)
        weights = rng.random(batches)
        walked = plain_batches(X, y, loss, domain, cuts, steps, l2, 1.0, constant, order, shape[:, None] * noise)
        still = plain_batches(X, y, loss, domain, cuts, steps[:batches], l2, 1.0, constant, order, 0 * noise)
        for rows in containers(X, 1.0, constant):
            data = rows, y, loss, domain
            chain = Chain(size, cuts, steps, shape, 1.0, l2, given)
            chain.advance(*data, Variates.given(noise[:3]))
            chain.advance(*data, Variates.given(noise[3:]))
            assert np.allclose(chain.step(*data), walked[1], atol=1e-11)
            with pytest.raises(ValueError, match="ended"):
                chain.step(*data)
            stepwise = Chain(size, cuts, steps, shape, 1.0, l2, given)
            for t in range(2 * batches):
                stepwise.place(domain.project(stepwise.step(*data) + shape[t] * noise[t]))
            assert np.allclose(stepwise.point, walked[0][-1], atol=1e-11)
            w, average, g, block = np.zeros((4, size))
            room = np.empty((2, ROOM))
            assert not stream.descend_batches(
                *data, given, cuts, steps[:batches], weights, l2, w, average, g, block, room
            )
            assert np.allclose(w, still[0][-1], atol=1e-11)
            assert np.allclose(average, weights @ np.array(still[0]), atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shuffled", [False, True])
def test_threads_take_the_steps_of_one(dtype, shuffled, rng, monkeypatch):
    """To the last bit, whoever adds up which part of a batch; rows long enough to be read ahead."""
    monkeypatch.setattr(stream, "_WORTH", 0)
    cuts = np.cumsum([0, 600, 513, 700])
    n, d, steps = int(cuts[-1]), 80, np.full(7, 0.5)
    X, y = rng.normal(size=(n, d)).astype(dtype), rng.choice([-1.0, 1.0], n)
    order = rng.permutation(n) if shuffled else np.arange(n)
    noise = rng.normal(size=(7, d + 1)) * 0.01
    walked = plain_batches(X, y, LOSSES[0], DOMAINS[0], cuts, steps, 0.1, 1.0, 0.7, order, noise)[1]
    ends = []
    for threads in (1, 2, 3, 4, 8, 50):
        before = active_count()
        chain = Chain(d + 1, cuts, steps, np.ones(7), 1.0, 0.1, order if shuffled else stream.IN_PLACE, threads)
        data = Dense(X, 1.0, 0.7), y, LOSSES[0], DOMAINS[0]
        chain.advance(*data, Variates.given(noise[:4]))
        chain.advance(*data, Variates.given(noise[4:]))
        ends.append(chain.step(*data))
        assert active_count() == before
    assert np.allclose(ends[0], walked, atol=1e-11)
    assert all((end == ends[0]).all() for end in ends)


def test_a_thread_that_is_late_is_sent_home(rng, monkeypatch):
    monkeypatch.setattr(stream, "_WORTH", 0)
    quick, ended = stream._assist, []

    def slow(*given):
        *data, first, last, counters, member, size = given
        wild = quick(*data, first, first + 2, counters, member, size)
        for t in range(first + 2, first + 14):
            time.sleep(0.03)
            wild += quick(*data, t, t + 1, counters, member, size)
        wild += quick(*data, first + 14, last, counters, member, size)
        ended.append(int(counters[0]))
        return wild

    monkeypatch.setattr(stream, "_assist", slow)
    X, y, noise = rng.normal(size=(512, 40)), rng.choice([-1.0, 1.0], 512), rng.normal(size=(3000, 40)) * 0.01
    ends = []
    for threads in (1, 2):
        chain = Chain(40, np.array([0, 512]), np.full(3001, 0.1), np.ones(3001), 1.0, threads=threads)
        chain.advance(Dense(X, 1.0, 0.0), y, LOSSES[0], DOMAINS[0], Variates.given(noise))
        ends.append(chain.point)
    assert (ends[0] == ends[1]).all()
    assert ended == [-1]  # called off before the end


def test_a_thread_that_dies_between_steps_ends_the_walk(rng, monkeypatch):
    monkeypatch.setattr(stream, "_WORTH", 0)
    sound = stream._assist

    def dying(*given):
        *data, first, _, counters, member, size = given
        sound(*data, first, first + 2, counters, member, size)
        raise MemoryError

    monkeypatch.setattr(stream, "_assist", dying)
    X, y, before = rng.normal(size=(512, 40)), rng.choice([-1.0, 1.0], 512), active_count()
    chain = Chain(40, np.array([0, 512]), np.full(101, 0.1), np.ones(101), 1.0, threads=2)
    with pytest.raises(MemoryError):
        chain.advance(Dense(X, 1.0, 0.0), y, LOSSES[0], DOMAINS[0], Variates.given(np.zeros((100, 40))))
    assert active_count() == before


def test_a_thread_tells_of_wild_rows(rng, monkeypatch):
    monkeypatch.setattr(stream, "_WORTH", 0)
    for wild in (0, 511):  # the leader's part, and the other's
        X = rng.normal(size=(512, 3))
        X[wild, 1] = np.nan
        chain = Chain(3, np.array([0, 512]), np.ones(2), np.ones(2), 1.0, threads=2)
        with pytest.raises(RowError):
            chain.advance(Dense(X, 1.0, 0.0), np.ones(512), LOSSES[0], DOMAINS[0], Variates.given(np.zeros((1, 3))))


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_a_shuffled_pass_is_a_pass_over_shuffled_rows(domain, rng):
    n, d = 50, 4
    X, y, order = rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], n), rng.permutation(n)
    steps, tails = rng.random(n) * 0.5, np.arange(n, 0, -1) / n
    for rows, sorted_rows in zip(containers(X, 1.0, 0.5), containers(X[order], 1.0, 0.5), strict=True):
        a = descend(d + 1, (rows, y, LOSSES[0], domain), (20, n), steps, tails, 0.1, order)
        b = descend(d + 1, (sorted_rows, y[order], LOSSES[0], domain), (n,), steps, tails, 0.1)
        assert np.allclose(a, b, atol=1e-13)


SCRIPT = """
import numpy as np, warnings
warnings.simplefilter("ignore")
import dpconvex as dc
problem = dc.Problem(dc.losses.Logistic(), dc.domains.L2Ball(4.0))
plan = dc.algorithms.PhasedSGD().plan(problem, n=50, d=2, budget=dc.Budget(8.0, 1e-3))
print(dc.__file__)
print(plan.run(np.ones((50, 2)), np.ones(50), seed=1).weights.tolist())
"""


def run_copy(folder, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "PYTEST", "COV"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**clean, "PYTHONPATH": str(folder), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    where, weights = done.stdout.strip().splitlines()
    assert Path(where).is_relative_to(folder)
    return weights


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(Path(dc.__file__).parent, tmp_path / "dpconvex", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_an_edited_loss_runs_as_edited_in_the_next_process(copied):
    before = run_copy(copied)
    assert run_copy(copied) == before
    assert list((copied / "dpconvex" / "loops" / "__pycache__").glob("*.nbc"))
    file = copied / "dpconvex" / "problem" / "losses.py"
    file.write_text(file.read_text().replace("return -y * min(p, self.cap)", "return -0.5 * y * min(p, self.cap)"))
    assert run_copy(copied) != before


def test_it_runs_where_nothing_can_be_written(copied):
    """A file in place of the cache folder and a home that is not a folder: even root cannot write there."""
    before = run_copy(copied)
    cache = copied / "dpconvex" / "loops" / "__pycache__"
    shutil.rmtree(cache)
    cache.write_text("")
    nowhere = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/cache", "PYTHONDONTWRITEBYTECODE": "1"}
    assert run_copy(copied, **nowhere) == before
    assert cache.read_text() == ""
