"""Losses from PyTorch (`make test-autodiff`), collected only where it is installed."""

import numpy as np
import torch

import dpconvex as dc

X = np.random.default_rng(0).normal(size=(60, 2))
X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))


def distance(w, x, y):
    return torch.sqrt(0.01 + ((w - x) ** 2).sum())


def logistic(w, x, y):
    return torch.nn.functional.softplus(-y * (w @ x))


def test_gradients_are_those_of_the_formula():
    away = np.ones(2) - X
    exact = away / np.sqrt(0.01 + (away**2).sum(axis=1, keepdims=True))
    loss = dc.losses.from_torch(distance, lipschitz=1.0, smoothness=10.0)
    assert np.allclose(loss.slopes(np.ones(2), (X, None)), exact, atol=1e-14)
    assert dc.check(loss, dc.domains.L2Ball(2.0), 2, records=X[:8])


def test_records_are_apart_by_construction_and_receipts_say_so():
    loss = dc.losses.from_torch(logistic, lipschitz=1.0, smoothness=0.25, name="logistic in torch")
    problem = dc.Problem(loss, domain=dc.domains.L2Ball(2.0))
    plan = dc.algorithms.PhasedSGD(batch=10).plan(problem, n=60, d=2, budget=dc.Budget(1.0, 1e-6))
    receipt = plan.run(X, np.sign(X[:, 0]), dataset="torch").receipt
    assert not any("that record" in word for word in plan.declared())
    assert dc.verify(dc.Receipt.from_json(receipt.to_json())).name == "DECLARED"
