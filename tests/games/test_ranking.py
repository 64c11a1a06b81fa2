"""Bounds of private and lazy players: against published tables, brute force, games, and each other."""

import math
from itertools import pairwise

import lazy as bench
import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import InputError
from dpconvex.games import losses, ranking, run_game, streams
from dpconvex.games.pomer_bounds import blocked_setting, pomer_setting
from dpconvex.games.ranking import GameFacts, NoisyLeader, mean_norm, rank_players
from dpconvex.noise import PrefixSum

# Bounds over 2 G R T at delta = 1e-6 for noise of the square-root factorisation, for a tree, and for blocked Gibbs.
LADDER = {
    (10**3, 10, 1.0): (0.2039, 0.3046, 0.1889),
    (10**3, 10, 8.0): (0.0815, 0.1206, 0.0812),
    (10**3, 100, 4.0): (0.1928, 0.2880, 0.1798),
    (10**4, 10, 1.0): (0.0717, 0.1123, 0.0663),
    (10**4, 10, 8.0): (0.0286, 0.0444, 0.0274),
    (10**4, 100, 1.0): (0.1273, 0.1995, 0.1131),
    (10**5, 10, 4.0): (0.0132, 0.0211, 0.0121),
    (10**5, 100, 8.0): (0.0173, 0.0277, 0.0158),
    (10**6, 10, 1.0): (0.0084, 0.0137, 0.0073),
    (10**6, 100, 8.0): (0.0059, 0.0096, 0.0052),
}
FACTS = (400, 3, 1.0, 2.0)  # of most tests: coins are planned once for all of them
BUDGET = dc.Budget(8.0, 1e-6)
BALL = dc.domains.L2Ball(1.0)
PRINTED = 0.00005  # the digits that are given


def near(found, printed):
    return abs(found - printed) <= 0.03 * printed + PRINTED


@pytest.mark.parametrize("facts", LADDER)
def test_the_ladder(facts):
    horizon, d, epsilon = facts
    game, budget = GameFacts(horizon, d, 1.0, 1.0), dc.Budget(epsilon, 1e-6)
    root, tree, blocked = LADDER[facts]
    for backend, printed in (("blt", root), ("tree", tree)):
        fixed = NoisyLeader(game, budget, backend, steps="fixed").regret(horizon)
        assert near(fixed / (2 * horizon), printed)
        assert fixed < NoisyLeader(game, budget, backend).regret(horizon) < 1.5 * fixed  # steps that fall with time
    assert near(blocked_setting(horizon, d, 1.0, BALL, budget).regret / (2 * horizon), blocked)


def test_the_ladder_in_one_dimension_is_not_worse_than_printed():
    for horizon, epsilon, printed in ((10**4, 1.0, 0.0405), (10**6, 8.0, 0.0019)):  # |z| has mean 0.8 there, not 1
        leader = NoisyLeader(GameFacts(horizon, 1, 1.0, 1.0), dc.Budget(epsilon, 1e-6), "blt", steps="fixed")
        assert 0.85 * printed < leader.regret(horizon) / (2 * horizon) < printed + PRINTED


def test_the_ladder_of_coins():
    for facts, printed in (((10**4, 10, 8.0), 0.0311), ((10**6, 10, 1.0), 0.0082)):
        found = pomer_setting(*facts[:2], 1.0, BALL, dc.Budget(facts[2], 1e-6), coin="exact").regret / (2 * facts[0])
        assert 0.93 * printed <= found <= 1.03 * printed + PRINTED
    table = rank_players(10**4, 10, 1.0, 1.0, budget=dc.Budget(8.0, 1e-6))
    rows = {row.name: row.regret / (2 * 10**4) for row in table.rows}
    assert near(rows["BlockedGibbs"], 0.0274)
    assert near(rows["Pomer, exact coin"], 0.0311)
    assert near(rows["Pomer, reference coin"], 0.0324)
    assert rows["Pomer, exact coin"] < rows["Pomer, one-sample coin"] < 1.1 * rows["Pomer, exact coin"] + 0.002
    assert table.best.name.startswith("PrivateFTRL")  # the only one for convex losses in 10 dimensions
    assert [row.suits for row in table.rows] == [True] * 2 + [False] * 4


