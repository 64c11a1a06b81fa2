import math

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import BudgetError, InputError, RepeatedReleaseWarning, RowError
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


def test_totals_are_stated_at_the_delta_that_was_named(small_plan, small):
    small_plan.run(*small, dataset="at a delta")
    claim = small_plan.claim
    for delta in (1e-6, 1e-10):
        text = str(dc.account("at a delta", delta=delta))
        assert f"({claim.epsilon(delta):.3g}, {delta:g})-DP in total" in text
    assert "1e-06" in str(dc.account("at a delta"))
    assert "(inf, 0)-DP in total" in str(dc.account("at a delta", delta=0.0))  # no Gaussian noise keeps delta 0
    for wrong in (-1e-6, 1.0, math.nan, "1e-6", True, None):
        with pytest.raises(InputError, match="delta"):
            dc.account("at a delta", delta=wrong)


def test_the_account_of_runs_without_a_name_is_not_taken_for_a_total_of_the_process(small_plan, small):
    small_plan.run(*small, dataset="a name of its own")
    assert "a name of its own" in dc.account().others
    assert "not in it: releases about " in str(dc.account())
    assert "not in it" not in str(dc.account("a name of its own"))


def test_bad_form_is_not_charged_and_draws_nothing(small_plan, small, monkeypatch):
    X, y = small
    drawn = []
    monkeypatch.setattr("dpconvex.plan.run.Source", lambda seed: drawn.append(seed))
    for bad in ((X[:-1], y), (X, y[:-1]), (X.astype(str), y)):
        with pytest.raises(InputError):
            small_plan.run(*bad, dataset="form")
    assert dc.account("form").claims == ()
    assert drawn == []


def test_rows_that_are_refused_are_charged_like_any_others(small_plan, small):
    X, y = small
    small_plan.run(X, y, dataset="spoilt")
    for wrong in (np.nan, np.inf, -np.inf):
        spoilt = X.copy()
        spoilt[-1, -1] = wrong
        with pytest.warns(RepeatedReleaseWarning), pytest.raises(RowError, match="not finite"):
            small_plan.run(spoilt, y, dataset="spoilt")
        with pytest.raises(RowError, match="not finite"):
            small_plan.run(spoilt, y, dataset="spoilt", seed=1)
    account = dc.account("spoilt")
    assert len(account.claims) == 4
    assert account.seeded == 3
    assert len({r.name for r in account.total().releases}) == 4 * len(small_plan.releases)


def test_a_failed_run_stays_charged(small_plan, small, monkeypatch):
    def broken(self, plan, rows, y, port):
        raise RuntimeError("broken")

    monkeypatch.setattr(dc.algorithms.PhasedSGD, "execute", broken)
    with pytest.raises(RuntimeError):
        small_plan.run(*small, dataset="failed")
    assert len(dc.account("failed").claims) == 1


@pytest.mark.parametrize("name", ["", 3])
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


def by_person(relation="replace_one", name="NoisyGD"):
    options = {"steps": 3, "per_person": True}
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
    algorithm = getattr(dc.algorithms, name)(**options)
    return algorithm.plan(problem, n=60, d=3, budget=dc.Budget(1.0, 1e-6, relation))


def test_runs_about_all_rows_of_a_person_add_up_for_people(small):
    plan = by_person()
    for _ in range(2):
        plan.run(*small, groups=np.arange(60) % 9, dataset="all rows of people")
    total = dc.account("all rows of people").total()
    assert total.unit == "person"
    assert total.profile.mu == pytest.approx(2**0.5 * plan.claim.profile.mu, rel=1e-9)
    assert "for all the rows of one person" in str(dc.account("all rows of people"))


@pytest.mark.parametrize("name", ["NoisyGD", "PoissonSGD"])
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("k", [1, 3])
def test_with_runs_about_rows_the_total_is_about_rows(name, relation, k, small, small_plan):
    """Masking some rows of a person is two steps of masking a person, so the claim about people counts twice."""
    dataset = f"people and rows {name} {relation} {k}"
    rows = protect_people(
        lambda b: small_plan.algorithm.plan(small_plan.problem, n=60, d=3, budget=b), dc.Budget(1.0, 1e-6, relation), k
    )
    people = by_person(relation, name)
    rows.run(*small, dataset=dataset)
    people.run(*small, groups=np.arange(60) % 9, dataset=dataset)
    total = dc.account(dataset).total()
    assert total.unit == k
    steps = 1 if relation == "replace_one" else 2
    if name == "NoisyGD":
        assert total.profile.mu == pytest.approx(math.hypot(rows.claim.profile.mu, steps * people.claim.profile.mu))
    else:
        assert total.epsilon(1e-6) > rows.claim.epsilon(1e-6)


def test_a_limit_is_about_people_or_about_rows(small, small_plan):
    dc.limit("one kind", dc.Budget(50.0, 1e-6))
    small_plan.run(*small, dataset="one kind")
    with pytest.raises(BudgetError, match="people"):
        by_person().run(*small, groups=np.arange(60) % 9, dataset="one kind")
    assert len(dc.account("one kind").claims) == 1
    dc.limit("one kind", None)
