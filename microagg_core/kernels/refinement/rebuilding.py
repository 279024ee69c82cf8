"""Changes of whole groups: done when they cost little enough, else undone.

A group is dissolved by giving each of its records to the cheapest group of its neighbours. A new group takes a record
and neighbours of it from wherever they are; groups that are left with fewer than k are dissolved. Several groups near
each other are ruined, and new ones made of their records. A group that grows to 2k is split. What a change touches is
noted before, so that it can be undone exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Ints, ShortInts, UInt64s
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.refinement.changing_groups import (
    Grouping,
    close_group,
    measure,
    open_group,
    put,
    split,
    squared_distance,
    sse_of,
    take,
)
from microagg_core.kernels.tools.random_draws import draw

_TOUCHED, _OPENED, _NUMBER, _LOOSE = 0, 1, 2, 3

#: What a change does with the group of the record that it starts from.
DISSOLVE, GATHER, REGROUP = 0, 1, 2
KINDS = 3


class Journal(NamedTuple):
    """Groups as they were before the change in hand.

    ``counters`` has the groups noted, the groups opened, the number of the change, and the loose records.
    """

    stamp: Ints
    groups: Ints
    members: Ints
    size: Ints
    loose: Ints
    counters: Ints


@jit
def _touch(g: Grouping, j: Journal, a: int) -> bool:
    """Note a group before its first change; False when no more can be noted."""
    if j.stamp[a] == j.counters[_NUMBER]:
        return True
    t = j.counters[_TOUCHED]
    if t >= j.groups.shape[0]:
        return False
    j.stamp[a] = j.counters[_NUMBER]
    j.groups[t], j.size[t] = a, g.size[a]
    for i in range(g.size[a]):
        j.members[t, i] = g.members[a, i]
    j.counters[_TOUCHED] = t + 1
    return True


@jit
def _undo(g: Grouping, j: Journal) -> None:
    for t in range(j.counters[_TOUCHED]):
        a = j.groups[t]
        g.size[a] = 0
        for i in range(j.size[t]):
            put(g, j.members[t, i], a)
        measure(g, a)
    g.n_free[0] += j.counters[_OPENED]


@jit
def _keep(g: Grouping, j: Journal) -> None:
    for t in range(j.counters[_TOUCHED]):
        if g.size[j.groups[t]] == 0:
            close_group(g, j.groups[t])


@jit
def _loosen(g: Grouping, j: Journal, a: int) -> None:
    """Take all records out of a group; they wait for a place."""
    while g.size[a] > 0:
        z = g.members[a, g.size[a] - 1]
        take(g, z)
        j.loose[j.counters[_LOOSE]] = z
        j.counters[_LOOSE] += 1


@jit
def _open(g: Grouping, j: Journal) -> int:
    """A new group, noted; -1 when there is none or no more can be noted."""
    if g.n_free[0] == 0 or j.counters[_TOUCHED] >= j.groups.shape[0]:
        return -1
    c = open_group(g)
    j.counters[_OPENED] += 1
    _touch(g, j, c)
    return c


@jit
def _cheapest(g: Grouping, near: ShortInts, x: int, most: int) -> int:
    """Of the groups of x's neighbours that have room, the one that x costs least in; -1 when there is none."""
    best, least = -1, np.inf
    for r in range(near.shape[1]):
        b = g.label[near[x, r]]
        if b < 0 or b == best or g.size[b] >= most:
            continue
        cost = squared_distance(g.X[x], g.centre[b]) * (g.size[b] / (g.size[b] + 1))
        if cost < least:
            best, least = b, cost
    return best


@jit
def _insert(g: Grouping, j: Journal, near: ShortInts, x: int, k: int) -> float:
    """Put a loose record where it costs least; what it cost, infinite when there is no place."""
    b = _cheapest(g, near, x, 2 * k)
    if b < 0 or not _touch(g, j, b):
        return np.inf
    before = sse_of(g, b)
    put(g, x, b)
    measure(g, b)
    if g.size[b] < 2 * k:
        return sse_of(g, b) - before
    c = _open(g, j)
    if c < 0:
        return np.inf
    close_group(g, c)  # split opens it again
    split(g, b, k)
    return sse_of(g, b) + sse_of(g, c) - before


