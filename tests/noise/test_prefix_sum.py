"""Correlated noise: its matrices against brute force, its privacy by exact linear algebra, and its bookkeeping."""

import copy
import itertools
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from dpconvex.errors import InputError
from dpconvex.noise import PrefixSum, Source, prefix_sum
from dpconvex.noise.factors import BLT, REFINED, Tree, factor_of, memory_of, rows_until
from dpconvex.noise.rounded import settle
from dpconvex.noise.rounds import add_up, enter, given_rounds, leave

BACKENDS = ["tree", "honaker", "blt"]
GRID = 2.0**-24


def made(backend, horizon, d, scale=1.0, source=None, grid=GRID):
    return PrefixSum(backend, horizon).stream(d, scale, grid, source or Source())


def matrix(monkeypatch, backend, horizon, count, scales=None):
    """How the running sums (or, without scales, the increments) depend on the white noise: one row a round.

    The k-th row of noise, of all that is drawn, is the k-th unit vector; the sensitivity is 1 and the scale is 1.
    """
    drawn, width = 0, 4 * count + 4 * 511

    def basis(stream, before, part, words, noise):
        nonlocal drawn
        drawn += len(noise)
        unit = np.eye(len(noise), width, drawn - len(noise)) * stream._ratio * stream.grid
        return given_rounds(stream._factor, stream._memory, before, part, unit)

    monkeypatch.setattr(prefix_sum.PrefixSumStream, "_rounds", basis)
    found = made(backend, horizon, width).add(np.zeros((count, width)), np.ones(count) if scales is None else scales)
    assert drawn <= width
    monkeypatch.undo()
    return np.diff(found, axis=0, prepend=0.0) if scales is None else found


def rows_of(factor, rounds):
    """C as it is computed: rows of what a unit increment in each round makes."""
    kind = factor.form.kind
    nothing = np.zeros((rows_until(kind, rounds), rounds))
    made = given_rounds(factor, memory_of(factor, rounds), 0, rounds, nothing)
    out = np.empty((rounds, rounds))
    add_up(made, 0, False, np.eye(rounds), np.ones(rounds), np.zeros(rounds), out)
    assert np.abs(out - np.tril(np.ones((rounds, rounds)))).max() < 1e-11  # the inverse undoes it
    return made.noise


def series(coefficients):
    """Lower-triangular Toeplitz matrix."""
    T = len(coefficients)
    lag = np.subtract.outer(np.arange(T), np.arange(T))
    return np.where(lag >= 0, np.asarray(coefficients)[np.maximum(lag, 0)], 0.0)


def blt_series(horizon, T):
    """Coefficients of C by multiplying power series, one pole and one zero after the other."""
    theta, p = (1.0 - gap for gap in BLT(horizon)._poles)
    c = np.eye(1, T)[0]
    for pole, zero in zip(theta, p, strict=True):
        c = np.convolve(c, pole ** np.arange(T))[:T]
        c = c - zero * np.concatenate([[0.0], c[:-1]])
    return c


def nodes(T):
    """Rows of the tree over T rounds: every dyadic interval that ends by T."""
    found = []
    for k in range(T.bit_length()):
        for j in range(T >> k):
            row = np.zeros(T)
            row[j << k : (j + 1) << k] = 1.0
            found.append(row)
    return np.array(found)


# Matrices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("T", [1, 2, 7, 256, 257, 600])
def test_rows_of_blt_are_its_series_and_increments_its_inverse(T, monkeypatch):
    c = blt_series(T, T)
    C, norm = series(c), np.linalg.norm(c)
    assert np.abs(rows_of(BLT(T), T) - C).max() < 1e-13
    M = matrix(monkeypatch, "blt", T, T) / norm
    assert np.abs(M[:, T:]).max() == 0.0
    assert np.abs(C @ M[:, :T] - np.eye(T)).max() < 1e-10
    assert np.linalg.norm(C, axis=0).max() == pytest.approx(norm, rel=1e-15)


