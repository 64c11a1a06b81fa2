"""GAMES: players against a stream of losses, free, lazy or private, and the regret they are left with."""

from __future__ import annotations

from dpconvex.games import lazy, learners, losses, streams
from dpconvex.games.domains import Simplex
from dpconvex.games.game import Game, run_game
from dpconvex.games.lazy import BlockedFTRL, LazyGibbs, LazyLeader
from dpconvex.games.player import Learner, LearnerPlayer, Player
from dpconvex.games.pomer import BlockedGibbs, Pomer
from dpconvex.games.recommend import recommend
from dpconvex.games.uncertified import UncertifiedLazyGibbs

__all__ = [
    "BlockedFTRL",
    "BlockedGibbs",
    "Game",
    "LazyGibbs",
    "LazyLeader",
    "Learner",
    "LearnerPlayer",
    "Player",
    "Pomer",
    "Simplex",
    "UncertifiedLazyGibbs",
    "lazy",
    "learners",
    "losses",
    "recommend",
    "run_game",
    "streams",
]
