"""A file that lists units: a header that names the unit's columns, and a line for each unit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from microagg_core.errors import DataError, SpecError

_PARQUET_MAGIC = b"PAR1"


def read_unit_list(path: str, names: Sequence[str]) -> pa.Table:
    """The units of a CSV or Parquet file; of CSV all values are text, so that 012 stays what it is.

    Raises:
        SpecError: there is no such file, or it lacks a column of the unit.
        DataError: it cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            is_parquet = file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
        table = pa.parquet.read_table(path) if is_parquet else _read_csv(path, names)
    except OSError as error:
        raise SpecError(f"--units: {path} cannot be read ({error.strerror or 'an error'}); name a file") from None
    except pa.ArrowException:  # the library's message may quote a unit
        raise DataError(
            f"--units: {path} is no CSV or Parquet file; write the units below the names of its columns"
        ) from None
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise SpecError(f"--units: {path} has no column {missing[0]!r}; its columns must be those of unit in the spec")
    return table.select(list(names))


def _read_csv(path: str, names: Sequence[str]) -> pa.Table:
    types = dict.fromkeys(names, pa.large_string())
    options = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=True, null_values=[""])
    return pa.csv.read_csv(path, convert_options=options)
