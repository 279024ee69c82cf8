"""Quasi-identifiers of a pandas table: to numbers, and back into a masked copy of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.errors import DataError, SpecError
from microagg_core.kinds.encoding import Encoding, QuasiType, quasi_type
from microagg_core.metrics.certificate import Certificate
from microagg_core.metrics.means import Groups
from microagg_core.metrics.moments import moments_of, offsets_from

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    kind = array.type
    if series.dtype == object and not (pa.types.is_date(kind) or pa.types.is_decimal(kind)):
        raise DataError(
            f"quasi-identifier {name!r} is a column of text or Python objects, which has no mean; convert it to "
            "numbers, dates or timestamps, or leave it out"
        )
    # The mean of a truth value is the share of true ones, a number.
    return array.cast(pa.int8()) if pa.types.is_boolean(kind) else array


def _type_of(name: Hashable, kind: pa.DataType) -> QuasiType:
    is_temporal = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    return quasi_type(str(name), kind, "type" if is_temporal else "none")


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
    ticks: tuple[NDArray[Any], ...]
    encoding: Encoding

    @classmethod
    def of(cls, df: pd.DataFrame, names: Sequence[Hashable]) -> QuasiIdentifiers:
        """Read the named columns of a table.

        Raises:
            SpecError: a name that is unknown, repeated, or shared by several columns.
            DataError: a column that has no mean, or holds missing or infinite values.
        """
        _check_names(df, names)
        types, ticks = [], []
        for name in names:
            array = _arrow_column(name, df[name])
            types.append(_type_of(name, array.type))
            values, missing = types[-1].ticks(array)
            if missing.any():
                raise DataError(f"quasi-identifier {name!r} has missing values; remove or replace them first")
            if types[-1].kind == "float" and not np.isfinite(values).all():
                raise DataError(f"quasi-identifier {name!r} has infinite values; remove or replace them first")
            ticks.append(values)
        encoding = Encoding.from_moments(tuple(types), tuple(map(moments_of, ticks)))
        return cls(tuple(names), tuple(ticks), encoding)

    def _offsets(self) -> Floats:
        origins = self.encoding.origins
        return np.stack([offsets_from(t, o) for t, o in zip(self.ticks, origins, strict=True)], axis=1)

    def standardized(self) -> Floats:
        """An (n, p) array on the scale on which groups are made: columns of mean 0 and variance 1, to 24 bits."""
        return self.encoding.steadied().standardize(self._offsets())

    def measured(self) -> Floats:
        """The same on the scale of losses: columns of mean 0 and population variance 1; a constant one at 0."""
        return self.encoding.standardize(self._offsets())

    def certified(self, certificate: Certificate) -> Certificate:
        """A certificate about :meth:`standardized` as one about :meth:`measured`; the bound claims no more."""
        stretch = self.encoding.steadied().least_stretch(self.encoding)
        return replace(certificate, bound=certificate.bound * min(stretch, 1.0))

    def as_given(self) -> Floats:
        """The values as an (n, p) array of floats; dates in days, timestamps in their unit, from about 0."""
        columns = []
        for kind, ticks, offsets in zip(self.encoding.types, self.ticks, self._offsets().T, strict=True):
            is_number = kind.released_type == pa.float64()
            columns.append(ticks.astype(np.float64) / 10.0**kind.scale if is_number else offsets)
        return np.stack(columns, axis=1)

    def masked(self, df: pd.DataFrame, labels: Ints) -> pd.DataFrame:
        """A copy of the table in which each quasi-identifier is its group's mean.

        The labels are one a record, or an (n, p) array of one a record and quasi-identifier.
        """
        data = df.copy()
        groups = Groups.of(labels) if labels.ndim == 1 else None
        for j, (name, kind) in enumerate(zip(self.names, self.encoding.types, strict=True)):
            own = labels if labels.ndim == 1 else labels[:, j]
            means = kind.means(self.ticks[j], groups or Groups.of(own))
            column = kind.to_arrow(means[own]).to_pandas()
            is_number = kind.released_type == pa.float64()
            data[name] = column.to_numpy() if is_number else column.astype(df[name].dtype).array
        return data
