"""Quasi-identifiers of a whole table in memory: Arrow columns to numbers, and groups' means as columns again."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats, Ints
from microagg_core.data.kinds.contract import Kind, Ticks
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.kinds.registry import unrounded_kind
from microagg_core.errors import DataError
from microagg_core.group.bounds import Certificate
from microagg_core.group.metrics.means import Groups


def finite_ticks(name: Hashable, array: pa.Array) -> tuple[Kind, Ticks, Ints]:
    """The kind of a column, its ticks, and the places of missing values, whose ticks are 0.

    Raises:
        DataError: a column that has no mean, or holds infinite values.
    """
    kind = unrounded_kind(name, array.type)
    values, missing = kind.ticks(array)
    if not kind.finite(values).all():
        raise DataError(f"quasi-identifier {name!r} has infinite values; remove or replace them first")
    return kind, values, np.flatnonzero(missing)


@dataclass(frozen=True)
class QuasiIdentifiers:
    """The quasi-identifiers of a table: exact ticks of each, and how they become numbers and values again."""

    names: tuple[Hashable, ...]
    ticks: tuple[Ticks, ...]
    encoding: Encoding

    @classmethod
    def of(cls, columns: Mapping[Hashable, pa.Array]) -> QuasiIdentifiers:
        """Read columns, by name.

        Raises:
            DataError: a column that has no mean, or holds missing or infinite values.
        """
        kinds, ticks = [], []
        for name, array in columns.items():
            kind, values, missing = finite_ticks(name, array)
            if len(missing):
                raise DataError(
                    f"quasi-identifier {name!r} has missing values; remove or replace them first, or mask the table "
                    'with missing="separate"'
                )
            kinds.append(kind)
            ticks.append(values)
        moments = tuple(kind.moments(values) for kind, values in zip(kinds, ticks, strict=True))
        return cls(tuple(columns), tuple(ticks), Encoding.from_moments(tuple(kinds), moments))

    def standardized(self) -> Floats:
        """An (n, p) array on the scale on which groups are made: columns of mean 0 and variance 1, to 24 bits."""
        return self.encoding.steadied().standardize(self.encoding.offsets_of(self.ticks))

    def measured(self) -> Floats:
        """The same on the scale of losses: columns of mean 0 and population variance 1; a constant one at 0."""
        return self.encoding.standardize(self.encoding.offsets_of(self.ticks))

    def certified(self, certificate: Certificate) -> Certificate:
        """A certificate about :meth:`standardized` as one about :meth:`measured`; the bound claims no more."""
        stretch = self.encoding.steadied().least_stretch(self.encoding)
        return replace(certificate, bound=certificate.bound * min(stretch, 1.0))

    def as_given(self) -> Floats:
        """The values as an (n, p) array of floats; dates in days, timestamps in their unit, from about 0."""
        columns = zip(self.encoding.kinds, self.ticks, self.encoding.origins, strict=True)
        return np.stack([kind.plain_numbers(ticks, origin) for kind, ticks, origin in columns], axis=1)

    def means(self, labels: Ints) -> dict[Hashable, pa.Array]:
        """For each record, its group's mean of each quasi-identifier.

        The labels are one a record, or an (n, p) array of one a record and quasi-identifier.
        """
        groups = Groups.of(labels) if labels.ndim == 1 else None
        columns = {}
        for j, (name, kind) in enumerate(zip(self.names, self.encoding.kinds, strict=True)):
            own = labels if labels.ndim == 1 else labels[:, j]
            representatives = kind.representatives(self.ticks[j], groups or Groups.of(own))
            columns[name] = kind.to_arrow(representatives[own])
        return columns
