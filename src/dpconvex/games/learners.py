"""Online learners, each with the regret that is proved for it.

A learner is a frozen set of options. `learner.player(d)` enters a game; the player plays a point, observes a loss, and
so on. The regret against u is sum_t loss_t(x_t) - loss_t(u). In the bounds, g_t is the gradient of loss t at x_t, x_1
the start, D the diameter of the domain, and T the number of rounds. Proofs: docs/proofs/online_learners.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpconvex.errors import InputError
from dpconvex.games.domains import WITH_ORIGIN, check_domain, coordinate_range, project_weighted
from dpconvex.games.game import Game
from dpconvex.games.player import Learner, State, check_step
from dpconvex.games.potentials import Entropy, PNorm
from dpconvex.games.steps import Adaptive, Fixed, Root, Step, fixed_or_root, paid, squares
from dpconvex.problem.domains import Domain, L2Ball, Simplex

__all__ = [
    "FTRL",
    "Adaptive",
    "DiagonalFTRL",
    "Entropy",
    "Fixed",
    "OnlineMirrorDescent",
    "OptimisticDescent",
    "PNorm",
    "ParameterFree",
    "Root",
    "Simplex",
    "StronglyConvexDescent",
    "SubgradientDescent",
]


@dataclass(frozen=True)
class SubgradientDescent(Learner):
    """Online (projected) subgradient descent: x_{t+1} = project(x_t - eta_t g_t).

    Parameters
    ----------
    domain : Everywhere, L2Ball, Box, L1Ball or Simplex
    step : Fixed, Root or Adaptive, default=Adaptive()
        `Adaptive()` takes eta = D / sqrt(2).

    Notes
    -----
    Regret against u is at most

    - `Fixed(eta)`: |u - x_1|^2 / (2 eta) + (eta / 2) sum_t |g_t|^2;
    - `Root(eta)`: D^2 sqrt(T) / (2 eta) + sum_t eta / (2 sqrt(t)) |g_t|^2;
    - `Adaptive(eta)`: (D^2 / (2 eta) + eta) sqrt(sum_t |g_t|^2), so sqrt(2) D sqrt(sum_t |g_t|^2) by default.

    Examples
    --------
    >>> import dpconvex as dc
    >>> learner = SubgradientDescent(L2Ball(1.0))
    >>> game = dc.games.run_game(learner.player(d=3), dc.games.streams.stationary(1000, 3, seed=0))
    >>> bool(game.regret <= learner.bound(game))
    True
    """

    step: Step = Adaptive()

    def __post_init__(self) -> None:
        check_domain(self.domain, "SubgradientDescent")
        check_step(self.step, self.domain, "SubgradientDescent")

    def initial(self, start: np.ndarray) -> State:
        """State before round 1."""
        scale = self.step.eta if self.step.eta is not None else self.domain.diameter(start.size) / math.sqrt(2.0)
        return {"w": start.copy(), "total": 0.0, "scale": float(scale)}

    def decide(self, state: State, hint: np.ndarray) -> np.ndarray:
        """Point to play."""
        return state["w"]

    def update(self, state: State, x: np.ndarray, g: np.ndarray, mu: float, hint: np.ndarray) -> State:
        """Step against the gradient."""
        total = state["total"] + float(g @ g)
        if total == 0.0:
            return {"total": total}
        eta = self.step.size(state["round"] + 1, total, state["scale"])
        return {"total": total, "w": self.domain.project(x - eta * g)}

    def bound(self, game: Game) -> float:
        """Proved bound on regret."""
        norms, eta = np.linalg.norm(game.gradients, axis=1), self.initial(game.start)["scale"]
        if not isinstance(self.step, Adaptive):
            return _descent_bound(self, game, norms)
        diameter = self.domain.diameter(game.start.size)
        return (diameter**2 / (2.0 * eta) + eta) * math.sqrt(squares(norms)) if eta > 0.0 else 0.0

    def compiled(self) -> int:
        """Which compiled loop can play it."""
        return int(self.domain.traits.rowwise)


@dataclass(frozen=True)
class OnlineMirrorDescent(Learner):
    """Online mirror descent: a gradient step on grad psi(x_t), mapped back and projected in the divergence of psi.

    Parameters
    ----------
    domain : Simplex with `Entropy()`; Everywhere, Box or L1Ball with `PNorm(p)`; any with `PNorm(2)`
    eta : float
        Step.
    potential : PNorm or Entropy, default=PNorm(2)
        With `Entropy()`, w_j is multiplied by exp(-eta g_j): the multiplicative weights update.

    Notes
    -----
    Regret against u is at most (psi(u) - psi(x_1)) / eta + (eta / 2) sum_t |g_t|_*^2, with the norm dual to that of the
    potential: largest coordinate and psi(u) - psi(x_1) <= ln d for `Entropy()`, q-norm (1/p + 1/q = 1) and
    |u|_p^2 / (2 (p - 1)) for `PNorm(p)`.

    Examples
    --------
    >>> player = OnlineMirrorDescent(Simplex(), eta=math.log(3.0), potential=Entropy()).player(d=2)
    >>> _ = player.play()
    >>> player.observe(np.array([1.0, 0.0]))
    >>> player.play().round(6)
    array([0.25, 0.75])
    """

    eta: float
    potential: PNorm | Entropy = PNorm(2.0)

    def __post_init__(self) -> None:
        _check_potential(self.potential, self.domain, "OnlineMirrorDescent")
        check_step(Fixed(self.eta), self.domain, "OnlineMirrorDescent")

    def check_start(self, start: np.ndarray) -> None:
        """Refuse a start other than the least point of the potential."""
        self.potential.check_start(start)

    def initial(self, start: np.ndarray) -> State:
        """State before round 1."""
        return {"theta": np.zeros(start.size)}

    def decide(self, state: State, hint: np.ndarray) -> np.ndarray:
        """Point to play."""
        return self.potential.respond(state["theta"], self.domain, state["start"])

    def update(self, state: State, x: np.ndarray, g: np.ndarray, mu: float, hint: np.ndarray) -> State:
        """Step in the dual, from the gradient of psi at x."""
        return {"theta": self.potential.mirror(x, state["theta"], state["start"]) - self.eta * g}

    def bound(self, game: Game) -> float:
        """Proved bound on regret."""
        width = self.potential.excess(game.comparator, game.start)
        return fixed_or_root(Fixed(self.eta), width, self.potential.dual_norms(game.gradients))


@dataclass(frozen=True)
class FTRL(Learner):
    """Follow the regularised leader: x_t is least in <g_1 + ... + g_{t-1}, w> + psi(w) / eta_t.

    Parameters
    ----------
    domain : as for `OnlineMirrorDescent`
    step : Fixed, Root or Adaptive, default=Adaptive()
        `Adaptive()` (AdaGrad-norm) takes eta = sqrt(2 V), V the largest psi(u) - psi(x_1).
    potential : PNorm or Entropy, default=PNorm(2)
    optimistic : bool, default=False
        Whether x_t also minds a guess h_t of g_t, by default g_{t-1}: h_t is added to the sum.

    Notes
    -----
    Let e_t = g_t - h_t if optimistic and e_t = g_t otherwise; S = sum_t |e_t|_*^2 in the dual norm; D the diameter in
    the norm of the potential; V_u = psi(u) - psi(x_1). Regret against u is at most

    - `Fixed(eta)`: V_u / eta + (eta / 2) S;
    - `Root(eta)`: V_u sqrt(T) / eta + sum_t eta / (2 sqrt(t)) |e_t|_*^2. With eta = sqrt(V) / L and |e_t|_* <= L that
      is 2 L sqrt(V T), at every T;
    - `Adaptive(eta)`: (V_u / eta + (eta + sqrt(eta^2 + 4 D^2)) / 2) sqrt(S), on a bounded domain: 3.07 R sqrt(S) on
      a ball of radius R.

    If every guess is right then S = 0, and so `Adaptive` has no regret at all.

    Examples
    --------
    >>> import dpconvex as dc
    >>> learner = FTRL(Simplex(), potential=Entropy())
    >>> game = dc.games.run_game(learner.player(d=10), dc.games.streams.stationary(1000, 10, seed=0))
    >>> bool(game.regret <= learner.bound(game))
    True
    """

    step: Step = Adaptive()
    potential: PNorm | Entropy = PNorm(2.0)
    optimistic: bool = False

    def __post_init__(self) -> None:
        _check_potential(self.potential, self.domain, "FTRL")
        check_step(self.step, self.domain, "FTRL")
        if self.optimistic:
            _check_hinted(self.step, self.domain, "an optimistic FTRL")

    @property
    def takes_hints(self) -> bool:
        """Whether it uses a guess of the next gradient."""
        return self.optimistic

    def check_start(self, start: np.ndarray) -> None:
        """Refuse a start other than the least point of the potential."""
        self.potential.check_start(start)

    def initial(self, start: np.ndarray) -> State:
        """State before round 1."""
        scale = self.step.eta
        if scale is None:
            scale = math.sqrt(2.0 * self.potential.width(self.domain, start))
        return {"sum": np.zeros(start.size), "total": 0.0, "scale": float(scale)}

    def decide(self, state: State, hint: np.ndarray) -> np.ndarray:
        """Leader after a penalty for distance."""
        g = state["sum"] + hint if self.optimistic else state["sum"]
        eta = self.step.size(state["round"] + 1, state["total"], state["scale"])
        if math.isinf(eta):
            return _follow(self.domain, g, state["start"])
        return self.potential.respond(-eta * g, self.domain, state["start"])

    def update(self, state: State, x: np.ndarray, g: np.ndarray, mu: float, hint: np.ndarray) -> State:
        """Add the gradient."""
        error = g - hint if self.optimistic else g
        total = state["total"] + float(self.potential.dual_norms(error)) ** 2
        return {"sum": state["sum"] + g, "total": total}

    def bound(self, game: Game) -> float:
        """Proved bound on regret."""
        norms = self.potential.dual_norms(_errors(game) if self.optimistic else game.gradients)
        width = self.potential.excess(game.comparator, game.start)
        if not isinstance(self.step, Adaptive):
            return fixed_or_root(self.step, width, norms)
        eta = self.initial(game.start)["scale"]
        diameter = self.potential.diameter(self.domain, game.start.size)
        return paid(width, diameter, eta) * math.sqrt(squares(norms)) if diameter > 0.0 else 0.0

    def compiled(self) -> int:
        """Which compiled loop can play it."""
        plain = self.potential == PNorm(2.0) and not self.optimistic
        return 2 if plain and self.domain.traits.rowwise else 0


@dataclass(frozen=True)
class DiagonalFTRL(Learner):
    """AdaGrad-FTRL with one step size for every coordinate.

    x_{t+1} is least in <G, w> + sum_j s_j (w_j - x_{1,j})^2 / (2 eta_j), where G adds up the gradients and s_j^2 the
    squares of their coordinates j. Good where coordinates differ in scale, or are mostly 0.

    Parameters
    ----------
    domain : Everywhere, L2Ball, Box or L1Ball
    eta : float, optional
        Scale of all steps. By default, coordinate by coordinate, the farthest that the domain reaches from x_1.

    Notes
    -----
    Let D_j be the width of the range of coordinate j. Regret against u is at most

    sum_j ((u_j - x_{1,j})^2 / (2 eta_j) + (eta_j + sqrt(eta_j^2 + 4 D_j^2)) / 2) sqrt(sum_t g_{t,j}^2)

    on a bounded domain; on Everywhere nothing is proved.

    Examples
    --------
    >>> from dpconvex.problem.domains import Box
    >>> player = DiagonalFTRL(Box(-1.0, 1.0)).player(d=2)
    >>> _ = player.play()
    >>> player.observe(np.array([1e-6, -1e3]))
    >>> player.play()
    array([-1.,  1.])
    """

    eta: float | None = None

    def __post_init__(self) -> None:
        check_domain(self.domain, "DiagonalFTRL", WITH_ORIGIN)
        check_step(Adaptive(self.eta), self.domain, "DiagonalFTRL")

    def initial(self, start: np.ndarray) -> State:
        """State before round 1."""
        lo, hi = coordinate_range(self.domain)
        scales = np.maximum(hi - start, start - lo) if self.eta is None else np.full(start.size, float(self.eta))
        return {"sum": np.zeros(start.size), "squares": np.zeros(start.size), "scales": scales}

    def decide(self, state: State, hint: np.ndarray) -> np.ndarray:
        """Leader after a penalty for distance, each coordinate on its own scale."""
        weights = np.sqrt(state["squares"]) / state["scales"]
        moved = np.divide(state["sum"], weights, out=np.zeros(weights.size), where=weights > 0.0)
        return project_weighted(self.domain, state["start"] - moved, weights)

    def update(self, state: State, x: np.ndarray, g: np.ndarray, mu: float, hint: np.ndarray) -> State:
        """Add the gradient and its squares."""
        return {"sum": state["sum"] + g, "squares": state["squares"] + g * g}

    def bound(self, game: Game) -> float:
        """Proved bound on regret."""
        lo, hi = coordinate_range(self.domain)
        if math.isinf(hi - lo):
            return math.inf
        eta = self.initial(game.start)["scales"]
        norms = np.linalg.norm(game.gradients, axis=0)
        off = (game.comparator - game.start) ** 2 / (2.0 * eta)
        return float(((off + (eta + np.hypot(eta, 2.0 * (hi - lo))) / 2.0) * norms).sum())


@dataclass(frozen=True)
class OptimisticDescent(Learner):
    """Optimistic descent: x_t = project(y_t - eta_t h_t), y_{t+1} = project(y_t - eta_t g_t).

    h_t guesses g_t: what `play` was told, or g_{t-1}.

    Parameters
    ----------
    domain : Everywhere, L2Ball, Box, L1Ball or Simplex
    step : Fixed, Root or Adaptive, default=Adaptive()
        `Adaptive()` takes eta = D. Its eta_t is set by the errors g_i - h_i of the rounds before t.

    Notes
    -----
    Let E = sum_t |g_t - h_t|^2. Regret against u is at most

    - `Fixed(eta)`: |u - x_1|^2 / (2 eta) + (eta / 2) E;
    - `Root(eta)`: D^2 sqrt(T) / (2 eta) + sum_t eta / (2 sqrt(t)) |g_t - h_t|^2;
    - `Adaptive(eta)`: (D^2 / (2 eta) + (eta + sqrt(eta^2 + 4 D^2)) / 2) sqrt(E), so 2.12 D sqrt(E) by default, on a
      bounded domain. Without errors there is no regret.

    Examples
    --------
    >>> player = OptimisticDescent(L2Ball(1.0)).player(d=2)
    >>> player.play(hint=np.array([0.0, 5.0]))
    array([-0., -1.])
    """

    step: Step = Adaptive()

    def __post_init__(self) -> None:
        check_domain(self.domain, "OptimisticDescent")
        check_step(self.step, self.domain, "OptimisticDescent")
        _check_hinted(self.step, self.domain, "OptimisticDescent")

    @property
    def takes_hints(self) -> bool:
        """Whether it uses a guess of the next gradient."""
        return True

    def initial(self, start: np.ndarray) -> State:
        """State before round 1."""
        scale = self.step.eta if self.step.eta is not None else self.domain.diameter(start.size)
        return {"y": start.copy(), "total": 0.0, "scale": float(scale)}

    def decide(self, state: State, hint: np.ndarray) -> np.ndarray:
        """Step from y along the guess."""
        return self._step(state, hint)

    def update(self, state: State, x: np.ndarray, g: np.ndarray, mu: float, hint: np.ndarray) -> State:
        """Step from y along the gradient."""
        error = g - hint
        return {"y": self._step(state, g), "total": state["total"] + float(error @ error)}

    def _step(self, state: State, g: np.ndarray) -> np.ndarray:
        eta = self.step.size(state["round"] + 1, state["total"], state["scale"])
        return _follow(self.domain, g, state["y"]) if math.isinf(eta) else self.domain.project(state["y"] - eta * g)

    def bound(self, game: Game) -> float:
        """Proved bound on regret."""
        norms, eta = np.linalg.norm(_errors(game), axis=1), self.initial(game.start)["scale"]
        if not isinstance(self.step, Adaptive):
            return _descent_bound(self, game, norms)
        diameter = self.domain.diameter(game.start.size)
        return paid(diameter**2 / 2.0, diameter, eta) * math.sqrt(squares(norms)) if eta > 0.0 else 0.0


@dataclass(frozen=True)
class StronglyConvexDescent(Learner):
    """Descent on strongly convex losses: x_{t+1} = project(x_t - g_t / (mu_1 + ... + mu_t)).

    Parameters
    ----------
    domain : Everywhere, L2Ball, Box, L1Ball or Simplex
    mu : float, default=0.0
        Strong convexity of a loss that does not say so itself (as `strong_convexity`), such as a bare gradient.

    Notes
    -----
    Regret against u is at most sum_t |g_t|^2 / (2 (mu_1 + ... + mu_t)).

    Examples
    --------
    >>> import dpconvex as dc
    >>> player = StronglyConvexDescent(L2Ball(10.0)).player(d=1)
    >>> for centre in (1.0, 3.0):
    ...     _ = player.play()
    ...     player.observe(dc.games.losses.QuadraticLoss(np.array([centre])))
    >>> player.play()
    array([2.])
    """

    mu: float = 0.0

    def __post_init__(self) -> None:
        check_domain(self.domain, "StronglyConvexDescent")
        if not 0.0 <= self.mu < math.inf:
            raise InputError("mu must be finite, and at least 0")

    def initial(self, start: np.ndarray) -> State:
        """State before round 1."""
        return {"w": start.copy(), "curvature": 0.0}

    def decide(self, state: State, hint: np.ndarray) -> np.ndarray:
        """Point to play."""
        return state["w"]

    def update(self, state: State, x: np.ndarray, g: np.ndarray, mu: float, hint: np.ndarray) -> State:
        """Step against the gradient, ever shorter."""
        curvature = state["curvature"] + (mu or self.mu)
        if not curvature > 0.0:
            raise InputError(
                "no loss so far is strongly convex; give losses with strong_convexity > 0, or mu, or another learner"
            )
        return {"curvature": curvature, "w": self.domain.project(x - g / curvature)}

    def bound(self, game: Game) -> float:
        """Proved bound on regret."""
        curvature = np.cumsum(np.where(game.curvatures > 0.0, game.curvatures, self.mu))
        return float((np.linalg.norm(game.gradients, axis=1) ** 2 / (2.0 * curvature)).sum())


_BETA = (2.0 - math.log(3.0)) / 2.0  # -ln(1 - y) >= y + (beta / 2) y^2 for -2 <= y <= 2/3


@dataclass(frozen=True)
class ParameterFree(Learner):
    """Coin betting: regret in proportion to |u - x_1|, for every u at once and without a step size.

    The point is x_1 + z v, projected. v comes from descent on the unit ball. z is a bet: a fraction of what the learner
    has won so far, and the fraction comes from online Newton steps on the logarithm of the winnings. Where the
    projection acts, the part of the gradient that would lead further out is left away.

    Parameters
    ----------
    domain : Everywhere, L2Ball, Box, L1Ball or Simplex
    lipschitz : float, default=1.0
        Norm that gradients do not exceed. One that does is shortened to the longest norm known before, which is then
        raised.
    wealth : float, default=1.0
        What the learner may lose against u = x_1, in units of the loss.

    Notes
    -----
    Let S = sum_t |g_t|^2, h the largest of `lipschitz` and all |g_t|, r = |u - x_1| and
    P = 1.06 (1 + 4 S / lipschitz^2)^1.11. Regret against u is at most

    wealth + r max(sqrt(2 S ln(1 + 2 S r^2 P^2 / wealth^2)), 4 h ln(1 + 4 h r P / wealth)) + 2 sqrt(2) r sqrt(S)
    + sum_t (|g_t| - h_t)_+ |x_t - u|

    where h_t is the norm known before round t; the last sum is at most (h - lipschitz) max_t |x_t - u|.

    Examples
    --------
    >>> from dpconvex.problem.domains import Everywhere
    >>> player = ParameterFree(Everywhere()).player(d=1)
    >>> for _ in range(60):  # the least loss is at 100, far away
    ...     player.observe(np.sign(player.play() - 100.0))
    >>> bool(player.play()[0] > 50.0)
    True
    """

    lipschitz: float = 1.0
    wealth: float = 1.0

    def __post_init__(self) -> None:
        check_domain(self.domain, "ParameterFree")
        for name in ("lipschitz", "wealth"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} must be positive and finite")

    def initial(self, start: np.ndarray) -> State:
        """State before round 1."""
        longest, nothing = float(self.lipschitz), np.zeros(start.size)
        bet = {"wealth": float(self.wealth), "fraction": 0.0, "curvature": longest**2}
        return bet | {"longest": longest, "direction": nothing, "total": 0.0}

    def _bet(self, state: State) -> np.ndarray:
        return state["start"] + state["fraction"] * state["wealth"] * state["direction"]

    def decide(self, state: State, hint: np.ndarray) -> np.ndarray:
        """Point to play."""
        return self.domain.project(self._bet(state))

    def update(self, state: State, x: np.ndarray, g: np.ndarray, mu: float, hint: np.ndarray) -> State:
        """Settle the bet, then turn direction and fraction."""
        norm = float(np.linalg.norm(g))
        longest = state["longest"]
        g = g * min(1.0, longest / norm) if norm > 0.0 else g
        out = self._bet(state) - x
        if (away := float(np.linalg.norm(out))) > 0.0 and (inward := float(g @ out) / away) < 0.0:
            g = g - inward * out / away  # Lemma 2 of the proof note
        coin = float(g @ state["direction"])
        wealth = state["wealth"] * (1.0 - coin * state["fraction"])
        slope = coin / (1.0 - coin * state["fraction"])
        curvature = state["curvature"] + slope * slope
        longest = max(longest, norm)
        fraction = state["fraction"] - slope / (_BETA * curvature)
        fraction = min(max(fraction, -0.5 / longest), 0.5 / longest)
        total = state["total"] + float(g @ g)
        direction = state["direction"]
        if total > 0.0:
            direction = L2Ball(1.0).project(direction - math.sqrt(2.0 / total) * g)
        bet = {"wealth": wealth, "fraction": fraction, "curvature": curvature}
        return bet | {"longest": longest, "direction": direction, "total": total}

    def bound(self, game: Game) -> float:
        """Proved bound on regret."""
        norms = np.linalg.norm(game.gradients, axis=1)
        known = np.maximum.accumulate(np.concatenate([[self.lipschitz], norms]))
        clipped = np.minimum(norms, known[:-1])
        total, longest, r = squares(clipped), float(known[-1]), _farness(game)
        poor = math.exp(_BETA / 8.0) * (1.0 + 4.0 * total / self.lipschitz**2) ** (0.5 / _BETA) / self.wealth
        few = math.sqrt(2.0 * total * math.log1p(2.0 * total * (r * poor) ** 2))
        many = 4.0 * longest * math.log1p(4.0 * longest * r * poor)
        cut = float(((norms - clipped) * np.linalg.norm(game.plays - game.comparator, axis=1)).sum())
        return self.wealth + r * (max(few, many) + math.sqrt(8.0 * total)) + cut


def _follow(domain: Domain, g: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Point of a bounded domain where <g, w> is least; `otherwise` if g = 0."""
    best = domain.lowest(g) if g.any() else None
    return otherwise if best is None else best


