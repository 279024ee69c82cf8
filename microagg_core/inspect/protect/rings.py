"""Groups as rings of their records, which can be joined, and exchange records, in a few steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.inspect.protect.rules import Rules, broken_by
from microagg_core.kernels.machine_code.jit import jit, uncounted


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
