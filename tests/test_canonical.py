"""Canonical JSON against another implementation of RFC 8785."""

import math
import struct

import numpy as np
import pytest
import rfc8785

from dpconvex.canonical import canonical, portable


def test_numbers_are_written_as_everywhere():
    words = np.random.default_rng(0).integers(0, 2**64, 20_000, dtype=np.uint64)
    any_bits = [value for (value,) in struct.iter_unpack("<d", words.tobytes()) if math.isfinite(value)]
    plain = [sign * float(f"{digits}e{power}") for sign in (1, -1) for digits in ("1", "1.5", "1.2345678901234567")
             for power in range(-30, 30)]  # fmt: skip
    edges = [0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 9007199254740993.0, 1e16, 1e21, 1e-6]
    for value in [*any_bits, *plain, *edges, True, False, None, 0, -7, 2**53 - 1, 1 - 2**53]:
        assert canonical(value) == rfc8785.dumps(value)


def test_texts_and_keys_are_written_as_everywhere():
    text = "".join(map(chr, range(0x20A))) + '\u2028\ufb33\U0001f600"\\/'
    keys = ["\ufb33", "\U0001f600", "\u20ac", "\r", "1", "\u0080", "\u00f6", "", "a", "B"]  # UTF-16 puts emoji first
    value = {"of": [text, *text, {}, [], [[]], {"": {}}], "keys": {key: [key] for key in keys}, "pair": (1, "x")}
    assert canonical(value) == rfc8785.dumps(value)
    assert canonical({"a": [2**53, -(2**60)]}) == rfc8785.dumps(portable({"a": [2**53, -(2**60)]}))


@pytest.mark.parametrize("value", [math.nan, -math.inf, {1: 2}, {"a": 1, 2: 3}, {1, 2}, np.int64(3), "\ud800", b"x"])
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        canonical([value])