def test_for_linear_losses_the_leader_is_far_better():
    game, budget = GameFacts(10**6, 10, 1.0, 1.0), dc.Budget(1.0, 1e-6)
    linear = NoisyLeader(game, budget, "blt", "linear", "fixed").regret(10**6)
    assert near(linear / (2 * 10**6), 0.0006)
    assert linear < 0.1 * NoisyLeader(game, budget, "blt", steps="fixed").regret(10**6)


@pytest.mark.parametrize("backend", ["blt", "tree"])
@pytest.mark.parametrize("n", [1, 2, 7, 64, 999])
def test_sums_of_deviations_against_all_of_them(backend, n):
    horizon = 1000
    deviations = [
        math.sqrt(ranking._variances(backend, horizon, j) - ranking._variances(backend, horizon, j - 1))
        for j in range(1, n + 1)
    ]
    noise = PrefixSum(backend, horizon)
    assert max(deviations) == pytest.approx(noise.max_error(n))
    plain, root = sum(deviations), sum(s / math.sqrt(j) for j, s in enumerate(deviations, 1))
    assert plain * (1 - 1e-9) <= ranking._plain_sum(backend, horizon, n) <= 1.04 * plain
    assert root * (1 - 1e-9) <= ranking._root_sum(backend, horizon, n) <= 1.04 * root
    assert ranking._plain_sum(backend, horizon, 0) == ranking._root_sum(backend, horizon, 0) == 0.0
    if backend != "tree":  # what the bound for linear losses needs
        assert all(a <= b * (1 + 1e-12) for a, b in pairwise(deviations))


@pytest.mark.parametrize("n", [0, 1, 5, 1000, 1001, 54_321])
def test_sums_of_roots(n):
    exact = math.fsum(1.0 / math.sqrt(j) for j in range(1, n + 1))
    assert exact * (1 - 1e-12) <= ranking._roots(n) <= exact * 1.001 + 1e-12


def test_mean_norm_against_draws():
    rng = np.random.default_rng(0)
    for d in (1, 2, 30):
        assert mean_norm(d) == pytest.approx(np.linalg.norm(rng.normal(size=(200_000, d)), axis=1).mean(), rel=0.01)
        assert mean_norm(d) <= math.sqrt(d)
    assert mean_norm(10**9) == pytest.approx(10**4.5, rel=1e-4)


@pytest.mark.parametrize("kind", ["convex", "linear"])
@pytest.mark.parametrize("steps", ["root", "fixed"])
def test_the_step_is_the_best_one(kind, steps):
    leader = NoisyLeader(GameFacts(500, 3, 2.0, 5.0), dc.Budget(1.0, 1e-6), "blt", kind, steps)
    over, under, rest = leader._terms(500)
    least = leader.regret(500)
    for factor in (0.5, 0.9, 1.1, 2.0):
        eta = leader.step * factor
        assert over / eta + under * eta + rest > least


def build(code, **options):
    """What a row says to construct, with a seed."""
    assert code.endswith(".start()")
    return eval(code[: -len(".start()")] + ".start(seed=SEED, dataset='recommended')", {"dc": dc, **options})


@pytest.mark.parametrize("backend", ["blt", "tree"])
@pytest.mark.parametrize("opponent", ["stationary", "drifting", "coins", "orthogonal"])
def test_games_stay_below_the_bound(backend, opponent):
    rounds, d = FACTS[:2]
    kind = "convex" if opponent == "orthogonal" else "linear"
    table = rank_players(*FACTS, BUDGET, losses=kind)
    (row,) = [row for row in table.rows if row.name == f"PrivateFTRL, {backend}"]
    regrets = []
    for seed in range(5):
        made = bench.rows_of("coins", rounds, d, 1, seed) if opponent == "coins" else None
        stream = getattr(streams, opponent)(rounds, d, seed) if made is None else made
        regrets.append(run_game(build(row.code, SEED=seed), stream).regret)
    assert np.mean(regrets) <= row.regret


