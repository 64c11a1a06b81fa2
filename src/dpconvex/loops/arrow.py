"""Columns of numbers of Arrow batches as rows, read where they lie.

A batch is a struct of the Arrow C data interface, whose children are its columns. They are copied a few rows at a time,
so that the rows that are written stay in cache until all columns have been read.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from dpconvex.loops.protocol import compiled

__all__ = ["KINDS", "copy_columns"]

KINDS = {"double": 0, "float": 1, "int64": 2, "int32": 3}  # types of columns that are read, as Arrow calls them
LABEL = -1  # place of the column of labels

_TILE = 64
_NULLS, _OFFSET, _BUFFERS, _CHILDREN = 1, 2, 5, 6  # words of struct ArrowArray


def _reader(kind: Any) -> Any:
    """What reads the item of that type and number behind an address."""

    @intrinsic  # type: ignore[misc, unused-ignore]
    def read(context: Any, address: Any, number: Any) -> Any:
        def code(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            form = target.get_value_type(kind)
            return builder.load(builder.gep(builder.inttoptr(arguments[0], form.as_pointer()), [arguments[1]]))

        return kind(types.int64, types.int64), code

    return read


_double, _float, _word, _whole, _byte = map(
    _reader, (types.float64, types.float32, types.int64, types.int32, types.uint8)
)


@compiled
def _put(x, i, place, X, y):
    if place == LABEL:
        y[i] = x
    else:
        X[i, place] = x


@compiled
def _cells(batch, column):
    # Address of the first cell of a column of 8 bytes each.
    return _word(_word(column, _BUFFERS), 1) + 8 * (_word(batch, _OFFSET) + _word(column, _OFFSET))


@compiled
def _eight(batch, columns, c, start, stop, place, X):
    # Eight columns of float64 side by side: a line of the cache is written at once.
    c0, c1 = _cells(batch, _word(columns, c)), _cells(batch, _word(columns, c + 1))
    c2, c3 = _cells(batch, _word(columns, c + 2)), _cells(batch, _word(columns, c + 3))
    c4, c5 = _cells(batch, _word(columns, c + 4)), _cells(batch, _word(columns, c + 5))
    c6, c7 = _cells(batch, _word(columns, c + 6)), _cells(batch, _word(columns, c + 7))
    at = np.uint64(place)
    for row in range(start, stop):
        i = np.uint64(row)
        X[i, at] = _double(c0, row)
        X[i, at + np.uint64(1)] = _double(c1, row)
        X[i, at + np.uint64(2)] = _double(c2, row)
        X[i, at + np.uint64(3)] = _double(c3, row)
        X[i, at + np.uint64(4)] = _double(c4, row)
        X[i, at + np.uint64(5)] = _double(c5, row)
        X[i, at + np.uint64(6)] = _double(c6, row)
        X[i, at + np.uint64(7)] = _double(c7, row)


@compiled
def _one(batch, column, kind, start, stop, place, X, y):
    offset, cells = _word(batch, _OFFSET) + _word(column, _OFFSET), _word(_word(column, _BUFFERS), 1)
    for i in range(start, stop):
        if kind == 0:
            _put(_double(cells, offset + i), i, place, X, y)
        elif kind == 1:
            _put(_float(cells, offset + i), i, place, X, y)
        elif kind == 2:
            _put(np.float64(_word(cells, offset + i)), i, place, X, y)
        else:
            _put(np.float64(_whole(cells, offset + i)), i, place, X, y)


@compiled
def _holes(batch, column, start, stop, place, X, y):
    offset, valid = _word(batch, _OFFSET) + _word(column, _OFFSET), _word(_word(column, _BUFFERS), 0)
    if valid != 0 and _word(column, _NULLS) != 0:
        for i in range(start, stop):
            if not (_byte(valid, (offset + i) >> 3) >> ((offset + i) & 7)) & 1:
                _put(np.nan, i, place, X, y)


@compiled
def _fill(batch, kinds, places, X, y):
    columns = _word(batch, _CHILDREN)
    for start in range(0, y.shape[0], _TILE):
        stop = min(start + _TILE, y.shape[0])
        c = 0
        while c < kinds.shape[0]:
            many = c + 8 <= kinds.shape[0]
            for k in range(c, min(c + 8, kinds.shape[0])):
                many = many and kinds[k] == 0 and places[k] == places[c] + (k - c) and places[k] != LABEL
            if many:
                _eight(batch, columns, c, start, stop, places[c], X)
                c += 8
            else:
                _one(batch, _word(columns, c), kinds[c], start, stop, places[c], X, y)
                c += 1
        for k in range(kinds.shape[0]):
            _holes(batch, _word(columns, k), start, stop, places[k], X, y)


def copy_columns(batch: Any, kinds: np.ndarray, places: np.ndarray, X: np.ndarray, y: np.ndarray) -> None:
    """Copy the columns of a record batch to columns of X, or to y, with NaN for cells that are missing.

    Parameters
    ----------
    batch : pyarrow.RecordBatch, or whatever has `__arrow_c_array__`
        Of as many rows as X and y. The caller answers for its types.
    kinds : ndarray of int64
        Type of each column, by `KINDS`.
    places : ndarray of int64
        For each column where it goes: a column of X, or `LABEL`.
    X, y : ndarray
        Written to.

    Examples
    --------
    >>> import pyarrow
    >>> batch = pyarrow.record_batch({"a": [1.0, None, 3.0], "b": [4, 5, 6]})
    >>> X, y = np.empty((3, 1)), np.empty(3)
    >>> copy_columns(batch, np.array([0, 2]), np.array([0, LABEL]), X, y)
    >>> X.ravel(), y
    (array([ 1., nan,  3.]), array([4., 5., 6.]))
    """
    _, capsule = batch.__arrow_c_array__()
    _fill(_address(capsule, b"arrow_array"), kinds, places, X, y)


_address = ctypes.pythonapi.PyCapsule_GetPointer
_address.restype, _address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
