"""Slabs: records cut in two, across the attribute that varies most, until no part has room for two groups."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.tree.shrinking_tree import BITS, select
from microagg_core.kernels.values import Values

#: Records, or a few less, whose variance tells across which attribute to cut.
_SAMPLE = 128
#: Records whose values fit the processor's cache.
_SIDE_BY_SIDE = 1 << 13


@jit
def _variance(row: Floats, records: ShortInts, step: int) -> float:
    """Compute the variance of every step-th number, from how they differ from the first."""
    count, total, squares = 0.0, 0.0, 0.0
    for i in range(0, records.shape[0], step):
        offset = row[records[i]] - row[records[0]]
        count += 1.0
        total += offset
        squares += offset * offset
    return float(squares - total * (total / count)) / count


@jit
def _variance_of_codes(row: Floats, cost: float, records: ShortInts, step: int, seen: Floats) -> float:
    """Compute the variance of every step-th code, of which those that share a place of ``seen`` count as equal."""
    count, pairs = 0.0, 0.0
    seen[:] = 0.0
    for i in range(0, records.shape[0], step):
        place = np.int64(row[records[i]]) % BITS
        pairs += count - seen[place]
        seen[place] += 1.0
        count += 1.0
    return float(cost * pairs) / (count * count)


@jit
def _widest(values: Values, records: ShortInts, step: int, seen: Floats) -> int:
    """Find the attribute that varies most among every step-th record; -1 if none varies."""
    X, costs = values
    numbers, widest, most = X.shape[0] - costs.shape[0], -1, 0.0
    for j in range(X.shape[0]):
        if j < numbers:
            variance = _variance(X[j], records, step)
        else:
            variance = _variance_of_codes(X[j], costs[j - numbers], records, step, seen)
        if variance > most:
            widest, most = j, variance
    return widest


@jit
def _border(below: int, equal: int, size: int, k: int) -> int:
    """Return how many records come before the cut: half of the groups, unless equal keys are to stay together.

    ``equal`` keys are about the middle, with ``below`` others before them.
    """
    middle = k * (size // k // 2)
    border, way = middle, size
    for end in (below, below + equal):
        if k <= end <= size - k and abs(end - middle) < way:
            border, way = end, abs(end - middle)
    return border


@jit
def _halve(row: Floats, records: ShortInts, k: int, keys: Floats, others: ShortInts) -> int:
    """Bring the records with lower keys to the front; of equal ones, the lower numbers. Returns how many these are."""
    size, below, equal = records.shape[0], 0, 0
    middle = k * (size // k // 2)
    for i in range(size):
        keys[i] = row[records[i]]
    select(keys, others, 0, size, middle)
    key = keys[middle:size].min()
    for i in range(size):
        below += keys[i] < key
        equal += keys[i] == key
    border = middle if below == middle else _border(below, equal, size, k)
    # So many of the equal ones come first.
    few, first, behind = max(border - below, 0), 0, 0
    for i in range(size):
        record = records[i]
        value = row[record]
        is_first = value < key or (value == key and few > 0)
        few -= is_first and value == key
        others[behind] = record
        records[first] = record
        first += is_first
        behind += not is_first
    for i in range(behind):
        records[first + i] = others[i]
    return first


@jit
def _cut(values: Values, k: int, records: ShortInts, most: int, parts: Ints) -> int:
    """Rearrange records into parts of at most so many; sets where each starts and stops, and returns their number."""
    n, n_parts, height = records.shape[0], 0, 1
    keys, others, seen = np.empty(n), np.empty(n, np.int32), np.empty(BITS)
    stack = np.empty((BITS, 2), np.int64)
    stack[0, 0], stack[0, 1] = 0, n
    while height > 0:
        height -= 1
        start, stop = stack[height]
        part, size = records[start:stop], stop - start
        if size <= most:
            parts[n_parts, 0], parts[n_parts, 1] = start, stop
            n_parts += 1
            continue
        j = _widest(values, part, 1 + size // _SAMPLE, seen)
        if j < 0:
            j = _widest(values, part, 1, seen)
        middle = start + _halve(values.X[max(j, 0)], part, k, keys, others)
        # The smaller part is next, so that few wait.
        is_small = middle - start < stop - middle
        stack[height + is_small, 0], stack[height + is_small, 1] = start, middle
        stack[height + 1 - is_small, 0], stack[height + 1 - is_small, 1] = middle, stop
        height += 2
    return n_parts


@jit
def cut_into_slabs(values: Values, k: int) -> Ints:
    """Return group numbers of the n records; n >= k.

    From where a part's records fit the processor's cache, all of it is cut in a copy that has them side by side.
    """
    X, n = values.X, values.X.shape[1]
    labels, records, n_groups = np.empty(n, np.int64), np.arange(n).astype(np.int32), 0
    large, small = np.empty((n // k, 2), np.int64), np.empty((n // k, 2), np.int64)
    for part in range(_cut(values, k, records, max(_SIDE_BY_SIDE, 2 * k - 1), large)):
        inside = records[large[part, 0] : large[part, 1]]
        copy, places = np.empty((X.shape[0], inside.shape[0])), np.arange(inside.shape[0]).astype(np.int32)
        for j in range(X.shape[0]):
            for i in range(inside.shape[0]):
                copy[j, i] = X[j, inside[i]]
        n_parts = _cut(Values(copy, values.costs), k, places, 2 * k - 1, small)
        for group in range(n_parts):
            for i in range(small[group, 0], small[group, 1]):
                labels[inside[places[i]]] = n_groups + group
        n_groups += n_parts
    return labels
