"""Online-to-batch as printed: ZTC22 Algorithm 1 on a tree, one record a round."""

from __future__ import annotations

import math

from dpconvex.algorithms.as_printed import check_bounded, check_unset, printed_rho
from dpconvex.algorithms.cuts import even_batches
from dpconvex.algorithms.online_to_batch import STEPLESS, Conversion, OnlineToBatch, Terms
from dpconvex.errors import HypothesisError, InputError
from dpconvex.games.learners import ParameterFree
from dpconvex.kernel.budget import Budget
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up


def check(options: OnlineToBatch) -> None:
    """Refuse options that the printed constants fix."""
    fixed = "fixes noise (the tree), rounds, clip and step: leave them unset"
    check_unset(options, fixed, "rounds", "clip", "step")
    if options.noise != "tree":
        check_unset(options, fixed, "noise")
    if options.power is not None and options.power < 1.0:
        raise InputError(f"constants='paper' needs a power of at least 1, got {options.power!r}")


def cap(recipe: Conversion, t: int, farthest: float) -> float:
    """Length of a difference in round t: ZTC22 eq. (6)."""
    steep = recipe.lipschitz + recipe.smoothness * farthest
    return (recipe.power + 1.0) * t ** (recipe.power - 1.0) * steep


FAILURE = 0.05  # probability with which the bounds of Theorems 10 and 11 may fail
UNIVERSAL = 1.0  # C of Theorem 10, "a universal constant": no number is printed


def regulariser(
    n: int, size: int, lipschitz: float, smoothness: float, diameter: float, rho: float
) -> tuple[Terms, Terms]:
    """xi_t and nu_t of ZTC22 Theorem 10, for Gaussian noise: sigma_D = 1.

    Examples
    --------
    >>> (steep, noisy), (curved,) = regulariser(1000, 10, 1.0, 0.25, 4.0, 0.5)
    >>> round(steep[0], 1), steep[1], round(curved[0] / steep[0], 1)
    (47.1, 2.5, 7.0)
    """
    kappa = 1.0 + diameter * smoothness / lipschitz
    phi = math.sqrt(math.log(20.0 * size * n * math.log(2.0 * kappa * n) / FAILURE))
    a, b = 8.0 * math.sqrt(2.0) * UNIVERSAL**2, 8.0 * math.sqrt(size) * UNIVERSAL**2
    steep = lipschitz + diameter * smoothness
    xi = (a * lipschitz * phi, 2.5), (b * steep * phi * math.log2(2.0 * n) / rho, 2.0)
    return xi, ((28.0 * a * smoothness * phi, 2.5),)


def make(options: OnlineToBatch, problem: Problem, n: int, d: int, budget: Budget) -> tuple[Conversion, float, str]:
    """ZTC22 Algorithm 1 with eq. (6), and the step D/(G' sqrt(T)) with the G' of Theorem 4."""
    size = math.prod(problem.weight_shape(d))
    diameter = problem.domain.diameter(size)
    check_bounded(diameter, "its step is set by the diameter")
    lipschitz, smoothness = problem.lipschitz(d).value, problem.smoothness(n, d).value
    k = float(options.power or (3.0 if options.named == "ParameterFree" else 1.0))
    rho, count = printed_rho(budget), math.log2(2.0 * n)  # nodes above a record
    scale = 2.0 / rho * math.sqrt(count / n.bit_length())
    if budget.moves / scale > budget.mu:
        raise HypothesisError(
            "constants='paper': rho = epsilon / (2 sqrt(ln 1/delta)) is beyond this budget; take a smaller delta"
        )
    steep = lipschitz + diameter * smoothness
    # V = d and lambda = 2 for Gaussian noise in the 2-norm; gradients deviate by at most G, Hessians by at most H.
    grown = steep**2 / n + 2.0 * size * (steep * count / (rho * n)) ** 2
    second = 3.0 * n ** (2.0 * k) * (lipschitz**2 + 2.0 * (k + 1.0) ** 2 * grown)
    if options.learner == "ParameterFree":
        if k != 3.0:
            raise InputError("constants='paper' needs power=3 for ParameterFree: Theorems 10 and 11 fix it")
        xi, nu = regulariser(n, size, lipschitz, smoothness, diameter, rho)
        # The longest gradient of Theorem 11: that of the loss, what g_t and the noise are off, and the regulariser.
        longest = lipschitz * n**3.0 + 2.0 * sum(a * n**p for a, p in xi)
        longest += sum(a * n**p for a, p in nu) * diameter * (2.0 + 1.0 / 28.0)
        free = ParameterFree(problem.domain, longest, longest * diameter / n)
        recipe = Conversion(free, even_batches(n, n), k, 1.0, lipschitz, smoothness, printed=True, xi=xi, nu=nu)
        return recipe, round_up(scale), "excess loss of order |x* - x_1| (1/sqrt(n) + sqrt(d) / (rho n)) (ZTC22 Thm 11)"
    step = diameter / math.sqrt(n * second)
    learner = options.made(problem, d, n, step, diameter, math.sqrt(second))
    recipe = Conversion(learner, even_batches(n, n), k, 1.0, lipschitz, smoothness, printed=True)
    if not isinstance(options.learner, str) or options.learner in STEPLESS:
        return recipe, round_up(scale), "no bound is proved for this learner"
    return recipe, round_up(scale), "expected excess loss of order 1/sqrt(n) + sqrt(d) ln(n) / (rho n) (ZTC22 Thm 4)"
