"""Rows to look at: all of a small input, and of a large one some from places that lie evenly over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from microagg_core.data.formats.reading import (
    InputListing,
    InputPart,
    first_rows,
    has_fewer_rows,
    input_format,
    list_input,
    read_part,
)
from microagg_core.data.places import Input
from microagg_core.errors import DataError
from microagg_core.store.urls import shown

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
    """The rows of the input that are looked at.

    Raises:
        StorageError: nothing there, or not readable.
        DataError: no rows, a damaged file, or lines that cannot be read with the input's options.
    """
    listing = list_input(source)
    n_columns = max(1, len(listing.schema.names))
    sample = None
    if has_fewer_rows(source, min(MOST_ROWS, _MOST_CELLS // n_columns) + 1):
        sample = _whole(listing, source)
    sample = sample or _some(_cut(listing, source), source)
    if not sample.table.num_rows:
        raise DataError(f"{shown(source.url)} has no records; check where it came from")
    return sample


def _whole(listing: InputListing, source: Input) -> Sample | None:
    """Read all rows; None where they are larger than they looked."""
    tables, n_bytes = [], 0
    for table in _tables(listing, source):
        tables.append(table)
        n_bytes += table.nbytes
        if n_bytes > _MOST_BYTES:
            return None
    return Sample(_together(tables, listing), True, len(listing.parts), len(listing.parts))


def _tables(listing: InputListing, source: Input) -> Iterator[pa.Table]:
    for part in listing.parts:
        yield from read_part(part, source, tuple(listing.schema.names), longest=None)


def _some(listing: InputListing, source: Input) -> Sample:
    """Read the first rows of parts that lie evenly over the input: no part is read further, however large it is."""
    n = len(listing.parts)
    places = [listing.parts[i * n // min(n, _PLACES)] for i in range(min(n, _PLACES))]
    most = _ROWS_OF_PLACES // len(places)
    tables = [table for part in places if (table := _first_of(part, listing, source, most)) is not None]
    return Sample(_together(tables, listing), False, len(tables), n)


def _first_of(part: InputPart, listing: InputListing, source: Input, most: int) -> pa.Table | None:
    rows = first_rows(part, source, tuple(listing.schema.names))
    # A copy: a slice would hold all of what was read.
    return None if rows is None else rows.take(pa.array(range(min(rows.num_rows, most))))


def _together(tables: list[pa.Table], listing: InputListing) -> pa.Table:
    return pa.concat_tables(tables) if tables else listing.schema.empty_table()


def _cut(listing: InputListing, source: Input) -> InputListing:
    form = input_format(source)
    stretches = form.to_scan(listing, source)
    if not 0 < len(stretches) <= _MOST_SCANNED:
        return listing
    return form.cut(listing, source, [(one, form.scan(one, source)) for one in stretches])
