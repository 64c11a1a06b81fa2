"""The moments of a table released together: no pair of records beats what is stated, and some pair attains it."""

import math
from fractions import Fraction

import numpy as np
import pytest

import dpconvex as dc
from dpconvex import theorems
from dpconvex.errors import HypothesisError
from dpconvex.kernel.claims import Bounded, Release, Scope, concludes_fact
from dpconvex.problem.facts import Kind


@concludes_fact
def assumed_row(kind: str, value: float) -> Bounded:
    """A fact for tests: the kernel's own decorator seals it."""
    return Bounded(Kind[kind], value, "assumed by a test")


def claim(row, target, relation, scales, d=3):
    eigenvalue, second, cross = scales
    return theorems.noisy_moments(
        assumed_row("ROW_BOUND", row),
        target,
        relation,
        Release("eigenvalue", "gaussian", eigenvalue, (1,)),
        Release("second", "gaussian", second, (d * (d + 1) // 2,)),
        Release("cross", "gaussian", cross, (d,)),
    )


def shortened(rows, radius):
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows * np.minimum(1.0, radius / np.maximum(norms, 1e-300))


def distance(x, z, y, t, others, scales):
    """How far apart the two laws of the releases are, in standard deviations: a pair of data sets each entry."""
    eigenvalue, second, cross = scales
    before, after = (np.einsum("ni,nj->nij", v, v) for v in (x, z))
    moved = np.linalg.eigvalsh(others + before)[:, 0] - np.linalg.eigvalsh(others + after)[:, 0]
    return np.sqrt(
        np.square((before - after) / second).sum(axis=(1, 2))
        + np.square((y[:, None] * x - t[:, None] * z) / cross).sum(axis=1)
        + np.square(moved / eigenvalue)
    )


def attacked(row, target, relation, scales, d, rng, starts=24, tries=1500):
    """Distances at random, and the largest that ascent over records and the rest of the data finds from there."""

    def within(point):
        x, z, y, t, G = point
        z, t = (z, t) if relation == "replace_one" else (0.0 * z, 0.0 * t)
        return shortened(x, row), shortened(z, row), np.clip(y, -target, target), np.clip(t, -target, target), G

    def value(point):
        *records, G = point
        return distance(*records, 100.0 * row**2 * np.einsum("nij,nkj->nik", G, G), scales)

    shapes = ((starts, d), (starts, d), (starts,), (starts,), (starts, d, d))
    units = (row, row, target, target, 1.0)
    sizes = np.full(starts, 0.5)
    point = within(tuple(2.0 * u * rng.normal(size=s) for u, s in zip(units, shapes, strict=True)))
    at_random = found = value(point)
    for _ in range(tries):
        step = (u * rng.normal(size=s) * (rng.random(s) < 0.5) for u, s in zip(units, shapes, strict=True))
        moved = within(tuple(p + sizes.reshape(-1, *[1] * (p.ndim - 1)) * q for p, q in zip(point, step, strict=True)))
        then = value(moved)
        better = then > found
        point = tuple(
            np.where(better.reshape(-1, *[1] * (p.ndim - 1)), q, p) for p, q in zip(point, moved, strict=True)
        )
        found = np.where(better, then, found)
        sizes = np.where(better, np.minimum(1.1 * sizes, 1.0), np.maximum(0.98 * sizes, 1e-5))
    return at_random, found


# Scales of eigenvalue, second and cross; the angle is right, between, and none.
SCALES = [(2.0, 1.0, 1.0), (1.0, 1.0, 5.0), (1.0, 3.0, 1.0), (4.0, 2.0, 0.7), (8.0, 8.0, 0.5), (0.3, 5.0, 2.0)]


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("scales", SCALES, ids=str)
@pytest.mark.parametrize("d", [2, 3])
def test_no_pair_of_records_beats_the_joint_claim_and_some_pair_attains_it(scales, relation, d):
    row, target = 1.3, 0.8
    scales = tuple(s * u for s, u in zip(scales, (row**2, row**2, row * target), strict=True))
    mu = claim(row, target, relation, scales, d).profile.mu
    at_random, found = attacked(row, target, relation, scales, d, np.random.default_rng(7))
    assert max(at_random.max(), found.max()) <= mu * (1.0 + 1e-9)
    assert found.max() >= mu * (1.0 - 1e-3)


def test_in_one_dimension_it_is_a_bound():
    for relation in ("replace_one", "zero_out"):
        for scales in SCALES:
            mu = claim(1.0, 1.0, relation, scales, 1).profile.mu
            _, found = attacked(1.0, 1.0, relation, scales, 1, np.random.default_rng(3), starts=8, tries=300)
            assert found.max() <= mu * (1.0 + 1e-9)


def test_random_settings_of_everything():
    """Rows and targets of every length, in up to five dimensions, at scales over four orders of magnitude."""
    rng = np.random.default_rng(11)
    for trial in range(150):
        d, relation = int(rng.integers(1, 6)), ("replace_one", "zero_out")[trial % 2]
        row, target, *scales = np.exp(rng.normal(size=5) * 1.5)
        scales = np.array(scales) * [row**2, row**2, row * target]
        x, z = (shortened(row * rng.normal(size=(400, d)) * rng.choice([0.3, 1.0, 30.0]), row) for _ in range(2))
        y, t = target * rng.choice([-1.0, 1.0, 0.4], size=(2, 400))
        if relation == "zero_out":
            z, t = 0.0 * z, 0.0 * t
        G = rng.normal(size=(400, d, d)) * rng.choice([0.0, 0.5, 10.0], size=(400, 1, 1)) * row
        found = distance(x, z, y, t, np.einsum("nij,nkj->nik", G, G), scales)
        assert found.max() <= claim(row, target, relation, scales, d).profile.mu * (1.0 + 1e-9)


def test_it_is_the_largest_over_the_angle():
    cosines = np.linspace(0.0, 1.0, 100_001)
    for eigenvalue, second, cross in SCALES:
        squares = (2 / second**2 + 1 / eigenvalue**2) * (1 - cosines**2) + 2 * (1 + cosines) / cross**2
        mu = claim(1.0, 1.0, "replace_one", (eigenvalue, second, cross)).profile.mu
        assert mu == pytest.approx(math.sqrt(squares.max()), rel=1e-9)
        assert mu**2 >= squares.max()


def test_it_never_costs_more_than_three_claims_composed_and_as_much_when_masking():
    for scales in SCALES:
        for relation in ("replace_one", "zero_out"):
            joint = claim(1.0, 1.0, relation, scales).profile.mu
            parts = []
            for which, scale in zip(("eigenvalue", "second", "cross"), scales, strict=True):
                moved = theorems.moment_sums(assumed_row("ROW_BOUND", 1.0), 1.0, relation, which)
                parts.append(theorems.gaussian(moved, Release(which, "gaussian", scale, (1,))))
            apart = theorems.compose(parts).profile.mu
            assert joint < apart if relation == "replace_one" else joint == pytest.approx(apart, rel=1e-10)


def test_it_is_rounded_up_and_does_not_jump_where_its_form_changes():
    # second and eigenvalue at 1, 1 make r^2 = 3; cross around 1/r
    at = 1 / math.sqrt(3)
    values = [claim(1.0, 1.0, "replace_one", (1.0, 1.0, at * f)).profile.mu for f in (1 - 1e-9, 1.0, 1 + 1e-9)]
    assert values == pytest.approx([2 * math.sqrt(3)] * 3, rel=1e-8)
    assert values[0] >= values[1] >= values[2]
    for scales in SCALES:
        e, s, c = (Fraction(v) for v in scales)
        r2, m2 = 2 / s**2 + 1 / e**2, 1 / c**2
        exact = (r2 + m2) ** 2 / r2 if m2 < r2 else 4 * m2
        mu = Fraction(claim(1.0, 1.0, "replace_one", scales).profile.mu)
        assert exact <= mu**2 <= exact * (1 + Fraction(1, 10**10))
        mu = Fraction(claim(1.0, 1.0, "zero_out", scales).profile.mu)
        assert 1 / s**2 + 1 / e**2 + m2 <= mu**2


def test_it_covers_everything_and_refuses_what_it_cannot_use():
    sound = claim(1.0, 1.0, "replace_one", (1.0, 1.0, 1.0), 2)
    assert (sound.scope, sound.relation, sound.unit) == (Scope.EVERY, "replace_one", 1)
    assert [r.name for r in sound.releases] == ["eigenvalue", "second", "cross"]
    row, one = assumed_row("ROW_BOUND", 1.0), Release("eigenvalue", "gaussian", 1.0, (1,))
    second, cross = Release("second", "gaussian", 1.0, (3,)), Release("cross", "gaussian", 1.0, (2,))
    for bad in (0.0, -1.0, math.inf, math.nan, True, "1"):
        with pytest.raises(HypothesisError, match="target"):
            theorems.noisy_moments(row, bad, "replace_one", one, second, cross)
    with pytest.raises(HypothesisError, match="must be a Fact"):
        theorems.noisy_moments(1.0, 1.0, "replace_one", one, second, cross)
    with pytest.raises(HypothesisError, match="ROW_BOUND"):
        theorems.noisy_moments(assumed_row("LIPSCHITZ", 1.0), 1.0, "replace_one", one, second, cross)
    with pytest.raises(dc.errors.InputError, match="relation"):
        theorems.noisy_moments(row, 1.0, "swap", one, second, cross)
    with pytest.raises(HypothesisError, match="twice"):
        theorems.noisy_moments(row, 1.0, "replace_one", one, second, Release("second", "gaussian", 1.0, (2,)))
    for wrong, words in (
        ((one, second, Release("cross", "gaussian", 1.0, (3,))), "second must have the shape"),
        ((one, Release("second", "gaussian", 1.0, (4,)), cross), "second must have the shape"),
        ((one, second, Release("cross", "gaussian", 1.0, (2, 1))), "cross must have the shape"),
        ((Release("eigenvalue", "gaussian", 1.0, (2,)), second, cross), "eigenvalue must have the shape"),
        ((Release("eigenvalue", "gaussian", 0.0, (1,)), second, cross), "noise"),
        ((one, Release("second", "laplace", 1.0, (3,)), cross), "Gaussian noise only"),
        ((one, second, Release("cross", "gaussian", 1.0, (2,), 2)), "drawn once"),
        ((one, second, None), "must be a Release"),
    ):
        with pytest.raises(HypothesisError, match=words):
            theorems.noisy_moments(row, 1.0, "replace_one", *wrong)
