"""Dominance: how much of a sum over groups the largest of them make.

A sum of which one group makes nearly all is that group's own figure, whatever the size of the file.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from microagg_core.arrays import Floats
from microagg_core.metrics.means import Groups
from microagg_core.plain import PlainFloats


@dataclass(frozen=True)
class TopTwo:
    """The largest and the second-largest contribution of a group to each of some sums; two sets combine by addition.

    >>> (TopTwo.of(np.array([[5.0], [1.0]])) + TopTwo.of(np.array([[3.0]]))).second.tolist()
    [3.0]
    """

    first: PlainFloats
    second: PlainFloats

    @classmethod
    def of(cls, contributions: Floats) -> TopTwo:
        """Of a row a group, a column a sum."""
        none = np.zeros((2, contributions.shape[1]))
        ordered = np.partition(np.concatenate([none, contributions]), -2, axis=0)
        return cls(ordered[-1], ordered[-2])

    def __add__(self, other: TopTwo) -> TopTwo:
        return TopTwo.of(np.stack([self.first, self.second, other.first, other.second]))


@dataclass(frozen=True)
class Contributions:
    """What the largest groups make of the losses; two sets combine by addition.

    ``sse`` and ``absolute`` of each attribute; ``whole`` of the sums over all attributes: of squared differences, of
    distances, and of what distances from the file's mean lose when records become means. Of each pair of attributes,
    ``products`` of their differences; as these have signs, ``crossed`` is what all groups make of them without.
    """

    sse: TopTwo
    absolute: TopTwo
    whole: TopTwo
    products: TopTwo
    crossed: PlainFloats

    def __add__(self, other: Contributions) -> Contributions:
        sums: dict[str, Any] = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Contributions(**sums)


def contributions_of(difference: Floats, distances: Floats, groups: Groups) -> Contributions:
    """What the largest groups contribute.

    Args:
        difference: of each record and attribute, between the values before and after.
        distances: of each record, how much less far from the file's mean it is after than before.
        groups: the records' groups.
    """
    squares = difference * difference
    whole = np.column_stack([squares.sum(axis=1), np.sqrt(squares.sum(axis=1)), distances])
    sse, absolute, of_whole = (TopTwo.of(_sums(values, groups)) for values in (squares, np.abs(difference), whole))
    products, crossed = _of_pairs(difference[groups.order], groups)
    return Contributions(sse, absolute, of_whole, products, crossed)


def _sums(values: Floats, groups: Groups) -> Floats:
    sums: Floats = np.abs(np.add.reduceat(values[groups.order], groups.first, axis=0))
    return sums


def _of_pairs(ordered: Floats, groups: Groups) -> tuple[TopTwo, Floats]:
    """Of each pair of attributes, the first with all others first; one attribute at a time, as pairs may be many."""
    none = np.zeros(0)
    tops, crossed = [TopTwo(none, none)], [none]
    for j in range(ordered.shape[1] - 1):
        sums = np.abs(np.add.reduceat(ordered[:, [j]] * ordered[:, j + 1 :], groups.first, axis=0))
        tops.append(TopTwo.of(sums))
        crossed.append(sums.sum(axis=0))
    first, second = (np.concatenate([getattr(top, which) for top in tops]) for which in ("first", "second"))
    return TopTwo(first, second), np.concatenate(crossed)
