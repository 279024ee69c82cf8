"""Tables of the libraries that people keep them in: read as Arrow columns, and given back as what came in.

pandas and NumPy are here anyway. Everybody else's frames come through Arrow's PyCapsule interface, which Polars, DuckDB
and others speak and pyarrow reads: none of them has to be installed, and none is imported.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from microagg_core.arrays import Ints
from microagg_core.data.kinds.registry import kind_for
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.types import plain, plain_type
from microagg_core.errors import DataError, SpecError

#: Columns in the place of those of the same names.
NewColumns = Mapping[Hashable, pa.Array]


class Table(Protocol):
    """A table whose columns can be read one by one, and exchanged."""

    @property
    def names(self) -> list[Hashable]: ...

    def __len__(self) -> int: ...

    def column(self, name: Hashable) -> pa.Array:
        """Read a column, null where a value is missing."""

    def exchanged(self, columns: NewColumns, rows: Ints | None, masked: Collection[Hashable]) -> Any:
        """Copy the table, of these rows alone where some are given, with other columns, which have just these.

        The ``masked`` ones keep the type that they had, unless they are floats now.
        """


class PandasTable:
    """A frame of pandas: its index, the order of its columns and the types of all that is not exchanged stay."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    @property
    def names(self) -> list[Hashable]:
        return list(self._frame.columns)

    def __len__(self) -> int:
        return len(self._frame)

    def column(self, name: Hashable) -> pa.Array:
        """Read a column; the message of Arrow's own errors would show values."""
        series = self._frame[name]
        try:
            array = pa.Array.from_pandas(series)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            raise unreadable(name) from None
        return one_array(array)

    def is_of_objects(self, name: Hashable) -> bool:
        return bool(self._frame[name].dtype == object)

    def exchanged(self, columns: NewColumns, rows: Ints | None, masked: Collection[Hashable]) -> Any:
        """Copy the frame with other columns: means as float64, what has a type of its own in the type that it had."""
        data = self._frame.copy() if rows is None else self._frame.iloc[rows].copy()
        for name, array in columns.items():
            series = array.to_pandas()
            is_kept = pa.types.is_temporal(array.type) or (name in masked and not pa.types.is_floating(array.type))
            data[name] = series.astype(self._frame[name].dtype).array if is_kept else series.array
        return data


class ArrowTable:
    """A table of Arrow: the other columns and what its schema says stay."""

    def __init__(self, table: pa.Table, back: Callable[[pa.Table], Any] = lambda table: table) -> None:
        self._table, self._back = table, back

    @property
    def names(self) -> list[Hashable]:
        return list(self._table.column_names)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def column(self, name: Hashable) -> pa.Array:
        """Read a column, whose chunks may have dictionaries of their own."""
        return one_array(self._table[name].unify_dictionaries())

    def exchanged(self, columns: NewColumns, rows: Ints | None, masked: Collection[Hashable]) -> Any:
        table = self._table if rows is None else self._table.take(pa.array(rows))
        for name, array in columns.items():
            place = table.column_names.index(name)
            if name in masked:
                array = _in_type_of(array, self.column(name))
            field = pa.field(name, array.type, metadata=table.schema.field(place).metadata)
            table = table.set_column(place, field, array)
        return self._back(table)


