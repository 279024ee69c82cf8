"""Groups that exchange records: those that break what is demanded until they hold it, and the others to lose less.

A step moves a record to the group of one near it, or exchanges it for one of that group's. It is taken where less is
lost, or little more while the search is still hot, and where both groups hold all demands afterwards.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, ShortInts, UInt64s
from microagg_core.inspect.protect.rings import Rings, broken_with, holds_with, put_in, take_out
from microagg_core.inspect.protect.rules import Rules
from microagg_core.kernels.machine_code.jit import jit, uncounted
from microagg_core.kernels.tools.random_draws import draw

#: One step in so many is a move, where the group can spare a record.
_MOVES = 3


@uncounted
def _moving(groups: Rings, i: int, b: int) -> float:
    """Compute what is lost more where record i moves to group b."""
    a, left, came = groups.label[i], 0.0, 0.0
    n_a, n_b = float(groups.size[a]), float(groups.size[b])
    for j in range(groups.X.shape[1]):
        x = groups.X[i, j]
        left += (x - groups.total[a, j] / n_a) ** 2
        came += (x - groups.total[b, j] / n_b) ** 2
    return came * n_b / (n_b + 1.0) - left * n_a / (n_a - 1.0)


@uncounted
def _exchanging(groups: Rings, i: int, v: int) -> float:
    """Compute what is lost more where records i and v change places."""
    a, b = groups.label[i], groups.label[v]
    n_a, n_b, more = float(groups.size[a]), float(groups.size[b]), 0.0
    for j in range(groups.X.shape[1]):
        x, y = groups.X[i, j], groups.X[v, j]
        c, d = groups.total[a, j] / n_a, groups.total[b, j] / n_b
        more += (y - x) * ((y + x - 2.0 * c) - (y + x - 2.0 * d) - (y - x) * (1.0 / n_a + 1.0 / n_b))
    return more


@uncounted
def _try_move(groups: Rings, rules: Rules, i: int, b: int, limit: float) -> float:
    """Move a record if that costs less than the limit and both groups keep the rules; return the loss added, else 0."""
    more = _moving(groups, i, b)
    if more >= limit:
        return 0.0
    if not (holds_with(groups, rules, groups.label[i], i, -1) and holds_with(groups, rules, b, -1, i)):
        return 0.0
    take_out(groups, i)
    put_in(groups, i, b)
    return more


@uncounted
def _try_exchange(groups: Rings, rules: Rules, i: int, first: int, limit: float) -> float:
    """Exchange a record for the first one of another's group that costs less than the limit, from that one on."""
    a, b, v = groups.label[i], groups.label[first], first
    for _ in range(groups.size[b]):
        more = _exchanging(groups, i, v)
        if more < limit and holds_with(groups, rules, a, i, v) and holds_with(groups, rules, b, v, i):
            take_out(groups, i)
            take_out(groups, v)
            put_in(groups, i, b)
            put_in(groups, v, a)
            return more
        v = groups.following[v]
    return 0.0


@jit
def exchange_records(
    groups: Rings,
    rules: Rules,
    near: ShortInts,
    k: int,
    largest: int,
    sweeps: int,
    heat: float,
    quantiles: Floats,
    random: UInt64s,
) -> float:
    """Take so many steps for each record, ever colder, the last of them downhill; what is lost more then.

    ``near`` lists records near each; groups of more than ``largest`` records are left as they are.
    """
    n, changed = groups.X.shape[0], 0.0
    for sweep in range(sweeps):
        left = max(0.0, 1.0 - 1.25 * sweep / sweeps)
        warmth = heat * left * left
        for _ in range(n):
            i = draw(random, n)
            v = int(near[i, draw(random, near.shape[1])])
            a, b = groups.label[i], groups.label[v]
            if a == b or groups.size[a] > largest or groups.size[b] > largest:
                continue
            limit = warmth * quantiles[draw(random, quantiles.shape[0])] - 1e-12 * heat
            if groups.size[a] > k and draw(random, _MOVES) == 0:
                changed += _try_move(groups, rules, i, b, limit)
            else:
                changed += _try_exchange(groups, rules, i, v, limit)
    return changed


@uncounted
def _best_exchange(groups: Rings, rules: Rules, near: ShortInts, g: int, broken: Floats, best: Floats) -> float:
    """Find the exchange that loses least of those by which group g breaks less, and the other no more than before.

    Written to ``best``: the two records, and by how much their groups then break the rules. What is lost more.
    """
    least, i = np.inf, groups.head[g]
    for _ in range(groups.size[g]):
        for r in range(near.shape[1]):
            w = int(near[i, r])
            b = groups.label[w]
            for _ in range(groups.size[b] if b != g and groups.size[b] <= 2 * groups.size[g] else 0):
                more = _exchanging(groups, i, w)
                if more < least:
                    own = broken_with(groups, rules, g, i, w)
                    theirs = broken_with(groups, rules, b, w, i) if own < broken[g] else np.inf
                    if theirs <= broken[b]:
                        least = more
                        best[0], best[1], best[2], best[3] = i, w, own, theirs
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
