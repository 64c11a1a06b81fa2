"""Tensors of PyTorch in host memory (`make test-gpu-cpu`), collected only where PyTorch is installed."""

import numpy as np
import pytest
import tensor_checks
import torch
from scipy import sparse

import dpconvex as dc
from dpconvex.errors import FormError, InputError, RowError
from dpconvex.loops.rows import Tensors
from dpconvex.sums import tensors
from dpconvex.sums.protocol import Slopes
from dpconvex.sums.tensors import TensorSums

X, Y = np.random.default_rng(0).normal(size=(300, 3)), np.tile([1.0, -1.0], 150)


def tensor(values):
    return torch.from_numpy(np.ascontiguousarray(values))


def on_cpu():
    return dc.context(device="cpu")


def plan_for(n=300, d=3, loss=None):
    problem = dc.Problem(loss or dc.losses.Logistic())
    return dc.algorithms.NoisyGD(steps=3).plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-6))


@pytest.mark.parametrize("loss", tensor_checks.LOSSES, ids=str)
def test_a_loss_on_tensors_is_its_scalar_definition(loss, rng):
    tensor_checks.check_loss(loss, tensor, rng)


def test_the_softmax_loss_on_tensors_is_that_of_batches(rng):
    tensor_checks.check_softmax(tensor, rng)


def test_slopes_in_twice_the_precision_are_those_of_the_scalar_code(rng):
    tensor_checks.check_careful_slope(tensor, rng)


@pytest.mark.parametrize("shape", tensor_checks.SHAPES, ids=str)
@pytest.mark.parametrize("loss", tensor_checks.LOSSES[1::4], ids=str)
def test_every_question_has_the_answer_of_rows_in_memory(loss, shape, rng):
    tensor_checks.check_sums(tensor, shape, loss, rng)


def test_sums_for_several_classes_are_those_of_rows_in_memory(rng):
    tensor_checks.check_softmax_sums(tensor, rng)


def test_a_person_that_overflows_reaches_nobody_else(rng):
    tensor_checks.check_a_person_that_overflows(tensor, rng)


def test_a_sum_that_cancels_is_within_what_is_charged_for_rounding(rng):
    tensor_checks.check_against_fractions(tensor, rng)


def test_runs_and_receipts_are_those_of_the_cpu(rng):
    tensor_checks.check_runs(tensor, on_cpu, rng)


def test_rows_that_pass_in_parts_give_the_same_sums(rng, monkeypatch):
    rows, y, w = tensor(rng.normal(size=(5000, 4))), rng.choice([-1.0, 1.0], 5000), rng.normal(size=4)
    whole = TensorSums(Tensors(rows, 1.0, 0.0), y).sweep(Slopes(dc.losses.Logistic(), w))
    monkeypatch.setattr(tensors, "_NUMBERS", 1)
    again = TensorSums(Tensors(rows, 1.0, 0.0), y).sweep(Slopes(dc.losses.Logistic(), w))
    assert np.allclose(whole, again, rtol=0, atol=1e-13)


def test_estimators_fit_on_a_device(rng):
    features = rng.normal(size=(2000, 4))
    labels = np.where(features[:, 0] > 0.0, 1, -1)
    settings = {"epsilon": 1.0, "feature_bound": 3.0, "classes": [-1, 1], "random_state": 0}
    cpu = dc.PrivateLogisticRegression(**settings).fit(features, labels)
    with on_cpu():
        device = dc.PrivateLogisticRegression(**settings).fit(features, labels)
    assert np.allclose(device.coef_, cpu.coef_, rtol=0, atol=1e-3 * np.abs(cpu.coef_).max())


@pytest.mark.parametrize("kind", [torch.int32, torch.uint8, torch.float16, torch.bool])
def test_other_real_tensors_are_converted(kind):
    whole = (tensor(X) > 0.0).to(kind)
    with on_cpu():
        found = plan_for().run(whole, Y, seed=1).weights
        assert np.array_equal(found, plan_for().run(whole.to(torch.float64), Y, seed=1).weights)


@pytest.mark.parametrize("layout", ["strided", "transposed", "gradient"])
def test_tensors_of_any_layout_are_taken(layout):
    other = {
        "strided": torch.repeat_interleave(tensor(X), 2, dim=1)[:, ::2],
        "transposed": tensor(X.T).T,
        "gradient": tensor(X).requires_grad_(),
    }[layout]
    with on_cpu():
        assert np.array_equal(plan_for().run(other, Y, seed=1).weights, plan_for().run(tensor(X), Y, seed=1).weights)


