"""Correlated noise: its matrices against brute force, its privacy by exact linear algebra, and its bookkeeping."""

import copy
import math
import pickle

import numpy as np
import pytest

from dpconvex.errors import InputError
from dpconvex.noise import PrefixSum, Source, prefix_sum
from dpconvex.noise.factors import BLT, Toeplitz, Tree, factor_of

BACKENDS = ["tree", "honaker", "toeplitz", "blt"]


class Basis:
    """White noise whose k-th row, of all that is drawn, is the k-th unit vector: noise is then read off as a matrix."""

    def __init__(self):
        self.drawn = 0

    def __call__(self, stream, shape):
        rows = np.zeros(shape)
        at = self.drawn + np.arange(shape[0])
        rows[np.arange(shape[0])[at < shape[1]], at[at < shape[1]]] = 1.0
        self.drawn += shape[0]
        return rows


def matrix(monkeypatch, backend, horizon, rounds, scales=None, mu=1.0):
    """How the running sums (or, without scales, the increments) depend on the white noise: one row a round."""
    basis = Basis()
    monkeypatch.setattr(prefix_sum, "standard_normal", basis)
    width = 4 * rounds + 4 * 511
    stream = PrefixSum(backend, horizon).stream(width, mu, Source())
    found = stream.increments(rounds) if scales is None else stream.block(scales)
    assert basis.drawn <= width
    monkeypatch.undo()
    return found


def series(coefficients):
    """Lower-triangular Toeplitz matrix."""
    T = len(coefficients)
    lag = np.subtract.outer(np.arange(T), np.arange(T))
    return np.where(lag >= 0, np.asarray(coefficients)[np.maximum(lag, 0)], 0.0)


def root_series(T):
    return [math.comb(2 * k, k) / 4**k for k in range(T)]


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
def test_toeplitz_and_blt_increments_are_the_inverse_of_c(T, monkeypatch):
    for backend, c in (("toeplitz", root_series(T)), ("blt", blt_series(T, T))):
        C, norm = series(c), np.linalg.norm(c)
        M = matrix(monkeypatch, backend, T, T) / norm
        assert np.abs(M[:, T:]).max() < 1e-14  # Fourier transforms round
        assert np.abs(C @ M[:, :T] - np.eye(T)).max() < 1e-10
        assert np.linalg.norm(C, axis=0).max() == pytest.approx(norm, rel=1e-15)


@pytest.mark.parametrize("T", [1, 2, 7, 200])
def test_norms_of_columns_and_rows_agree_with_brute_force(T):
    A = np.tril(np.ones((T, T)))
    for backend, c in (("toeplitz", root_series(T)), ("blt", blt_series(T, T))):
        factor = factor_of(backend, T)
        B = A @ np.linalg.inv(series(c))
        norms = (B**2).sum(axis=1)
        assert prefix_sum._square(backend, T) == pytest.approx(np.sum(np.square(c)), rel=1e-10)
        assert prefix_sum._square(backend, T) >= np.sum(np.square(c))
        assert [factor.variance(t) for t in range(1, T + 1)] == pytest.approx(norms, rel=1e-10)
        assert factor.total_variance(T) == pytest.approx(norms.sum(), rel=1e-10)
        assert (B > 0.0)[np.tril_indices(T)].all()
        assert PrefixSum(backend, T).max_error() == pytest.approx(np.sqrt(norms.max() * np.sum(np.square(c))), rel=1e-9)


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
        ("toeplitz", "exact"): (3.10, 3.83, 4.57, 5.29),
    }
    horizons = (10**3, 10**4, 10**5, 10**6)
    for (backend, count), errors in table.items():
        found = [PrefixSum(backend, T, count).rms_error() for T in horizons]
        assert found == pytest.approx(errors, rel=0.01)
    for T in horizons:
        limit = (math.log(T) + np.euler_gamma + math.log(16)) / math.pi
        assert PrefixSum("toeplitz", T).max_error() == pytest.approx(limit, rel=1e-4)
    assert PrefixSum("blt", 10**6).rms_error() < 1.03 * PrefixSum("toeplitz", 10**6).rms_error()


