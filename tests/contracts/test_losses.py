"""Every loss: the slope is the derivative, and the stated bounds are true. Privacy rests on them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpconvex as dc
from dpconvex.problem import losses
from dpconvex.problem.facts import Kind
from dpconvex.testing.losses import check_at

LOSSES = [
    losses.Logistic(),
    losses.Logistic(cap=0.5),
    losses.Logistic(cap=0.3),
    losses.Logistic(cap=0.9),
    losses.Logistic(shift=1.0),
    losses.Logistic(cap=0.6, shift=0.5),
    losses.SmoothedHinge(1.0),
    losses.SmoothedHinge(0.2),
    losses.Squared(2.0),
    losses.Huber(0.5, 2.0),
    losses.LogCosh(0.5, 2.0),
    losses.Linear(1.5),
    losses.Hinge(),
    losses.Hinge(0.5),
    losses.Absolute(2.0),
    losses.Pinball(0.5, 2.0),
    losses.Pinball(0.8, 2.0),
]
PUBLIC = [k for name in losses.__all__ if isinstance(k := getattr(losses, name), type) and issubclass(k, tuple)]
LOSSES += [kind() for kind in PUBLIC if kind is not losses.Softmax and kind not in map(type, LOSSES)]
KINKED = [loss for loss in LOSSES if loss.traits.kinked]
predictions = st.floats(-30.0, 30.0)


def label(loss, u):
    return (1.0 if u > 0.5 else -1.0) if loss.traits.labels == "sign" else loss.traits.target * (2 * u - 1)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@settings(max_examples=300)
@given(z=predictions, step=st.floats(1e-3, 10.0), u=st.floats(0.0, 1.0))
def test_the_contract_at_every_point(loss, z, step, u):
    check_at(loss, z, step, label(loss, u))


@pytest.mark.parametrize("loss", [*LOSSES, losses.Softmax(4), losses.Softmax(4, shift=1.0)], ids=str)
def test_the_contract(loss):
    dc.testing.check_loss(loss)


BROKEN = {
    "slope_bound": lambda loss, reach: 0.9 * type(loss).__mro__[1].slope_bound(loss, reach),
    "curvature_bound": lambda loss: 0.9 * type(loss).__mro__[1].curvature_bound(loss),
    "slope": lambda loss, z, y: -type(loss).__mro__[1].slope(loss, z, y),
    "curvature": lambda loss, z, y: 2.0 * type(loss).__mro__[1].curvature(loss, z, y),
    "value": lambda loss, z, y: 2.0 * type(loss).__mro__[1].value(loss, z, y),
    "curvature_law": lambda loss: tuple(0.5 * c for c in type(loss).__mro__[1].curvature_law(loss)),
}


@pytest.mark.parametrize("method", BROKEN)
@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Huber(0.5, 2.0), losses.SmoothedHinge(0.2)], ids=str)
def test_a_broken_loss_breaks_the_contract(loss, method):
    broken = type("Broken", (type(loss),), {method: BROKEN[method]})(*loss)
    with pytest.raises(AssertionError, match="Broken"):
        dc.testing.check_loss(broken)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_traits_are_true(loss):
    """What they say of labels, slopes and curvatures, in both directions."""
    traits, grid = loss.traits, np.linspace(-5.0, 5.0, 401)
    labels = (-traits.target, traits.target)
    slopes = np.array([[loss.slope(z, y) for z in grid] for y in labels])
    signs = [(row * y <= 0.0).all() for row, y in zip(slopes, labels, strict=True)]
    assert traits.monotone == all(signs)
    assert traits.kinked == math.isinf(loss.curvature_bound()) == hasattr(loss, "kinks")
    assert traits.constant == (np.ptp(slopes, axis=1) == 0.0).all()
    assert traits.quadratic == all(loss.curvature(z, y) == 1.0 for z in grid for y in labels)
    assert traits.probabilities == hasattr(loss, "log_odds")
    assert traits.outputs == 1
    assert traits.labels in ("sign", "bounded")
    assert traits.target == getattr(loss, "target", 1.0)
    assert traits.scale == getattr(loss, "margin", traits.target)
    assert (traits.task is None) == traits.constant
    assert (traits.quantile is not None) == (traits.kinked and traits.labels == "bounded")
    assert (traits.labels == "sign") == traits.monotone


def test_the_traits_of_a_softmax():
    traits = losses.Softmax(4.0).traits
    assert (traits.labels, traits.outputs, traits.task) == ("class", 4, "classes")
    assert traits.probabilities
    assert not any((traits.monotone, traits.kinked, traits.constant, traits.quadratic))


@pytest.mark.parametrize("loss", [losses.Absolute(2.0), losses.Pinball(0.8, 2.0)], ids=str)
def test_the_quantile_is_that_of_the_two_slopes(loss):
    _, (before,), (after,) = loss.kinks(np.ones(1))
    assert loss.traits.quantile == pytest.approx(-before / (after - before))


def test_traits_enter_no_description_of_a_problem():
    for loss in LOSSES:
        assert set(dc.Problem(loss).to_json()["loss"]) == {"name", *loss._fields}


@pytest.mark.parametrize("loss", KINKED, ids=str)
def test_a_kink_is_refused_where_smoothness_is_needed(loss):
    problem = dc.Problem(loss, domain=dc.domains.L2Ball(1.0), l2=1.0)
    with pytest.raises(dc.errors.HypothesisError, match="kink"):
        problem.smoothness(10, 3)
    with pytest.raises(dc.errors.HypothesisError, match="not finite"):
        problem.curvature_law()
    assert not {Kind.SMOOTHNESS, Kind.CURVATURE_LAW} & set(problem.facts(10, 3))
    assert {Kind.LIPSCHITZ, Kind.SLOPE, Kind.SLOPE_WIDTH, Kind.STRONG_CONVEXITY} <= set(problem.facts(10, 3))


def test_the_pinball_loss_finds_its_quantile():
    targets = np.linspace(-1.0, 1.0, 1001)
    for quantile in (0.1, 0.5, 0.9):
        loss = losses.Pinball(quantile)
        risk = [np.mean([loss.value(z, y) for y in targets]) for z in targets]
        assert targets[int(np.argmin(risk))] == pytest.approx(2 * quantile - 1, abs=2e-3)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Logistic(cap=0.7), losses.Logistic(shift=1.0)], ids=str)
def test_log_odds_undo_the_shape_of_the_loss(loss):
    """In a population with these log-odds, z is where the expected slope vanishes."""
    for z in np.linspace(-4.0, 4.0, 17):
        p = 1.0 / (1.0 + math.exp(-float(loss.log_odds(np.array([z]))[0])))
        assert p * loss.slope(z, 1.0) + (1.0 - p) * loss.slope(z, -1.0) == pytest.approx(0.0, abs=1e-12)
    assert np.allclose(losses.Logistic().log_odds(np.array([-2.0, 0.0, 3.0])), [-2.0, 0.0, 3.0])


@pytest.mark.parametrize("loss", KINKED, ids=str)
def test_the_slope_jumps_at_a_kink(loss):
    labels = (1.0, -1.0) if loss.traits.labels == "sign" else (loss.traits.target, -loss.traits.target)
    at = loss.kinks(np.array(labels))[0]
    assert all(loss.slope(z + 1e-9, y) - loss.slope(z - 1e-9, y) >= 1.0 for z, y in zip(at, labels, strict=True))


@pytest.mark.parametrize("z", [-1e6, -800.0, 0.0, 800.0, 1e6])
def test_logistic_does_not_overflow(z):
    for loss in (losses.Logistic(), losses.Logistic(cap=0.5)):
        assert math.isfinite(loss.value(z, 1.0))
        assert -1.0 <= loss.slope(z, 1.0) <= 0.0


@settings(max_examples=300)
@given(
    st.sampled_from(LOSSES),
    st.lists(st.floats(-1.0, 1.0), min_size=3, max_size=3),
    st.lists(st.floats(-3.0, 3.0), min_size=4, max_size=4),
    st.floats(0.0, 1.0),
)
def test_facts_of_a_problem_bound_the_gradient_of_a_record(loss, x, w, u):
    problem = dc.Problem(loss, domain=dc.domains.Box(-3.0, 3.0), feature_bound=dc.bounds.Linf(1.0), intercept=0.7)
    row = [*x, 0.7]
    z = sum(a * b for a, b in zip(row, w, strict=True))
    norm = math.hypot(*row)
    facts = problem.facts(n=10, d=3)
    assert norm <= facts[Kind.ROW_BOUND].value * (1 + 1e-12)
    assert abs(loss.slope(z, label(loss, u))) * norm <= facts[Kind.LIPSCHITZ].value * (1 + 1e-12)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: dc.Problem(losses.Logistic(cap=0.0)),
        lambda: dc.Problem(losses.Logistic(cap=1.5)),
        lambda: dc.Problem(losses.Logistic(cap=math.nan)),
        lambda: dc.Problem(losses.Logistic(shift=-1.0)),
        lambda: dc.Problem(losses.LogCosh(0.0)),
        lambda: dc.Problem(losses.Softmax(1)),
        lambda: dc.Problem(losses.Softmax(2.5)),
        lambda: dc.Problem(losses.SmoothedHinge(0.0)),
        lambda: dc.Problem(losses.Squared(math.inf)),
        lambda: dc.Problem(losses.Huber(-1.0)),
        lambda: dc.Problem(losses.Hinge(0.0)),
        lambda: dc.Problem(losses.Hinge(math.nan)),
        lambda: dc.Problem(losses.Absolute(math.inf)),
        lambda: dc.Problem(losses.Pinball(0.0)),
        lambda: dc.Problem(losses.Pinball(1.0)),
        lambda: dc.Problem(losses.Pinball(0.5, -1.0)),
        lambda: dc.Problem(losses.Logistic),
        lambda: dc.Problem("logistic"),
        lambda: dc.Problem(losses.Logistic(), domain=dc.domains.L2Ball(0.0)),
        lambda: dc.Problem(losses.Logistic(), domain=dc.domains.L2Ball(math.nan)),
        lambda: dc.Problem(losses.Logistic(), domain=dc.domains.Box(0.5, 1.0)),
        lambda: dc.Problem(losses.Logistic(), domain=dc.domains.Everywhere(3.0)),
        lambda: dc.Problem(losses.Logistic(), feature_bound=0.0),
        lambda: dc.Problem(losses.Logistic(), feature_bound=math.inf),
        lambda: dc.Problem(losses.Logistic(), feature_bound="wide"),
        lambda: dc.Problem(losses.Logistic(), feature_bound=True),
        lambda: dc.Problem(losses.Logistic(), feature_bound=1e-165),
        lambda: dc.Problem(losses.Logistic(), feature_bound=1e165),
        lambda: dc.Problem(losses.Logistic(), intercept=1e-165),
        lambda: dc.bounds.Columns((0.0,), (1e-165,)),
        lambda: dc.Problem(losses.Logistic(), l2=-1.0),
        lambda: dc.Problem(losses.Logistic(), l2=math.nan),
        lambda: dc.Problem(losses.Logistic(), intercept=-1.0),
        lambda: dc.bounds.Lp(0.5),
        lambda: dc.bounds.Columns((0.0,), (1.0, 2.0)),
        lambda: dc.bounds.Columns((2.0,), (1.0,)),
        lambda: dc.bounds.Columns((0.0,), (0.0,)),
        lambda: dc.bounds.Columns((), ()),
        lambda: dc.bounds.Columns((0.0,), (1.0,)).l2(3),
    ],
)
def test_bad_problems_are_refused(bad):
    with pytest.raises(dc.errors.InputError):
        bad()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            lambda: dc.Problem(losses.Logistic(), domain=dc.domains.L2Ball("a")),
            "domain: radius must be a number, got str",
        ),
        (lambda: dc.Problem(losses.Logistic(), domain=dc.domains.Box(None, 1.0)), "domain: lo must be a number"),
        (lambda: dc.Problem(losses.Logistic(shift="a")), "loss: shift must be a number, got str"),
        (lambda: dc.Problem(losses.Logistic(shift=True)), "loss: shift must be a number, got bool"),
        (lambda: dc.Problem(losses.Softmax("3")), "loss: classes must be a number"),
        (lambda: dc.Problem(losses.Softmax(3j)), "loss: classes must be a number"),
        (lambda: dc.Problem(losses.Logistic(), l2="1"), "l2 must be a finite number"),
        (lambda: dc.Problem(losses.Logistic(), intercept=True), "intercept must be a finite number"),
        (lambda: dc.bounds.Lp("a"), "p must be a finite number"),
        (lambda: dc.bounds.Lp(math.inf), "use bounds.Linf"),
        (lambda: dc.bounds.L2("a"), "radius of a feature bound"),
        (lambda: dc.bounds.Columns(("a",), (1.0,)), "lo must hold one number per column"),
        (lambda: dc.bounds.Columns((0.0,), None), "hi must hold one number per column"),
    ],
)
def test_what_is_not_a_number_is_named(bad, message):
    with pytest.raises(dc.errors.InputError, match=message):
        bad()


def test_numpy_numbers_bound_rows():
    assert dc.Problem(losses.Logistic(), feature_bound=np.float32(2.0)).feature_bound == dc.bounds.L2(2.0)
    assert dc.Problem(losses.Logistic(), feature_bound=np.int64(2)).feature_bound == dc.bounds.L2(2.0)


def test_unbounded_slope_is_refused_where_it_matters():
    problem = dc.Problem(losses.Squared())
    with pytest.raises(dc.errors.HypothesisError, match="bounded domain"):
        problem.lipschitz(3)
    assert Kind.LIPSCHITZ not in problem.facts(10, 3)


def test_the_quadratic_term_shows_in_curvature_not_in_steepness():
    plain, ridge = dc.Problem(losses.Logistic()), dc.Problem(losses.Logistic(), l2=5.0)
    assert plain.lipschitz(3).value == ridge.lipschitz(3).value
    assert ridge.smoothness(100, 3).value == pytest.approx(0.25 + 0.05)
    assert ridge.strong_convexity(100).value == pytest.approx(0.05)


@pytest.mark.parametrize(
    "bound",
    [1.5, dc.bounds.L2(2.0), dc.bounds.Linf(0.5), dc.bounds.Lp(3, 2.0), dc.bounds.Columns((-1.0, 0.0), (2.0, 1.0))],
)
@pytest.mark.parametrize("domain", [dc.domains.Everywhere(), dc.domains.L2Ball(2.0), dc.domains.Box(-1.0, 2.0)])
def test_problems_survive_json(bound, domain):
    for loss in LOSSES:
        problem = dc.Problem(loss, domain=domain, feature_bound=bound, l2=0.5, intercept=1.0)
        assert dc.Problem.from_json(problem.to_json()) == problem