@pytest.mark.parametrize("T", [1, 2, 7, 256, 300])
def test_rows_of_trees_are_their_nodes(T):
    every = nodes(T)
    assert np.array_equal(sorted(rows_of(Tree(T, refined=True), T).tolist()), sorted(every.tolist()))
    used = [row for row in every.tolist() if round(sum(row)) == (row[::-1].index(1.0) - T) & (T - row[::-1].index(1.0))]
    assert np.array_equal(sorted(rows_of(Tree(T), T).tolist()), sorted(used))
    assert np.array_equal(rows_of(factor_of("independent", T), T), np.eye(T))


@pytest.mark.parametrize("T", [1, 2, 7, 200])
def test_norms_of_columns_and_rows_agree_with_brute_force(T):
    A = np.tril(np.ones((T, T)))
    c, factor = blt_series(T, T), factor_of("blt", T)
    norms = ((A @ np.linalg.inv(series(c))) ** 2).sum(axis=1)
    assert prefix_sum._square("blt", T) == pytest.approx(np.sum(np.square(c)), rel=1e-10)
    assert prefix_sum._square("blt", T) >= np.sum(np.square(c))
    assert [factor.variance(t) for t in range(1, T + 1)] == pytest.approx(norms, rel=1e-10)
    assert factor.total_variance(T) == pytest.approx(norms.sum(), rel=1e-10)
    assert ((A @ np.linalg.inv(series(c))) > 0.0)[np.tril_indices(T)].all()
    assert PrefixSum("blt", T).max_error() == pytest.approx(np.sqrt(norms.max() * np.sum(np.square(c))), rel=1e-9)


@pytest.mark.parametrize("T", [1, 2, 3, 8, 100, 127, 128])
def test_the_count_of_the_tree_agrees_with_brute_force(T):
    assert Tree(T).squared_norm == (nodes(T) ** 2).sum(axis=0).max()
    for tree in (Tree(T), Tree(T, refined=True)):
        variances = [tree.variance(t) for t in range(1, T + 1)]
        assert tree.total_variance(T) == pytest.approx(sum(variances), rel=1e-13)
        assert tree.largest_variance(T) == pytest.approx(max(variances), rel=1e-13)


def test_the_tree_is_the_sum_over_binary_digits(monkeypatch):
    """Round t draws the node that ends at t and spans its last digit 1: the algorithm NOISE of the paper."""
    T = 600
    B = np.cumsum(matrix(monkeypatch, "tree", T, T), axis=0) / math.sqrt(Tree(T).squared_norm)
    for t in range(1, T + 1):
        wanted, left = np.zeros(B.shape[1]), t
        while left:
            wanted[left - 1] = 1.0
            left -= left & -left
        assert np.abs(B[t - 1] - wanted).max() < 1e-12


def test_honaker_is_least_squares_on_all_nodes_so_far(monkeypatch):
    T = 300
    B = np.cumsum(matrix(monkeypatch, "honaker", T, T), axis=0) / math.sqrt(Tree(T).squared_norm)
    tree = Tree(T, refined=True)
    for t in [*range(1, 40), 127, 128, 255, 256, 257, 300]:
        C = nodes(t)
        best = np.linalg.solve(C.T @ C, np.ones(t)).sum()
        assert (B[t - 1] ** 2).sum() == pytest.approx(best, rel=1e-10)
        assert tree.variance(t) == pytest.approx(best, rel=1e-10)


@pytest.mark.parametrize("backend", BACKENDS)
def test_errors_are_those_of_the_noise_that_is_drawn(backend, monkeypatch):
    for horizon, rounds in ((600, 600), (1000, 300), (None, 300)):
        B = np.cumsum(matrix(monkeypatch, backend, horizon, rounds), axis=0)
        variances = (B**2).sum(axis=1)
        noise = PrefixSum(backend, horizon)
        assert noise.rms_error(rounds) == pytest.approx(math.sqrt(variances.mean()), rel=1e-9)
        assert noise.max_error(rounds) == pytest.approx(math.sqrt(variances.max()), rel=1e-9)


