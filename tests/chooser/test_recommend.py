import json
import math
import time
import tracemalloc
import warnings

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.algorithms import REGISTRY
from dpconvex.chooser.forms import form, target_l2
from dpconvex.chooser.prediction import people_needed, predict, typical_excess
from dpconvex.chooser.recommend import candidates, contest_of, memory, rank
from dpconvex.errors import BudgetWarning, HypothesisError, InputError

LOSSES = [
    dc.losses.Logistic(),
    dc.losses.SmoothedHinge(),
    dc.losses.Squared(target=2.0),
    dc.losses.Huber(),
    dc.losses.LogCosh(),
    dc.losses.Softmax(3),
    dc.losses.Hinge(),
    dc.losses.Absolute(),
    dc.losses.Pinball(0.9),
    dc.losses.Linear(),
]
BUDGET = dc.Budget(1.0, 1e-6)


def table(loss, n=2000, d=5, budget=BUDGET, **facts):
    return dc.recommend(dc.Problem(loss, **facts), n=n, d=d, budget=budget)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_choose_is_the_first_row(loss):
    facts = {"domain": dc.domains.L2Ball(2.0)} if isinstance(loss, dc.losses.Linear) else {}
    found = table(loss, **facts)
    assert dc.choose(dc.Problem(loss, **facts), n=2000, d=5, budget=BUDGET) == found.best == found.rows[0].plan
    assert {row.name for row in found.rows} | {name for name, _ in found.refused} == set(REGISTRY)
    for row in found.rows:
        assert type(row.plan.algorithm).__name__ == row.name
        assert row.plan.claim.epsilon(1e-6) <= 1.0
        assert row.memory > 0
        assert row.passes > 0
    for name, reason in found.refused:
        shape = form(name, dc.Problem(loss, **facts), 2000, 5, BUDGET)
        with pytest.raises((HypothesisError, InputError)) as refusal:
            getattr(dc.algorithms, name)().plan(shape, n=2000, d=5, budget=BUDGET)
        assert str(refusal.value) == reason


@pytest.mark.parametrize(
    ("loss", "n", "name"),
    [
        (dc.losses.Logistic(), 2000, "ObjectivePerturbation"),
        (dc.losses.Logistic(), 10**7, "ObjectivePerturbation"),
        (dc.losses.Squared(), 500, "ObjectivePerturbation"),
        (dc.losses.Squared(), 10**6, "NoisyGD"),
        (dc.losses.Softmax(4), 300, "NoisyGD"),
        (dc.losses.Softmax(4), 10**5, "ObjectivePerturbation"),
        (dc.losses.Hinge(), 2000, "PhasedERM"),
        (dc.losses.Pinball(0.5), 1000, "PoissonSGD"),
        (dc.losses.Pinball(0.5), 10**5, "PhasedERM"),
    ],
)
def test_the_pick_for_each_task(loss, n, name):
    plan = dc.choose(dc.Problem(loss), n=n, d=5, budget=dc.Budget(1.0, 1e-9))
    assert type(plan.algorithm).__name__ == name


def test_an_l1_ball_is_for_frank_wolfe_and_nothing_is_predicted_there():
    found = table(dc.losses.Logistic(), domain=dc.domains.L1Ball(2.0), feature_bound=dc.bounds.Linf(1.0))
    assert found.rows[0].name == "FrankWolfe"
    assert all(row.expected is None for row in found.rows)
    assert not found.weak
    assert found.enough is None
    json.dumps(found.to_dict(), allow_nan=False)


def test_the_rest_is_ranked_by_what_it_is_expected_to_lose():
    for loss in (dc.losses.Logistic(), dc.losses.Squared()):
        rows = table(loss).rows
        told = [row.expected.excess for row in rows[1:] if row.expected]
        assert told == sorted(told)
        assert [row.expected is None for row in rows] == sorted(row.expected is None for row in rows)
        for row in rows:
            if row.expected:
                assert row.expected.low < row.expected.excess < row.expected.high


