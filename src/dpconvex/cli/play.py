"""`dpconvex play`: learners, private and not, against made-up streams of losses."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import click
import numpy as np

from dpconvex.algorithms import PrivateFTRL
from dpconvex.cli.files import check_output, writing
from dpconvex.cli.options import force_option, output, working
from dpconvex.errors import InputError, NotPrivateWarning
from dpconvex.games import learners
from dpconvex.games.contest import KINDS, PATTERNS, Entrant, Trace, compete, make_losses
from dpconvex.games.lazy import BlockedFTRL, Lazy, LazyGibbs, LazyLeader
from dpconvex.games.player import Learner
from dpconvex.games.pomer import BlockedGibbs, Pomer
from dpconvex.games.recommend import BACKENDS, Game, NoisyLeader
from dpconvex.kernel.budget import Budget
from dpconvex.problem import losses as record_losses
from dpconvex.problem.bounds import L2
from dpconvex.problem.problem import Problem
from dpconvex.report.games import COLOURS, draw_games

Option = TypeVar("Option")
RADIUS = {"linear": 1.0, "absolute": 1.0, "hinge": 10.0}  # hinge losses have no kink within a ball of radius 1
MADE_UP = "made up by dpconvex play"
LARGEST = 5 * 10**7  # numbers of a stream


class Setup(NamedTuple):
    """What was asked for; gradients have norm 1 at most."""

    game: Game
    kind: str
    pattern: str
    seed: int
    switches: float | None
    budget: Budget | None
    backend: str

    @property
    def blind(self) -> bool:
        """Whether the losses do not depend on the points played."""
        return self.pattern != "adversarial"


def _given(value: Option | None) -> Option:
    """An option that was checked to be there."""
    assert value is not None
    return value


def _plain(make: Callable[[Setup], Learner]) -> Callable[[str, Setup], Entrant]:
    def enter(name: str, setup: Setup) -> Entrant:
        learner = make(setup)
        return Entrant(name, learner.player(setup.game.dimension), learner.bound)

    return enter


def _lazy(kind: type[Lazy]) -> Callable[[str, Setup], Entrant]:
    def enter(name: str, setup: Setup) -> Entrant:
        learner = kind(setup.game.ball, 1.0, setup.game.horizon, _given(setup.switches), setup.seed)
        bound = learner.bound if setup.blind else None
        return Entrant(name, learner.player(setup.game.dimension), bound, learner.moves, expected=True)

    return enter


def _blocked(name: str, setup: Setup) -> Entrant:
    learner = BlockedFTRL(setup.game.ball, 1.0, setup.game.horizon, _given(setup.switches))
    player = learner.player(setup.game.dimension)
    return Entrant(name, player, learner.bound, lambda game: (game.rounds - 1) // learner.block)


def _private(name: str, setup: Setup) -> Entrant:
    """A stream of PrivateFTRL, with the step for which what is proved is least."""
    game, budget = setup.game, _given(setup.budget)
    losses = "linear" if setup.kind == "linear" and setup.blind else "convex"
    leader = NoisyLeader(game, budget, setup.backend, losses, "fixed")
    problem = Problem(record_losses.Linear(), game.ball, L2(1.0))  # a record's gradient has norm 1 at most
    plan = PrivateFTRL(setup.backend, batch=1, step=leader.step, fixed=True).plan_stream(
        problem, d=game.dimension, budget=budget, rounds=game.horizon
    )
    session = plan.start(dataset=MADE_UP, seed=setup.seed)
    return Entrant(name, session, lambda played: leader.regret(played.rounds), expected=True)


def _gibbs(kind: type[Pomer] | type[BlockedGibbs]) -> Callable[[str, Setup], Entrant]:
    def enter(name: str, setup: Setup) -> Entrant:
        game, budget = setup.game, _given(setup.budget)
        player = kind(game.ball, 1.0, game.horizon, budget, dimension=game.dimension, dataset=MADE_UP, seed=setup.seed)
        setting = player.setting  # what is proved about the whole game holds for its beginning
        bound = (lambda played: setting.regret) if setup.blind else None
        return Entrant(name, player, bound, lambda played: setting.switches_allowed, expected=True)

    return enter


ENTER: dict[str, Callable[[str, Setup], Entrant]] = {
    "ftrl": _plain(lambda s: learners.FTRL(s.game.ball)),
    "subgradient-descent": _plain(lambda s: learners.SubgradientDescent(s.game.ball)),
    "diagonal-ftrl": _plain(lambda s: learners.DiagonalFTRL(s.game.ball)),
    "optimistic-descent": _plain(lambda s: learners.OptimisticDescent(s.game.ball)),
    "parameter-free": _plain(lambda s: learners.ParameterFree(s.game.ball)),
    "lazy-leader": _lazy(LazyLeader),
    "lazy-gibbs": _lazy(LazyGibbs),
    "blocked-ftrl": _blocked,
    "private-ftrl": _private,
    "blocked-gibbs": _gibbs(BlockedGibbs),
    "pomer": _gibbs(Pomer),
}
LINEAR, GIBBS = ("lazy-leader", "lazy-gibbs"), ("blocked-gibbs", "pomer")
LAZY, PRIVATE = (*LINEAR, "blocked-ftrl"), ("private-ftrl", *GIBBS)


@click.command()
@click.option(
    "--learner",
    "names",
    type=click.Choice(list(ENTER), case_sensitive=False),
    multiple=True,
    default=["ftrl"],
    show_default=True,
    help="Who plays. Repeat it to compare several on the same stream.",
)
@click.option("--losses", "kind", type=click.Choice(KINDS), default="linear", show_default=True, help="Their kind.")
@click.option(
    "--pattern",
    type=click.Choice(PATTERNS),
    default="stationary",
    show_default=True,
    help="Where they come from; an adversary sees every point before it answers.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=2000, show_default=True, help="Length of the game.")
@click.option("--dimension", type=click.IntRange(min=1), default=10, show_default=True, help="Of the points.")
@click.option("--radius", type=float, help="Of the ball that is played on: 1 unless said, or 10 for hinge losses.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the losses and the players.")
@click.option("--switches", type=float, help="Moves that a lazy learner may make, in expectation.")
@click.option("--epsilon", type=float, help="Budget of a private learner.")
@click.option("--delta", type=float, default=1e-6, show_default=True, help="Keep it well below 1/rounds.")
@click.option(
    "--noise",
    "backend",
    type=click.Choice(BACKENDS),
    default="toeplitz",
    show_default=True,
    help="How the noise of private-ftrl is correlated.",
)
@click.option("--picture", type=output, help="Draw regret and moves against rounds into this SVG file.")
@force_option
def play(
    names: tuple[str, ...],
    kind: str,
    pattern: str,
    rounds: int,
    dimension: int,
    radius: float | None,
    seed: int,
    switches: float | None,
    epsilon: float | None,
    delta: float,
    backend: str,
    picture: Path | None,
    force: bool,
) -> None:
    """Play a made-up stream of losses, and compare regret and moves with what is proved.

    Losses have gradients of norm 1 at most, on a ball. Regret is what a learner paid, less what the best fixed point
    would have paid. Private learners add the noise that a budget asks for, but the losses are made up and the noise
    comes from a seed: nothing is private here, and nobody's account is charged.
    """
    check_output(picture, force)
    setup = _setup(names, kind, pattern, rounds, dimension, radius, seed, switches, epsilon, delta, backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # said below
        entrants = [ENTER[name](name, setup) for name in names]
        traces = []
        for entrant in entrants:
            with working(f"Playing {entrant.name}"):
                made = make_losses(kind, pattern, rounds, dimension, setup.game.radius, seed)
                traces.append(compete(entrant, made, setup.game.radius))
    title = (
        f"{rounds} rounds of {pattern} {kind} losses in dimension {dimension}, on a ball of radius "
        f"{setup.game.radius:g}, seed {seed}"
    )
    click.echo("\n".join([title, *_table(traces), *_remarks(traces, setup)]))
    if picture is not None:
        with writing(picture):
            picture.write_text(draw_games(traces, title), encoding="utf-8")


def _setup(
    names: tuple[str, ...],
    kind: str,
    pattern: str,
    rounds: int,
    dimension: int,
    radius: float | None,
    seed: int,
    switches: float | None,
    epsilon: float | None,
    delta: float,
    backend: str,
) -> Setup:
    """Check everything that can be checked before a game."""
    if len(set(names)) < len(names) or len(names) > len(COLOURS):
        raise InputError(f"name every --learner once, and at most {len(COLOURS)} of them")
    if rounds * dimension > LARGEST:
        raise InputError(f"--rounds times --dimension must not exceed {LARGEST}: take fewer")
    radius = RADIUS[kind] if radius is None else radius
    if not 0.0 < radius < 1e6:
        raise InputError("--radius must be positive, and below a million")
    if switches is not None and not (0.0 < switches < math.inf and set(names) & set(LAZY)):
        raise InputError(f"--switches is a positive number of moves, for {', '.join(LAZY)}")
    if epsilon is not None and not set(names) & set(PRIVATE):
        raise InputError(f"--epsilon is for private learners, and none is named: {', '.join(PRIVATE)}")
    budget = None if epsilon is None else Budget(epsilon, delta)
    if budget is not None and rounds > 1 and budget.delta >= 1.0 / rounds:
        raise InputError(f"--delta must be below 1/rounds = {1.0 / rounds:.3g}")
    setup = Setup(Game(rounds, dimension, 1.0, radius), kind, pattern, seed, switches, budget, backend)
    for name in names:
        _check(name, setup)
    return setup


def _check(name: str, setup: Setup) -> None:
    """Say what a learner lacks."""
    if name in LAZY and setup.switches is None:
        raise InputError(f"how many moves may {name} make? Say --switches")
    if name in PRIVATE and setup.budget is None:
        raise InputError(f"what may {name} give away? Say --epsilon")
    if name in LINEAR and setup.kind != "linear":
        raise InputError(f"{name} takes linear losses only: say --losses linear, or take blocked-ftrl")
    if name in GIBBS and setup.kind != "linear" and setup.game.dimension > 1:
        raise InputError(f"{name} takes {setup.kind} losses in dimension 1 only: say --losses linear")
    if name in GIBBS and setup.game.horizon < 2:
        raise InputError(f"{name} plays 2 rounds or more: raise --rounds")


def _table(traces: list[Trace]) -> list[str]:
    lines = [["learner", "regret", "proved", "moves", "proved"]]
    for t in traces:
        name = t.name + ("*" if t.expected else "")
        lines.append([name, f"{t.regret[-1]:.1f}", _last(t.proved), f"{t.moves[-1]}", _last(t.proved_moves)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  " + "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    ]


def _remarks(traces: list[Trace], setup: Setup) -> list[str]:
    """What the numbers mean."""
    lines = []
    if any(t.expected for t in traces):
        lines.append("* proved in expectation: one game may exceed it")
    if any(t.proved is None for t in traces):
        lines.append("- nothing is proved for an opponent who sees the points")
    if short := max(t.short for t in traces):
        lines.append(f"The best fixed point is found up to {short:.2g}: the regret may be larger by that much.")
    if setup.budget is not None:
        b = setup.budget
        lines.append(
            f"The noise is that of ({b.epsilon:g}, {b.delta:g})-DP, one loss replaced by any other. But the losses are "
            "made up, and the noise comes from the seed: nothing here is private, and no account is charged."
        )
    return lines


def _last(values: np.ndarray | None) -> str:
    return "-" if values is None else f"{values[-1]:.1f}"
