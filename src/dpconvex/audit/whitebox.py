"""Checks that look inside: sensitivities against what is stated, the sampler against its law, noise that is shared."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, pdtrc

from dpconvex.algorithms.attacks import NONE, Mutant
from dpconvex.audit.replay import both_values, noise_size, whitened
from dpconvex.kernel.budget import MOVES
from dpconvex.kernel.claims import PERSON, SAMPLING, Claim
from dpconvex.loops.rows import APART, Dense, Records
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.source import Source
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort, own_laws
from dpconvex.theorems import moment_sums
from dpconvex.theorems.correlated_noise import PREFIX_SUMS
from dpconvex.theorems.report_noisy_max import GUMBEL

_FALSE_ALARM = 1e-3  # of each statistical check, on a perfect sampler


@dataclass(frozen=True)
class Check:
    """One look inside, and what was seen."""

    name: str
    passed: bool
    detail: str

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return asdict(self)


# Sensitivities -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Move:
    """How far one record moved a release, at most, against what the claim rests on."""

    release: str
    stated: float
    found: float

    @property
    def holds(self) -> bool:
        """Whether nothing beyond the stated sensitivity was found, up to rounding."""
        return self.found <= self.stated * (1.0 + 1e-9)


def stated_sensitivities(claim: Claim) -> dict[str, float]:
    """Sensitivity of each release, where a theorem of the derivation states one."""
    found: dict[str, float] = {}

    def walk(node: Any) -> None:
        if isinstance(node, list | tuple):
            for part in node:
                walk(part)
        elif isinstance(node, Claim):
            arguments = node.derivation.arguments
            if node.derivation.theorem in ("gaussian", "laplace"):
                found[arguments["release"].name] = arguments["sensitivity"].value
            elif node.derivation.theorem == "report_noisy_max":  # every entry moves by that much at most
                release = arguments["release"]
                found[release.name] = MOVES[node.relation] * arguments["clip"] * math.sqrt(release.shape[0])
            elif node.derivation.theorem in ("generalised_gaussian", "disjoint_sums", "shuffled_sums", "renyi_noise"):
                # in l2, of what is that short in l_q
                size = math.prod(arguments["release"].shape)
                longest = arguments["clip"] * float(size) ** max(0.0, 0.5 - 1.0 / arguments["q"])
                found[arguments["release"].name] = MOVES[node.relation] * longest
            elif node.derivation.theorem == "correlated_noise":  # of an increment, in units of the scale of its round
                found[arguments["release"].name] = arguments["increment"].value
            elif node.derivation.theorem == "poisson_subsampling":
                found[arguments["release"].name] = MOVES[node.relation] * arguments["clip"]
            elif node.derivation.theorem == "noisy_moments":
                for which in ("eigenvalue", "second", "cross"):
                    fact = moment_sums(arguments["row"], arguments["target"], node.relation, which)
                    found[arguments[which].name] = fact.value
            elif node.derivation.theorem in ("noisy_contraction", "certified_chain"):
                for release, fact in zip(arguments["releases"], arguments["sensitivities"], strict=True):
                    found[release.name] = fact.value
            else:
                walk(list(arguments.values()))

    walk(claim)
    return found


def sensitivities(plan: Plan, tries: int = 300, seed: int = 0, mutant: Mutant = NONE) -> list[Move]:
    """Largest move of each release that projected ascent over neighbouring data sets finds, beside what is stated.

    Both data sets are run on the same released values, so that every release is compared at the same point. Ascent
    starts from all rows at their bound along one direction and from random data, and takes random steps within the
    bound that increase a move. Where records are sampled, both data sets are sampled alike. Empty where the claim rests
    on no sensitivity, and for a loss of a record under zero_out, where no record is like a masked one.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Linear())
    >>> plan = dc.algorithms.PhasedSGD().plan(problem, n=6, d=2, budget=dc.Budget(1.0, 1e-6))
    >>> all(0.99 * m.stated < m.found <= m.stated * (1 + 1e-9) for m in sensitivities(plan))
    True
    """
    masked = plan.problem.loss.traits.records and plan.budget.relation == "zero_out"
    stated = {} if masked else stated_sensitivities(plan.claim)
    rng = np.random.default_rng(seed)
    best = dict.fromkeys(stated, 0.0)
    broken = mutant.plan(plan)
    starts = [_Pair.worst(plan, record) for record in range(plan.n)] + [_Pair.random(plan, rng) for _ in range(4)]
    for pair in starts if stated else ():
        noise = rng.standard_normal(noise_size(broken))
        now = _moves(broken, pair, noise, mutant)
        size = 0.5
        for _ in range(max(1, tries // len(starts))):
            best = {name: max(best[name], now.get(name, 0.0)) for name in best}
            proposal = pair.step(size, rng)
            then = _moves(broken, proposal, noise, mutant)
            if sum(then.values()) > sum(now.values()):
                pair, now = proposal, then
            else:
                size = max(0.8 * size, 1e-3)
    return [Move(name, stated[name], best[name]) for name in stated]


def _moves(plan: Plan, pair: _Pair, noise: np.ndarray, mutant: Mutant) -> dict[str, float]:
    other = pair.changed(mutant)
    plain, changed = both_values(
        plan, mutant, (pair.rows(plan, mutant), pair.y), (other.rows(plan, mutant), other.y), noise
    )
    found: dict[str, float] = {}
    for (name, a), (_, b) in zip(plain.given, changed.given, strict=True):
        found[name] = max(found.get(name, 0.0), float(np.linalg.norm(a - b)))
    return found


@dataclass(frozen=True)
class _Pair:
    """A data set, a record of it, and what that record is replaced by (None: masked)."""

    X: np.ndarray
    y: np.ndarray
    record: int
    x: np.ndarray
    label: float
    radius: float

    @staticmethod
    def worst(plan: Plan, record: int) -> _Pair:
        """All rows at twice their bound along one direction, the record turned round (or masked)."""
        radius = float(plan.problem.feature_bound.l2(plan.d))
        X = np.zeros((plan.n, plan.d))
        X[:, 0] = 2.0 * radius
        y = np.full(plan.n, _labels(plan)[0])
        masked = plan.budget.relation == "zero_out"
        return _Pair(X, y, record, (0.0 if masked else -1.0) * X[0], float(y[0]) * (not masked), radius)

    @staticmethod
    def random(plan: Plan, rng: np.random.Generator) -> _Pair:
        """Rows around the bound, and any labels."""
        radius = float(plan.problem.feature_bound.l2(plan.d))
        masked = plan.budget.relation == "zero_out"
        y = rng.choice(_labels(plan), plan.n)
        x = (0.0 if masked else radius) * rng.normal(size=plan.d)
        label = 0.0 if masked else float(rng.choice(_labels(plan)))
        return _Pair(radius * rng.normal(size=(plan.n, plan.d)), y, int(rng.integers(plan.n)), x, label, radius)

    def step(self, size: float, rng: np.random.Generator) -> _Pair:
        """A random step of every row, brought back to twice the bound."""
        X = self.X + size * self.radius * rng.normal(size=self.X.shape)
        x = self.x + size * self.radius * rng.normal(size=self.x.shape) * bool(self.x.any())
        return _Pair(self._back(X), self.y, self.record, self._back(x[None])[0], self.label, self.radius)

    def _back(self, X: np.ndarray) -> np.ndarray:
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        return np.asarray(X * np.minimum(1.0, 2.0 * self.radius / np.maximum(norms, 1e-300)))

    def changed(self, mutant: Mutant) -> _Pair:
        """The neighbour; a record used twice changes in two places."""
        X, y = self.X.copy(), self.y.copy()
        places = [self.record, (self.record + 1) % len(y)] if mutant.twice else [self.record]
        X[places], y[places] = self.x, self.label
        return _Pair(X, y, self.record, self.x, self.label, self.radius)

    def rows(self, plan: Plan, mutant: Mutant) -> Any:
        """As the loops see it."""
        if plan.problem.loss.traits.records:
            people = np.arange(len(self.y)) if plan.claim.unit == PERSON else APART
            return Records(self.X, self.y, mutant.weights(plan, len(self.y)), people)
        radius = self.radius * (2.0 if mutant.unbounded else 1.0)
        rows = Dense(self.X, radius, plan.problem.intercept, mutant.weights(plan, len(self.y)))
        return rows._replace(people=np.arange(len(self.y))) if plan.claim.unit == PERSON else rows


def _labels(plan: Plan) -> list[float]:
    traits = plan.problem.loss.traits
    if traits.labels == "class":
        return [float(k) for k in range(traits.outputs)]
    return [traits.target, -traits.target]


# Noise -------------------------------------------------------------------------------------------------------------


def sampler_fit(count: int = 200_000, seed: int | None = None) -> list[Check]:
    """Normal variates against their law: Kolmogorov-Smirnov, mean, variance, fourth moment, and the tail beyond 3.

    Examples
    --------
    >>> all(check.passed for check in sampler_fit(50_000, seed=1))
    True
    """
    sample = np.sort(standard_normal(Source(seed).stream("goodness of fit"), (count,)))
    cdf = ndtr(sample)
    steps = np.arange(count + 1) / count
    gap = float(max((steps[1:] - cdf).max(), (cdf - steps[:-1]).max())) * math.sqrt(count)
    tail = 2.0 * float(ndtr(-3.0))
    root = math.sqrt(count)
    measured = [
        ("Kolmogorov-Smirnov", gap, 1.95),  # exceeded with probability 1e-3
        ("mean", abs(float(sample.mean())) * root, 3.3),
        ("variance", abs(float(sample.var()) - 1.0) * root / math.sqrt(2.0), 3.3),
        ("fourth moment", abs(float((sample**4).mean()) - 3.0) * root / math.sqrt(96.0), 3.5),
        ("tail beyond 3", abs(float((abs(sample) > 3.0).mean()) - tail) * root / math.sqrt(tail), 3.4),
    ]
    return [
        Check(f"sampler: {name}", value < limit, f"{value:.2f} standard units, alarm at {limit} ({count} draws)")
        for name, value, limit in measured
    ]


def draw_noise(plan: Plan) -> np.ndarray:
    """All the noise of one private run of a plan, in units of its scale; the run itself does not happen."""
    port = NoisePort(plan.claim, Source(), laws=own_laws(plan))
    draws = [r for r in plan.releases if r.law != SAMPLING and r.law not in PREFIX_SUMS for _ in range(r.times)]
    noise = [
        port._stream(r.name).words(r.shape[0]).astype(float) if r.law == GUMBEL else port._draw(r.name, r.law, r.shape)
        for r in draws
    ]
    for r in plan.releases:
        if r.law in PREFIX_SUMS:  # correlated as it should be, it comes from white noise
            sums = port.accumulate(r.name, np.zeros((r.times, *r.shape)), np.ones(r.times)) / r.scale
            noise.append(whitened(r.law, np.diff(sums, axis=0, prepend=np.zeros((1, *r.shape)))))
    return np.concatenate([draw.ravel() for draw in noise])


def shared_noise(plan: Plan, runs: int = 400) -> list[Check]:
    """Whether noise is shared: within a run (classes, phases, steps), between runs (folds), between processes.

    Two draws that share their noise are equal, or correlated; a sampler that works shows neither, but for numbers that
    fall into one cell of a grid by chance.
    """
    cell = max((np.max(r.grid) / r.scale for r in plan.releases if r.law in PREFIX_SUMS and r.grid), default=0.0)
    noise = np.array([draw_noise(plan) for _ in range(runs)])
    checks = [_no_repeats("no variate drawn twice in one process (folds, classes, phases)", noise, cell)]
    if noise.shape[1] > 1:
        correlation = np.abs(np.corrcoef(noise, rowvar=False)[np.triu_indices(noise.shape[1], 1)]).max()
        pairs = noise.shape[1] * (noise.shape[1] - 1) / 2
        limit = math.sqrt(2.0 * math.log(2.0 * pairs / _FALSE_ALARM) / runs)
        checks.append(
            Check(
                "draws of one run are uncorrelated",
                bool(correlation < limit),
                f"{correlation:.3f}, alarm at {limit:.3f}",
            )
        )
    for method in ("fork", "spawn"):
        if method in multiprocessing.get_all_start_methods():
            with multiprocessing.get_context(method).Pool(2) as pool:
                drawn = np.array([*pool.map(draw_noise, [plan] * 6, chunksize=1), draw_noise(plan)])
            checks.append(_no_repeats(f"no variate drawn twice in three processes ({method})", drawn, cell))
    return checks


def _no_repeats(name: str, noise: np.ndarray, cell: float) -> Check:
    """Two normal variates share a cell with a probability of at most its width over 2 sqrt(pi)."""
    distinct, chance = len(np.unique(noise)), noise.size**2 / 2.0 * cell / (2.0 * math.sqrt(math.pi))
    passed = pdtrc(noise.size - distinct - 1, chance) > _FALSE_ALARM if distinct < noise.size else True
    return Check(name, bool(passed), f"{distinct} distinct values among {noise.size}")


def look_inside(plan: Plan, seed: int = 0) -> list[Check]:
    """Every check of this file on one plan."""
    return list(_every(plan, seed))


def _every(plan: Plan, seed: int) -> Iterator[Check]:
    for move in sensitivities(plan, seed=seed):
        detail = f"found {move.found:.6g}, stated {move.stated:.6g}"
        yield Check(f"sensitivity of {move.release!r}", move.holds, detail)
    yield from sampler_fit()
    yield from shared_noise(plan)
