"""Refine: what an effort by name makes of a partition."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.group.grouping.labels import checked_labels
from microagg_core.group.refine.improving import neighbour_count, refine_near
from microagg_core.group.refine.neighbours import Records
from microagg_core.group.refine.optimum import affordable_optimum, least_loss


def refine(X: Floats, labels: Ints, k: int, *, effort: str = "fast", seed: int = 0) -> Ints:
    """Improve a partition: groups of at least k again, and a sum of squared errors that is not greater.

    ``X`` is an (n, p) array of finite numbers, ``labels`` one whole number a record, no group below k. "fast" takes
    some dozen steps a record, "thorough" six hundred, or for k = 2 the optimum where that takes seconds: steps, never a
    clock's time, so that the same arguments give the same groups on every machine.

    Returns labels 0 to g-1 in the order of each group's first record.

    Raises:
        ValueError: a group has fewer than k records, or there is not one label a record.

    >>> X = np.array([[0.0], [9.0], [0.1], [9.1]])
    >>> refine(X, np.array([0, 0, 1, 1]), 2).tolist()
    [0, 1, 0, 1]
    """
    if len(labels) != len(X) or np.unique(labels, return_counts=True)[1].min() < k:
        raise ValueError("labels must give each record a group, and no group fewer than k records")
    given = checked_labels(labels, (k, None), "refine")
    if len(X) < 2 * k or k < 2:
        return given
    records = Records.of(X, neighbour_count(len(X), k))
    optimum = affordable_optimum(records, k, effort)
    if optimum is not None:
        return least_loss(records, given, optimum, seed)
    return refine_near(records, given, k, effort, seed)
