"""Local search over groups: moves and swaps between neighbours; groups dissolved, made and remade, first uphill too.

Records are visited in order, each with one neighbour drawn at random: it moves to the neighbour's group if its own
has more than k, or changes places with a member of it. A change is made when it costs less than a random
threshold, whose mean, the temperature, falls to 0. The last sweeps go downhill only, and try everything.

A new group takes a record and near ones of it from wherever they are; groups that are left with fewer than k are
dissolved, each of their records going to the cheapest group of its neighbours. Or groups near each other are
ruined, and new ones made of their records. A group that grows to 2k is split.
"""

from __future__ import annotations

from microagg_core.arrays import Floats, Ints, ShortInts, UInt64s
from microagg_core.kernels.machine_code.jit import inlined, uncounted
from microagg_core.kernels.refinement.changes import (
    GROUPS,
    MOVED,
    NEW,
    GroupDraft,
    Grouping,
    add_row,
    begin,
    between,
    carry_out,
    list_members,
    make_group,
    move,
    move_cost,
    place_loose,
    row_of,
    squared_distance,
    swap,
    swap_cost,
    to_group,
    total_sse,
)
from microagg_core.kernels.tools.random_draws import draw

#: What a change starts with; and the part of its groups' loss that is nothing.
GATHER, REGROUP = 0, 1
_NOTHING = 1e-9


@inlined
def _is_taken(d: GroupDraft, x: int, n_taken: int) -> bool:
    """Say whether a record is among the first so many that move."""
    taken = False
    for i in range(n_taken):
        taken |= d.moved[i] == x
    return taken


@inlined
def _take_near(g: Grouping, d: GroupDraft, near: ShortInts, k: int, x: int, random: UInt64s) -> bool:
    """Draft a group of x and k - 1 of its nearest, one in eight passed over; returns whether there are enough.

    The groups that they are taken from get rows; ``size`` says how many each of them loses.
    """
    r, y, n_taken = -1, x, 0
    while True:
        if not _is_taken(d, y, n_taken):
            d.moved[n_taken] = y
            n_taken += 1
            row = row_of(d, g.label[y])
            if row < 0:
                row = add_row(d, g.label[y], 0)
            d.size[row] += 1
        if n_taken == k:
            return True
        r += 1
        while r < near.shape[1] and draw(random, 8) == 0:
            r += 1
        if r >= near.shape[1]:
            return False
        y = near[x, r]


@inlined
def _leave(g: Grouping, d: GroupDraft, row: int, n_taken: int) -> float:
    """Draft a group without those who are taken from it; returns its sum of squared errors."""
    b, left, centre = d.group[row], d.size[row], d.centre
    for j in range(centre.shape[1]):
        centre[row, j] = 0.0
    at = 0
    for i in range(g.size[b]):
        if not _is_taken(d, g.members[b, i], n_taken):
            for j in range(centre.shape[1]):
                centre[row, j] += g.X[g.members[b, i], j] / left
            if g.words.shape[1] > 0:
                d.members[row, at] = g.members[b, i]
                at += 1
    sse = list_members(g, d, row) if g.words.shape[1] > 0 else 0.0
    for i in range(g.size[b]):
        if not _is_taken(d, g.members[b, i], n_taken):
            sse += squared_distance(g.X, g.members[b, i], centre, row)
    return sse


@inlined
def _loosen_small(g: Grouping, d: GroupDraft, k: int) -> float:
    """Dissolve groups that would be left with fewer than k, and draft the others; returns what is lost in these."""
    stays, loose = 0.0, k
    for row in range(1, d.counters[GROUPS]):
        b = d.group[row]
        if d.size[row] >= k:
            stays += _leave(g, d, row, k)
            continue
        d.size[row] = 0
        for i in range(g.size[b]):
            if not _is_taken(d, g.members[b, i], k):
                d.moved[loose] = g.members[b, i]
                loose += 1
    d.counters[MOVED] = loose
    return stays


