"""`dpconvex play`: learners, private and not, on made-up streams of losses."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import numpy as np

from dpconvex.algorithms import PrivateFTRL
from dpconvex.cli.files import check_output, writing
from dpconvex.cli.options import force_option, output, working
from dpconvex.errors import InputError, NotPrivateWarning
from dpconvex.games import learners
from dpconvex.games.contest import KINDS, PATTERNS, Entrant, Trace, compete, make_losses
from dpconvex.games.lazy import BlockedFTRL, LazyGibbs, LazyLeader
from dpconvex.games.player import Learner
from dpconvex.games.pomer import BlockedGibbs, Pomer
from dpconvex.games.ranking import BACKENDS, GameFacts, NoisyLeader
from dpconvex.kernel.budget import Budget
from dpconvex.problem import losses as record_losses
from dpconvex.problem.bounds import L2
from dpconvex.problem.domains import L2Ball
from dpconvex.problem.problem import Problem
from dpconvex.report.games import COLOURS, draw_games
from dpconvex.words import align

_Option = TypeVar("_Option")
_RADIUS = {"linear": 1.0, "absolute": 1.0, "hinge": 10.0}  # hinge losses have no kink within a ball of radius 1
_DATASET = "made up by dpconvex play"
_LARGEST = 5 * 10**7  # numbers of a stream


class _Setup(NamedTuple):
    """The options of a game; gradients have norm 1 at most."""

    kind: str
    pattern: str
    rounds: int
    dimension: int
    radius: float
    seed: int
    switches: float | None
    epsilon: float | None
    delta: float
    backend: str

    @property
    def game(self) -> GameFacts:
        return GameFacts(self.rounds, self.dimension, 1.0, self.radius)

    @property
    def budget(self) -> Budget:
        return Budget(_given(self.epsilon), self.delta)

    @property
    def blind(self) -> bool:
        """Whether the losses do not depend on the points played."""
        return self.pattern != "adversarial"


_Enter = Callable[[str, _Setup], Entrant]


def _given(value: _Option | None) -> _Option:
    """An option that was checked to be given."""
    assert value is not None
    return value


def _plain(kind: Callable[[L2Ball], Learner]) -> _Enter:
    def enter(name: str, setup: _Setup) -> Entrant:
        learner = kind(setup.game.ball)
        return Entrant(name, learner.player(setup.game.dimension), learner.bound)

    return enter


def _lazy(kind: type[LazyLeader] | type[LazyGibbs] | type[BlockedFTRL]) -> _Enter:
    def enter(name: str, setup: _Setup) -> Entrant:
        random = (
            kind.linear_only
        )  # and what is proved is proved in expectation, for losses that do not depend on points
        seed: dict[str, Any] = {"seed": setup.seed} if random else {}
        learner = kind(setup.game.ball, 1.0, setup.game.horizon, _given(setup.switches), **seed)
        bound = learner.bound if setup.blind or not random else None
        return Entrant(name, learner.player(setup.game.dimension), bound, learner.moves, expected=random)

    return enter


def _private(name: str, setup: _Setup) -> Entrant:
    """A stream of PrivateFTRL, with the step that minimises the proved bound."""
    game, budget = setup.game, setup.budget
    losses = "linear" if setup.kind == "linear" and setup.blind else "convex"
    leader = NoisyLeader(game, budget, setup.backend, losses, "fixed")
    problem = Problem(record_losses.Linear(), game.ball, L2(1.0))  # a record's gradient has norm 1 at most
    plan = PrivateFTRL(setup.backend, batch=1, step=leader.step, fixed=True).plan_stream(
        problem, d=game.dimension, budget=budget, rounds=game.horizon
    )
    session = plan.start(dataset=_DATASET, seed=setup.seed)
    return Entrant(name, session, lambda played: leader.regret(played.rounds), expected=True)


def _gibbs(kind: type[Pomer] | type[BlockedGibbs]) -> _Enter:
    def enter(name: str, setup: _Setup) -> Entrant:
        game, budget = setup.game, setup.budget
        player = kind(game.ball, 1.0, game.horizon, budget, dimension=game.dimension, dataset=_DATASET, seed=setup.seed)
        setting = player.setting  # bounds for the whole game hold for its beginning
        bound = (lambda played: setting.regret) if setup.blind else None
        return Entrant(name, player, bound, lambda played: setting.switches_allowed, expected=True)

    return enter


_ENTER: dict[str, _Enter] = {
    "ftrl": _plain(learners.FTRL),
    "subgradient-descent": _plain(learners.SubgradientDescent),
    "diagonal-ftrl": _plain(learners.DiagonalFTRL),
    "optimistic-descent": _plain(learners.OptimisticDescent),
    "parameter-free": _plain(learners.ParameterFree),
    "lazy-leader": _lazy(LazyLeader),
    "lazy-gibbs": _lazy(LazyGibbs),
    "blocked-ftrl": _lazy(BlockedFTRL),
    "private-ftrl": _private,
    "blocked-gibbs": _gibbs(BlockedGibbs),
    "pomer": _gibbs(Pomer),
}
_LINEAR, _GIBBS = ("lazy-leader", "lazy-gibbs"), ("blocked-gibbs", "pomer")
_LAZY, _PRIVATE = (*_LINEAR, "blocked-ftrl"), ("private-ftrl", *_GIBBS)


@click.command()
@click.option(
    "--learner",
    "names",
    type=click.Choice(list(_ENTER), case_sensitive=False),
    multiple=True,
    default=["ftrl"],
    help="The learner. Repeat the option to compare several on the same stream.",
)
@click.option("--losses", "kind", type=click.Choice(KINDS), default="linear", help="Kind of the losses.")
@click.option(
    "--pattern",
    type=click.Choice(PATTERNS),
    default="stationary",
    help="Source of the losses; an adversary sees every point before it answers.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=2000, help="Length of the game.")
@click.option("--dimension", type=click.IntRange(min=1), default=10, help="Dimension of the points.")
@click.option("--radius", type=float, help="Radius of the ball of points.  [default: 1, or 10 for hinge losses]")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the losses and the players.")
@click.option("--switches", type=float, help="Expected number of moves that a lazy learner may make.")
@click.option("--epsilon", type=float, help="Privacy budget of a private learner.")
@click.option("--delta", type=float, default=1e-6, help="Privacy budget; keep it well below 1/rounds.")
@click.option(
    "--noise",
    "backend",
    type=click.Choice(BACKENDS),
    default="blt",
    help="How the noise of private-ftrl is correlated.",
)
@click.option("--picture", type=output, help="Output file for a picture of regret and moves against rounds (SVG).")
@force_option
def play(names: tuple[str, ...], radius: float | None, picture: Path | None, force: bool, **options: Any) -> None:
    """Play a made-up stream of losses, and compare regret and moves with the proved bounds.

    Losses have gradients of norm at most 1, on a ball. Regret is the total loss of a learner minus that of the best
    fixed point. Private learners add the noise for a budget, but the losses are made up and the noise comes from a
    seed: nothing is private here, and no account is charged.
    """
    check_output(picture, force)
    setup = _Setup(radius=_RADIUS[options["kind"]] if radius is None else radius, **options)
    _check(names, setup)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # the remarks say so
        entrants = [_ENTER[name](name, setup) for name in names]
        traces = []
        for entrant in entrants:
            with working(f"Playing {entrant.name}"):
                made = make_losses(setup.kind, setup.pattern, setup.rounds, setup.dimension, setup.radius, setup.seed)
                traces.append(compete(entrant, made, setup.radius))
    title = (
        f"{setup.rounds} rounds of {setup.pattern} {setup.kind} losses in dimension {setup.dimension}, on a ball of "
        f"radius {setup.radius:g}, seed {setup.seed}"
    )
    click.echo("\n".join([title, *_table(traces), *_remarks(traces, setup)]))
    if picture is not None:
        with writing(picture):
            picture.write_text(draw_games(traces, title), encoding="utf-8")


def _check(names: tuple[str, ...], setup: _Setup) -> None:
    """Check everything that can be checked before a game."""
    if len(set(names)) < len(names) or len(names) > len(COLOURS):
        raise InputError(f"name every --learner once, and at most {len(COLOURS)} of them")
    if setup.rounds * setup.dimension > _LARGEST:
        raise InputError(f"--rounds times --dimension must not exceed {_LARGEST}: choose smaller ones")
    if not 0.0 < setup.radius < 1e6:
        raise InputError("--radius must be positive, and below a million")
    if setup.switches is not None and not (0.0 < setup.switches < math.inf and set(names) & set(_LAZY)):
        raise InputError(f"--switches must be a positive number of moves, and is for {', '.join(_LAZY)}")
    if setup.epsilon is not None:
        if not set(names) & set(_PRIVATE):
            raise InputError(f"--epsilon is for private learners, and none is named: {', '.join(_PRIVATE)}")
        if setup.rounds > 1 and setup.budget.delta >= 1.0 / setup.rounds:
            raise InputError(f"--delta must be below 1/rounds = {1.0 / setup.rounds:.3g}")
    for name in names:
        if name in _LAZY and setup.switches is None:
            raise InputError(f"{name} needs the expected number of moves: give --switches")
        if name in _PRIVATE and setup.epsilon is None:
            raise InputError(f"{name} needs a privacy budget: give --epsilon")
        if name in _LINEAR and setup.kind != "linear":
            raise InputError(f"{name} takes linear losses only: use --losses linear, or blocked-ftrl")
        if name in _GIBBS and setup.kind != "linear" and setup.dimension > 1:
            raise InputError(f"{name} takes {setup.kind} losses in dimension 1 only: use --losses linear")
        if name in _GIBBS and setup.rounds < 2:
            raise InputError(f"{name} plays 2 rounds or more: raise --rounds")


def _table(traces: list[Trace]) -> list[str]:
    lines = [["learner", "regret", "proved", "moves", "proved"]]
    for t in traces:
        name = t.name + ("*" if t.expected else "")
        lines.append([name, f"{t.regret[-1]:.1f}", _last(t.proved), f"{t.moves[-1]}", _last(t.proved_moves)])
    return [f"  {line}" for line in align(lines)]


def _remarks(traces: list[Trace], setup: _Setup) -> list[str]:
    """Notes on the numbers."""
    lines = []
    if any(t.expected for t in traces):
        lines.append("* proved in expectation: one game may exceed it")
    if any(t.proved is None for t in traces):
        lines.append("- no bound is proved for an opponent who sees the points")
    if short := max(t.short for t in traces):
        lines.append(f"The best fixed point is known up to {short:.2g}: the regret may be larger by that much.")
    if setup.epsilon is not None:
        lines.append(
            f"The noise is that of ({setup.epsilon:g}, {setup.delta:g})-DP, one loss replaced by any other. But the "
            "losses are made up, and the noise comes from the seed: nothing here is private, and no account is charged."
        )
    return lines


def _last(values: np.ndarray | None) -> str:
    return "-" if values is None else f"{values[-1]:.1f}"