@jit
def _gather(g: Grouping, j: Journal, near: ShortInts, k: int, x: int, random: UInt64s) -> float:
    """Make a new group of k around x, mostly of its nearest, and loosen what is left too small behind it."""
    c = _open(g, j)
    if c < 0:
        return np.inf
    delta, y, r = 0.0, x, -1
    while g.size[c] < k:
        a = g.label[y]
        if a != c:
            if j.stamp[a] != j.counters[_NUMBER]:
                delta -= sse_of(g, a)
            if not _touch(g, j, a):
                return np.inf
            take(g, y)
            put(g, y, c)
        r += 1
        while r < near.shape[1] and draw(random, 8) == 0:
            r += 1
        if g.size[c] < k:
            if r >= near.shape[1]:
                return np.inf
            y = near[x, r]
    measure(g, c)
    for t in range(1, j.counters[_TOUCHED]):
        a = j.groups[t]
        if g.size[a] < k:
            _loosen(g, j, a)
        else:
            measure(g, a)
            delta += sse_of(g, a)
    return delta + sse_of(g, c)


@jit
def _ruin(g: Grouping, j: Journal, near: ShortInts, x: int, wanted: int) -> float:
    """Loosen x's group and those of its nearest until there are so many, or no neighbours; what they lost."""
    lost, y, r, ruined = 0.0, x, 0, 0
    while True:
        a = g.label[y]
        if a >= 0:
            lost += sse_of(g, a)
            _touch(g, j, a)
            _loosen(g, j, a)
            ruined += 1
        if ruined == wanted or r >= near.shape[1]:
            return lost
        y = near[x, r]
        r += 1


@jit
def _next_loose(g: Grouping, j: Journal, start: int, z: int) -> int:
    """Where among the loose records, from ``start`` on, the nearest to z stands."""
    at, least = start, np.inf
    for t in range(start, j.counters[_LOOSE]):
        d = squared_distance(g.X[z], g.X[j.loose[t]])
        if d < least:
            at, least = t, d
    return at


@jit
def _regroup(g: Grouping, j: Journal, near: ShortInts, k: int, x: int, random: UInt64s) -> float:
    """Ruin two to four groups from x's on, and make groups of k around records drawn; fewer than k stay loose."""
    delta = -_ruin(g, j, near, x, 2 + draw(random, 3))
    ruined, used, start = j.counters[_TOUCHED], 0, 0
    while j.counters[_LOOSE] - start >= k:
        c = j.groups[used] if used < ruined else _open(g, j)
        if c < 0:
            break
        used += 1
        at = start + draw(random, j.counters[_LOOSE] - start)
        z = j.loose[at]
        for i in range(k):
            if i > 0:
                at = _next_loose(g, j, start, z)
            j.loose[start], j.loose[at] = j.loose[at], j.loose[start]
            put(g, j.loose[start], c)
            start += 1
        measure(g, c)
        delta += sse_of(g, c)
    for t in range(start, j.counters[_LOOSE]):
        j.loose[t - start] = j.loose[t]
    j.counters[_LOOSE] -= start
    return delta


@jit
def rebuild(g: Grouping, j: Journal, near: ShortInts, k: int, x: int, kind: int, limit: float, random: UInt64s) -> bool:
    """Dissolve x's group, gather a new one around x or regroup what is near, if that costs less than ``limit``.

    Says whether it was done.
    """
    j.counters[_TOUCHED], j.counters[_OPENED], j.counters[_LOOSE] = 0, 0, 0
    j.counters[_NUMBER] += 1
    if kind == REGROUP:
        delta = _regroup(g, j, near, k, x, random)
    elif kind == GATHER:
        delta = _gather(g, j, near, k, x, random)
    else:
        a = g.label[x]
        _touch(g, j, a)
        delta = -sse_of(g, a)
        _loosen(g, j, a)
    n_loose = j.counters[_LOOSE]
    for i in range(n_loose):
        if delta >= limit:
            break
        q = i + draw(random, n_loose - i)
        j.loose[i], j.loose[q] = j.loose[q], j.loose[i]
        delta += _insert(g, j, near, j.loose[i], k)
    if delta < limit:
        _keep(g, j)
        return True
    _undo(g, j)
    return False
