"""Changes of several groups, worked out aside before anything is changed; most cost too much and are never made.

A draft holds the groups that a change touches as they would be: their sizes and centres, the records that move, and
where to. Whoever gives up a draft has nothing to undo.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts, UInt64s
from microagg_core.kernels.machine_code.jit import inlined, uncounted
from microagg_core.kernels.refinement.changing_groups import (
    Grouping,
    close_group,
    measure,
    put,
    split,
    squared_distance,
    take,
)
from microagg_core.kernels.tools.random_draws import draw

#: What ``counters`` has: the drafts so far; of this one, its groups, those of them that are new, and the records.
NUMBER, GROUPS, NEW, MOVED = 0, 1, 2, 3


class GroupDraft(NamedTuple):
    """What a change would make; used again for the next one."""

    #: (groups, 2), the number of the last draft that a group was in, and its row there.
    entry: Ints
    #: Of each row: the group's number, its size, 0 for one that is dissolved, and its centre.
    group: Ints
    size: Ints
    centre: Floats
    #: The records that move, and to which row.
    moved: Ints
    to: Ints
    distance: Floats
    counters: Ints


@inlined
def begin(d: GroupDraft) -> None:
    """Empty the draft."""
    d.counters[NUMBER] += 1
    d.counters[GROUPS], d.counters[NEW], d.counters[MOVED] = 0, 0, 0


@inlined
def row_of(d: GroupDraft, b: int) -> int:
    """The draft's row of a group; -1 if it is not in it."""
    return int(d.entry[b, 1]) if d.entry[b, 0] == d.counters[NUMBER] else -1


@inlined
def add_row(d: GroupDraft, b: int, size: int) -> int:
    """A row for a group that has none; its centre is not set."""
    row = d.counters[GROUPS]
    d.entry[b, 0], d.entry[b, 1] = d.counters[NUMBER], row
    d.group[row], d.size[row] = b, size
    d.counters[GROUPS] = row + 1
    return int(row)


@inlined
def make_group(g: Grouping, d: GroupDraft, row: int, start: int, stop: int) -> float:
    """Make a row the group of the records that move from start to stop - 1; its sum of squared errors."""
    centre, moved, m = d.centre, d.moved, stop - start
    for j in range(centre.shape[1]):
        total = 0.0
        for i in range(start, stop):
            total += g.X[moved[i], j]
        centre[row, j] = total / m
    sse = 0.0
    for i in range(start, stop):
        d.to[i] = row
        sse += squared_distance(g.X, moved[i], centre, row)
    d.size[row] = m
    return sse


@inlined
def _cheapest(g: Grouping, d: GroupDraft, near: ShortInts, x: int, most: int) -> tuple[float, int, int]:
    """Where x costs least: what it costs, infinite if there is no place; the row, -1 if it has none; and the group.

    It may go to the draft's new groups, and to those that its neighbours are in, unless they are dissolved.
    """
    least, row, group = np.inf, -1, -1
    for new in range(d.counters[NEW]):
        m = d.size[new]
        cost = squared_distance(g.X, x, d.centre, new) * (m / (m + 1))
        if m < most and cost < least:
            least, row, group = cost, new, d.group[new]
    for r in range(near.shape[1]):
        b = g.label[near[x, r]]
        at = row_of(d, b)
        if b == group or 0 <= at < d.counters[NEW]:
            continue
        m = g.size[b] if at < 0 else d.size[at]
        if m == 0 or m >= most:
            continue
        distance = squared_distance(g.X, x, g.centre, b) if at < 0 else squared_distance(g.X, x, d.centre, at)
        cost = distance * (m / (m + 1))
        if cost < least:
            least, row, group = cost, at, b
    return least, row, group


@inlined
def place_loose(
    g: Grouping, d: GroupDraft, near: ShortInts, start: int, k: int, delta: float, limit: float, random: UInt64s
) -> float:
    """Give each record from ``start`` on, in an order that is drawn, to the group where it costs least.

    What the draft costs then; the limit or more as soon as it is reached.
    """
    moved, stop = d.moved, d.counters[MOVED]
    for i in range(start, stop):
        q = i + draw(random, stop - i)
        x = moved[q]
        moved[i], moved[q] = x, moved[i]
        cost, row, group = _cheapest(g, d, near, x, 2 * k)
        delta += cost
        if not delta < limit:
            return delta
        if row < 0:
            row = add_row(d, group, g.size[group])
            for j in range(d.centre.shape[1]):
                d.centre[row, j] = g.centre[group, j]
        d.size[row] += 1
        d.to[i] = row
        for j in range(d.centre.shape[1]):
            d.centre[row, j] += (g.X[x, j] - d.centre[row, j]) / d.size[row]
    return delta


@uncounted
def carry_out(g: Grouping, d: GroupDraft, k: int) -> None:
    """Make the change; groups that are empty then are given back, and those of 2k are split.

    Groups that are opened were the last of the unused ones.
    """
    for row in range(d.counters[GROUPS]):
        g.n_free[0] -= g.size[d.group[row]] == 0
    for i in range(d.counters[MOVED]):
        take(g, d.moved[i])
    for i in range(d.counters[MOVED]):
        put(g, d.moved[i], d.group[d.to[i]])
    for row in range(d.counters[GROUPS]):
        if g.size[d.group[row]] == 0:
            close_group(g, d.group[row])
        else:
            measure(g, d.group[row])
    for row in range(d.counters[GROUPS]):
        if g.size[d.group[row]] >= 2 * k:
            split(g, d.group[row], k)
