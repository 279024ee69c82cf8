"""Input parts: what can be read on its own, and reading it batch by batch.

A Parquet file is one part, or several where its row groups are large; a CSV file is one part. A part is read as a
stream of tables of bounded size, so that a file may be larger than a worker. Messages name the file, the line and
the column, never a value.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from microagg_core.errors import DataError, StorageError
from microagg_core.spec.release import CsvInput, Input
from microagg_core.storage.inputs import input_files, open_input
from microagg_core.storage.urls import shown

#: Bytes of uncompressed Parquet that one part aims at.
PART_BYTES = 128 * 2**20
_BATCH_ROWS = 65_536
_CSV_BLOCK_BYTES = 4 * 2**20

_WHOLE_FILE: list[tuple[int, int, int | None]] = [(0, 0, None)]
_CSV_ROW = re.compile(r"Row #(\d+)")
_CSV_COLUMN = re.compile(r"In CSV column #(\d+)")
_CSV_RAGGED = re.compile(r"Expected (\d+) columns, got (\d+)")


@dataclass(frozen=True)
class InputPart:
    """A piece of the input: its file, and for Parquet a range of row groups."""

    number: int
    url: str
    first_group: int = 0
    end_group: int = 0
    rows: int | None = None


@dataclass(frozen=True)
class InputListing:
    """The parts of the input with their common schema, and what identifies the files' present state."""

    parts: tuple[InputPart, ...]
    schema: pa.Schema
    state: tuple[tuple[str, str], ...]


def list_input(source: Input) -> InputListing:
    """Find the input's files, check that they have one schema, and cut them into parts.

    Raises:
        StorageError: nothing there, or not readable.
        DataError: a damaged file, or files with different schemas.
    """
    files = input_files(source.url, source.storage_options)
    parts: list[InputPart] = []
    first: pa.Schema | None = None
    for url, _ in files:
        if source.resolved_format == "csv":
            schema, pieces = _csv_schema(url, source), _WHOLE_FILE
        else:
            schema, pieces = _parquet_layout(url, source)
        if first is None:
            first = schema
        _check_same_schema(first, schema, files[0][0], url)
        parts += [InputPart(len(parts) + i, url, *piece) for i, piece in enumerate(pieces)]
    if first is None:
        raise StorageError(f"{shown(source.url)}: there is no such file; check input.url")
    return InputListing(tuple(parts), first, tuple(files))


def has_fewer_rows(source: Input, limit: int) -> bool:
    """Whether the input has fewer than ``limit`` rows, by the footers of Parquet files or the line ends of CSV.

    A line end within a quoted cell counts too, so a CSV file may be taken for a larger one.

    Raises:
        StorageError: nothing there, or not readable.
        DataError: a damaged file.
    """
    rows = 0
    for url, _ in input_files(source.url, source.storage_options):
        for some in _row_counts(url, source):
            rows += some
            if rows >= limit:
                return False
    return True


def _row_counts(url: str, source: Input) -> Iterator[int]:
    """Numbers that add up to the rows of a file, or a little more."""
    if source.resolved_format != "csv":
        yield from (rows or 0 for _, _, rows in _parquet_layout(url, source)[1])
        return
    with open_input(url, source.storage_options, sequential=True) as file:
        while block := file.read(_CSV_BLOCK_BYTES):
            yield block.count(b"\n") or 1


def read_schema(source: Input) -> pa.Schema:
    """The schema of the first file: for CSV the declared types, and text for every other column."""
    url, _ = input_files(source.url, source.storage_options)[0]
    return _csv_schema(url, source) if source.resolved_format == "csv" else _parquet_layout(url, source)[0]


def read_part(part: InputPart, source: Input, columns: tuple[str, ...]) -> Iterator[pa.Table]:
    """The part's rows in file order, as tables of bounded size holding ``columns`` in that order.

    Raises:
        DataError: a damaged file, a ragged line, or a value that is not of its column's type.
    """
    batches = (
        _csv_batches(part, source, columns)
        if source.resolved_format == "csv"
        else _parquet_batches(part, source, columns)
    )
    for batch in batches:
        if batch.num_rows:
            yield _plain_table(batch, columns)


