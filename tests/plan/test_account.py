import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import BudgetError, InputError, RepeatedReleaseWarning
from dpconvex.plan.people import protect_people


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


def test_the_second_run_is_announced_where_the_caller_stands(small_plan, small):
    small_plan.run(*small, dataset="announced")
    with pytest.warns(RepeatedReleaseWarning, match=r"release 2 about the data set 'announced'") as told:
        small_plan.run(*small, dataset="announced")
    assert told[0].filename == __file__


def test_a_limit_is_checked_before_the_run(small_plan, small):
    dc.limit("tight", dc.Budget(1.3, 1e-6))
    small_plan.run(*small, dataset="tight")
    with pytest.raises(BudgetError, match="beyond its limit"):
        small_plan.run(*small, dataset="tight")
    assert len(dc.account("tight").claims) == 1
    dc.limit("tight", None)
    small_plan.run(*small, dataset="tight")
    assert len(dc.account("tight").claims) == 2


def test_a_limit_holds_for_its_relation_only(small_plan, small):
    dc.limit("other", dc.Budget(9.0, 1e-6, relation="zero_out"))
    with pytest.raises(BudgetError, match="relation"):
        small_plan.run(*small, dataset="other")
    with pytest.raises(InputError, match="Budget"):
        dc.limit("other", 3.0)


def test_runs_about_people_and_about_records_add_up_for_people(small_plan, small):
    people = protect_people(
        lambda b: small_plan.algorithm.plan(small_plan.problem, n=60, d=3, budget=b), small_plan.budget, 3
    )
    for plan in (small_plan, people):
        plan.run(*small, dataset="people")
    total = dc.account("people").total()
    assert total.unit == 3
    assert total.profile.mu == pytest.approx((9 + 1) ** 0.5 * small_plan.budget.mu, rel=1e-6)
    assert "2 private releases" in str(dc.account("people"))
