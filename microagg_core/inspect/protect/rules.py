"""What groups of a block have to hold, as arrays for kernels, and by how much a group breaks it.

A kernel's distances are those of :class:`~microagg_core.inspect.distributions.Distribution`, but for the last digits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit, uncounted
from microagg_core.kernels.tools.sorting import sort_numbers

#: What is asked of distances from the whole: nothing, or that of names, or that of values with an order.
UNBOUND, NAMES, ORDERED = 0, 1, 2
#: As :mod:`microagg_core.group.metrics.moments` has it; compiled code sees no other room.
MOST_OF_WEIGHT = 0.5 * (1.0 + 5e-10)
#: For groups of up to so many records it is known beforehand where the whole's share passes theirs.
FEW = 64


class Rules(NamedTuple):
    """Demands on the groups of n records, column by column."""

    codes: Ints  #: (columns, n), the place of each record's value among the distinct ones; 0 where it has none
    kinds: Ints  #: (columns), what is asked of distances
    least: Ints  #: (columns), distinct values that a group has at least
    most: Floats  #: (columns), the distance that a group has at most
    totals: Ints  #: (columns), records of the whole that have a value
    without: Floats  #: (columns), the share of those that have none
    values: Ints  #: (columns), its distinct values, and null
    starts: Ints  #: (columns), where the counts of each begin
    cumulative: Ints  #: records of the whole up to each value, a column after the other
    prefix: Ints  #: sums of these before each value and at the end; those of column c begin c places later
    passed: Ints  #: (columns, FEW + 1, FEW + 1), for a group's size and rank, the value from which the whole has more
    room: Ints  #: (n), for the codes of one group
    weights: Floats  #: (n), survey weights of the records; none where there are none


@uncounted
def _passed(rules: Rules, c: int, size: int, rank: int) -> int:
    """The first value up to which the whole has a share of at least rank / size."""
    if size <= FEW:
        return int(rules.passed[c, size, rank])
    low, high = rules.starts[c], rules.starts[c] + rules.values[c] - 1
    while low < high:
        middle = (low + high) >> 1
        if rules.cumulative[middle] * size >= rules.totals[c] * rank:
            high = middle
        else:
            low = middle + 1
    return int(low - rules.starts[c])


@uncounted
def _ordered_distance(rules: Rules, c: int, size: int) -> float:
    """The distance of the group whose sorted codes are in the room."""
    first, room, prefix = rules.starts[c] + c, rules.room, rules.prefix
    total, last = float(rules.totals[c]), rules.values[c] - 1
    moved = prefix[first + room[0]] / total
    for rank in range(1, size + 1):
        low, high = room[rank - 1], last
        if rank < size:
            high = room[rank]
        if low < high:
            at = min(max(_passed(rules, c, size, rank), low), high)
            above = prefix[first + high] + prefix[first + low] - 2 * prefix[first + at]
            moved += rank / size * (2 * at - low - high) + above / total
    return float(moved / (last - 1))


@uncounted
def _named_distance(rules: Rules, c: int, size: int) -> float:
    """The same where values are names."""
    first, room, cumulative = rules.starts[c], rules.room, rules.cumulative
    total = float(rules.totals[c])
    differs, absent, at = 0.0, total, 0
    while at < size:
        code, start = room[at], at
        while at < size and room[at] == code:
            at += 1
        whole = cumulative[first + code] - (cumulative[first + code - 1] if code > 0 else 0)
        absent -= whole
        differs += abs((at - start) / size - whole / total)
    return float((differs + absent / total) / 2.0)


@uncounted
def broken_by(rules: Rules, members: Ints, size: int) -> float:
    """By how much a group breaks what is demanded: the sum over columns, 0 where it holds all of it."""
    broken, room = 0.0, rules.room
    for c in range(rules.kinds.shape[0]):
        valued = 0
        for i in range(size):
            room[valued] = rules.codes[c, members[i]]
            valued += room[valued] > 0
        sort_numbers(room[:valued])
        distinct = min(1, valued)
        for i in range(1, valued):
            distinct += room[i] != room[i - 1]
        if distinct < rules.least[c]:
            broken += (rules.least[c] - distinct) / rules.least[c]
        far = abs((size - valued) / size - rules.without[c])
        if valued > 0 and rules.values[c] > 2 and rules.kinds[c] == ORDERED:
            far = max(far, _ordered_distance(rules, c, valued))
        if valued > 0 and rules.values[c] > 2 and rules.kinds[c] == NAMES:
            far = max(far, _named_distance(rules, c, valued))
        broken += max(0.0, far - rules.most[c])
    if rules.weights.shape[0] > 0:
        total, heaviest = 0.0, 0.0
        for i in range(size):
            weight = rules.weights[members[i]]
            total += weight
            heaviest = max(heaviest, weight)
        broken += max(0.0, heaviest / total - MOST_OF_WEIGHT)
    return broken


@jit
def broken_by_all(rules: Rules, order: Ints, first: Ints, sizes: Ints) -> Floats:
    """By how much each group breaks what is demanded; ``order`` has the records by group, from its ``first`` on."""
    broken = np.empty(sizes.shape[0])
    for g in range(sizes.shape[0]):
        broken[g] = broken_by(rules, order[first[g] : first[g] + sizes[g]], sizes[g])
    return broken
