"""Rows on their way between partitions: one object holds many slices, each read by itself.

A task that sends rows to many others writes one object with the slices in order of their destination, and returns
where each begins and ends; a receiving task reads its ranges. So a shuffle of p by q needs p objects, not p times q.

Slices are written narrow, as frames (frames.py), and a reader gets the columns as they were. Where they lie is told in
arrays: of a census there are millions of them.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Ints
from microagg_core.data.tables.frames import MAGIC, can_be_framed, frame_bytes, frames_of, tables_of
from microagg_core.data.tables.ordering import ascending_order

#: The column of private record numbers.
RECORD = "record"

_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)


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


_FIELDS = np.dtype(
    [
        ("maker", np.uint32),
        ("object", np.uint32),
        ("destination", np.uint32),
        ("start", np.uint64),
        ("end", np.uint64),
        ("rows", np.uint32),
        ("checksum", np.uint64),
    ]
)
_values = attrgetter(*_FIELDS.names or ())


class Slices(Sequence[Slice]):
    """Many slices as one array: 40 bytes each, wherever they are kept or sent.

    >>> both = Slices.of([Slice(0, 0, 7, 0, 9, 2, 1)]) + Slices.of([Slice(1, 0, 2, 0, 5, 1, 2)])
    >>> len(both), both[1].destination, [len(some) for some in both.by_destination(8)]
    (2, 2, [0, 0, 1, 0, 0, 0, 0, 1])
    """

    def __init__(self, array: NDArray[Any] | None = None) -> None:
        self.array = np.empty(0, dtype=_FIELDS) if array is None else array

    @classmethod
    def of(cls, slices: Iterable[Slice]) -> Slices:
        """These slices."""
        return cls(np.array([_values(one) for one in slices], dtype=_FIELDS))

    @classmethod
    def from_bytes(cls, data: bytes) -> Slices:
        """Inverse of :meth:`to_bytes`."""
        return cls(np.frombuffer(data, dtype=_FIELDS))

    @classmethod
    def joined(cls, some: Iterable[Slices]) -> Slices:
        """All of them, in their order."""
        return cls(np.concatenate([np.empty(0, dtype=_FIELDS), *(one.array for one in some)]))

    def to_bytes(self) -> bytes:
        """As the bytes of the array."""
        return self.array.tobytes()

    def of_objects(self, *objects: int) -> Slices:
        """Those of some of their makers' objects."""
        return Slices(self.array[np.isin(self.array["object"], objects)])

    def by_destination(self, n: int) -> list[Slices]:
        """Those for each of the destinations 0 to n-1, in the order of their makers and objects."""
        array = self.array
        ordered = array[np.lexsort((array["start"], array["object"], array["maker"], array["destination"]))]
        bounds = np.searchsorted(ordered["destination"], np.arange(n + 1)).tolist()
        return [Slices(ordered[a:b]) for a, b in pairwise(bounds)]

    def moved(self, first: int, to: int) -> Slices:
        """Those for destinations from ``first`` on, which is now called ``to``, as the ones after it.

        >>> Slices.of([Slice(0, 0, 4, 0, 5, 1, 2), Slice(0, 0, 7, 5, 9, 2, 1)]).moved(6, 100)[0].destination
        101
        """
        moved = self.array[self.array["destination"] >= first].copy()
        moved["destination"] = moved["destination"] - first + to
        return Slices(moved)

    @overload
    def __getitem__(self, index: int) -> Slice: ...
    @overload
    def __getitem__(self, index: slice) -> Slices: ...
    def __getitem__(self, index: int | slice) -> Slice | Slices:
        return Slices(self.array[index]) if isinstance(index, slice) else Slice(*self.array[index].tolist())

    def __iter__(self) -> Iterator[Slice]:
        return (Slice(*one) for one in self.array.tolist())

    def __len__(self) -> int:
        return len(self.array)

    def __add__(self, other: Slices) -> Slices:
        return Slices.joined((self, other))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slices) and np.array_equal(self.array, other.array)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Slices({len(self)})"


