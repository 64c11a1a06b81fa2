"""The digest of a compiled loop names its source: the same in every process, another for any other text."""

import subprocess
import sys

from dpconvex.loops import protocol, stream
from dpconvex.loops.protocol import compiled, source_digest

ELSEWHERE = "from dpconvex.loops import protocol, stream; print(protocol.source_digest(stream.descend))"


def double(x):
    return 2.0 * x


def test_a_digest_is_the_same_in_every_process():
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == source_digest(stream.descend)


def test_compiling_changes_no_digest():
    before = source_digest(double)
    loop = compiled(double)
    assert loop(2.0) == 4.0
    assert source_digest(loop) == before


def test_other_source_has_another_digest(monkeypatch):
    loops = (stream.descend, stream.descend_batches, stream._walk)
    digests = {source_digest(loop) for loop in loops}
    monkeypatch.setattr(protocol, "_SOURCES", "those of another version")
    digests |= {source_digest(loop) for loop in loops}
    assert len(digests) == 2 * len(loops)
