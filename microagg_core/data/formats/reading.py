"""Reading the input, whatever its format: what parts it has, and a part as a stream of tables of bounded size.

A file may be larger than a worker. Messages name the file, the line and the column, never a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.data.formats.inputs.contract import InputListing, InputPart, Place, Stretch
from microagg_core.data.formats.inputs.plain_types import plain
from microagg_core.data.formats.inputs.registry import input_format
from microagg_core.data.tables.hashing import is_text_or_bytes
from microagg_core.errors import DataError
from microagg_core.spec.places import Input

#: Bytes of a text or binary value, at most. A default block may have a thousand of them, and a task holds six copies of
#: its rows: that is 384 MiB, while 600 values of 1 MB took 2.5 GiB.
MOST_VALUE_BYTES = 64 * 2**10
#: Bytes of texts that are decoded at once, whatever a dictionary makes of few.
_DECODED_BYTES = 32 * 2**20


def list_input(source: Input) -> InputListing:
    """Find the input, check that all of it has one schema, and cut it into parts.

    Raises:
        StorageError: nothing there, or not readable.
        DataError: a damaged file, or files with different schemas.
    """
    return input_format(source).listing(source)


def to_scan(listing: InputListing, source: Input) -> list[Stretch]:
    """What somebody has to look at before :func:`cut_listing` can cut the larger parts; nothing, as a rule.

    Raises:
        StorageError: a file is not readable any more.
    """
    return input_format(source).to_scan(listing, source)


def scan_stretch(stretch: Stretch, source: Input) -> Place:
    """What :func:`cut_listing` wants to know of a stretch that is to be scanned.

    Raises:
        StorageError: the file is not readable.
        DataError: it is not what it was.
    """
    return input_format(source).scan(stretch, source)


def cut_listing(listing: InputListing, source: Input, scanned: Sequence[tuple[Stretch, Place]]) -> InputListing:
    """The listing with larger parts cut, by what was found in each stretch that was to be scanned; the rows stay.

    Raises:
        StorageError: a file is not readable.
        DataError: it is not what it was.
    """
    return input_format(source).cut(listing, source, scanned)


def has_fewer_rows(source: Input, limit: int) -> bool:
    """Whether the input has fewer than ``limit`` rows, by as little of it as tells; it may be taken for larger.

    Raises:
        StorageError: nothing there, or not readable.
        DataError: a damaged file.
    """
    rows = 0
    for some in input_format(source).row_counts(source):
        rows += some
        if rows >= limit:
            return False
    return True


def count_rows(source: Input) -> int:
    """The rows of the input, or a few more, by as little of it as tells.

    Raises:
        StorageError: nothing there, or not readable.
        DataError: a damaged file.
    """
    return sum(input_format(source).row_counts(source))


def read_schema(source: Input) -> pa.Schema:
    """The columns of the input, in plain types, as its first file has them."""
    return input_format(source).schema(source)


def with_guessed_types(source: Input) -> Input:
    """The input with types for its columns as its first rows suggest them, where its format has none."""
    return input_format(source).with_guessed_types(source)


def read_part(
    part: InputPart, source: Input, columns: tuple[str, ...], longest: int | None = MOST_VALUE_BYTES
) -> Iterator[pa.Table]:
    """The part's rows in file order, as tables of bounded size holding ``columns`` in that order.

    ``longest`` is the most bytes of a text or binary value; None: any, for who proposes roles and releases nothing.

    Raises:
        DataError: a damaged file, a ragged line, a value that is not of its column's type, or one that is too long.
    """
    for batch in input_format(source).batches(part, source, columns):
        decoded = sum(_text_bytes(name, batch.column(name), longest) for name in columns)
        n_rows = max(1, batch.num_rows // (decoded // _DECODED_BYTES + 1))
        for start in range(0, batch.num_rows, n_rows):
            yield _plain_table(batch.slice(start, n_rows), columns)


def first_rows(part: InputPart, source: Input, columns: tuple[str, ...]) -> pa.Table | None:
    """The first of the tables that :func:`read_part` gives; None where the part has no rows.

    For a process that may end at once: nothing goes on reading in the background.
    """
    batches = input_format(source).first_batches(part, source, columns)
    return next((_plain_table(batch, columns) for batch in batches if batch.num_rows), None)


def _plain_table(batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.Table:
    return pa.Table.from_arrays([plain(batch.column(name)) for name in columns], names=list(columns))


def _text_bytes(name: str, column: pa.Array, most: int | None) -> int:
    """Sum the lengths of a column's texts as they will be decoded.

    Raises:
        DataError: a value is longer than a released one may be.
    """
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    if pa.types.is_run_end_encoded(column.type):
        values = column.values
    values = plain(values)
    if not is_text_or_bytes(values.type):
        return 0
    lengths = pc.binary_length(values)
    if pa.types.is_dictionary(column.type):
        lengths = lengths.take(column.indices)
    if most is not None and (pc.max(lengths).as_py() or 0) > most:
        raise DataError(
            f"column {name!r} has a value longer than {most // 2**10} KiB, which is no text to release; "
            "give the column the role drop, or shorten its values"
        )
    return int(pc.sum(lengths).as_py() or 0)
