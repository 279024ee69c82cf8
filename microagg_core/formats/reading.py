"""Reading the input, whatever its format: what parts it has, and a part as a stream of tables of bounded size.

A file may be larger than a worker. Messages name the file, the line and the column, never a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from microagg_core.formats.inputs.contract import InputListing, InputPart, Place, Stretch
from microagg_core.formats.inputs.plain_types import plain
from microagg_core.formats.inputs.registry import input_format
from microagg_core.spec.places import Input


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


def read_part(part: InputPart, source: Input, columns: tuple[str, ...]) -> Iterator[pa.Table]:
    """The part's rows in file order, as tables of bounded size holding ``columns`` in that order.

    Raises:
        DataError: a damaged file, a ragged line, or a value that is not of its column's type.
    """
    for batch in input_format(source).batches(part, source, columns):
        if batch.num_rows:
            yield _plain_table(batch, columns)


def first_rows(part: InputPart, source: Input, columns: tuple[str, ...]) -> pa.Table | None:
    """The first of the tables that :func:`read_part` gives; None where the part has no rows.

    For a process that may end at once: nothing goes on reading in the background.
    """
    batches = input_format(source).first_batches(part, source, columns)
    return next((_plain_table(batch, columns) for batch in batches if batch.num_rows), None)


def _plain_table(batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.Table:
    return pa.Table.from_arrays([plain(batch.column(name)) for name in columns], names=list(columns))
