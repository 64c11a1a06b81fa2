"""Audits of functions that are not plans, and what is refused before and during them."""

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.audit import Case, Stated, audit_function, audit_target
from dpconvex.errors import InputError
from dpconvex.kernel.profiles import GDP, ApproxDP

DATA, WORST = np.zeros(10), np.eye(10)[0]
CLAIM = Stated(GDP(1.0), "replace_one", 1e-5)


def noisy_sum(x, rng):
    return x.sum() + rng.normal()


def noisy_sums(x, rng, runs):
    return x.sum() + rng.normal(size=runs)


CASE = Case("a sum", noisy_sums, DATA, WORST, Stated(GDP(0.5), "replace_one"), batch=True, law="gaussian")


def make_case():
    return CASE


def test_a_true_claim_stands_and_a_false_one_falls():
    assert not audit_function(noisy_sum, DATA, WORST, CLAIM, runs=5000).refuted
    report = audit_function(noisy_sum, DATA, WORST, dc.Budget(1.0, 1e-5), runs=5000)
    assert report.refuted
    assert report.name == "noisy_sum"
    assert report.relation == "replace_one"
    assert 1.0 < report.epsilon_lower < GDP(1.0).epsilon(1e-5)


def test_the_gaussian_law_sharpens_the_bound():
    loose = audit_function(noisy_sums, DATA, WORST, CLAIM, runs=20_000, batch=True)
    sharp = audit_function(noisy_sums, DATA, WORST, CLAIM, runs=20_000, batch=True, law="gaussian")
    assert 0.9 < loose.ratio < sharp.ratio <= 1.0


def test_functions_with_noise_of_their_own_and_outputs_of_any_shape():
    own = np.random.default_rng(0)

    def matrix(x):
        return x.sum() * np.ones((2, 2)) + own.normal(size=(2, 2))

    report = audit_function(matrix, DATA, WORST, CLAIM, runs=4000)
    assert report.refuted  # four looks at the same sum: mu is 2
    assert report.statistic == "linear discriminant"


def test_results_repeat_and_do_not_depend_on_workers():
    first = audit_function(noisy_sum, DATA, WORST, CLAIM, runs=9000, seed=5)
    assert audit_function(noisy_sum, DATA, WORST, CLAIM, runs=9000, seed=5, workers=2) == first
    with pytest.raises(InputError, match="import"):
        audit_function(lambda x, rng: x.sum() + rng.normal(), DATA, WORST, CLAIM, runs=9000, workers=2)


def test_targets_by_name(monkeypatch):
    monkeypatch.syspath_prepend(str(__file__).rpartition("/")[0])
    assert audit_target("test_function:CASE", runs=2000).refuted
    assert audit_target("test_function:make_case", runs=2000).refuted
    assert not audit_target("test_function:noisy_sum", DATA, WORST, CLAIM, runs=2000).refuted
    for target, words in (
        ("test_function", "module:function"),
        ("no_such_module:f", "cannot import"),
        ("test_function:nothing", "has no 'nothing'"),
        ("test_function:DATA", "must be a function"),
        ("test_function:noisy_sum", "name two neighbouring data sets"),
    ):
        with pytest.raises(InputError, match=words):
            audit_target(target, runs=2000)


@pytest.mark.parametrize("claim", [GDP(1.0), ApproxDP(1.0, 1e-5), (1.0, 1e-5), 1.0, None])
def test_a_claim_without_a_relation_is_refused(claim):
    with pytest.raises(InputError, match="which data sets are neighbours"):
        audit_function(noisy_sum, DATA, WORST, claim, runs=2000)


def test_unknown_relations_and_deltas_are_refused():
    with pytest.raises(InputError, match="relation"):
        Stated(GDP(1.0), "similar")
    with pytest.raises(InputError, match="delta"):
        Stated(GDP(1.0), "replace_one", 0.0)


def test_plans_and_kernel_claims_state_their_relation():
    plan = dc.algorithms.MeanDirection().plan(
        dc.Problem(dc.losses.Logistic()), n=10, d=1, budget=dc.Budget(1.0, 1e-6, "zero_out")
    )
    for claim in (plan, plan.claim):
        report = audit_function(noisy_sum, DATA, WORST, claim, runs=2000)
        assert report.relation == "zero_out"


