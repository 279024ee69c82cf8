"""Changes of groups: who is in which, where their centres lie, and what a change would cost.

``X`` is (n, p), one record a row, p a multiple of four (padded with zeros). A group's centre is computed anew from
its members at each change, so that nothing drifts. Costs are changes of the sum of squared distances to centres.

Codes are bytes of 64-bit words. Two records' words are compared at once; which of their bytes agree makes a number,
and a table has what that is worth: the costs of the codes that agree. With W the worth of all, two records are W less
their worth apart, and a record is W/2 + T/(2 m m) - t/m from the centre of m records, where t is its worth with all of
them and T that of all their ordered pairs, each with itself, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts, UInt64s
from microagg_core.kernels.machine_code.jit import inlined, uncounted
from microagg_core.kernels.tools.random_draws import draw


class Grouping(NamedTuple):
    """Records and their groups; a group without records has size 0 and may be used again."""

    X: Floats
    label: Ints
    place: Ints
    members: Ints
    size: Ints
    centre: Floats
    #: Each record's squared distance to its group's centre, and their sum in each group.
    own: Floats
    sse: Floats
    #: Numbers of unused groups, and how many of them there are.
    free: Ints
    n_free: Ints
    #: (4, 2k or more), for one group's numbers.
    room: Floats
    #: (n, words) and (words, 256), as :mod:`microagg_core.group.refine.packing` makes them; and T of each group.
    words: UInt64s
    worth: Floats
    alike: Floats


@inlined
def squared_distance(A: Floats, a: int, B: Floats, b: int) -> float:
    """Compute the squared distance of row a of A from row b of B, in four sums that are added side by side."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for j in range(0, A.shape[1], 4):
        d0, d1 = A[a, j] - B[b, j], A[a, j + 1] - B[b, j + 1]
        d2, d3 = A[a, j + 2] - B[b, j + 2], A[a, j + 3] - B[b, j + 3]
        s0 += d0 * d0
        s1 += d1 * d1
        s2 += d2 * d2
        s3 += d3 * d3
    return (s0 + s1) + (s2 + s3)


_SEVENS, _GATHER = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x0102040810204080)


@inlined
def worth(g: Grouping, x: int, y: int) -> float:
    """Return what the codes are worth in which two records agree."""
    total = 0.0
    for w in range(g.words.shape[1]):
        apart = g.words[x, w] ^ g.words[y, w]
        # The highest bit of each byte that is zero, and then these bits side by side.
        equal = ~(((apart & _SEVENS) + _SEVENS) | apart | _SEVENS)
        total += g.worth[w, ((equal >> np.uint64(7)) * _GATHER) >> np.uint64(56)]
    return total


@inlined
def all_worth(g: Grouping) -> float:
    """Return what all codes are worth."""
    total = 0.0
    for w in range(g.worth.shape[0]):
        total += g.worth[w, 255]
    return total


@inlined
def between(g: Grouping, x: int, y: int) -> float:
    """Compute the squared distance of two records."""
    d = squared_distance(g.X, x, g.X, y)
    return d + (all_worth(g) - worth(g, x, y)) if g.words.shape[1] > 0 else d


@inlined
def _to_centre(g: Grouping, x: int, members: Ints, row: int, m: int, alike: float) -> float:
    """Compute what codes make of the squared distance of a record from the centre of a row of m members."""
    shared = 0.0
    for i in range(m):
        shared += worth(g, x, members[row, i])
    return float(0.5 * (all_worth(g) + alike / (m * m)) - shared / m)


@inlined
def to_group(g: Grouping, x: int, b: int) -> float:
    """Compute the squared distance of a record from a group's centre."""
    d = squared_distance(g.X, x, g.centre, b)
    return d + _to_centre(g, x, g.members, b, g.size[b], g.alike[b]) if g.words.shape[1] > 0 else d


@inlined
def alike_of(g: Grouping, members: Ints, row: int, m: int) -> float:
    """Add up what the codes of all ordered pairs of a row's first m members are worth, each with itself, too."""
    total = 0.0
    for i in range(m if g.words.shape[1] > 0 else 0):
        total += all_worth(g)
        for j in range(i):
            total += 2.0 * worth(g, members[row, i], members[row, j])
    return total


@uncounted
def measure(g: Grouping, a: int) -> None:
    """Compute a group's centre, its members' distances to it, and their sum, from the members."""
    X, members, centre, own, m = g.X, g.members, g.centre, g.own, g.size[a]
    for j in range(X.shape[1]):
        centre[a, j] = 0.0
    for i in range(m):
        for j in range(X.shape[1]):
            centre[a, j] += X[members[a, i], j]
    for j in range(X.shape[1]):
        centre[a, j] /= max(m, 1)
    g.alike[a] = alike_of(g, members, a, m)
    total = 0.0
    for i in range(m):
        x = members[a, i]
        own[x] = to_group(g, x, a)
        total += own[x]
    g.sse[a] = total


@inlined
def put(g: Grouping, x: int, b: int) -> None:
    """Put a record that is in no group into b; the centre is not renewed."""
    m = g.size[b]
    g.members[b, m] = x
    g.place[x], g.label[x] = m, b
    g.size[b] = m + 1


