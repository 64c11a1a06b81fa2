"""First-order filters in sequence, applied to the rounds of many coordinates at once."""

from __future__ import annotations

from dpconvex.compiling import compile_cached


def _cascade(zeta, zeros, poles, buffers):
    """Pass every column of zeta, in place, through sections (1 + zero x)/(1 + pole x), each with its buffer."""
    for t in range(zeta.shape[0]):
        for j in range(zeros.shape[0]):
            zero, pole = zeros[j], poles[j]
            for i in range(zeta.shape[1]):
                given = zeta[t, i]
                found = given + buffers[j, i]
                buffers[j, i] = zero * given - pole * found
                zeta[t, i] = found


cascade = compile_cached(_cascade, fastmath={"contract"})
