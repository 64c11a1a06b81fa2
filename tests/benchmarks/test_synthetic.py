"""A slice of `make bench`: the synthetic problem, thresholds as published, fewer runs."""

import pytest
from synthetic import excess_losses

import dpconvex as dc


@pytest.mark.parametrize(("epsilon", "limit"), [(0.5, 0.016), (1.0, 0.010), (4.0, 0.004)])
def test_untuned_phased_sgd_is_accurate_and_far_below_the_printed_constants(epsilon, limit):
    tight = excess_losses(dc.algorithms.PhasedSGD(), epsilon, runs=6)
    printed = excess_losses(dc.algorithms.PhasedSGD(constants="paper"), epsilon, runs=6)
    assert tight.mean() <= limit
    assert printed.mean() >= 4 * tight.mean()
