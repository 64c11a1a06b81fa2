"""People, not rows: the sum of a person's gradients is clipped as one vector, and people are sampled."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.algorithms.poisson_sgd import clipped_gradients
from dpconvex.data.arrays import open_people, open_rows, open_weights
from dpconvex.errors import HypothesisError, InputError, VerificationError
from dpconvex.kernel.claims import PERSON, Release
from dpconvex.kernel.receipt import sealed
from dpconvex.loops.rows import CSR, Dense
from dpconvex.sums.matrix import Matrix
from dpconvex.sums.memory import open_sums
from dpconvex.sums.people import people_sum
from dpconvex.sums.rowwise import slopes
from dpconvex.testing.noiseless import NoiselessPort
from dpconvex.theorems import (
    clipped_sum,
    compose,
    fresh_run,
    gaussian,
    group,
    parallel,
    poisson_subsampling,
    post_process,
)

LOGISTIC = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
SQUARED = dc.Problem(dc.losses.Squared(), domain=dc.domains.Box(-5.0, 5.0), intercept=0.5)
HUBER = dc.Problem(dc.losses.Huber(0.5), feature_bound=2.0, intercept=0.5)
SOFTMAX = dc.Problem(dc.losses.Softmax(3), intercept=0.5)
HINGE = dc.Problem(dc.losses.Hinge(), domain=dc.domains.L2Ball(4.0))
problems = pytest.mark.parametrize("problem", [LOGISTIC, SQUARED, HUBER, SOFTMAX, HINGE], ids=lambda p: str(p.loss))
every_case = pytest.mark.parametrize(
    ("name", "problem"),
    [
        *(("NoisyGD", p) for p in (LOGISTIC, SQUARED, HUBER, SOFTMAX)),
        *(("PoissonSGD", p) for p in (LOGISTIC, SQUARED, HUBER, SOFTMAX, HINGE)),
    ],
    ids=lambda case: case if isinstance(case, str) else str(case.loss),
)
forms = pytest.mark.parametrize(
    "form", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)], ids=["dense", "sparse", "float32"]
)
# Who has which of 20 rows.
OWNERS = {
    "interleaved": np.arange(20) % 6,
    "one row each": np.arange(20)[::-1],
    "all rows one person": np.zeros(20, dtype=int),
    "one of many rows": np.array([0] * 9 + [3] + [0] * 5 + [1, 2, 1, 4, 5]),
    "together": np.repeat([4, 1, 7, 2], [3, 1, 10, 6]),
}
owners = pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)


def data_for(problem, n, d, rng):
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    if problem.loss.traits.labels == "class":
        return X, rng.integers(0, 3, n).astype(float)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return X, y if problem.loss.traits.labels == "sign" else y * rng.random(n)


def opened(X, y, owner, problem, weights=None):
    rows, labels = open_rows(X, y, problem, *X.shape)
    rows = rows._replace(people=open_people(owner, len(labels))[0])
    if weights is not None:
        rows = rows._replace(weights=open_weights(weights, 1.0, len(labels)))
    return rows, labels


def by_hand(X, y, owner, problem, w, clip, weights=None):
    """The sum over people of their clipped sums, row by row."""
    sums = {}
    for i in range(len(y)):
        bound = problem.feature_bound.l2(X.shape[1])
        x = X[i] * min(1.0, bound / max(np.linalg.norm(X[i]), 1e-300))
        x = np.append(x, problem.intercept) if problem.intercept else x
        slope = slopes(problem.loss, np.atleast_2d(w @ x) if w.ndim == 2 else np.array([w @ x]), y[i : i + 1])[0]
        omega = 1.0 if weights is None else weights[i]
        sums[owner[i]] = sums.get(owner[i], 0.0) + omega * np.multiply.outer(slope, x)
    return sum(s * min(1.0, clip / max(np.linalg.norm(s), 1e-300)) for s in sums.values())


def plan_for(name, problem=LOGISTIC, n=20, d=3, budget=None, **options):
    options = {"steps": 3, "per_person": True, **options}
    return getattr(dc.algorithms, name)(**options).plan(problem, n=n, d=d, budget=budget or dc.Budget(1.0, 1e-6))


def summed(plan, X, y, owner, w, members=None, weights=None):
    """What one step would release without noise, with everybody or with those people."""
    rows, labels = opened(X, y, owner, plan.problem, weights)
    return clipped_gradients(plan, open_sums(rows, labels), np.arange(len(labels)) if members is None else members, w)


def run_without_noise(plan, X, y, owner, past=None):
    port = NoiselessPort(plan, past)
    plan.algorithm.execute(plan, *opened(X, y, owner, plan.problem), port)
    port.close()
    return port


# The sums ---------------------------------------------------------------------------------------------------------


@problems
@forms
@owners
@pytest.mark.parametrize("clip", [0.1, 1.0, 1e9])
def test_sums_are_those_of_people_each_clipped(problem, form, owner, clip, rng):
    X, y = data_for(problem, 20, 4, rng)
    w, weights = rng.normal(size=problem.weight_shape(4)), rng.random(20) * (rng.random(20) < 0.7)
    plan = plan_for("PoissonSGD", problem, d=4, clip=clip)
    labels = open_rows(X, y, problem, 20, 4)[1]
    for omega in (None, weights):
        found = summed(plan, form(X), y, owner, w, weights=omega)
        exact = by_hand(
            form(X).astype(float) if form is not sparse.csr_array else X, labels, owner, problem, w, clip, omega
        )
        assert np.allclose(found, exact, rtol=1e-12, atol=1e-13)


@problems
@owners
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_a_person_adds_no_more_than_the_clip_whatever_the_rows(problem, owner, size, rng):
    plan = plan_for("PoissonSGD", problem, clip=0.25)
    X, y = data_for(problem, 20, 3, rng)
    for _ in range(5):
        w = 5.0 * rng.normal(size=problem.weight_shape(3))
        for person in range(len(set(owner))):
            alone = summed(plan, X * size, y, owner, w, members=np.array([person]))
            assert np.linalg.norm(alone) <= 0.25 * (1 + 1e-15)


def test_rows_that_cancel_leave_a_person_within_the_clip(rng):
    """Half of the rows undo the other half, almost: what is left is rounding, and it is clipped as computed."""
    half = rng.normal(size=(3000, 20))
    X = np.vstack([half, -half * (1 + 1e-13)])
    problem = dc.Problem(dc.losses.Linear(), feature_bound=100.0)
    for form in (X, sparse.csr_array(X)):
        rows, _ = opened(form, np.ones(6000), np.zeros(6000, dtype=np.int64), problem)
        whole = people_sum(Matrix(rows, 6000), np.ones(6000), 1.0)
        assert np.allclose(whole, X.sum(axis=0), rtol=0, atol=1e-10)
        for clip in (1e-12, 1e-11, 1e-10):
            found = people_sum(Matrix(rows, 6000), np.ones(6000), clip)
            assert np.linalg.norm(found) <= clip * (1 + 1e-15)
            assert np.linalg.norm(found) >= min(clip, float(np.linalg.norm(whole))) * (1 - 1e-12)


def test_sums_that_overflow_count_as_nothing():
    rows = Dense(np.ones((4, 1)), 1.0, 0.0, people=np.array([0, 0, 1, 1]))
    for form in (rows, CSR(np.ones(4), np.zeros(4, dtype=np.int32), np.arange(5), 1, 1.0, 0.0, people=rows.people)):
        for wild in (1e308, 1e200, np.inf, np.nan):
            answers = np.array([wild, wild, 0.25, 0.25])
            assert people_sum(Matrix(form, 4), answers, 1.0) == [0.5]


# Neighbours -------------------------------------------------------------------------------------------------------


@every_case
def test_any_change_of_one_person_moves_the_sum_by_no_more_than_stated(problem, name, rng):
    """Also if the number of the person's rows changes, and with it that of all rows; also if nobody is left."""
    clip = 0.4
    plan = plan_for(name, problem, clip=clip, n=30)
    w = rng.normal(size=problem.weight_shape(3))
    X, y = data_for(problem, 12, 3, rng)
    owner = np.array([1, 2, 3])[np.arange(12) % 3]
    others = summed(plan, X, y, owner, w)
    contributions = []
    for rows in (0, 1, 2, 7, 18):
        for size in (1.0, 100.0):
            x, t = data_for(problem, rows, 3, rng)
            order = rng.permutation(12 + rows)  # who comes first does not matter
            everyone = [np.concatenate(pair)[order] for pair in ((X, x * size), (y, t), (owner, np.zeros(rows)))]
            contributions.append(summed(plan, *everyone, w) - others)
    stated = {r: clipped_sum(clip, r, PERSON).value for r in ("replace_one", "zero_out")}
    for c in contributions:
        assert np.linalg.norm(c) <= stated["zero_out"] * (1 + 1e-12)  # present or masked
        for other in contributions:
            assert np.linalg.norm(c - other) <= stated["replace_one"] * (1 + 1e-12)
    assert max(np.linalg.norm(c) for c in contributions) > 0.999 * clip


