"""Parquet: a file is one part, or several where its row groups are large."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet

from microagg_core.errors import DataError
from microagg_core.formats.inputs.contract import BATCH_ROWS, PART_BYTES, FileFormat, InputPart, Place
from microagg_core.spec.places import Input
from microagg_core.storage.inputs import open_input
from microagg_core.storage.urls import shown


class Parquet(FileFormat):
    """A part's place is its first row group and the one behind its last."""

    name = "parquet"

    def layout(self, url: str, source: Input) -> tuple[pa.Schema, list[Place]]:
        """From the footer alone."""
        with _open(url, source) as file:
            meta = file.metadata
            places: list[Place] = []
            start, size = 0, 0
            for group in range(meta.num_row_groups):
                size += meta.row_group(group).total_byte_size
                if size >= PART_BYTES or group == meta.num_row_groups - 1:
                    places.append((start, group + 1))
                    start, size = group + 1, 0
            return file.schema_arrow, places or [(0, 0)]

    def rows_in(self, url: str, source: Input) -> Iterator[int]:
        """From the footer."""
        with _open(url, source) as file:
            yield file.metadata.num_rows

    def batches(self, part: InputPart, source: Input, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Only what the columns need is fetched."""
        first, end = part.place
        with _open(part.url, source) as file:
            try:
                yield from file.iter_batches(
                    batch_size=BATCH_ROWS, row_groups=range(first, end), columns=list(columns), use_threads=False
                )
            except (pa.ArrowException, OSError) as error:
                raise DataError(
                    f"row groups {first} to {end - 1} of {shown(part.url)} cannot be read ({type(error).__name__}): "
                    "the file is damaged or changed meanwhile; write it again"
                ) from None


def _open(url: str, source: Input) -> pa.parquet.ParquetFile:
    handle = open_input(url, source.storage_options)
    try:
        return pa.parquet.ParquetFile(handle, pre_buffer=False)
    except (pa.ArrowException, OSError):
        raise DataError(
            f"{shown(url)} is not a readable Parquet file (truncated, or of another format); "
            "write it again or set input.format"
        ) from None


FORMAT = Parquet()
