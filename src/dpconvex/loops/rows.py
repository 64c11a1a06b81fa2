"""Row containers: what a loop needs to know of row i, with the row bound and the constant feature built in.

`radius` is the largest l2 norm of the features of a row: a longer row is used as if shortened to it. Nothing is
copied, X may be float32, every sum is float64. Loops over one row are kept short and do one thing: so they use
vector registers. `weights` are how much each record counts, from 0 to 1, and `people` whose it is, as numbers from 0;
an algorithm is given neither unless it says that it takes them.

Nothing is copied or begun again for a row beyond its bound, so that the time of a run does not tell of it. A row whose
squared norm overflows counts as a row of zeros; all it takes is a second look at its entries. NaN and infinities stand
for nothing: `length` returns an infinite norm for a row that holds one, and the loops refuse it when they have read all
they were given.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

EVEN = np.empty(0)  # every record counts once
APART = np.empty(0, dtype=np.int64)  # every record is somebody else's


NOT_FINITE = "X holds entries that are not finite (NaN or infinite); mend or drop them first"


class Dense(NamedTuple):
    """Rows of a two-dimensional array in C order."""

    X: np.ndarray
    radius: float
    constant: float
    weights: np.ndarray = EVEN
    people: np.ndarray = APART

    def square(self, i):
        """Return the squared norm of the features of row i."""
        X = self.X
        norm2 = 0.0
        for j in range(X.shape[1]):
            norm2 += np.float64(X[i, j]) * np.float64(X[i, j])
        return norm2

    def length(self, i):
        """Return the factor that shortens row i to the radius, and the squared norm of the shortened row."""
        X = self.X
        norm2 = 0.0
        for j in range(X.shape[1]):
            norm2 += np.float64(X[i, j]) * np.float64(X[i, j])
        if not norm2 < math.inf:  # too long to be squared, or not finite
            zero = 0.0
            for j in range(X.shape[1]):
                zero += 0.0 * np.float64(X[i, j])
            return 0.0, self.constant * self.constant if zero == 0.0 else math.inf
        norm = math.sqrt(norm2)
        shorten = self.radius / max(self.radius, norm)
        norm = min(norm, self.radius)
        return shorten, norm * norm + self.constant * self.constant

    def dot(self, i, shorten, v):
        """Inner product of the shortened row and v."""
        X = self.X
        total = 0.0
        for j in range(X.shape[1]):
            total += (shorten * np.float64(X[i, j])) * v[j]
        if self.constant != 0.0:
            total += self.constant * v[X.shape[1]]
        return total

    def add(self, i, shorten, p, v):
        """Add p times the shortened row to v."""
        X = self.X
        ps = p * shorten
        for j in range(X.shape[1]):
            v[j] += ps * np.float64(X[i, j])
        if self.constant != 0.0:
            v[X.shape[1]] += p * self.constant

    def add_both(self, i, shorten, p, v, q, m):
        """Add p times the shortened row to v and q times to m."""
        X = self.X
        ps = p * shorten
        for j in range(X.shape[1]):
            v[j] += ps * np.float64(X[i, j])
        qs = q * shorten
        for j in range(X.shape[1]):
            m[j] += qs * np.float64(X[i, j])
        if self.constant != 0.0:
            v[X.shape[1]] += p * self.constant
            m[X.shape[1]] += q * self.constant

    def add_clipped(self, i, shorten, p, v, m, a, k, theta, domain):
        """Add p times the shortened row to v, clip a v to the domain, and keep the average m + k v in step."""
        X = self.X
        ps = p * shorten
        for j in range(X.shape[1]):
            old = v[j]
            new = domain.clip(a * (old + ps * np.float64(X[i, j]))) / a
            v[j] = new
            m[j] += (theta * a - k) * (new - old)
        if self.constant != 0.0:
            j = X.shape[1]
            old = v[j]
            new = domain.clip(a * (old + p * self.constant)) / a
            v[j] = new
            m[j] += (theta * a - k) * (new - old)


class CSR(NamedTuple):
    """Rows of a compressed sparse row matrix without repeated entries."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    d: int
    radius: float
    constant: float
    weights: np.ndarray = EVEN
    people: np.ndarray = APART

    def square(self, i):
        """Return the squared norm of the features of row i."""
        norm2 = 0.0
        for e in range(self.indptr[i], self.indptr[i + 1]):
            norm2 += np.float64(self.data[e]) * np.float64(self.data[e])
        return norm2

    def length(self, i):
        """Return the factor that shortens row i to the radius, and the squared norm of the shortened row."""
        norm2 = 0.0
        for e in range(self.indptr[i], self.indptr[i + 1]):
            norm2 += np.float64(self.data[e]) * np.float64(self.data[e])
        if not norm2 < math.inf:
            zero = 0.0
            for e in range(self.indptr[i], self.indptr[i + 1]):
                zero += 0.0 * np.float64(self.data[e])
            return 0.0, self.constant * self.constant if zero == 0.0 else math.inf
        norm = math.sqrt(norm2)
        shorten = self.radius / max(self.radius, norm)
        norm = min(norm, self.radius)
        return shorten, norm * norm + self.constant * self.constant

    def dot(self, i, shorten, v):
        """Inner product of the shortened row and v."""
        total = 0.0
        for e in range(self.indptr[i], self.indptr[i + 1]):
            total += (shorten * np.float64(self.data[e])) * v[self.indices[e]]
        if self.constant != 0.0:
            total += self.constant * v[self.d]
        return total

    def add(self, i, shorten, p, v):
        """Add p times the shortened row to v."""
        ps = p * shorten
        for e in range(self.indptr[i], self.indptr[i + 1]):
            v[self.indices[e]] += ps * np.float64(self.data[e])
        if self.constant != 0.0:
            v[self.d] += p * self.constant

    def add_both(self, i, shorten, p, v, q, m):
        """Add p times the shortened row to v and q times to m."""
        ps = p * shorten
        qs = q * shorten
        for e in range(self.indptr[i], self.indptr[i + 1]):
            v[self.indices[e]] += ps * np.float64(self.data[e])
            m[self.indices[e]] += qs * np.float64(self.data[e])
        if self.constant != 0.0:
            v[self.d] += p * self.constant
            m[self.d] += q * self.constant

    def add_clipped(self, i, shorten, p, v, m, a, k, theta, domain):
        """Add p times the shortened row to v, clip a v to the domain, and keep the average m + k v in step."""
        ps = p * shorten
        for e in range(self.indptr[i], self.indptr[i + 1]):
            j = self.indices[e]
            old = v[j]
            new = domain.clip(a * (old + ps * np.float64(self.data[e]))) / a
            v[j] = new
            m[j] += (theta * a - k) * (new - old)
        if self.constant != 0.0:
            old = v[self.d]
            new = domain.clip(a * (old + p * self.constant)) / a
            v[self.d] = new
            m[self.d] += (theta * a - k) * (new - old)


