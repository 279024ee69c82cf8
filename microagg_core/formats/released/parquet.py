"""Parquet: statistics are written for the blocking columns only.

They serve readers who filter, and say nothing that the values do not.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from microagg_core.formats.released.contract import BATCH_ROWS, ReleasedFormat


class ParquetRelease(ReleasedFormat):
    """Carries nearly whatever Arrow does."""

    name = "parquet"

    def refusal(self, kind: pa.DataType) -> str | None:
        """A few types of times come back as others, which only the library knows."""
        column = pa.table({"x": pa.array([], kind)})
        carried = self.from_bytes(self.to_bytes(column, []), column.schema)["x"].type
        return None if carried == kind else f"{kind}, which Parquet keeps as {carried}; use arrow, or cast it"

    def to_bytes(self, table: pa.Table, blocking: list[str]) -> bytes:
        """Compressed."""
        sink = io.BytesIO()
        pa.parquet.write_table(table, sink, compression="zstd", write_statistics=blocking)
        return sink.getvalue()

    def from_bytes(self, data: bytes, declared: pa.Schema) -> pa.Table:
        """With the types that the file names."""
        return pa.parquet.read_table(io.BytesIO(data), use_threads=False)

    def batches(self, path: Path, declared: Mapping[str, str]) -> tuple[pa.Schema, Iterator[pa.Table]]:
        """The same, in batches."""
        file = pa.parquet.ParquetFile(path)
        return file.schema_arrow, _tables(file)


def _tables(file: pa.parquet.ParquetFile) -> Iterator[pa.Table]:
    with file:
        # All columns, not those of some names: a name with a dot in it would be taken for a path into a structure.
        for batch in file.iter_batches(batch_size=BATCH_ROWS, use_threads=False):
            yield pa.table(batch)


FORMAT = ParquetRelease