def test_the_table_of_errors():
    table = {
        ("tree", "paper"): (7.35, 9.61, 12.0, 14.3),
        ("tree", "exact"): (7.02, 9.51, 11.8, 14.0),
        ("honaker", "exact"): (5.35, 7.13, 8.74, 10.3),
        ("blt", "exact"): (3.09, 3.83, 4.56, 5.32),
    }
    horizons = (10**3, 10**4, 10**5, 10**6)
    for (backend, count), errors in table.items():
        found = [PrefixSum(backend, T, count).rms_error() for T in horizons]
        assert found == pytest.approx(errors, rel=0.01)


@pytest.mark.parametrize("T", [1, 2, 5, 20, 70, 500, 5000, 3 * 10**5, 10**7])
def test_blt_is_about_as_good_as_the_square_root_at_any_horizon(T):
    """B = C = A^(1/2), whose first column holds the coefficients of (1 - x)^(-1/2)."""
    k = np.arange(1.0, T)
    squares = np.concatenate([[1.0], np.cumprod((k - 0.5) / k)]) ** 2
    rms = math.sqrt((np.arange(T, 0.0, -1.0) * squares).sum() / T * squares.sum())
    assert PrefixSum("blt", T).rms_error() < 1.02 * rms
    assert PrefixSum("blt", T).max_error() < 1.02 * squares.sum()


def test_the_poles_of_blt_interlace_at_every_horizon():
    for T in np.unique(np.geomspace(1, 10**9, 200).astype(int)):
        theta, p = BLT(int(T))._poles
        order = np.ravel(np.column_stack([p, theta]))
        assert (np.diff(order) < 0.0).all()
        assert order[-1] > 0.0
        assert order[0] < 1.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_open_horizon_costs_less_than_doubling_would(backend):
    """Epochs of 1, 2, 4, ... rounds, the usual choice, add up the errors of twenty epochs by round 10^6."""
    doubling = math.sqrt(sum(PrefixSum(backend, 2**k).max_error() ** 2 for k in range(20)))
    assert PrefixSum(backend).max_error(10**6) < doubling
    assert PrefixSum(backend).max_error(10**6) > PrefixSum(backend, 10**6).max_error()


def test_independent_noise_grows_like_the_root_of_the_rounds():
    assert PrefixSum("independent", 10**6).max_error() == 1e3
    assert PrefixSum("independent", 100).rms_error() == pytest.approx(math.sqrt(np.arange(1, 101).mean()))


# Privacy -----------------------------------------------------------------------------------------------------------


def shifts(M):
    """Inverse of the Cholesky factor of the covariance of the increments: entry (t, i) is by how many standard
    deviations, given all earlier rounds, round t moves if the increment of round i moves by 1."""
    return np.linalg.inv(np.linalg.cholesky(M @ M.T))


@pytest.mark.parametrize("backend", [*BACKENDS, "independent"])
@pytest.mark.parametrize(("horizon", "rounds"), [(1, 1), (2, 2), (100, 100), (300, 300), (300, 40), (None, 280)])
def test_no_record_costs_more_than_mu(backend, horizon, rounds, monkeypatch):
    costs = (shifts(matrix(monkeypatch, backend, horizon, rounds)) ** 2).sum(axis=0)
    assert costs.max() <= 1.0 + 1e-9
    if rounds == horizon and backend != "honaker":  # sharp: the first record pays all of it
        assert costs[0] == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_mutants_cost_more_than_mu(backend, monkeypatch):
    M = matrix(monkeypatch, backend, 100, 100)
    assert (shifts(0.5 * M) ** 2).sum(axis=0).max() > 1.5
    with monkeypatch.context() as broken:
        broken.setattr(PrefixSum, "_square", lambda self, factor: 1.0)
        unscaled = matrix(broken, backend, 100, 100)
    assert (shifts(unscaled) ** 2).sum(axis=0).max() > 1.5


def play(data, answer):
    """A learner with adaptive scales: returns its normalised increments and what was released.

    Each round adds a record, turned and scaled as earlier releases say; `answer` returns the next noisy sum.
    """
    released, clean, last = [], [], np.zeros(2)
    for t, record in enumerate(data):
        scale = 10.0 ** (3.0 * np.tanh(last[0])) if t % 3 else 1e-6
        turn = np.array([[np.cos(last[1]), -np.sin(last[1])], [np.sin(last[1]), np.cos(last[1])]])
        clean.append(turn @ record / max(1.0, 2.0 * np.linalg.norm(record)))
        last = answer(t, scale * clean[-1], scale)
        released.append(last)
    return np.array(clean), released


