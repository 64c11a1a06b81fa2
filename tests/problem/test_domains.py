"""l_p balls and simplices: agreement with their neighbours, the projection to many digits, feasibility, refusals."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import HypothesisError, InputError
from dpconvex.problem.domains import Box, L1Ball, L2Ball, LpBall, Simplex
from dpconvex.problem.geometry import lp_norms

EXPONENTS = (1.0005, 1.01, 1.1, 1.5, 1.999, 2.0001, 2.5, 4.0, 30.0, 1e5)


@pytest.mark.parametrize(("p", "plain"), [(1.0, L1Ball(1.5)), (2.0, L2Ball(1.5)), (math.inf, Box(-1.5, 1.5))])
def test_the_three_known_balls_are_met(p, plain, rng):
    ball = LpBall(p, 1.5)
    for d in (1, 2, 9):
        assert ball.reach(d) == pytest.approx(plain.reach(d))
        assert ball.diameter(d) == pytest.approx(plain.diameter(d))
        assert ball.gaussian_width(d) == plain.gaussian_width(d)
        for w in rng.normal(size=(20, d)) * 3:
            assert np.array_equal(ball.project(w), plain.project(w))
            assert ball.support(w) == pytest.approx(plain.support(w))


@pytest.mark.parametrize(("p", "plain"), [(1.0001, L1Ball(1.5)), (2.000001, L2Ball(1.5)), (1e6, Box(-1.5, 1.5))])
def test_the_general_projection_tends_to_the_known_ones(p, plain, rng):
    for w in rng.normal(size=(20, 6)) * 3:
        assert np.allclose(LpBall(p, 1.5).project(w), plain.project(w), atol=2e-3)


def exact(w: np.ndarray, p: float) -> np.ndarray:
    """The projection onto the unit ball by bisection, in 50 digits."""
    with localcontext() as context:
        context.prec = 50
        sizes, power = [Decimal(float(abs(v))) for v in w], Decimal(p)

        def coordinate(size: Decimal, multiplier: Decimal) -> Decimal:
            low, high = Decimal(0), size
            for _ in range(80):
                middle = (low + high) / 2
                low, high = (low, middle) if middle + multiplier * middle ** (power - 1) > size else (middle, high)
            return high

        low, high = Decimal(-20), Decimal(20)
        for _ in range(80):
            middle = (low + high) / 2
            x = [coordinate(size, Decimal(10) ** middle) for size in sizes]
            low, high = (middle, high) if sum(v**power for v in x) > 1 else (low, middle)
        return np.sign(w) * np.array([float(v) for v in x])


@pytest.mark.parametrize("p", [1.05, 1.5, 2.5, 20.0])
def test_the_projection_is_right_to_many_digits(p):
    for w in (np.array([1.5, -0.3]), np.array([30.0, -4.0])):
        close = 1e-13 * np.linalg.norm(w) * max(1.0, 1.0 / (p - 1.0))
        assert np.abs(LpBall(p, 1.0).project(w) - exact(w, p)).max() <= close


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("d", [1, 2, 50])
def test_projections_are_inside_and_nearest_at_any_scale(p, d, rng):
    for radius in (1e-5, 1.0, 7.0):
        ball = LpBall(p, radius)
        for size in (1e-3, 1.0, 100.0, 1e10, 1e300):
            for spread in (0.0, 3.0):
                w = rng.normal(size=d) * np.exp(spread * rng.normal(size=d) - 4.0 * spread) * size
                w[rng.random(d) < 0.1] = 0.0
                x = ball.project(w)
                assert np.isfinite(x).all()
                assert float(lp_norms(x, p)) <= radius
                assert np.array_equal(ball.project(x), x)
                if (gap := w - x).any():  # no point of the ball is further along what is left
                    gap = gap / np.abs(gap).max()
                    assert ball.support(gap) - gap @ x <= 1e-11 * radius


@pytest.mark.parametrize("p", [1.5, 3.0])
def test_edges_of_the_projection(p):
    ball = LpBall(p, 2.0)
    assert np.array_equal(ball.project(np.zeros(3)), np.zeros(3))
    assert ball.project(np.array([-5.0])) == pytest.approx(-2.0)
    assert np.array_equal(ball.project(np.array([0.0, 9.0, 0.0])) != 0.0, [False, True, False])
    assert ball.project(np.full((2, 3), 4.0)).shape == (2, 3)
    assert np.allclose(ball.project(np.full(8, 4.0)), 2.0 * 8 ** (-1 / p))
    assert np.allclose(ball.project(np.full(3, 4.0, dtype=np.float32)), ball.project(np.full(3, 4.0)))
    just = np.full(3, 2.0 * 3 ** (-1 / p)) * (1.0 + 1e-14)
    assert np.allclose(ball.project(just), just)


def test_the_simplex_by_hand():
    assert np.allclose(Simplex(2.0).project(np.zeros(4)), 0.5)
    assert np.allclose(Simplex(2.0).project(np.array([5.0, 1.0])), [2.0, 0.0])
    assert Simplex(3.0).project(np.array([-9.0])).tolist() == [3.0]
    assert Simplex().diameter(1) == 0.0
    assert Simplex(2.0).diameter(5) == pytest.approx(np.linalg.norm([2.0, -2.0]))
    assert np.allclose(Simplex(2.0).centre(5), 0.4)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_bad_parameters_are_refused(bad):
    for domain in (LpBall(3.0, bad), Simplex(bad)):
        with pytest.raises(InputError, match="radius"):
            dc.Problem(dc.losses.Logistic(), domain)
    for p in (0.5, -1.0, math.nan):
        with pytest.raises(InputError, match="p must be at least 1"):
            dc.Problem(dc.losses.Logistic(), LpBall(p, 1.0))
    with pytest.raises(InputError, match="number"):
        dc.Problem(dc.losses.Logistic(), LpBall("3", 1.0))


@pytest.mark.parametrize("domain", [LpBall(3.0, 2.0), LpBall(math.inf, 2.0), LpBall(1, 2), Simplex(4)], ids=str)
def test_problems_are_read_back(domain):
    problem = dc.Problem(dc.losses.Logistic(), domain)
    assert dc.Problem.from_json(problem.to_json()) == problem
    assert problem.diameter(5).value == pytest.approx(domain.diameter(5))


# Who takes them ----------------------------------------------------------------------------------------------------

PROJECTING = {
    "FramedPerturbation", "HeavyTailedSGD", "MeanDirection", "MirrorDescent", "NoisyGD", "PoissonSGD",
    "SufficientStatistics", "TruncatedMirrorDescent",
}  # fmt: skip
TAKES = {
    LpBall(1.5, 2.0): PROJECTING,
    LpBall(3.0, 2.0): PROJECTING | {"PhasedSGD"},
    LpBall(math.inf, 2.0): PROJECTING | {"PhasedSGD"},
    Simplex(2.0): {"FrankWolfe"},
}


@pytest.mark.parametrize("name", sorted(dc.algorithms.REGISTRY))
@pytest.mark.parametrize("domain", TAKES, ids=str)
def test_every_algorithm_runs_inside_or_refuses_before_the_data(name, domain, rng):
    loss = dc.losses.Squared() if name == "SufficientStatistics" else dc.losses.Logistic()
    problem, budget = dc.Problem(loss, domain), dc.Budget(1.0, 1e-6)
    algorithm = getattr(dc.algorithms, name)()
    if name not in TAKES[domain]:
        with pytest.raises(HypothesisError, match=f"^{name} .*use "):
            algorithm.plan(problem, n=60, d=3, budget=budget)
        return
    X, y = rng.normal(size=(60, 3)), rng.choice([-1.0, 1.0], 60)
    solution = algorithm.plan(problem, n=60, d=3, budget=budget).run(X, y, dataset="lp domains")
    assert dc.verify(solution.receipt)
    assert np.allclose(domain.project(solution.weights), solution.weights, atol=1e-12)


def test_streams_and_the_chooser_meet_them():
    budget = dc.Budget(1.0, 1e-6)
    for domain in TAKES:
        with pytest.raises(HypothesisError, match="does not run on"):
            dc.algorithms.PrivateFTRL().plan_stream(dc.Problem(dc.losses.Logistic(), domain), d=3, budget=budget)
        problem = dc.Problem(dc.losses.Logistic(), domain)
        chosen = dc.choose(problem, n=500, d=3, budget=budget)
        assert type(chosen.algorithm).__name__ in TAKES[domain]
        table = dc.recommend(problem, n=500, d=3, budget=budget)
        assert {type(chosen.algorithm).__name__} <= {row.name for row in table.rows} <= TAKES[domain]
    with pytest.raises(HypothesisError, match="smooth loss"):
        dc.choose(dc.Problem(dc.losses.Hinge(), Simplex()), n=500, d=3, budget=budget)
