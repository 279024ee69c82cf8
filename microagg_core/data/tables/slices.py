"""Rows on their way between partitions: one object holds many slices, each read by itself.

A task that sends rows to many others writes one object with the slices in order of their destination, and returns
where each begins and ends; a receiving task reads its ranges. So a shuffle of p by q needs p objects, not p times q.
Where they lie is told in arrays: of a census there are millions of them.

A pack of rows is narrowed once, and every slice of it is one frame, compressed at once: whole numbers take as few bytes
as the pack's need, record numbers are steps, and texts that repeat are codes, beside which a frame has the values that
its own codes stand for. A frame says all that it takes to read it; frames of one pack say it in the same bytes.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from microagg_core.arrays import Ints
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.ordering import ascending_order
from microagg_core.data.tables.types import is_text_or_bytes

#: How a frame begins, which no Arrow stream does.
MAGIC = b"rows"
#: Behind it: the bytes of the schema and of the texts' values, the first record number, and the bytes of all that
#: follows, compressed and not.
_HEAD = struct.Struct("<4sIQqQQ")
#: Arrow reads columns in place, and they are to lie where a processor reads them best.
_ALIGNED = 64
_CODEC = "zstd"
#: A text column becomes codes where values come this often on average.
_LEAST_REPEATS = 4
#: What a narrow column's field says: that it is codes, that it is steps of record numbers, or what its numbers were.
_CODES, _STEPS, _WIDE = b"codes", b"steps", b"wide"
#: Schemas that are kept parsed: a task reads what few packs of few steps have written.
_KEPT_SCHEMAS = 64


def can_be_framed(schema: pa.Schema) -> bool:
    """Tell whether rows can be framed: dictionaries cannot, which Arrow writes in streams alone.

    >>> can_be_framed(pa.schema({"a": pa.int8()})), can_be_framed(pa.schema({"a": pa.dictionary(pa.int8(), "str")}))
    (True, False)
    """
    return not any(map(_holds_dictionary, schema.types))


def _holds_dictionary(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    inner = [kind.field(j).type for j in range(kind.num_fields)]
    return pa.types.is_dictionary(kind) or any(map(_holds_dictionary, inner))


def frames_of(table: pa.Table, order: Ints, bounds: Ints, stepped: str = "") -> Iterator[bytes]:
    """Cut ordered rows at bounds into frames; ``stepped`` names a column of numbers that ascend.

    >>> first, second = frames_of(pa.table({"a": [1, 2, 3]}), np.array([1, 0, 2]), np.array([0, 1, 3]))
    >>> [rows["a"].to_pylist() for rows in (*tables_of([first]), *tables_of([second]), *tables_of([first, second]))]
    [[2], [1, 3], [2, 1, 3]]
    """
    columns, fields, values = [], [], {}
    firsts = np.zeros(len(bounds) - 1, dtype=np.int64)
    for name in table.column_names:
        array, how = one_array(table[name]), dict[bytes, bytes]()
        if name == stepped:
            array, firsts = _steps(np.asarray(array)[order], bounds)
            how = {_STEPS: b"yes"}
        else:
            coded = _coded(array)
            array, how = (coded.indices, {_CODES: b"yes"}) if coded is not None else _narrow_numbers(array)
            array = array.take(pa.array(order))
            if coded is not None:
                array, values[name] = _own_codes(array, coded.dictionary, bounds)
        columns.append(array)
        fields.append(pa.field(name, array.type, metadata=how))
    rows = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
    texts = pa.RecordBatch.from_pydict(values)
    schema = pa.schema([*fields, *texts.schema]).serialize().to_pybytes()
    codec = pa.Codec(_CODEC)
    for i, (start, end) in enumerate(pairwise(bounds.tolist())):
        told = texts.slice(i, 1).serialize().to_pybytes() if values else b""
        raw = b"".join((_padded(schema), _padded(told), rows.slice(start, end - start).serialize()))
        data = codec.compress(raw, asbytes=True)
        yield _HEAD.pack(MAGIC, len(schema), len(told), int(firsts[i]), len(data), len(raw)) + data


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNED)


def _steps(numbers: Ints, bounds: Ints) -> tuple[pa.Array, Ints]:
    """Each number as the step from the one before it in its frame, and the frames' first numbers."""
    firsts = numbers[bounds[:-1]].astype(np.int64)
    steps = np.diff(numbers, prepend=numbers[:1])
    steps[bounds[:-1]] = 0
    return pa.array(steps.astype(np.min_scalar_type(min(int(steps.min()), -1 - int(steps.max()))))), firsts


