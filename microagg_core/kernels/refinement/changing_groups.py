"""Groups that change: who is in which, where their centres lie, and what a change would cost.

``X`` is (n, p), one record a row, p a multiple of four (padded with zeros). A group's centre is computed anew from
its members at each change, so that nothing drifts. Costs are changes of the sum of squared distances to centres.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.tools.sorting import stable_order


class Grouping(NamedTuple):
    """Records and their groups; a group without records has size 0 and may be used again."""

    X: Floats
    label: Ints
    place: Ints
    members: Ints
    size: Ints
    centre: Floats
    own: Floats
    #: Numbers of unused groups, and how many of them there are.
    free: Ints
    n_free: Ints


@jit
def squared_distance(a: Floats, b: Floats) -> float:
    """Squared distance of two points, in four sums that can be added side by side."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for j in range(0, a.shape[0], 4):
        d0, d1, d2, d3 = a[j] - b[j], a[j + 1] - b[j + 1], a[j + 2] - b[j + 2], a[j + 3] - b[j + 3]
        s0 += d0 * d0
        s1 += d1 * d1
        s2 += d2 * d2
        s3 += d3 * d3
    return (s0 + s1) + (s2 + s3)


@jit
def measure(g: Grouping, a: int) -> None:
    """Compute a group's centre, and its members' distances to it, from the members."""
    m = g.size[a]
    if m == 0:
        return
    centre = g.centre[a]
    centre[:] = 0.0
    for i in range(m):
        row = g.X[g.members[a, i]]
        for j in range(centre.shape[0]):
            centre[j] += row[j]
    for j in range(centre.shape[0]):
        centre[j] /= m
    for i in range(m):
        record = g.members[a, i]
        g.own[record] = squared_distance(g.X[record], centre)


@jit
def sse_of(g: Grouping, a: int) -> float:
    """The group's sum of squared distances to its centre."""
    total = 0.0
    for i in range(g.size[a]):
        total += g.own[g.members[a, i]]
    return total


@jit
def put(g: Grouping, x: int, b: int) -> None:
    """Put a record that is in no group into b; the centre is not renewed."""
    m = g.size[b]
    g.members[b, m] = x
    g.place[x], g.label[x] = m, b
    g.size[b] = m + 1


@jit
def take(g: Grouping, x: int) -> None:
    """Take a record out of its group; the centre is not renewed, and an empty group is not given back."""
    a, i = g.label[x], g.place[x]
    last = g.members[a, g.size[a] - 1]
    g.members[a, i] = last
    g.place[last] = i
    g.size[a] -= 1
    g.label[x] = -1


@jit
def open_group(g: Grouping) -> int:
    """Number of an unused group, which is in use from now on."""
    g.n_free[0] -= 1
    number: int = g.free[g.n_free[0]]
    return number


@jit
def close_group(g: Grouping, a: int) -> None:
    """Give back an empty group."""
    g.free[g.n_free[0]] = a
    g.n_free[0] += 1


@jit
def move_cost(g: Grouping, x: int, b: int) -> float:
    """Cost of moving a record from its group to b."""
    m, n = g.size[g.label[x]], g.size[b]
    cost: float = squared_distance(g.X[x], g.centre[b]) * (n / (n + 1)) - g.own[x] * (m / (m - 1))
    return cost


@jit
def swap_cost(g: Grouping, x: int, z: int, x_to_b: float) -> float:
    """Cost of two records of different groups changing places; ``x_to_b`` is x's distance to z's centre."""
    a, b = g.label[x], g.label[z]
    between = squared_distance(g.X[x], g.X[z])
    z_to_a = squared_distance(g.X[z], g.centre[a])
    cost: float = z_to_a - g.own[x] + x_to_b - g.own[z] - between / g.size[a] - between / g.size[b]
    return cost


@jit
def move(g: Grouping, x: int, b: int) -> None:
    """Move a record to group b."""
    a = g.label[x]
    take(g, x)
    put(g, x, b)
    measure(g, a)
    measure(g, b)


@jit
def swap(g: Grouping, x: int, z: int) -> None:
    """Let two records of different groups change places."""
    a, b, i, j = g.label[x], g.label[z], g.place[x], g.place[z]
    g.members[a, i], g.members[b, j] = z, x
    g.label[x], g.label[z], g.place[x], g.place[z] = b, a, j, i
    measure(g, a)
    measure(g, b)


@jit
def fill(g: Grouping) -> None:
    """Put every record into the group that its label names; unused groups become free."""
    for i in range(g.label.shape[0]):
        put(g, i, g.label[i])
    for a in range(g.size.shape[0] - 1, -1, -1):
        if g.size[a] == 0:
            close_group(g, a)
        measure(g, a)


@jit
def _farthest_member(g: Grouping, b: int, point: Floats) -> int:
    best, best_distance = g.members[b, 0], -1.0
    for i in range(g.size[b]):
        d = squared_distance(g.X[g.members[b, i]], point)
        if d > best_distance:
            best, best_distance = g.members[b, i], d
    farthest: int = best
    return farthest


@jit
def _two_means(g: Grouping, ids: Ints, order: Ints, first: int, u: Floats, v: Floats) -> None:
    """The means of the first so many records in order, and of the rest."""
    m = ids.shape[0]
    u[:], v[:] = 0.0, 0.0
    for t in range(m):
        row = g.X[ids[order[t]]]
        for j in range(u.shape[0]):
            if t < first:
                u[j] += row[j] / first
            else:
                v[j] += row[j] / (m - first)


@jit
def split(g: Grouping, b: int, k: int) -> None:
    """Split a group of 2k records or more in two of at least k: two means from two far members, thrice."""
    m = g.size[b]
    ids = g.members[b, :m].copy()
    u = g.X[_farthest_member(g, b, g.centre[b])].copy()
    v = g.X[_farthest_member(g, b, u)].copy()
    score = np.empty(m)
    order = np.arange(m)
    first = k
    for _ in range(3):
        first = 0
        for i in range(m):
            row = g.X[ids[i]]
            score[i] = squared_distance(row, u) - squared_distance(row, v)
            first += score[i] < 0
        first = min(max(first, k), m - k)
        order = stable_order(score)
        _two_means(g, ids, order, first, u, v)
    c = open_group(g)
    for t in range(first, m):
        take(g, ids[order[t]])
        put(g, ids[order[t]], c)
    measure(g, b)
    measure(g, c)
