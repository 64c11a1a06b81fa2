"""Rounds of follow-the-regularised-leader in one compiled loop: each play is computed from the noisy sum before it.

What is computed twice has to come out the same, to the last bit, wherever arrays lie in memory: no loop both stores
into an array and adds up, for the compiler may then choose between two orders of summation by looking at addresses.
"""

from __future__ import annotations

from dpconvex.loops.protocol import compiled
from dpconvex.noise.rounds import enter, leave


@compiled
def _lead(domain, eta, sums, pull, w):
    """W = project(-eta (sums + pull))."""
    for j in range(w.shape[0]):
        w[j] = domain.clip(-eta * (sums[j] + pull[j]))
    norm2 = 0.0
    for j in range(w.shape[0]):
        norm2 += w[j] * w[j]
    shrink = domain.rescale(norm2)
    if shrink != 1.0:
        for j in range(w.shape[0]):
            w[j] *= shrink


@compiled
def play(
    rows, y, weights, shorten, loss, domain, cuts, etas, ridge, rounds, at, entered, sums, pull, w, block, noisy
):  # fmt: skip
    """Noisy running sums of the gradients of the rows between each two cuts, at the play of their round.

    `sums` is the noisy sum before round `at`, `pull` that of the gradients of the quadratic term, `w` the play of a
    round that was entered. Rows are added up 1024 at a time. Returns the round whose variates have to be settled, or
    the number of rounds.
    """
    d = w.shape[0]
    for t in range(at, noisy.shape[0]):
        if t > at or not entered:
            _lead(domain, etas[t], sums, pull, w)
            total = noisy[t]
            for j in range(d):
                total[j] = 0.0
            for start in range(cuts[t], cuts[t + 1], 1024):
                part = total if start == cuts[t] else block
                for i in range(start, min(start + 1024, cuts[t + 1])):
                    slope = loss.slope(rows.dot(i, shorten[i], w), y[i])
                    rows.add(i, shorten[i], weights[i] * slope, part)
                if start > cuts[t]:
                    for j in range(d):
                        total[j] += block[j]
                        block[j] = 0.0
            if enter(rounds, t, total) > 0:
                return t
        leave(rounds, t, noisy[t])
        weight = ridge * (cuts[t + 1] - cuts[t])
        for j in range(d):
            noisy[t, j] += sums[j]
            sums[j] = noisy[t, j]
            pull[j] += weight * w[j]
    return noisy.shape[0]


@compiled
def average(domain, counts, etas, ridge, before, noisy, sums, pull, w, mean, total):
    """Follow noisy sums that were released; add the plays to their mean, weighted by the numbers of their records.

    `before` records were read earlier, and `total` is the weight that the mean has so far. Returns the new one.
    """
    for t in range(noisy.shape[0]):
        _lead(domain, etas[t], sums, pull, w)
        count = counts[t]
        weight = count * (2.0 * before + count + 1.0) / 2.0
        total += weight
        for j in range(w.shape[0]):
            mean[j] += weight / total * (w[j] - mean[j])
            pull[j] += ridge * count * w[j]
            sums[j] = noisy[t, j]
        before += count
    return total
