import math

import numpy as np
import pytest
from scipy.optimize import minimize

import dpconvex as dc
from dpconvex.errors import InputError
from dpconvex.games import lazy, learners
from dpconvex.games.domains import coordinate_range, project_weighted
from dpconvex.games.potentials import Entropy, PNorm
from dpconvex.problem.domains import Box, Everywhere, L1Ball, L2Ball, LpBall, Simplex

BOUNDED = [L2Ball(1.5), Box(-0.5, 2.0), Box(0.0, 1.0), L1Ball(2.5), Simplex()]
RNG = np.random.default_rng(0)


def points_of(domain, d, count=200):
    return np.array([domain.project(3.0 * RNG.normal(size=d)) for _ in range(count)])


@pytest.mark.parametrize("d", [1, 2, 7])
def test_the_simplex_projects_to_the_nearest_point(d):
    inside = RNG.dirichlet(np.ones(d), size=50)
    for w in 5.0 * RNG.normal(size=(50, d)):
        p = Simplex().project(w)
        assert p.min() >= 0.0
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        assert ((inside - p) @ (w - p)).max() <= 1e-9  # variational inequality
    assert np.allclose([Simplex().project(x) for x in inside], inside)
    assert Simplex().project(np.array([1e300] + [0.0] * (d - 1)))[0] == 1.0


@pytest.mark.parametrize("domain", BOUNDED, ids=str)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_farthest_and_lowest_points_and_ranges_are_exact(domain, d):
    start = domain.project(RNG.normal(size=d))
    corners = np.array([domain.lowest(g) for g in RNG.normal(size=(4000, d))])
    assert all(np.allclose(domain.project(c), c) for c in corners[:20])
    distances = np.linalg.norm(corners - start, axis=1)
    assert distances.max() <= domain.farthest(start) * (1 + 1e-12)
    assert distances.max() >= 0.97 * domain.farthest(start)
    for g in RNG.normal(size=(20, d)):
        assert g @ domain.lowest(g) <= (points_of(domain, d) @ g).min() + 1e-12
    assert np.allclose(domain.project(domain.centre(d)), domain.centre(d))
    assert np.allclose(domain.lowest(np.zeros(d)), domain.centre(d))
    if not isinstance(domain, Simplex):
        lo, hi = coordinate_range(domain)
        assert lo - 1e-12 <= corners.min() <= lo + 0.02
        assert hi - 0.02 <= corners.max() <= hi + 1e-12


def test_linear_losses_have_no_best_point_everywhere():
    assert Everywhere().lowest(np.array([1.0, 0.0])) is None
    assert L2Ball(2.0).lowest(np.array([1e-200, 0.0])).tolist() == [-2.0, 0.0]
    assert math.isinf(Everywhere().farthest(np.zeros(2)))


@pytest.mark.parametrize("domain", [Everywhere(), L2Ball(1.5), Box(-0.5, 2.0), L1Ball(2.5)], ids=str)
@pytest.mark.parametrize("spread", [0.0, 3.0, 8.0])
def test_weighted_projection_satisfies_its_variational_inequality(domain, spread):
    for _ in range(50):
        z, h = 5.0 * RNG.normal(size=6), 10.0 ** RNG.uniform(-spread, 0.0, size=6)
        w = project_weighted(domain, z, h)
        assert np.allclose(domain.project(w), w, atol=1e-12)
        if isinstance(domain, Everywhere):
            assert np.array_equal(w, z)
        else:
            assert (h * (z - w)) @ (domain.lowest(-h * (z - w)) - w) <= 1e-7 * np.abs(h * z).max()


def test_weighted_projection_gives_up_coordinates_without_weight():
    for domain in (L2Ball(1.0), L1Ball(1.0)):
        assert np.allclose(project_weighted(domain, np.array([0.9, 0.9]), np.array([2.0, 0.0])), [0.9, 0.0], atol=1e-6)
        assert np.array_equal(project_weighted(domain, np.array([0.5, 0.0]), np.zeros(2)), [0.5, 0.0])


