"""GAMES: players against a stream of losses, free, lazy or private, and the regret they are left with."""

from __future__ import annotations

from dpconvex.games import lazy, learners, losses, streams
from dpconvex.games.game import Game, run_game
from dpconvex.games.lazy import BlockedFTRL, LazyGibbs, LazyLeader
from dpconvex.games.own import OwnLearner
from dpconvex.games.player import Learner, LearnerPlayer, Player
from dpconvex.games.pomer import BlockedGibbs, Pomer
from dpconvex.games.ranking import rank_players
from dpconvex.games.uncertified import UncertifiedLazyGibbs
from dpconvex.problem.domains import Simplex

__all__ = [
    "BlockedFTRL",
    "BlockedGibbs",
    "Game",
    "LazyGibbs",
    "LazyLeader",
    "Learner",
    "LearnerPlayer",
    "OwnLearner",
    "Player",
    "Pomer",
    "Simplex",
    "UncertifiedLazyGibbs",
    "lazy",
    "learners",
    "losses",
    "rank_players",
    "run_game",
    "streams",
]
