"""Parquet: a file is one stretch, or several where its row groups are large."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet

from microagg_core.errors import DataError
from microagg_core.formats.inputs.contract import BATCH_ROWS, PART_BYTES, FileFormat, Place, Stretch
from microagg_core.formats.inputs.row_groups import FileAhead, blocks_of
from microagg_core.spec.places import Input
from microagg_core.storage.urls import shown


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
        try:
            yield from content.iter_batches(
                batch_size=BATCH_ROWS, row_groups=range(first, end), columns=list(columns), use_threads=False
            )
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"row groups {first} to {end - 1} of {shown(stretch.url)} cannot be read ({type(error).__name__}): "
                "the file is damaged or changed meanwhile; write it again"
            ) from None


def _read(file: BinaryIO, url: str) -> pa.parquet.ParquetFile:
    try:
        return pa.parquet.ParquetFile(file, pre_buffer=False)
    except (pa.ArrowException, OSError):
        raise DataError(
            f"{shown(url)} is not a readable Parquet file (truncated, or of another format); "
            "write it again or set input.format"
        ) from None


FORMAT = Parquet()