@pytest.mark.parametrize("p", [1.05, 1.3, 1.7, 2.0])
@pytest.mark.parametrize("domain", [Everywhere(), Box(-0.5, 0.2), Box(0.0, 0.3), L1Ball(0.7)], ids=str)
def test_p_norm_response_is_the_maximiser(p, domain):
    potential, start = PNorm(p), np.zeros(5)
    for scale in (1e-3, 1.0, 30.0):
        theta = scale * RNG.normal(size=5)
        w = potential.respond(theta, domain, start)
        tilt = theta - potential.mirror(w, theta, start)  # lies in the normal cone at w
        assert np.allclose(domain.project(w), w, atol=1e-12)
        if isinstance(domain, Everywhere):
            assert np.allclose(tilt, 0.0, atol=1e-9 * scale)
        else:
            assert tilt @ (domain.lowest(-tilt) - w) <= 1e-7 * scale


def test_p_norm_response_against_a_solver():
    theta, potential = np.array([3.0, -4.0, 0.5]), PNorm(1.5)
    for domain, split in ((L1Ball(1.0), 1.0), (Box(0.0, 0.4), None)):
        if split:  # w = a - b with a, b >= 0
            found = minimize(
                lambda v: potential.excess(v[:3] - v[3:], np.zeros(3)) - theta @ (v[:3] - v[3:]),
                np.full(6, 0.1),
                bounds=[(0.0, 1.0)] * 6,
                constraints={"type": "ineq", "fun": lambda v: 1.0 - v.sum()},
                method="SLSQP",
                options={"ftol": 1e-14, "maxiter": 1000},
            ).x
            found = found[:3] - found[3:]
        else:
            found = minimize(
                lambda v: potential.excess(v, np.zeros(3)) - theta @ v, np.full(3, 0.1), bounds=[(0.0, 0.4)] * 3
            ).x
        assert np.allclose(potential.respond(theta, domain, np.zeros(3)), found, atol=1e-4)


def test_entropy_keeps_weights_that_vanish():
    w = Entropy().respond(np.array([0.0, -2000.0]), Simplex(), np.full(2, 0.5))
    assert w.tolist() == [1.0, 0.0]
    assert Entropy().mirror(w, np.array([0.0, -2000.0]), w).tolist() == [0.0, -2000.0]
    assert Entropy().excess(np.array([1.0, 0.0]), np.full(2, 0.5)) == pytest.approx(math.log(2.0))


@pytest.mark.parametrize("p", [1.0, 0.5, 2.1, math.nan, math.inf, -1.0])
def test_p_outside_of_its_range_is_refused(p):
    with pytest.raises(InputError, match="p must lie in"):
        PNorm(p).check(Everywhere(), "FTRL")


@pytest.mark.parametrize("p", [1.05, 1.5, 2.0])
def test_strong_convexity_and_widths_of_p_norms(p):
    potential, start = PNorm(p), np.zeros(4)
    for x, y in RNG.normal(size=(200, 2, 4)):
        divergence = potential.excess(x, start) - potential.excess(y, start) - potential.mirror(y, y, start) @ (x - y)
        assert divergence >= 0.5 * np.linalg.norm(x - y, p) ** 2 * (1 - 1e-9)
    for domain in (Box(-0.5, 2.0), L1Ball(1.5)):
        inside = points_of(domain, 4)
        assert max(potential.excess(u, start) for u in inside) <= potential.width(domain, start) * (1 + 1e-12)
        gaps = [np.linalg.norm(u - v, p) for u in inside[:40] for v in inside[:40]]
        assert max(gaps) <= potential.diameter(domain, 4) * (1 + 1e-12)


def test_games_take_the_simplex_of_radius_1_and_no_lp_ball():
    assert Simplex is dc.domains.Simplex
    for domain, words in ((Simplex(2.0), "radius 1"), (Simplex(-1.0), "positive"), (LpBall(3.0, 1.0), "cannot play")):
        for learner in (
            learners.SubgradientDescent,
            learners.OnlineMirrorDescent,
            learners.FTRL,
            learners.OptimisticDescent,
        ):
            with pytest.raises(InputError, match=words):
                learner(domain, 0.1) if learner is learners.OnlineMirrorDescent else learner(domain)
        for lazily in (lazy.LazyLeader, lazy.BlockedFTRL):
            with pytest.raises(InputError, match="play on"):
                lazily(domain, horizon=100, lipschitz=1.0, switches=10)
    with pytest.raises(InputError, match="radius 1"):
        learners.FTRL(Simplex(2.0), potential=Entropy())
