"""Released files: their bytes, their row order, and reading them back.

A file is written from a fresh schema, in an order that is a function of the released content alone, so that neither
input order nor grouping can be read from it. Parquet statistics are written for the blocking columns only: they serve
readers who filter, and say nothing that the values do not.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from microagg_core.errors import StorageError
from microagg_core.spec.release import CsvOutput
from microagg_core.tables.hashing import fixed_width_words, hash_rows, one_array

_FORMULA_START = r"^[=+\-@\t\r]"
EXTENSIONS = {"parquet": "parquet", "csv": "csv"}


def content_order(table: pa.Table, blocking: list[str], quasi_identifiers: list[str]) -> NDArray[np.int64]:
    """The order of the released rows: by blocking values, then quasi-identifiers, then a hash of the whole row.

    Rows that are equal in everything may come in any order: nobody can tell them apart.

    >>> t = pa.table({"b": ["y", "x", "x"], "q": [1, 3, 2]})
    >>> content_order(t, ["b"], ["q"]).tolist()
    [2, 1, 0]
    """
    keys: list[NDArray[Any]] = [hash_rows(table.columns, table.num_rows, seed=0)]
    keys += [_sortable(table[name]) for name in reversed(quasi_identifiers)]
    keys += [_ranks(table[name]) for name in reversed(blocking)]
    return np.lexsort(keys)


def _ranks(column: pa.ChunkedArray) -> NDArray[np.int64]:
    values = one_array(column)
    distinct = pc.unique(values)
    sortable = distinct.cast(pa.int8()) if pa.types.is_boolean(distinct.type) else distinct
    distinct = distinct.take(pc.sort_indices(sortable))
    return np.asarray(pc.index_in(values, value_set=distinct)).astype(np.int64)


def _sortable(column: pa.ChunkedArray) -> NDArray[Any]:
    """A number for each value in ascending order, missing ones last."""
    array = one_array(column)
    if pa.types.is_decimal(array.type):
        return _ranks(column)
    missing = np.asarray(pc.is_null(array))
    if pa.types.is_floating(array.type):
        values = np.asarray(pc.fill_null(array, 0.0)).astype(np.float64)
        return np.where(missing, np.inf, values)
    if missing.any() or pa.types.is_boolean(array.type):
        return _ranks(column)
    words = fixed_width_words(array)
    if pa.types.is_unsigned_integer(array.type):
        return words
    bits = int(array.type.bit_width)
    # Signed values in 64-bit words: shift the sign bit so that the order of the words is that of the values.
    return (words + np.uint64(2 ** (bits - 1))) % np.uint64(2**bits) if bits < 64 else words ^ np.uint64(2**63)


def escape_formulas(table: pa.Table, columns: list[str]) -> pa.Table:
    """Put an apostrophe before every text that a spreadsheet would run.

    >>> escape_formulas(pa.table({"t": ["=1+1", "a"]}), ["t"])["t"].to_pylist()
    ["'=1+1", 'a']
    """
    for name in columns:
        position = table.column_names.index(name)
        column = table[name]
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            runs = pc.match_substring_regex(column, _FORMULA_START)
            escaped = pc.binary_join_element_wise(pa.scalar("'", column.type), column, pa.scalar("", column.type))
            table = table.set_column(position, table.field(position), pc.if_else(runs, escaped, column))
    return table


def to_file_bytes(table: pa.Table, form: str, blocking: list[str], csv: CsvOutput) -> bytes:
    """The bytes of a released file; the same table gives the same bytes. ``csv`` counts where that is the form."""
    sink = io.BytesIO()
    if form == "csv":
        options = pa.csv.WriteOptions(
            include_header=True, delimiter=csv.delimiter, null_string=csv.null_word, quoting_style="needed"
        )
        pa.csv.write_csv(table, sink, write_options=options)
    else:
        pa.parquet.write_table(
            table,
            sink,
            compression="zstd",
            write_statistics=blocking,
        )
    return sink.getvalue()


def from_file_bytes(data: bytes, form: str, schema: pa.Schema, csv: CsvOutput) -> pa.Table:
    """A released file as a reader sees it; for CSV ``schema`` says what the columns are.

    Raises:
        StorageError: the bytes are no file of that format.
    """
    try:
        if form == "parquet":
            return pa.parquet.read_table(io.BytesIO(data), use_threads=False)
        return pa.csv.read_csv(
            io.BytesIO(data),
            # In one piece, so that no value is too long for it.
            read_options=pa.csv.ReadOptions(use_threads=False, block_size=max(len(data), 1)),
            # Where there is a single column, an empty line is a record.
            parse_options=pa.csv.ParseOptions(
                delimiter=csv.delimiter, newlines_in_values=True, ignore_empty_lines=False
            ),
            convert_options=csv_conversion(schema, csv),
        )
    except (pa.ArrowException, OSError):
        cure = "output.format: parquet may carry what CSV cannot, else " if form == "csv" else ""
        raise StorageError(
            f"a file that was written for release cannot be read back; {cure}start the release again"
        ) from None


def csv_conversion(schema: pa.Schema, csv: CsvOutput) -> pa.csv.ConvertOptions:
    """How to read a released CSV file: the null word without quotes is a null, and with quotes a text."""
    return pa.csv.ConvertOptions(
        column_types=schema,
        null_values=[csv.null_word],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
