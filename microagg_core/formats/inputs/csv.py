"""CSV: a file is one part. Messages name the file, the line and the column, never a value."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv

from microagg_core.errors import DataError
from microagg_core.formats.inputs.contract import FileFormat, InputPart, Place
from microagg_core.formats.inputs.csv_types import csv_type, suggested_types
from microagg_core.spec.formats import CsvInput
from microagg_core.spec.places import Input
from microagg_core.spec.starter import quoted
from microagg_core.storage.inputs import input_files, open_input
from microagg_core.storage.urls import shown

_BLOCK_BYTES = 4 * 2**20
#: Enough of a file to judge its types by.
_HEAD_BYTES = 1 << 20

_ROW = re.compile(r"Row #(\d+)")
_COLUMN = re.compile(r"In CSV column #(\d+)")
_RAGGED = re.compile(r"Expected (\d+) columns, got (\d+)")


class Csv(FileFormat):
    """A part has no place in its file: it is all of it."""

    name = "csv"

    def layout(self, url: str, source: Input) -> tuple[pa.Schema, list[Place]]:
        """The declared types, and text for every other column of the header."""
        names = _header(url, source)
        unknown = [name for name in source.csv.types if name not in names]
        if unknown:
            raise DataError(f"input.csv.types: {shown(url)} has no column {unknown[0]!r}")
        return pa.schema([pa.field(name, _declared(source.csv, name)) for name in names]), [()]

    def rows_in(self, url: str, source: Input) -> Iterator[int]:
        """The line ends; one within a quoted cell counts too, so a file may be taken for a larger one."""
        with open_input(url, source.storage_options, sequential=True) as file:
            while block := file.read(_BLOCK_BYTES):
                yield block.count(b"\n") or 1

    def batches(self, part: InputPart, source: Input, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Block by block, with Arrow reading ahead."""
        names = _header(part.url, source)
        with open_input(part.url, source.storage_options, sequential=True) as handle:
            yield from _parsed(handle, source.csv.encoding, names, part.url, source.csv, columns)

    def first_batches(self, part: InputPart, source: Input, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The batches of the file's first two blocks, of which only the first is certain to be whole.

        Arrow reads ahead in threads that outlive the reader. Here they have a buffer to read from: one that called back
        into Python, for a file or for an encoding, would abort a process that is ending.
        """
        names = _header(part.url, source)
        with open_input(part.url, source.storage_options, sequential=True) as handle:
            head = handle.read(2 * _BLOCK_BYTES)
        try:
            text = codecs.getincrementaldecoder(source.csv.encoding)().decode(head, len(head) < 2 * _BLOCK_BYTES)
        except UnicodeError as error:
            raise _error(error, part.url, source.csv, names) from None
        yield from _parsed(pa.BufferReader(text.encode()), "utf-8", names, part.url, source.csv, columns)

    def with_guessed_types(self, source: Input) -> Input:
        """Types as the first lines of the first file suggest them."""
        dialect = source.csv.model_copy(update={"types": _guessed(source)})
        return source.model_copy(update={"csv": dialect})

    def starter_options(self, source: Input) -> str:
        """The dialect, and the types that are suggested, as comments."""
        return _STARTER_OPTIONS + _starter_types(_guessed(source))


def _declared(dialect: CsvInput, name: str) -> pa.DataType:
    return csv_type(dialect.types.get(name, "text"))


def _header(url: str, source: Input) -> list[str]:
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
            raise _error(error, url, source.csv, []) from None


def _without_mark(encoding: str) -> str:
    """The encoding that reads a file with or without a byte order mark, as Arrow does."""
    return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding


def _parsed(
    stream: BinaryIO | pa.BufferReader,
    encoding: str,
    names: list[str],
    url: str,
    dialect: CsvInput,
    columns: tuple[str, ...],
) -> Iterator[pa.RecordBatch]:
    convert = pa.csv.ConvertOptions(
        column_types={name: _declared(dialect, name) for name in names},
        null_values=list(dialect.null_words),
        # A text is kept to the byte: no word makes it a null. Quotes do not make a number of a word.
        strings_can_be_null=False,
        quoted_strings_can_be_null=True,
        include_columns=list(columns),
    )
    options = pa.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, encoding=encoding)
    parse = pa.csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True)
    try:
        with pa.csv.open_csv(stream, options, parse, convert) as reader:
            yield from reader
    except (pa.ArrowException, UnicodeError) as error:
        raise _error(error, url, dialect, names) from None


def _error(error: Exception, url: str, dialect: CsvInput, names: list[str]) -> DataError:
    """One sentence from Arrow's message: its row, column and counts are kept, the value is not."""
    text = str(error)
    row, ragged, column = _ROW.search(text), _RAGGED.search(text), _COLUMN.search(text)
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


# --- What a file's first lines suggest -----------------------------------------------------------------------


def _guessed(source: Input) -> dict[str, str]:
    url, _ = input_files(source.url, source.storage_options)[0]
    with open_input(url, source.storage_options) as handle:
        return suggested_types(handle.read(_HEAD_BYTES), source.csv)


_STARTER_OPTIONS = """\
  csv:
    delimiter: ","
    encoding: utf-8
    null_words: [""]        # a missing value, in columns of a declared type
    # A column without a type here is text, kept to the byte ("01" stays "01"). Quasi-identifiers must be
    # numbers or dates, so declare theirs.
"""


def _starter_types(suggested: dict[str, str]) -> str:
    if not suggested:
        return "    # types:\n    #   a_column: int64\n"
    lines = ["    # The first lines of the file look like this; take out the # of what is right:", "    # types:"]
    lines += [f"    #   {quoted(name)}: {kind}" for name, kind in suggested.items()]
    return "\n".join(lines) + "\n"


FORMAT = Csv()