@pytest.mark.parametrize("T", [1, 2, 5, 20, 70, 500, 5000, 3 * 10**5, 2**24])
def test_blt_is_about_as_good_as_toeplitz_at_any_horizon(T):
    assert PrefixSum("blt", T).rms_error() < 1.005 * PrefixSum("toeplitz", T).rms_error()
    assert PrefixSum("blt", T).max_error() < 1.05 * PrefixSum("toeplitz", T).max_error()


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
    mu = 0.3
    costs = (shifts(matrix(monkeypatch, backend, horizon, rounds, mu=mu)) ** 2).sum(axis=0)
    assert costs.max() <= mu**2 * (1.0 + 1e-9)
    if rounds == horizon and backend != "honaker":  # sharp: the first record pays all of it
        assert costs[0] == pytest.approx(mu**2, rel=1e-9)


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
    released, clean, exact, last = [], [], np.zeros(2), np.zeros(2)
    for t, record in enumerate(data):
        scale = 10.0 ** (3.0 * np.tanh(last[0])) if t % 3 else 1e-6
        turn = np.array([[np.cos(last[1]), -np.sin(last[1])], [np.sin(last[1]), np.cos(last[1])]])
        clean.append(turn @ record / max(1.0, 2.0 * np.linalg.norm(record)))
        exact = exact + scale * clean[-1]
        last = answer(t, exact, scale)
        released.append(last)
    return np.array(clean), released


@pytest.mark.parametrize("backend", [*BACKENDS, "independent"])
@pytest.mark.parametrize("horizon", [60, None])
def test_transcripts_on_neighbours_stay_within_mu(backend, horizon, rng, monkeypatch):
    """What a run released is told to one on a neighbour: squared shifts, in standard deviations, add up to mu^2."""
    T, mu = 60, 0.7
    inverse = shifts(matrix(monkeypatch, backend, horizon, T, mu=mu))
    for place in (0, 1, 16, 31, 59):
        data = rng.normal(size=(T, 2))
        data[place] = [9.0, 0.0]
        other = data.copy()
        other[place] = [-9.0, 0.0]
        stream = PrefixSum(backend, horizon).stream(2, mu, Source(place))
        mine, released = play(data, lambda t, exact, scale, stream=stream: exact + stream.next(scale))
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
    sums = matrix(monkeypatch, backend, 2, 2, scales, mu)
    covariance = sums @ sums.T
    assert covariance[1, 1] == pytest.approx(covariance[0, 0], rel=1e-5)  # not 1e-12 of it
    first, second = np.array([1.0, 1.0]), np.array([0.0, 1e-6])  # what a record moves in either round
    assert cost(sums, first) <= mu**2 * (1.0 + 1e-6)
    assert cost(sums, second) <= mu**2 * (1.0 + 1e-6)
    assert cost(sums, first) > 0.5 * mu**2
    prefix = scales[:, None] * matrix(monkeypatch, backend, 2, 2, np.ones(2), mu)  # the mutant: s_t times prefix noise
    assert cost(prefix, first) > 1e9


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("horizon", [600, None])
def test_drawn_noise_has_the_covariance_of_its_matrix(backend, horizon, monkeypatch):
    """Among the rounds are the first ones of chunks and of epochs, which must not share white noise."""
    rounds, d = np.array([0, 1, 15, 16, 17, 18, 255, 256, 257, 271, 272, 273, 274, 511, 512, 513]), 4000
    M = matrix(monkeypatch, backend, horizon, 520, mu=2.0)[rounds]
    wanted = M @ M.T
    zeta = PrefixSum(backend, horizon).stream(d, 2.0, Source(5)).increments(520)[rounds]
    spread = np.sqrt((wanted**2 + np.outer(np.diag(wanted), np.diag(wanted))) / d)
    assert (np.abs(zeta @ zeta.T / d - wanted) < 4.5 * spread).all()
    assert (np.abs(zeta.mean(axis=1)) < 4.5 * np.sqrt(np.diag(wanted) / d)).all()


