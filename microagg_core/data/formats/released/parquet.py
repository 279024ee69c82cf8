"""Parquet: statistics are written for the blocking columns only.

They serve readers who filter, and say nothing that the values do not. Of metadata a file has the Arrow schema alone,
without which types such as seconds or large texts would come back as others.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from microagg_core.data.formats.writing import BATCH_ROWS, ReaderCode, ReleasedFormat, pandas_frames

_ARROW_SCHEMA = b"ARROW:schema"
_WRITER = re.compile(r"parquet-cpp-arrow version [0-9A-Za-z.+-]{1,40}")
#: The file's mark at both ends, and the footer's length before the last.
_MARKS_BYTES = 4 + 4 + 4


class ParquetRelease(ReleasedFormat):
    name = "parquet"
    title = "Parquet"
    media_type = "application/vnd.apache.parquet"
    #: The name under which Croissant's readers know it is older than the registered one.
    croissant_type = "application/x-parquet"
    reader_code = ReaderCode(
        pandas=pandas_frames('pd.read_parquet(file, dtype_backend="pyarrow")'),
        polars="pl.read_parquet(file)",
        r="data <- do.call(rbind, lapply(files, arrow::read_parquet))\n",
        duckdb_function="read_parquet",
    )

    def refusal(self, kind: pa.DataType) -> str | None:
        column = pa.table({"x": pa.array([], kind)})
        carried = self.from_bytes(self.to_bytes(column, []), column.schema)["x"].type
        return None if carried == kind else f"{kind}, which Parquet keeps as {carried}; use arrow, or cast it"

    def to_bytes(self, table: pa.Table, blocking: list[str]) -> bytes:
        sink = io.BytesIO()
        pa.parquet.write_table(table, sink, compression="zstd", write_statistics=blocking)
        return sink.getvalue()

    def from_bytes(self, data: bytes, declared: pa.Schema) -> pa.Table:
        return pa.parquet.read_table(io.BytesIO(data), use_threads=False)

    def besides(self, path: Path, blocking: Collection[str]) -> str | None:
        """Find metadata, another writer, statistics that the values do not have, and bytes that belong to nothing."""
        with pa.parquet.ParquetFile(path) as file:
            return (
                _beside_schema(file)
                or _beside_chunks(file.metadata, blocking)
                or _beside_values(file)
                or _beside_bytes(file.metadata, path.stat().st_size)
            )

    def batches(self, path: Path, declared: Mapping[str, str]) -> tuple[pa.Schema, Iterator[pa.Table]]:
        file = pa.parquet.ParquetFile(path)
        return file.schema_arrow, _tables(file)


def _tables(file: pa.parquet.ParquetFile) -> Iterator[pa.Table]:
    with file:
        # All columns, not those of some names: a name with a dot in it would be taken for a path into a structure.
        for batch in file.iter_batches(batch_size=BATCH_ROWS, use_threads=False):
            yield pa.table(batch)


def _beside_schema(file: pa.parquet.ParquetFile) -> str | None:
    own = dict(file.metadata.metadata or {})
    told = own.pop(_ARROW_SCHEMA, None)
    if own:
        return "metadata"
    if not _WRITER.fullmatch(file.metadata.created_by):
        return "the name of another writer"
    if told is not None:
        with pa.BufferReader(base64.b64decode(told, validate=True)) as source:
            schema = pa.ipc.read_schema(source)
        if schema.metadata or any(f.metadata for f in schema) or schema.names != file.schema_arrow.names:
            return "metadata in its schema"
    return None


def _chunks(metadata: pa.parquet.FileMetaData, group: int) -> list[pa.parquet.ColumnChunkMetaData]:
    return [metadata.row_group(group).column(number) for number in range(metadata.num_columns)]


def _beside_chunks(metadata: pa.parquet.FileMetaData, blocking: Collection[str]) -> str | None:
    for chunk in (chunk for group in range(metadata.num_row_groups) for chunk in _chunks(metadata, group)):
        if chunk.is_stats_set and chunk.path_in_schema not in blocking:
            return "statistics of a column that is not for blocking"
        if chunk.file_path:
            return "a link to another file"
        if getattr(chunk, "metadata", None):
            return "metadata of a column"
    return None


def _beside_values(file: pa.parquet.ParquetFile) -> str | None:
    """Find statistics that are not those of the very values: least and greatest of a file before masking, say."""
    for group in range(file.metadata.num_row_groups):
        chunks = _chunks(file.metadata, group)
        told = {chunk.path_in_schema: chunk.statistics for chunk in chunks if chunk.is_stats_set}
        if told and told != _statistics_of(file.read_row_group(group, columns=list(told), use_threads=False)):
            return "statistics that are not those of its values"
    return None


def _statistics_of(table: pa.Table) -> dict[str, pa.parquet.Statistics]:
    sink = io.BytesIO()
    pa.parquet.write_table(table, sink, row_group_size=max(table.num_rows, 1))
    chunks = _chunks(pa.parquet.read_metadata(io.BytesIO(sink.getvalue())), 0)
    return {chunk.path_in_schema: chunk.statistics for chunk in chunks}


def _beside_bytes(metadata: pa.parquet.FileMetaData, n_bytes: int) -> str | None:
    groups = range(metadata.num_row_groups)
    pages = sum(chunk.total_compressed_size for group in groups for chunk in _chunks(metadata, group))
    return None if pages + metadata.serialized_size + _MARKS_BYTES == n_bytes else "bytes that belong to no column"
