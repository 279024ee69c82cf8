"""Groups as rings of their records, which can be joined, and exchange records, in a few steps.

Those that break what is demanded exchange records until they hold it, and the others to lose less. A step moves a
record to the group of one near it, or exchanges it for one of that group's. It is taken where less is lost, or little
more while the search is still hot, and where both groups hold all demands afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts, UInt64s
from microagg_core.inspect.protect.rules import Rules, broken_by
from microagg_core.kernels.machine_code.jit import jit, uncounted
from microagg_core.kernels.tools.random_draws import draw

#: One step in so many is a move, where the group can spare a record.
_MOVES = 3


class Rings(NamedTuple):
    """Groups as rings of their records; the arrays are changed in place."""

    X: Floats  #: (n, p)
    label: Ints  #: (n)
    following: Ints  #: (n), the next record of the same group
    before: Ints  #: (n), the one before
    head: Ints  #: (groups), some record of each
    size: Ints  #: (groups)
    total: Floats  #: (groups, p), sums of their records
    room: Ints  #: (n + 1), for the members of a group


@jit
def rings(X: Floats, labels: Ints, n_groups: int) -> Rings:
    """Groups of the (n, p) records by labels 0 to g - 1, none of them empty."""
    n, p = X.shape
    label, following, before = labels.copy(), np.arange(n), np.arange(n)
    head, size, total = np.full(n_groups, -1), np.zeros(n_groups, np.int64), np.zeros((n_groups, p))
    groups = Rings(X, label, following, before, head, size, total, np.empty(n + 1, np.int64))
    for i in range(n):
        put_in(groups, i, labels[i])
    return groups


@uncounted
def put_in(groups: Rings, i: int, g: int) -> None:
    """Put a record that is in no ring into a group."""
    head = groups.head[g]
    if head < 0:
        groups.head[g] = groups.following[i] = groups.before[i] = i
    else:
        last = groups.before[head]
        groups.following[last] = groups.before[head] = i
        groups.following[i], groups.before[i] = head, last
    groups.label[i] = g
    groups.size[g] += 1
    for j in range(groups.X.shape[1]):
        groups.total[g, j] += groups.X[i, j]


@uncounted
def take_out(groups: Rings, i: int) -> None:
    """Take a record out of its group, which has others."""
    g, after, before = groups.label[i], groups.following[i], groups.before[i]
    groups.following[before], groups.before[after] = after, before
    groups.head[g] = after
    groups.size[g] -= 1
    for j in range(groups.X.shape[1]):
        groups.total[g, j] -= groups.X[i, j]


@uncounted
def broken_with(groups: Rings, rules: Rules, g: int, without: int, plus: int) -> float:
    """By how much a group breaks the rules without one record and with another; -1 is none."""
    room, size, at = groups.room, 0, groups.head[g]
    for _ in range(groups.size[g]):
        if at != without:
            room[size] = at
            size += 1
        at = groups.following[at]
    if plus >= 0:
        room[size] = plus
        size += 1
    return broken_by(rules, room, size)


@uncounted
def holds_with(groups: Rings, rules: Rules, g: int, without: int, plus: int) -> bool:
    """Tell whether a group holds the rules without one record and with another; -1 is none."""
    return broken_with(groups, rules, g, without, plus) <= 0.0


@jit
def join_rings(groups: Rings, rules: Rules, into: Ints, joining: Ints, broken: Floats) -> None:
    """Have groups join others, pair by pair, none of them twice, and note by how much these then break the rules."""
    for i in range(into.shape[0]):
        a, b = into[i], joining[i]
        head, other = groups.head[a], groups.head[b]
        last, last_other = groups.before[head], groups.before[other]
        groups.following[last], groups.before[other] = other, last
        groups.following[last_other], groups.before[head] = head, last_other
        groups.size[a] += groups.size[b]
        groups.total[a] += groups.total[b]
        groups.head[b], groups.size[b], broken[b] = -1, 0, 0.0
        broken[a] = broken_with(groups, rules, a, -1, -1)


@jit
def relabel(groups: Rings) -> None:
    """Give the records of each ring its number."""
    for g in range(groups.head.shape[0]):
        at = groups.head[g]
        for _ in range(groups.size[g]):
            groups.label[at] = g
            at = groups.following[at]


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