def _farness(game: Game) -> float:
    """Distance of the comparator from the start."""
    return float(np.linalg.norm(game.comparator - game.start))


def _descent_bound(learner: SubgradientDescent | OptimisticDescent, game: Game, norms: np.ndarray) -> float:
    """Bound for descent with fixed steps, or with steps that fall with the rounds."""
    assert not isinstance(learner.step, Adaptive)
    far = _farness(game) if isinstance(learner.step, Fixed) else learner.domain.diameter(game.start.size)
    return fixed_or_root(learner.step, far**2 / 2.0, norms)


def _errors(game: Game) -> np.ndarray:
    """Gradients less the guesses of them: the hints, or the gradients before."""
    if game.hints is not None:
        return game.gradients - game.hints
    return np.diff(game.gradients, axis=0, prepend=np.zeros((1, game.start.size)))


def _check_potential(potential: PNorm | Entropy, domain: Domain, who: str) -> None:
    """Refuse a potential that does not suit the domain, or is neither of the two."""
    if not isinstance(potential, PNorm | Entropy):
        raise InputError(f"{who} takes potential=PNorm(p) or Entropy()")
    potential.check(domain, who)


def _check_hinted(step: Step, domain: Domain, who: str) -> None:
    """Refuse steps that are infinite until a guess is wrong where there is no lowest point."""
    if isinstance(step, Adaptive) and not domain.traits.bounded:
        raise InputError(f"{who} on Everywhere needs step=Fixed(eta) or Root(eta): it follows its hints to infinity")