class PolarsTable:
    """A frame of Polars, which whoever has one has imported: columns that are not exchanged never leave it."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @property
    def names(self) -> list[Hashable]:
        return list(self._frame.columns)

    def __len__(self) -> int:
        return int(self._frame.height)

    def column(self, name: Hashable) -> pa.Array:
        """Read a column; objects of Python are bytes to Arrow."""
        # Texts as all of pyarrow's functions know them, which those of today's Polars' own form do not.
        oldest = sys.modules["polars"].CompatLevel.oldest()
        return one_array(self._frame.select(name).to_arrow(compat_level=oldest)[name].unify_dictionaries())

    def exchanged(self, columns: NewColumns, rows: Ints | None, masked: Collection[Hashable]) -> Any:
        polars = sys.modules["polars"]
        frame = self._frame if rows is None else self._frame[rows]
        series = {name: polars.Series(name, array) for name, array in columns.items()}
        kept = {name for name, array in columns.items() if name in masked and not pa.types.is_floating(array.type)}
        return frame.with_columns(*(s.cast(frame.schema[n]) if n in kept else s for n, s in series.items()))


class ArrayTable:
    """A matrix of numbers; its columns are named by their numbers."""

    def __init__(self, matrix: NDArray[Any]) -> None:
        # Names of columns are numbers here, which the types of NumPy's indices do not see.
        self._matrix: Any = matrix

    @property
    def names(self) -> list[Hashable]:
        return list(range(self._matrix.shape[1]))

    def __len__(self) -> int:
        return len(self._matrix)

    def column(self, name: Hashable) -> pa.Array:
        return pa.array(np.ascontiguousarray(self._matrix[:, name]))

    def exchanged(self, columns: NewColumns, rows: Ints | None, masked: Collection[Hashable]) -> Any:
        """Copy the matrix as float64, with other columns."""
        data = self._matrix if rows is None else self._matrix[rows]
        result: Any = data.astype(np.float64)
        for j in set(self.names) - set(columns):
            if data.dtype.kind in "iu" and (np.abs(result[:, j]) > 2.0**53).any():
                raise DataError(
                    f"column {j} of the array holds whole numbers beyond 2**53, which means would have to be kept "
                    "beside as rounded; mask a table whose columns have types of their own"
                )
        for name, array in columns.items():
            result[:, name] = array.to_numpy(zero_copy_only=False)
        return result


class FieldsTable(PandasTable):
    """A dictionary of columns, or a structured array: it comes back as the same with arrays in it."""

    def __init__(self, data: Any) -> None:
        self._is_array = isinstance(data, np.ndarray)
        names = data.dtype.names if self._is_array else data
        try:
            super().__init__(pd.DataFrame({name: data[name] for name in names}))
        except ValueError:
            raise SpecError("the table: must have columns of one length, one value a record") from None

    def exchanged(self, columns: NewColumns, rows: Ints | None, masked: Collection[Hashable]) -> Any:
        frame = super().exchanged(columns, rows, masked)
        if self._is_array:
            return frame.to_records(index=False).view(np.ndarray)
        return {name: frame[name].to_numpy() for name in frame.columns}


def any_table(data: Any) -> Table:
    """Wrap a table of whatever library.

    >>> any_table({"age": [40, 50]}).names, len(any_table(np.zeros((3, 2))))
    (['age'], 3)
    """
    if isinstance(data, pd.DataFrame):
        return PandasTable(data)
    if isinstance(data, np.ndarray):
        return _array_table(data)
    if isinstance(data, pa.Table):
        return ArrowTable(data)
    if isinstance(data, pa.RecordBatch):
        return ArrowTable(pa.Table.from_batches([data]), _one_batch)
    if isinstance(data, Mapping):
        return FieldsTable(data)
    module = type(data).__module__.partition(".")[0]
    if module == "polars" and hasattr(data, "collect_schema") and hasattr(data, "with_columns"):
        return _polars_table(data)
    if hasattr(data, "__arrow_c_stream__"):
        return ArrowTable(_from_capsule(data))
    raise SpecError(
        "the table: must be a frame of pandas or Polars, a table of Arrow or whatever gives one, an array of two "
        f"dimensions, or a dictionary of columns (got {type(data).__name__})"
    )


def _array_table(data: NDArray[Any]) -> Table:
    if data.dtype.names and data.ndim == 1:
        return FieldsTable(data)
    if data.ndim != 2:
        raise SpecError(f"the table: must have two dimensions, records and attributes (got {data.ndim})")
    if data.dtype.kind not in "biuf":
        raise SpecError(f"the table: must hold numbers (got an array of type {data.dtype})")
    return ArrayTable(data)


def _polars_table(data: Any) -> Table:
    if hasattr(data, "collect"):
        raise SpecError("the table: is lazy and has no records yet; give what its collect() gives")
    return PolarsTable(data)


def _from_capsule(data: Any) -> pa.Table:
    try:
        return pa.table(data)
    except (pa.ArrowException, ValueError, TypeError):
        raise SpecError(f"the table: what {type(data).__name__} gives to Arrow has no columns; give a table") from None


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    return batch


def chosen_columns(
    table: Table, argument: str, names: Sequence[Hashable] | None, may_be_none: bool = False
) -> list[Hashable]:
    """Check the names of columns; all of a matrix, where none is named.

    >>> chosen_columns(any_table(np.zeros((3, 2))), "quasi_identifiers", None)
    [0, 1]
    """
    if names is None and isinstance(table, ArrayTable):
        return table.names
    if names is None or isinstance(names, str) or not (len(names) or may_be_none):
        raise SpecError(f"{argument}: must be a list of at least one column name")
    in_table: Counter[Hashable] = Counter(table.names)
    for name, times in Counter(names).items():
        if name not in in_table:
            raise SpecError(f"{argument}: the table has no column {name!r}")
        if times > 1:
            raise SpecError(f"{argument}: column {name!r} is named {times} times; name it once")
        if in_table[name] > 1:
            raise SpecError(f"{argument}: the table has {in_table[name]} columns {name!r}; rename them")
    return list(names)


def quasi_identifier(table: Table, name: Hashable) -> pa.Array:
    """Read a column that is to be masked."""
    array = table.column(name)
    kind = kind_for(plain_type(array.type))
    if isinstance(table, PandasTable) and table.is_of_objects(name) and (kind is None or not kind.may_be_objects):
        raise DataError(
            f"quasi-identifier {name!r} is a column of Python objects that are no text, dates or decimals; convert it "
            "to one type, name it in blocking, or drop it"
        )
    return array


def unreadable(name: Hashable) -> DataError:
    return DataError(f"column {name!r} cannot be read as numbers, dates, timestamps or text alone; convert it first")


def _in_type_of(array: pa.Array, original: pa.Array) -> pa.Array:
    """Give what is no float the type of the column in whose place it comes: of a dictionary, with all its values."""
    kind = original.type
    if pa.types.is_floating(array.type) or not pa.types.is_dictionary(kind):
        return array if pa.types.is_floating(array.type) else array.cast(kind)
    codes = pc.index_in(array, value_set=plain(original.dictionary)).cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(codes, original.dictionary, ordered=kind.ordered)
