"""Sums over tensors, with arrays that have what the array API standard says and nothing else."""

import array_api_strict
import numpy as np
import pytest
import tensor_checks

import dpconvex as dc
from dpconvex.errors import InputError, RowError
from dpconvex.loops.rows import Tensors
from dpconvex.sums.protocol import Labels
from dpconvex.sums.symbols import Graph, traced
from dpconvex.sums.tensors import TensorSums


@pytest.mark.parametrize("loss", tensor_checks.LOSSES, ids=str)
def test_a_loss_on_tensors_is_its_scalar_definition(loss, rng):
    tensor_checks.check_loss(loss, array_api_strict.asarray, rng)


def test_the_softmax_loss_on_tensors_is_that_of_batches(rng):
    tensor_checks.check_softmax(array_api_strict.asarray, rng)


def test_slopes_in_twice_the_precision_are_those_of_the_scalar_code(rng):
    tensor_checks.check_careful_slope(array_api_strict.asarray, rng)


@pytest.mark.parametrize("shape", tensor_checks.SHAPES[:2], ids=str)
def test_every_question_has_the_answer_of_rows_in_memory(shape, rng):
    tensor_checks.check_sums(array_api_strict.asarray, shape, dc.losses.Logistic(0.9, 0.5), rng)


def test_sums_for_several_classes_are_those_of_rows_in_memory(rng):
    tensor_checks.check_softmax_sums(array_api_strict.asarray, rng)


def test_a_person_that_overflows_reaches_nobody_else(rng):
    tensor_checks.check_a_person_that_overflows(array_api_strict.asarray, rng)


def test_a_sum_that_cancels_is_within_what_is_charged_for_rounding(rng):
    tensor_checks.check_against_fractions(array_api_strict.asarray, rng)


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_an_entry_that_is_no_number_is_refused(wild, kind):
    X = np.zeros((2000, 3), dtype=kind)
    X[1999, 1] = wild
    with pytest.raises(RowError, match="not finite"):
        TensorSums(Tensors(array_api_strict.asarray(X), 1.0, 0.0), np.ones(2000)).open()


def test_a_row_whose_squares_overflow_is_left_out_as_in_memory():
    X = array_api_strict.asarray(np.array([[1e200, 0.0], [0.5, 0.0]]))
    sums = TensorSums(Tensors(X, 1.0, 0.0), np.ones(2))
    with np.errstate(over="ignore"):
        sums.open()
    assert sums.sweep(Labels()).tolist() == [0.5, 0.0]


def test_no_rows_have_sums_of_zero():
    sums = TensorSums(Tensors(array_api_strict.asarray(np.zeros((0, 3))), 1.0, 0.5), np.ones(0))
    assert sums.sweep(Labels()).tolist() == [0.0] * 4


class Quartic:
    def slope(self, z, y):
        return (z - y) ** 3


class Looping:
    def slope(self, z, y):
        for k in range(8):
            z = z + 1.0 if z * k < y else z - 1.0
        return z


def test_a_loss_that_cannot_be_traced_is_refused():
    for loss, what in ((Quartic(), "powers"), (Looping(), "ways through it")):
        with pytest.raises(InputError, match=what):
            traced(loss, "slope")


def test_a_traced_function_keeps_operations_and_their_order():
    def function(a, b):
        return (a + b) - a if a > b else a * b

    graph = Graph(function, (), 2)
    a, b = np.array([1e16, 1.0, 2.0]), np.array([1.0, 3.0, 2.0])
    assert graph((a, b), np)[0].tolist() == [function(*pair) for pair in zip(a, b, strict=True)]