def test_who_may_be_first():
    assert rank("smoothed hinge", {"NoisyGD": 1.0, "ObjectivePerturbation": 2.0, "PoissonSGD": 1.5}) == [
        "ObjectivePerturbation",
        "NoisyGD",
        "PoissonSGD",
    ]
    assert rank("margin", {"NoisyGD": 1.0, "PoissonSGD": 0.5}) == ["NoisyGD", "PoissonSGD"]
    assert rank("smoothed hinge", {"NoisyGD": 1.0, "PoissonSGD": 0.5}) == ["PoissonSGD", "NoisyGD"]
    assert rank(None, dict.fromkeys(REGISTRY, math.inf)) == list(REGISTRY)
    assert rank(None, {}) == []


@pytest.mark.parametrize(
    ("loss", "few", "many"),
    [
        (dc.losses.Logistic(), "NoisyGD", "ObjectivePerturbation"),
        (dc.losses.Softmax(3), "NoisyGD", "ObjectivePerturbation"),
        (dc.losses.Squared(), "ObjectivePerturbation", "NoisyGD"),
        (dc.losses.Absolute(), "PoissonSGD", "PhasedERM"),
    ],
)
def test_of_two_that_may_be_first_one_is_for_much_noise(loss, few, many):
    problem = dc.Problem(loss)
    picks = [
        type(dc.choose(problem, n=n, d=10, budget=dc.Budget(1.0, 1e-9)).algorithm).__name__ for n in (10**3, 10**6)
    ]
    assert picks == [few, many]
    assert {few, many} == set(candidates(contest_of(problem, 10**4, 10), REGISTRY))
    told = [min(predict(name, problem, n, 10, BUDGET).excess for name in picks) for n in (10**3, 10**4, 10**5, 10**6)]
    assert told == sorted(told, reverse=True)


def test_few_records_for_each_weight_of_several_classes_are_for_the_descent():
    problem, d = dc.Problem(dc.losses.Softmax(3)), 100
    few, many = (candidates(contest_of(problem, n, d), ["NoisyGD", "ObjectivePerturbation"]) for n in (4499, 4500))
    assert (few, many) == (["NoisyGD"], ["NoisyGD", "ObjectivePerturbation"])
    assert type(dc.choose(problem, n=4499, d=d, budget=dc.Budget(1e3, 1e-9)).algorithm) is dc.algorithms.NoisyGD


def test_targets_ask_for_more_l2_the_more_directions_there_are():
    budget = dc.Budget(1.0, 1e-6, "zero_out")
    plans = [dc.choose(dc.Problem(dc.losses.Huber()), n=10**4, d=d, budget=budget) for d in (1, 100, 400)]
    l2 = [plan.problem.l2 for plan in plans]
    own = [dc.algorithms.ObjectivePerturbation().plan(dc.Problem(dc.losses.Huber()), n=10**4, d=1, budget=budget)]
    assert l2[0] == own[0].problem.l2
    assert l2[2] == pytest.approx(2.0 * l2[1])
    kept = dc.Problem(dc.losses.Squared(), l2=3.0)
    assert form("ObjectivePerturbation", kept, 10**4, 400, budget).l2 == 3.0
    assert form("PhasedERM", dc.Problem(dc.losses.Squared()), 10**4, 400, budget).l2 == 0.0


def test_the_l2_for_targets_is_in_their_units():
    one, ten = (target_l2(dc.Problem(dc.losses.LogCosh(0.5 * t, t)), 100, BUDGET, 0.0) for t in (1.0, 10.0))
    assert ten == pytest.approx(one)  # losses grow with the square of the target, and so does that of l2
    wide = target_l2(dc.Problem(dc.losses.LogCosh(0.5), feature_bound=10.0), 100, BUDGET, 0.0)
    assert wide == pytest.approx(100.0 * one)


def test_it_is_the_same_each_time_and_no_random_numbers_are_drawn():
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    assert table(dc.losses.Logistic()).to_dict() == table(dc.losses.Logistic()).to_dict()
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


def test_more_records_and_larger_budgets_are_expected_to_lose_less():
    problem = dc.Problem(dc.losses.Logistic())
    for name in ("ObjectivePerturbation", "NoisyGD", "PhasedSGD"):
        by_n = [predict(name, problem, n, 20, BUDGET).excess for n in (10, 1000, 10_000, 10**6)]
        by_epsilon = [predict(name, problem, 5000, 20, dc.Budget(e, 1e-6)).excess for e in (0.1, 1.0, 8.0)]
        assert by_n == sorted(by_n, reverse=True)
        assert by_epsilon == sorted(by_epsilon, reverse=True)
        assert by_n[0] <= typical_excess(problem)


