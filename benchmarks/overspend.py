"""Ways to spend more than a budget, under a ledger: `python benchmarks/overspend.py` prints what became of each.

Budget epsilon 1, fits of epsilon 1: after the first, every other has to be refused.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import dpconvex as dc
from dpconvex.errors import BudgetError
from dpconvex.ledger.checking import verify_ledger

warnings.simplefilter("ignore")
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, size=(1000, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")
NAMES = ("Default", "default ", " DEFAULT", "default\u200c", "ｄｅｆａｕｌｔ")


def model(**options: Any) -> dc.PrivateLogisticRegression:
    """The estimator of a user who changes nothing else in a script."""
    return dc.PrivateLogisticRegression(epsilon=1.0, feature_bound=1.0, classes=["no", "yes"], **options)


def fits(job: Callable[[], Any]) -> bool:
    """Whether something was released."""
    try:
        job()
    except BudgetError:
        return False
    return True


def fit(_: int = 0) -> bool:
    """One more fit, wherever this runs."""
    warnings.simplefilter("ignore")
    return fits(lambda: model().fit(X, Y))


def in_threads() -> list[bool]:
    """Sixty threads at once."""
    done: list[bool] = []
    threads = [threading.Thread(target=lambda: done.append(fit())) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def in_another_process() -> bool:
    """The script, started again."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import overspend; print(overspend.fit())"
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip() == "True"


def scored(job: Callable[[], Any]) -> list[bool]:
    """Which fits of a search or a cross-validation were made: those that have a score."""
    try:
        return [bool(np.isfinite(score)) for score in np.ravel(job())]
    except (BudgetError, ValueError):  # all fits failed
        return [False]


def searched(n_jobs: int) -> np.ndarray:
    """Scores of a grid search."""
    grid = GridSearchCV(model(), {"epsilon": [0.5, 1.0, 2.0]}, cv=5, n_jobs=n_jobs, refit=False, error_score=np.nan)
    return np.asarray(grid.fit(X, Y).cv_results_["mean_test_score"])


def main() -> int:
    """Spend the budget, and try to spend more."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPCONVEX_LEDGER"] = f"{folder}/budget.db"
        ledger = dc.Ledger.open(f"{folder}/budget.db")
        ledger.declare("default", budget=dc.Budget(1.0, 1e-6))
        schema = dc.Schema({"a": dc.schema.Number(-1, 1)})
        pipeline = make_pipeline(dc.PrivatePreprocessor(schema), model())
        tried: dict[str, Callable[[], Any]] = {
            "the first fit": fit,
            "a second fit": fit,
            "a restart": in_another_process,
            **{
                f"16 fits in joblib workers ({backend})": lambda backend=backend: Parallel(n_jobs=2, backend=backend)(
                    delayed(fit)(i) for i in range(16)
                )
                for backend in ("loky", "multiprocessing", "threading")
            },
            "GridSearchCV(n_jobs=1)": lambda: scored(lambda: searched(1)),
            "GridSearchCV(n_jobs=2)": lambda: scored(lambda: searched(2)),
            "cross_val_score": lambda: scored(lambda: cross_val_score(model(), X, Y, error_score=np.nan)),
            "BaggingClassifier": lambda: fits(
                lambda: BaggingClassifier(model().set_params(classes=[0, 1]), 3).fit(X, Y)
            ),
            "a Pipeline": lambda: fits(lambda: pipeline.fit({"a": X[:, 0]}, Y)),
            **{f"under {name!r}": lambda name=name: fits(lambda: model(dataset=name).fit(X, Y)) for name in NAMES},
            "under a name that is not declared": lambda: fits(lambda: model(dataset="default2").fit(X, Y)),
            "5 fits with a seed": lambda: [fits(lambda i=i: model(random_state=i).fit(X, Y)) for i in range(5)],
            "60 threads": in_threads,
        }
        released = 0
        for what, job in tried.items():
            made = int(np.sum(job()))
            released += made
            print(f"{what}: {made} released")
        commits = sum(entry.body["kind"] == "commit" for entry in ledger.entries())
        verify_ledger(ledger)
        print(f"{released} released in all, {commits} in the ledger; spent {ledger.spent('default'):.4g} of 1")
        return 0 if released == commits == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