def test_the_stated_move_is_attained_by_any_number_of_rows():
    plan = plan_for("PoissonSGD", dc.Problem(dc.losses.Linear()), clip=0.4, d=2)
    moves = []
    for rows in (1, 5, 20):
        X, w = np.tile([1.0, 0.0], (rows, 1)), np.zeros(2)
        gap = summed(plan, X, np.ones(rows), np.zeros(rows), w) - summed(plan, X, -np.ones(rows), np.zeros(rows), w)
        moves.append(np.linalg.norm(gap))
    assert moves == pytest.approx([0.8, 0.8, 0.8], rel=1e-12)


@every_case
def test_a_person_moves_no_value_of_a_run_by_more_than_stated(problem, name, rng):
    """Given the values released before, which both runs share."""
    plan = plan_for(name, problem, clip=0.3)
    X, y = data_for(problem, 20, 3, rng)
    owner = rng.integers(0, 5, 20)
    still = run_without_noise(plan, X, y, owner)
    for person in range(5):
        mine = owner == person
        for size in (1.0, 100.0):
            changed, labels = X.copy(), y.copy()
            changed[mine] = rng.normal(size=(mine.sum(), 3)) * size
            labels[mine] = (labels[mine] + 1) % 3 if problem.loss.traits.labels == "class" else -labels[mine]
            moved = run_without_noise(plan, changed, labels, owner, past=still)
            gaps = (moved.history("gradients") - still.history("gradients")).reshape(3, -1)
            assert (np.linalg.norm(gaps, axis=1) <= 0.6 * (1 + 1e-12)).all()


