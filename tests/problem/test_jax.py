"""Losses from JAX (`make test-autodiff`), collected only where it is installed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import UserCodeError

X = np.random.default_rng(0).normal(size=(60, 2))
X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))


def distance(w, x, y):
    return jnp.sqrt(0.01 + ((w - x) ** 2).sum())


def logistic(w, x, y):
    return jax.nn.softplus(-y * (w @ x))


def test_gradients_are_those_of_the_formula_in_double_precision():
    away = np.ones(2) - X
    exact = away / np.sqrt(0.01 + (away**2).sum(axis=1, keepdims=True))
    loss = dc.losses.from_jax(distance, lipschitz=1.0, smoothness=10.0)
    found = loss.slopes(np.ones(2), (X, None))
    assert found.dtype == np.float64
    assert np.allclose(found, exact, atol=1e-14)
    assert jnp.ones(1).dtype == jnp.float32  # the precision of other code is left alone
    assert dc.check(loss, dc.domains.L2Ball(2.0), 2, records=X[:8])
    wrong = dc.losses.from_jax(distance, lipschitz=1.0, smoothness=5.0)
    assert not dc.check(wrong, dc.domains.L2Ball(2.0), 2, records=X)


@pytest.mark.parametrize("name", ["PhasedSGD", "NoisySGD", "NoisyGD", "OnlineToBatch", "PrivateFTRL"])
def test_runs_agree_with_the_same_loss_in_numpy(name):
    def gradients(w, X, y):
        return -y / (1.0 + np.exp(y * (X @ w))), X

    facts = {"lipschitz": 1.0, "smoothness": 0.25, "name": "logistic"}
    y, found = np.sign(X[:, 0]), []
    for loss in (dc.losses.from_jax(logistic, **facts), dc.losses.Convex(gradients, **facts)):
        problem = dc.Problem(loss, domain=dc.domains.L2Ball(2.0))
        plan = dc.algorithms.get(name)().plan(problem, n=60, d=2, budget=dc.Budget(1.0, 1e-6))
        found.append(plan.run(X, y, dataset="jax", seed=1).weights)
    assert np.allclose(*found, atol=1e-5)


def test_records_are_apart_by_construction_and_receipts_say_so():
    loss = dc.losses.from_jax(logistic, lipschitz=1.0, smoothness=0.25, name="logistic in jax")
    plan = dc.algorithms.PhasedSGD(batch=10).plan(
        dc.Problem(loss, domain=dc.domains.L2Ball(2.0)), n=60, d=2, budget=dc.Budget(1.0, 1e-6)
    )
    receipt = plan.run(X, np.sign(X[:, 0]), dataset="jax").receipt
    assert not any("that record" in word for word in plan.declared())
    assert dc.verify(dc.Receipt.from_json(receipt.to_json())).name == "DECLARED"


def test_errors_inside_show_no_values():
    def failing(w, x, y):
        return float(x[0])  # JAX refuses it

    problem = dc.Problem(dc.losses.from_jax(failing, lipschitz=1.0, smoothness=1.0), domain=dc.domains.L2Ball(2.0))
    plan = dc.algorithms.NoisyGD(steps=2).plan(problem, n=60, d=2, budget=dc.Budget(1.0, 1e-6))
    with pytest.raises(UserCodeError) as caught:
        plan.run(X, dataset="failing jax")
    assert caught.value.__context__ is None
    assert len(dc.account("failing jax").claims) == 1
