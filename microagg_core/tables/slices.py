"""Rows on their way between partitions: one object holds many slices, each a whole Arrow stream of its own.

A task that sends rows to many others writes one object with the slices in order of their destination, and returns
where each begins and ends; a receiving task reads its ranges. So a shuffle of p by q needs p objects, not p times q.

Slices are written narrow: texts that repeat as a dictionary, record numbers as differences, small numbers in few bytes,
which compress to a fraction of themselves. A reader gets the columns as they were.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.tables.hashing import is_text_or_bytes, one_array

#: The column of private record numbers.
RECORD = "record"

_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
#: A text column becomes a dictionary where values come this often on average.
_LEAST_REPEATS = 4
#: What a narrow column's field says: whether it is a dictionary, the number that differences start from, or that its
#: whole numbers were of 64 bits.
_DICTIONARY, _FIRST, _WIDE = b"dictionary", b"first", b"wide"


@dataclass(frozen=True)
class Slice:
    """Where the rows for one destination lie: in which object of which task, from byte to byte."""

    #: The number of the task that wrote the object, and that of the object among the task's own.
    maker: int
    object: int
    destination: int
    start: int
    end: int
    rows: int
    checksum: int


def write_slices(table: pa.Table, destination: Ints, maker: int, number: int = 0) -> tuple[bytes, list[Slice]]:
    """Serialize the rows by destination, keeping their order within each, as object ``number`` of task ``maker``.

    >>> data, slices = write_slices(pa.table({"a": [1, 2, 3]}), np.array([7, 2, 7]), maker=0)
    >>> [(s.destination, s.rows) for s in slices], read_slice(data[slices[1].start : slices[1].end])["a"].to_pylist()
    ([(2, 1), (7, 2)], [1, 3])
    """
    order = np.argsort(destination, kind="stable")
    ordered = table.take(pa.array(order)).combine_chunks()
    present, first = np.unique(destination[order], return_index=True)
    bounds = [*first.tolist(), len(destination)]
    sink = io.BytesIO()
    slices = []
    for i, receiver in enumerate(present.tolist()):
        rows = bounds[i + 1] - bounds[i]
        data = to_bytes(_narrowed(ordered.slice(bounds[i], rows)))
        start = sink.tell()
        sink.write(data)
        slices.append(Slice(maker, number, receiver, start, sink.tell(), rows, zlib.crc32(data)))
    return sink.getvalue(), slices


def read_slice(data: bytes) -> pa.Table:
    """The table of one slice: the very bytes that were written, since Arrow may not survive others."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return _restored(reader.read_all())


def to_bytes(table: pa.Table) -> bytes:
    """A table as one Arrow stream."""
    sink = io.BytesIO()
    # A slice shares its parent's buffers; only the rows themselves are written.
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _narrowed(table: pa.Table) -> pa.Table:
    """The rows in fewer bytes; the fields say how to read them."""
    columns = [_narrow_column(name, one_array(table[name])) for name in table.column_names]
    fields = [pa.field(n, c.type, metadata=how) for n, (c, how) in zip(table.column_names, columns, strict=True)]
    return pa.Table.from_arrays([column for column, _ in columns], schema=pa.schema(fields))


def _narrow_column(name: str, array: pa.Array) -> tuple[pa.Array, dict[bytes, bytes]]:
    if name == RECORD:
        numbers = np.asarray(array)
        steps = np.diff(numbers, prepend=numbers[0])
        narrow = np.min_scalar_type(-1 - int(np.abs(steps).max()))
        return pa.array(steps.astype(narrow)), {_FIRST: str(numbers[0]).encode()}
    if is_text_or_bytes(array.type) and not pa.types.is_fixed_size_binary(array.type):
        values = array.dictionary_encode()
        if len(values.dictionary) * _LEAST_REPEATS <= len(array):
            return values, {_DICTIONARY: b"yes"}
    if array.type in (pa.int64(), pa.uint64()) and len(array) and not array.null_count:
        numbers = np.asarray(array)
        narrow = np.promote_types(np.min_scalar_type(numbers.min()), np.min_scalar_type(numbers.max()))
        if narrow.kind in "iu" and narrow.itemsize < numbers.itemsize:
            return pa.array(numbers.astype(narrow)), {_WIDE: str(array.type).encode()}
    return array, {}


def _restored(table: pa.Table) -> pa.Table:
    """Inverse of :func:`_narrowed`; other tables stay as they are."""
    for j, field in enumerate(table.schema):
        how = field.metadata or {}
        if _DICTIONARY in how:
            table = table.set_column(j, field.name, table[j].cast(field.type.value_type))
        elif _FIRST in how:
            numbers = np.cumsum(np.asarray(table[j]), dtype=np.int64) + int(how[_FIRST])
            table = table.set_column(j, field.name, pa.array(numbers))
        elif _WIDE in how:
            table = table.set_column(j, field.name, table[j].cast(how[_WIDE].decode()))
    return table