def test_the_unit_of_losses_of_classes_is_what_weights_of_zero_lose():
    three, nine = (dc.Problem(dc.losses.Softmax(k)) for k in (3, 9))
    assert typical_excess(nine) == pytest.approx(2.0 * typical_excess(three))
    found = [predict("ObjectivePerturbation", p, n, 5, BUDGET).excess for p, n in ((three, 10**5), (nine, 4 * 10**5))]
    assert found[1] == pytest.approx(2.0 * found[0])  # the same noise to weights: 2 classes to be found, and 8


def test_the_scale_of_a_target_is_that_of_its_loss():
    for loss, power in ((dc.losses.Squared, 2), (dc.losses.Absolute, 1)):
        name = "PoissonSGD"
        one, ten = (predict(name, dc.Problem(loss(target=t)), 5000, 5, BUDGET) for t in (1.0, 10.0))
        assert ten.excess == pytest.approx(10.0**power * one.excess)
        assert typical_excess(dc.Problem(loss(target=10.0))) == pytest.approx(
            10.0**power * typical_excess(dc.Problem(loss(target=1.0)))
        )


def test_a_weak_budget_is_called_weak_with_the_records_it_would_take():
    few = table(dc.losses.Logistic(), n=50, d=200, budget=dc.Budget(0.1, 1e-6))
    assert few.weak
    assert few.enough > 1000
    assert f"takes about {few.enough} records" in str(few)
    enough = table(dc.losses.Logistic(), n=few.enough, d=200, budget=dc.Budget(0.1, 1e-6))
    assert not enough.weak
    assert "weak" not in str(enough)
    assert table(dc.losses.Logistic(), n=few.enough - 1, d=200, budget=dc.Budget(0.1, 1e-6)).weak


def test_the_table_says_all_in_words_and_numbers():
    found = table(dc.losses.Logistic())
    assert len(str(found).splitlines()) == 4  # what to expect; what is assumed
    words = found.details()
    assert words.startswith(str(found))
    for row in found.rows:
        assert row.name in words
        assert row.proven in words
    for _, reason in found.refused:
        assert reason in words
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["rows"][0]["algorithm"] == found.rows[0].name
    assert set(plain["refused"]) == {name for name, _ in found.refused}


def test_what_is_predicted_comes_near_what_is_measured(rng):
    X = rng.normal(size=(4000, 10)) / 4
    w = rng.normal(size=10) * 4
    y = np.where(X @ w + rng.logistic(size=4000) > 0, 1.0, -1.0)
    plain = np.linalg.norm(X, axis=1)
    X /= np.maximum(plain, 1.0)[:, None]
    row = table(dc.losses.Logistic(), n=4000, d=10).rows[0]
    free = dc.choose(dc.Problem(dc.losses.Logistic()), n=4000, d=10, budget=dc.Budget(900.0, 1e-9)).run(X, y, seed=0)

    def lost(solution):
        p = solution.predict(X)
        return -np.log(np.where(y > 0, p, 1 - p)).mean()

    measured = np.mean([lost(row.plan.run(X, y, seed=s)) for s in range(5)]) - lost(free)
    assert row.expected.low < measured < row.expected.high


@pytest.mark.parametrize("name", ["NoisyGD", "ObjectivePerturbation", "PhasedSGD", "PoissonSGD", "NoisySGD"])
def test_memory_is_about_what_a_run_takes(rng, name):
    X = rng.normal(size=(20_000, 20)) / 20
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    plan = getattr(dc.algorithms, name)().plan(dc.Problem(dc.losses.Logistic()), n=20_000, d=20, budget=BUDGET)
    plan.run(X, y, seed=0)  # compiled, imported
    tracemalloc.start()
    plan.run(X, y, seed=1)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most / 4 <= memory(plan) <= 4 * most


