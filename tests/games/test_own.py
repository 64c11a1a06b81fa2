"""Learners of the user's own: in games, in OnlineToBatch, on receipts, and when they fail."""

import dataclasses

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.audit.whitebox import sensitivities
from dpconvex.errors import InputError, UserCodeError
from dpconvex.games import learners
from dpconvex.testing.algorithms import CHECKS
from dpconvex.testing.noiseless import run_without_noise

BUDGET = dc.Budget(1.0, 1e-6)
BALL = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))


class Momentum:
    """Heavy-ball descent: nothing of the kind is built in."""

    def __init__(self, step=0.05, decay=0.8):
        self.step, self.decay = step, decay

    def player(self, d, start=None):
        return MomentumPlayer(self, np.zeros(d) if start is None else start)


class MomentumPlayer:
    def __init__(self, options, w):
        self.options, self.w, self.v = options, w, np.zeros_like(w)

    def play(self):
        return self.w

    def observe(self, gradient):
        self.v = self.options.decay * self.v - self.options.step * gradient
        self.w = self.w + self.v


class OnADomain(Momentum):
    def __init__(self, domain):
        super().__init__(step=0.01 * domain.diameter(1))


def made(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    return X, np.where(X[:, 0] + 0.1 * rng.normal(size=n) > 0, 1.0, -1.0)


OWN = dc.algorithms.OnlineToBatch(learner=Momentum(), rounds=2)
GIVEN = dc.algorithms.OnlineToBatch(learner=learners.FTRL(BALL.domain, learners.Root(0.3)), rounds=2)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("algorithm", [OWN, GIVEN], ids=["own", "instance"])
def test_the_contract(algorithm, check, rng):
    check(algorithm, BALL, rng)


def test_a_learner_keeps_its_contract():
    dc.testing.check_learner(Momentum())
    dc.testing.check_learner(OnADomain, dc.domains.L2Ball(2.0))
    for built_in in (learners.SubgradientDescent, learners.FTRL, learners.DiagonalFTRL, learners.ParameterFree):
        dc.testing.check_learner(built_in(dc.domains.L2Ball(1.0)))


class Forgetful(Momentum):
    def player(self, d, start=None):
        self.game = getattr(self, "game", None) or MomentumPlayer(self, np.zeros(d))
        return self.game


class Drifting(MomentumPlayer):
    def play(self):
        self.w = self.w + 1.0
        return self.w


class Greedy(MomentumPlayer):
    def observe(self, gradient):
        self.kept = [*getattr(self, "kept", []), gradient]
        self.w = -np.sum(self.kept, axis=0)


def entering(kind):
    return type("Entering", (Momentum,), {"player": lambda self, d, start=None: kind(self, np.zeros(d))})()


def test_broken_learners_are_found():
    with pytest.raises(AssertionError, match="in another game"):
        dc.testing.check_learner(Forgetful())
    with pytest.raises(AssertionError, match="asked twice"):
        dc.testing.check_learner(entering(Drifting))
    dc.testing.check_learner(entering(Greedy))  # what it keeps is its own copy


def test_it_plays_and_its_receipt_verifies_without_its_code():
    X, y = made(4000, 3)
    algorithm = dc.algorithms.OnlineToBatch(learner=Momentum())
    plan = algorithm.plan(BALL, n=4000, d=3, budget=dc.Budget(4.0, 1e-6))
    assert "Momentum, of your own" in str(plan)
    assert "plays from what it is told alone" in str(plan)
    solution = plan.run(X, y, dataset="own learner")
    assert np.mean(np.sign(X @ solution.weights) == y) > 0.85
    text = solution.receipt.to_json()
    read = dc.Receipt.from_json(text)
    assert dc.verify(read) is dc.verify.__globals__["Verdict"].DECLARED
    assert "plays from what it is told alone" in str(read)
    assert "code of the learner: sha256" in str(read)
    assert len(read.sections["plan"]["algorithm"]["learner"]["code"]) == 64
    with pytest.raises(InputError, match="strict=True"):
        plan.run(X, y, strict=True)
    forged = read.data | {
        "plan": read.data["plan"] | {"algorithm": {**read.data["plan"]["algorithm"], "learner": "FTRL"}}
    }
    with pytest.raises(dc.errors.VerificationError):
        dc.verify(dc.Receipt(forged))


def test_the_digest_is_of_code_and_options():
    one, same, other = (dc.algorithms.OnlineToBatch(learner=Momentum(s)).learner.code for s in (0.05, 0.05, 0.06))
    assert one == same != other


def test_an_instance_of_a_built_in_learner_is_proved():
    X, y = made(60, 2)
    receipt = GIVEN.plan(BALL, n=60, d=2, budget=BUDGET).run(X, y, dataset="instance").receipt
    assert dc.verify(dc.Receipt.from_json(receipt.to_json())).name == "PROVED"
    free = dataclasses.replace(GIVEN, learner=learners.SubgradientDescent(dc.domains.Everywhere(), learners.Fixed(0.1)))
    plan = free.plan(dc.Problem(dc.losses.Logistic()), n=60, d=2, budget=BUDGET)
    assert dc.verify(plan.run(X, y, dataset="instance").receipt).name == "PROVED"
    with pytest.raises(InputError, match="the learner plays on"):
        free.plan(BALL, n=60, d=2, budget=BUDGET)


def test_sensitivity_does_not_rest_on_the_learner():
    """However far it jumps: what a record adds is clipped in units of the scale of its round."""

    class Wild(MomentumPlayer):
        def observe(self, gradient):
            self.w = 1e6 * np.sign(gradient + 1e-3)

    for domain in (BALL.domain, dc.domains.Everywhere()):
        problem = dataclasses.replace(BALL, domain=domain)
        algorithm = dc.algorithms.OnlineToBatch(learner=entering(Wild), rounds=3)
        plan = algorithm.plan(problem, n=12, d=2, budget=BUDGET)
        assert all(m.holds for m in sensitivities(plan, tries=40))
        _, weights = run_without_noise(plan, *made(12, 2))
        assert np.isfinite(weights).all()


def test_the_audit_catches_mutants_and_does_not_refute_the_claim():
    plan = dataclasses.replace(OWN, rounds=2).plan(BALL, n=12, d=1, budget=dc.Budget(4.0, 1e-6))
    assert not dc.audit.audit(plan, runs=2000, seed=7).refuted
    for name in ("noise halved", "clip missing"):
        (mutant,) = (m for m in dc.algorithms.OnlineToBatch.mutants() if m.name == name)
        assert dc.audit.audit(plan, runs=1000, seed=1, mutant=mutant).caught


def test_plays_elsewhere_are_projected():
    class Far(MomentumPlayer):
        def play(self):
            return self.w + 10.0

    plan = dc.algorithms.OnlineToBatch(learner=entering(Far), rounds=3).plan(BALL, n=12, d=2, budget=BUDGET)
    assert np.linalg.norm(plan.run(*made(12, 2), dataset="far").weights) <= 4.0 + 1e-12


def test_it_starts_where_the_problem_says():
    start = [1.0, -1.0]
    problem = dataclasses.replace(BALL, start=start)
    plan = dataclasses.replace(OWN, learner=Momentum(step=1e-9)).plan(problem, n=12, d=2, budget=BUDGET)
    assert np.allclose(plan.run(*made(12, 2), dataset="start").weights, start, atol=1e-3)


class Failing(MomentumPlayer):
    def observe(self, gradient):
        if np.any(gradient != 0.0):
            raise ValueError(f"the gradient was {gradient}")


class NotFinite(MomentumPlayer):
    def observe(self, gradient):
        self.w = self.w + (np.nan if np.any(gradient != 0.0) else 0.0)


@pytest.mark.parametrize("kind", [Failing, NotFinite])
def test_an_exception_inside_stays_charged_and_shows_no_values(kind):
    plan = dc.algorithms.OnlineToBatch(learner=entering(kind), rounds=3).plan(BALL, n=12, d=2, budget=BUDGET)
    with pytest.raises(UserCodeError) as caught:
        plan.run(*made(12, 2), dataset=f"failing {kind.__name__}")
    assert "the gradient was" not in str(caught.value)
    assert caught.value.__context__ is None
    assert len(dc.account(f"failing {kind.__name__}").claims) == 1


def test_what_is_wrong_shows_before_anything_is_charged():
    class Short(MomentumPlayer):
        def play(self):
            return self.w[1:]

    class Silent:
        pass

    with pytest.raises(UserCodeError, match="must return 2 numbers"):
        dc.algorithms.OnlineToBatch(learner=entering(Short)).plan(BALL, n=12, d=2, budget=BUDGET)
    with pytest.raises(InputError, match="player"):
        dc.algorithms.OnlineToBatch(learner=Silent())
    with pytest.raises(InputError, match="takes no step"):
        dc.algorithms.OnlineToBatch(learner=Momentum(), step=0.1)
    with pytest.raises(InputError, match="learner must be one of"):
        dc.algorithms.OnlineToBatch(learner="Momentum")
    bare = type("Bare", (), {"player": lambda self, d: object()})()
    with pytest.raises(UserCodeError, match="play\\(\\) and observe"):
        dc.algorithms.OnlineToBatch(learner=bare).plan(BALL, n=12, d=2, budget=BUDGET)


def test_it_plays_games():
    ball, told = dc.domains.L2Ball(1.0), dc.games.streams.stationary(500, 3, seed=0)
    learner = dc.games.OwnLearner(Momentum(), domain=ball)
    game = dc.games.run_game(learner.player(3), told)
    assert (np.linalg.norm(game.plays, axis=1) <= 1.0 + 1e-12).all()
    standing_still = dc.games.run_game(learners.SubgradientDescent(ball, learners.Fixed(1e-12)).player(3), told)
    assert game.regret < 0.7 * standing_still.regret
