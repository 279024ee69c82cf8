"""Find out how an input is to be read, so that a spec can say it, and prove it by reading rows so."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.data.formats.inputs.csv import CsvText
from microagg_core.data.formats.options import CsvInput
from microagg_core.data.formats.reading import (
    InputListing,
    count_rows,
    first_rows,
    input_format,
    list_input,
    read_part,
)
from microagg_core.data.places import Input, with_known_names
from microagg_core.data.tables.types import is_text
from microagg_core.errors import DataError, SpecError
from microagg_core.profile.notations import (
    NULL_WORDS,
    are_day_numbers,
    comma_is_decimal,
    declared_type,
    notation_counts,
    null_words_in,
    why_text,
)
from microagg_core.profile.text import delimiter_of, encoding_of, format_by_content
from microagg_core.store.inputs import InputFile, input_files, open_input
from microagg_core.store.urls import holds_credentials, shown

#: An input is small below all of these: rows, cells, and bytes in memory.
MOST_ROWS = 500_000
_MOST_CELLS = 40_000_000
_MOST_BYTES = 512 * 2**20
#: Places of a large input from which rows are taken: the first rows of as many parts.
_PLACES = 16
#: Rows of all places, each of which gives no more than its reader's first batch.
_ROWS_OF_PLACES = 320_000
#: A larger CSV file has more stretches to be scanned than one process should look at: its first rows have to do.
_MOST_SCANNED = 32


@dataclass(frozen=True)
class Sample:
    table: pa.Table
    is_whole: bool
    #: The places that they come from, and how many parts the input has.
    n_places: int = 1
    n_parts: int = 1

    def in_words(self) -> str:
        """Which rows were looked at.

        >>> Sample(pa.table({"age": [1, 2]}), True).in_words()
        'all 2 rows'
        """
        if self.is_whole:
            return f"all {self.table.num_rows:,} rows"
        return f"{self.table.num_rows:,} rows, the first of {self.n_places:,} of the input's {self.n_parts:,} parts"


def sampled(source: Input) -> Sample:
    listing = list_input(source)
    _check_names(listing.schema.names)
    most = min(MOST_ROWS, _MOST_CELLS // max(1, len(listing.schema.names)))
    sample = _whole(listing, source) if count_rows(source, most + 1) <= most else None
    sample = sample or _some(_cut(listing, source), source)
    if not sample.table.num_rows:
        raise DataError(f"{shown(source.url)} has no records; check where it came from")
    return sample


def _check_names(names: list[str]) -> None:
    if "" in names:
        raise DataError(f"column {names.index('') + 1} of the input has no name; give it one")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"the input has more than one column named {', '.join(map(repr, twice))}; rename them")


def _whole(listing: InputListing, source: Input) -> Sample | None:
    """Read all rows; None where they are larger than they looked."""
    tables, n_bytes = [], 0
    names = tuple(listing.schema.names)
    for table in (table for part in listing.parts for table in read_part(part, source, names, longest=None)):
        tables.append(table)
        n_bytes += table.nbytes
        if n_bytes > _MOST_BYTES:
            return None
    return Sample(_together(tables, listing), True, len(listing.parts), len(listing.parts))


def _some(listing: InputListing, source: Input) -> Sample:
    """Read the first rows of parts that lie evenly over the input: no part is read further, however large it is."""
    n = len(listing.parts)
    places = [listing.parts[i * n // min(n, _PLACES)] for i in range(min(n, _PLACES))]
    most = _ROWS_OF_PLACES // len(places)
    first = (first_rows(part, source, tuple(listing.schema.names)) for part in places)
    # Copies: a slice would hold all of what was read.
    tables = [rows.take(pa.array(range(min(rows.num_rows, most)))) for rows in first if rows is not None]
    return Sample(_together(tables, listing), False, len(tables), n)


def _together(tables: list[pa.Table], listing: InputListing) -> pa.Table:
    """Put tables behind each other, with the levels of columns that the listing knows."""
    return pa.concat_tables(tables).cast(listing.schema) if tables else listing.schema.empty_table()


def _cut(listing: InputListing, source: Input) -> InputListing:
    form = input_format(source)
    stretches = form.stretches_to_scan(listing, source)
    if not 0 < len(stretches) <= _MOST_SCANNED:
        return listing
    return form.cut(listing, source, [(one, form.scan(one, source)) for one in stretches])


#: Of a file of text, what its lines are judged by.
_HEAD_BYTES = 2**20
#: No cell has as many lines; what lies between two stray quotes has.
_MOST_LINES_OF_A_CELL = 200


@dataclass(frozen=True)
class Understanding:
    """An input with all that its spec has to say of it, and its rows, read so."""

    source: Input
    sample: Sample
    #: Column -> why it is text though it looks like something else.
    remarks: dict[str, str] = field(default_factory=dict)
    #: Why the encoding was chosen, if that is a judgement.
    encoding_reason: str = ""
    #: Of text files: bytes of a row, on the average.
    row_bytes: float = 0.0

    def type_of(self, column: str) -> str:
        """Name a column's type as a spec does, of CSV, or as Arrow does."""
        held = self.sample.table.schema.field(column).type
        return self.source.csv.types.get(column, "text" if is_text(held) else str(held))