def _coded(array: pa.Array) -> pa.DictionaryArray | None:
    """Code a column of texts that repeat; None where it is none."""
    if not is_text_or_bytes(array.type) or pa.types.is_fixed_size_binary(array.type):
        return None
    coded = array.dictionary_encode()
    return coded if len(coded.dictionary) * _LEAST_REPEATS <= len(array) else None


def _own_codes(codes: pa.Array, dictionary: pa.Array, bounds: Ints) -> tuple[pa.Array, pa.Array]:
    """Codes that count the values of their own frame, and a list of those values for each frame."""
    missing = np.asarray(codes.is_null()) if codes.null_count else None
    numbers = np.asarray(codes.fill_null(0)) if codes.null_count else np.asarray(codes)
    own, used = np.empty(len(numbers), dtype=np.min_scalar_type(max(len(dictionary) - 1, 0))), []
    number_of = np.zeros(len(dictionary) + 1, dtype=own.dtype)
    for start, end in pairwise(bounds.tolist()):
        there = np.zeros(len(dictionary), dtype=bool)
        there[numbers[start:end] if missing is None else numbers[start:end][~missing[start:end]]] = True
        used.append(np.flatnonzero(there))
        number_of[used[-1]] = np.arange(len(used[-1]))
        own[start:end] = number_of[numbers[start:end]]
    ends = np.cumsum([0, *map(len, used)])
    values = dictionary.take(pa.array(np.concatenate(used)))
    return pa.array(own, mask=missing), pa.LargeListArray.from_arrays(pa.array(ends), values)


def _narrow_numbers(array: pa.Array) -> tuple[pa.Array, dict[bytes, bytes]]:
    if array.type not in (pa.int64(), pa.uint64()) or array.null_count == len(array):
        return array, {}
    least, most = pc.min_max(array).values()
    narrow = np.promote_types(np.min_scalar_type(least.as_py()), np.min_scalar_type(most.as_py()))
    if narrow.kind not in "iu" or narrow.itemsize >= array.type.byte_width:
        return array, {}
    return array.cast(pa.from_numpy_dtype(narrow)), {_WIDE: str(array.type).encode()}


@dataclass(frozen=True)
class _Frame:
    """A frame, decompressed: its columns, its rows, the texts' values, and the first record number."""

    told: bytes
    rows: pa.Buffer
    values: pa.Buffer
    first: int

    @classmethod
    def read(cls, data: memoryview) -> _Frame:
        _, n_schema, n_values, first, n_data, n_raw = _HEAD.unpack_from(data)
        raw = pa.decompress(data[_HEAD.size : _HEAD.size + n_data], n_raw, codec=_CODEC)
        at = n_schema + -n_schema % _ALIGNED
        rows = at + n_values + -n_values % _ALIGNED
        return cls(raw.slice(0, n_schema).to_pybytes(), raw.slice(rows), raw.slice(at, n_values), first)


def frame_bytes(data: memoryview) -> int:
    """Length of the frame with which some bytes begin."""
    return _HEAD.size + int(_HEAD.unpack_from(data)[4])


def tables_of(frames: Sequence[bytes | memoryview]) -> list[pa.Table]:
    """Rows of frames, in their order; those of frames that say the same of their columns are one table."""
    read = [_Frame.read(memoryview(one)) for one in frames]
    return [_restored(_parsed(told), list(some)) for told, some in groupby(read, key=lambda frame: frame.told)]


@lru_cache(maxsize=_KEPT_SCHEMAS)
def _parsed(told: bytes) -> tuple[pa.Schema, pa.Schema]:
    schema = pa.ipc.read_schema(pa.py_buffer(told))
    n_texts = sum(_CODES in (field.metadata or {}) for field in schema)
    fields = list(schema)
    return pa.schema(fields[: len(fields) - n_texts]), pa.schema(fields[len(fields) - n_texts :])