@inlined
def take(g: Grouping, x: int) -> None:
    """Take a record out of its group; the centre is not renewed, and an empty group is not given back."""
    a, i = g.label[x], g.place[x]
    last = g.members[a, g.size[a] - 1]
    g.members[a, i] = last
    g.place[last] = i
    g.size[a] -= 1


@inlined
def open_group(g: Grouping) -> int:
    """Take the number of an unused group, which is in use from now on.

    There always is one: groups of at least k are n / k at most, and there are numbers for two more.
    """
    g.n_free[0] -= 1
    number: int = g.free[g.n_free[0]]
    return number


@inlined
def close_group(g: Grouping, a: int) -> None:
    g.free[g.n_free[0]] = a
    g.n_free[0] += 1
    g.sse[a] = 0.0


@inlined
def move_cost(g: Grouping, x: int, b: int, x_to_b: float) -> float:
    """Compute the cost of moving a record from its group to b; ``x_to_b`` is its distance to b's centre."""
    m, n = g.size[g.label[x]], g.size[b]
    return float(x_to_b * (n / (n + 1)) - g.own[x] * (m / (m - 1)))


@inlined
def swap_cost(g: Grouping, x: int, z: int, x_to_b: float) -> float:
    """Compute the cost of swapping two records' groups; ``x_to_b`` is x's distance to z's centre."""
    a, b = g.label[x], g.label[z]
    x_to_z = between(g, x, z)
    return float(to_group(g, z, a) - g.own[x] + x_to_b - g.own[z] - x_to_z / g.size[a] - x_to_z / g.size[b])


@uncounted
def move(g: Grouping, x: int, b: int, k: int) -> None:
    """Move a record to group b, which is split when it then has 2k."""
    a = g.label[x]
    take(g, x)
    put(g, x, b)
    measure(g, a)
    measure(g, b)
    if g.size[b] >= 2 * k:
        split(g, b, k)


@uncounted
def swap(g: Grouping, x: int, z: int) -> None:
    a, b, i, j = g.label[x], g.label[z], g.place[x], g.place[z]
    g.members[a, i], g.members[b, j] = z, x
    g.label[x], g.label[z], g.place[x], g.place[z] = b, a, j, i
    measure(g, a)
    measure(g, b)


@uncounted
def fill(g: Grouping) -> None:
    """Put every record into the group that its label names; unused groups become free."""
    for i in range(g.label.shape[0]):
        put(g, i, g.label[i])
    for a in range(g.size.shape[0] - 1, -1, -1):
        if g.size[a] == 0:
            close_group(g, a)
        measure(g, a)


@uncounted
def total_sse(g: Grouping) -> float:
    total = 0.0
    for a in range(g.sse.shape[0]):
        total += g.sse[a]
    return total


@uncounted
def _farthest_member(g: Grouping, b: int, x: int) -> int:
    """Find the member of a group that is farthest from a record, or, for -1, from the group's centre."""
    farthest, most = g.members[b, 0], -1.0
    for i in range(g.size[b]):
        d = g.own[g.members[b, i]] if x < 0 else between(g, x, g.members[b, i])
        if d > most:
            farthest, most = g.members[b, i], d
    return int(farthest)


@uncounted
def _two_means(g: Grouping, b: int, first: int) -> None:
    """Compute the means of a group's first so many members, and of the rest."""
    m, room = g.size[b], g.room
    for j in range(g.X.shape[1]):
        room[0, j], room[1, j] = 0.0, 0.0
        for i in range(m):
            if i < first:
                room[0, j] += g.X[g.members[b, i], j] / first
            else:
                room[1, j] += g.X[g.members[b, i], j] / (m - first)


@inlined
def _score_codes(g: Grouping, b: int, first: int, u: int, v: int) -> None:
    """Score members by how much nearer codes are to u's than to v's; for -1, to the first ones' than to the rest's."""
    members, m, score = g.members, g.size[b], g.room[3]
    if u >= 0:
        for i in range(m):
            score[i] = worth(g, members[b, i], v) - worth(g, members[b, i], u)
        return
    near, far = 0.0, 0.0
    for i in range(m):
        with_first, with_rest = 0.0, 0.0
        for y in range(m):
            shared = worth(g, members[b, i], members[b, y])
            with_first, with_rest = (with_first + shared, with_rest) if y < first else (with_first, with_rest + shared)
        near, far = (near + with_first, far) if i < first else (near, far + with_rest)
        score[i] = with_rest / (m - first) - with_first / first
    for i in range(m):
        score[i] += 0.5 * (near / (first * first) - far / ((m - first) * (m - first)))


@uncounted
def _sort_by_score(g: Grouping, b: int) -> int:
    """Sort members by how much nearer they are to the first mean; returns how many are nearer to it."""
    members, room, nearer = g.members, g.room, 0
    for i in range(g.size[b]):
        x, at = members[b, i], i
        score = squared_distance(g.X, x, room, 0) - squared_distance(g.X, x, room, 1)
        if g.words.shape[1] > 0:
            score += room[3, i]
        nearer += score < 0
        while at > 0 and room[2, at - 1] > score:
            room[2, at], members[b, at] = room[2, at - 1], members[b, at - 1]
            at -= 1
        room[2, at], members[b, at] = score, x
    return nearer


