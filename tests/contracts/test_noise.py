import copy
import multiprocessing
import os
import pickle
import re

import numpy as np
import pytest
from scipy.special import ndtr

import dpconvex as dc
from dpconvex.errors import InputError, NotPrivateWarning, ReleaseError
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.prefix_sum import PrefixSum
from dpconvex.noise.source import Source
from dpconvex.plan.port import NoisePort, Repetition


def test_the_contract():
    draw, law = standard_normal, ndtr
    dc.testing.check_mechanism(draw, law)
    for scale in (0.97, 1.03):  # it has the power to see three per cent
        with pytest.raises(AssertionError, match="law"):
            dc.testing.check_mechanism(lambda stream, shape, scale=scale: scale * draw(stream, shape), law)


def test_a_sampler_that_repeats_itself_breaks_the_contract():
    once = standard_normal(Source(0).stream("law"), (1_000_000,))
    with pytest.raises(AssertionError, match=r"correlated|same noise"):
        dc.testing.check_mechanism(lambda stream, shape: once[: shape[0]], ndtr)


def test_standard_normal_follows_its_law():
    sample = standard_normal(Source(0).stream("law"), (1_000_000,))
    assert abs(sample.mean()) < 4e-3
    assert sample.var() == pytest.approx(1.0, abs=6e-3)
    assert (sample**4).mean() == pytest.approx(3.0, abs=0.05)
    assert 4.3 < abs(sample).max() < 6.5


def test_tails_are_as_fine_as_the_centre():
    class Words:
        def words(self, count):
            return np.array([0, 1, 2**64 - 1, 2**64 - 2], dtype=np.uint64)

    values = standard_normal(Words(), (4,))
    assert np.isfinite(values).all()
    assert values[0] == -values[1]
    assert abs(values[0]) > 9.0
    assert abs(values[2]) < 1e-15


def test_streams_are_independent_by_name_and_reproducible_by_seed():
    names = [f"phase {i}" for i in range(40)]
    draws = np.array([standard_normal(Source(3).stream(name), (2000,)) for name in names])
    assert np.array_equal(draws[0], standard_normal(Source(3).stream("phase 0"), (2000,)))
    correlations = np.corrcoef(draws)[np.triu_indices(40, 1)]
    assert abs(correlations).max() < 5 / 2000**0.5
    assert not np.array_equal(draws[0], standard_normal(Source(4).stream("phase 0"), (2000,)))


def test_private_sources_never_repeat():
    first = [Source().stream("x").words(4).tolist() for _ in range(50)]
    assert len({tuple(words) for words in first}) == 50


def draw(_):
    return Source().stream("x").words(2).tolist()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_share_no_noise(method):
    with multiprocessing.get_context(method).Pool(2) as pool:
        words = pool.map(draw, range(8))
    assert len({tuple(w) for w in words}) == 8


def test_streams_go_on_where_they_stopped():
    a, b = Source(1).stream("x"), Source(1).stream("x")
    assert np.array_equal(np.concatenate([a.words(3), a.words(5)]), b.words(8))


@pytest.mark.parametrize("thing", [Source(), Source().stream("x")], ids=["source", "stream"])
def test_sources_cannot_be_copied_or_pickled(thing):
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="drawn twice"):
            duplicate(thing)


def test_a_seed_warns_and_marks_the_source():
    with pytest.warns(NotPrivateWarning):
        assert not Source(3).private
    assert Source().private
    for bad in (1.5, "3", True):
        with pytest.raises(InputError, match="seed"):
            Source(bad)


def in_a_fork(draw):
    """What a child process says that uses an object of its parent: its error, or nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            draw()
            answer = b"drew"
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}".encode()
        os.write(writing, answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer


def inherited():
    """Every object that draws noise, each with the way to draw."""
    source, stream = Source(), Source().stream("x")
    sums = PrefixSum("blt", 10).stream(d=2, scale=1.0, grid=2.0**-20, source=source)
    one = np.zeros((1, 2)), [1.0]
    sums.add(*one)  # its chunk is in memory
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(1.0))
    port = NoisePort(dc.algorithms.MeanDirection().plan(problem, n=9, d=2, budget=dc.Budget(1.0, 1e-6)).claim, source)
    plan = dc.algorithms.PrivateFTRL("blt").plan_stream(problem, d=2, budget=dc.Budget(1.0, 1e-6))
    session = plan.start(dataset="inherited")
    session.feed(np.eye(2), [1.0, -1.0])
    return {
        "source": lambda: source.stream("y"),
        "repetition of a source": lambda: Repetition(source, 1).stream("y"),
        "stream": lambda: stream.words(1),
        "sums, add": lambda: sums.add(*one),
        "sums, state": sums.state,
        "stream beside": lambda: stream.beside(1).words(1),
        "port": lambda: port.add("direction", np.zeros(2)),
        "stream of records, feed": lambda: session.feed(np.eye(2), [1.0, -1.0]),
        "stream of records, observe": lambda: session.observe(np.ones(2)),
        "stream of records, its port": lambda: session._port.accumulate("sums", np.zeros((1, 2)), [1.0]),
    }


def test_noise_that_is_inherited_through_a_fork_is_refused_and_stays_its_owners():
    for name, draw in inherited().items():
        assert re.match("ReleaseError: .*inherited through a fork", in_a_fork(draw)), name
        draw()


def test_a_grandchild_is_refused_too():
    stream = Source().stream("x")

    def child():
        assert "inherited through a fork" in in_a_fork(lambda: stream.words(1))

    assert in_a_fork(child) == "drew"


def test_workers_of_multiprocessing_are_refused_what_they_inherit():
    context, stream = multiprocessing.get_context("fork"), Source().stream("x")
    queue = context.SimpleQueue()

    def work():
        try:
            queue.put(stream.words(1).tolist())
        except ReleaseError as error:
            queue.put(str(error))

    workers = [context.Process(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert all("inherited through a fork" in queue.get() for _ in workers)
    for worker in workers:
        worker.join()


def test_what_a_child_makes_itself_it_may_use():
    assert in_a_fork(lambda: Source().stream("x").words(1)) == "drew"
    sums = lambda: PrefixSum("blt", 10).stream(d=2, scale=1.0, grid=2.0**-20, source=Source())  # noqa: E731
    assert in_a_fork(lambda: sums().add(np.zeros((1, 2)), [1.0])) == "drew"
