"""Parquet: a file is one stretch, or several where its row groups are large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet

from microagg_core.data.formats.inputs.contract import BATCH_ROWS, PART_BYTES, FileFormat, Place, Stretch
from microagg_core.data.formats.inputs.row_groups import FileAhead, blocks_of
from microagg_core.errors import DataError
from microagg_core.spec.places import Input
from microagg_core.store.urls import shown

#: Rows that are decoded at once, at most, and bytes of a batch from which on it takes no more of them.
_DECODED_ROWS, _BATCH_BYTES = 1024, 32 * 2**20
#: Packing makes texts that differ this many times smaller at most: zstd takes words of a language to a tenth.
_HONEST_PACKING = 50


class Parquet(FileFormat):
    """A stretch's place is its first row group and the one behind its last."""

    name = "parquet"

    def layout(self, file: BinaryIO, url: str, source: Input) -> tuple[pa.Schema, list[tuple[Place, int]]]:
        """From the footer alone."""
        content = _read(file, url)
        meta = content.metadata
        places: list[tuple[Place, int]] = []
        start, size, whole = 0, 0, 0
        for group in range(meta.num_row_groups):
            size += (n := meta.row_group(group).total_byte_size)
            whole += n
            if size >= PART_BYTES or group == meta.num_row_groups - 1:
                places.append(((start, group + 1), size))
                start, size = group + 1, 0
        return content.schema_arrow, places if len(places) > 1 else [((), whole)]

    def rows_in(self, file: BinaryIO, url: str, source: Input) -> Iterator[int]:
        """From the footer."""
        yield _read(file, url).metadata.num_rows

    def ready(self, file: BinaryIO, stretch: Stretch, source: Input, columns: tuple[str, ...]) -> BinaryIO:
        """Its row groups, the next of them fetched while one is read."""
        fetched = FileAhead(file)
        meta = _read(fetched, stretch.url).metadata  # type: ignore[arg-type]
        first, end = stretch.place or (0, meta.num_row_groups)
        fetched.expect([blocks_of(meta, group, columns) for group in range(first, end)])
        return fetched  # type: ignore[return-value]

    def rows_of(
        self, file: BinaryIO, stretch: Stretch, source: Input, columns: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        """Only what the columns need is fetched, unless the file is small."""
        content = _read(file, stretch.url)
        first, end = stretch.place or (0, content.metadata.num_row_groups)
        groups = range(first, end)
        n_rows = min((_decoded_rows(content.metadata.row_group(g)) for g in groups), default=BATCH_ROWS)
        try:
            yield from _joined(
                content.iter_batches(batch_size=n_rows, row_groups=groups, columns=list(columns), use_threads=False)
            )
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"row groups {first} to {end - 1} of {shown(stretch.url)} cannot be read ({type(error).__name__}): "
                "the file is damaged or changed meanwhile; write it again"
            ) from None


def _decoded_rows(group: pa.parquet.RowGroupMetaData) -> int:
    """Rows of a group that are decoded at once, a power of two.

    A dictionary has a value once, however many rows have it, so no footer says what they come to: 600 rows of 1 MB were
    a file of 1.3 kB. A value is at most as long as its dictionary, which is taken for its length where it is packed as
    no honest text is; elsewhere it would make batches of some ten rows, which took 600 us a row.
    """
    chunks = [group.column(j) for j in range(group.num_columns)]
    longest: int = sum(
        c.total_uncompressed_size
        for c in chunks
        if c.physical_type == "BYTE_ARRAY" and c.total_uncompressed_size > _HONEST_PACKING * c.total_compressed_size
    )
    return min(_DECODED_ROWS, 1 << max(0, (_BATCH_BYTES // max(1, longest)).bit_length() - 1))


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches as large as everywhere, where their bytes allow it."""
    held: list[pa.RecordBatch] = []
    rows = n_bytes = 0
    for batch in batches:
        held.append(batch)
        rows, n_bytes = rows + batch.num_rows, n_bytes + batch.nbytes
        if rows >= BATCH_ROWS or n_bytes >= _BATCH_BYTES:
            yield pa.concat_batches(held) if len(held) > 1 else held[0]
            held, rows, n_bytes = [], 0, 0
    if held:
        yield pa.concat_batches(held) if len(held) > 1 else held[0]


def _read(file: BinaryIO, url: str) -> pa.parquet.ParquetFile:
    try:
        return pa.parquet.ParquetFile(file, pre_buffer=False)
    except (pa.ArrowException, OSError):
        raise DataError(
            f"{shown(url)} is not a readable Parquet file (truncated, or of another format); "
            "write it again or set input.format"
        ) from None


FORMAT = Parquet()