NEIGHBOURS = [
    ("replace_one", DATA, WORST, None),
    ("replace_one", DATA, DATA, "differ in 0 records"),
    ("replace_one", DATA, np.ones(10), "differ in 10 records"),
    ("replace_one", DATA, np.zeros(11), "same number of records; got 10 and 11"),
    ("replace_one", (np.eye(3), np.zeros(3)), (np.eye(3), np.array([0.0, 1.0, 0.0])), None),
    ("replace_one", (np.eye(3), np.zeros(3)), np.eye(3), "2 arrays and neighbour 1"),
    ("replace_one", (np.eye(3), np.zeros(2)), (np.eye(3), np.zeros(2)), "different numbers of records"),
    ("replace_one", np.array([np.nan, 1.0]), np.array([np.nan, 2.0]), None),
    ("replace_one", ["a", "b"], ["a", "c"], None),
    ("replace_one", 3.0, 4.0, "must hold records"),
    ("zero_out", np.array([1.0, 2.0]), np.array([0.0, 2.0]), None),
    ("zero_out", np.array([1.0, 2.0]), np.array([3.0, 2.0]), "masked"),
    ("add_remove", np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0]), None),
    ("add_remove", np.array([1.0, 3.0]), np.array([1.0, 3.0, 4.0]), None),
    ("add_remove", np.array([1.0, 2.0, 3.0]), np.array([3.0, 1.0]), "one record left out"),
    ("add_remove", np.array([1.0, 2.0]), np.array([1.0, 3.0]), "one record more"),
    ("replace_one", sparse.csr_matrix(np.eye(3)), sparse.csr_matrix(np.diag([1.0, 1.0, 2.0])), None),
    ("replace_one", sparse.csr_matrix(np.eye(3)), sparse.csr_matrix(2 * np.eye(3)), "differ in 3 records"),
]


@pytest.mark.parametrize(("relation", "data", "neighbour", "words"), NEIGHBOURS)
def test_only_neighbours_are_compared(relation, data, neighbour, words):
    def noise(data, rng):
        return rng.normal()

    claim = Stated(GDP(1.0), relation)
    if words is None:
        assert not audit_function(noise, data, neighbour, claim, runs=1000).refuted
    else:
        with pytest.raises(InputError, match=words):
            audit_function(noise, data, neighbour, claim, runs=1000)


def sometimes_fails(x, rng):
    if rng.random() < 0.01:
        raise ArithmeticError("secret 17")
    return rng.normal()


def changes_shape(x, rng):
    return np.zeros(1 + (rng.random() < 0.01))


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (sometimes_fails, r"failed on \d+ of \d+ runs \(ArithmeticError\)"),
        (changes_shape, "one shape on every run"),
        (lambda x, rng: "seven", "number or an array of numbers"),
        (lambda x, rng: np.zeros(0), "one shape"),
        (lambda x, rng: np.nan, "not finite on"),
        (lambda x, rng: np.zeros(1 + int(x.sum())), "on both data sets"),
        (7, "must be a function"),
    ],
)
def test_bad_functions_are_refused(f, words):
    with pytest.raises(InputError, match=words) as caught:
        audit_function(f, DATA, WORST, CLAIM, runs=2000)
    assert "17" not in str(caught.value)


def test_bad_batches_and_statistics_are_refused():
    with pytest.raises(InputError, match="one row for each"):
        audit_function(lambda x, rng, runs: np.zeros(3), DATA, WORST, CLAIM, runs=2000, batch=True)
    with pytest.raises(InputError, match="statistic"):
        audit_function(noisy_sum, DATA, WORST, CLAIM, runs=2000, statistic=lambda out: 1.0)
    with pytest.raises(InputError, match="law"):
        audit_function(noisy_sum, DATA, WORST, CLAIM, runs=2000, law="laplace")


def test_too_few_runs_say_how_many_are_needed():
    claim = dc.Budget(8.0, 1e-6)
    with pytest.raises(InputError, match=r"take at least 21139"):
        audit_function(noisy_sum, DATA, WORST, claim, runs=2000)
