"""What an algorithm promises: a plan without data, a run that keeps to it, and a claim that no attack refutes."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Callable, Mapping

import numpy as np
from scipy import sparse

from dpconvex.algorithms.base import Algorithm
from dpconvex.audit.suite import subjects, try_mutant
from dpconvex.audit.whitebox import stated_sensitivities
from dpconvex.errors import BudgetWarning, InputError, NotPrivateWarning, ReleaseError, RepeatedReleaseWarning
from dpconvex.kernel.budget import RELATIONS, Budget
from dpconvex.kernel.claims import SAMPLING
from dpconvex.kernel.receipt import Receipt
from dpconvex.plan.plan import Plan
from dpconvex.problem import bounds
from dpconvex.problem.problem import Problem
from dpconvex.testing.noiseless import run_without_noise
from dpconvex.theorems.correlated_noise import PREFIX_SUMS
from dpconvex.theorems.report_noisy_max import GUMBEL
from dpconvex.verify import verify

DATASET = "made-up data of the contracts"


def check_algorithm(algorithm: Algorithm, problem: Problem, *, seed: int = 0, attack_runs: int = 0) -> None:
    """Check an algorithm on a problem that it takes, with made-up data.

    Parameters
    ----------
    algorithm : an instance, as given to `plan`
    problem : Problem
    seed : int
        Seed of the data.
    attack_runs : int
        Runs of the whole audit of which its own attacks take their shares; 0 attacks nothing. Mutants are tried with
        as many runs as the algorithm declares for them.

    Raises
    ------
    AssertionError
        At the first promise that is broken.

    Examples
    --------
    >>> import dpconvex as dc
    >>> check_algorithm(dc.algorithms.MeanDirection(), dc.Problem(dc.losses.Logistic()))
    """
    with warnings.catch_warnings():
        for kind in (NotPrivateWarning, RepeatedReleaseWarning):
            warnings.simplefilter("ignore", kind)
        for check in CHECKS:
            check(algorithm, problem, np.random.default_rng(seed))
        if attack_runs:
            check_attacks(type(algorithm), attack_runs)


def check_plan_is_a_pure_function(algorithm: Algorithm, problem: Problem, rng: np.random.Generator) -> None:
    """Check that equal public facts give equal plans, within the budget, and that bad facts are refused."""
    for relation in RELATIONS:
        budget = Budget(1.0, 1e-6, relation)
        plan = algorithm.plan(problem, n=50, d=3, budget=budget)
        form = plan.to_json()
        assert form == algorithm.plan(problem, n=50, d=3, budget=budget).to_json(), "two plans of the same facts differ"
        assert json.loads(json.dumps(form)) == form, "the plain form of the plan is not JSON"
        assert plan.claim.relation == relation, f"the claim is about {plan.claim.relation}, the budget {relation}"
        assert plan.claim.epsilon(1e-6) <= 1.0, "the claim exceeds the budget"
        assert str(plan), "the plan has no words"
    for n, d, argument in ((1, 3, "n"), (10.0, 3, "n"), (50, 0, "d"), (50, True, "d")):
        message = _refusal(lambda n=n, d=d: algorithm.plan(problem, n=n, d=d, budget=Budget(1.0, 1e-6)))
        assert message.startswith(f"{argument} must"), f"n = {n}, d = {d} is not refused for its {argument}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        algorithm.plan(problem, n=200, d=3, budget=Budget(1.0, 0.01))
    assert any(w.category is BudgetWarning for w in caught), "a delta above 1/n brings no warning"


def check_run_and_receipt(algorithm: Algorithm, problem: Problem, rng: np.random.Generator) -> None:
    """Check that a run gives finite weights within the domain, the same for every container, with fresh noise."""
    n, d = 50, 3
    X, y = made_up(problem, n, d, rng)
    for relation in RELATIONS:
        plan = algorithm.plan(problem, n=n, d=d, budget=Budget(1.0, 1e-6, relation))
        first = plan.run(X, y, dataset=DATASET, seed=5)
        assert first.weights.shape == problem.weight_shape(d), f"weights have shape {first.weights.shape}"
        assert np.isfinite(first.weights).all(), "weights are not finite"
        own = problem.loss.traits.records
        assert own or np.isfinite(first.predict(X)).all(), "predictions are not finite"
        assert np.allclose(problem.domain.project(first.weights), first.weights), "weights lie outside the domain"
        check_on_grid(plan, first.iterates)
        assert verify(first.receipt), "the receipt does not verify"
        assert verify(Receipt.from_json(first.receipt.to_json())), "the receipt does not verify once written and read"
        for container, room in (
            (X.tolist(), 0.0),
            (np.asfortranarray(X), 1e-3),
            (X.astype(np.float32), 1e-3),
            *([] if own else [(sparse.csr_matrix(X), 1e-6), (sparse.csr_array(X), 1e-3)]),
        ):
            weights = plan.run(container, y, dataset=DATASET, seed=5).weights
            assert np.allclose(weights, first.weights, atol=room), f"weights from {type(container).__name__} differ"
        seen = {plan.run(X, y, dataset=DATASET).weights.tobytes() for _ in range(100)}
        assert len(seen) > 1, "a hundred private runs gave the same weights"


def check_on_grid(plan: Plan, released: Mapping[str, np.ndarray]) -> None:
    """Check that every released value of a release on a grid is a whole multiple of it.

    Running sums are computed from rows on the grid, which are not kept.
    """
    for release in plan.releases:
        if release.grid is not None and release.name in released and release.law not in PREFIX_SUMS:
            multiples = released[release.name] / release.grid
            assert (multiples == np.rint(multiples)).all(), f"values of {release.name!r} lie beside their grid"


def check_sensitivity(algorithm: Algorithm, problem: Problem, rng: np.random.Generator) -> None:
    """Check by brute force that a replaced record moves no value by more than stated, given what was released before.

    Choices are not looked at: their scores are secret.
    """
    n, d = 12, 2
    plan = algorithm.plan(problem, n=n, d=d, budget=Budget(1.0, 1e-6))
    choices = {release.name for release in plan.releases if release.law == GUMBEL}
    stated = {name: bound for name, bound in stated_sensitivities(plan.claim).items() if name not in choices}
    X, y = made_up(problem, n, d, rng)
    still, _ = run_without_noise(plan, X, y)
    for record in range(n):
        for size in (1.0, 100.0):
            changed, labels = X.copy(), y.copy()
            changed[record] = rng.normal(size=d) * size
            outputs = problem.loss.traits.outputs
            labels[record] = (labels[record] + 1) % outputs if outputs > 1 else -labels[record]
            moved, _ = run_without_noise(plan, changed, labels, past=still)
            for name, bound in stated.items():
                values = still.values(name)
                gap = np.linalg.norm((moved.values(name) - values).reshape(len(values), -1), axis=1).max()
                assert gap <= bound * (1.0 + 1e-9), f"a record moves {name!r} by {gap:g}, stated is {bound:g}"


def check_draws(algorithm: Algorithm, problem: Problem, rng: np.random.Generator) -> None:
    """Check that a run draws every release of the claim, as often and of the shape that the claim says."""
    plan = algorithm.plan(problem, n=20, d=2, budget=Budget(1.0, 1e-6))
    port, _ = run_without_noise(plan, *made_up(problem, 20, 2, rng))
    for release in plan.releases:
        assert release.scale > 0.0, f"{release.name!r} has no noise"
        if release.name not in port.kept:
            assert _refusal(lambda name=release.name: port.history(name)), "the port shows samples, or hidden points"
            assert release.law == SAMPLING or port.left(release.name) == 0, f"{release.name!r} was not drawn"
            continue
        shape = port.history(release.name).shape
        expected = (release.times, *(() if release.law == GUMBEL else release.shape))
        assert shape == expected, f"{release.name!r} was drawn in shape {shape}, the claim says {expected}"


def check_any_rows(algorithm: Algorithm, problem: Problem, rng: np.random.Generator) -> None:
    """Check that few, constant and huge rows run like any others: nothing that rows say is refused."""
    for n in (2, 3):
        plan = _small(algorithm, problem, n, 1, 0.01)
        assert np.isfinite(plan.run(*made_up(problem, n, 1, rng), dataset=DATASET).weights).all(), f"n = {n}, d = 1"
    plan = algorithm.plan(problem, n=20, d=2, budget=Budget(1.0, 1e-6))
    for X in (np.ones((20, 2)), np.zeros((20, 2))):
        for label in (0.0, 1.0) if problem.loss.traits.labels == "class" else (-1.0, 1.0):
            found = plan.run(X, np.full(20, label), dataset=DATASET).weights
            assert np.isfinite(found).all(), "constant columns and labels"
    if problem.loss.traits.records:
        for size in (1e-200, 1e6, 1e200, 1e307):
            X, y = made_up(problem, 20, 2, rng)
            assert np.isfinite(plan.run(X * size, y, dataset=DATASET).weights).all(), f"records of size {size:g}"
        return
    plan = _small(algorithm, problem, 20, 2, 1e-6)
    X, y = made_up(problem, 20, 2, rng)
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    unit, empty = (plan.run(rows, y, dataset=DATASET, seed=1).weights for rows in (X / lengths, np.zeros_like(X)))
    for size, expected in ((1e-200, empty), (1e6, unit), (1e200, empty), (1e307, empty)):
        dense, thin = (
            plan.run(rows, y, dataset=DATASET, seed=1).weights for rows in (X * size, sparse.csr_matrix(X * size))
        )
        assert np.isfinite(dense).all(), f"rows of size {size:g}"
        assert np.allclose(dense, thin, atol=1e-6), f"rows of size {size:g}: dense and sparse differ"
        words = "brought back to their bound" if expected is unit else "counted as rows of zeros"
        assert np.allclose(dense, expected, atol=1e-6), f"rows of size {size:g} are not {words}"


CHECKS: tuple[Callable[[Algorithm, Problem, np.random.Generator], None], ...] = (
    check_plan_is_a_pure_function,
    check_run_and_receipt,
    check_sensitivity,
    check_draws,
    check_any_rows,
)


def check_attacks(kind: type[Algorithm], runs: int) -> None:
    """Check that the attacks an algorithm declares do not refute its claim, and that they catch its mutants."""
    for subject in subjects([kind]):
        line = subject.examine(runs, subject.seed)
        assert line.good, f"the audit finds fault: {line}"
    for mutant in kind.mutants():
        assert try_mutant(kind, mutant).caught, f"the attack is too weak: it does not catch {mutant.name!r}"


def made_up(problem: Problem, n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of the kind that a problem takes."""
    X = rng.normal(size=(n, d))
    if problem.loss.traits.labels == "class":
        return X, rng.integers(0, problem.loss.traits.outputs, n).astype(float)
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y if problem.loss.traits.labels == "sign" else y * rng.random(n) * problem.loss.traits.target


def _refusal(call: Callable[..., object]) -> str:
    """Message with which a call is refused, empty if it is not."""
    try:
        call()
    except (InputError, ReleaseError) as error:
        return str(error)
    return ""


def _small(algorithm: Algorithm, problem: Problem, n: int, d: int, delta: float) -> Plan:
    """Plan for rows in the unit ball, whatever the problem says of rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        plan: Plan = algorithm.plan(
            dataclasses.replace(problem, feature_bound=bounds.L2(1.0)), n=n, d=d, budget=Budget(1.0, delta)
        )
    return plan