def test_it_warns_of_delta_once():
    with pytest.warns(BudgetWarning, match="1/n") as told:
        table(dc.losses.Logistic(), budget=dc.Budget(1.0, 0.01))
    assert len(told) == 1
    with pytest.warns(BudgetWarning, match="1/n") as told:
        dc.choose(dc.Problem(dc.losses.Logistic()), n=2000, d=5, budget=dc.Budget(1.0, 0.01))
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table(dc.losses.Logistic())


def test_the_smallest_and_the_largest_tables():
    for n, d in ((2, 1), (2, 100), (10**9, 1)):
        found = table(dc.losses.Logistic(), n=n, d=d, budget=dc.Budget(1.0, 1e-12))
        assert found.best.n == n


@pytest.mark.parametrize("function", [dc.recommend, dc.choose], ids=["recommend", "choose"])
def test_bad_arguments_are_refused(function):
    problem = dc.Problem(dc.losses.Logistic())
    for bad in ("logistic", dc.losses.Logistic(), problem.to_json(), *([None] if function is dc.choose else [])):
        with pytest.raises(InputError, match="problem must be"):
            function(bad, n=100, d=5, budget=BUDGET)
    for facts in ({"n": 1}, {"n": 10.0}, {"n": True}, {"n": -5}, {"n": None}, {"d": 0}, {"d": 2.5}, {"d": "5"}):
        with pytest.raises(InputError, match="whole number"):
            function(problem, **{"n": 100, "d": 5, "budget": BUDGET, **facts})
    for bad in (None, 1.0, (1.0, 1e-6)):
        with pytest.raises(InputError, match="budget must be"):
            function(problem, n=100, d=5, budget=bad)


def test_a_problem_that_nobody_takes_says_why():
    columns = dc.Problem(dc.losses.Logistic(), feature_bound=dc.bounds.Columns((0.0, 0.0), (1.0, 1.0)))
    with pytest.raises((InputError, HypothesisError), match="2"):
        dc.choose(columns, n=100, d=5, budget=BUDGET)
    found = dc.recommend(columns, n=100, d=5, budget=BUDGET)
    assert not found.rows
    assert not found.weak
    with pytest.raises(HypothesisError, match="no algorithm takes this problem"):
        found.best  # noqa: B018
    assert "refused" in found.details()


def test_numbers_of_numpy_are_numbers():
    found = dc.recommend(dc.Problem(dc.losses.Logistic()), n=np.int64(2000), d=np.int32(5), budget=BUDGET)
    assert found == table(dc.losses.Logistic())


def test_people_needed_is_the_least_number():
    problem = dc.Problem(dc.losses.Squared(target=3.0))
    names = ["ObjectivePerturbation", "NoisyGD"]
    least = people_needed(problem, 8, BUDGET, 0.01, names)
    told = [min(predict(name, problem, n, 8, BUDGET).excess for name in names) for n in (least - 1, least)]
    assert told[1] <= 0.01 < told[0]
    assert people_needed(problem, 8, BUDGET, 1e-300, names) is None
    assert people_needed(problem, 8, BUDGET, 0.01, ["MeanDirection"]) is None
    assert people_needed(problem, 8, BUDGET, 0.01, names, sure=True) > least


def test_a_second_call_takes_no_more_than_two_seconds():
    table(dc.losses.Logistic(), n=5000)  # imports
    start = time.process_time()
    table(dc.losses.Logistic(), n=5001)
    assert time.process_time() - start < 2.0


SCHEMA = dc.Schema(
    {"age": dc.schema.Number(18, 100), "site": dc.schema.Category(["a", "b", "c"])},
    target=dc.schema.Classes("ill", ["no", "yes"]),
    name="clinic",
)


@pytest.mark.parametrize(
    ("target", "loss", "scores"),
    [
        (dc.schema.Classes("t", [0, 1]), dc.losses.Logistic(), {"auc", "accuracy"}),
        (dc.schema.Classes("t", ["a", "b", "c"]), dc.losses.Softmax(3), {"accuracy"}),
        (dc.schema.Range("t", 0, 900), dc.losses.Squared(), {"r2"}),
    ],
)
def test_a_schema_says_what_the_problem_is(target, loss, scores):
    found = dc.recommend(dc.Schema(SCHEMA.columns, target, name="clinic"), n=2000, budget=BUDGET)
    assert found.problem.loss == loss
    assert found.d == 4
    assert {score.name for score in found.scores} == scores
    assert all(s.trivial <= s.expected <= s.without_privacy and not s.given for s in found.scores)


