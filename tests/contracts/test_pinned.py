"""The claim and the seeded weights of every contract case, as pinned: a change of either is deliberate and explained.

`python tests/contracts/test_pinned.py` (with tests/ on the path) writes the pins again.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from contracts.test_algorithms import CASES, IDS

import dpconvex as dc
from dpconvex.testing.algorithms import made_up

PINS = Path(__file__).with_name("pinned.json")
RELATIONS = ("replace_one", "zero_out")


def pinned(algorithm, problem, relation):
    """Return what a seeded run promises and releases."""
    n, d, budget = 50, 3, dc.Budget(1.0, 1e-6, relation)
    plan = algorithm.plan(problem, n=n, d=d, budget=budget)
    X, y = made_up(problem, n, d, np.random.default_rng(11))
    return {
        "profile": plan.claim.profile.to_json(),
        "unit": plan.claim.unit,
        "scope": str(plan.claim.scope),
        "releases": [[r.name, r.law, r.scale, list(r.shape), r.times] for r in plan.releases],
        "weights": plan.run(X, y, dataset="pinned", seed=5).weights.ravel().tolist(),
    }


@pytest.mark.parametrize("case", range(len(CASES)), ids=IDS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_claims_and_seeded_weights_are_as_pinned(case, relation):
    expected, found = json.loads(PINS.read_text())[IDS[case]][relation], pinned(*CASES[case], relation)
    weights = found.pop("weights")
    # Compiled sums may be ordered otherwise on another processor; certified solutions may stop elsewhere within bounds.
    assert np.allclose(weights, expected.pop("weights"), rtol=1e-9, atol=1e-9)
    assert json.loads(json.dumps(found)) == expected


if __name__ == "__main__":
    pins = {i: {r: pinned(*case, r) for r in RELATIONS} for i, case in zip(IDS, CASES, strict=True)}
    PINS.write_text(json.dumps(pins, sort_keys=True, separators=(",", ":")).replace('},"', '},\n"') + "\n")