@pytest.mark.parametrize("backend", [*BACKENDS, "independent"])
@pytest.mark.parametrize("horizon", [60, None])
def test_transcripts_on_neighbours_stay_within_mu(backend, horizon, rng, monkeypatch):
    """What a run released is told to one on a neighbour: squared shifts, in standard deviations, add up to mu^2."""
    T, mu = 60, 0.7
    inverse = mu * shifts(matrix(monkeypatch, backend, horizon, T))
    for place in (0, 1, 16, 31, 59):
        data = rng.normal(size=(T, 2))
        data[place] = [9.0, 0.0]
        other = data.copy()
        other[place] = [-9.0, 0.0]
        stream = made(backend, horizon, 2, 1.0 / mu, Source(place))
        mine, released = play(data, lambda t, more, scale, stream=stream: stream.add(more[None], [scale])[0])
        theirs, _ = play(other, lambda t, exact, scale, told=released: told[t])
        delta = mine - theirs
        assert np.linalg.norm(delta, axis=1).max() == pytest.approx(1.0)
        spent = np.cumsum(((inverse @ delta) ** 2).sum(axis=1))
        assert (spent <= mu**2 * (1.0 + 1e-9)).all()
        assert place or 4.0 * spent[-1] > mu**2  # with half the noise, the first record would pay more than mu