@uncounted
def split(g: Grouping, b: int, k: int) -> None:
    """Split a group of 2k records or more in two of at least k: two means from two far members, thrice."""
    m, first = g.size[b], k
    u = _farthest_member(g, b, -1)
    v = _farthest_member(g, b, u)
    for j in range(g.X.shape[1]):
        g.room[0, j], g.room[1, j] = g.X[u, j], g.X[v, j]
    for turn in range(3):
        if g.words.shape[1] > 0:
            _score_codes(g, b, first, u if turn == 0 else -1, v)
        first = min(max(_sort_by_score(g, b), k), m - k)
        _two_means(g, b, first)
    c = open_group(g)
    g.size[b] = first
    for i in range(m):
        g.place[g.members[b, i]] = i
        if i >= first:
            put(g, g.members[b, i], c)
    measure(g, b)
    measure(g, c)


#: What ``counters`` has: the drafts so far; of this one, its groups, those of them that are new, and the records.
NUMBER, GROUPS, NEW, MOVED = 0, 1, 2, 3


class GroupDraft(NamedTuple):
    """What a change would make; used again for the next one.

    A draft holds the groups that a change touches as they would be: their sizes and centres, the records that move, and
    where to. Whoever gives up a draft has nothing to undo.
    """

    #: (groups, 2), the number of the last draft that a group was in, and its row there.
    entry: Ints
    #: Of each row: the group's number, its size, 0 for one that is dissolved, and its centre.
    group: Ints
    size: Ints
    centre: Floats
    #: Where there are codes, its members, and T of them.
    members: Ints
    alike: Floats
    #: The records that move, and to which row.
    moved: Ints
    to: Ints
    distance: Floats
    counters: Ints


@inlined
def begin(d: GroupDraft) -> None:
    d.counters[NUMBER] += 1
    d.counters[GROUPS], d.counters[NEW], d.counters[MOVED] = 0, 0, 0


@inlined
def row_of(d: GroupDraft, b: int) -> int:
    """Return the draft's row of a group; -1 if it is not in it."""
    return int(d.entry[b, 1]) if d.entry[b, 0] == d.counters[NUMBER] else -1


@inlined
def add_row(d: GroupDraft, b: int, size: int) -> int:
    """Add a row for a group that has none; its centre is not set."""
    row = d.counters[GROUPS]
    d.entry[b, 0], d.entry[b, 1] = d.counters[NUMBER], row
    d.group[row], d.size[row] = b, size
    d.counters[GROUPS] = row + 1
    return int(row)


@inlined
def make_group(g: Grouping, d: GroupDraft, row: int, start: int, stop: int) -> float:
    """Make a row the group of the records that move from start to stop - 1; returns its sum of squared errors."""
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
    if g.words.shape[1] > 0:
        for i in range(m):
            d.members[row, i] = moved[start + i]
        sse += list_members(g, d, row)
    return sse


@inlined
def list_members(g: Grouping, d: GroupDraft, row: int) -> float:
    """Compute T of a row's members; returns what codes make of their sum of squared errors."""
    m = d.size[row]
    d.alike[row] = alike_of(g, d.members, row, m)
    return float(0.5 * (m * all_worth(g) - d.alike[row] / m))


@inlined
def _to_row(g: Grouping, d: GroupDraft, x: int, row: int) -> float:
    """Compute the squared distance of a record from the centre of a draft's row."""
    distance = squared_distance(g.X, x, d.centre, row)
    if g.words.shape[1] > 0:
        distance += _to_centre(g, x, d.members, row, d.size[row], d.alike[row])
    return distance


@inlined
def _cheapest(g: Grouping, d: GroupDraft, near: ShortInts, x: int, most: int) -> tuple[float, int, int]:
    """Find where x costs least: the cost, infinite if there is no place; the row, -1 if it has none; and the group.

    It may go to the draft's new groups, and to those that its neighbours are in, unless they are dissolved.
    """
    least, row, group = np.inf, -1, -1
    for new in range(d.counters[NEW]):
        m = d.size[new]
        cost = _to_row(g, d, x, new) * (m / (m + 1))
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
        distance = to_group(g, x, b) if at < 0 else _to_row(g, d, x, at)
        cost = distance * (m / (m + 1))
        if cost < least:
            least, row, group = cost, at, b
    return least, row, group


@inlined
def _list_one_more(g: Grouping, d: GroupDraft, row: int, x: int) -> None:
    """Put a record behind a row's members, whose number does not count it yet."""
    shared = 0.5 * all_worth(g)
    for i in range(d.size[row]):
        shared += worth(g, x, d.members[row, i])
    d.alike[row] += 2.0 * shared
    d.members[row, d.size[row]] = x


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
            if g.words.shape[1] > 0:
                for j in range(g.size[group]):
                    d.members[row, j] = g.members[group, j]
                d.alike[row] = g.alike[group]
        if g.words.shape[1] > 0:
            _list_one_more(g, d, row, x)
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
