"""The theorems. Each checks its hypotheses, names its source and has a proof note of its name in docs/proofs/."""

from dpconvex.privacy.theorems.batches import disjoint_sums, shuffled_sums
from dpconvex.privacy.theorems.certified import certified_chain, certified_drift, certified_erm, proximal_contraction
from dpconvex.privacy.theorems.choosing import any_of, of_problem, private_selection
from dpconvex.privacy.theorems.combining import (
    compose,
    fresh_run,
    group,
    parallel,
    post_process,
    rows_of_person,
)
from dpconvex.privacy.theorems.contraction import chain_mu, noisy_contraction
from dpconvex.privacy.theorems.correlated import correlated_noise
from dpconvex.privacy.theorems.curvature import curvature_sum
from dpconvex.privacy.theorems.evaluation import binned_sums, bounded_sums, ranking_sums
from dpconvex.privacy.theorems.generalised import generalised_gaussian
from dpconvex.privacy.theorems.gibbs import gibbs_draws, gibbs_switching
from dpconvex.privacy.theorems.perturbation import objective_perturbation, objective_perturbation_softmax
from dpconvex.privacy.theorems.releases import gaussian, noisy_moments, poisson_subsampling
from dpconvex.privacy.theorems.selection import report_noisy_max
from dpconvex.privacy.theorems.sgd import noise_shape, noisy_sgd, noisy_steps, secret_order, shuffled
from dpconvex.privacy.theorems.stability import (
    clipped_sum,
    gradient_sensitivity,
    gradient_sum,
    iterate_weights,
    moment_sums,
    phase_contraction,
    stable_sgd,
)

__all__ = [
    "any_of",
    "binned_sums",
    "bounded_sums",
    "certified_chain",
    "certified_drift",
    "certified_erm",
    "chain_mu",
    "clipped_sum",
    "compose",
    "correlated_noise",
    "curvature_sum",
    "disjoint_sums",
    "fresh_run",
    "gaussian",
    "generalised_gaussian",
    "gibbs_draws",
    "gibbs_switching",
    "gradient_sensitivity",
    "gradient_sum",
    "group",
    "iterate_weights",
    "moment_sums",
    "noise_shape",
    "noisy_contraction",
    "noisy_moments",
    "noisy_sgd",
    "noisy_steps",
    "objective_perturbation",
    "objective_perturbation_softmax",
    "of_problem",
    "parallel",
    "phase_contraction",
    "poisson_subsampling",
    "post_process",
    "private_selection",
    "proximal_contraction",
    "ranking_sums",
    "report_noisy_max",
    "rows_of_person",
    "secret_order",
    "shuffled",
    "shuffled_sums",
    "stable_sgd",
]