def test_rows_of_weight_0_are_nobody_s(rng):
    plan = plan_for("PoissonSGD", clip=0.3)
    X, y = data_for(LOGISTIC, 20, 3, rng)
    owner, w = np.arange(20) % 3, rng.normal(size=3)
    weights = np.repeat([1.0, 0.0], [14, 6])
    few = summed(plan, X[:14], y[:14], owner[:14], w)
    assert np.allclose(summed(plan, X, y, owner, w, weights=weights), few, atol=1e-14)
    owner[14:] = 9
    assert np.allclose(summed(plan, X, y, owner, w, weights=weights), few, atol=1e-14)


# Runs -------------------------------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("clip", [0.2, 50.0])
def test_people_of_one_row_are_rows(problem, name, clip, rng):
    X, y = data_for(problem, 20, 3, rng)
    options = {"clip": clip, "steps": 5, **({"mean_share": 0.0} if name == "NoisyGD" else {})}
    rows = plan_for(name, problem, per_person=False, **options)
    people = plan_for(name, problem, **options)
    assert [dataclasses.astuple(r) for r in rows.releases] == [dataclasses.astuple(r) for r in people.releases]
    assert np.allclose(
        people.run(X, y, groups=np.arange(20), seed=1).weights, rows.run(X, y, seed=1).weights, atol=1e-12
    )


