"""GAMES: learners that play against a stream of losses, without privacy, and the regret they are left with."""

from __future__ import annotations

from dpconvex.online import lazy, learners, losses, streams
from dpconvex.online.domains import Simplex
from dpconvex.online.game import Game, run_game
from dpconvex.online.player import Learner, LearnerPlayer, Player

__all__ = ["Game", "Learner", "LearnerPlayer", "Player", "Simplex", "lazy", "learners", "losses", "run_game", "streams"]
