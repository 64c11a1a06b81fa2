import math

import pytest

import dpconvex as dc
from dpconvex.errors import InputError
from dpconvex.plan.people import protect_people
from dpconvex.privacy.profiles import GDP


def planner(loss, n=5000, d=4):
    return lambda budget: dc.choose(dc.Problem(loss), n=n, d=d, budget=budget)


@pytest.mark.parametrize("loss", [dc.losses.Logistic(), dc.losses.Softmax(3)])
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("k", [2, 3, 10])
def test_the_budget_holds_for_a_person_and_is_used_up(loss, relation, k):
    budget = dc.Budget(1.0, 1e-6, relation)
    plan = protect_people(planner(loss), budget, k)
    assert plan.claim.unit == k
    assert 0.999 < plan.claim.epsilon(1e-6) <= 1.0
    single = planner(loss)(budget)
    # k records move a sum k times as far, so no sound accounting could do with less.
    assert k * 0.999 < plan.releases[0].scale / single.releases[0].scale < k * 1.01


def test_one_row_a_person_changes_nothing():
    make, budget = planner(dc.losses.Logistic()), dc.Budget(1.0, 1e-6)
    assert protect_people(make, budget, 1) == make(budget)


def test_a_gaussian_claim_grows_in_proportion():
    plan = protect_people(planner(dc.losses.Softmax(3)), dc.Budget(1.0, 1e-6), 5)
    inner = plan.claim.derivation.arguments["claim"].profile
    assert isinstance(inner, GDP)
    assert math.isclose(plan.claim.profile.mu, 5 * inner.mu, rel_tol=1e-9)


def test_a_run_for_people_verifies_and_its_words_say_so(rng):
    plan = protect_people(planner(dc.losses.Logistic(), n=50, d=2), dc.Budget(1.0, 1e-6), 2)
    receipt = plan.run(rng.normal(size=(50, 2)), [1, -1] * 25).receipt
    assert dc.verify(receipt)
    assert "2 records of one person replaced by any others" in str(plan)
    assert "one person of up to 2 records" in str(receipt)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "2", None])
def test_rows_per_person_is_a_whole_number(k):
    with pytest.raises(InputError, match="rows_per_person"):
        protect_people(planner(dc.losses.Logistic()), dc.Budget(1.0, 1e-6), k)