@pytest.mark.parametrize("name", ["NoisyGD", "PoissonSGD"])
@owners
def test_plan_run_receipt(name, owner, rng):
    for problem in (LOGISTIC, SOFTMAX):
        plan = plan_for(name, problem)
        assert plan.claim.unit == PERSON
        assert 0.99 < plan.claim.epsilon(1e-6) <= 1.0
        X, y = data_for(problem, 20, 3, rng)
        weights = []
        for form in (X, X.astype(np.float32), sparse.csr_matrix(X), sparse.csc_array(X), X.tolist()):
            solution = plan.run(form, y, groups=owner, seed=5, dataset="people of every form")
            weights.append(solution.weights)
            assert dc.verify(dc.Receipt.from_json(solution.receipt.to_json()))
        assert all(np.allclose(w, weights[0], atol=1e-4) for w in weights)
        names = np.array(["ann", "bob", "cat", "dan", "eve", "flo", "gil", "hal"] * 3)[owner % 20]
        if len(set(owner)) <= 8:
            renamed = plan.run(X, y, groups=names, seed=5, dataset="people of every form").weights
            assert np.array_equal(renamed, weights[0])
        assert list(solution.iterates) == ["gradients"]


def test_the_order_of_the_rows_does_not_matter_to_noisy_gd(rng):
    plan = plan_for("NoisyGD")
    X, y = data_for(LOGISTIC, 20, 3, rng)
    owner, order = rng.integers(0, 6, 20), rng.permutation(20)
    a = plan.run(X, y, groups=owner, seed=2).weights
    b = plan.run(X[order], y[order], groups=owner[order], seed=2).weights
    assert np.allclose(a, b, atol=1e-13)


@pytest.mark.parametrize("name", ["NoisyGD", "PoissonSGD"])
def test_people_learn_what_rows_do(name, rng):
    n = 6000
    X = rng.normal(size=(n, 3)) / 2
    y = np.where(X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n) > 0, 1.0, -1.0)
    plan = getattr(dc.algorithms, name)(per_person=True).plan(LOGISTIC, n=n, d=3, budget=dc.Budget(2.0, 1e-6))
    w = plan.run(X, y, groups=np.arange(n) % 1500, seed=1).weights
    assert np.mean(np.sign(X @ w) == y) > 0.93


def test_the_mean_row_is_not_released_about_people():
    problem = dc.Problem(dc.losses.Logistic())
    assert [r.name for r in plan_for("NoisyGD", problem, per_person=False).releases] == ["rows", "gradients"]
    plan = plan_for("NoisyGD", problem)
    assert [r.name for r in plan.releases] == ["gradients"]
    assert plan.to_json()["claim"] == plan_for("NoisyGD", problem, mean_share=0.5).to_json()["claim"]


# Samples ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_the_sampler_is_the_accountant_s(relation):
    """The law, the probability and the number of steps that the claim is about are those of the draws."""
    budget = dc.Budget(1.0, 1e-6, relation)
    people = plan_for("PoissonSGD", n=200, probability=0.1, steps=40, budget=budget)
    rows = plan_for("PoissonSGD", n=200, probability=0.1, steps=40, budget=budget, per_person=False)
    assert people.claim.profile == rows.claim.profile
    assert people.releases == rows.releases
    assert people.releases[0] == Release("sample", "bernoulli", 0.1, (200,), 40)
    profile = people.claim.profile
    assert (profile.probability, profile.steps) == (0.1, 40)


