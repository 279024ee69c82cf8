"""Row groups of a remote Parquet file: fetched by few requests, and while the one before is worked on.

Arrow asks for one column of a row group after the other and waits for each, which over a network is most of the time
that reading takes. What it will ask for stands in the footer.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import BinaryIO

import pyarrow.parquet as pq

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


def blocks_of(meta: pq.FileMetaData, group: int, columns: Iterable[str]) -> list[Block]:
    """Where the columns of a row group lie, neighbours as one; nothing where they are too large to be held."""
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
    """A file whose row groups are fetched one ahead of what is read; whatever else is asked for, it fetches then.

    Args:
        file: open for reading.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._lock = file, Lock()
        self._size = file.seek(0, io.SEEK_END)
        self._position = 0
        start = max(0, self._size - _FOOTER_BYTES)
        self._footer = Block(start, self._size, 0, self._fetched(start, self._size))
        self._held: list[Block] = []
        self._waiting: deque[list[Block]] = deque()
        self._next: Future[list[Block]] | None = None
        self._next_blocks: list[Block] = []
        self._thread: ThreadPoolExecutor | None = None

    def expect(self, groups: Sequence[list[Block]]) -> None:
        """Row groups that will be read, in this order; a single one is fetched at once, of several each in its turn."""
        self._waiting.extend(group for group in groups if group)
        if len(self._waiting) == 1:
            self._go_on()

    def read(self, size: int = -1) -> bytes:
        """Bytes from the present position on."""
        start = self._position
        end = self._size if size < 0 else min(self._size, start + size)
        self._position = max(start, end)
        return self._expected(start, end) or self._fetched(start, end)

    def _expected(self, start: int, end: int) -> bytes:
        """What is held of these bytes, or will be; nothing where that is not all of them."""
        while (block := self._holding(start, end)) is None:
            if not self._is_coming(start, end):
                return b""
            self._take()
        block.wanted -= end - start
        data = block.data[start - block.start : end - block.start]
        if block is not self._footer and block.wanted <= 0:  # every column is read once
            self._held.remove(block)
        return data

    def _holding(self, start: int, end: int) -> Block | None:
        blocks = (self._footer, *self._held)
        return next((block for block in blocks if block.start <= start < end <= block.end), None)

    def _is_coming(self, start: int, end: int) -> bool:
        coming = (self._next_blocks, *self._waiting)
        return any(block.start <= start < end <= block.end for group in coming for block in group)

    def _take(self) -> None:
        """Hold the next row group, and have the one behind it fetched."""
        if self._next is None:
            self._go_on()
        assert self._next is not None
        arrived = self._next.result()
        self._next, self._next_blocks = None, []
        self._held += arrived
        while sum(len(block.data) for block in self._held) > MOST_BYTES + sum(len(one.data) for one in arrived):
            self._held.pop(0)  # a column that nobody read after all
        self._go_on()

    def _go_on(self) -> None:
        if self._waiting:
            self._thread = self._thread or ThreadPoolExecutor(1)
            self._next_blocks = self._waiting.popleft()
            self._next = self._thread.submit(self._filled, self._next_blocks)

    def _filled(self, blocks: list[Block]) -> list[Block]:
        for block in blocks:
            block.data = self._fetched(block.start, block.end)
        return blocks

    def _fetched(self, start: int, end: int) -> bytes:
        with self._lock:
            self._file.seek(start)
            return self._file.read(end - start)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position."""
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def tell(self) -> int:
        """The present position."""
        return self._position

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Give up what is on its way."""
        if not self.closed:
            if self._thread is not None:
                self._thread.shutdown(wait=False, cancel_futures=True)
            self._held.clear()
            self._file.close()
        super().close()
