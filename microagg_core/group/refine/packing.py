"""Codes packed into words of 64 bits, as :mod:`microagg_core.kernels.refinement.changes` compares them."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, UInt64s
from microagg_core.group.points import Points

_BYTES = 8


def packed(points: Points) -> tuple[UInt64s, Floats]:
    """Pack the records' codes, in 1, 2 or 4 bytes each, none across words: (n, words); and a table for each word.

    A table, of (words, 256), has the costs of the codes whose bytes are all among the bits of its index.

    >>> words, worth = packed(Points(np.array([[1.0, 300.0], [2.0, 300.0]]), np.array([0.5, 4.0])))
    >>> words.tolist(), worth[0, [0b001, 0b010, 0b110, 0b111]].tolist()
    ([[76801], [76802]], [0.5, 0.0, 4.0, 4.5])
    """
    n, used = len(points), _BYTES
    words, tables = list[UInt64s](), list[Floats]()
    for j in np.flatnonzero(points.is_code):
        codes: UInt64s = points.X[:, j].astype(np.uint64)
        width = next(width for width in (1, 2, 4) if int(codes.max(initial=0)) < 256**width)
        if used + width > _BYTES:
            words.append(np.zeros(n, dtype=np.uint64))
            tables.append(np.zeros(256))
            used = 0
        words[-1] |= codes << np.uint64(8 * used)
        own = ((1 << width) - 1) << used
        tables[-1][np.arange(256) & own == own] += points.costs[j]
        used += width
    return np.stack(words, axis=1) if words else np.zeros((n, 0), np.uint64), np.array(tables).reshape(-1, 256)