@inlined
def _lost_by_loose(g: Grouping, d: GroupDraft, start: int) -> float:
    """Return what the records that move from ``start`` on lose where they are: elsewhere it will hardly be less."""
    total = 0.0
    for i in range(start, d.counters[MOVED]):
        total += g.own[d.moved[i]]
    return total


@inlined
def _gather(g: Grouping, d: GroupDraft, near: ShortInts, k: int, x: int, limit: float, random: UInt64s) -> bool:
    """Draft a group around x, which may make at most 2k records loose; returns whether it costs less than the limit."""
    add_row(d, g.free[g.n_free[0] - 1], k)
    if not _take_near(g, d, near, k, x, random):
        return False
    n_loose, delta = 0, make_group(g, d, 0, 0, k)
    for row in range(1, d.counters[GROUPS]):
        d.size[row] = g.size[d.group[row]] - d.size[row]
        n_loose += d.size[row] if d.size[row] < k else 0
        delta -= g.sse[d.group[row]]
    if n_loose > 2 * k or not delta < limit:
        return False
    d.counters[NEW] = 1
    delta += _loosen_small(g, d, k)
    return delta + _lost_by_loose(g, d, k) < limit and place_loose(g, d, near, k, k, delta, limit, random) < limit


@inlined
def _ruin(g: Grouping, d: GroupDraft, near: ShortInts, x: int, wanted: int) -> float:
    """Loosen x's group and those of its nearest until there are so many, or no neighbours; returns what they lost."""
    lost, y, r, loose = 0.0, x, 0, 0
    while True:
        a = g.label[y]
        if row_of(d, a) < 0:
            lost += g.sse[a]
            add_row(d, a, 0)
            for i in range(g.size[a]):
                d.moved[loose] = g.members[a, i]
                loose += 1
        if d.counters[GROUPS] == wanted or r >= near.shape[1]:
            d.counters[MOVED] = loose
            return lost
        y = near[x, r]
        r += 1


@inlined
def _nearest_first(g: Grouping, d: GroupDraft, k: int, start: int, at: int) -> None:
    """Put the loose record that stands ``at`` and its k - 1 nearest before the others from ``start`` on, if any."""
    moved, distance, stop = d.moved, d.distance, d.counters[MOVED]
    if stop - start == k:
        return
    for i in range(start, stop):
        distance[i] = between(g, moved[at], moved[i])
    distance[at] = -1.0
    for i in range(start, start + k):
        for t in range(i, stop):
            if distance[t] < distance[at]:
                at = t
        moved[i], moved[at], distance[at] = moved[at], moved[i], distance[i]
        at = i + 1 if i + 1 < stop else i


@inlined
def _regroup(g: Grouping, d: GroupDraft, near: ShortInts, k: int, x: int, limit: float, random: UInt64s) -> bool:
    """Draft groups of k around records drawn, out of those of two to four groups from x's on, and place the others.

    Whether that costs less than the limit, and is another grouping.
    """
    lost = _ruin(g, d, near, x, 2 + draw(random, 2) * draw(random, 3))
    delta, start, unused, n_loose = -lost, 0, g.n_free[0], d.counters[MOVED]
    while n_loose - start >= k:
        row = d.counters[NEW]
        if row == d.counters[GROUPS]:
            unused -= 1
            add_row(d, g.free[unused], 0)
        _nearest_first(g, d, k, start, start + draw(random, n_loose - start))
        delta += make_group(g, d, row, start, start + k)
        d.counters[NEW] = row + 1
        start += k
        if not delta < limit:
            return False
    delta = place_loose(g, d, near, start, k, delta, limit, random)
    return delta < limit and abs(delta) > _NOTHING * lost


@uncounted
def rebuild(
    g: Grouping, d: GroupDraft, near: ShortInts, k: int, x: int, kind: int, limit: float, random: UInt64s
) -> bool:
    """Gather a new group around x or regroup what is near, if it costs less than ``limit``; returns whether it did."""
    begin(d)
    if kind == GATHER:
        pays = _gather(g, d, near, k, x, limit, random)
    else:
        pays = _regroup(g, d, near, k, x, limit, random)
    if not pays:
        return False
    carry_out(g, d, k)
    return True


