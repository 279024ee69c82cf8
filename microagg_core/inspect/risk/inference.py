"""Inference: what follows of a confidential value for somebody who knows a record's released combination.

Where all records of a combination have one value, it follows with certainty; where they have few, nearly. A missing
value is none: of two records with a value and one without, somebody known to have one is certain of it, and so is who
finds none at all. Beside that stands what chance alone would give, had groups of the same sizes been drawn from all
records: a value that nearly everybody has is shared by most groups, and tells nobody anything new. The distance is that
of t-closeness, between a group's values and those of the whole release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Floats, Ints
from microagg_core.group.metrics.statistics import significant
from microagg_core.inspect.contract import RiskMeasure, share
from microagg_core.inspect.exposure import Cells, ConfidentialValues, Exposure, ValuesShown
from microagg_core.plain import PlainInts

#: Distinct values of a group up to which groups are told apart.
FEW_VALUES = 10
#: A chance below this is none.
_NEGLIGIBLE = 1e-15


@dataclass(frozen=True)
class ColumnInference:
    """Combinations and records by their number of distinct values (0, 1, ...) in a confidential column."""

    name: str
    groups: PlainInts
    records: PlainInts
    #: Records in groups of one value, or none, as chance would have it.
    chance: float
    #: The share of records that have the commonest value, of those that have any.
    commonest: float
    #: The largest distance of a group; None where the column has too many values.
    distance: float | None

    def __add__(self, other: ColumnInference) -> ColumnInference:
        distances = [column.distance for column in (self, other) if column.distance is not None]
        return ColumnInference(
            self.name,
            self.groups + other.groups,
            self.records + other.records,
            self.chance + other.chance,
            max(self.commonest, other.commonest),
            max(distances, default=None),
        )


def chance_of_one_value(counts: Ints, sizes: Ints) -> Floats:
    """Compute the chance that records drawn at random, without putting back, have one value at most.

    ``counts`` are the records without a value, and of each value; ``sizes``, ascending, how many are drawn.

    >>> chance_of_one_value(np.array([0, 3, 1]), np.array([1, 2, 3, 4])).tolist()
    [1.0, 0.5, 0.25, 0.0]
    >>> chance_of_one_value(np.array([1, 1, 2]), np.array([2, 3, 4])).round(6).tolist()
    [0.666667, 0.25, 0.0]
    """
    # All are of one value or none; draws of none alone were counted with every value, and count once. Values of which
    # there are equally many are as likely.
    left, times = np.unique(counts[1:] + counts[0], return_counts=True)
    left, times = np.append(left, counts[0]).astype(np.float64), np.append(times, 1 - times.sum())
    total, chances, likely, drawn = float(counts.sum()), np.zeros(len(sizes)), np.ones(len(left)), 0
    for i, size in enumerate(sizes.tolist()):
        while drawn < size and len(left):
            likely = likely * np.maximum(left - drawn, 0.0) / (total - drawn)
            still = likely > _NEGLIGIBLE
            left, times, likely, drawn = left[still], times[still], likely[still], drawn + 1
        chances[i] = likely @ times
    return chances


class Inference(RiskMeasure[tuple[ColumnInference, ...]]):
    """Count groups that give values away, column by column."""

    name = "inference"
    notes = tuple[ColumnInference, ...]

    def measure(self, exposure: Exposure) -> tuple[ColumnInference, ...]:
        shown = exposure.shown
        return tuple(_of_column(column, shown[column.name], exposure.cells) for column in exposure.confidential)

    def figures(self, total: tuple[ColumnInference, ...], names: tuple[str, ...]) -> dict[str, Any]:
        return {column.name: _figures(column) for column in total}

    def of_labels(self, exposure: Exposure) -> Mapping[str, NDArray[Any]]:
        """Records of which the value is certain; columns by their number in the file."""
        certain, cells = (shown.distinct <= 1 for shown in exposure.shown.values()), exposure.cells
        rows = (np.bincount(cells.groups, cells.rows * of, len(exposure.sizes)) for of in certain)
        return {f"certain_{j}": exposure.sum_by_label(of.astype(np.int64)) for j, of in enumerate(rows)}


def _of_column(column: ConfidentialValues, shown: ValuesShown, cells: Cells) -> ColumnInference:
    distribution, distinct = column.distribution, np.minimum(shown.distinct, FEW_VALUES + 1)
    groups, records = (np.bincount(distinct, of, FEW_VALUES + 2).astype(np.int64) for of in (None, cells.rows))
    counts = np.bincount(column.codes, minlength=1) if distribution is None else distribution.counts
    different, n_groups = np.unique(cells.rows, return_counts=True)
    chance = float(np.sum(chance_of_one_value(counts, different) * different * n_groups))
    commonest = int(counts[1:].max(initial=0)) / max(int(counts[1:].sum()), 1)
    return ColumnInference(column.name, groups, records, chance, commonest, shown.distance)


def _figures(column: ColumnInference) -> dict[str, Any]:
    n_groups, n_records = int(column.groups.sum()), int(column.records.sum())
    fewer = {
        str(least): {
            "groups": share(int(column.groups[:least].sum()), n_groups),
            "records": share(int(column.records[:least].sum()), n_records),
        }
        for least in range(2, FEW_VALUES + 1)
    }
    return {
        "records_certain": share(int(column.records[:2].sum()), n_records),
        "groups_certain": share(int(column.groups[:2].sum()), n_groups),
        "by_chance": share(column.chance, n_records),
        "commonest_value": significant(column.commonest),
        "largest_distance": None if column.distance is None else significant(column.distance),
        "fewer_than": fewer,
    }