def test_a_sampled_person_comes_with_all_rows_and_a_number_without_a_person_with_none(rng):
    plan = plan_for("PoissonSGD", n=20, clip=0.7, probability=0.3, steps=4)
    X, y = data_for(LOGISTIC, 20, 3, rng)
    owner = np.array(["eve", "ann", "bob", "eve"])[np.arange(20) % 4]  # eve 0, ann 1, bob 2
    draws = iter([[0], [2, 15], [5, 19], [0, 1, 2]])

    class Chosen(NoiselessPort):
        def _choose(self, name, count, probability):
            assert (name, count, probability) == ("sample", 20, 0.3)
            return np.array(next(draws))

    port = Chosen(plan)
    plan.algorithm.execute(plan, *opened(X, y, owner, LOGISTIC), port)
    port.close()
    w = np.zeros(3)
    for noisy, names in zip(port.history("gradients"), ["eve", "bob", "", "eve ann bob"], strict=True):
        there = np.isin(owner, names.split())
        assert np.allclose(noisy, by_hand(X[there], y[there], owner[there], LOGISTIC, w, 0.7) if there.any() else 0.0)
        w = LOGISTIC.domain.project(w - plan.schedule[0].rate * noisy / (0.3 * 20))


def test_people_are_sampled_whatever_the_number_of_their_rows(rng):
    """A run with noise of next to nothing shows who took part: each person as often as the probability says."""
    n, steps = 40, 2000
    plan = plan_for("PoissonSGD", dc.Problem(dc.losses.Linear()), n=n, d=4, steps=steps, probability=0.25, clip=1.0)
    owner = np.repeat(np.arange(4), [1, 2, 7, 30])
    X = np.eye(4)[owner]
    port = NoiselessPort(plan)
    port._choose = lambda name, count, q: np.flatnonzero(rng.random(count) < q)
    plan.algorithm.execute(plan, *opened(X, np.ones(n), owner, plan.problem), port)
    present = np.abs(port.history("gradients")) > 0.5
    assert abs(present.mean(axis=0) - 0.25).max() < 5 * (0.25 * 0.75 / steps) ** 0.5
    assert np.allclose(np.abs(port.history("gradients"))[present], 1.0)  # one row or thirty: the clip


# What is said, and what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relation", "words"),
    [
        ("replace_one", "all the rows of one person replaced by however many of one other who has none"),
        ("zero_out", "the contribution of all the rows of one person masked in place"),
    ],
)
def test_the_receipt_names_a_person(relation, words, rng):
    plan = plan_for("NoisyGD", budget=dc.Budget(1.0, 1e-6, relation))
    X, y = data_for(LOGISTIC, 20, 3, rng)
    receipt = plan.run(X, y, groups=np.arange(20) % 3, dataset=f"named people {relation}").receipt
    assert words in str(plan)
    assert f"all the rows of one person among 20 of 'named people {relation}': {words}" in str(receipt)
    assert receipt.data["dataset"]["unit"] == "person"
    assert "sums of a person clipped" in str(plan)


def test_a_receipt_about_rows_cannot_be_passed_off_as_one_about_people(rng):
    X, y = data_for(LOGISTIC, 20, 3, rng)
    receipt = plan_for("NoisyGD", per_person=False).run(X, y, dataset="forged people").receipt

    def forged(change):
        data = json.loads(receipt.to_json())
        change(data)
        return sealed(data)

    assert dc.verify(forged(lambda data: None))
    for change in (
        lambda data: data["dataset"].update(unit="person"),
        lambda data: (data["dataset"].update(unit="person"), data["claim"]["derivation"].update(unit="person")),
        lambda data: data["dataset"].update(unit="people"),
    ):
        with pytest.raises(VerificationError):
            dc.verify(forged(change))


@pytest.mark.parametrize("name", ["NoisyGD", "PoissonSGD"])
def test_plans_about_people_need_to_know_whose_rows_are_and_others_refuse_to(name, rng):
    X, y = data_for(LOGISTIC, 20, 3, rng)
    dataset = f"nobody charged {name}"
    with pytest.raises(InputError, match=r"about people: say whose each row is, with run\(X, y, groups=...\)"):
        plan_for(name).run(X, y, dataset=dataset)
    with pytest.raises(InputError, match="per_person=True"):
        plan_for(name, per_person=False).run(X, y, groups=np.arange(20), dataset=dataset)
    for wrong in (np.arange(19), np.zeros((20, 2)), "ann"):
        with pytest.raises(InputError, match="groups"):
            plan_for(name).run(X, y, groups=wrong, dataset=dataset)
    assert dc.account(dataset).claims == ()
    spoilt = X.copy()
    spoilt[7, 1] = np.nan
    with pytest.raises(InputError, match="not finite"):
        plan_for(name).run(spoilt, y, groups=np.arange(20) % 4, dataset=dataset)
    assert len(dc.account(dataset).claims) == 1


