"""Parquet: a file is one stretch, or several where its row groups are large."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet
import pyarrow.parquet as pq

from microagg_core.data.formats.reading import BATCH_ROWS, PART_BYTES, InputFormat, Place, Stretch, ahead
from microagg_core.data.places import Input
from microagg_core.data.tables.types import is_ordered, with_levels
from microagg_core.errors import DataError
from microagg_core.store.urls import shown

#: A row group is fetched as a whole up to this size; of a larger one Arrow asks for the columns itself. Two are held at
#: most, the one that is being read and the next, beside what Arrow holds of the first.
MOST_BYTES = 32 * 2**20
#: What lies between two columns is read along where that takes no longer than another request.
_GAP_BYTES = 256 * 2**10
#: The end of a file, which has the footer; Arrow asks for as much of it at first.
_FOOTER_BYTES = 64 * 2**10


@dataclass
class Block:
    """Bytes of a file, from ``start`` on, of which ``wanted`` are still to be read."""

    start: int
    end: int
    wanted: int
    data: bytes = b""

    def has(self, start: int, end: int) -> bool:
        return self.start <= start < end <= self.end


def blocks_of(meta: pq.FileMetaData, group: int, columns: Iterable[str]) -> list[Block]:
    """List where the columns of a row group lie, neighbours as one; nothing where they are too large to be held."""
    chunks, names = [], set(columns)
    for j in range(meta.num_columns):
        chunk = meta.row_group(group).column(j)
        if chunk.path_in_schema.partition(".")[0] in names:
            first = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
            start = min(first or chunk.data_page_offset, chunk.data_page_offset)
            chunks.append((start, chunk.total_compressed_size))
    blocks: list[Block] = []
    for start, size in sorted(chunks):
        if blocks and start - blocks[-1].end <= _GAP_BYTES:
            blocks[-1].end, blocks[-1].wanted = start + size, blocks[-1].wanted + size
        else:
            blocks.append(Block(start, start + size, size))
    return blocks if sum(block.end - block.start for block in blocks) <= MOST_BYTES else []


class FileAhead(io.RawIOBase):
    """A file whose row groups are fetched one ahead of what is read; whatever else is asked for, it fetches then."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._lock = file, Lock()
        self._size = file.seek(0, io.SEEK_END)
        self._position = 0
        start = max(0, self._size - _FOOTER_BYTES)
        self._footer = Block(start, self._size, 0, self._fetched(start, self._size))
        self._held: list[Block] = []
        self._coming: deque[list[Block]] = deque()
        self._arriving: Generator[list[Block]] = ahead(self._filled, [])

    def expect(self, groups: Sequence[list[Block]]) -> None:
        """Name row groups to be read, in order; a single one is fetched at once, of several each in its turn."""
        self._coming.extend(group for group in groups if group)
        self._arriving = ahead(self._filled, tuple(self._coming), 2)
        if len(self._coming) == 1:
            self._take()

    def read(self, size: int = -1) -> bytes:
        start = self._position
        end = self._size if size < 0 else min(self._size, start + size)
        self._position = max(start, end)
        return self._expected(start, end) or self._fetched(start, end)

    def _expected(self, start: int, end: int) -> bytes:
        """Take bytes from what is held or on its way; none where that is not all of them."""
        while (block := self._holding(start, end)) is None:
            if not any(block.has(start, end) for group in self._coming for block in group):
                return b""
            self._take()
        block.wanted -= end - start
        data = block.data[start - block.start : end - block.start]
        if block is not self._footer and block.wanted <= 0:  # every column is read once
            self._held.remove(block)
        return data

    def _holding(self, start: int, end: int) -> Block | None:
        return next((block for block in (self._footer, *self._held) if block.has(start, end)), None)

    def _take(self) -> None:
        """Hold the next row group, while the one behind it is fetched."""
        self._coming.popleft()
        arrived = next(self._arriving)
        self._held += arrived
        n_arrived = sum(len(block.data) for block in arrived)
        while sum(len(block.data) for block in self._held) > MOST_BYTES + n_arrived:
            self._held.pop(0)  # a column that nobody read after all

    def _filled(self, blocks: list[Block]) -> list[Block]:
        for block in blocks:
            block.data = self._fetched(block.start, block.end)
        return blocks

    def _fetched(self, start: int, end: int) -> bytes:
        with self._lock:
            self._file.seek(start)
            return self._file.read(end - start)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._arriving.close()
            self._held.clear()
            self._file.close()
        super().close()


#: Rows that are decoded at once, at most, and bytes of a batch from which on it takes no more of them.
_DECODED_ROWS, _BATCH_BYTES = 1024, 32 * 2**20
#: Packing makes texts that differ this many times smaller at most: zstd takes words of a language to a tenth.
_HONEST_PACKING = 50


class Parquet(InputFormat):
    """A stretch's place is its first row group and the one behind its last."""

    name = "parquet"
    endings = (".parquet", ".pq")
    marks = (b"PAR1",)
    decoded = 8

    def layout(self, file: BinaryIO, url: str, source: Input) -> tuple[pa.Schema, list[tuple[Place, int]]]:
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
        return _with_known_levels(content), places if len(places) > 1 else [((), whole)]

    def rows_in(self, file: BinaryIO, url: str, source: Input) -> Iterator[int]:
        yield _read(file, url).metadata.num_rows

    def ready(self, file: BinaryIO, stretch: Stretch, source: Input, columns: tuple[str, ...]) -> BinaryIO:
        fetched = FileAhead(file)
        meta = _read(fetched, stretch.url).metadata  # type: ignore[arg-type]
        first, end = stretch.place or (0, meta.num_row_groups)
        fetched.expect([blocks_of(meta, group, columns) for group in range(first, end)])
        return fetched  # type: ignore[return-value]

    def rows_of(
        self, file: BinaryIO, stretch: Stretch, source: Input, columns: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
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


def _with_known_levels(content: pa.parquet.ParquetFile) -> pa.Schema:
    """Give no levels to ordered dictionaries that were written without their pages: nobody knows their order."""
    schema, meta = content.schema_arrow, content.metadata
    groups = [meta.row_group(group) for group in range(meta.num_row_groups)]
    without = {
        chunk.path_in_schema
        for group in groups
        for chunk in (group.column(j) for j in range(group.num_columns))
        if not chunk.has_dictionary_page
    }
    for number, field in enumerate(schema):
        if is_ordered(field.type) and field.name in without:
            schema = schema.set(number, with_levels(field, ()))
    return schema


def _decoded_rows(group: pa.parquet.RowGroupMetaData) -> int:
    """Bound the rows of a group that are decoded at once, by a power of two.

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
