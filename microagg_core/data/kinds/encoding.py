"""The whole file's standardization: columns to points of the metric in which groups are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Floats
from microagg_core.data.kinds.contract import Kind, Ticks
from microagg_core.group.metrics.moments import Moments, Origin, middle, standardized, steadied


@dataclass(frozen=True)
class Encoding:
    """The whole file's standardization: per quasi-identifier its kind, origin, mean and deviation."""

    kinds: tuple[Kind, ...]
    origins: tuple[Origin, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]

    @classmethod
    def from_moments(cls, kinds: tuple[Kind, ...], moments: tuple[Moments, ...]) -> Encoding:
        """Standardize with these moments: mean 0, population variance 1; a constant attribute becomes 0."""
        origins = tuple(middle(m.least, m.greatest) for m in moments)
        means = tuple(m.mean_from(origin) for m, origin in zip(moments, origins, strict=True))
        return cls(kinds, origins, means, tuple(m.deviation for m in moments))

    @classmethod
    def steady(cls, kinds: tuple[Kind, ...], moments: tuple[Moments, ...]) -> Encoding:
        """The same to 24 bits, for moments that were merged from parts.

        >>> from microagg_core.data.kinds.floats import FloatKind
        >>> kind = FloatKind("x", pa.float64())
        >>> Encoding.steady((kind,), (Moments(10, 2.0, 0.1, 10.0, 0, 0.0, 4.0),)).deviations
        (1.0,)
        """
        return cls.from_moments(kinds, moments).steadied()

    def steadied(self) -> Encoding:
        """Means and deviations to 24 bits: the scale on which groups are made."""
        pairs = [steadied(*of) for of in zip(self.origins, self.means, self.deviations, strict=True)]
        return replace(self, means=tuple(m for m, _ in pairs), deviations=tuple(d for _, d in pairs))

    def least_stretch(self, other: Encoding) -> float:
        """At least so many times a squared distance on this scale is that on another of the same attributes.

        >>> from microagg_core.data.kinds.floats import FloatKind
        >>> kind = FloatKind("x", pa.float64())
        >>> Encoding((kind,), (0.0,), (0.0,), (2.0,)).least_stretch(Encoding((kind,), (0.0,), (0.0,), (4.0,)))
        0.2499999999999991
        """
        pairs = zip(self.deviations, other.deviations, strict=True)
        return min(((mine / its) ** 2 for mine, its in pairs if its > 0), default=1.0) * (1.0 - 2.0**-48)

    def ticks(self, columns: list[pa.ChunkedArray | pa.Array]) -> tuple[list[Ticks], Bools]:
        """Exact ticks of each quasi-identifier, and which values are missing (n x p)."""
        ticks = []
        missing = np.zeros((len(columns[0]), len(self.kinds)), dtype=np.bool_)
        for j, kind in enumerate(self.kinds):
            values, missing[:, j] = kind.ticks(columns[j])
            ticks.append(values)
        return ticks, missing

    def offsets_of(self, ticks: Sequence[Ticks]) -> Floats:
        """Ticks as offsets from the origins (n x p)."""
        offsets = np.empty((len(ticks[0]), len(self.kinds)))
        for j, (kind, values, origin) in enumerate(zip(self.kinds, ticks, self.origins, strict=True)):
            offsets[:, j] = kind.offsets(values, origin)
        return offsets

    def standardize(self, offsets: Floats, missing: Bools | None = None) -> Floats:
        """Offsets to standardized values; missing values become 0 and take no part in anything."""
        z = standardized(offsets, np.array(self.means), np.array(self.deviations))
        if missing is not None and missing.any():
            z[missing] = 0.0
        return z
