"""Threads that share a loop: they come, hand over and go, whatever happens to one of them."""

import os
import signal
import time
from threading import Thread, active_count

import numpy as np
import pytest

from dpconvex.loops.threads import LATE, OFF, THERE, apart, arrive, available, share, wait


def test_members_hand_over():
    def lead(counters, size):
        for count in range(1, 1000):
            arrive(counters, 0, count)
            if any(wait(counters, member, count) == OFF for member in range(1, size)):
                return count
        return size

    def assist(counters, member):
        for count in range(1, 1000):
            assert wait(counters, 0, count) != OFF
            arrive(counters, member, count)

    before = active_count()
    assert share(3, lead, assist) == 3
    assert active_count() == before


def test_a_member_that_fails_tells_the_others():
    def fail(counters, member):
        raise MemoryError

    seen = []
    with pytest.raises(MemoryError):
        share(2, lambda counters, size: seen.append(wait(counters, 1, 1)), fail)
    assert seen == [OFF]


def test_a_leader_that_fails_sends_the_others_home():
    def fail(counters, size):
        raise KeyboardInterrupt

    seen, before = [], active_count()
    with pytest.raises(KeyboardInterrupt):
        share(3, fail, lambda counters, member: seen.append(wait(counters, 0, 1)))
    assert seen == [OFF, OFF]
    assert active_count() == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_forked_meanwhile_shares_loops_of_its_own():
    def assist(counters, member):
        assert wait(counters, 0, 1) != OFF
        arrive(counters, member, 1)

    def work(counters, size):
        arrive(counters, 0, 1)
        return all(wait(counters, member, 1) != OFF for member in range(1, size))

    def lead(counters, size):
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(0 if share(2, work, assist) else 1)
        return os.waitpid(child, 0)[1] == 0 and work(counters, size)

    assert share(2, work, assist)  # compile beforehand
    assert share(3, lead, assist)


def test_who_keeps_others_waiting_is_late():
    def assist(counters, member):
        time.sleep(0.3)
        arrive(counters, member, 2)

    def lead(counters, size):
        return wait(counters, 1, 1), wait(counters, 1, 2)

    wait(np.zeros(16, dtype=np.int64), 0, 0)  # compile it beforehand
    assert share(2, lead, assist) == (LATE, THERE)


def test_without_threads_the_leader_works_alone(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refuse)
    assert share(4, lambda counters, size: size, lambda counters, member: None) == 1


def test_threads_are_as_many_as_allowed(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    most = available()
    for limit, expected in (("1", 1), ("100000", most), ("many", most), ("0", 1), ("", most)):
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
        assert available() == expected


@pytest.mark.parametrize("size", [1, 16, 17, 1000])
def test_rooms_lie_apart(size):
    room = apart(3, size)
    assert room.shape[1] >= size
    assert all(row.ctypes.data % 128 == 0 for row in room)