def write_slices(table: pa.Table, destination: Ints, maker: int, number: int = 0) -> tuple[bytes, Slices]:
    """Serialize the rows by destination, keeping their order within each, as object ``number`` of task ``maker``.

    >>> data, slices = write_slices(pa.table({"a": [1, 2, 3]}), np.array([7, 2, 7]), maker=0)
    >>> [(s.destination, s.rows) for s in slices], read_slice(data[slices[1].start : slices[1].end])["a"].to_pylist()
    ([(2, 1), (7, 2)], [1, 3])
    """
    if not table.num_rows:
        return b"", Slices()
    order = ascending_order(destination)
    ordered = destination[order]
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(ordered)) + 1, [len(ordered)]])
    receivers, rows = ordered[bounds[:-1]].tolist(), np.diff(bounds).tolist()
    sink = io.BytesIO()
    slices = []
    for data, receiver, n in zip(_cut(table, order, bounds), receivers, rows, strict=True):
        start = sink.tell()
        sink.write(data)
        slices.append(Slice(maker, number, receiver, start, sink.tell(), n, zlib.crc32(data)))
    return sink.getvalue(), Slices.of(slices)


def _cut(table: pa.Table, order: Ints, bounds: Ints) -> Iterator[bytes]:
    """The rows in an order, each cut by itself."""
    if can_be_framed(table.schema):
        return frames_of(table, order, bounds, RECORD)
    ordered = table.take(pa.array(order)).combine_chunks()
    return (to_bytes(ordered.slice(start, end - start)) for start, end in pairwise(bounds.tolist()))


def join_slices(written: Sequence[tuple[bytes, Slices]]) -> tuple[bytes, Slices]:
    """Objects of one task as one, in which the slices for a destination lie behind each other and count as one.

    >>> some = [write_slices(pa.table({"a": values}), np.array([7, 2]), maker=0) for values in ([1, 2], [3, 4])]
    >>> data, slices = join_slices(some)
    >>> [(s.destination, read_slice(data[s.start : s.end])["a"].to_pylist()) for s in slices]
    [(2, [2, 4]), (7, [1, 3])]
    """
    if len(written) == 1:
        return written[0]
    sink, joined = io.BytesIO(), dict[int, Slice]()
    every = [(one.destination, run, one) for run, (_, slices) in enumerate(written) for one in slices]
    for destination, run, one in sorted(every, key=lambda place: place[:2]):
        data = memoryview(written[run][0])[one.start : one.end]
        before = joined.get(destination, replace(one, start=sink.tell(), rows=0, checksum=0))
        sink.write(data)
        checksum = zlib.crc32(data, before.checksum)
        joined[destination] = replace(before, end=sink.tell(), rows=before.rows + one.rows, checksum=checksum)
    return sink.getvalue(), Slices.of(joined.values())


def write_no_rows(table: pa.Table, destination: int, maker: int, number: int = 0) -> tuple[bytes, Slices]:
    """A slice without a row, for who needs to know the columns all the same."""
    data = to_bytes(table)
    return data, Slices.of([Slice(maker, number, destination, 0, len(data), 0, zlib.crc32(data))])


def read_slice(data: bytes) -> pa.Table:
    """The rows of slices, one or several that lie behind each other; or a table as :func:`to_bytes` writes it.

    The bytes are the very ones that were written, since Arrow may not survive others.
    """
    return read_together([data])


def read_together(every: Iterable[bytes]) -> pa.Table:
    """The rows of several of what :func:`read_slice` reads, in their order; it takes less than one by one.

    >>> some = [write_slices(pa.table({"a": values}), np.array([7, 7]), maker=0)[0] for values in ([1, 2], [3, 4])]
    >>> read_together(some)["a"].to_pylist()
    [1, 2, 3, 4]
    """
    tables: list[pa.Table] = []
    frames: list[memoryview] = []
    for some in every:
        data, start = memoryview(some), 0
        while start < len(data):
            part = data[start:]
            if part[: len(MAGIC)] == MAGIC:
                n_bytes = frame_bytes(part)
                frames.append(part[:n_bytes])
            else:
                tables, frames, source = tables + tables_of(frames), [], pa.BufferReader(part)
                with pa.ipc.open_stream(source) as reader:
                    tables.append(reader.read_all())
                n_bytes = source.tell()
            start += n_bytes
    return pa.concat_tables(tables + tables_of(frames))


def to_bytes(table: pa.Table) -> bytes:
    """A table as one Arrow stream."""
    sink = io.BytesIO()
    # A slice shares its parent's buffers; only the rows themselves are written.
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
    return sink.getvalue()
