"""What a measure of disclosure risk is, and what it looks at: records as they are beside what is published of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints, UInt64s
from microagg_core.group.metrics.statistics import significant
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.group_values import GroupValues
from microagg_core.inspect.risk.candidates import Sought


class Addable(Protocol):
    """Notes of a piece; those of two pieces add up to those of both."""

    def __add__(self: N, other: N) -> N:
        """Notes of both."""


N = TypeVar("N", bound=Addable)


@dataclass(frozen=True)
class ConfidentialValues:
    """A confidential column of some rows: equal codes are equal values, and 0 is none.

    Where the distribution over the whole release is there, codes are places in it; else it has too many values.
    """

    name: str
    codes: Ints
    distribution: Distribution | None


@dataclass(frozen=True)
class ValuesShown:
    """What combinations show of a confidential column."""

    #: How many distinct values each has.
    distinct: Ints
    #: The largest distance of one from the whole release; None where the column has too many values.
    distance: float | None


@dataclass(frozen=True)
class AskedRecords:
    """The records of which linkage and intervals are asked: their rows, and what the input has of them."""

    rows: Ints
    #: Private record numbers.
    records: Ints
    #: The input's quasi-identifiers on the scale of distances (asked x p); 0 where missing.
    values: Floats
    #: How wide a rank interval around each released value would have to be, as :mod:`.intervals` has it.
    widths: Floats


@dataclass(frozen=True)
class Exposure:
    """The rows of a piece of a release, by released combination and label, and what is true of them."""

    #: Quasi-identifiers by name.
    names: tuple[str, ...]
    #: The released combination of each row: 0, 1, ...
    groups: Ints
    #: The released blocking values of each combination: 0, 1, ..., in the order of their first rows.
    labels: Ints
    #: What is released of the quasi-identifiers, combination by combination, on the scale of distances.
    means: Floats
    missing: Bools
    confidential: tuple[ConfidentialValues, ...]
    #: None where the input's quasi-identifiers are not at hand: survivors of a series keep what was released of them.
    asked: AskedRecords | None = None
    #: For each quasi-identifier, hashes of the input's values, row by row.
    originals: tuple[UInt64s, ...] | None = None
    seed: int = 0

    @cached_property
    def sizes(self) -> Ints:
        """Rows of each combination."""
        return np.bincount(self.groups)

    @cached_property
    def n_labels(self) -> int:
        """How many labels there are."""
        return int(self.labels.max(initial=-1)) + 1

    @cached_property
    def rows_of_labels(self) -> Ints:
        """Rows of each label."""
        return self.sum_by_label(self.sizes)

    @cached_property
    def values_shown(self) -> tuple[ValuesShown, ...]:
        """What combinations show of each confidential column."""
        return tuple(map(self._shown, self.confidential))

    def _shown(self, column: ConfidentialValues) -> ValuesShown:
        values, distance = GroupValues.of(column.codes, self.groups, self.sizes), None
        if column.distribution is not None and len(self.sizes):
            distance = float(column.distribution.distances_of(values).max())
        return ValuesShown(values.distinct, distance)

    @cached_property
    def sought(self) -> Sought:
        """The combinations that records which are asked may be taken for."""
        own = np.zeros(0, dtype=np.int64) if self.asked is None else self.groups[self.asked.rows]
        return Sought.of(self.means, self.missing, self.labels, self.sizes, own)

    def sum_by_label(self, of_groups: NDArray[Any]) -> NDArray[Any]:
        """Sums over the combinations of each label."""
        sums = np.bincount(self.labels, weights=of_groups, minlength=self.n_labels)
        return sums.astype(np.int64) if of_groups.dtype.kind in "iub" else sums


class RiskMeasure(ABC, Generic[N]):
    """One measure of disclosure risk, with notes of the class ``note``."""

    name: str
    note: type[N]

    @abstractmethod
    def of_piece(self, exposure: Exposure) -> N:
        """What to note of a piece."""

    @abstractmethod
    def of_release(self, total: N, names: tuple[str, ...]) -> dict[str, Any]:
        """What the notes of all pieces come to; ``names`` are the quasi-identifiers."""

    def of_labels(self, exposure: Exposure) -> Mapping[str, NDArray[Any]]:
        """What to note of each label: columns of the audit's lines."""
        return {}


def share(part: float, whole: float) -> float | None:
    """A share as it is told; None of nothing.

    >>> share(1, 3), share(0, 0)
    (0.333333, None)
    """
    return significant(part / whole) if whole else None