def _restored(schemas: tuple[pa.Schema, pa.Schema], frames: list[_Frame]) -> pa.Table:
    schema, of_texts = schemas
    batches = [pa.ipc.read_record_batch(frame.rows, schema) for frame in frames]
    table, values = pa.Table.from_batches(batches, schema), None
    if len(of_texts):
        values = pa.Table.from_batches([pa.ipc.read_record_batch(frame.values, of_texts) for frame in frames])
    sizes = np.array([batch.num_rows for batch in batches])
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        how = field.metadata or {}
        if values is not None and _CODES in how:
            column = _texts(one_array(column), one_array(values[field.name]), sizes)
        elif _STEPS in how:
            column = pa.array(_numbers(np.asarray(column), np.array([frame.first for frame in frames]), sizes))
        elif _WIDE in how:
            column = column.cast(how[_WIDE].decode())
        columns.append(column)
    return pa.Table.from_arrays(columns, names=schema.names)


def _numbers(steps: Ints, firsts: Ints, sizes: Ints) -> Ints:
    summed = np.cumsum(steps, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    summed += np.repeat(firsts - summed[starts], sizes)
    return summed


def _texts(codes: pa.Array, values: pa.Array, sizes: Ints) -> pa.Array:
    counts = np.asarray(values.value_lengths())
    before = np.repeat(np.cumsum(counts) - counts, sizes)
    numbers = np.asarray(codes.fill_null(0) if codes.null_count else codes) + before
    return values.flatten().take(pa.array(numbers, mask=np.asarray(codes.is_null()) if codes.null_count else None))


#: The column of private record numbers.
RECORD = "record"

_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)


class Slice(NamedTuple):
    """Place of the rows for one destination: an object of a task, from byte to byte."""

    #: The number of the task that wrote the object, and that of the object among the task's own.
    maker: int
    object: int
    destination: int
    start: int
    end: int
    rows: int
    checksum: int


_WIDTHS = (np.uint32, np.uint32, np.uint32, np.uint64, np.uint64, np.uint32, np.uint64)
_FIELDS = np.dtype(list(zip(Slice._fields, _WIDTHS, strict=True)))


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
        return cls(np.array(list(slices), dtype=_FIELDS))

    @classmethod
    def from_bytes(cls, data: bytes) -> Slices:
        return cls(np.frombuffer(data, dtype=_FIELDS))

    @classmethod
    def joined(cls, some: Iterable[Slices]) -> Slices:
        return cls(np.concatenate([np.empty(0, dtype=_FIELDS), *(one.array for one in some)]))

    def to_bytes(self) -> bytes:
        return self.array.tobytes()

    def by_destination(self, n: int) -> list[Slices]:
        """Those for each of the destinations 0 to n-1, in the order of their makers and objects."""
        array = self.array
        ordered = array[np.lexsort((array["start"], array["object"], array["maker"], array["destination"]))]
        bounds = np.searchsorted(ordered["destination"], np.arange(n + 1)).tolist()
        return [Slices(ordered[a:b]) for a, b in pairwise(bounds)]

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
    if can_be_framed(table.schema):
        return frames_of(table, order, bounds, RECORD)
    ordered = table.take(pa.array(order)).combine_chunks()
    return (to_bytes(ordered.slice(start, end - start)) for start, end in pairwise(bounds.tolist()))


def join_slices(written: Sequence[tuple[bytes, Slices]]) -> tuple[bytes, Slices]:
    """Join objects of one task; the slices for a destination lie behind each other and count as one.

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
        before = joined.get(destination, one._replace(start=sink.tell(), rows=0, checksum=0))
        sink.write(data)
        checksum = zlib.crc32(data, before.checksum)
        joined[destination] = before._replace(end=sink.tell(), rows=before.rows + one.rows, checksum=checksum)
    return sink.getvalue(), Slices.of(joined.values())


def write_no_rows(table: pa.Table, destination: int, maker: int, number: int = 0) -> tuple[bytes, Slices]:
    """Write a slice without a row, for who needs to know the columns all the same."""
    data = to_bytes(table)
    return data, Slices.of([Slice(maker, number, destination, 0, len(data), 0, zlib.crc32(data))])


def read_slice(data: bytes) -> pa.Table:
    """Read slices, one or several that lie behind each other; or a table as :func:`to_bytes` writes it.

    The bytes are the very ones that were written, since Arrow may not survive others.
    """
    return read_together([data])


def read_together(every: Iterable[bytes]) -> pa.Table:
    """Read several of what :func:`read_slice` reads, in their order; it takes less than one by one.

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
    sink = io.BytesIO()
    # A slice shares its parent's buffers; only the rows themselves are written.
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
    return sink.getvalue()
