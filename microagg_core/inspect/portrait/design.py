"""What a linear model needs to know of records: sums over its columns, which add up over the files of a release.

A column of numbers is itself; a category is a column of zeros and ones for each of its levels. What is kept is the mean
of each column and the products of deviations from it, merged by Chan's formula in the order of the files: nothing
cancels however far from zero the values lie, and what is constant has squares of exactly 0. What is too large to be
squared is infinite or NaN in the sums, for whoever solves them to see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.plain import PlainFloats

#: Levels of a category at most; with more, a model is a list of levels.
MOST_LEVELS = 100
#: A column of a design: the place of its variable (0: the outcome), and its level; of numbers "".
ColumnKey = tuple[int, str]


@dataclass(frozen=True)
class Numbers:
    """A numeric variable of some records."""

    values: Floats

    def columns(self) -> list[str]:
        """The one column, which has no level."""
        return [""]


@dataclass(frozen=True)
class Categories:
    """A category of some records: each one's level, a place among all of them."""

    levels: tuple[str, ...]
    codes: Ints

    def columns(self) -> list[str]:
        """A column for each level."""
        return list(self.levels)


Variable = Numbers | Categories


@dataclass(frozen=True)
class DesignMoments:
    """Sums over some records; two sets combine by addition, and columns that one of them lacks are zero there."""

    columns: tuple[ColumnKey, ...]
    n: int
    mean: PlainFloats
    #: Of the deviations of each two columns from their means.
    products: PlainFloats
    least: PlainFloats
    greatest: PlainFloats

    @np.errstate(over="ignore", invalid="ignore")
    def __add__(self, other: DesignMoments) -> DesignMoments:
        if not (self.n and other.n):
            return self if self.n else other
        columns = tuple(sorted({*self.columns, *other.columns}))
        a, b = self.over(columns), other.over(columns)
        n, apart = a.n + b.n, b.mean - a.mean
        products = a.products + b.products + np.outer(apart, apart) * (a.n * (b.n / n))
        least, greatest = np.minimum(a.least, b.least), np.maximum(a.greatest, b.greatest)
        return DesignMoments(columns, n, a.mean + apart * (b.n / n), products, least, greatest)

    def over(self, columns: Sequence[ColumnKey]) -> DesignMoments:
        """The same over more columns, in another order."""
        place = {key: j for j, key in enumerate(self.columns)}
        there = [j for j, key in enumerate(columns) if key in place]
        mine = [place[columns[j]] for j in there]
        ends = np.zeros((3, len(columns)))
        ends[:, there] = np.stack([self.mean, self.least, self.greatest])[:, mine]
        products = np.zeros((len(columns), len(columns)))
        products[np.ix_(there, there)] = self.products[np.ix_(mine, mine)]
        return DesignMoments(tuple(columns), self.n, ends[0], products, ends[1], ends[2])


NO_RECORDS = DesignMoments((), 0, np.zeros(0), np.zeros((0, 0)), np.zeros(0), np.zeros(0))


@np.errstate(over="ignore", invalid="ignore")
def design_moments(variables: Sequence[Variable]) -> DesignMoments:
    """The sums of some records, none of which lacks a value.

    >>> sums = design_moments([Numbers(np.array([1.0, 3.0])), Categories(("n", "s"), np.array([0, 1]))])
    >>> sums.columns, sums.mean.tolist(), sums.products[0].tolist()
    (((0, ''), (1, 'n'), (1, 's')), [2.0, 0.5, 0.5], [2.0, -1.0, 1.0])
    """
    blocks = [_Block.of(variable) for variable in variables]
    n = blocks[0].n
    if not n:
        return NO_RECORDS
    keys = [(j, level) for j, variable in enumerate(variables) for level in variable.columns()]
    products = np.block([[a.products_with(b) for b in blocks] for a in blocks])
    mean, least, greatest = np.concatenate([np.stack([b.mean, b.least, b.greatest]) for b in blocks], axis=1)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    columns = tuple(keys[j] for j in order)
    return DesignMoments(columns, n, mean[order], products[np.ix_(order, order)], least[order], greatest[order])


@dataclass(frozen=True)
class _Block:
    """The columns of one variable: its deviations from the mean; of a category, codes alone."""

    n: int
    mean: Floats
    least: Floats
    greatest: Floats
    deviations: Floats
    codes: Ints | None

    @classmethod
    def of(cls, variable: Variable) -> _Block:
        if isinstance(variable, Categories):
            n, shape = len(variable.codes), len(variable.levels)
            share = np.bincount(variable.codes, minlength=shape) / max(n, 1)
            return cls(n, share, np.zeros(shape), np.ones(shape), np.zeros(0), variable.codes)
        values = variable.values
        if not len(values):
            return cls(0, np.zeros(1), np.zeros(1), np.zeros(1), values, None)
        offsets = values - values[0]
        middle = offsets.mean()
        mean, least, greatest = np.array([[values[0] + middle], [values.min()], [values.max()]])
        return cls(len(values), mean, least, greatest, offsets - middle, None)

    def products_with(self, other: _Block) -> Floats:
        """Rows for the columns of this one, columns for the other's."""
        if self.codes is None and other.codes is None:
            # A BLAS would add in an order that depends on its threads.
            return np.array([[np.einsum("i,i->", self.deviations, other.deviations)]])
        if self.codes is None:
            return other.products_with(self).T
        if other.codes is None:
            sums = np.bincount(self.codes, other.deviations, len(self.mean))
            return np.asarray(sums.reshape(-1, 1), dtype=np.float64)
        width = len(other.mean)
        together = np.bincount(self.codes * width + other.codes, minlength=len(self.mean) * width)
        return np.asarray(together.reshape(-1, width) - self.n * np.outer(self.mean, other.mean))