@pytest.mark.parametrize("name", ["NoisyGD", "PoissonSGD"])
def test_rows_of_nobody_do_not_count(name, rng):
    X, y = data_for(LOGISTIC, 20, 3, rng)
    owner = (np.arange(20) % 4).astype(float)
    weights = np.where(np.arange(20) % 5, 1.0, 0.0)
    left_out = plan_for(name).run(X, y, groups=np.where(weights > 0, owner, np.nan), seed=1).weights
    assert np.array_equal(left_out, plan_for(name).run(X, y, groups=owner, sample_weight=weights, seed=1).weights)


@pytest.mark.parametrize("name", ["NoisyGD", "PoissonSGD"])
def test_huge_rows_are_brought_back(name, rng):
    X, y = data_for(LOGISTIC, 20, 3, rng)
    X += 0.1
    plan, owner = plan_for(name), np.arange(20) % 4
    huge = plan.run(X * 1e150, y, groups=owner, seed=1).weights
    unit = plan.run(X / np.linalg.norm(X, axis=1, keepdims=True), y, groups=owner, seed=1).weights
    assert np.allclose(huge, unit, atol=1e-9)


@pytest.mark.parametrize("value", [1, 0, None, "yes"])
@pytest.mark.parametrize("name", ["NoisyGD", "PoissonSGD"])
def test_per_person_is_a_flag(name, value):
    with pytest.raises(InputError, match="per_person"):
        getattr(dc.algorithms, name)(per_person=value)


# Claims -----------------------------------------------------------------------------------------------------------


def test_theorems_keep_the_person_and_never_make_one():
    fact = clipped_sum(0.5, "replace_one", PERSON)
    assert fact.value == clipped_sum(0.5, "replace_one").value == 1.0
    assert "per person" in fact.source
    assert "per record" in clipped_sum(0.5, "replace_one").source
    person = gaussian(fact, Release("a", "gaussian", 2.0, (3,)))
    row = gaussian(clipped_sum(0.5, "replace_one"), Release("b", "gaussian", 2.0, (3,)))
    assert (person.unit, row.unit) == (PERSON, 1)
    assert person.profile == row.profile
    for kept in (post_process(person, "noted"), fresh_run(person, "run 1"), compose([person]), group(person, 1)):
        assert kept.unit == PERSON
    with pytest.raises(HypothesisError, match="units"):
        compose([person, row])
    with pytest.raises(HypothesisError, match="several people"):
        group(person, 2)
    with pytest.raises(HypothesisError, match="in parallel"):
        parallel([person], [range(3)])
    sample, release = Release("s", "bernoulli", 0.5, (4,)), Release("g", "gaussian", 2.0, (3,))
    assert poisson_subsampling(0.5, "zero_out", sample, release, PERSON).unit == PERSON
    assert poisson_subsampling(0.5, "zero_out", dataclasses.replace(sample, scale=1.0), release, PERSON).unit == PERSON


@pytest.mark.parametrize("unit", [0, 2, True, 1.0, "people", None])
def test_a_sum_is_over_records_or_over_people(unit):
    with pytest.raises(HypothesisError, match="unit"):
        clipped_sum(0.5, "replace_one", unit)
    sample, release = Release("s", "bernoulli", 0.5, (4,)), Release("g", "gaussian", 2.0, (3,))
    with pytest.raises(HypothesisError, match="unit"):
        poisson_subsampling(0.5, "zero_out", sample, release, unit)
