import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import InputError


def test_runs_on_one_data_set_add_up_in_squares(small_plan, small):
    mu = small_plan.claim.profile.mu
    assert dc.account("adds up").total() is None
    for _ in range(3):
        small_plan.run(*small, dataset="adds up")
    account = dc.account("adds up")
    assert len(account.claims) == 3
    assert account.total().profile.mu == pytest.approx(mu * 3**0.5, rel=1e-9)
    assert [r.name for r in account.total().releases][:3] == ["run 1/phase 1", "run 1/phase 2", "run 2/phase 1"]
    assert account.total("zero_out") is None


def test_bad_form_is_not_charged_and_draws_nothing(small_plan, small, monkeypatch):
    X, y = small
    drawn = []
    monkeypatch.setattr("dpconvex.plan.plan.Source", lambda seed: drawn.append(seed))
    for bad in ((X[:-1], y), (X, y[:-1]), (np.where(X[0, 0] == X, np.nan, X), y), (X, np.zeros(60))):
        with pytest.raises(InputError):
            small_plan.run(*bad, dataset="form")
    assert dc.account("form").claims == ()
    assert drawn == []


def test_a_failed_run_stays_charged(small_plan, small, monkeypatch):
    def broken(self, plan, rows, y, port):
        raise RuntimeError("broken")

    monkeypatch.setattr(dc.algorithms.PhasedSGD, "execute", broken)
    with pytest.raises(RuntimeError):
        small_plan.run(*small, dataset="failed")
    assert len(dc.account("failed").claims) == 1


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_data_set_has_a_name(name, small_plan, small):
    with pytest.raises(InputError, match="dataset"):
        small_plan.run(*small, dataset=name)


def test_totals_name_a_relation_that_exists():
    with pytest.raises(InputError, match="relation"):
        dc.account("nobody").total("swap")
