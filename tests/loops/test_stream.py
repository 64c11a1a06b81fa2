import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.loops.rows import CSR, Dense
from dpconvex.loops.stream import Pass

LOSSES = [
    dc.losses.Logistic(1.0),
    dc.losses.SmoothedHinge(0.5),
    dc.losses.Squared(1.0),
    dc.losses.Huber(0.5, 1.0),
    dc.losses.Linear(1.0),
]
DOMAINS = [dc.domains.Everywhere(), dc.domains.L2Ball(0.3), dc.domains.Box(-0.1, 0.2)]


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


def containers(X, radius, constant):
    thin = sparse.csr_array(X)
    return Dense(X, radius, constant), CSR(thin.data, thin.indices, thin.indptr, X.shape[1], radius, constant)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
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
                run = Pass(np.zeros(len(w)), steps, tails, l2).advance(rows, y, loss, domain, 61)
                run.advance(rows, y, loss, domain, 61).advance(rows, y, loss, domain, n)
                assert np.allclose(run.point, w, atol=1e-11)
                assert np.allclose(run.average, average, atol=1e-11)


def test_long_passes_stay_accurate_when_the_ball_is_always_hit(rng):
    n, d = 20_000, 4
    X, y = rng.normal(size=(n, d)), np.ones(n)
    X[:, 0] += 2.0
    steps, weights = np.full(n, 0.5), np.full(n, 1.0 / n)
    domain = dc.domains.L2Ball(0.5)
    w, average = reference(X, y, LOSSES[0], domain, steps, weights, 0.01, 1.0, 0.0)
    tails = np.cumsum(weights[::-1])[::-1].copy()
    for rows in containers(X, 1.0, 0.0):
        run = Pass(np.zeros(d), steps, tails, 0.01).advance(rows, y, LOSSES[0], domain, n)
        assert np.allclose(run.point, w, atol=1e-10)
        assert np.allclose(run.average, average, atol=1e-10)
        assert np.linalg.norm(run.point) <= 0.5 * (1 + 1e-12)


def test_a_pass_cannot_leave_its_rows(rng):
    rows = Dense(rng.normal(size=(5, 2)), 1.0, 0.0)
    run = Pass(np.zeros(2), np.ones(3), np.ones(3), origin=1)
    for stop in (0, 5):
        with pytest.raises(ValueError, match="outside"):
            run.advance(rows, np.ones(5), LOSSES[0], DOMAINS[0], stop)


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
