"""V-MDAV, and with gamma 0 MDAV+, as a kernel: one group a round, from the outside in."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.scan.centroids import join_closest
from microagg_core.kernels.scan.remaining import BLOCK, exchange, least, outside_in, squared_distances, take_group


@jit
def _lower(near: Floats, start: int, distances: Floats) -> None:
    """Lower ``near``, from ``start`` on, to the distances where these are less."""
    part = near[start : start + distances.shape[0]]
    for i in range(part.shape[0]):
        part[i] = distances[i] if distances[i] < part[i] else part[i]


@jit
def _distances_to_group(X: Floats, m: int, size: int, near: Floats) -> None:
    """For each record that remains, the squared distance to the nearest of the group behind them."""
    block = np.empty(BLOCK)
    members = np.ascontiguousarray(X[:, m : m + size].T)
    near[:m] = np.inf
    for start in range(0, m, BLOCK):
        distances = block[: min(BLOCK, m - start)]
        for member in range(size):
            squared_distances(X, start, 1.0, members[member], distances)
            _lower(near, start, distances)


@jit
def _gap(X: Floats, m: int, near: Floats) -> float:
    """Least squared distance from the record in column m to those that remain, infinite if none does.

    ``near`` is lowered to what it is once that record belongs to the group.
    """
    block = np.empty(BLOCK)
    point = X[:, m].copy()
    least = np.inf
    for start in range(0, m, BLOCK):
        distances = block[: min(BLOCK, m - start)]
        squared_distances(X, start, 1.0, point, distances)
        _lower(near, start, distances)
        reached = 0
        for i in range(distances.shape[0]):
            reached += distances[i] < least
        if reached > 0:
            least = min(least, distances.min())
    return least


@jit
def _extend(X: Floats, ids: Ints, where: Ints, m: int, k: int, gamma: float, near: Floats) -> int:
    """Let the group behind the remaining records grow, up to 2k-1; how many records remain."""
    _distances_to_group(X, m, k, near)
    for _ in range(k - 1):
        if m == 0:
            break
        column = least(near, ids, m)
        d_in = near[column]
        exchange(X, ids, where, column, m - 1)
        near[column] = near[m - 1]
        if not d_in < gamma * _gap(X, m - 1, near):
            break
        m -= 1
    return m


@jit
def v_mdav(X: Floats, k: int, gamma: float) -> Ints:
    """Group numbers of the n records of X, a (p, n) array whose columns are rearranged; n >= k."""
    n = X.shape[1]
    labels = np.full(n, -1)
    ids, where = np.arange(n), np.arange(n)
    near = np.empty(n if gamma > 0 else 0)
    m, n_groups = n, 0
    for record in outside_in(X):
        if m < k:
            break
        if labels[record] >= 0:
            continue
        remaining = take_group(X, ids, where, m, where[record], k)
        if gamma > 0:
            remaining = _extend(X, ids, where, remaining, k, gamma, near)
        labels[ids[remaining:m]] = n_groups
        m, n_groups = remaining, n_groups + 1
    join_closest(X, ids, labels, n_groups)
    return labels