def test_convex_losses_stay_below_the_bound():
    rng = np.random.default_rng(1)
    rows, u = streams.stationary(400, 3, 0, bias=0.0), np.array([0.3, -0.5, 1.0])
    table = rank_players(*FACTS, BUDGET)
    stream = [losses.AbsoluteLoss(a, float(a @ u + 0.1 * rng.normal())) for a in rows]
    player = build(table.best.code, SEED=0)
    assert run_game(player, stream, comparator=u).regret <= table.best.regret
    assert player.plan.claim.epsilon(1e-6) <= 8.0


def test_what_is_to_be_constructed_is_there():
    private = rank_players(*FACTS, BUDGET, losses="linear")
    lazy = rank_players(*FACTS, switches=20, losses="linear")
    assert len(private.rows) == 6
    for row in (*private.rows, *lazy.rows):
        player = eval(row.code, {"dc": dc})
        assert np.linalg.norm(player.play()) <= FACTS[3], row.name


def test_lazy_rows_are_what_the_learners_say():
    table = rank_players(10_000, 10, 1.0, 1.0, switches=300, losses="linear")
    assert [row.name for row in table.rows] == ["LazyLeader", "LazyGibbs", "BlockedFTRL"]
    ball = dc.domains.L2Ball(1.0)
    for row in table.rows[:2]:
        learner = getattr(dc.games, row.name)(ball, lipschitz=1.0, horizon=10_000, switches=300)
        assert (row.regret, row.moves) == (learner.setting(10).regret, learner.setting(10).moves)
    convex = rank_players(10_000, 10, 1.0, 1.0, switches=300)
    assert convex.best.name == "BlockedFTRL"
    assert convex.best.moves <= 300
    assert [row.suits for row in convex.rows] == [True, False, False]
    few = rank_players(10_000, 100, 1.0, 1.0, switches=5, losses="linear")
    assert few.best.name == "BlockedFTRL"  # with fewer moves than about d / 6


@pytest.mark.parametrize("kind", ["convex", "linear"])
def test_more_budget_is_never_worse_and_longer_games_have_less_regret_a_round(kind):
    def bounds(horizon, epsilon, d=3):
        budget = dc.Budget(epsilon, 1e-7)
        leaders = [
            NoisyLeader(GameFacts(horizon, d, 1.0, 1.0), budget, b, kind).regret(horizon) for b in ranking.BACKENDS
        ]
        return np.array([*leaders, blocked_setting(horizon, d, 1.0, BALL, budget).regret])

    for less, more in pairwise([bounds(1000, e) for e in (0.1, 0.5, 1.0, 4.0, 16.0)]):
        assert (less >= more).all()
    for short, long in pairwise([30, 1000, 30_000]):
        assert (bounds(short, 1.0) <= bounds(long, 1.0)).all()
        assert (bounds(short, 1.0) / short >= bounds(long, 1.0) / long).all()
    for low, high in pairwise([bounds(1000, 1.0, d) for d in (1, 10, 100)]):
        assert (low <= high * (1 + 1e-9)).all()
    by_moves = [rank_players(1000, 3, 1.0, 1.0, switches=s, losses=kind).best.regret for s in (1, 10, 100, 999, 10**6)]
    assert by_moves == sorted(by_moves, reverse=True)


def test_the_relation_and_the_scales_matter_as_they_should():
    plain = rank_players(*FACTS, BUDGET)
    masked = rank_players(*FACTS, dc.Budget(8.0, 1e-6, "zero_out"))
    scaled = rank_players(*FACTS[:2], 5.0, 7.0, BUDGET)
    for a, b, c in zip(*(sorted(t.rows, key=lambda row: row.name) for t in (plain, masked, scaled)), strict=True):
        assert b.regret < a.regret
        assert c.regret == pytest.approx(35.0 / 2.0 * a.regret, rel=1e-6)


