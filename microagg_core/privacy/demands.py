"""What may be demanded of every group besides k: distinct values of a column, and shares near those of the whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Bools, Ints
from microagg_core.privacy.distributions import Distribution
from microagg_core.privacy.risk.inference import distinct_values

#: A distance counts as at most t if it is above by no more than its rounding can be.
SLACK = 1e-12


@dataclass(frozen=True)
class Demand:
    """What is demanded of a confidential column in every group; ``closeness`` is the t of t-closeness."""

    column: str
    distinct: int = 1
    closeness: float | None = None

    def broken(self, codes: Ints, labels: Ints, whole: Distribution | None) -> Bools:
        """Which groups do not hold it.

        Args:
            codes: of the records' values; equal values have equal codes, and where closeness is demanded they are the
                places among the values of the whole.
            labels: the records' groups, 0 to g-1, none of them empty.
            whole: how the column is distributed, where closeness is demanded.

        >>> Demand("diagnosis", distinct=2).broken(np.array([7, 7, 7, 8]), np.array([0, 0, 1, 1]), None).tolist()
        [True, False]
        """
        broken = distinct_values(codes, labels) < self.distinct
        if self.closeness is not None and whole is not None:
            broken |= whole.distances(codes, labels) > self.closeness + SLACK
        return np.asarray(broken)
