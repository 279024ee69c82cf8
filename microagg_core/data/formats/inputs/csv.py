"""CSV: a large file is several ranges of bytes. Messages name the file, the line and the column, never a value."""

from __future__ import annotations

import codecs
import contextlib
import csv
import dataclasses
import io
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv

from microagg_core.data.formats.csv_bytes import RANGE_BYTES, CsvBytes, Quoting, even_ranges, has_plain_bytes
from microagg_core.data.formats.options import DECIMAL, CsvInput, compression_of, quoted
from microagg_core.data.formats.reading import (
    InputFormat,
    InputListing,
    InputPart,
    Place,
    Stretch,
    ahead,
    refuse_foreign,
)
from microagg_core.data.places import Input
from microagg_core.errors import DataError, MicroaggError
from microagg_core.store.inputs import input_file, open_input
from microagg_core.store.urls import shown

_ALIASES = {"text": "string", "date": "date32", "timestamp": "timestamp[us]"}


def csv_type(name: str) -> pa.DataType:
    """Map a declared CSV type to Arrow's.

    >>> csv_type("date"), csv_type("decimal(9, 2)")
    (DataType(date32[day]), Decimal128Type(decimal128(9, 2)))
    """
    match = DECIMAL.fullmatch(name)
    return pa.decimal128(int(match[1]), int(match[2])) if match else pa.type_for_alias(_ALIASES.get(name, name))


#: Fetched at a time: more than who reads asks for, as a store takes its time to answer.
_FETCH_BYTES = 8 * 2**20