@inlined
def _exchange(g: Grouping, x: int, b: int, k: int, limit: float, random: UInt64s) -> None:
    """Move x to another group b, or swap it with one of b's members, if that costs less than the limit."""
    x_to_b = to_group(g, x, b)
    if g.size[g.label[x]] > k and g.size[b] < 2 * k and move_cost(g, x, b, x_to_b) < limit:
        move(g, x, b, k)
        return
    z = g.members[b, draw(random, g.size[b])]
    if swap_cost(g, x, z, x_to_b) < limit:
        swap(g, x, z)


@uncounted
def sweep(
    g: Grouping,
    d: GroupDraft,
    near: ShortInts,
    k: int,
    temperature: float,
    every: int,
    quantiles: Floats,
    random: UInt64s,
) -> None:
    """Try one change for each record, one in ``every`` (0: none) of whole groups."""
    for x in range(near.shape[0]):
        limit = temperature * quantiles[draw(random, quantiles.shape[0])]
        if every > 0 and draw(random, every) == 0:
            rebuild(g, d, near, k, x, REGROUP if draw(random, 2) > 0 else GATHER, limit, random)
            continue
        y = near[x, draw(random, near.shape[1])]
        if g.label[x] == g.label[y]:
            continue
        # A lonely record has neighbours but is nobody's: these must also be able to come to it.
        comes, b = (x, g.label[y]) if draw(random, 2) > 0 else (y, g.label[x])
        _exchange(g, comes, b, k, limit, random)


@uncounted
def anneal(
    g: Grouping,
    d: GroupDraft,
    near: ShortInts,
    k: int,
    start: int,
    stop: int,
    sweeps: int,
    hottest: float,
    power: int,
    every: int,
    quantiles: Floats,
    random: UInt64s,
    best: Ints,
    least: float,
) -> float:
    """Run sweeps ``start`` to ``stop`` - 1 of ``sweeps``; labels of the least total below ``least`` go to ``best``.

    The temperature is ``hottest`` times the share of the sweeps that remain, to a power. Gives the least total.
    """
    for s in range(start, stop):
        temperature = hottest
        for _ in range(power):
            temperature *= (sweeps - 1 - s) / sweeps
        sweep(g, d, near, k, temperature, every, quantiles, random)
        total = total_sse(g)
        if total < least:
            least = total
            for x in range(best.shape[0]):
                best[x] = g.label[x]
    return least


@uncounted
def _best_change(g: Grouping, near: ShortInts, k: int, x: int, tolerance: float) -> bool:
    """Make the best move or swap of x with the groups of its neighbours, if it gains more than the tolerance."""
    a = g.label[x]
    gain, to, partner = -tolerance, -1, -1
    for r in range(near.shape[1]):
        b = g.label[near[x, r]]
        if b in (a, to):
            continue
        x_to_b = to_group(g, x, b)
        if g.size[a] > k and g.size[b] < 2 * k:
            cost = move_cost(g, x, b, x_to_b)
            if cost < gain:
                gain, to, partner = cost, b, -1
        for i in range(g.size[b]):
            cost = swap_cost(g, x, g.members[b, i], x_to_b)
            if cost < gain:
                gain, to, partner = cost, b, g.members[b, i]
    if to < 0:
        return False
    if partner >= 0:
        swap(g, x, partner)
    else:
        move(g, x, to, k)
    return True


@uncounted
def descend(g: Grouping, near: ShortInts, k: int, most: int, tolerance: float) -> int:
    """Sweep at most so often, every record making its best change, until none gains; returns how many sweeps ran."""
    for s in range(most):
        changes = 0
        for x in range(near.shape[0]):
            changes += _best_change(g, near, k, x, tolerance)
        if changes == 0:
            return s + 1
    return most
