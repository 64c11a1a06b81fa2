import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dpconvex as dc
from dpconvex.problem import domains
from dpconvex.problem.geometry import lp_norms
from dpconvex.testing.domains import check_between

LP_BALLS = [domains.LpBall(p, 1.5) for p in (1.0, 1.2, 1.7, 2.0, 3.0, 20.0, np.inf)]
DOMAINS = [
    domains.Everywhere(), domains.L2Ball(1.5), domains.Box(-0.5, 2.0), domains.L1Ball(2.5), *LP_BALLS,
    domains.Simplex(2.5),
]  # fmt: skip
PUBLIC = [k for name in domains.__all__ if isinstance(k := getattr(domains, name), type) and issubclass(k, tuple)]
DOMAINS += [
    kind(*(1.5 for field in kind._fields if field not in kind._field_defaults))
    for kind in PUBLIC
    if kind not in map(type, DOMAINS)
]
BY_PARTS = [domain for domain in DOMAINS if domain.traits.rowwise]
BALLS = [domain for domain in DOMAINS if domain.traits.norm is not None]
points = arrays(float, 4, elements=st.floats(-10.0, 10.0))


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@given(points, points)
def test_the_contract_at_every_pair_of_points(domain, w, v):
    check_between(domain, w, v)


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("d", [2, 4, 9])
def test_the_contract(domain, d):
    dc.testing.check_domain(domain, d=d)


BROKEN = {
    "project": lambda domain, w: 0.9 * type(domain).__mro__[1].project(domain, w),
    "diameter": lambda domain, d: 0.7 * type(domain).__mro__[1].diameter(domain, d),
    "reach": lambda domain, d: 0.9 * type(domain).__mro__[1].reach(domain, d),
    "support": lambda domain, v: 0.9 * type(domain).__mro__[1].support(domain, v),
    "gaussian_width": lambda domain, d: 0.5 * type(domain).__mro__[1].gaussian_width(domain, d),
    "lowest": lambda domain, g: None,
}


@pytest.mark.parametrize("method", BROKEN)
@pytest.mark.parametrize("domain", [domains.L2Ball(1.5), domains.L1Ball(2.5)], ids=str)
def test_a_broken_domain_breaks_the_contract(domain, method):
    broken = type("Broken", (type(domain),), {method: BROKEN[method]})(*domain)
    with pytest.raises(AssertionError, match="Broken"):
        dc.testing.check_domain(broken, d=2, points=1000)


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@given(points)
def test_the_lowest_point_is_in_the_domain_and_minus_the_support(domain, g):
    lowest = domain.lowest(g)
    if lowest is None:
        assert g.any()
        assert not domain.traits.bounded
        return
    assert np.allclose(domain.project(lowest), lowest, atol=1e-12)
    assert g @ lowest == pytest.approx(-domain.support(-g), rel=1e-12, abs=1e-12) or not g.any()
    if not g.any():
        assert np.array_equal(lowest, domain.centre(4))


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_the_traits_are_true(domain):
    traits = domain.traits
    assert traits.bounded == np.isfinite(domain.diameter(4)) == np.isfinite(domain.support(np.ones(4)))
    assert traits.origin == np.array_equal(domain.project(np.zeros(4)), np.zeros(4))
    assert traits.origin == np.array_equal(domain.centre(4), np.zeros(4))
    assert np.allclose(domain.project(domain.centre(4)), domain.centre(4))
    if type(domain) is domains.LpBall:
        assert not any((traits.corners, traits.interval, traits.inside, traits.rowwise))
        return
    assert traits.inside
    apart = np.array([domain.project(10.0 * row).nonzero()[0].size for row in np.eye(4)])
    together = domain.project(np.full(4, 10.0))
    alone = np.array([domain.project(np.array([10.0]))[0]] * 4)
    assert (traits.interval is not None) == (np.allclose(together, alone) and (apart == 1).all())
    if traits.interval is not None:
        ends = [float(domain.project(np.array([end]))[0]) for end in (-1e9, 1e9)]
        assert ends == [max(traits.interval[0], -1e9), min(traits.interval[1], 1e9)]
    assert np.isfinite(traits.radius) == (traits.norm is not None)
    lowest = [domain.lowest(g) for g in np.random.default_rng(0).normal(size=(20, 4))]
    assert traits.corners == all(point is not None and np.count_nonzero(point) == 1 for point in lowest)


@pytest.mark.parametrize("domain", BALLS, ids=str)
@given(points)
def test_the_norm_of_a_ball_measures_it(domain, w):
    norm = float(lp_norms(w, domain.traits.norm))
    if norm > 1e-100:
        on = w * (domain.traits.radius / norm)
        assert np.allclose(domain.project(0.999 * on), 0.999 * on, rtol=1e-12, atol=1e-12)
        assert float(lp_norms(domain.project(1.5 * on), domain.traits.norm)) == pytest.approx(domain.traits.radius)


def test_every_ball_states_its_norm():
    kinds = {type(domain) for domain in BALLS}
    assert kinds == {domains.L1Ball, domains.L2Ball, domains.LpBall}


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("d", [1, 2, 3, 10, 300])
def test_the_gaussian_width_is_an_upper_bound_and_not_a_loose_one(domain, d):
    found = [domain.support(g) for g in np.random.default_rng(d).normal(size=(4000, d))]
    error = 4.0 * np.std(found) / 4000**0.5 if np.isfinite(found[0]) else 0.0
    assert np.mean(found) <= domain.gaussian_width(d) + error
    if d >= 10 and error:
        assert domain.gaussian_width(d) <= 1.5 * np.mean(found)


@pytest.mark.parametrize("domain", BY_PARTS, ids=str)
def test_only_bounded_intervals_clip_coordinates(domain):
    assert domain.clips() == (domain.traits.interval is not None and domain.traits.bounded)


@given(points, points)
def test_the_l1_ball_projects_to_the_nearest_point_and_supports_itself(w, v):
    ball = domains.L1Ball(2.5)
    p = ball.project(w)
    assert np.abs(p).sum() <= 2.5 * (1 + 1e-12)
    assert v @ p <= ball.support(v) * (1 + 1e-12) + 1e-12
    corner = np.zeros(4)
    corner[np.abs(v).argmax()] = 2.5 * np.sign(v[np.abs(v).argmax()])
    assert v @ corner == pytest.approx(ball.support(v))


def test_the_l1_ball_by_hand():
    ball = domains.L1Ball(1.0)
    assert ball.project(np.array([0.3, -0.7])).tolist() == [0.3, -0.7]
    assert ball.project(np.array([-5.0])).tolist() == [-1.0]
    assert np.allclose(ball.project(np.array([2.0, 2.0, -2.0])), [1 / 3, 1 / 3, -1 / 3])
    assert np.abs(ball.project(np.array([1e300, 1.0]))).sum() == pytest.approx(1.0)
    assert ball.project(np.full((2, 2), 1.0)).shape == (2, 2)
    for bad in (0.0, -1.0, np.inf, np.nan):
        assert "radius" in domains.L1Ball(bad).check()


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_only_what_can_be_projected_onto_by_rows_has_the_methods_for_it(domain):
    for method in ("rescale", "clip", "clips"):
        assert hasattr(domain, method) == domain.traits.rowwise == domains.is_rowwise(domain)
