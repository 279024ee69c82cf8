"""The checked numbering of groups that comes out of everything that makes them."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Ints
from microagg_core.errors import InternalError


def checked_labels(labels: Ints, sizes: tuple[int, int | None], algorithm: str) -> Ints:
    """Number groups by their first record, and refuse a group smaller or larger than promised.

    >>> checked_labels(np.array([7, 2, 7, 2]), (2, 3), "mdav").tolist()
    [0, 1, 0, 1]
    """
    _, first, group, count = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    least, most = sizes
    if count.min() < least or (most is not None and count.max() > most) or labels.min() < 0:
        raise InternalError(f"a bug: {algorithm} made a group outside its sizes, {least} to {most}; please report it")
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    numbered: Ints = rank[group]
    return numbered
