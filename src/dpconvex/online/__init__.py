"""GAMES: players against a stream of losses, free, lazy or private, and the regret they are left with."""

from __future__ import annotations

from dpconvex.online import lazy, learners, losses, streams
from dpconvex.online.domains import Simplex
from dpconvex.online.game import Game, run_game
from dpconvex.online.lazy import BlockedFTRL, LazyGibbs, LazyLeader
from dpconvex.online.player import Learner, LearnerPlayer, Player
from dpconvex.online.pomer import BlockedGibbs, Pomer
from dpconvex.online.recommend import recommend
from dpconvex.online.uncertified import UncertifiedLazyGibbs

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