def test_one_round_and_others_that_are_too_few():
    for table in (
        rank_players(1, 1, 1.0, 1.0, budget=dc.Budget(1.0, 0.5)),
        rank_players(2, 1, 1.0, 1.0, budget=dc.Budget(1.0, 1e-6)),
        rank_players(7, 3, 1.0, 1.0, budget=dc.Budget(0.1, 1e-6)),
        rank_players(1, 1, 1.0, 1.0, switches=1, losses="linear"),
    ):
        assert not table.useful
        assert table.best.regret >= table.standing * (1 - 1e-9)
        assert "no useful bound" in str(table)
        assert "construct" not in str(table)
    assert rank_players(1, 1, 1.0, 1.0, budget=dc.Budget(1.0, 0.5)).best.regret == pytest.approx(1.0)


def test_long_games():
    table = rank_players(3 * 10**7, 1, 1.0, 1.0, budget=dc.Budget(1.0, 1e-9), losses="linear")
    assert table.best.name == "PrivateFTRL, blt"


def test_the_table_in_words():
    table = rank_players(1000, 3, 1.0, 1.0, switches=30, losses="linear")
    assert repr(table) == str(table)
    lines = str(table).splitlines()
    assert lines[0] == "Players of 1000 rounds in dimension 3, linear losses, 30 moves"
    assert "LazyLeader" in lines[2]
    assert lines[-1] == f"  construct   {table.best.code}"
    assert "(1, 1e-06)-DP, replace_one" in str(rank_players(10, 1, 1.0, 1.0, budget=dc.Budget(1.0, 1e-6)))


@pytest.mark.parametrize(
    ("facts", "options", "words"),
    [
        ((100, 3, 1.0, 1.0), {}, "give a budget"),
        ((100, 3, 1.0, 1.0), {"budget": dc.Budget(1.0, 1e-6), "switches": 3}, "not both"),
        ((100, 3, 1.0, 1.0), {"budget": dc.Budget(1.0, 0.01)}, "delta must be below"),
        ((100, 3, 1.0, 1.0), {"budget": (1.0, 1e-6)}, "dpconvex.Budget"),
        ((100, 3, 1.0, 1.0), {"switches": 0}, "switches"),
        ((100, 3, 1.0, 1.0), {"switches": math.nan}, "switches"),
        ((100, 3, 1.0, 1.0), {"switches": 3, "losses": "square"}, "losses must be"),
        ((0, 3, 1.0, 1.0), {"switches": 3}, "horizon"),
        ((10.5, 3, 1.0, 1.0), {"switches": 3}, "horizon"),
        ((True, 3, 1.0, 1.0), {"switches": 3}, "horizon"),
        ((10**10, 3, 1.0, 1.0), {"switches": 3}, "horizon"),
        ((100, 0, 1.0, 1.0), {"switches": 3}, "dimension"),
        ((100, 3, 0.0, 1.0), {"switches": 3}, "lipschitz"),
        ((100, 3, math.inf, 1.0), {"switches": 3}, "lipschitz"),
        ((100, 3, 1.0, -1.0), {"switches": 3}, "radius"),
        ((100, 3, 1.0, "1"), {"switches": 3}, "radius"),
    ],
)
def test_refusals(facts, options, words):
    with pytest.raises(InputError, match=words):
        rank_players(*facts, **options)


@pytest.mark.parametrize("stream", ["stationary", "drifting", "clock"])
def test_lazy_learners_keep_to_their_moves_at_half_the_regret_of_blocks(stream):
    blocks = bench.measure(dc.games.BlockedFTRL, stream, 2000, 10, 100, seeds=3)
    assert blocks.regret <= blocks.proved
    assert blocks.moves <= 100
    for kind, seeds, share in ((dc.games.LazyLeader, 6, 0.5), (dc.games.LazyGibbs, 20, 0.6)):
        lazy = bench.measure(kind, stream, 2000, 10, 100, seeds)
        assert lazy.moves <= 100 * 1.1  # a mean of some games, each about 10 off
        assert lazy.regret <= min(lazy.proved, lazy.worst, share * blocks.regret)