def cost(sums, moved):
    """Squared shift, in standard deviations, of noise that is linear in white noise: the shortest white vector."""
    return np.sum(np.linalg.lstsq(sums, moved, rcond=1e-15)[0] ** 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_small_scale_after_a_large_one_reveals_nothing_more(backend, monkeypatch):
    mu, scales = 1.0, np.array([1.0, 1e-6])
    sums = matrix(monkeypatch, backend, 2, 2, scales)
    covariance = sums @ sums.T
    assert covariance[1, 1] == pytest.approx(covariance[0, 0], rel=1e-5)  # not 1e-12 of it
    first, second = np.array([1.0, 1.0]), np.array([0.0, 1e-6])  # what a record moves in either round
    assert cost(sums, first) <= mu**2 * (1.0 + 1e-6)
    assert cost(sums, second) <= mu**2 * (1.0 + 1e-6)
    assert cost(sums, first) > 0.5 * mu**2
    prefix = scales[:, None] * matrix(monkeypatch, backend, 2, 2, np.ones(2))  # the mutant: s_t times prefix noise
    assert cost(prefix, first) > 1e9


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("horizon", [600, None])
def test_drawn_noise_has_the_covariance_of_its_matrix(backend, horizon, monkeypatch):
    """Among the rounds are the first ones of chunks and of epochs, which must not share white noise."""
    rounds, d = np.array([0, 1, 15, 16, 17, 18, 255, 256, 257, 271, 272, 273, 274, 511, 512, 513]), 4000
    M = matrix(monkeypatch, backend, horizon, 520)[rounds]
    wanted = M @ M.T
    sums = made(backend, horizon, d, source=Source(5)).add(np.zeros((520, d)), np.ones(520))
    zeta = np.diff(sums, axis=0, prepend=0.0)[rounds]
    spread = np.sqrt((wanted**2 + np.outer(np.diag(wanted), np.diag(wanted))) / d)
    assert (np.abs(zeta @ zeta.T / d - wanted) < 4.5 * spread).all()
    assert (np.abs(zeta.mean(axis=1)) < 4.5 * np.sqrt(np.diag(wanted) / d)).all()


# Streams -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("horizon", [3000, None])
@pytest.mark.parametrize("d", [3, 400])
def test_rounds_one_by_one_and_in_parts_agree_to_the_last_bit(backend, horizon, d, rng):
    T, sources = 700, (Source(1), Source(1))
    scales, increments = np.exp(rng.normal(size=T)), rng.normal(size=(T, d))
    single, parts = (made(backend, horizon, d, 0.5, source) for source in sources)
    one_by_one = np.concatenate([single.add(increments[t : t + 1], scales[t : t + 1]) for t in range(T)])
    cuts = [0, 1, 16, 200, 256, 257, 600, T]
    found = [parts.add(increments[a:b], scales[a:b]) for a, b in itertools.pairwise(cuts)]
    assert np.array_equal(np.concatenate(found), one_by_one)
    assert np.array_equal(parts.last, one_by_one[-1])
    assert single.round == parts.round == T


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("horizon", [1001, None])
@pytest.mark.parametrize("stop", [0, 1, 16, 255, 256, 272, 273, 700])
def test_a_resumed_stream_goes_on_with_the_same_noise(backend, horizon, stop, rng):
    stream, more = made(backend, horizon, 2, 0.5), rng.normal(size=(301, 2))
    stream.add(rng.normal(size=(stop, 2)), np.full(stop, 2.0))
    state = stream.state()
    again = PrefixSum.resume(state)
    state["memory"] += 1.0  # the stream keeps memory of its own
    assert again.round == stop
    assert np.array_equal(again.add(more, np.ones(301)), stream.add(more, np.ones(301)))


def test_a_state_can_be_plain_text():
    stream = made("blt", 600, 2)
    stream.add(np.ones((300, 2)), np.ones(300))
    plain = json.loads(json.dumps(stream.state(), default=np.ndarray.tolist))
    assert np.array_equal(PrefixSum.resume(plain).add(np.ones((1, 2)), [1.0]), stream.add(np.ones((1, 2)), [1.0]))


def test_memory_is_what_the_back_ends_promise():
    for horizon in (10**3, 10**9):
        stream = made("blt", horizon, 7)
        stream.add(np.zeros((600, 7)), np.ones(600))
        assert stream.state()["memory"].shape == (3, 6, 7)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"format": "other"},
        {"key": "00"},
        {"key": "xyz"},
        {"round": 3},
        {"used": 999},
        {"used": -1},
        {"start": 1},
        {"start": 512},
        {"epoch": 1},
        {"d": 3},
        {"scale": -1.0},
        {"grid": 0.3},
        {"backend": "honaker"},
        {"horizon": 20},
        {"sum": [1.0]},
        {"sum": [np.nan, 0.0]},
        {"memory": []},
        {"memory": [[1.0]]},
        {"memory": np.full((3, 6, 2), np.inf)},
        {"memory": "text"},
    ],
)
def test_a_broken_state_is_refused(broken):
    stream = made("blt", 500, 2)
    stream.add(np.zeros((40, 2)), np.ones(40))
    with pytest.raises(InputError):
        PrefixSum.resume({**stream.state(), **broken} if broken else {})
    for nothing in (None, 3, "state", []):
        with pytest.raises(InputError, match="not the state"):
            PrefixSum.resume(nothing)


def next_noise(stream, rounds=1, scale=1.0):
    return np.diff(stream.add(np.zeros((rounds, stream.d)), np.full(rounds, scale)), axis=0, prepend=0.0)


def test_noise_is_private_to_its_source_and_name():
    assert not np.array_equal(next_noise(made("blt", 10, 2)), next_noise(made("blt", 10, 2)))
    names = [next_noise(PrefixSum("blt", 10).stream(2, 1.0, GRID, Source(1), name)).tolist() for name in ("a", "b")]
    assert names[0] != names[1]
    assert len(np.unique(next_noise(made("blt", None, 1), 272))) == 272


def test_a_stream_cannot_be_copied_or_pickled():
    stream = made("tree", 10, 2)
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="used twice"):
            duplicate(stream)


def test_what_is_returned_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        made("tree", 10, 2).add(np.zeros((1, 2)), [1.0])[0, 0] = 0.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_chunk_that_could_not_be_drawn_is_drawn_again(backend, monkeypatch):
    """Words fail at the beginning of a chunk: what comes after is what would have come anyway."""
    whole = next_noise(made(backend, 1000, 2, source=Source(8)), 600)
    stream = made(backend, 1000, 2, source=Source(8))
    first = next_noise(stream, 256)

    def fail(words):
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(prefix_sum, "standard_normals", fail)
        for _ in range(2):
            with pytest.raises(MemoryError):
                stream.add(np.zeros((1, 2)), [1.0])
    rest = np.diff(stream.add(np.zeros((344, 2)), np.ones(344)), axis=0)
    assert np.array_equal(first, whole[:256])
    assert rest == pytest.approx(whole[257:], abs=1e-12)


