"""Odd sets of records, whose inequality a fractional set partition breaks.

For an odd set S, a partition has at most (|S| - 1) / 2 groups that hold two or more records of S. Half a group
each, as in a triangle of three half pairs, breaks that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import coo_array, csc_array, csr_array
from scipy.sparse.csgraph import connected_components

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.group.factor.groups import incidence

OddSet = tuple[int, ...]

_TOLERANCE = 1e-5
#: Connected sets of up to so many records are searched in full; larger ones from so many seeds, up to that size.
_FULL, _SEEDS, _GROWN = 13, 40, 31
_KEPT = 3


def touching(sets: Sequence[OddSet], groups: Ints, n: int) -> csc_array:
    """Odd sets by groups: 1 where a group holds two or more records of a set."""
    sizes = [len(members) for members in sets]
    rows = np.repeat(np.arange(len(sets)), sizes)
    columns = np.array([record for members in sets for record in members], np.int64)
    inside = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(sets), n))
    shared = csc_array(inside @ incidence(groups, n))
    shared.data = np.floor(shared.data / 2)
    shared.eliminate_zeros()
    return shared


def limits(sets: Sequence[OddSet]) -> Ints:
    """How many groups may touch each set twice."""
    return np.array([len(members) // 2 for members in sets], np.int64)


def _fully(member: Bools, x: Floats) -> list[tuple[float, Ints]]:
    """The most broken of all odd subsets of a few records; ``member`` is groups by records."""
    count = member.shape[1]
    subsets = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1
    sizes = subsets.sum(axis=1)
    subsets, sizes = subsets[sizes % 2 == 1], sizes[sizes % 2 == 1]
    broken = (subsets @ member.T // 2) @ x - sizes // 2
    best = np.argsort(-broken, kind="stable")[:_KEPT]
    return [(float(broken[i]), np.flatnonzero(subsets[i])) for i in best]


def _grown(member: Bools, x: Floats, seed: int) -> list[tuple[float, Ints]]:
    """Sets grown from a record, two records at a time, each time the two that break the inequality most."""
    whole = member.astype(np.int64)
    inside = np.zeros(member.shape[1], bool)
    inside[seed] = True
    sets = []
    while inside.sum() + 2 <= min(_GROWN, member.shape[1]):
        near = np.flatnonzero(member[member[:, inside].any(axis=1)].any(axis=0) & ~inside)
        if len(near) < 2:
            break
        i, j = np.triu_indices(len(near), 1)
        counts = whole[:, inside].sum(axis=1)[:, None] + whole[:, near[i]] + whole[:, near[j]]
        gains = x @ (counts // 2)
        best = int(np.argmax(gains))
        inside[[near[i[best]], near[j[best]]]] = True
        sets.append((float(gains[best]) - inside.sum() // 2, np.flatnonzero(inside)))
    return sorted(sets, key=lambda one: -one[0])[:_KEPT]


def broken_sets(groups: Ints, x: Floats, n: int) -> list[OddSet]:
    """Odd sets, within the connected pieces of the groups in fractional use, whose inequality is broken."""
    used = np.flatnonzero((x > _TOLERANCE) & (x < 1 - _TOLERANCE))
    part, share = groups[used], x[used]
    third = np.where(part[:, 2] < 0, part[:, 1], part[:, 2])
    ends = np.concatenate([part[:, 0], part[:, 0]]), np.concatenate([part[:, 1], third])
    _, piece = connected_components(coo_array((np.ones(2 * len(used)), ends), shape=(n, n)), directed=False)
    order = np.argsort(piece[part[:, 0]], kind="stable")
    bounds = np.flatnonzero(np.diff(piece[part[order, 0]])) + 1
    odd_sets: set[OddSet] = set()
    for rows in np.split(order, bounds) if len(used) else []:
        records = np.unique(part[rows][part[rows] >= 0])
        member = (part[rows][:, :, None] == records).any(axis=1)
        if len(records) <= _FULL:
            sets = _fully(member, share[rows])
        else:
            seeds = range(0, len(records), max(1, len(records) // _SEEDS))
            sets = [one for seed in seeds for one in _grown(member, share[rows], seed)]
        odd_sets |= {tuple(records[members].tolist()) for broken, members in sets if broken > _TOLERANCE}
    return sorted(odd_sets)
