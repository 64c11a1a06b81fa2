import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpconvex.problem import domains

DOMAINS = [domains.Everywhere(), domains.L2Ball(1.5), domains.Box(-0.5, 2.0)]
points = arrays(float, 4, elements=st.floats(-10.0, 10.0))


def test_every_domain_is_under_contract():
    public = {v for v in vars(domains).values() if isinstance(v, type) and v.__module__ == domains.__name__}
    assert {type(domain) for domain in DOMAINS} == public


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@given(points, points)
def test_projection_is_idempotent_and_nearest(domain, w, v):
    p, q = domain.project(w), domain.project(v)
    assert np.allclose(domain.project(p), p, atol=1e-12)
    assert (w - p) @ (q - p) <= 1e-9 * (1 + abs(w).max()) ** 2  # variational inequality
    assert np.linalg.norm(p - q) <= np.linalg.norm(w - v) * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@given(points, points)
def test_diameter_and_reach(domain, w, v):
    p, q = domain.project(w), domain.project(v)
    assert np.linalg.norm(p - q) <= domain.diameter(4) * (1 + 1e-12)
    assert np.linalg.norm(p) <= domain.reach(4) * (1 + 1e-12)
    assert np.array_equal(domain.project(np.zeros(4)), np.zeros(4))


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@given(points)
def test_the_scalar_methods_compose_to_the_projection(domain, w):
    by_parts = np.array([domain.clip(x) for x in w])
    by_parts = by_parts * domain.rescale(float(by_parts @ by_parts))
    assert np.allclose(by_parts, domain.project(w), atol=1e-12)
    assert domain.clips() == (type(domain) is domains.Box)
