"""Sizes: how many released combinations have how many records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microagg_core.inspect.contract import RiskMeasure
from microagg_core.inspect.exposure import Exposure
from microagg_core.plain import PlainInts


@dataclass(frozen=True)
class SizeCounts:
    """Number of combinations of each size; sizes ascend."""

    sizes: PlainInts
    groups: PlainInts

    def __add__(self, other: SizeCounts) -> SizeCounts:
        sizes, places = np.unique(np.concatenate([self.sizes, other.sizes]), return_inverse=True)
        groups = np.bincount(places, np.concatenate([self.groups, other.groups]), len(sizes))
        return SizeCounts(sizes, groups.astype(np.int64))


class Sizes(RiskMeasure[SizeCounts]):
    name = "sizes"
    notes = SizeCounts

    def measure(self, exposure: Exposure) -> SizeCounts:
        return SizeCounts(*np.unique(exposure.sizes, return_counts=True))

    def figures(self, total: SizeCounts, names: tuple[str, ...]) -> dict[str, Any]:
        histogram = {str(size): n for size, n in zip(total.sizes.tolist(), total.groups.tolist(), strict=True)}
        ends = {"smallest": int(total.sizes[0]), "largest": int(total.sizes[-1])} if histogram else {}
        return {"groups": int(total.groups.sum()), **ends, "histogram": histogram}

    def of_labels(self, exposure: Exposure) -> Mapping[str, NDArray[Any]]:
        """Rows and combinations of each label, and its smallest combination."""
        least = np.full(exposure.n_labels, np.iinfo(np.int64).max)
        np.minimum.at(least, exposure.labels, exposure.sizes)
        groups = np.bincount(exposure.labels, minlength=exposure.n_labels)
        return {"records": exposure.rows_of_labels, "groups": groups, "smallest_group": least}
