"""Groups that break what is demanded exchange records with those around them, until they hold it."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, ShortInts
from microagg_core.inspect.protect.exchanging import exchanging
from microagg_core.inspect.protect.rings import Rings, broken_with, put_in, take_out
from microagg_core.inspect.protect.rules import Rules
from microagg_core.kernels.machine_code.jit import jit, uncounted


@uncounted
def _best_exchange(groups: Rings, rules: Rules, near: ShortInts, g: int, broken: Floats, best: Floats) -> float:
    """The exchange that loses least of those which have group g break less and the other group no more than before.

    Written to ``best``: the two records, and by how much their groups then break the rules. What is lost more.
    """
    least, i = np.inf, groups.head[g]
    for _ in range(groups.size[g]):
        for r in range(near.shape[1]):
            w = int(near[i, r])
            b = groups.label[w]
            for _ in range(groups.size[b] if b != g and groups.size[b] <= 2 * groups.size[g] else 0):
                more = exchanging(groups, i, w)
                if more < least:
                    mine = broken_with(groups, rules, g, i, w)
                    theirs = broken_with(groups, rules, b, w, i) if mine < broken[g] else np.inf
                    if theirs <= broken[b]:
                        least = more
                        best[0], best[1], best[2], best[3] = i, w, mine, theirs
                w = groups.following[w]
        i = groups.following[i]
    return least


@jit
def mend(groups: Rings, rules: Rules, near: ShortInts, broken: Floats) -> None:
    """Exchange records of each group that breaks the rules, as many as it has; some may break them still."""
    best = np.empty(4)
    for g in range(groups.size.shape[0]):
        for _ in range(groups.size[g]):
            if broken[g] <= 0.0:
                break
            if _best_exchange(groups, rules, near, g, broken, best) == np.inf:
                break
            i, w = int(best[0]), int(best[1])
            b = groups.label[w]
            take_out(groups, i)
            take_out(groups, w)
            put_in(groups, i, b)
            put_in(groups, w, g)
            broken[g], broken[b] = best[2], best[3]
