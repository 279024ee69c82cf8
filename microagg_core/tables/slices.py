"""Rows on their way between partitions: one object holds many slices, each a whole Arrow stream of its own.

A task that sends rows to many others writes one object with the slices in order of their destination, and returns
where each begins and ends; a receiving task reads its ranges. So a shuffle of p by q needs p objects, not p times q.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


@dataclass(frozen=True)
class Slice:
    """Where the rows for one destination lie in an object."""

    destination: int
    start: int
    end: int
    rows: int
    crc: int


def write_slices(table: pa.Table, destination: NDArray[np.int64]) -> tuple[bytes, list[Slice]]:
    """Serialize the rows by destination, keeping their order within each.

    >>> data, slices = write_slices(pa.table({"a": [1, 2, 3]}), np.array([7, 2, 7]))
    >>> [(s.destination, s.rows) for s in slices], read_slice(data[slices[1].start : slices[1].end])["a"].to_pylist()
    ([(2, 1), (7, 2)], [1, 3])
    """
    order = np.argsort(destination, kind="stable")
    ordered = table.take(pa.array(order)).combine_chunks()
    present, first = np.unique(destination[order], return_index=True)
    bounds = [*first.tolist(), len(destination)]
    sink = io.BytesIO()
    slices = []
    for i, number in enumerate(present.tolist()):
        data = to_bytes(ordered.slice(bounds[i], bounds[i + 1] - bounds[i]))
        start = sink.tell()
        sink.write(data)
        slices.append(Slice(number, start, sink.tell(), bounds[i + 1] - bounds[i], zlib.crc32(data)))
    return sink.getvalue(), slices


def read_slice(data: bytes) -> pa.Table:
    """The table of one slice: the very bytes that were written, since Arrow may not survive others."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def to_bytes(table: pa.Table) -> bytes:
    """A table as one Arrow stream."""
    sink = io.BytesIO()
    _write_stream(table, sink)
    return sink.getvalue()


def _write_stream(table: pa.Table, sink: io.BytesIO) -> None:
    # A slice shares its parent's buffers; only the rows themselves are written.
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