def test_a_schema_gives_the_plan_that_fit_follows(rng):
    columns = {"age": rng.uniform(18, 100, 200), "site": np.array(["a", "b", "c", "a"] * 50)}
    ill = np.where(columns["age"] > 60, "yes", "no")
    fitted = dc.PrivateLogisticRegression(schema=SCHEMA, random_state=0).fit(columns, ill)
    best = dc.recommend(SCHEMA, n=200, budget=BUDGET).best
    assert fitted.receipt_.sections["plan"]["digest"].startswith(str(best).rsplit("plan", 1)[1].split()[0])


def test_people_with_several_rows_get_a_share_each():
    five = dc.Schema(SCHEMA.columns, SCHEMA.target, rows_per_person=5, name="clinic")
    one, several = (dc.recommend(schema, n=2000, budget=BUDGET) for schema in (SCHEMA, five))
    assert several.budget.epsilon == pytest.approx(0.2)
    assert several.scores[0].expected < one.scores[0].expected
    found = dc.tradeoff(five, n=2000, delta=1e-6, epsilons=(1.0, 2.0), ns=(2000,))
    assert found.by_epsilon[0].prediction.excess == several.rows[0].expected.excess
    assert found.people_for(excess=0.05) > dc.tradeoff(SCHEMA, n=2000, delta=1e-6).people_for(excess=0.05)


def test_the_number_of_columns_is_enough_to_ask():
    found = dc.recommend(n=2000, d=40, budget=BUDGET)
    assert found.problem == dc.Problem(dc.losses.Logistic())
    assert found.to_dict() == table(dc.losses.Logistic(), d=40).to_dict()


def test_anchors_are_yours_where_you_know_them():
    found = dc.recommend(n=20_000, d=40, budget=BUDGET, anchors={"auc": (0.5, 0.7)})
    by_name = {score.name: score for score in found.scores}
    assert (by_name["auc"].given, by_name["accuracy"].given) == (True, False)
    assert 0.65 < by_name["auc"].expected < 0.7
    assert '"accuracy": (low, high)' in str(found)
    assert '"auc": (low' not in str(found)
    more = dc.recommend(n=200, d=40, budget=BUDGET, anchors={"auc": (0.5, 0.7)}).scores
    assert {s.name: s for s in more}["auc"].expected < by_name["auc"].expected


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"r2": (0, 1)}, "accuracy, auc is"),
        ({"auc": 0.7}, "pair"),
        ({"auc": (0.7, 0.5)}, "above the other"),
        ({"auc": (0.5, float("nan"))}, "from 0 to 1"),
        ("auc", "mapping"),
    ],
)
def test_wrong_anchors_are_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        dc.recommend(n=2000, d=5, budget=BUDGET, anchors=wrong)


def test_wrong_subjects_are_refused():
    with pytest.raises(InputError, match="no target"):
        dc.recommend(dc.Schema(SCHEMA.columns), n=200, budget=BUDGET)
    with pytest.raises(InputError, match="leave d out"):
        dc.recommend(SCHEMA, n=200, d=7, budget=BUDGET)
    with pytest.raises(InputError, match="d must"):
        dc.recommend(n=200, budget=BUDGET)
    with pytest.raises(InputError, match=r"dpconvex\.Problem"):
        dc.recommend("logistic", n=200, d=3, budget=BUDGET)


def test_the_share_of_a_person_is_said():
    schema = dc.Schema(
        {"age": dc.schema.Number(0, 100)}, dc.schema.Classes("ill", ["no", "yes"]), rows_per_person=3, name="visits"
    )
    found = dc.recommend(schema, n=4000, budget=dc.Budget(1.0, 1e-6))
    assert "a share of (1, 1e-06) for one person, who has up to 3 records" in str(found)
    assert found.budget.epsilon < 0.34
    assert "person" not in str(dc.recommend(n=4000, d=1, budget=dc.Budget(1.0, 1e-6)))