@pytest.mark.parametrize(
    ("rows", "labels", "what"),
    [
        (tensor(X)[:, 0], Y, "two dimensions"),
        (tensor(X)[:, :2], Y, r"shape \(300, 2\)"),
        (tensor(X), Y[:-1], "one label a row"),
        (tensor(X), tensor(Y)[:, None], "one label a row"),
        (tensor(X).to(torch.complex64), Y, "real numbers"),
        (tensor(X), tensor(Y).to(torch.complex64), "y must hold numbers"),
        (sparse.csr_array(X), Y, "dense rows"),
        (tensor(X).to_sparse(), Y, "dense rows"),
        (np.array([["a"] * 3] * 300), Y, "real numbers"),
    ],
    ids=["vector", "columns", "labels", "matrix of labels", "complex", "complex labels", "scipy", "sparse", "text"],
)
def test_a_form_that_is_not_that_of_the_plan_is_refused_before_the_charge(rows, labels, what):
    with on_cpu(), pytest.raises(FormError, match=what):
        plan_for().run(rows, labels)


def test_tensors_that_say_nothing_of_a_device_are_refused():
    for device in ("nowhere", "meta", "cuda:17"):
        with dc.context(device=device), pytest.raises(FormError, match="device"):
            plan_for().run(tensor(X), Y)
    for device in ("", 3):
        with pytest.raises(InputError, match="device"), dc.context(device=device):
            raise AssertionError


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("bound", [1.0, dc.bounds.Linf(1.0), dc.bounds.Lp(1.5, 1.0)], ids=["l2", "linf", "lp"])
def test_entries_that_are_no_numbers_are_refused_and_never_shown(wild, bound):
    rows = tensor(X.copy())
    rows[7, 2] = wild
    problem = dc.Problem(dc.losses.Logistic(), feature_bound=bound)
    plan = dc.algorithms.NoisyGD(steps=3).plan(problem, n=300, d=3, budget=dc.Budget(1.0, 1e-6))
    with on_cpu(), pytest.raises(RowError, match="not finite") as caught:
        plan.run(rows, Y)
    assert "7" not in str(caught.value)


@pytest.mark.parametrize("labels", [np.full(300, np.nan), np.full(300, 0.5)], ids=["nan", "unknown"])
def test_labels_that_the_loss_does_not_know_are_refused(labels):
    for given in (labels, tensor(labels)):
        with on_cpu(), pytest.raises(RowError, match="y"):
            plan_for().run(tensor(X), given)


@pytest.mark.parametrize("bound", [dc.bounds.Linf(0.7), dc.bounds.Lp(1.5, 0.9)], ids=["linf", "lp"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_are_brought_within_every_bound_as_in_memory(bound, kind):
    problem = dc.Problem(dc.losses.Logistic(), feature_bound=bound)
    plan = dc.algorithms.NoisyGD(steps=3).plan(problem, n=300, d=3, budget=dc.Budget(1.0, 1e-6))
    with on_cpu():
        found = plan.run(tensor(X.astype(kind)), Y, seed=1).weights
    assert np.allclose(found, plan.run(X.astype(kind), Y, seed=1).weights, rtol=0, atol=1e-6)


def test_weights_count_on_a_device(rng):
    omega = rng.random(300)
    for algorithm in (dc.algorithms.NoisyGD(steps=3), dc.algorithms.NoisyGD(steps=3, clip=0.5)):
        plan = algorithm.plan(dc.Problem(dc.losses.Logistic()), n=300, d=3, budget=dc.Budget(1.0, 1e-6))
        cpu = plan.run(X, Y, seed=1, sample_weight=omega).weights
        with on_cpu():
            assert np.array_equal(plan.run(tensor(X), Y, seed=1, sample_weight=omega).weights, cpu)


@pytest.mark.parametrize("name", ["PhasedSGD", "NoisySGD", "PrivateFTRL", "FramedPerturbation"])
def test_what_needs_more_than_sums_stays_in_memory(name, ball_problem):
    problem = dc.Problem(dc.losses.Logistic()) if name == "FramedPerturbation" else ball_problem
    plan = getattr(dc.algorithms, name)().plan(problem, n=300, d=3, budget=dc.Budget(1.0, 1e-6))
    with on_cpu(), pytest.raises(InputError, match="host memory"):
        plan.run(tensor(X), Y)