class CsvText(io.RawIOBase):
    """Read some bytes of an open file, or all of it unpacked; the file stays open."""

    def __init__(self, file: BinaryIO, url: str, place: Place = (), n_fetched: int = _FETCH_BYTES) -> None:
        self._at, self._end = place or (0, sys.maxsize)
        self._file, self._url, self._n_fetched = file, url, n_fetched
        # Behind an empty line, which is no record, nothing at the start of a range is taken for the mark of UTF-8.
        self._held = b"\n" if self._at else b""
        file.seek(self._at)
        if compression := compression_of(url):
            self._file = pa.CompressedInputStream(CsvText(file, "", place, n_fetched), compression)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes; with fewer at the end alone."""
        n = len(buffer)
        while len(self._held) < n and self._at < self._end:
            got = self._read(min(max(n, self._n_fetched), self._end - self._at))
            self._held += got
            self._at = self._at + len(got) if got else self._end
        n = min(n, len(self._held))
        buffer[:n], self._held = self._held[:n], self._held[n:]
        return n

    def _read(self, n: int) -> bytes:
        try:
            return self._file.read(n)
        except OSError:
            if not compression_of(self._url):
                raise
            raise DataError(f"{shown(self._url)} cannot be unpacked (cut short, or damaged); write it again") from None


_BLOCK_BYTES = 4 * 2**20
#: Of a header, at a time.
_HEADER_BYTES = 2**16
#: Text becomes as much smaller, about, when it is compressed.
_TIMES_COMPRESSED = 4

_ROW = re.compile(r"Row #(\d+)")
_COLUMN = re.compile(r"In CSV column #(\d+)")
_RAGGED = re.compile(r"Expected (\d+) columns, got (\d+)")


def _hint(names: list[str]) -> str:
    marks = [mark for mark in ";\t|" if len(names) == 1 and mark in names[0]]
    return (
        f", but a single one with {marks[0]!r} in its name; set input.csv.delimiter (and decimal_mark)" if marks else ""
    )


class Csv(InputFormat):
    """A stretch's place is its first byte and the one behind its last, where a record begins and where one ends."""

    name = "csv"
    endings = (".csv", ".tsv", ".txt")
    part_bytes = RANGE_BYTES

    def layout(self, file: BinaryIO, url: str, source: Input) -> tuple[pa.Schema, list[tuple[Place, int]]]:
        names = _header(file, url, source)
        refuse_foreign(names[0].encode("utf-8", "replace"), shown(url))
        unknown = [name for name in source.csv.types if name not in names]
        if unknown:
            raise DataError(f"input.csv.types: {shown(url)} has no column {unknown[0]!r}{_hint(names)}")
        schema = pa.schema([(name, csv_type(source.csv.types.get(name, "text"))) for name in names])
        return schema, [((), _text_bytes(url, file.seek(0, io.SEEK_END)))]

    def rows_in(self, file: BinaryIO, url: str, source: Input) -> Iterator[int]:
        """Count line ends; those within quoted cells count too, so a file may be taken for a larger one."""
        text = CsvText(file, url)
        while block := text.read(_BLOCK_BYTES):
            yield block.count(b"\n") or 1

    def rows_of(
        self, file: BinaryIO, stretch: Stretch, source: Input, columns: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        names = _header(file, stretch.url, source)
        text = CsvText(file, stretch.url, stretch.place)
        yield from _parsed(text, source.csv.encoding, names, stretch, source, columns)

    def first_rows_of(
        self, file: BinaryIO, stretch: Stretch, source: Input, columns: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the first two blocks, of which only the first is certain to be whole.

        Arrow reads ahead in threads that outlive the reader. Here they have a buffer to read from: one that called back
        into Python, for a file or for an encoding, would abort a process that is ending.
        """
        names = _header(file, stretch.url, source)
        head = CsvText(file, stretch.url, stretch.place).read(2 * _BLOCK_BYTES)
        try:
            text = codecs.getincrementaldecoder(source.csv.encoding)().decode(head, len(head) < 2 * _BLOCK_BYTES)
        except UnicodeError as error:
            raise _error(error, stretch, source, names) from None
        yield from _parsed(pa.BufferReader(text.encode()), "utf-8", names, stretch, source, columns)

    def remarks(self, parts: Sequence[InputPart], source: Input) -> tuple[str, ...]:
        whys = [(shown(one.url), why) for one in _large_files(parts) if (why := _why_whole(one.url, source.csv))]
        more = f", and so for {len(whys) - 1} more" if len(whys) > 1 else ""
        return tuple(f"{url} is one part, read by one worker: {why}{more}" for url, why in whys[:1])

    def stretches_to_scan(self, listing: InputListing, source: Input) -> list[Stretch]:
        large = [one.url for one in _large_files(listing.parts) if not _why_whole(one.url, source.csv)]
        return [
            Stretch(file.url, file.size or 0, byte_range, file.state)
            for file in (ahead(lambda url: input_file(url, source.storage_options), large) if large else ())
            for byte_range in even_ranges(file.size or 0)[:-1]  # nothing begins after the last
        ]

    def scan(self, stretch: Stretch, source: Input) -> Place:
        with stretch.opened(source) as file:
            end, lines = CsvBytes(file, source.csv).scan((stretch.place[0], stretch.place[1]))
        return end, lines.settles, lines.turns

    def cut(self, listing: InputListing, source: Input, scanned: Sequence[tuple[Stretch, Place]]) -> InputListing:
        of_files: defaultdict[str, list[tuple[Stretch, Place]]] = defaultdict(list)
        for stretch, place in scanned:
            of_files[stretch.url].append((stretch, place))
        parts: list[tuple[Stretch, ...]] = []
        for part in listing.parts:
            ranges = of_files[part.stretches[0].url]
            parts += [(one,) for one in _record_ranges(ranges, source)] if ranges else [part.stretches]
        numbered = tuple(InputPart(number, stretches) for number, stretches in enumerate(parts))
        return dataclasses.replace(listing, parts=numbered)

    def starter_options(self, source: Input) -> str:
        dialect = source.csv
        lines = [
            "  csv:",
            f"    delimiter: {json.dumps(dialect.delimiter)}",
            f"    encoding: {quoted(dialect.encoding)}",
            f"    decimal_mark: {json.dumps(dialect.decimal_mark)}",
            f"    null_words: [{', '.join(map(json.dumps, dialect.null_words))}]    # missing, in columns with a type",
            '    # A column without a type here is text, kept to the byte ("01" stays "01"): a category where it is a',
            "    # quasi-identifier, and an empty cell is one too. Declare the types of numbers and dates.",
        ]
        types = [f"      {quoted(name)}: {kind}" for name, kind in dialect.types.items()]
        types = ["    types:", *types] if types else ["    # types:", "    #   a_column: int64"]
        return "\n".join([*lines, *types, ""])


def _large_files(parts: Sequence[InputPart]) -> list[Stretch]:
    alone = [part.stretches[0] for part in parts if len(part.stretches) == 1]
    return [one for one in alone if len(even_ranges(_text_bytes(one.url, one.size))) > 1]


def _why_whole(url: str, dialect: CsvInput) -> str:
    """Say what keeps a file from being cut."""
    encoded = "" if has_plain_bytes(dialect) else f"its encoding is {dialect.encoding}"
    return "it is compressed" if compression_of(url) else encoded


def _text_bytes(url: str, size: int) -> int:
    return size * _TIMES_COMPRESSED if compression_of(url) else size


def _record_ranges(scanned: Sequence[tuple[Stretch, Place]], source: Input) -> list[Stretch]:
    first, _ = scanned[0]
    with first.opened(source) as file:
        ends = [(end, Quoting(bool(settles), bool(turns))) for _, (end, settles, turns) in scanned]
        ranges = CsvBytes(file, source.csv).record_ranges(first.size, ends)
    return [dataclasses.replace(first, place=place) for place in ranges]


def _header(file: BinaryIO, url: str, source: Input) -> list[str]:
    """Read column names from the first line that is not empty.

    Arrow's reader would read ahead in a thread of its own, and a command that refuses the file and ends at that
    moment would be aborted by it.
    """
    start = io.BufferedReader(CsvText(file, url, n_fetched=_HEADER_BYTES))
    # With or without a byte order mark, as Arrow reads it.
    encoding = "utf-8-sig" if codecs.lookup(source.csv.encoding).name == "utf-8" else source.csv.encoding
    with io.TextIOWrapper(start, encoding=encoding, newline="") as text:
        try:
            lines = csv.reader(text, delimiter=source.csv.delimiter)
            return next(line for line in lines if line)
        except StopIteration:
            raise DataError(f"{shown(url)}: the file is empty; a CSV file needs a header line") from None
        except (csv.Error, UnicodeError) as error:
            raise _error(error, Stretch(url), source, []) from None


def _parsed(
    text: io.RawIOBase | pa.BufferReader,
    encoding: str,
    names: list[str],
    stretch: Stretch,
    source: Input,
    columns: tuple[str, ...],
) -> Iterator[pa.RecordBatch]:
    dialect = source.csv
    convert = pa.csv.ConvertOptions(
        column_types={name: csv_type(dialect.types.get(name, "text")) for name in names},
        null_values=list(dialect.null_words),
        # A text is kept to the byte: no word makes it a null. Quotes do not make a number of a word.
        strings_can_be_null=False,
        quoted_strings_can_be_null=True,
        include_columns=list(columns),
        decimal_point=dialect.decimal_mark,
    )
    options = pa.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, encoding=encoding)
    if _start(stretch):
        options.column_names = names
    parse = pa.csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True)
    try:
        with pa.csv.open_csv(text, options, parse, convert) as reader:
            yield from reader
    except (pa.ArrowException, UnicodeError) as error:
        raise _error(error, stretch, source, names) from None


def _start(stretch: Stretch) -> int:
    return stretch.place[0] if stretch.place else 0


def _error(error: Exception, stretch: Stretch, source: Input, names: list[str]) -> DataError:
    """Make a sentence of Arrow's message that keeps its row, column and counts, and not the value."""
    text, dialect = str(error), source.csv
    row, ragged, column = _ROW.search(text), _RAGGED.search(text), _COLUMN.search(text)
    place = f"{shown(stretch.url)}:{_line(stretch, source, int(row[1]))}" if row else shown(stretch.url)
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


def _line(stretch: Stretch, source: Input, number: int) -> int:
    """Find the line in which a record of the stretch begins; the record's number, where that takes decoding."""
    if not _why_whole(stretch.url, source.csv):
        with contextlib.suppress(MicroaggError), open_input(stretch.url, source.storage_options) as file:
            return CsvBytes(file, source.csv).line_of(_start(stretch), number)
    return number


FORMAT = Csv()
