"""The constants of the papers: one module per algorithm that takes them, and no option beside them that they fix."""

import dataclasses
from importlib import import_module
from pathlib import Path

import pytest

import dpconvex as dc
from dpconvex.algorithms import as_printed
from dpconvex.algorithms.noisy_sgd import SnowballJNN
from dpconvex.errors import InputError

TAKERS = [
    name
    for name in dc.algorithms.REGISTRY
    if "constants" in {field.name for field in dataclasses.fields(getattr(dc.algorithms, name))}
]
FIXED = {
    "PhasedSGD": {
        "phases": 2,
        "ratio": 0.6,
        "step": 1.0,
        "distance": 1.0,
        "growing": False,
        "batch": 1,
        "layout": "reduction",
    },
    "PhasedERM": {"phases": 2, "ratio": 1.6, "weight": 1.0, "distance": 1.0, "tolerance": 0.1, "reduction": True},
    "NoisySGD": {"schedule": "auto", "step": 1.0, "distance": 1.0, "release": "every iterate"},
    "SnowballSGD": {"schedule": SnowballJNN(5), "step": 1.0, "distance": 1.0, "release": "every iterate"},
    "MirrorDescent": {"steps": 3, "clip": 1.0, "horizon": 1.0},
    "TruncatedMirrorDescent": {"truncation": 1.0, "batches": 3},
    "HeavyTailedSGD": {"batches": 3, "clip": 1.0},
    "PrivateFTRL": {"mode": "blt", "batch": 3, "step": 1.0},
    "OnlineToBatch": {"noise": "honaker", "rounds": 3, "clip": 0.3, "step": 1.0, "power": 0.5},
}


def test_every_algorithm_with_printed_constants_has_one_module():
    modules = {path.stem for path in Path(as_printed.__file__).parent.glob("*.py")} - {"__init__"}
    assert modules == {dc.algorithms.REGISTRY[name].rpartition(".")[2] for name in TAKERS}
    for name in modules:
        module = import_module(f"dpconvex.algorithms.as_printed.{name}")
        assert callable(module.check)
        assert callable(module.make)


@pytest.mark.parametrize("name", TAKERS)
def test_options_that_the_papers_fix_are_refused_at_once(name):
    make = getattr(dc.algorithms, name)
    for option, value in FIXED[name].items():
        with pytest.raises(InputError, match="constants='paper'"):
            make(**{"constants": "paper", option: value})
    with pytest.raises(InputError, match="constants must be one of 'tight', 'paper'"):
        make(constants="printed")
