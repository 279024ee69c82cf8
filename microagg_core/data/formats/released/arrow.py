"""Arrow IPC files, which are Feather files too.

Such a file is made of the very buffers that columns have in memory, so it would carry what was masked: an Arrow column
keeps the bytes of a value that has become null. Nothing lies under a null of a released file.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from microagg_core.data.formats.writing import BATCH_ROWS, ReaderCode, ReleasedFormat, pandas_frames
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.types import is_text


class ArrowRelease(ReleasedFormat):
    name = "arrow"
    title = "Arrow IPC (Feather, version 2)"
    media_type = "application/vnd.apache.arrow.file"
    reader_code = ReaderCode(
        pandas=pandas_frames('pd.read_feather(file, dtype_backend="pyarrow")'),
        polars="pl.read_ipc(file)",
        r="data <- do.call(rbind, lapply(files, arrow::read_feather))\n",
        duckdb_function="read_arrow",
        duckdb_setup="""\
-- Arrow files are read by an extension of DuckDB's community.
INSTALL nanoarrow FROM community;
LOAD nanoarrow;
""",
        duckdb_imports="import duckdb\nimport pyarrow as pa\nfrom pyarrow import feather\n",
        duckdb="""\
# views.sql has a view of these files as well, which needs DuckDB's extension nanoarrow.
tables = []
for name in files:
    with fsspec.open(name) as file:
        tables.append(feather.read_table(file))
data = duckdb.from_arrow(pa.concat_tables(tables))
""",
    )
    needs_valid_text = True

    def to_bytes(self, table: pa.Table, blocking: list[str]) -> bytes:
        sink = io.BytesIO()
        columns = [zeros_under_nulls(one_array(column)) for column in table.columns]
        options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
        with pa.ipc.new_file(sink, table.schema, options=options) as writer:
            writer.write_table(pa.Table.from_arrays(columns, schema=table.schema), max_chunksize=BATCH_ROWS)
        return sink.getvalue()

    def from_bytes(self, data: bytes, declared: pa.Schema) -> pa.Table:
        with pa.BufferReader(data) as source:
            file = _open(source)
            return pa.Table.from_batches(_record_batches(file), file.schema)

    def besides(self, path: Path, blocking: Collection[str]) -> str | None:
        with pa.OSFile(str(path)) as source:
            file = _open(source)
            if getattr(file, "metadata", None) or file.schema.metadata or any(f.metadata for f in file.schema):
                return "metadata"
            for number in range(file.num_record_batches):
                batch, told = file.get_batch_with_custom_metadata(number)
                if told:
                    return "metadata of a batch"
                if any(_lies_under_nulls(column) for column in batch.columns):
                    return "values under its nulls"
        return None

    def batches(self, path: Path, declared: Mapping[str, str]) -> tuple[pa.Schema, Iterator[pa.Table]]:
        source = pa.OSFile(str(path))
        file = _open(source)
        return file.schema, _tables(source, file)


def _open(source: pa.NativeFile) -> pa.ipc.RecordBatchFileReader:
    return pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(use_threads=False))


def _tables(source: pa.NativeFile, file: pa.ipc.RecordBatchFileReader) -> Iterator[pa.Table]:
    with source:
        for batch in _record_batches(file):
            yield pa.table(batch)


def _record_batches(file: pa.ipc.RecordBatchFileReader) -> Iterator[pa.RecordBatch]:
    for number in range(file.num_record_batches):
        batch = file.get_batch(number)
        # To compute with buffers that are too short would end the process.
        batch.validate(full=True)
        yield batch


def zeros_under_nulls(array: pa.Array) -> pa.Array:
    """Put zeros or texts without length under nulls; the values stay.

    >>> import numpy as np
    >>> masked = pa.array(np.array([7, 8]), mask=np.array([False, True]))
    >>> np.frombuffer(zeros_under_nulls(masked).buffers()[1], dtype=np.int64)[:2].tolist()
    [7, 0]
    """
    if array.null_count == 0 or pa.types.is_null(array.type):
        return array
    filled = pc.fill_null(array, _nothing(array.type))
    validity = pc.is_valid(array).buffers()[1]
    return pa.Array.from_buffers(array.type, len(array), [validity, *filled.buffers()[1:]])


def _lies_under_nulls(array: pa.Array) -> bool:
    array.validate(full=True)
    bare = zeros_under_nulls(array)
    pairs = zip(array.buffers()[1:], bare.buffers()[1:], strict=True)
    return any(not _same_start(has, should) for has, should in pairs if has is not None and should is not None)


def _same_start(has: pa.Buffer, should: pa.Buffer) -> bool:
    size = min(has.size, should.size)
    longer = has if has.size > size else should
    return bool(has.slice(0, size).equals(should.slice(0, size))) and not any(longer.slice(size).to_pybytes())


def _nothing(kind: pa.DataType) -> pa.Scalar:
    """A value whose bits are zero, or a text without length."""
    if is_text(kind):
        return pa.scalar("", kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.scalar(b"", kind)
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes((kind.bit_width + 7) // 8))])[0]
