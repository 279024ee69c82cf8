"""The checked numbering of groups that comes out of everything that makes them."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Ints
from microagg_core.errors import InternalError

#: Numbers are looked up in a table, unless so many times as many as there are records would be in it.
_MOST_UNUSED = 4


def checked_labels(labels: Ints, sizes: tuple[int, int | None], algorithm: str) -> Ints:
    """Number groups by their first record, and refuse a group smaller or larger than promised.

    >>> checked_labels(np.array([7, 2, 7, 2]), (2, 3), "mdav").tolist()
    [0, 1, 0, 1]
    """
    least, most = sizes
    is_right = labels.min() >= 0
    if not is_right or labels.max() > _MOST_UNUSED * len(labels):
        labels = np.unique(labels, return_inverse=True)[1]
    count = np.bincount(labels)
    first = np.full(len(count), len(labels))
    first[labels[::-1]] = np.arange(len(labels))[::-1]
    by_first = np.argsort(first)[: np.count_nonzero(count)]  # numbers without a record are behind
    own_sizes = count[by_first]
    if not is_right or own_sizes.min() < least or (most is not None and own_sizes.max() > most):
        raise InternalError(f"a bug: {algorithm} made a group outside its sizes, {least} to {most}; please report it")
    rank = np.empty(len(count), dtype=np.int64)
    rank[by_first] = np.arange(len(by_first))
    numbered: Ints = rank[labels]
    return numbered
