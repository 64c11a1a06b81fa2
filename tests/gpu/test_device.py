"""Sums on a CUDA device (`make test-gpu`), collected only where one is."""

import numpy as np
import pytest
import tensor_checks
import torch

import dpconvex as dc
from dpconvex.context import context
from dpconvex.errors import RowError
from dpconvex.loops.rows import Dense, Tensors
from dpconvex.sums.careful import careful_pair as exact_pair
from dpconvex.sums.memory import Memory
from dpconvex.sums.protocol import Bend, Clipped, Labels, Slopes
from dpconvex.sums.tensors import TensorSums


def tensor(values):
    return torch.from_numpy(np.ascontiguousarray(values)).to("cuda")


def test_kernels_are_there():
    assert TensorSums(Tensors(tensor(np.ones((2, 2))), 1.0, 0.0), np.ones(2))._fused is not None


@pytest.mark.parametrize("loss", tensor_checks.LOSSES, ids=str)
def test_a_loss_on_tensors_is_its_scalar_definition(loss, rng):
    tensor_checks.check_loss(loss, tensor, rng)


def test_the_softmax_loss_on_tensors_is_that_of_batches(rng):
    tensor_checks.check_softmax(tensor, rng)


@pytest.mark.parametrize("shape", tensor_checks.SHAPES, ids=str)
def test_every_question_has_the_answer_of_rows_in_memory(shape, rng):
    tensor_checks.check_sums(tensor, shape, dc.losses.Logistic(0.9, 0.5), rng)


WIDTHS = [(dc.losses.Logistic(0.9, 0.5), d) for d in (3, 1000, 2048, 2100)]


@pytest.mark.parametrize(("loss", "d"), [*WIDTHS, *((loss, 130) for loss in tensor_checks.LOSSES)], ids=str)
def test_one_pass_gives_the_sums_of_two(loss, d, rng):
    X, y, omega = rng.normal(size=(3000, d)).astype(np.float32), rng.choice([-1.0, 1.0], 3000), rng.random(3000)
    w, v = rng.normal(size=(2, d + 1)) / d**0.5
    exact = Memory(Dense(X, 0.9 * d**0.5, 0.3, omega), y)
    found = TensorSums(Tensors(tensor(X), 0.9 * d**0.5, 0.3, omega), y)
    for r in (Slopes(loss, w), Clipped(loss, w, 0.2), Bend(loss, w, v)):
        assert tensor_checks.far(found.sweep(r, keep=True), exact.sweep(r, keep=True)) < 1e-12


def test_sums_for_several_classes_are_those_of_rows_in_memory(rng):
    tensor_checks.check_softmax_sums(tensor, rng)


def test_a_person_that_overflows_reaches_nobody_else(rng):
    tensor_checks.check_a_person_that_overflows(tensor, rng)


def test_a_sum_that_cancels_is_within_what_is_charged_for_rounding(rng):
    tensor_checks.check_against_fractions(tensor, rng)


def test_gradients_in_twice_the_precision_keep_a_hundred_bits(rng):
    X, y, omega = rng.normal(size=(3000, 300)).astype(np.float32), rng.choice([-1.0, 1.0], 3000), rng.random(3000)
    X[:, 1] = -X[:, 0]
    w, loss = rng.normal(size=301), dc.losses.Logistic(0.9, 0.5)
    w[:2] = 1e4, 1e4 + 1e-3
    exact = Memory(Dense(X, 3.0, 0.7, omega), y)
    exact.open()
    high, low = exact_pair(exact.matrix, y, loss, w)
    from dpconvex.sums.fused_careful import careful_pair

    given = tensor(exact.matrix.shorten), tensor(omega), loss
    found = careful_pair(tensor(X), 300, tensor(w), 0.7, tensor(y), *given).cpu().numpy()
    assert np.abs((found[0] - high) + (found[1] - low)).max() < 1e-26 * np.abs(high).max()


def test_the_same_bits_come_out_every_time_and_from_every_number_of_programs(rng):
    X, y, w = tensor(rng.normal(size=(70_001, 100))), rng.choice([-1.0, 1.0], 70_001), rng.normal(size=100)
    first, *others = [TensorSums(Tensors(X, 3.0, 0.0), y).sweep(Slopes(dc.losses.Logistic(), w)) for _ in range(5)]
    busy = torch.ones((4000, 4000), device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # multiprocessors that have something else to do
        for _ in range(50):
            busy = busy @ busy * 0.0
    others.append(TensorSums(Tensors(X, 3.0, 0.0), y).sweep(Slopes(dc.losses.Logistic(), w)))
    assert all(np.array_equal(first, other) for other in others)


def test_rows_in_host_memory_pass_through_the_device(rng, monkeypatch):
    from dpconvex.sums import tensors

    monkeypatch.setattr(tensors, "_COPIED", 1024 * 20 * 3)
    X, y, w = rng.normal(size=(20_000, 20)), rng.choice([-1.0, 1.0], 20_000), rng.normal(size=20)
    there = TensorSums(Tensors(torch.from_numpy(X), 3.0, 0.0, device=torch.device("cuda:0")), y)
    here = Memory(Dense(X, 3.0, 0.0), y)
    for r in (Labels(), Slopes(dc.losses.Logistic(), w), Clipped(dc.losses.Huber(0.5), w, 0.3)):
        assert tensor_checks.far(there.sweep(r), here.sweep(r)) < 1e-12


def test_runs_and_receipts_are_those_of_the_cpu(rng):
    tensor_checks.check_runs(tensor, context, rng)


def test_rows_that_hold_no_numbers_are_refused():
    for kind in (np.float32, np.float64):
        for wild in (np.nan, np.inf):
            X = np.zeros((3000, 5), dtype=kind)
            X[2999, 4] = wild
            with pytest.raises(RowError, match="not finite"):
                TensorSums(Tensors(tensor(X), 1.0, 0.0), np.ones(3000)).open()


def test_a_row_too_long_to_be_shortened_adds_nothing():
    X = tensor(np.array([[1e200, 1.0], [0.5, 0.0]]))
    exact, found = Memory(Dense(X.cpu().numpy(), 1.0, 0.3), np.ones(2)), TensorSums(Tensors(X, 1.0, 0.3), np.ones(2))
    w, loss = np.ones(3), dc.losses.Logistic()
    for sums in (exact, found):
        sums.open()
    assert np.allclose(found.sweep(Slopes(loss, w)), exact.sweep(Slopes(loss, w)), rtol=0, atol=1e-15)
    assert np.allclose(found.diagonal(loss, w), exact.diagonal(loss, w), rtol=0, atol=1e-15)
    assert np.allclose(found.careful(loss, w, w), exact.careful(loss, w, w), rtol=0, atol=1e-15)
