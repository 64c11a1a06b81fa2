"""The words of a receipt: every number in them is one that can be worked out again."""

import json
import math
import re

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import dpconvex as dc
from dpconvex.errors import VerificationError
from dpconvex.plan.people import protect_people
from dpconvex.report import explain


def receipt(n=400, epsilon=1.0, delta=1e-6, relation="replace_one", people=1, **options):
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
    algorithm = dc.algorithms.PhasedSGD()
    budget = dc.Budget(epsilon, delta, relation)
    plan = protect_people(lambda b: algorithm.plan(problem, n=n, d=2, budget=b), budget, people)
    X = np.eye(2)[np.arange(n) % 2]
    return plan.run(X, 1.0 - 2.0 * X[:, 0], dataset=f"words {relation} {people}", **options).receipt


def section(statement, title):
    return next(s for s in statement.sections if s.title.startswith(title))


def test_the_numbers_are_those_of_the_kernel():
    statement = explain(made := receipt())
    mu = made.data["claim"]["profile"]["mu"]
    learned = section(statement, "How much")
    coin, test, odds = learned.points
    assert float(re.search(r"([\d.]+)%", coin)[1]) == math.ceil(1000 * ndtr(mu / 2)) / 10
    assert float(re.search(r"([\d.]+)%\. Guessing has 5%", test)[1]) == math.ceil(1000 * ndtr(ndtri(0.05) + mu)) / 10
    assert "1 in 500,000" in odds
    factor = float(re.search(r"factor of at most ([\d.]+)", odds)[1])
    assert math.exp(1.0) < factor < math.exp(1.25)
    assert factor >= math.exp(statement.shift)
    for row in learned.table.rows:
        prior, low, high = (float(cell.rstrip("%")) / 100 for cell in row)
        bound = prior / (1 - prior) * math.exp(statement.shift)
        assert high >= bound / (1 + bound) > high - 1.001e-3
        bound = prior / (1 - prior) * math.exp(-statement.shift)
        assert low <= bound / (1 + bound) < low + 1.001e-3
    numbers = section(statement, "What epsilon = 1 and delta = 1e-06")
    assert "e^epsilon = 2.72 times" in numbers.paragraphs[0]
    assert f"at most {2e-6 * 400:g} on average" in numbers.paragraphs[1]
    assert statement.good
    assert "400 records" in statement.summary


@pytest.mark.parametrize("epsilon", [0.01, 0.37, 3.3, 50.0])
@pytest.mark.parametrize("delta", [1e-12, 3.3e-5, 0.3])
@pytest.mark.filterwarnings("ignore::dpconvex.errors.BudgetWarning")
def test_no_number_is_rounded_to_the_wrong_side(epsilon, delta):
    statement = explain(made := receipt(epsilon=epsilon, delta=delta))
    stated = re.search(r"epsilon = ([\d.]+) and", section(statement, "What epsilon").title)[1]
    assert float(stated) >= made.epsilon
    many = re.search(r"at most (?:1 in ([\d,]+)|([\d.e-]+))\. The table", section(statement, "How much").points[2])
    chance = 1 / int(many[1].replace(",", "")) if many[1] else float(many[2])
    assert chance >= 2 * delta * (1 - 1e-12)


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("people", [1, 3])
def test_who_is_protected(relation, people):
    statement = explain(receipt(relation=relation, people=people))
    text = str(statement)
    assert ("up to 3 of the 400 records" in text) == (people == 3)
    assert ("A person with several records is protected less" in " ".join(text.split())) == (people == 1)
    assert ("replaced by any other" in " ".join(text.split())) == (relation == "replace_one")
    assert ("masked" in text) == (relation == "zero_out")


def test_a_seeded_run_protects_nobody():
    statement = explain(receipt(seed=1))
    assert not statement.good
    assert statement.status.startswith("NOT PRIVATE")
    assert "This run promises nothing" in statement.summary


def test_what_was_read_from_the_data_is_in_the_headline():
    statement = explain(receipt(undeclared=["classes", "feature_bound"]))
    assert not statement.good
    assert "EXCEPT FOR WHAT WAS READ FROM THE DATA: classes, feature_bound" in statement.status
    assert "classes, feature_bound" in section(statement, "What was read").paragraphs[0]
    assert "Nothing" in section(explain(receipt()), "What was read").paragraphs[0]


def test_every_iterate_is_said_to_be_public():
    plan = dc.algorithms.PhasedSGD(release="every iterate").plan(
        dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0)), n=50, d=1, budget=dc.Budget(1.0, 1e-6)
    )
    made = plan.run(np.ones((50, 1)), np.ones(50), dataset="words every").receipt
    assert "every noisy value" in section(explain(made), "What may be published").paragraphs[0]


def test_a_receipt_that_does_not_hold_is_not_explained():
    data = json.loads(receipt().to_json())
    data["claim"]["epsilon"] = 0.5
    with pytest.raises(VerificationError):
        explain(dc.Receipt(data))


def test_curves_that_take_computing_are_explained_too(rng):
    X = rng.uniform(-1, 1, size=(300, 2))
    model = dc.PrivateLogisticRegression(feature_bound=2.0, classes=[0, 1], rows_per_person=2)
    statement = explain(model.fit(X, (X[:, 0] > 0).astype(int)).receipt_)
    assert "up to 2 of the 300 records" in statement.sections[0].paragraphs[0]
    assert 1.0 < statement.shift < 2.0


@pytest.mark.parametrize(("epsilon", "delta"), [(20.0, 1e-6), (1.0, 0.9)])
@pytest.mark.filterwarnings("ignore::dpconvex.errors.BudgetWarning")
def test_a_budget_that_protects_nobody_is_called_weak(epsilon, delta):
    statement = explain(receipt(epsilon=epsilon, delta=delta))
    assert statement.status.startswith("WEAK PROMISE")
    assert not statement.good
    assert "1 in 0" not in str(statement)


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_all_the_rows_of_a_person_are_spoken_of_as_a_person(relation):
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
    algorithm = dc.algorithms.NoisyGD(steps=3, per_person=True)
    plan = algorithm.plan(problem, n=400, d=2, budget=dc.Budget(1.0, 1e-6, relation))
    X = np.eye(2)[np.arange(400) % 2]
    made = plan.run(X, 1.0 - 2.0 * X[:, 0], groups=np.arange(400) // 9, dataset=f"words of people {relation}").receipt
    statement = explain(made)
    assert statement.good
    assert "however many" in section(statement, "Who is protected").paragraphs[0]
    assert "all records of that person" in section(statement, "Who is protected").paragraphs[1]
    assert "about any one person" in statement.summary
