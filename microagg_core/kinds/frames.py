"""Quasi-identifiers of a pandas table: to numbers, and back into a masked copy of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats, Ints
from microagg_core.errors import DataError, SpecError
from microagg_core.kinds.contract import Ticks
from microagg_core.kinds.encoding import Encoding
from microagg_core.kinds.registry import kind_for, unrounded_kind
from microagg_core.metrics.certificate import Certificate
from microagg_core.metrics.means import Groups

if TYPE_CHECKING:
    import pandas as pd


def _arrow_column(name: Hashable, series: pd.Series[Any]) -> pa.Array:
    """A column as Arrow has it; the message of Arrow's own errors would show values."""
    try:
        array = pa.Array.from_pandas(series)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        raise DataError(
            f"quasi-identifier {name!r} cannot be read as numbers, dates or timestamps of one type; convert it first"
        ) from None
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = kind_for(array.type)
    if series.dtype == object and (kind is None or not kind.may_be_objects):
        raise DataError(
            f"quasi-identifier {name!r} is a column of text or Python objects, which has no mean; convert it to "
            "numbers, dates or timestamps, or leave it out"
        )
    return array


def _check_names(df: pd.DataFrame, names: Sequence[Hashable]) -> None:
    if isinstance(names, str) or not names:
        raise SpecError("quasi_identifiers: must be a list of at least one column name")
    in_table: Counter[Hashable] = Counter(df.columns)
    for name, times in Counter(names).items():
        if name not in in_table:
            raise SpecError(f"quasi_identifiers: the table has no column {name!r}")
        if times > 1:
            raise SpecError(f"quasi_identifiers: column {name!r} is named {times} times; name it once")
        if in_table[name] > 1:
            raise SpecError(f"quasi_identifiers: the table has {in_table[name]} columns {name!r}; rename them")


@dataclass(frozen=True)
class QuasiIdentifiers:
    """The quasi-identifiers of a table: exact ticks of each, and how they become numbers and values again."""

    names: tuple[Hashable, ...]
    ticks: tuple[Ticks, ...]
    encoding: Encoding

    @classmethod
    def of(cls, df: pd.DataFrame, names: Sequence[Hashable]) -> QuasiIdentifiers:
        """Read the named columns of a table.

        Raises:
            SpecError: a name that is unknown, repeated, or shared by several columns.
            DataError: a column that has no mean, or holds missing or infinite values.
        """
        _check_names(df, names)
        kinds, ticks = [], []
        for name in names:
            array = _arrow_column(name, df[name])
            kind = unrounded_kind(name, array.type)
            values, missing = kind.ticks(array)
            if missing.any():
                raise DataError(f"quasi-identifier {name!r} has missing values; remove or replace them first")
            if not kind.finite(values).all():
                raise DataError(f"quasi-identifier {name!r} has infinite values; remove or replace them first")
            kinds.append(kind)
            ticks.append(values)
        moments = tuple(kind.moments(values) for kind, values in zip(kinds, ticks, strict=True))
        return cls(tuple(names), tuple(ticks), Encoding.from_moments(tuple(kinds), moments))

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

    def masked(self, df: pd.DataFrame, labels: Ints) -> pd.DataFrame:
        """A copy of the table in which each quasi-identifier is its group's mean.

        The labels are one a record, or an (n, p) array of one a record and quasi-identifier.
        """
        data = df.copy()
        groups = Groups.of(labels) if labels.ndim == 1 else None
        for j, (name, kind) in enumerate(zip(self.names, self.encoding.kinds, strict=True)):
            own = labels if labels.ndim == 1 else labels[:, j]
            representatives = kind.representatives(self.ticks[j], groups or Groups.of(own))
            column = kind.to_arrow(representatives[own]).to_pandas()
            data[name] = column.to_numpy() if kind.has_float_means else column.astype(df[name].dtype).array
        return data
