"""Samplers of Gibbs laws against laws computed by other means; a Kolmogorov-Smirnov p-value must exceed 1e-3."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy.special import gammainc
from scipy.stats import gamma, kstest, ncx2, truncnorm

from dpconvex.errors import InputError
from dpconvex.noise.gibbs import (
    PLACES,
    GibbsBall,
    GibbsBox,
    GibbsInterval,
    GibbsProduct,
    _log_density,
    _mode,
    _steps,
    _width,
    running,
    uniform,
)
from dpconvex.noise.source import Source

P_VALUE = 1e-3


def stream(name):
    return Source(11).stream(name)


def marginal(d, a, c):
    """Distribution function of the coordinate along -tilt in the unit ball, by the trapezoidal rule in the angle."""
    angle = np.linspace(-np.pi / 2, np.pi / 2, 200_001)
    z, k, q = np.sin(angle), (d - 1) / 2, c * np.cos(angle) ** 2 / 2
    with np.errstate(divide="ignore"):
        rest = 0.0 if d == 1 else np.log(gammainc(k, q)) if c > 0.0 else k * np.log(np.cos(angle) ** 2)
        log = a * z - c * z * z / 2 + np.log(np.cos(angle)) + rest
    p = np.exp(log - np.nanmax(log))
    whole = np.concatenate([[0.0], np.cumsum(p[1:] + p[:-1])])
    return lambda y: np.interp(y, z, whole / whole[-1])


BALLS = [
    (1, 0.0, 0.0), (1, 3.0, 5.0), (1, 900.0, 1.0), (2, 0.0, 0.0), (2, 0.0, 100.0), (2, 40.0, 1.0), (3, 5.0, 0.0),
    (4, 200.0, 1000.0), (10, 500.0, 60.0), (10, 30.0, 60.0), (10, 434.0, 118.8), (100, 50.0, 300.0),
]  # fmt: skip


@pytest.mark.parametrize(("d", "a", "c"), BALLS)
def test_the_coordinate_along_the_tilt_and_the_norm_have_their_laws(d, a, c):
    radius = 2.5
    towards = np.random.default_rng(d).normal(size=d)
    towards /= np.linalg.norm(towards)
    x = GibbsBall(-a / radius * towards, c / radius**2, radius).draw(stream(f"{d} {a} {c}"), 20_000) / radius
    assert np.linalg.norm(x, axis=1).max() <= 1.0 + 1e-15
    assert kstest(x @ towards, marginal(d, a, c)).pvalue > P_VALUE
    if c > 0.0 and (whole := ncx2.cdf(c, d, a * a / c) if a > 0.0 else gamma.cdf(c / 2, d / 2)) > 1e-3:
        law = (lambda r: ncx2.cdf(c * r * r, d, a * a / c)) if a > 0.0 else (lambda r: gamma.cdf(c * r * r / 2, d / 2))
        assert kstest(np.linalg.norm(x, axis=1), lambda r: law(r) / whole).pvalue > P_VALUE


def test_across_the_tilt_all_directions_are_alike():
    x = GibbsBall(np.array([0.0, 7.0, 0.0]), 2.0, 1.0).draw(stream("angle"), 20_000)
    assert kstest(np.arctan2(x[:, 0], x[:, 2]) / (2 * np.pi) + 0.5, "uniform").pvalue > P_VALUE


@pytest.mark.parametrize("d", [1, 2, 5, 50])
def test_huge_tilts_and_curvatures_have_their_limits(d):
    tilt = np.zeros(d)
    tilt[0] = -1e9
    x = GibbsBall(tilt, 3.0, 1.0).draw(stream(f"tilt {d}"), 20_000)
    assert kstest(1e9 * (1.0 - x[:, 0]), gamma((d + 1) / 2).cdf).pvalue > P_VALUE
    x = GibbsBall(np.zeros(d), 1e12, 1.0).draw(stream(f"curvature {d}"), 20_000)
    assert kstest(1e6 * x[:, 0], "norm").pvalue > P_VALUE
    x = GibbsBall(1e-12 * np.ones(d), 1e-12, 1.0).draw(stream(f"flat {d}"), 20_000)
    assert kstest(np.linalg.norm(x, axis=1) ** d, "uniform").pvalue > P_VALUE


BOXES = [
    (0.0, 0.0, -1.0, 1.0), (3.0, 5.0, -1.0, 1.0), (100.0, 1.0, 0.0, 1.0), (1e4, 60.0, -1.0, 1.0),
    (-5e3, 1e4, -1.0, 1.0), (0.1, 0.5, -1.0, 1.0), (0.0, 50.0, -2.0, 0.0), (-20.0, 9.0, 0.0, 3.0),
]  # fmt: skip


@pytest.mark.parametrize(("b", "c", "lo", "hi"), BOXES)
def test_coordinates_of_a_box_have_truncated_normal_laws(b, c, lo, hi):
    x = GibbsBox(np.array([0.7, b]), c, lo, hi).draw(stream(f"{b} {c}"), 20_000)
    assert lo <= x.min()
    assert x.max() <= hi
    if c > 0.0:
        law = truncnorm((lo + b / c) * math.sqrt(c), (hi + b / c) * math.sqrt(c), -b / c, 1 / math.sqrt(c)).cdf
        assert kstest(x[:, 1], law).pvalue > P_VALUE
    else:
        assert kstest(x[:, 1], lambda y: (y - lo) / (hi - lo)).pvalue > P_VALUE


def test_a_box_far_in_the_tail_is_exponential():
    x = GibbsBox(np.array([1e8, -1e8]), 0.0, -1.0, 1.0).draw(stream("far"), 20_000)
    assert kstest(1e8 * (x[:, 0] + 1.0), "expon").pvalue > P_VALUE
    assert kstest(1e8 * (1.0 - x[:, 1]), "expon").pvalue > P_VALUE


def normaliser(a, c, d):
    half = mp.mpf(d) / 2
    return mp.nsum(
        lambda j: (
            mp.mpf(a) ** (2 * j) / (4**j * mp.factorial(j) * mp.gamma(half + j + 1))
            * mp.hyp1f1(1, half + j + 1, mp.mpf(c) / 2)
        ),
        [0, mp.inf],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("d", "a", "b", "c"),
    [
        (1, 1.0, 1.3, 2.0), (10, 50.0, 50.2, 60.0), (10, 0.1, 0.0, 60.0), (3, 20.0, 0.0, 0.0), (100, 30.0, 30.4, 500.0),
        (10, 30.0, 29.0, 0.0), (2, 3.0, 9.0, 1e-3),
    ],
)  # fmt: skip
def test_normalising_constants_of_the_ball(d, a, b, c):
    old, new = np.zeros(d), np.zeros(d)
    old[0], new[-1] = a, b
    with mp.workdps(40):
        exact = float(mp.log(normaliser(b, c, d) / normaliser(a, c, d)))
    found = GibbsBall(old / 2.0, c / 4.0, 2.0).log_ratio(new / 2.0)
    assert found == pytest.approx(exact, rel=1e-12, abs=2e-14)


def test_the_series_is_the_integral_of_the_density():
    with mp.workdps(25):
        integral = mp.quad(lambda z: mp.exp(4 * z - 3 * z * z) * mp.gammainc(1.5, 0, 3 * (1 - z * z)), [-1, 0, 1])
        flat = mp.quad(lambda z: mp.exp(-3 * z * z) * mp.gammainc(1.5, 0, 3 * (1 - z * z)), [-1, 0, 1])
        exact = float(mp.log(integral / flat))
    assert GibbsBall(np.zeros(4), 6.0, 1.0).log_ratio(np.array([0.0, 4.0, 0.0, 0.0])) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("law", [GibbsBall(np.zeros(6), 40.0, 1.5), GibbsBox(np.zeros(6), 40.0, -1.0, 2.0)])
def test_small_steps_add_up_to_a_large_one(law):
    end = np.array([3.0, -30.0, 100.0, 0.0, 1.0, 7.0])
    path = [end * s for s in np.linspace(0.0, 1.0, 2001)]
    extra = [law.radius] if isinstance(law, GibbsBall) else [law.lo, law.hi]
    steps = [type(law)(x, 40.0, *extra).log_ratio(y) for x, y in itertools.pairwise(path)]
    assert sum(steps) == pytest.approx(law.log_ratio(end), rel=1e-11)
    assert law.log_ratio(end) == pytest.approx(-type(law)(end, 40.0, *extra).log_ratio(np.zeros(6)), rel=1e-13)
    assert law.log_ratio(law.tilt) == 0.0


@pytest.mark.parametrize(
    ("b", "e", "c", "lo", "hi"),
    [(3, -2.5, 5, -1, 1), (100, 101, 1, 0, 1), (100, 101, 1e-9, -1, 2), (0, 1, 0, -1, 1), (0.1, 0.2, 0.5, -1, 1)],
)
def test_normalising_constants_of_the_box(b, e, c, lo, hi):
    with mp.workdps(30):
        points = [lo, *(lo + mp.mpf(hi - lo) / 2**i for i in range(9, -1, -1))]
        masses = [mp.quad(lambda x, t=t: mp.exp(-t * x - mp.mpf(c) * x * x / 2), points) for t in (b, e)]
        exact = float(mp.log(masses[1] / masses[0]))
    found = GibbsBox(np.array([float(b)]), float(c), lo, hi).log_ratio(np.array([float(e)]))
    assert found == pytest.approx(exact, rel=1e-12, abs=1e-14)


class Counting:
    """A stream that counts its words."""

    def __init__(self):
        self.stream, self.count = stream("count"), 0

    def words(self, count):
        self.count += count
        return self.stream.words(count)


def test_at_most_four_tries_a_draw_on_average_whatever_the_law():
    rng = np.random.default_rng(0)
    for i in range(300):
        d = int(rng.choice([1, 2, 3, 10, 300]))
        tilt = np.zeros(d) if i % 9 == 0 else 10 ** rng.uniform(-9, 9) * rng.normal(size=d)
        c = 0.0 if i % 7 == 0 else 10 ** rng.uniform(-9, 9)
        for law, laws in ((GibbsBall(tilt, c, 1.0), 2), (GibbsBox(tilt, c, -1.0, 0.5), d)):
            counting = Counting()
            x = law.draw(counting, 50)  # 12 words are asked for at once, and more only where four tries failed
            assert np.isfinite(x).all()
            assert counting.count <= 50 * (12 * laws + d) * 1.2 + 200


def test_a_product_draws_every_coordinate_from_its_interval():
    none = np.zeros(0)
    parts = [GibbsInterval(b, none, none, 9.0, 0.25, -1.0, 0.5) for b in (0.0, 4.0, -1e6)]
    x = GibbsProduct((*parts, GibbsInterval(0.0, np.zeros(1), np.array([1e9]), 0.0, 0.0, -1.0, 0.5))).draw(
        stream("product"), 20_000
    )
    for j, mean in enumerate((0.25, 0.25 - 4.0 / 9.0)):
        assert kstest(x[:, j], truncnorm(3 * (-1.0 - mean), 3 * (0.5 - mean), mean, 1 / 3).cdf).pvalue > P_VALUE
    assert kstest(1e6 * (0.5 - x[:, 2]), "expon").pvalue > P_VALUE
    assert kstest(x[:, 3], lambda y: np.clip(y + 1.0, 0.0, 1.0)).pvalue > P_VALUE


def test_a_draw_is_a_function_of_its_stream():
    law = GibbsBall(np.array([1.0, 2.0]), 1.0, 1.0)
    assert np.array_equal(law.draw(stream("s"), 5), law.draw(stream("s"), 5))
    u = uniform(stream("u"), 10_000)
    assert u.min() > 0.0
    assert u.max() < 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: GibbsBall(np.array([np.nan]), 1.0, 1.0),
        lambda: GibbsBall(np.array([1e300, 1e300]), 1.0, 1.0),
        lambda: GibbsBall(np.array([1.0]), -1.0, 1.0),
        lambda: GibbsBall(np.array([1.0]), math.nan, 1.0),
        lambda: GibbsBall(np.array([1.0]), 1.0, 0.0),
        lambda: GibbsBall(np.array([[1.0]]), 1.0, 1.0),
        lambda: GibbsBall(np.array([1]), 1.0, 1.0),
        lambda: GibbsBox(np.array([]), 1.0, 0.0, 1.0),
        lambda: GibbsBox(np.array([1.0]), 1.0, 1.0, 1.0),
        lambda: GibbsBox(np.array([1.0]), 1.0, 0.0, math.inf),
        lambda: GibbsProduct(()),
        lambda: GibbsProduct((GibbsBox(np.array([1.0]), 1.0, 0.0, 1.0),)),
    ],
)
def test_laws_that_are_none_are_refused(make):
    with pytest.raises(InputError):
        make()


def test_points_of_a_box_lie_on_one_lattice_wherever_the_density_is_largest():
    """Law and support: mirror images draw the same multiples, and no place depends on the end that is nearer."""
    law, mirrored = (GibbsBox(np.array([sign * 40.0]), 3.0, -0.7, 1.3) for sign in (1.0, -1.0))
    for each in (law, mirrored):
        share = (each.draw(stream("lattice"), 500)[:, 0] + 0.7) / 2.0
        places = np.rint(share * PLACES - 0.5)
        assert np.abs(-0.7 + 2.0 * ((places + 0.5) / PLACES) - each.draw(stream("lattice"), 500)[:, 0]).max() < 1e-15
    ball = GibbsBall(np.array([25.0]), 1.0, 1.0).draw(stream("one"), 50)
    np.testing.assert_array_equal(ball, GibbsBox(np.array([25.0]), 1.0, -1.0, 1.0).draw(stream("one"), 50))


@pytest.mark.parametrize(
    ("kind", "row", "end"),
    [
        (2, [9.0, 0.3, 0.0, 0.0], 1.0),
        (2, [0.0, 0.0, 50.0, 50.0], 1.0),
        (0, [4.5, 9.0, 0.6, 0.0], 2.0),
        (1, [6.0, 3.0, 1.0, 1.0], 1.0),
    ],
)
def test_steps_lie_above_the_density_to_the_depth_of_sixty(kind, row, end):
    """What rejection needs to be exact: nowhere is a density higher than the step over it."""
    p, heights = np.array(row), np.empty(1000, dtype=np.int64)
    m, top, flat = _mode(kind, p, end)
    begin = math.floor(m / end * PLACES) / PLACES * end
    for way in (1, -1):
        bits = _width(kind, p, end, m, top, way)
        count = _steps(kind, p, end, m, top, flat, way, bits, heights)
        for j in range(count):
            for share in (0.001, 0.25, 0.5, 0.75, 0.999):
                v = begin + way * (j + share) * end * 2.0**bits / PLACES
                if 0.0 < v < end:
                    assert _log_density(kind, p, v)[0] - top <= math.log(heights[j] / 2.0**30)
        edge = begin + way * count * end * 2.0**bits / PLACES
        assert not 0.0 < edge < end or _log_density(kind, p, edge)[0] - top < -59.0


def test_running_sums_keep_what_naive_ones_lose():
    values = np.concatenate([[1e16], np.ones(1000), [-1e16]])
    assert running(values)[-1] == 1000.0
    assert np.cumsum(values)[-1] != 1000.0
