"""`dc.check` refutes mutations of what is true of the built-in losses, and none of the originals."""

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.sums.rowwise import slopes, values

RADIUS, M = 4.0, 12
BALL = dc.domains.L2Ball(RADIUS)
ROWS = np.random.default_rng(1).normal(size=(M, 4))
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)
SIGNS = np.where(np.random.default_rng(2).random(M) < 0.5, -1.0, 1.0)
LOSSES = [
    dc.losses.Logistic(), dc.losses.Logistic(cap=0.5), dc.losses.SmoothedHinge(0.5), dc.losses.Squared(),
    dc.losses.Huber(0.5), dc.losses.LogCosh(0.5), dc.losses.Linear(),
]  # fmt: skip


def lifted(loss):
    """What is true of a linear model, as facts about a loss of a record."""

    def gradients(w, X, y):
        return slopes(loss, np.ascontiguousarray(X @ w), np.ascontiguousarray(y))[:, None] * X

    def mean(w, X, y):
        return values(loss, np.ascontiguousarray(X @ w), np.ascontiguousarray(y))

    facts = {"lipschitz": loss.slope_bound(RADIUS), "smoothness": loss.curvature_bound()}
    return {"gradients": gradients, "values": mean, **facts}


def dented(loss, size):
    """Not convex: a wave whose curvature exceeds that of the loss."""
    true = lifted(loss)
    return {
        "gradients": lambda w, X, y: true["gradients"](w, X, y) + size * np.sin(4.0 * (X @ w))[:, None] * X,
        "values": lambda w, X, y: true["values"](w, X, y) - 0.25 * size * np.cos(4.0 * (X @ w)),
        "lipschitz": true["lipschitz"] + size,
        "smoothness": true["smoothness"] + 4.0 * size,
    }


def mutations(loss):
    true = lifted(loss)
    g, most, bend = true["gradients"], true["lipschitz"], true["smoothness"]
    yield "lipschitz x 0.5", {**true, "lipschitz": 0.5 * most}
    yield "lipschitz x 0.9", {**true, "lipschitz": 0.9 * most}
    if bend:
        yield "smoothness x 0.5", {**true, "smoothness": 0.5 * bend}
        yield "smoothness x 0.9", {**true, "smoothness": 0.9 * bend}
        yield "sign slip, no values", {**true, "values": None, "gradients": lambda w, X, y: -g(w, X, y)}
        yield "strong convexity claimed", {**true, "strong_convexity": 0.1 * bend}
    yield "sign slip", {**true, "gradients": lambda w, X, y: -g(w, X, y)}
    yield "sign slip in a coordinate", {**true, "gradients": lambda w, X, y: g(w, X, y) * np.array([-1.0, 1, 1, 1])}
    yield "sum for mean", {**true, "gradients": lambda w, X, y: np.tile(g(w, X, y).sum(axis=0), (len(X), 1))}
    yield "mean for sum", {**true, "gradients": lambda w, X, y: g(w, X, y) / len(X)}
    yield "missing factor", {**true, "gradients": lambda w, X, y: 2.0 * g(w, X, y)}
    yield "rows mixed", {**true, "gradients": lambda w, X, y: 0.9 * g(w, X, y) + 0.1 * np.roll(g(w, X, y), 1, axis=0)}
    yield "centred by the batch", {**true, "gradients": lambda w, X, y: g(w, X, y) - g(w, X, y).mean(axis=0)}
    yield "dent", dented(loss, 0.1 + 0.3 * bend)
    yield "dent, no values", {**dented(loss, 0.1 + 0.3 * bend), "values": None}


def refuted(facts, loss):
    return not dc.check(dc.losses.Convex(**facts), BALL, 4, records=(ROWS, SIGNS * loss.traits.target))


@pytest.mark.parametrize(
    "loss", [LOSSES[0], *(pytest.param(x, marks=pytest.mark.heavy) for x in LOSSES[1:])], ids=lambda x: type(x).__name__
)
def test_originals_stand_and_mutations_fall(loss):
    assert not refuted(lifted(loss), loss)
    missed = [name for name, facts in mutations(loss) if not refuted(facts, loss)]
    assert missed == []


@pytest.mark.parametrize(
    "loss", [*LOSSES, dc.losses.Hinge(), dc.losses.Absolute(), dc.losses.Pinball(0.3), dc.losses.Softmax(3)], ids=str
)
def test_built_in_losses_of_predictions_stand_and_their_mutations_fall(loss):
    assert dc.check(loss)
    if loss.traits.outputs > 1:
        return
    kind = type(loss)
    for factor in (0.5, 0.9):
        steep = type(
            "Mutant", (kind,), {"slope_bound": lambda self, reach, f=factor: f * kind.slope_bound(self, reach)}
        )
        assert not dc.check(steep(*loss))
        if 0.0 < loss.curvature_bound() < np.inf:
            bent = type("Mutant", (kind,), {"curvature_bound": lambda self, f=factor: f * kind.curvature_bound(self)})
            assert not dc.check(bent(*loss))
    slip = type("Mutant", (kind,), {"slope": lambda self, z, y: -kind.slope(self, z, y)})
    assert not dc.check(slip(*loss))


DOMAINS = [dc.domains.L2Ball(1.5), dc.domains.Box(-0.5, 1.0), dc.domains.L1Ball(2.0), dc.domains.LpBall(3.0, 1.5),
           dc.domains.Simplex(2.0)]  # fmt: skip


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda x: type(x).__name__)
def test_built_in_domains_stand_and_their_mutations_fall(domain):
    kind, loss = type(domain), dc.losses.Logistic()
    assert dc.check(loss, domain, 4)

    def mutant(**methods):
        return type("Mutant", (kind,), methods)(*domain)

    for factor in (0.5, 0.9):
        for method in ("diameter", "reach"):
            shrunk = {method: lambda self, d, f=factor, m=method: f * getattr(kind, m)(self, d)}
            assert not dc.check(loss, mutant(**shrunk), 4), (method, factor)
        assert not dc.check(loss, mutant(support=lambda self, v, f=factor: f * kind.support(self, v)), 4)
    assert not dc.check(loss, mutant(project=lambda self, w: kind.project(self, -w)), 4)
    assert not dc.check(loss, mutant(project=lambda self, w: 0.9 * kind.project(self, w)), 4)


def test_what_is_found_is_shown():
    facts = {**lifted(LOSSES[0]), "smoothness": 0.1}
    report = dc.check(dc.losses.Convex(**facts), BALL, 4, records=(ROWS, SIGNS))
    assert "REFUTED" in str(report)
    assert "largest curvature of a record" in str(report)
    assert "between w = [" in str(report)
    with pytest.raises(dc.errors.InputError, match="number of weights"):
        dc.check(dc.losses.Convex(lifted(LOSSES[0])["gradients"], shape=(2, 2)), None, 3)