# Streams -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("horizon", [3000, None])
def test_rounds_one_by_one_in_blocks_and_as_increments_agree_to_the_last_bit(backend, horizon, rng):
    T, d, noise = 700, 3, PrefixSum(backend, horizon)
    scales = np.exp(rng.normal(size=T))
    single = noise.stream(d, 0.5, Source(1))
    one_by_one = np.array([single.next(s) for s in scales])
    blocks = noise.stream(d, 0.5, Source(1))
    parts = np.split(scales, [1, 16, 200, 256, 257, 600])
    assert np.array_equal(np.concatenate([blocks.block(part) for part in parts]), one_by_one)
    raw = noise.stream(d, 0.5, Source(1))
    zeta = np.concatenate([raw.increments(n) for n in (255, 1, 1, 15, 428)])
    assert np.array_equal(np.cumsum(scales[:, None] * zeta, axis=0), one_by_one)
    assert single.round == blocks.round == raw.round == T
    assert zeta.flags.c_contiguous


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("horizon", [1001, None])
@pytest.mark.parametrize("stop", [0, 1, 16, 255, 256, 272, 273, 700])
def test_a_resumed_stream_goes_on_with_the_same_noise(backend, horizon, stop):
    stream = PrefixSum(backend, horizon).stream(2, 0.5, Source())
    stream.block(np.full(stop, 2.0))
    state = stream.state()
    again = PrefixSum.resume(state)
    for part in state["memory"]:
        part += 1.0  # the stream keeps memory of its own
    assert again.round == stop
    assert np.array_equal(again.block(np.ones(300)), stream.block(np.ones(300)))
    assert np.array_equal(again.next(0.1), stream.next(0.1))


def test_a_resumed_stream_of_increments_gives_increments():
    stream = PrefixSum("blt", 50).stream(2, 1.0, Source())
    stream.increments(20)
    again = PrefixSum.resume(stream.state())
    with pytest.raises(InputError, match="increments"):
        again.next()
    assert np.array_equal(again.increments(30), stream.increments(30))


def test_states_survive_json():
    import json

    stream = PrefixSum("toeplitz", 600).stream(2, 1.0, Source())
    stream.block(np.ones(300))
    plain = json.dumps(stream.state(), default=np.ndarray.tolist)
    assert np.array_equal(PrefixSum.resume(json.loads(plain)).next(), stream.next())


def test_memory_is_what_the_back_ends_promise():
    for horizon in (10**3, 10**9):
        stream = PrefixSum("blt", horizon).stream(7, 1.0, Source())
        stream.block(np.ones(600))
        assert sum(part.size for part in stream.state()["memory"]) == 5 * 7
    assert [Toeplitz(10**6).block, Toeplitz(100).block, Toeplitz(2**24).block] == [2**17, 256, 2**21]


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
        {"mu": -1.0},
        {"backend": "honaker"},
        {"horizon": 20},
        {"sum": [1.0]},
        {"sum": [np.nan, 0.0]},
        {"memory": []},
        {"memory": [[1.0]]},
        {"memory": "text"},
    ],
)
def test_a_broken_state_is_refused(broken):
    stream = PrefixSum("blt", 500).stream(2, 1.0, Source())
    stream.block(np.ones(40))
    with pytest.raises(InputError):
        PrefixSum.resume({**stream.state(), **broken} if broken else {})
    for nothing in (None, 3, "state", []):
        with pytest.raises(InputError, match="not the state"):
            PrefixSum.resume(nothing)


def test_noise_is_private_to_its_source_and_name():
    noise = PrefixSum("blt", 10)
    assert not np.array_equal(noise.stream(2, 1.0, Source()).next(), noise.stream(2, 1.0, Source()).next())
    names = [noise.stream(2, 1.0, Source(1), name).next().tolist() for name in ("a", "b")]
    assert names[0] != names[1]
    epochs = PrefixSum("toeplitz").stream(1, 1.0, Source()).increments(272).ravel()
    assert len(np.unique(epochs)) == 272


def test_a_stream_cannot_be_copied_or_pickled():
    stream = PrefixSum("tree", 10).stream(2, 1.0, Source())
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="used twice"):
            duplicate(stream)


def test_what_is_returned_cannot_be_changed():
    stream = PrefixSum("tree", 10).stream(2, 1.0, Source())
    for noise in (stream.next(), stream.block([1.0, 2.0])):
        with pytest.raises(ValueError, match="read-only"):
            noise *= 0.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_interrupted_round_never_repeats_noise(backend, monkeypatch):
    """White noise fails in the middle of a chunk: what comes after is what would have come anyway."""
    whole = PrefixSum(backend, 1000).stream(2, 1.0, Source(8)).increments(600)
    stream = PrefixSum(backend, 1000).stream(2, 1.0, Source(8))
    assert np.array_equal(stream.increments(256), whole[:256])

    def fail(stream, shape):
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(prefix_sum, "standard_normal", fail)
        for _ in range(2):
            with pytest.raises(MemoryError):
                stream.increments(1)
    assert np.array_equal(stream.increments(344), whole[256:])


