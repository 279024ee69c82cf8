"""What losses are put together from, in a pass over the records: sums over groups, and moments of pairs of attributes.

Of a block of some thousand records numpy would make twenty arrays for them, each written and read again.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit


@jit
def _add_record(before: Floats, after: Floats, sums: Floats, lengths: Floats, apart: Floats) -> None:
    """Add a record to the sums of its group, as :func:`loss_sums` has them, and its lengths to those of all."""
    p = before.shape[0]
    square, square_before, square_after = 0.0, 0.0, 0.0
    for j in range(p):
        apart[j] = before[j] - after[j]
        square += apart[j] * apart[j]
        square_before += before[j] * before[j]
        square_after += after[j] * after[j]
        sums[j] += apart[j] * apart[j]
        sums[p + j] += abs(apart[j])
    length_before, length_after = np.sqrt(square_before), np.sqrt(square_after)
    lengths[0] += length_before
    lengths[1] += length_after
    sums[2 * p] += square
    sums[2 * p + 1] += np.sqrt(square)
    sums[2 * p + 2] += length_before - length_after
    at = 2 * p + 3
    for i in range(p):
        for j in range(i + 1, p):
            sums[at] += apart[i] * apart[j]
            at += 1


@jit
def loss_sums(before: Floats, after: Floats, order: Ints, sizes: Ints) -> tuple[Floats, Floats]:
    """Sums over groups of how far records were moved; and the sums of their lengths, before and after.

    A group's sums are, in this order: of each attribute's squared differences, of each one's absolute differences; of
    squared distances, of distances, and of what records became shorter; and of each pair's products of differences,
    the first attribute with all others first.

    Args:
        before: of each record its values.
        after: of each group what is released of all its records.
        order: the records by group.
        sizes: of each group.

    Returns:
        Of the groups' sums without their signs the total, the largest and the second-largest; and the lengths.
    """
    p = before.shape[1]
    sums, apart = np.empty(2 * p + 3 + p * (p - 1) // 2), np.empty(p)
    of_groups, lengths = np.zeros((3, sums.shape[0])), np.zeros(2)
    total, first, second = of_groups[0], of_groups[1], of_groups[2]
    at = 0
    for group in range(sizes.shape[0]):
        sums[:] = 0.0
        for place in range(at, at + sizes[group]):
            _add_record(before[order[place]], after[group], sums, lengths, apart)
        at += sizes[group]
        for s in range(sums.shape[0]):
            part = abs(sums[s])
            total[s] += part
            if part > first[s]:
                first[s], second[s] = part, first[s]
            elif part > second[s]:
                second[s] = part
    return of_groups, lengths


@jit
def moments_of_pairs(values: Floats, counts: Ints) -> tuple[Floats, Floats]:
    """Of each column its mean, and of each pair of columns the sum of products of their deviations.

    Each row counts as so many. Deviations are taken of offsets from the first row, so that those of a constant column
    are exactly 0.
    """
    n, p = values.shape
    means, products, apart = np.zeros(p), np.zeros((p, p)), np.empty(p)
    n_all = 0
    for i in range(n):
        n_all += counts[i]
        for j in range(p):
            means[j] += counts[i] * (values[i, j] - values[0, j])
    means /= n_all
    for i in range(n):
        for j in range(p):
            apart[j] = values[i, j] - values[0, j] - means[j]
        for j in range(p):
            for other in range(j + 1):
                products[j, other] += counts[i] * (apart[j] * apart[other])
    for j in range(p):
        for other in range(j):
            products[other, j] = products[j, other]
    return values[0] + means, products
