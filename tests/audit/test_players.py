"""The exact attack on private players: claims stand, and players with a mistake are caught."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from slices import one_in

from dpconvex.audit.players import BY_NAME, MUTANTS, attack, check


@pytest.mark.parametrize(
    "name",
    [
        "Pomer, coins at their limits",
        pytest.param("Pomer, at the boundary", marks=pytest.mark.heavy),
        pytest.param("Pomer, exact coins", marks=pytest.mark.heavy),
        pytest.param("Pomer, absolute losses, secret draws", marks=pytest.mark.heavy),
    ],
)
def test_claims_are_not_refuted(name):
    report, caught = attack(BY_NAME[name], 1000)
    assert not caught
    assert 0.0 < report.epsilon_lower < report.claimed_epsilon


def test_the_attack_refutes_a_claim_that_is_false():
    kind, match = MUTANTS["eta twice as large"]
    assert attack(match, 1000, kind=kind)[0].refuted


@pytest.mark.parametrize(
    "name",
    ["Pomer, quadratic losses", "Pomer, at the boundary", "Pomer, exact coins", "Pomer, absolute losses, secret draws"],
)
def test_points_and_coins_have_their_laws(name):
    assert not check(BY_NAME[name], 200)


@pytest.mark.filterwarnings("ignore::dpconvex.errors.BudgetWarning")  # some matches need a large delta
@pytest.mark.parametrize("name", one_in(2, MUTANTS))
def test_mutants_are_caught_and_who_makes_no_mistake_is_not(name):
    kind, match = MUTANTS[name]
    assert check(match, 200, kind=kind)
    assert not check(match, 200)


@pytest.mark.parametrize("name", ["Pomer, coins at their limits", "Pomer, absolute losses", "Pomer, quadratic losses"])
def test_integrated_laws_against_quadrature(name):
    """Densities and distribution functions of sums that are linear, that have kinks, and that are curved."""
    match = BY_NAME[name]
    rules, losses = match.rules(match.streams[0]), [match.make(record) for record in match.streams[0][:-1]]
    law, lo, hi = rules.laws[-1], match.box.lo, match.box.hi

    def potential(x):
        value = sum(
            float(loss[0]) * x if isinstance(loss, np.ndarray) else loss.value(np.array([x])) for loss in losses
        )
        return rules.beta * (value + match.setting.lam * x * x / 2.0)

    kinks = sorted(float(record[0]) for record in match.streams[0])
    whole = quad(lambda x: math.exp(-potential(x)), lo, hi, points=kinks, limit=400)[0]
    for x in (-1.7, 0.3, 1.9):
        assert law.log_density(x) == pytest.approx(-potential(x) - math.log(whole), abs=1e-9)
        part = quad(lambda x: math.exp(-potential(x)), lo, x, points=[k for k in kinks if k < x], limit=400)[0]
        assert law.below(x) == pytest.approx(part / whole, abs=1e-9)


def test_chances_of_a_secret_draw_against_quadrature():
    match = BY_NAME["Pomer, absolute losses, secret draws"]
    rules, player, w = match.rules(match.streams[0]), match.player(0), match.setting.width
    for i, x in ((0, -1.1), (3, 0.2), (6, 1.9)):
        law, target = rules.laws[i + 1], float(match.streams[0][i, 0])

        def chance(y, law=law, target=target, x=x):
            log = rules.beta * (abs(y - target) - abs(x - target))
            return math.exp(law.log_density(y)) * match.setting.most * math.exp(min(max(log, -w), w) - w)

        exact = sum(quad(chance, a, b, limit=200)[0] for a, b in pairwise(np.linspace(-4.0, 4.0, 9)))
        assert rules.keep(i, x, 0.0, player) == pytest.approx(exact, rel=2e-5)