def test_the_last_epoch_ends_the_stream(monkeypatch):
    monkeypatch.setitem(prefix_sum.LONGEST, "tree", 100)
    stream = PrefixSum("tree").stream(2, 1.0, Source())
    stream.increments(16)
    for _ in range(2):
        with pytest.raises(InputError, match="no round is left"):
            stream.increments(1)


# Bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_round_is_past_the_horizon(backend):
    stream = PrefixSum(backend, 5).stream(2, 1.0, Source())
    stream.block(np.ones(4))
    with pytest.raises(InputError, match="past the horizon of 5"):
        stream.block([1.0, 1.0])
    assert stream.round == 4  # nothing was drawn
    stream.next()
    with pytest.raises(InputError, match="past the horizon"):
        stream.next()
    with pytest.raises(InputError, match="past the horizon"):
        PrefixSum(backend, 5).stream(2, 1.0, Source()).increments(6)


@pytest.mark.parametrize("horizon", [0, -3, 1.5, "10", True, 10**9 + 1, 10**30, np.nan])
def test_horizons_that_are_none(horizon):
    for backend in BACKENDS:
        with pytest.raises(InputError, match="horizon"):
            PrefixSum(backend, horizon)


def test_toeplitz_says_where_to_go_for_more_rounds():
    with pytest.raises(InputError, match=r"at most 16777216 .* take 'blt'"):
        PrefixSum("toeplitz", 2**24 + 1)
    with pytest.raises(InputError, match=r"no round is left .* take 'blt'"):
        PrefixSum("toeplitz").max_error(10**9)
    assert PrefixSum("toeplitz", np.int64(5)).horizon == 5


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_scales_are_positive(scale):
    stream = PrefixSum("blt", 5).stream(2, 1.0, Source())
    with pytest.raises(InputError, match="positive"):
        stream.next(scale)
    with pytest.raises(InputError, match="positive"):
        stream.block([1.0, scale])
    with pytest.raises(InputError, match="positive"):
        stream.block(np.ones((2, 2)))
    assert stream.round == 0
    assert stream.block([]).shape == (0, 2)


@pytest.mark.parametrize("mu", [0.0, -1.0, np.nan, np.inf, "1", True])
def test_mu_is_positive(mu):
    with pytest.raises(InputError, match="mu must be"):
        PrefixSum("blt", 5).stream(2, mu, Source())


@pytest.mark.parametrize("d", [0, -1, 2.0, None])
def test_there_is_a_coordinate(d):
    with pytest.raises(InputError, match="d must be"):
        PrefixSum("blt", 5).stream(d, 1.0, Source())


def test_other_mistakes():
    with pytest.raises(InputError, match="backend must be one of tree, honaker, toeplitz, blt"):
        PrefixSum("matrix", 5)
    for backend, count in (("toeplitz", "paper"), ("tree", "most")):
        with pytest.raises(InputError, match="count"):
            PrefixSum(backend, 5, count)
    with pytest.raises(InputError, match="source must be"):
        PrefixSum("tree", 5).stream(2, 1.0, 3)
    with pytest.raises(InputError, match="open"):
        PrefixSum("tree").rms_error()
    with pytest.raises(InputError, match="at most the horizon"):
        PrefixSum("tree", 5).max_error(6)
    with pytest.raises(InputError, match="count must be"):
        PrefixSum("tree", 5).stream(2, 1.0, Source()).increments(0)
    stream = PrefixSum("tree", 5).stream(2, 1.0, Source())
    stream.next()
    with pytest.raises(InputError, match="returns sums"):
        stream.increments(1)
    stream = PrefixSum("tree", 5).stream(2, 1.0, Source())
    stream.increments(1)
    with pytest.raises(InputError, match="hands out increments"):
        stream.next()


def test_many_coordinates_and_rounds_of_one():
    for backend in BACKENDS:
        wide = PrefixSum(backend, 3).stream(5_000, 1.0, Source()).block(np.ones(3))
        assert np.isfinite(wide).all()
        deep = PrefixSum(backend, 5000).stream(1, 1.0, Source()).block(np.ones(5000))
        assert np.isfinite(deep).all()
        assert 0.2 < deep.std() / PrefixSum(backend, 5000).rms_error() < 3.0
