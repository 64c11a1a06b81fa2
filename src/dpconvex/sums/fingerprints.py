"""Keyed fingerprints of rows: whether a part that is read again still holds what it held.

Without the key, which is drawn for every run and never written anywhere, a fingerprint says nothing of the rows. Pairs
of words of 32 bits are hashed by NH (Black et al. 1999) in blocks, at the speed of memory, and the blocks by BLAKE2b:
rows that differ have the same fingerprint with a probability of at most 2^-32.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from dpconvex.loops.protocol import compiled
from dpconvex.loops.rows import Dense, Rows

_WORDS = 2048  # of a block, of 64 bits each


@compiled
def _hash(words, key, out):
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for block in range(out.shape[0]):
        part, total = words[block * key.shape[0] : (block + 1) * key.shape[0]], np.uint64(0)
        for i in range(part.shape[0]):
            x, k = part[i], key[i]
            total += ((x + k) & low) * (((x >> half) + (k >> half)) & low)
        out[block] = total


@lru_cache(maxsize=4)
def _words(key: bytes) -> np.ndarray:
    return np.frombuffer(hashlib.shake_256(b"words" + key).digest(8 * _WORDS), np.uint64)


def fingerprint(key: bytes, rows: Rows, y: np.ndarray) -> bytes:
    """Fingerprint of rows, labels and weights under a key of 16 bytes.

    Examples
    --------
    >>> rows, key = Dense(np.eye(3), 1.0, 0.0), bytes(16)
    >>> one, other = fingerprint(key, rows, np.ones(3)), fingerprint(key, rows, np.array([1.0, 1.0, -1.0]))
    >>> len(one), one == other, one == fingerprint(key, rows, np.ones(3))
    (8, False, True)
    """
    name = hashlib.blake2b(key=key, digest_size=8)
    words = _words(key)
    stored = (rows.X,) if isinstance(rows, Dense) else (rows.data, rows.indices, rows.indptr)
    for column in (*stored, y, rows.weights):
        column = np.ascontiguousarray(column)
        name.update(f"{column.dtype.str}{column.shape}".encode())
        data = column.view(np.uint8).ravel() if column.size else np.empty(0, np.uint8)
        whole = len(data) // 8 * 8
        blocks = np.empty(-(-whole // (8 * _WORDS)), np.uint64)
        _hash(data[:whole].view(np.uint64), words, blocks)
        name.update(blocks.tobytes() + data[whole:].tobytes())
    return name.digest()
