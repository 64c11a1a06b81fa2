"""The theorems. Each checks its hypotheses, names its source and has a proof note of its name in docs/proofs/."""

from dpconvex.kernel.combining import compose, fresh_run, group, parallel, post_process, rows_of_person
from dpconvex.theorems.certified_erm import (
    certified_chain,
    certified_descent,
    certified_drift,
    certified_erm,
    proximal_contraction,
)
from dpconvex.theorems.clipped_sum import clipped_sum, gradient_sensitivity, gradient_sum
from dpconvex.theorems.computed_steps import computed_pass, pass_drift
from dpconvex.theorems.computed_sums import computed_rounds, computed_sum
from dpconvex.theorems.correlated_noise import correlated_noise
from dpconvex.theorems.disjoint_sums import disjoint_sums
from dpconvex.theorems.evaluation import binned_sums, bounded_sums, cell_counts, grouped_sums, ranking_sums
from dpconvex.theorems.filters import gaussian_cover
from dpconvex.theorems.framed_perturbation import squared_entries_sum, weighted_rows
from dpconvex.theorems.gaussian import gaussian
from dpconvex.theorems.generalised_gaussian import generalised_gaussian
from dpconvex.theorems.gibbs_switching import gibbs_draws, gibbs_switching
from dpconvex.theorems.laplace import laplace
from dpconvex.theorems.moment_sums import moment_sums, noisy_moments
from dpconvex.theorems.noise_intervals import curvature_sum
from dpconvex.theorems.noisy_contraction import chain_mu, noisy_contraction
from dpconvex.theorems.noisy_sgd import noise_shape, noisy_sgd, noisy_steps, secret_order, shuffled
from dpconvex.theorems.objective_perturbation import objective_perturbation, objective_perturbation_softmax
from dpconvex.theorems.poisson_subsampling import poisson_subsampling
from dpconvex.theorems.private_selection import any_of, of_problem, private_selection
from dpconvex.theorems.renyi_noise import renyi_noise
from dpconvex.theorems.report_noisy_max import report_noisy_max
from dpconvex.theorems.shuffled_sums import shuffled_sums
from dpconvex.theorems.stable_sgd import iterate_weights, phase_contraction, stable_sgd

__all__ = [
    "any_of",
    "binned_sums",
    "bounded_sums",
    "cell_counts",
    "certified_chain",
    "certified_descent",
    "certified_drift",
    "certified_erm",
    "chain_mu",
    "clipped_sum",
    "compose",
    "computed_pass",
    "computed_rounds",
    "computed_sum",
    "correlated_noise",
    "curvature_sum",
    "disjoint_sums",
    "fresh_run",
    "gaussian",
    "gaussian_cover",
    "generalised_gaussian",
    "gibbs_draws",
    "gibbs_switching",
    "gradient_sensitivity",
    "gradient_sum",
    "group",
    "grouped_sums",
    "iterate_weights",
    "laplace",
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
    "pass_drift",
    "phase_contraction",
    "poisson_subsampling",
    "post_process",
    "private_selection",
    "proximal_contraction",
    "ranking_sums",
    "renyi_noise",
    "report_noisy_max",
    "rows_of_person",
    "secret_order",
    "shuffled",
    "shuffled_sums",
    "squared_entries_sum",
    "stable_sgd",
    "weighted_rows",
]
