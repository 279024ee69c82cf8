"""Records as points of the metric in which groups are made: numbers, and codes of categories that agree or do not.

One column an attribute, in the attributes' order. A number counts by its squared difference. A code counts by its
*cost*: two records whose codes differ are so much farther apart, squared, whatever the codes. That is the distance of
the corners of a regular simplex, so that all that holds of squared Euclidean distances holds of these: the sum of
squares of a group is that over its pairs divided by its size, and bounds on it stay bounds.
"""

from __future__ import annotations

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

    def numbers(self) -> Floats:
        """The same distances between numbers: the records themselves, where they are no codes."""
        return self.X if self.are_numbers else self.dense()

    def rows(self, records: Ints | slice | Bools) -> Points:
        return replace(self, X=self.X[records])

    def columns(self, which: Ints | Bools) -> Points:
        return Points(np.ascontiguousarray(self.X[:, which]), self.costs[which])

    def dense(self) -> Floats:
        """The same distances between numbers alone: a column a category, so for few of them, and as the slow twin.

        >>> ((Points(np.array([[0.0], [1.0], [2.0]]), np.array([3.0])).dense()[0] - [0.0, 1.224744871, 0.0]) ** 2).sum()
        2.9999999994
        """
        columns = [
            (self.X[:, [j]] == np.arange(self.X[:, j].max() + 1)) * np.sqrt(cost / 2) if cost > 0 else self.X[:, [j]]
            for j, cost in enumerate(self.costs)
        ]
        return np.hstack(columns)


AnyPoints: TypeAlias = Floats | Points