def test_an_interrupted_loop_ends_the_stream():
    stream = made("blt", 10, 2)

    def run(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stream.lead(2, run)
    for use in (lambda: stream.lead(2, run), stream.state, lambda: stream.add(np.zeros((1, 2)), [1.0])):
        with pytest.raises(InputError, match="interrupted"):
            use()


def test_the_last_epoch_ends_the_stream(monkeypatch):
    monkeypatch.setattr(prefix_sum, "LONGEST", 100)
    stream = made("tree", None, 2)
    next_noise(stream, 16)
    for _ in range(2):
        with pytest.raises(InputError, match="no round is left"):
            next_noise(stream)


# The machine -------------------------------------------------------------------------------------------------------


def entered(backend, T, increments, noise=None):
    """Rows of C x before noise, and what `leave` makes of noisy ones."""
    factor = factor_of(backend, T)
    rows = rows_until(factor.form.kind, T)
    d = increments.shape[1]
    given = given_rounds(factor, memory_of(factor, d), 0, T, np.zeros((rows, d)) if noise is None else noise.copy())
    out = np.empty((T, d))
    add_up(given, 0, False, increments, np.ones(T), np.zeros(d), out)
    return given.noise, out


@pytest.mark.parametrize("backend", [*BACKENDS, "independent"])
@pytest.mark.parametrize("T", [256, 700])
def test_rounds_are_causal_to_the_last_bit(backend, T, rng):
    """The last variate of a block, or the last increment, changes no earlier row and no earlier sum."""
    kind = factor_of(backend, T).form.kind
    noise, x = rng.normal(size=(rows_until(kind, T), 3)), rng.normal(size=(T, 3))
    rows, sums = entered(backend, T, x, noise)
    for last in (255, T - 1):
        above = rows_until(kind, last)
        other = noise.copy()
        other[above] *= -1.0
        assert np.array_equal(entered(backend, T, x, other)[1][:last], sums[:last])
        assert not np.array_equal(entered(backend, T, x, other)[1][last], sums[last])
        moved = x.copy()
        moved[last] += 1e9
        again, later = entered(backend, T, moved, noise)
        assert np.array_equal(again[:above], rows[:above])
        assert np.array_equal(later[:last], sums[:last])


def test_fourier_transforms_over_a_block_are_not_causal(rng):
    """What the test above would find: of a convolution by transforms, the last variate changes earlier results."""
    T = 256
    inverse = np.linalg.inv(series(blt_series(T, T)))[:, 0]

    def decoded(noise):
        return np.fft.irfft(np.fft.rfft(noise, 2 * T) * np.fft.rfft(inverse, 2 * T))[:T]

    noise = rng.normal(size=T)
    other = np.concatenate([noise[:-1], -noise[-1:]])
    assert decoded(noise) == pytest.approx(series(inverse) @ noise)
    assert not np.array_equal(decoded(noise)[:-1], decoded(other)[:-1])


@pytest.mark.parametrize("backend", [*BACKENDS, "independent"])
def test_rows_do_not_depend_on_the_noise(backend, rng):
    """Not to the last bit: so what their rounding does is fixed before any noise is drawn."""
    T, x = 300, rng.normal(size=(300, 2))
    values = []
    for seed in (1, 2):
        stream, seen = made(backend, T, 2, 1e3, Source(seed)), []

        def run(rounds, first, at, entered, sums, out, seen=seen):
            for r in range(at, len(out)):
                if r > at or not entered:
                    count = enter(rounds, r, x[first + r])
                    seen.append(rounds.values[: rounds.firsts[r + 1] - rounds.firsts[r]].copy())
                    if count:
                        return r
                leave(rounds, r, out[r])
            return len(out)

        stream.lead(T, run)
        values.append(np.concatenate(seen))
    assert np.array_equal(*values)
    assert np.abs(values[0]).max() < 1e2  # of the noise, none


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("T", [100, 2000])
def test_rows_are_as_near_to_exact_ones_as_is_charged(backend, T, rng):
    """In rational arithmetic: far within 64 units of the sum of all absolute increments times the column of C."""
    factor = factor_of(backend, T)
    for x in (rng.normal(size=(T, 1)), np.full((T, 1), 1.0 / 3.0), rng.choice([-1.0, 1.0], size=(T, 1)) / 3.0):
        rows = entered(backend, T, x)[0][:, 0]
        exact, form = [], factor.form
        past, given = [Fraction(0)] * len(form.weights), [Fraction(v) for v in x[:, 0].tolist()]
        for t in range(1, T + 1):
            if backend == "blt":
                exact.append(
                    given[t - 1] + sum(Fraction(w) * b for w, b in zip(form.weights.tolist(), past, strict=True))
                )
                past = [(1 - Fraction(g)) * b + given[t - 1] for g, b in zip(form.poles.tolist(), past, strict=True)]
                past = [Fraction(round(b * 2**200), 2**200) for b in past]
            else:
                top = (t & -t).bit_length()
                exact += [sum(given[t - 2**k : t]) for k in (range(top) if form.kind == REFINED else [top - 1])]
        off = math.sqrt(sum(float(Fraction(row) - e) ** 2 for row, e in zip(rows.tolist(), exact, strict=True)))
        unit = 2.0**-53 * np.abs(x).sum() * math.sqrt(factor.squared_norm)
        assert off < 4.0 * unit


def test_low_parts_are_needed():
    """Filters whose poles are near 1 forget their rounding slowly: without low parts it would grow with the horizon."""
    T, x = 10**5, np.full((10**5, 1), 1.0 / 3.0)
    form, rows = BLT(T).form, entered("blt", T, x)[0][:, 0]
    naive, careful = np.zeros(len(form.weights)), np.zeros(len(form.weights), dtype=np.longdouble)
    off = np.zeros((T, 2))
    for t in range(T):
        exact = x[t, 0] + (form.weights * careful).sum()
        off[t] = float(rows[t] - exact), float(x[t, 0] + (form.weights * naive).sum() - exact)
        naive, careful = naive + (x[t, 0] - form.poles * naive), careful + (x[t, 0] - form.poles * careful)
    found, without = np.linalg.norm(off, axis=0) / (2.0**-53 * x.sum() * math.sqrt(BLT(T).squared_norm))
    assert found < 4.0 < 8.0 < without


def test_released_rows_lie_on_the_grid_and_have_exactly_the_law_of_rounded_noise(rng):
    """On a coarse grid, where cells can be counted: of the second row of C x = c_1 x_1 + x_2."""
    d, x = 30_000, np.array([0.3, 0.45])
    stream, seen = made("blt", 2, d, 0.5, Source(4), grid=1.0), []

    def run(rounds, first, at, entered, sums, out):
        stop = add_up(rounds, at, entered, np.repeat(x[:, None], d, 1), np.ones(2), sums, out)
        seen.append(rounds)
        return stop

    stream.lead(2, run)
    row, c = seen[-1].noise[1], blt_series(2, 2)[1]
    assert (row == np.rint(row)).all()
    sigma, value = 0.5 * math.sqrt(BLT(2).squared_norm), c * x[0] + x[1]
    for k in (-1, 0, 1, 2):
        chance = ndtr((k + 0.5 - value) / sigma) - ndtr((k - 0.5 - value) / sigma)
        assert abs((row == k).mean() - chance) < 4.5 * math.sqrt(chance / d)


def test_what_float64_cannot_round_is_decided_in_integers(monkeypatch):
    """With all variates unsure every row is settled outside the loop, to the same values."""
    plain = made("honaker", 40, 3, source=Source(6)).add(np.ones((40, 3)), np.ones(40))
    settled = 0

    def counting(*arguments):
        nonlocal settled
        settled += 1
        return settle(*arguments)

    stream = made("honaker", 40, 3, source=Source(6))
    monkeypatch.setattr(prefix_sum, "settle", counting)

    def run(rounds, first, at, entered, sums, out):
        for r in range(at, len(out)):
            if r > at or not entered:
                enter(rounds, r, np.ones(3))
                rounds.unsure[:] = True
                return r
            leave(rounds, r, out[r])
            sums += out[r]
            out[r] = sums
        return len(out)

    assert stream.lead(40, run) == pytest.approx(plain, abs=1e-12)
    assert settled == 3 * rows_until(REFINED, 40)


def cost_of(backend, T, made_rows):
    """Squared shift of all rows when the first increment moves by 1, in deviations of the noise."""
    sigma = math.sqrt(factor_of(backend, T).squared_norm)
    return float(np.square(made_rows[:, 0]).sum()) / sigma**2


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_move_by_their_column_and_mutants_by_more(backend):
    """A recursion that forgets to correct for earlier rounds releases them again, and pays each time."""
    T = 100
    assert cost_of(backend, T, rows_of(factor_of(backend, T), T)) == pytest.approx(1.0, rel=1e-10)
    again = np.tril(np.ones((T, T)))  # sums instead of rows, with the same noise
    assert cost_of(backend, T, again) > 10.0


# Bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_round_is_past_the_horizon(backend):
    stream = made(backend, 5, 2)
    next_noise(stream, 4)
    with pytest.raises(InputError, match="past the horizon of 5"):
        next_noise(stream, 2)
    assert stream.round == 4  # nothing was drawn
    next_noise(stream)
    with pytest.raises(InputError, match="past the horizon"):
        next_noise(stream)


@pytest.mark.parametrize("horizon", [0, -3, 1.5, "10", True, 10**9 + 1, 10**30, np.nan])
def test_horizons_that_are_none(horizon):
    for backend in BACKENDS:
        with pytest.raises(InputError, match="horizon"):
            PrefixSum(backend, horizon)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_scales_are_positive(scale):
    stream = made("blt", 5, 2)
    with pytest.raises(InputError, match="positive"):
        stream.add(np.zeros((1, 2)), [scale])
    with pytest.raises(InputError, match="positive"):
        stream.add(np.zeros((2, 2)), np.ones((2, 2)))
    with pytest.raises(InputError, match="rows of 2 numbers"):
        stream.add(np.zeros((2, 3)), np.ones(2))
    assert stream.round == 0
    assert stream.add(np.zeros((0, 2)), []).shape == (0, 2)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, "1", True])
