"""Random bits: a ChaCha20 keystream under a key from the operating system, one stream per name.

A source is created for one run and discarded after it. It cannot be copied or pickled, nor used by a process that
inherits it through a fork: a copy would draw the same noise again, and the same noise on neighbouring data cancels.
"""

from __future__ import annotations

import hashlib
import os
from typing import NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from dpconvex.errors import InputError, NotPrivateWarning, ReleaseError, warn

_forks = 0  # between the first process of this interpreter and this one


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=_count_fork)


class Owner:
    """The process in which an object was created: the only one that may use it.

    A child that inherits noise through a fork would draw what its parent draws. The check compares two numbers, since
    asking the system for the process costs a quarter of a draw.

    Examples
    --------
    >>> Owner().check()  # an error in a child that inherited it
    """

    __slots__ = ("_forks",)

    def __init__(self) -> None:
        self._forks = _forks

    def check(self) -> None:
        """Refuse any other process."""
        if self._forks != _forks:
            raise ReleaseError(
                "this noise is another process's, inherited through a fork: two that use it would give it away. "
                "Make a source, or resume the stream, in the process that is to draw"
            )


DESCRIPTIONS = {  # of the bits, by whether noise made of them protects anybody
    True: "ChaCha20, key from the operating system",
    False: "ChaCha20, key from a fixed seed: not private",
}


class Stream:
    """An endless sequence of uniform 64-bit words."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._keystream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
        self._owner = Owner()
        self.drawn = 0  # number of words drawn so far

    def words(self, count: int) -> np.ndarray:
        """Return the next `count` words."""
        self._owner.check()
        self.drawn += count
        return np.frombuffer(self._keystream.update(bytes(8 * count)), dtype="<u8")

    def beside(self, place: int) -> Stream:
        """Return a stream of its own for that place, independent of this one and of those of other places.

        A variate that needs more than the word at its place takes them from there: later variates stay as they are.
        """
        self._owner.check()
        return Stream(hashlib.blake2b(b"beside %d" % place, key=self._key, digest_size=32).digest())

    def __reduce__(self) -> NoReturn:
        raise TypeError("a noise stream cannot be copied or pickled: its noise must never be drawn twice")

    __copy__ = __reduce__

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()


class Source:
    """Independent named streams under one secret key.

    Parameters
    ----------
    seed : int, optional
        None takes the key from the operating system. A number gives reproducible noise for tests only: anyone who
        knows it can subtract the noise, so a warning is issued and receipts say "not private".

    Examples
    --------
    >>> source = Source()
    >>> source.stream("phase 1").words(2).shape
    (2,)
    """

    def __init__(self, seed: int | None = None) -> None:
        self._owner = Owner()
        if seed is None:
            self._key = os.urandom(32)
            self.private = True
        else:
            if not isinstance(seed, int | np.integer) or isinstance(seed, bool):
                raise InputError(f"seed must be None or an integer, got {type(seed).__name__}")
            warn("noise from a fixed seed protects nobody: use it in tests only", NotPrivateWarning)
            self._key = hashlib.sha256(b"dpconvex test source" + str(int(seed)).encode()).digest()
            self.private = False
        self.description = DESCRIPTIONS[self.private]

    def stream(self, name: str) -> Stream:
        """Stream with the given name: the same name gives the same stream, and different names independent streams."""
        self._owner.check()
        return Stream(hashlib.blake2b(name.encode(), key=self._key, digest_size=32).digest())

    def __reduce__(self) -> NoReturn:
        raise TypeError("a noise source cannot be copied or pickled: its noise must never be drawn twice")

    __copy__ = __reduce__

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()