def first_rows(part: InputPart, source: Input, columns: tuple[str, ...]) -> pa.Table | None:
    """The first of the tables that :func:`read_part` gives; None where the part has no rows.

    For a process that may end at once: nothing goes on reading in the background.
    """
    batches = (
        _csv_head(part, source, columns) if source.resolved_format == "csv" else _parquet_batches(part, source, columns)
    )
    return next((_plain_table(batch, columns) for batch in batches if batch.num_rows), None)


def _plain_table(batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.Table:
    return pa.Table.from_arrays([plain(batch.column(name)) for name in columns], names=list(columns))


def plain(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The column in the plain type of its values; a file's way of storing them decides nothing."""
    kind = plain_type(column.type)
    return column if kind == column.type else column.cast(kind)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without its encoding: no dictionary, no views into other buffers, and decimals of one width.

    >>> plain_type(pa.dictionary(pa.int8(), pa.string())), plain_type(pa.decimal32(9, 2))
    (DataType(string), Decimal128Type(decimal128(9, 2)))
    """
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    # Asked for by their names: older versions of pyarrow do not have these types.
    if str(kind).startswith(("decimal32(", "decimal64(")):
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(f.name, plain_type(f.type)) for f in schema])


def _check_same_schema(first: pa.Schema, other: pa.Schema, first_url: str, url: str) -> None:
    """The same columns with the same types; their order may differ."""
    expected = {f.name: f.type for f in first}
    found = {f.name: f.type for f in other}
    problems = [f"has no column {name!r}" for name in expected if name not in found]
    problems += [f"has a column {name!r} more" for name in found if name not in expected]
    problems += [
        f"has column {name!r} as {found[name]} instead of {kind}"
        for name, kind in expected.items()
        if name in found and found[name] != kind
    ]
    if problems:
        raise DataError(
            f"{shown(url)} {'; it '.join(problems)}: all input files must have the schema of {shown(first_url)}"
        )


# --- Parquet -------------------------------------------------------------------------------------------------


def _open_parquet(url: str, source: Input) -> pa.parquet.ParquetFile:
    handle = open_input(url, source.storage_options)
    try:
        return pa.parquet.ParquetFile(handle, pre_buffer=False)
    except (pa.ArrowException, OSError):
        raise DataError(
            f"{shown(url)} is not a readable Parquet file (truncated, or of another format); "
            "write it again or set input.format"
        ) from None


def _parquet_layout(url: str, source: Input) -> tuple[pa.Schema, list[tuple[int, int, int | None]]]:
    with _open_parquet(url, source) as file:
        meta = file.metadata
        pieces: list[tuple[int, int, int | None]] = []
        start, size, rows = 0, 0, 0
        for group in range(meta.num_row_groups):
            size += meta.row_group(group).total_byte_size
            rows += meta.row_group(group).num_rows
            if size >= PART_BYTES or group == meta.num_row_groups - 1:
                pieces.append((start, group + 1, rows))
                start, size, rows = group + 1, 0, 0
        return _plain_schema(file.schema_arrow), pieces or [(0, 0, 0)]


def _parquet_batches(part: InputPart, source: Input, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    with _open_parquet(part.url, source) as file:
        try:
            yield from file.iter_batches(
                batch_size=_BATCH_ROWS,
                row_groups=range(part.first_group, part.end_group),
                columns=list(columns),
                use_threads=False,
            )
        except (pa.ArrowException, OSError) as error:
            place = f"row groups {part.first_group} to {part.end_group - 1} of {shown(part.url)}"
            raise DataError(
                f"{place} cannot be read ({type(error).__name__}): the file is damaged or changed "
                "meanwhile; write it again"
            ) from None


# --- CSV -----------------------------------------------------------------------------------------------------

_CSV_ARROW_TYPES: dict[str, pa.DataType] = {
    "text": pa.string(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    **{
        name: getattr(pa, name)() for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    "float32": pa.float32(),
    "float64": pa.float64(),
}


def csv_type(name: str) -> pa.DataType:
    """The Arrow type of a declared CSV type.

    >>> csv_type("date"), csv_type("decimal(9, 2)")
    (DataType(date32[day]), Decimal128Type(decimal128(9, 2)))
    """
    match = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", name)
    return pa.decimal128(int(match[1]), int(match[2])) if match else _CSV_ARROW_TYPES[name]


def _csv_schema(url: str, source: Input) -> pa.Schema:
    names = _csv_header(url, source)
    unknown = [name for name in source.csv.types if name not in names]
    if unknown:
        raise DataError(f"input.csv.types: {shown(url)} has no column {unknown[0]!r}")
    return pa.schema([pa.field(name, csv_type(source.csv.types.get(name, "text"))) for name in names])


def _csv_header(url: str, source: Input) -> list[str]:
    """Column names: the first line that is not empty.

    Arrow's reader would read ahead in a thread of its own, and a command that refuses the file and ends at that
    moment would be aborted by it.
    """
    with open_input(url, source.storage_options, sequential=True) as handle:
        text = io.TextIOWrapper(handle, encoding=_without_mark(source.csv.encoding), newline="")
        try:
            lines = csv.reader(text, delimiter=source.csv.delimiter)
            return next(line for line in lines if line)
        except StopIteration:
            raise DataError(f"{shown(url)}: the file is empty; a CSV file needs a header line") from None
        except (csv.Error, UnicodeError) as error:
            raise _csv_error(error, url, source.csv, []) from None


def _without_mark(encoding: str) -> str:
    """The encoding that reads a file with or without a byte order mark, as Arrow does."""
    return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding


def _parse_options(dialect: CsvInput) -> pa.csv.ParseOptions:
    return pa.csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True)


def _csv_batches(part: InputPart, source: Input, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    names = _csv_header(part.url, source)
    with open_input(part.url, source.storage_options, sequential=True) as handle:
        yield from _parsed_csv(handle, source.csv.encoding, names, part.url, source.csv, columns)


def _csv_head(part: InputPart, source: Input, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The batches of the file's first two blocks, of which only the first is certain to be whole.

    Arrow reads ahead in threads that outlive the reader. Here they have a buffer to read from: one that called back
    into Python, for a file or for an encoding, would abort a process that is ending.
    """
    names = _csv_header(part.url, source)
    with open_input(part.url, source.storage_options, sequential=True) as handle:
        head = handle.read(2 * _CSV_BLOCK_BYTES)
    try:
        text = codecs.getincrementaldecoder(source.csv.encoding)().decode(head, len(head) < 2 * _CSV_BLOCK_BYTES)
    except UnicodeError as error:
        raise _csv_error(error, part.url, source.csv, names) from None
    yield from _parsed_csv(pa.BufferReader(text.encode()), "utf-8", names, part.url, source.csv, columns)


def _parsed_csv(
    stream: BinaryIO | pa.BufferReader,
    encoding: str,
    names: list[str],
    url: str,
    dialect: CsvInput,
    columns: tuple[str, ...],
) -> Iterator[pa.RecordBatch]:
    convert = pa.csv.ConvertOptions(
        column_types={name: csv_type(dialect.types.get(name, "text")) for name in names},
        null_values=list(dialect.null_words),
        # A text is kept to the byte: no word makes it a null. Quotes do not make a number of a word.
        strings_can_be_null=False,
        quoted_strings_can_be_null=True,
        include_columns=list(columns),
    )
    options = pa.csv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK_BYTES, encoding=encoding)
    try:
        with pa.csv.open_csv(stream, options, _parse_options(dialect), convert) as reader:
            yield from reader
    except (pa.ArrowException, UnicodeError) as error:
        raise _csv_error(error, url, dialect, names) from None


def _csv_error(error: Exception, url: str, dialect: CsvInput, names: list[str]) -> DataError:
    """One sentence from Arrow's message: its row, column and counts are kept, the value is not."""
    text = str(error)
    row, ragged, column = _CSV_ROW.search(text), _CSV_RAGGED.search(text), _CSV_COLUMN.search(text)
    place = f"{shown(url)}:{row[1]}" if row else shown(url)
    if ragged:
        return DataError(
            f"{place}: the line has {ragged[2]} fields instead of {ragged[1]}; correct it or check input.csv.delimiter"
        )
    if isinstance(error, UnicodeError) or "UTF8" in text:
        return DataError(f"{place}: the text is not {dialect.encoding}; set input.csv.encoding")
    if column:
        name = names[int(column[1])] if int(column[1]) < len(names) else f"number {column[1]}"
        declared = dialect.types.get(name, "text")
        return DataError(
            f"{place}: column {name!r} holds a value that is not of its declared type {declared}; "
            "correct it, declare another type or add the word to input.csv.null_words"
        )
    return DataError(f"{place}: the file cannot be read as CSV; check its quotes and input.csv.delimiter")
