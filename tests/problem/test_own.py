"""Losses of the user's own: whose word their facts are, what receipts say, and what their code cannot do."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.errors import FormError, HypothesisError, InputError, RowError, UnavailableError, UserCodeError
from dpconvex.problem.code import code_digest
from dpconvex.problem.facts import Kind
from dpconvex.testing.noiseless import run_without_noise

BUDGET = dc.Budget(1.0, 1e-6)
BALL = dc.domains.L2Ball(2.0)


def away(w, X, y):
    return np.tanh(w - X)


def away_of_one(w, x, y):
    return np.tanh(w - x)


FACTS = {"lipschitz": math.sqrt(2.0), "smoothness": 1.0}
LOSS = dc.losses.Convex(away, **FACTS)
PROBLEM = dc.Problem(LOSS, domain=BALL)
X = np.random.default_rng(0).normal(size=(60, 2))


class Mine(NamedTuple):
    """The logistic loss, written by someone else."""

    shift: float = 0.0

    def value(self, z, y):
        m = y * z - self.shift
        return max(-m, 0.0) + math.log1p(math.exp(-abs(m)))

    def slope(self, z, y):
        m = y * z - self.shift
        e = math.exp(-abs(m))
        p = (e if m >= 0.0 else 1.0) / (1.0 + e)
        return -y * min(p, 1.0)

    def curvature(self, z, y):
        m = y * z - self.shift
        e = math.exp(-abs(m))
        return e / ((1.0 + e) * (1.0 + e))

    def slope_bound(self, reach):
        return 1.0 / (1.0 + math.exp(-reach * (1.0 + 1e-9) - self.shift))

    def curvature_bound(self):
        return 0.25

    def curvature_law(self):
        return 0.0, 1.0, -1.0

    @property
    def traits(self):
        return dc.losses.LossTraits("sign", None, monotone=True)


# Whose word --------------------------------------------------------------------------------------------------------


def test_facts_name_the_user_as_their_source():
    facts = PROBLEM.facts(100, 2)
    assert {kind for kind, fact in facts.items() if fact.declared} == {
        Kind.LIPSCHITZ, Kind.SMOOTHNESS, Kind.STRONG_CONVEXITY, Kind.MONOTONE_MARGIN,
    }  # fmt: skip
    assert facts[Kind.LIPSCHITZ].value == pytest.approx(math.sqrt(2.0))
    assert facts[Kind.ROW_BOUND].value == 1.0
    ours = dc.Problem(dc.losses.Logistic()).facts(100, 2)
    assert not any(fact.declared for fact in ours.values())


@pytest.mark.parametrize("per_record", [False, True])
def test_receipts_list_what_rests_on_the_user(per_record):
    loss = dc.losses.Convex(away_of_one if per_record else away, **FACTS, per_record=per_record, name="mine")
    problem = dc.Problem(loss, domain=BALL)
    contracting = dc.algorithms.PhasedSGD().plan(problem, n=60, d=2, budget=BUDGET)
    clipping = dc.algorithms.PoissonSGD(0.5, steps=2).plan(problem, n=60, d=2, budget=BUDGET)
    alone = "the gradient of a record of the loss 'mine' depends on that record and the weights alone"
    bounds = {
        "largest l2 norm of the gradient of one record's loss: 1.41421",
        "largest eigenvalue of one record's Hessian: 1",
        "smallest eigenvalue of one record's Hessian: 0",
    }
    word = set() if per_record else {alone}
    assert set(contracting.declared()) == bounds | word
    assert set(clipping.declared()) == word
    receipt = contracting.run(X, dataset="own").receipt
    assert set(receipt.sections["facts"]["caller"]) == bounds | word
    assert all(words in str(receipt) for words in bounds)
    assert loss.code[:16] in str(receipt)
    report = str(dc.report.explain(receipt))
    assert "What was declared of the loss" in " ".join(report.split())
    assert "if what its user declared of them is true" in " ".join(report.split())
    with pytest.raises(InputError, match="strict=True, but the guarantee rests"):
        contracting.run(X, strict=True, dataset="own")


def test_strict_runs_what_rests_on_nobody():
    plan = dc.algorithms.PoissonSGD(0.5, steps=2).plan(
        dc.Problem(dc.losses.Convex(away_of_one, **FACTS, per_record=True)), n=60, d=2, budget=BUDGET
    )
    assert plan.run(X, strict=True, dataset="own").weights.shape == (2,)
    assert plan.run(X, strict=True, dataset="own").receipt.sections["facts"]["caller"] == []


def test_a_receipt_that_hides_the_word_of_the_user_is_refused():
    receipt = dc.algorithms.PhasedSGD().plan(PROBLEM, n=60, d=2, budget=BUDGET).run(X, dataset="own").receipt
    assert dc.verify(receipt).name == "DECLARED"
    from dpconvex.kernel.receipt import sealed

    for change in (
        lambda data: data["facts"].update(caller=[]),
        lambda data: data["plan"]["problem"]["loss"].update(lipschitz=1.0),
        lambda data: data["plan"]["problem"]["loss"].update(smoothness=0.5),
        lambda data: data["plan"]["problem"]["loss"].update(apart=True),
        lambda data: data["plan"]["problem"]["loss"].update(code="0"),
    ):
        data = dc.Receipt.from_json(receipt.to_json()).data
        plain = {key: value for key, value in data.items() if key not in ("digest",)}
        plain["plan"] = {key: value for key, value in plain["plan"].items() if key != "digest"}
        change(plain)
        with pytest.raises(dc.errors.VerificationError):
            dc.verify(sealed(plain))


def test_digests_follow_the_code_and_what_it_refers_to():
    def made(scale):
        return lambda w, X, y: scale * (w - X)

    assert code_digest(made(1.0)) != code_digest(made(2.0))
    assert code_digest(made(1.0)) == code_digest(made(1.0))
    assert code_digest(Mine) == code_digest(Mine)
    assert code_digest(Mine) != code_digest(dc.losses.Logistic)


# What the code cannot do -------------------------------------------------------------------------------------------


def test_an_error_in_the_code_is_charged_and_shows_no_values():
    def careless(w, X, y):
        raise ValueError(f"record {X[0, 0]!r}")

    for algorithm in (dc.algorithms.PhasedSGD(), dc.algorithms.NoisyGD(steps=2)):
        plan = algorithm.plan(dc.Problem(dc.losses.Convex(careless, **FACTS)), n=60, d=2, budget=BUDGET)
        before = len(dc.account("careless").claims)
        with pytest.raises(UserCodeError, match="raised ValueError") as caught:
            plan.run(X, dataset="careless")
        error = caught.value
        assert error.__cause__ is None
        assert error.__context__ is None
        assert repr(X[0, 0]) not in str(error)
        assert len(dc.account("careless").claims) == before + 1


def test_a_form_error_raised_by_the_code_does_not_strike_out_the_charge():
    def sly(w, X, y):
        raise FormError("please do not charge")

    plan = dc.algorithms.NoisyGD(steps=2).plan(dc.Problem(dc.losses.Convex(sly, **FACTS)), n=60, d=2, budget=BUDGET)
    before = len(dc.account("sly").claims)
    with pytest.raises(UserCodeError, match="raised FormError"):
        plan.run(X, dataset="sly")
    assert len(dc.account("sly").claims) == before + 1


@pytest.mark.parametrize(
    "gradients",
    [
        lambda w, X, y: np.zeros(3),
        lambda w, X, y: np.zeros((len(X), 3)),
        lambda w, X, y: np.full(X.shape, "a"),
        lambda w, X, y: (np.ones(2), X),
        lambda w, X, y: None,
    ],
)
def test_gradients_of_the_wrong_form_are_refused(gradients):
    plan = dc.algorithms.NoisyGD(steps=2).plan(
        dc.Problem(dc.losses.Convex(gradients, **FACTS)), n=60, d=2, budget=BUDGET
    )
    with pytest.raises(UserCodeError):
        plan.run(X, dataset="own")


def test_code_cannot_write_to_records_or_weights():
    def greedy(w, X, y):
        X[:] = 0.0
        return X

    plan = dc.algorithms.NoisyGD(steps=2).plan(dc.Problem(dc.losses.Convex(greedy, **FACTS)), n=60, d=2, budget=BUDGET)
    given = X.copy()
    with pytest.raises(UserCodeError, match="raised ValueError"):
        plan.run(given, dataset="own")
    assert np.array_equal(given, X)


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf, 1e308])
@pytest.mark.parametrize("pair", [False, True])
def test_gradients_that_are_not_finite_count_as_nothing_and_huge_ones_are_clipped(wild, pair):
    def gradients(w, X, y):
        factor = np.where(X[:, 0] > 5.0, wild, 1.0)
        return (factor, np.tanh(w - X)) if pair else factor[:, None] * np.tanh(w - X)

    problem = dc.Problem(dc.losses.Convex(gradients, **FACTS), domain=BALL)
    odd = X.copy()
    odd[7] = 9.0
    for algorithm in (dc.algorithms.NoisyGD(steps=3, clip=1.0), dc.algorithms.PrivateFTRL(batch=4)):
        plan = algorithm.plan(problem, n=60, d=2, budget=BUDGET)
        with np.errstate(all="raise"):
            weights = run_without_noise(plan, odd, None)[1]
        assert np.isfinite(weights).all()
    plan = dc.algorithms.PhasedSGD().plan(problem, n=60, d=2, budget=BUDGET)
    assert wild == 1e308 or np.isfinite(run_without_noise(plan, odd, None)[1]).all()


# Problems ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gradients": 3}, "must be a function"),
        ({"lipschitz": 0.0}, "above 0"),
        ({"lipschitz": math.inf}, "finite number"),
        ({"smoothness": -1.0}, "at least 0"),
        ({"strong_convexity": 2.0, "smoothness": 1.0}, "cannot exceed"),
        ({"shape": (0, 2)}, "at least 1"),
        ({"shape": 2.5}, "whole numbers"),
        ({"per_record": 1}, "True or False"),
        ({"values": 1}, "a function"),
        ({"name": "a\nb"}, "control characters"),
    ],
)
def test_what_is_no_declaration_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        dc.losses.Convex(**{"gradients": away, **options})


def test_problems_about_records_have_no_rows():
    with pytest.raises(InputError, match="leave out feature_bound"):
        dc.Problem(LOSS, feature_bound=2.0)
    with pytest.raises(InputError, match="leave out feature_bound"):
        dc.Problem(LOSS, intercept=1.0)
    matrix = dc.Problem(dc.losses.Convex(away, **FACTS, shape=(2, 2)))
    assert matrix.weight_shape(4) == (2, 2)
    with pytest.raises(InputError, match="number of weights"):
        matrix.weight_shape(2)


def test_algorithms_refuse_what_was_not_declared():
    bare = dc.Problem(dc.losses.Convex(away), domain=BALL)
    for algorithm in (dc.algorithms.PhasedSGD(), dc.algorithms.NoisySGD(), dc.algorithms.NoisyGD()):
        with pytest.raises(HypothesisError):
            algorithm.plan(bare, n=60, d=2, budget=BUDGET)
    with pytest.raises(HypothesisError, match="state lipschitz"):
        dc.algorithms.PrivateFTRL().plan(bare, n=60, d=2, budget=BUDGET)
    with pytest.raises(HypothesisError, match="loss of a record"):
        dc.algorithms.ObjectivePerturbation().plan(PROBLEM, n=60, d=2, budget=BUDGET)
    convex = dc.Problem(dc.losses.Convex(away, **FACTS, strong_convexity=0.5), domain=BALL)
    dc.algorithms.PhasedSGD().plan(convex, n=60, d=2, budget=BUDGET)
    with pytest.raises(HypothesisError, match="a masked record is not"):
        dc.algorithms.PhasedSGD().plan(convex, n=60, d=2, budget=dc.Budget(1.0, 1e-6, "zero_out"))


def test_records_are_anything_with_a_first_axis():
    def gradients(w, X, y):
        return np.tanh(w - X.sum(axis=(1, 2))[:, None] / 10 - (0.0 if y is None else y[:, :2] / 10))

    plan = dc.algorithms.PhasedSGD().plan(
        dc.Problem(dc.losses.Convex(gradients, **FACTS), domain=BALL), n=60, d=2, budget=BUDGET
    )
    images, labels = np.random.default_rng(1).normal(size=(60, 4, 4)), np.ones((60, 3))
    assert plan.run(images, dataset="own").weights.shape == (2,)
    assert plan.run(images.astype(np.float32), labels, dataset="own").weights.shape == (2,)
    assert plan.run((10 * images).astype(int), labels, dataset="own").weights.shape == (2,)
    for wrong, words in ((images[:50], "50 records"), (np.array(3.0), "1 records")):
        with pytest.raises(FormError, match=words):
            plan.run(wrong, dataset="own")
    with pytest.raises(RowError, match="not finite"):
        plan.run(images * np.inf, dataset="own")
    with pytest.raises(FormError, match="y holds 50"):
        plan.run(images, labels[:50], dataset="own")


def test_sparse_records():
    def gradients(w, X, y):
        return np.asarray(-np.tanh(y - X @ w)), X.toarray()

    loss = dc.losses.Convex(gradients, lipschitz=1.0, smoothness=1.0)
    rows = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    plan = dc.algorithms.NoisyGD(steps=3).plan(dc.Problem(loss), n=60, d=2, budget=BUDGET)
    assert np.isfinite(run_without_noise(plan, sparse.csr_array(rows), np.ones(60))[1]).all()


def test_batches_and_streams_give_what_a_run_gives():
    plan = dc.algorithms.PhasedSGD().plan(PROBLEM, n=60, d=2, budget=BUDGET)
    whole = plan.run(X, dataset="own", seed=1).weights
    cut = plan.run_batches([(X[:7], None), (X[7:50], None), (X[50:], None)], dataset="own", seed=1).weights
    assert np.array_equal(whole, cut)
    plan = dc.algorithms.PrivateFTRL(batch=5).plan(PROBLEM, n=60, d=2, budget=BUDGET)
    session = plan.start(dataset="own", seed=1)
    for start in range(0, 60, 20):
        session.feed(X[start : start + 20])
    assert np.allclose(session.solution().weights, plan.run(X, dataset="own", seed=1).weights, atol=1e-12)
    assert dc.verify(session.solution().receipt)


def test_people_and_weights():
    whose = np.arange(60) // 3
    for algorithm in (dc.algorithms.NoisyGD(steps=2, clip=0.5, per_person=True),
                      dc.algorithms.PoissonSGD(1.0, steps=2, clip=0.5, per_person=True)):  # fmt: skip
        plan = algorithm.plan(PROBLEM, n=60, d=2, budget=BUDGET)
        found = plan.run(X, groups=whose, dataset="own")
        assert found.receipt.sections["dataset"]["unit"] == "person"
    from dpconvex.loops.rows import Records
    from dpconvex.sums.protocol import Slopes
    from dpconvex.sums.records import RecordSums

    sums = RecordSums(Records(X, None, people=np.random.default_rng(0).permutation(whose)))
    gradients, total = away(np.zeros(2), X, None), np.zeros(2)
    for person in range(20):
        one = gradients[sums.records.people == person].sum(axis=0)
        total += one * min(1.0, 0.5 / np.linalg.norm(one))
    assert np.allclose(sums.people(Slopes(LOSS, np.zeros(2)), 0.5), total, atol=1e-12)
    weighted = RecordSums(Records(X, None, weights=np.linspace(0.0, 1.0, 60)))
    assert np.allclose(weighted.sweep(Slopes(LOSS, np.zeros(2))), np.linspace(0.0, 1.0, 60) @ gradients)


# One prediction ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_a_loss_of_one_prediction_runs_in_the_same_loops(container, dtype):
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    others = (dc.algorithms.NoisySGD(), dc.algorithms.PrivateFTRL(batch=4), dc.algorithms.PhasedERM())
    plain = dtype is np.float64 and container is np.asarray  # compiling takes most of the time
    for algorithm in (dc.algorithms.PhasedSGD(), dc.algorithms.NoisyGD(steps=3, clip=1.0), *(others if plain else ())):
        ours, mine = (
            algorithm.plan(dc.Problem(loss, domain=BALL), n=60, d=2, budget=BUDGET)
            for loss in (dc.losses.Logistic(shift=0.5), Mine(shift=0.5))
        )
        rows = container(X.astype(dtype))
        assert np.array_equal(
            ours.run(rows, y, dataset="own", seed=2).weights, mine.run(rows, y, dataset="own", seed=2).weights
        )
        receipt = mine.run(rows, y, dataset="own").receipt
        assert dc.verify(dc.Receipt.from_json(receipt.to_json())).name == "DECLARED"
        assert mine.claim.profile == ours.claim.profile


def test_objective_perturbation_takes_a_loss_of_one_prediction():
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    plan = dc.algorithms.ObjectivePerturbation().plan(dc.Problem(Mine(), domain=BALL, l2=5.0), n=60, d=2, budget=BUDGET)
    assert "slope" in " ".join(plan.declared())
    assert dc.verify(plan.run(X, y, dataset="own").receipt).name == "DECLARED"


def test_nothing_of_an_own_loss_is_cached_on_disk():
    from dpconvex.loops.stream import descend

    y = np.ones(60)
    plan = dc.algorithms.PhasedSGD().plan(dc.Problem(Mine(), domain=BALL), n=60, d=2, budget=BUDGET)
    plan.run(X, y, dataset="own")
    mine = [sig for sig in descend.signatures if any("Mine" in str(kind) for kind in sig)]
    assert mine
    assert all(descend._cache.load_overload(sig, descend.targetctx) is None for sig in mine)


class Short(NamedTuple):
    """No loss."""

    size: float = 1.0


class Several(Mine):
    """Of several predictions."""

    @property
    def traits(self):
        return dc.losses.LossTraits("class", None, outputs=3)


@pytest.mark.parametrize(
    ("loss", "words"),
    [((1.0,), "NamedTuple"), (Short(), "has no value"), (Several(), "one prediction"), (3.0, "instance")],
)
def test_what_is_no_loss_is_refused(loss, words):
    with pytest.raises(InputError, match=words):
        dc.Problem(loss)


# Start -------------------------------------------------------------------------------------------------------------

STARTS = [
    dc.algorithms.PhasedSGD(), dc.algorithms.NoisySGD(), dc.algorithms.SnowballSGD(), dc.algorithms.NoisyGD(steps=3),
    dc.algorithms.PoissonSGD(0.5, steps=3), dc.algorithms.OnlineToBatch(rounds=3), dc.algorithms.PrivateFTRL(batch=4),
    dc.algorithms.HeavyTailedSGD(batches=3), dc.algorithms.PhasedERM(),
]  # fmt: skip


@pytest.mark.parametrize("algorithm", STARTS, ids=lambda part: type(part).__name__)
def test_runs_start_where_the_problem_says(algorithm):
    """Without noise and with gradients that vanish, a run ends where it starts."""
    y, start = np.ones(60), np.array([0.5, -0.25])
    flat = dc.Problem(dc.losses.Huber(), domain=BALL, start=start)
    plan = algorithm.plan(flat, n=60, d=2, budget=dc.Budget(8.0, 1e-6))
    assert np.allclose(run_without_noise(plan, np.zeros((60, 2)), y)[1], start, atol=1e-6)
    receipt = plan.run(np.zeros((60, 2)), y, dataset="own").receipt
    assert dc.verify(dc.Receipt.from_json(receipt.to_json())).name == "PROVED"


def test_starts_that_are_none():
    for start, words in (
        ([3.0, 0.0], "lie in the domain"),
        ([np.nan, 0.0], "finite"),
        ("here", "numbers"),
        ([], "finite"),
    ):
        with pytest.raises(InputError, match=words):
            dc.Problem(dc.losses.Logistic(), domain=BALL, start=start)
    problem = dc.Problem(dc.losses.Logistic(), domain=BALL, start=[0.0, 0.5, 0.0])
    with pytest.raises(InputError, match="shape of the weights"):
        dc.algorithms.PhasedSGD().plan(problem, n=60, d=2, budget=BUDGET)
    for algorithm in (dc.algorithms.ObjectivePerturbation(), dc.algorithms.MeanDirection()):
        with pytest.raises(HypothesisError, match="starts nowhere"):
            algorithm.plan(problem, n=60, d=3, budget=BUDGET)
    corner = dc.Problem(LOSS, domain=dc.domains.Simplex(), start=[1.0, 0.0])
    assert np.array_equal(corner.begin(2), [1.0, 0.0])
    assert corner.farthest(2) == pytest.approx(math.sqrt(2.0))


# Automatic differentiation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["torch", "jax"])
def test_a_missing_extra_is_named_before_anything_is_charged(door, monkeypatch):
    """Where an extra is installed its tests run as well (`make test-autodiff`)."""
    monkeypatch.setattr("dpconvex.problem.own.find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match=rf"dpconvex\[{door}\]"):
        getattr(dc.losses, f"from_{door}")(lambda w, x, y: ((w - x) ** 2).sum(), **FACTS)
    with pytest.raises(InputError):
        getattr(dc.losses, f"from_{door}")(3)
