import shutil
from importlib.util import find_spec

import browser
import numpy as np
import pytest
import servers
from cli_helpers import Clinic
from hypothesis import settings

import dpconvex as dc


def cuda():
    """Whether a CUDA device is there, for PyTorch."""
    if not find_spec("torch"):
        return False
    import torch

    return torch.cuda.is_available()


# What `make test` does not install is tested where it is there, by targets of their own; the summary says what was not.
NEEDED = {
    "problem/test_torch.py": [] if find_spec("torch") else ["the extra torch"],
    "problem/test_jax.py": [] if find_spec("jax") else ["the extra jax"],
    "gpu/test_torch.py": [] if find_spec("torch") else ["the extra gpu"],
    "gpu/test_device.py": [] if cuda() else ["the extra gpu, and a CUDA device"],
    "cluster/test_spark.py": [] if find_spec("pyspark") and shutil.which("java") else ["the extra spark, and Java"],
    "ledger/test_postgres.py": servers.missing(),
    "studio/test_browser.py": browser.missing(),
    "docs/test_site.py": [] if browser.LIGHTHOUSE.exists() and shutil.which("chromium") else ["lighthouse (npm)"],
}
collect_ignore = [path for path, wanted in NEEDED.items() if wanted]

settings.register_profile("fixed", derandomize=True, deadline=None, print_blob=False)
settings.load_profile("fixed")


def pytest_terminal_summary(terminalreporter):
    for path, wanted in NEEDED.items():
        if wanted:
            terminalreporter.write_line(f"tests/{path} was not collected; missing {'; '.join(wanted)}")


@pytest.fixture
def rng():
    return np.random.default_rng(20240501)


@pytest.fixture
def ball_problem():
    return dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0), feature_bound=1.0)


@pytest.fixture
def small(rng):
    """A data set of 60 rows of 3 features within the unit ball, labels -1 and +1."""
    X = rng.normal(size=(60, 3))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(rng.random(60) < 0.5, 1.0, -1.0)


@pytest.fixture
def small_plan(ball_problem):
    return dc.algorithms.PhasedSGD().plan(ball_problem, n=60, d=3, budget=dc.Budget(1.0, 1e-6))


@pytest.fixture
def clinic(tmp_path):
    return Clinic(tmp_path)
