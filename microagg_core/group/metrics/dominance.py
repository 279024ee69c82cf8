"""Dominance: how much of a sum over groups the largest of them make.

A sum of which one group makes nearly all is that group's own figure, whatever the size of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from microagg_core.arrays import Floats
from microagg_core.plain import PlainFloats

#: Sums over all attributes: of squared differences, of distances, and of what distances from the file's mean lose.
_WHOLE = 3


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

    @classmethod
    def sum_of(cls, parts: Sequence[TopTwo]) -> TopTwo:
        """The largest two of all parts' groups."""
        return cls.of(np.stack([largest for part in parts for largest in (part.first, part.second)]))

    def __add__(self, other: TopTwo) -> TopTwo:
        return self.sum_of((self, other))


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

    @classmethod
    def sum_of(cls, parts: Sequence[Contributions]) -> Contributions:
        """Those of all parts' groups."""
        names = [f.name for f in fields(cls) if f.name != "crossed"]
        tops = {name: TopTwo.sum_of([getattr(part, name) for part in parts]) for name in names}
        return cls(**tops, crossed=np.sum([part.crossed for part in parts], axis=0))

    def __add__(self, other: Contributions) -> Contributions:
        return self.sum_of((self, other))


def contributions_of(of_groups: Floats, n_attributes: int) -> Contributions:
    """What the largest groups contribute: the sums that :func:`~microagg_core.kernels.tools.loss_sums.loss_sums` makes.

    >>> contributions_of(np.array([[9.0] * 5, [5.0] * 5, [4.0] * 5]), 1).whole.second.tolist()
    [4.0, 4.0, 4.0]
    """
    p = n_attributes
    parts = np.split(of_groups, np.cumsum([p, p, _WHOLE]), axis=1)
    sse, absolute, whole, products = (TopTwo(part[1].copy(), part[2].copy()) for part in parts)
    return Contributions(sse, absolute, whole, products, parts[-1][0].copy())
