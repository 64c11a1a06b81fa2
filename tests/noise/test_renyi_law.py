"""Noise of the user's own: what is declared, how it is drawn, and each algorithm that takes it, with its contract."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import gammaincinv, ndtri

import dpconvex as dc
from dpconvex.algorithms.base import Algorithm
from dpconvex.algorithms.own_noise import Tree
from dpconvex.audit.whitebox import sensitivities
from dpconvex.errors import HypothesisError, InputError, UserCodeError
from dpconvex.noise.dithered import dithered
from dpconvex.noise.source import Source
from dpconvex.problem.renyi_law import RenyiLaw
from dpconvex.testing.algorithms import CHECKS
from dpconvex.testing.noiseless import run_without_noise

BUDGET = dc.Budget(1.0, 1e-6)
BALL = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))


def normal(size):
    return RenyiLaw(lambda uniform: ndtri(uniform(size)), size=size, second_moment=float(size), name="normal")


def logistic(size):
    def sample(uniform):
        u = uniform(size)
        return np.log(u / (1.0 - u))

    return RenyiLaw(sample, size=size, second_moment=size * math.pi**2 / 3, kappa=0.5, name="logistic")


def ball(size):
    """Density in proportion to exp(-|x|_2): its length has a gamma law, its direction is even."""

    def sample(uniform):
        direction = ndtri(uniform(size))
        return direction / np.linalg.norm(direction) * gammaincinv(size, uniform(1))

    return RenyiLaw(sample, size=size, second_moment=size * (size + 1.0), name="exp(-|x|)")


@dataclasses.dataclass(frozen=True)
class OfAnySize:
    """An algorithm whose law of noise has as many numbers as there are weights, for contracts that try several."""

    algorithm: Algorithm
    law: object

    def plan(self, problem, *, n, d, budget):
        sound = isinstance(d, int) and not isinstance(d, bool) and d > 0
        law = self.law(math.prod(problem.weight_shape(d)) if sound else 1)
        return dataclasses.replace(self.algorithm, noise=law).plan(problem, n=n, d=d, budget=budget)


ALGORITHMS = [
    dc.algorithms.OnlineToBatch(rounds=2),
    dc.algorithms.MirrorDescent(p=1.5, steps=4),
    dc.algorithms.TruncatedMirrorDescent(p=1.5, batches=2),
]
every = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)


@every
@pytest.mark.parametrize("check", [CHECKS[0], *CHECKS[2:]], ids=lambda check: check.__name__.removeprefix("check_"))
def test_a_slice_of_the_contract(algorithm, check, rng):
    check(OfAnySize(algorithm, logistic), BALL, rng)


@pytest.mark.heavy
@every
@pytest.mark.parametrize("law", [normal, logistic, ball], ids=lambda law: law.__name__)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_the_contract(algorithm, law, check, rng):
    check(OfAnySize(algorithm, law), BALL, rng)


def attacked(algorithm, rounds):
    law = normal(1)
    if isinstance(algorithm, dc.algorithms.OnlineToBatch):
        algorithm = dataclasses.replace(algorithm, rounds=rounds)
    return dataclasses.replace(algorithm, noise=law).plan(BALL, n=12, d=1, budget=dc.Budget(4.0, 1e-6))


def is_caught(plan, mutant, runs):
    caught = dc.audit.audit(plan, runs=runs, seed=1, mutant=mutant).caught
    return caught or any(not m.holds for m in sensitivities(plan, tries=60, mutant=mutant))


def test_a_slice_of_the_mutants_is_caught():
    plan = attacked(ALGORITHMS[1], 0)
    (mutant,) = (m for m in dc.algorithms.MirrorDescent.mutants() if m.name == "noise halved")
    assert dc.audit.audit(plan, runs=1000, seed=1, mutant=mutant).caught


@pytest.mark.heavy
@every
def test_mutants_are_caught_and_the_claim_is_not_refuted(algorithm):
    plan = attacked(algorithm, 3)
    report = dc.audit.audit(plan, runs=10_000, seed=3)
    assert not report.refuted
    assert report.ratio > 0.5  # what is left of a claim by thresholds at so many runs, and of its conversion
    for mutant in type(algorithm).mutants():
        # One feature has one norm; and the others are about laws that are built in.
        if mutant.breaks(plan) and not mutant.shaped and "another norm" not in mutant.name:
            assert is_caught(plan, mutant, 30_000), mutant.name


# Drawing -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [normal(2), logistic(3), ball(3)], ids=str)
def test_the_laws_of_these_tests_are_not_refuted(law):
    dc.testing.check_noise(law)


@pytest.mark.parametrize(
    ("sample", "declared", "words"),
    [
        (lambda uniform: 0.5 * ndtri(uniform(1)), {}, "easier to tell"),
        (lambda uniform: np.sign(uniform(1) - 0.5), {"accuracy": 1.0}, "easier to tell"),
        (lambda uniform: np.rint(ndtri(uniform(1)) * 2**10) / 2**10, {}, "numbers repeat"),
        (lambda uniform: ndtri(uniform(1)), {"second_moment": 0.8}, "mean squared norm"),
        (lambda uniform: ndtri(uniform(1)), {"kappa": 0.2}, "easier to tell"),
    ],
    ids=["too small", "a coin", "coarse", "moment", "kappa"],
)
def test_laws_that_are_declared_wrongly_are_refuted(sample, declared, words):
    with pytest.raises(AssertionError, match=words):
        dc.testing.check_noise(RenyiLaw(sample, **{"size": 1, "second_moment": 1.0, **declared}))


def test_a_sampler_that_remembers_is_refuted():
    kept = []

    def stale(uniform):
        kept.append(ndtri(uniform(1)))
        return kept[-2] if len(kept) > 1 else kept[0]

    with pytest.raises(AssertionError, match="another variate"):
        dc.testing.check_noise(RenyiLaw(stale, size=1, second_moment=1.0))


def test_values_come_to_one_of_the_two_multiples_next_to_them():
    stream, count = Source(0).stream("x"), 40_000
    found = dithered(stream, np.full(count, 0.3), 1.0, 0.5, np.full(count, -0.425)) / 0.5
    assert set(found) == {-1.0, 0.0}
    assert abs(np.mean(found == -1.0) - 0.25) < 5 * math.sqrt(0.25 * 0.75 / count)
    assert abs(found.mean() * 0.5 - (0.3 - 0.425)) < 5 * 0.5 / math.sqrt(count)


def test_huge_values_are_clamped_and_what_is_no_number_counts_as_0():
    value = np.array([np.nan, np.inf, -np.inf, 1e300, 0.0, 0.0])
    found = dithered(Source(0).stream("x"), value, 1.0, 0.5, np.array([0.0, 0.0, 0.0, 0.0, 1e308, -1e-300]))
    assert found[0] == 0.0
    assert (found[1:5] == 0.5 * np.array([2.0**52, -(2.0**52), 2.0**52, 2.0**53])).all()
    assert found[5] in (-0.5, 0.0)


def test_uniform_numbers_are_inside_of_their_range():
    class Ends:
        def words(self, count):
            return np.array([0, 2**64 - 1] * count, dtype=np.uint64)[:count]

    seen = []
    RenyiLaw(lambda uniform: seen.append(uniform(2)) or np.zeros(1), size=1, second_moment=1.0).draw(Ends())
    assert 0.0 < seen[-1][0] < 1e-18
    assert seen[-1][1] == 1.0 - 2.0**-53


def test_running_sums_of_a_tree(rng):
    steps, scales = rng.normal(size=(100, 3)), rng.uniform(0.1, 2.0, 100)
    tree, touched = Tree(), np.zeros((100, 100))
    for t in range(100):
        node = tree.enter(steps[t], scales[t])
        low = t + 1 - ((t + 1) & -(t + 1))
        touched[low : t + 1, t] = scales[low : t + 1] / scales[low : t + 1].max()
        assert np.allclose(node, steps[low : t + 1].sum(axis=0) / scales[low : t + 1].max())
        assert np.allclose(tree.leave(node), steps[: t + 1].sum(axis=0))
    assert touched.max() <= 1.0
    assert (touched > 0.0).sum(axis=1).max() == (100).bit_length() == 7


# Plans, receipts and refusals ----------------------------------------------------------------------------------------


@every
def test_receipts_say_whose_word_it_is_and_are_verified_without_the_code(algorithm, rng):
    law = logistic(2)
    plan = dataclasses.replace(algorithm, noise=law).plan(BALL, n=40, d=2, budget=BUDGET)
    X, y = rng.normal(size=(40, 2)), np.ones(40)
    solution = plan.run(X, y, dataset="own noise")
    read = dc.Receipt.from_json(solution.receipt.to_json())
    assert dc.verify(read).name == "DECLARED"
    said = " ".join(read.sections["facts"]["caller"])
    assert "Renyi divergences of at most 0.25 a |v|^2" in said
    assert "the sampler of the noise 'logistic'" in said
    assert read.sections["plan"]["algorithm"]["noise"]["code"] == law.code
    assert read.sections["arithmetic"]["numbers"].startswith("on a grid, from float64 variates whose error is charged")
    with pytest.raises(InputError, match="strict=True"):
        plan.run(X, y, strict=True, dataset="own noise")
    without = dataclasses.replace(law, sample=None)
    assert without == law
    assert without.law == law.law
    again = dataclasses.replace(algorithm, noise=without).plan(BALL, n=40, d=2, budget=BUDGET)
    assert again == plan
    with pytest.raises(UserCodeError, match="not at hand"):
        again.run(X, y, dataset="own noise")


@every
def test_budgets_are_met_closely(algorithm):
    for epsilon, delta, orders in ((0.5, 1e-6, ()), (8.0, 1e-8, ()), (2.0, 1e-6, (2.0, 8.0, 20.0))):
        law = dataclasses.replace(logistic(2), orders=orders)
        plan = dataclasses.replace(algorithm, noise=law).plan(BALL, n=400, d=2, budget=dc.Budget(epsilon, delta))
        assert 0.99 * epsilon < plan.claim.epsilon(delta) <= epsilon


def test_without_noise_it_is_the_same_descent(rng):
    X, y = rng.normal(size=(60, 2)), np.ones(60)
    own, built_in = (
        run_without_noise(
            dc.algorithms.OnlineToBatch(rounds=11, step=0.1, noise=noise).plan(BALL, n=60, d=2, budget=BUDGET), X, y
        )[1]
        for noise in (logistic(2), "tree")
    )
    assert np.allclose(own, built_in, rtol=1e-9)


def test_an_error_in_the_sampler_leaves_the_run_charged_and_shows_nothing(rng):
    calls = []

    def broken(uniform):
        calls.append(1)
        if len(calls) > 2:
            raise ValueError("secret 42")
        return ndtri(uniform(2))

    law = RenyiLaw(broken, size=2, second_moment=2.0)
    plan = dc.algorithms.OnlineToBatch(rounds=4, noise=law).plan(BALL, n=40, d=2, budget=BUDGET)
    with pytest.raises(UserCodeError, match="raised ValueError") as caught:
        plan.run(rng.normal(size=(40, 2)), np.ones(40), dataset="broken noise")
    assert "42" not in str(caught.value)
    assert len(dc.account("broken noise").claims) == 1


@pytest.mark.parametrize(
    "sample",
    [lambda u: u(3), lambda u: u(2) * 1j, lambda u: np.full(2, np.nan), lambda u: "no", lambda u: u(2)[:, None]],
    ids=["shape", "complex", "nan", "text", "matrix"],
)
def test_what_is_no_variate_shows_when_it_is_declared(sample):
    with pytest.raises(UserCodeError, match="sample"):
        RenyiLaw(sample, size=2, second_moment=1.0)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"sample": 3}, "sample must be a function"),
        ({"size": 0}, "size"),
        ({"size": 1.0}, "size"),
        ({"second_moment": 0.0}, "second_moment"),
        ({"second_moment": math.inf}, "second_moment"),
        ({"kappa": -1.0}, "kappa"),
        ({"kappa": "1"}, "kappa"),
        ({"norm": 0.5}, "norm"),
        ({"norm": math.inf}, "norm"),
        ({"accuracy": 0.0}, "accuracy"),
        ({"orders": 2.0}, "orders"),
        ({"orders": (1.0, 2.0)}, "above 1"),
        ({"orders": (math.nan,)}, "an order"),
        ({"name": "a\nb"}, "name"),
    ],
)
def test_declarations_that_make_no_sense_are_refused(declared, words):
    with pytest.raises(InputError, match=words):
        RenyiLaw(**{"sample": lambda u: ndtri(u(1)), "size": 1, "second_moment": 1.0, **declared})


@every
@pytest.mark.parametrize(
    "noise",
    ["laplace", None, 3, lambda stream: 0.0, np.ones(3), ["blt"], {"a": 1}, RenyiLaw],
    ids=lambda noise: type(noise).__name__,
)
def test_wrong_use_of_noise_is_refused(algorithm, noise):
    with pytest.raises(InputError, match="noise must be one of"):
        dataclasses.replace(algorithm, noise=noise)


def test_combinations_that_have_no_proof_are_refused():
    with pytest.raises(InputError, match="constants='paper'"):
        dc.algorithms.OnlineToBatch(noise=normal(2), constants="paper")
    with pytest.raises(InputError, match="shuffle"):
        dc.algorithms.TruncatedMirrorDescent(noise=normal(2), shuffle=True)
    for algorithm in ALGORITHMS:
        own = dataclasses.replace(algorithm, noise=normal(3))
        with pytest.raises(InputError, match="a law of 3 numbers, and there are 2 weights"):
            own.plan(BALL, n=40, d=2, budget=BUDGET)
        coarse = dataclasses.replace(algorithm, noise=dataclasses.replace(normal(2), accuracy=1e-8))
        with pytest.raises(HypothesisError, match="sample more accurately"):
            coarse.plan(BALL, n=40, d=2, budget=BUDGET)
        few = dataclasses.replace(algorithm, noise=dataclasses.replace(normal(2), orders=(1.001,)))
        with pytest.raises(HypothesisError, match="declare larger ones"):
            few.plan(BALL, n=40, d=2, budget=BUDGET)


def test_plain_forms_are_read_as_they_were_written():
    law = dataclasses.replace(logistic(2), orders=(2.0, 4.0))
    assert RenyiLaw.from_plain(law.to_plain()) == law
    for change in ({"own": "learner"}, {"code": "x"}, {"more": 1}):
        with pytest.raises(InputError, match="not the plain form"):
            RenyiLaw.from_plain({**law.to_plain(), **change})
    assert dataclasses.replace(law, kappa=0.4).law != law.law
