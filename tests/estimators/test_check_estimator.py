"""scikit-learn's own checks over 50 seeds of the noise.

The rule, fixed beforehand: checks of form pass for every seed, checks of a score for at least 49 of 50. The checks set
`random_state` themselves, so the seed is moved underneath them.
"""

from collections import Counter

import pytest
from sklearn.utils.estimator_checks import check_estimator

import dpconvex as dc
from dpconvex.estimators import logistic

SEEDS = 50
SCORE_CHECKS = {"check_classifiers_train"}


@pytest.mark.filterwarnings("ignore")
def test_check_estimator_over_fifty_seeds(monkeypatch):
    plain, runs, failures, last = logistic.seed_from, Counter(), Counter(), {}
    for shift in range(SEEDS):
        monkeypatch.setattr(logistic, "seed_from", lambda state, s=shift: None if state is None else plain(state) + s)
        seen = Counter()
        for result in check_estimator(dc.PrivateLogisticRegression(), on_fail=None, on_skip=None):
            name = result["check_name"], seen[result["check_name"]]
            seen[result["check_name"]] += 1
            runs[name] += 1
            if result["status"] == "failed":
                failures[name] += 1
                last[name] = result["exception"]
            # scikit-learn skips what its own environment lacks; nothing else may be skipped or expected to fail.
            assert result["status"] in ("passed", "failed") or name[0] == "check_array_api_input", name
    assert len(runs) > 45
    assert set(runs.values()) == {SEEDS}
    for name, count in failures.items():
        assert name[0] in SCORE_CHECKS, (name, last[name])
        assert count <= 1, (name, count)
