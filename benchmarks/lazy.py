"""Lazy learners: regret and moves on linear losses, against FTRL by blocks with as many moves, and what is proved.

    python benchmarks/lazy.py                          # T = 10^4, d = 10, 300 moves, 20 seeds
    python benchmarks/lazy.py --rounds 2000 --seeds 5
    python benchmarks/lazy.py --stream coins --seeds 100

Streams: `stationary` and `drifting` of `dc.games.streams`; `clock`, where the direction is new with every block of
BlockedFTRL; `coins`, random gradients without a mean. A seed is one of the stream and of the learner. `proved` is the
bound for the losses of the stream, and the one after it that for any; both are bounds on expectations.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

import dpconvex as dc
from dpconvex.games import streams
from dpconvex.games.player import Learner

LEARNERS = (dc.games.LazyLeader, dc.games.LazyGibbs, dc.games.BlockedFTRL)
STREAMS = ("stationary", "drifting", "clock", "coins")


class Outcome(NamedTuple):
    """Over the seeds: mean regret and moves with standard errors, what is proved for these losses, and for any."""

    regret: float
    error: float
    moves: float
    moves_error: float
    proved: float
    worst: float


def rows_of(stream: str, rounds: int, d: int, switches: float, seed: int) -> np.ndarray:
    if stream == "clock":
        block = dc.games.BlockedFTRL(dc.domains.L2Ball(1.0), 1.0, rounds, switches).block
        return np.repeat(streams.stationary(-(-rounds // block), d, seed, bias=0.0), block, axis=0)[:rounds]
    if stream == "coins":
        return streams.stationary(rounds, d, seed, bias=0.0)
    return getattr(streams, stream)(rounds, d, seed)


def measure(kind: type[Learner], stream: str, rounds: int, d: int, switches: float, seeds: int) -> Outcome:
    found = []
    for seed in range(seeds):
        options = {"lipschitz": 1.0, "horizon": rounds, "switches": switches}
        random = kind is not dc.games.BlockedFTRL
        learner = kind(dc.domains.L2Ball(1.0), **options, **({"seed": seed} if random else {}))
        game = dc.games.run_game(learner.player(d), rows_of(stream, rounds, d, switches, seed))
        found.append((game.regret, game.switches, learner.bound(game)))
    table = dc.games.rank_players(rounds, d, 1.0, 1.0, switches=switches)
    (worst,) = [row.regret for row in table.rows if row.name == kind.__name__]
    regret, moves, proved = map(float, np.mean(found, axis=0))
    errors = np.std(found, axis=0, ddof=1) / seeds**0.5 if seeds > 1 else np.zeros(3)
    return Outcome(regret, float(errors[0]), moves, float(errors[1]), proved, worst)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--dimension", type=int, default=10)
    parser.add_argument("--switches", type=float, default=300)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--stream", choices=STREAMS, action="append", help="all of them unless said")
    asked = parser.parse_args()
    print(
        f"T = {asked.rounds}, d = {asked.dimension}, {asked.switches:g} moves allowed, mean of {asked.seeds} seeds "
        "(standard error)"
    )
    print(f"{'':12}{'':13}{'regret':>15}{'/ blocks':>10}{'proved':>8}{'for any':>9}{'moves':>15}")
    for stream in asked.stream or STREAMS:
        found = {
            kind: measure(kind, stream, asked.rounds, asked.dimension, asked.switches, asked.seeds) for kind in LEARNERS
        }
        blocks = found[dc.games.BlockedFTRL].regret
        for kind, f in found.items():
            regret, moves = f"{f.regret:.1f} ({f.error:.1f})", f"{f.moves:.1f} ({f.moves_error:.1f})"
            print(
                f"{stream:12}{kind.__name__:13}{regret:>15}{f.regret / blocks:10.2f}{f.proved:8.1f}{f.worst:9.1f}"
                f"{moves:>15}",
                flush=True,
            )


if __name__ == "__main__":
    main()
