"""Traces: a unit's classes over all nights as one digest of 128 bits, and how many units share each.

A night's trace is made of the one before and tonight's class, :data:`ABSENT` for who is not released. Units of one
trace have equal columns in the matrix of all sums ever released, so where every trace has k units, no linear
combination of these sums involves fewer than k.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Ints, Pairs, UInt64s
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.series.digests import numbered_pairs

#: The class of who is not released.
ABSENT: Pairs = np.zeros((1, 2), dtype=np.uint64)
#: The trace of everybody before the first night.
_START: Pairs = np.array([[0x6D6963726F616767, 0x2073657269657320]], dtype=np.uint64)
# One odd number for each place that mixes, so that no two words are mixed alike.
_SALTS = [np.uint64(salt) for salt in (
    0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD,
)]  # fmt: skip


def never(night: int) -> tuple[int, int]:
    """The trace of who was released in none of the nights 0 to ``night - 1``.

    >>> never(0) == never(0), never(0) == never(1)
    (True, False)
    """
    trace = _START
    for _ in range(night):
        trace = next_traces(trace, ABSENT)
    return int(trace[0, 0]), int(trace[0, 1])


def next_traces(traces: Pairs, classes: Pairs) -> Pairs:
    """The traces after a night in which the units were released with these classes.

    For one class it is a bijection of traces, and for one trace one of classes, so that two units whose traces
    differ tonight by one of them alone never meet in one trace by chance.
    """
    left = traces[:, 0] ^ _mixed(classes[:, 0], 0)
    right = traces[:, 1] ^ _mixed(classes[:, 1], 1)
    right = right + _mixed(left, 2)
    left = left ^ _mixed(right, 3)
    right = right ^ _mixed(left, 4)
    return np.column_stack([left, right])


def _mixed(words: UInt64s, place: int) -> UInt64s:
    return mix_words(words + _SALTS[place])


def counted(traces: Pairs, weights: Ints | None = None) -> tuple[Pairs, Ints]:
    """The distinct traces in ascending order, and how many units have each.

    ``weights`` says how many units each row stands for, where counts of counts are added up.

    >>> distinct, counts = counted(np.array([[7, 1], [5, 2], [7, 1]], dtype=np.uint64))
    >>> distinct.tolist(), counts.tolist()
    ([[5, 2], [7, 1]], [1, 2])
    """
    numbers, distinct = numbered_pairs(traces)
    counts = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(counts, numbers, 1 if weights is None else weights)
    return distinct, counts
