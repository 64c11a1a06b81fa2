"""The exact attack on private players: claims stand, and players with a mistake are caught."""

import pytest

from dpconvex.audit.players import MATCHES, MUTANTS, attack

BY_NAME = {match.name: match for match in MATCHES}


@pytest.mark.parametrize("name", ["Pomer, coins at their limits", "Pomer, at the boundary", "Pomer, exact coins"])
def test_claims_are_not_refuted(name):
    report, caught = attack(BY_NAME[name], 1000)
    assert not caught
    assert 0.0 < report.epsilon_lower < report.claimed_epsilon


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name):
    assert attack(BY_NAME["Pomer, coins at their limits"], 1000, kind=MUTANTS[name])[1]
