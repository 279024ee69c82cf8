"""Records as points of the metric in which groups are made: numbers, and codes of categories that agree or do not.

One column an attribute, in the attributes' order. A number counts by its squared difference. A code counts by its
*cost*: two records whose codes differ are so much farther apart, squared, whatever the codes. That is the distance of
the corners of a regular simplex, so that all that holds of squared Euclidean distances holds of these: the sum of
squares of a group is that over its pairs divided by its size, and bounds on it stay bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Points:
    """The (n, p) records, and of each column the cost of a mismatch; 0: the column holds numbers.

    Codes are whole numbers from 0, the most frequent first, so that few stand for many records.
    """

    X: Floats
    costs: Floats

    @classmethod
    def of(cls, X: AnyPoints) -> Points:
        """Take numbers for what they are, and points as they come."""
        return X if isinstance(X, Points) else cls(X, np.zeros(X.shape[1]))

    def equals(self, other: Points) -> bool:
        return self is other or (np.array_equal(self.costs, other.costs) and np.array_equal(self.X, other.X))

    def __len__(self) -> int:
        return len(self.X)

    @property
    def shape(self) -> tuple[int, int]:
        n, p = self.X.shape
        return n, p

    @property
    def is_code(self) -> Bools:
        return self.costs > 0

    @property
    def are_numbers(self) -> bool:
        return not self.costs.any()

    @property
    def n_numbers(self) -> int:
        return int(np.count_nonzero(~self.is_code))

    def numbers_first(self) -> Points:
        """The same points with their codes last; where there are no numbers, zeros come first."""
        if self.are_numbers:
            return self
        order = np.argsort(self.is_code, kind="stable")
        X, costs = self.X[:, order], self.costs[order]
        return Points(X, costs) if self.n_numbers else Points(np.c_[np.zeros(len(X)), X], np.append(0.0, costs))

    def scaled(self, exponent: int) -> Points:
        """Multiply all distances by a power of two; exact."""
        X = np.where(self.is_code, self.X, np.ldexp(self.X, exponent))
        return Points(X, np.ldexp(self.costs, 2 * exponent))

    def rows(self, records: Ints | slice | Bools) -> Points:
        return replace(self, X=self.X[records])

    def columns(self, which: Ints | Bools) -> Points:
        return Points(np.ascontiguousarray(self.X[:, which]), self.costs[which])

    def squared_distances(self, left: Ints, right: Ints) -> Floats:
        """Compute the squared distances of pairs of records."""
        numbers, codes = ~self.is_code, self.is_code
        a, b = self.X[left], self.X[right]
        squares: Floats = ((a[:, numbers] - b[:, numbers]) ** 2).sum(axis=1)
        return squares + (a[:, codes] != b[:, codes]) @ self.costs[codes] if codes.any() else squares

    def dense(self) -> Floats:
        """The same distances between numbers alone: a column a category, so for few of them, and as the slow twin.

        >>> Points(np.array([[0.0], [1.0], [2.0]]), np.array([2.0])).dense().tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        """
        return self.X if self.are_numbers else self.nearly_dense(np.inf)

    def nearly_dense(self, most: float) -> Floats:
        """The same, but that a column of more than ``most`` categories becomes so many, in which distances are rough.

        They are right on average: each category has a sign in each column, drawn once and for all.
        """
        columns = [np.zeros((len(self), 0))]
        for values, cost in zip(self.X.T, self.costs, strict=True):
            if cost == 0:
                columns.append(values[:, None])
                continue
            codes = values.astype(np.int64)
            count = int(codes.max(initial=0)) + 1
            if count <= most:
                corners = np.eye(count) * math.sqrt(cost / 2)
            else:
                signs = np.random.Generator(np.random.PCG64(count)).choice([-1.0, 1.0], (count, int(most)))
                corners = signs * math.sqrt(cost / (2 * most))
            columns.append(corners[codes])
        return np.hstack(columns)


AnyPoints: TypeAlias = Floats | Points