def understood(
    url: str, delimiter: str | None = None, encoding: str | None = None, storage_options: dict[str, Any] | None = None
) -> Understanding:
    """The input at a URL or glob, understood or refused; a delimiter or an encoding that is said is not looked for."""
    source = _source(url, storage_options or {})
    first = input_files(url, source.storage_options)[0]
    source = source.model_copy(update={"format": format_by_content(first, source)})
    if source.format == "csv":
        return _csv_understood(source, first, delimiter, encoding)
    sample = sampled(source)
    return Understanding(source, sample, _remarks_on_texts(sample.table))


def _source(url: str, storage_options: dict[str, Any]) -> Input:
    if holds_credentials(url):
        raise SpecError(f"{shown(url)}: a spec must not hold a user or password; use the environment of each worker")
    try:
        with_known_names(url)
    except ValueError as error:
        raise SpecError(f"{shown(url)}: {error}") from None
    return Input(url=url, storage_options=storage_options)


def _csv_understood(source: Input, first: InputFile, delimiter: str | None, encoding: str | None) -> Understanding:
    place = shown(first.url)
    reason = ""
    if encoding:
        _refuse_unknown(encoding)
    else:
        with open_input(first.url, source.storage_options, sequential=True) as file:
            # It reads as a file does.
            encoding, reason = encoding_of(CsvText(file, first.url), place)  # type: ignore[arg-type]
    with open_input(first.url, source.storage_options) as file:
        head = CsvText(file, first.url).read(_HEAD_BYTES) or b""
    is_whole = len(head) < _HEAD_BYTES
    text = _decoded(head, encoding, is_whole, place)
    as_text = _with_dialect(source, delimiter=delimiter_of(text, is_whole, place, delimiter), encoding=encoding)
    table = sampled(as_text).table
    columns = {name: _notations(name, table.column(name), source.url) for name in table.column_names}
    is_comma = comma_is_decimal(columns.values())
    types = {name: held for name, counts in columns.items() if (held := declared_type(counts, is_comma))}
    words = {"", *(word for name in types for word in null_words_in(table.column(name)))}
    typed = _with_dialect(
        as_text,
        decimal_mark="," if is_comma else ".",
        null_words=tuple(word for word in NULL_WORDS if word in words),
        types=types,
    )
    remarks = {name: why for name, counts in columns.items() if name not in types and (why := why_text(counts))}
    row_bytes = len(head) / max(1, text.count("\n"))
    # Read once more, with exactly what the spec will say.
    return Understanding(typed, sampled(typed), remarks, reason, row_bytes)


def _refuse_unknown(encoding: str) -> None:
    try:
        CsvInput(encoding=encoding)
    except ValueError:
        raise SpecError(
            f"--encoding: {encoding!r} is none that Python has; utf-8, cp1252 and utf-16 are some"
        ) from None


def _decoded(head: bytes, encoding: str, is_whole: bool, place: str) -> str:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(head, is_whole).removeprefix("\ufeff")
    except UnicodeError:
        raise DataError(f"{place}: the text is not {encoding}; say another --encoding") from None


def _with_dialect(source: Input, **options: object) -> Input:
    dialect = CsvInput.model_validate({**source.csv.model_dump(), **options})
    return source.model_copy(update={"csv": dialect})


def _notations(name: str, column: pa.ChunkedArray, url: str) -> dict[str, int]:
    texts = pc.unique(column)
    if pc.max(pc.count_substring(texts, "\n")).as_py() > _MOST_LINES_OF_A_CELL:
        raise DataError(
            f"{shown(url)}: a cell of column {name!r} has more than {_MOST_LINES_OF_A_CELL} lines, as if a quote "
            "were never closed; correct the quotes"
        )
    counts = notation_counts(column)
    is_of_days = counts.keys() <= {"whole", "null"} and are_day_numbers(texts)
    return {"day number": len(column)} if is_of_days else counts


def _remarks_on_texts(table: pa.Table) -> dict[str, str]:
    """Say which text columns of a file with types hold numbers, days or codes."""
    remarks = {}
    for column in table.schema:
        if not is_text(column.type):
            continue
        counts = notation_counts(table.column(column.name).drop_null())
        held = declared_type(counts, comma_is_decimal([counts]))
        if held or (remark := why_text(counts)):
            remarks[column.name] = f"{held} written as text: cast it" if held else remark
    return remarks