def test_the_noise_has_a_scale_and_a_grid(scale):
    with pytest.raises(InputError, match="scale must be"):
        made("blt", 5, 2, scale)
    with pytest.raises(InputError, match="grid must be"):
        made("blt", 5, 2, grid=scale)
    with pytest.raises(InputError, match="grid must be a power of two"):
        made("blt", 5, 2, grid=0.3)


@pytest.mark.parametrize("d", [0, -1, 2.0, None])
def test_there_is_a_coordinate(d):
    with pytest.raises(InputError, match="d must be"):
        made("blt", 5, d)


def test_other_mistakes():
    with pytest.raises(InputError, match="backend must be one of blt, tree, honaker, independent"):
        PrefixSum("matrix", 5)
    for backend, count in (("blt", "paper"), ("tree", "most")):
        with pytest.raises(InputError, match="count"):
            PrefixSum(backend, 5, count)
    with pytest.raises(InputError, match="source must be"):
        PrefixSum("tree", 5).stream(2, 1.0, GRID, 3)
    with pytest.raises(InputError, match="open"):
        PrefixSum("tree").rms_error()
    with pytest.raises(InputError, match="at most the horizon"):
        PrefixSum("tree", 5).max_error(6)


def test_many_coordinates_and_rounds_of_one():
    for backend in BACKENDS:
        assert np.isfinite(next_noise(made(backend, 3, 5_000), 3)).all()
        deep = made(backend, 5000, 1).add(np.zeros((5000, 1)), np.ones(5000))
        assert np.isfinite(deep).all()
        assert 0.2 < deep.std() / PrefixSum(backend, 5000).rms_error() < 3.0
