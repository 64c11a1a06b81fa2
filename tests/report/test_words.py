"""The words of a receipt: every number in them is one that can be worked out again."""

import json
import math
import re
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import dpconvex as dc
from dpconvex.errors import VerificationError
from dpconvex.kernel.receipt import sealed
from dpconvex.plan.people import protect_people
from dpconvex.queries.curvature import Curvature
from dpconvex.report import explain


def receipt(n=400, epsilon=1.0, delta=1e-6, relation="replace_one", people=1, algorithm=None, **options):
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
    algorithm = algorithm or dc.algorithms.PhasedSGD()
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
    statement = explain(made := receipt(epsilon=epsilon, delta=delta, algorithm=dc.algorithms.NoisyGD(steps=3)))
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
    assert "every noisy value that went into that" in section(explain(made), "What may be published").paragraphs[0]


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


def text_of(made):
    return " ".join(str(explain(made)).split())


def test_a_stream_is_not_said_to_hold_as_many_records_as_it_could(rng):
    """Its receipts do not say how many it holds: a delta that is too large for its capacity is not weak for it."""
    model = dc.PrivateOnlineClassifier(epsilon=1.0, delta=1e-7, feature_bound=1.0, classes=[0, 1])
    X = rng.uniform(-0.5, 0.5, size=(300, 2))
    made = model.partial_fit(X, (X[:, 0] > 0).astype(int)).receipt_
    capacity = made.data["plan"]["n"]
    assert made.delta * capacity > 1.0
    statement, text = explain(made), text_of(made)
    assert (statement.status, statement.good) == ("PRIVATE RELEASE", True)
    assert str(capacity) not in text
    assert f"{capacity:,}" not in text
    assert "From records of a stream" in statement.summary
    assert "3 weights of a model after every portion" in statement.summary
    assert "The stream should end before 10,000,000 records" in text
    assert "at most 2e-07 per record read, on average" in text
    assert "an encrypted checkpoint if there is one, hold the noise" in text
    assert "Every record, whatever it says" in text
    assert "the library does not keep it" not in text


def test_the_end_of_a_stream_is_counted_in_records_of_a_person(rng):
    model = dc.PrivateOnlineClassifier(delta=3e-7, feature_bound=1.0, classes=[0, 1], rows_per_person=4, max_rounds=50)
    X = rng.uniform(-0.5, 0.5, size=(300, 2))
    text = text_of(model.partial_fit(X, (X[:, 0] > 0).astype(int)).receipt_)
    assert "up to 4 of the records of a stream" in text
    assert "before 13,333,334 records" in text  # 4 / 3e-7, rounded up


def test_an_evaluation_released_sums_and_no_weights(rng):
    X = rng.uniform(-0.5, 0.5, size=(300, 2))
    y = (X[:, 0] > 0).astype(int)
    model = dc.PrivateLogisticRegression(feature_bound=1.0, classes=[0, 1]).fit(X, y)
    found = dc.evaluate(model, X, y, budget=dc.Budget(1.0, 1e-6), dataset="words of an evaluation")
    text = text_of(found.receipt)
    assert "From 300 records, HeldOut" in text
    assert "computed the noisy sums that metrics of a model are computed from" in text
    assert "weights of a model, with random noise" not in text


def test_a_matrix_of_second_derivatives_is_called_that():
    problem = dc.Problem(dc.losses.Logistic(), l2=2.0)
    plan = Curvature(at=(0.0, 0.0)).plan(problem, n=100, d=2, budget=dc.Budget(1.0, 1e-6))
    made = plan.run(np.eye(2)[[0, 1] * 50], np.ones(100), dataset="words of a matrix").receipt
    assert "computed the matrix of second derivatives of a loss at the 2 weights of a model" in text_of(made)


@pytest.mark.filterwarnings("ignore::dpconvex.errors.BudgetWarning")
def test_a_game_is_about_losses():
    box = dc.domains.Box(-1.0, 1.0)
    player = dc.games.BlockedGibbs(box, 1.0, 200, dc.Budget(4.0, 1e-4), dimension=1, dataset="words of a game")
    player.play()
    player.observe(np.ones(1))
    statement, text = explain(player.receipt), text_of(player.receipt)
    assert "record" not in statement.summary
    assert "From up to 200 losses, BlockedGibbs" in text
    assert "all points of a game and the times of its moves" in text
    assert "Every loss, whatever it says" in text


def test_a_selection_released_its_choice_too(rng):
    X = rng.uniform(-0.5, 0.5, size=(400, 2))
    model = dc.PrivateLogisticRegression(feature_bound=1.0, classes=[0, 1])
    search = dc.PrivateSelection(model, {"algorithm": ["NoisyGD", "auto"]}, repeats=2.0)
    search.fit(X, (X[:, 0] > 0).astype(int))
    text = text_of(search.receipt_)
    assert "3 weights of the best of several models, its settings and its noisy score" in text
    assert "score of candidate 1 to candidate 2; candidate, repeats" in text  # not one by one


def test_a_receipt_of_format_1_is_said_not_to_be_planned_again():
    folder = Path(__file__).parents[1] / "format_1"
    made = dc.Receipt.from_json((folder / "receipt.json").read_text())
    text = text_of(made)
    assert "For this page that was not possible" in text
    assert "this plan makes this claim" not in text
    assert "That was done for this page: this plan makes this claim." in text_of(receipt())


def test_the_day_of_the_run_is_stated():
    made = receipt()
    day = made.data["engine"]["date"]
    assert abs((datetime.now(UTC).date() - date.fromisoformat(day)).days) <= 1
    assert f"on {day} (UTC)" in explain(made).summary
    assert f"run on {day}" in str(made)
    with pytest.raises(VerificationError, match=r"engine\.date"):
        dc.verify(sealed({**made.data, "engine": {**made.data["engine"], "date": "yesterday"}}))
