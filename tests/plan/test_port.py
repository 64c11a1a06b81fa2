"""Structural safety: a run that skips, repeats, scales or invents a release is stopped without statistics."""

import dataclasses
import inspect

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import ReleaseError
from dpconvex.noise.source import Source
from dpconvex.plan.port import NoisePort


def misbehaving(plan, execute):
    algorithm = type("Misbehaving", (dc.algorithms.PhasedSGD,), {"execute": execute})()
    return dataclasses.replace(plan, algorithm=algorithm)


def test_a_skipped_release_stops_the_run(small_plan, small):
    def execute(self, plan, rows, y, port):
        port.add("phase 2", np.zeros(3))

    with pytest.raises(ReleaseError, match="never drawn: phase 1"):
        misbehaving(small_plan, execute).run(*small)


def test_a_repeated_release_stops_the_run(small_plan, small):
    def execute(self, plan, rows, y, port):
        port.add("phase 1", np.zeros(3))
        port.add("phase 1", np.zeros(3))

    with pytest.raises(ReleaseError, match="is drawn once"):
        misbehaving(small_plan, execute).run(*small)


def test_an_invented_release_stops_the_run(small_plan, small):
    def execute(self, plan, rows, y, port):
        port.add("phase 9", np.zeros(3))

    with pytest.raises(ReleaseError, match="not in the plan"):
        misbehaving(small_plan, execute).run(*small)


@pytest.mark.parametrize("value", [np.zeros(2), np.zeros((3, 1)), np.zeros(3, dtype=np.float32)])
def test_a_value_of_another_form_stops_the_run(value, small_plan):
    with pytest.raises(ReleaseError, match="planned for"):
        NoisePort(small_plan.claim, Source()).add("phase 1", value)


def test_scaled_noise_cannot_be_released(small_plan, small):
    """Whatever a run does with the noisy value, what leaves is what the port perturbed at the scale of the claim."""
    seen = {}

    def execute(self, plan, rows, y, port):
        for name in ("phase 1", "phase 2"):
            noisy = port.add(name, np.zeros(3))
            seen[name] = noisy
            with pytest.raises(ValueError, match="read-only"):
                noisy *= 0.1

    released = misbehaving(small_plan, execute).run(*small).weights
    assert np.array_equal(released, small_plan.problem.domain.project(seen["phase 2"]))


def test_the_output_is_computed_from_noisy_values_alone(small_plan, small):
    """Whatever `execute` returns is ignored, and `finish` never sees the data."""

    def execute(self, plan, rows, y, port):
        port.add("phase 1", np.zeros(3))
        port.add("phase 2", np.zeros(3))
        return rows.X[0]

    released = misbehaving(small_plan, execute).run(*small).weights
    assert not np.array_equal(released, small[0][0])
    assert "rows" not in inspect.signature(dc.algorithms.PhasedSGD.finish).parameters


def test_the_scale_comes_from_the_claim_alone(small_plan):
    """There is no other copy of the noise scale to tamper with: plan.releases is the claim's own."""
    assert small_plan.releases is small_plan.claim.releases
    with pytest.raises(dataclasses.FrozenInstanceError):
        small_plan.releases[0].scale = 0.0
    with pytest.raises(AttributeError):
        small_plan.releases = ()


def test_an_unknown_law_has_no_sampler(small_plan):
    from dpconvex.kernel.claims import Release

    port = NoisePort(small_plan.claim, Source())
    port._releases["odd"], port._noisy["odd"] = Release("odd", "cauchy", 1.0, (1,)), []
    with pytest.raises(ReleaseError, match="cauchy"):
        port.add("odd", np.zeros(1))


def test_noise_has_the_scale_of_the_release(small_plan):
    name, scale = small_plan.releases[0].name, small_plan.releases[0].scale
    draws = np.concatenate([NoisePort(small_plan.claim, Source(i)).add(name, np.ones(3)) - 1 for i in range(4000)])
    assert draws.std() == pytest.approx(scale, rel=0.03)


def test_a_sampler_that_uses_no_randomness_is_refused(small_plan):
    port = NoisePort(small_plan.claim, Source())
    name = small_plan.releases[0].name
    assert port.lend_stream(name, misbehaving, lambda stream: len(stream.words(3))) == 3
    with pytest.raises(ReleaseError, match="did not use the randomness"):
        port.lend_stream(name, misbehaving, lambda stream: 3, draws=0)


def test_noise_that_is_lent_lies_on_its_grid():
    plan = dc.algorithms.ObjectivePerturbation().plan(
        dc.Problem(dc.losses.Logistic()), n=100, d=3, budget=dc.Budget(1.0, 1e-6)
    )
    tilt, grid = NoisePort(plan.claim, Source()).lend("objective", np.sum), plan.releases[0].grid
    assert tilt.any()
    assert (tilt / grid == np.rint(tilt / grid)).all()


def test_noise_on_a_grid_is_added_exactly():
    problem = dc.Problem(dc.losses.Logistic())
    plan = dc.algorithms.MeanDirection().plan(problem, n=100, d=3, budget=dc.Budget(1.0, 1e-6))
    (release,) = plan.releases
    port = NoisePort(plan.claim, Source())
    noisy = port.add("direction", np.array([0.1, 0.2, 0.3]))
    assert (noisy / release.grid == np.rint(noisy / release.grid)).all()