class Tensors(NamedTuple):
    """Rows of a tensor, and the device that sums over them are computed on: for sums alone, no loop reads them.

    `X` is a tensor of PyTorch, or another array of the array API standard; `device` is None for that of X.
    """

    X: Any
    radius: float
    constant: float
    weights: np.ndarray = EVEN
    people: np.ndarray = APART
    device: Any = None


class Records(NamedTuple):
    """Records of a loss of the user's own: whatever has a first axis, and labels or None."""

    X: Any
    y: Any
    weights: np.ndarray = EVEN
    people: np.ndarray = APART

    def take(self, which: Any) -> Records:
        """Some of them: a slice, or their numbers."""
        weights, people = (part[which] if len(part) else part for part in (self.weights, self.people))
        return Records(self.X[which], None if self.y is None else self.y[which], weights, people)


def entries(rows: AnyRows) -> tuple[np.ndarray, ...]:
    """The arrays that hold what was given."""
    if isinstance(rows, CSR):
        return rows.data, rows.indices, rows.indptr
    found = [rows.X] if isinstance(rows, Dense) else [part for part in (rows.X, rows.y) if part is not None]
    return tuple(part for x in found for part in ((x,) if isinstance(x, np.ndarray) else (x.data, x.indices, x.indptr)))


Rows = Dense | CSR
AnyRows = Rows | Records
