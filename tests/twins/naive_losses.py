"""Sums over groups and moments of pairs, as their definitions have them: in fractions, one record after the other."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

from microagg_core.arrays import Floats, Ints


def naive_loss_sums(before: Floats, after: Floats, labels: Ints) -> tuple[list[list[float]], list[float]]:
    """Of all groups' sums, without their signs, the total, the largest and the second-largest; and sums of lengths."""
    sums: dict[int, list[Fraction]] = {}
    lengths = [Fraction(0), Fraction(0)]
    for row, masked, label in zip(before.tolist(), after.tolist(), labels.tolist(), strict=True):
        apart = [Fraction(a) - Fraction(b) for a, b in zip(row, masked, strict=True)]
        length = [Fraction(math.hypot(*point)) for point in (row, masked)]
        lengths = [all_of + one for all_of, one in zip(lengths, length, strict=True)]
        square = sum((x * x for x in apart), Fraction(0))
        own = [x * x for x in apart] + [abs(x) for x in apart]
        own += [square, Fraction(math.sqrt(square)), length[0] - length[1]]
        own += [x * y for x, y in combinations(apart, 2)]
        sums[label] = [a + b for a, b in zip(sums.get(label, [Fraction(0)] * len(own)), own, strict=True)]
    made = [sorted((abs(x) for x in of_all), reverse=True) for of_all in zip(*sums.values(), strict=True)]
    tops = [[sum(of_all), of_all[0], ([*of_all, Fraction(0)])[1]] for of_all in made]
    return [[float(top[which]) for top in tops] for which in range(3)], [float(all_of) for all_of in lengths]


def naive_moments_of_pairs(values: Floats) -> tuple[list[float], list[list[float]]]:
    """Means of columns, and sums of products of deviations from them."""
    columns = [[Fraction(x) for x in column] for column in values.T.tolist()]
    means = [sum(column) / len(column) for column in columns]
    apart = [[x - mean for x in column] for column, mean in zip(columns, means, strict=True)]
    products = [[float(sum(x * y for x, y in zip(a, b, strict=True))) for b in apart] for a in apart]
    return [float(mean) for mean in means], products
