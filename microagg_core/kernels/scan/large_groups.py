"""Groups of 2k records and more, cut into smaller ones one by one."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.scan.md import md
from microagg_core.kernels.scan.remaining import farthest, take_group
from microagg_core.kernels.tools.exact_sum import total_of
from microagg_core.kernels.tools.sorting import stable_order


@jit
def _bounds(labels: Ints) -> tuple[Ints, Ints]:
    """Records in the order of their groups, by number within each, and where each group starts (one more: the end)."""
    return stable_order(labels), np.append(0, np.cumsum(np.bincount(labels)))


@jit
def _records_of(X: Floats, members: Ints) -> Floats:
    """The records of a group, as a (p, size) array."""
    part = np.empty((X.shape[0], members.shape[0]))
    for j in range(X.shape[0]):
        part[j] = X[j][members]
    return part


@jit
def halve_groups(X: Floats, labels: Ints, k: int) -> None:
    """In each group of 2k to 3k-1 records, make a group of its own of the record farthest from the centroid and its
    k-1 nearest; X is (p, n), and the labels 0, 1, ... are changed in place.
    """
    members, starts = _bounds(labels)
    n_groups = starts.shape[0] - 1
    for group in range(starts.shape[0] - 1):
        inside = members[starts[group] : starts[group + 1]]
        size = inside.shape[0]
        if size < 2 * k:
            continue
        part = _records_of(X, inside)
        ids, where = np.arange(size), np.arange(size)
        column = farthest(part, ids, size, float(size), total_of(part, 0, size)[0])
        stay = take_group(part, ids, where, size, column, k)
        labels[inside[ids[stay:]]] = n_groups
        n_groups += 1


@jit
def group_by_md(X: Floats, labels: Ints, k: int) -> None:
    """Partition each group of 2k records and more by MD; X is (p, n), and the labels 0, 1, ... are changed in place."""
    members, starts = _bounds(labels)
    n_groups = starts.shape[0] - 1
    for group in range(starts.shape[0] - 1):
        inside = members[starts[group] : starts[group + 1]]
        if inside.shape[0] >= 2 * k:
            parts = md(_records_of(X, inside), k)
            labels[inside] = n_groups + parts
            n_groups += parts.max() + 1
