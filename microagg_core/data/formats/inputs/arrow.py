"""Arrow IPC files, which Feather files are too: a stretch is a run of record batches.

The footer says where the record batches lie and not how large they are, so a file is cut by their average size. A
record batch is the least that can be read: a file larger than a worker has to be written in many of them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.ipc

from microagg_core.data.formats.reading import BATCH_ROWS, PART_BYTES, InputFormat, Place, Stretch
from microagg_core.data.places import Input
from microagg_core.errors import DataError
from microagg_core.store.urls import shown


class Arrow(InputFormat):
    """A stretch's place is its first record batch and the one behind its last."""

    name = "arrow"
    endings = (".arrow", ".feather")
    marks = (b"ARROW1",)

    def layout(self, file: BinaryIO, url: str, source: Input) -> tuple[pa.Schema, list[tuple[Place, int]]]:
        content, n_bytes = _read(file, url), file.seek(0, io.SEEK_END)
        n_batches = content.num_record_batches
        together = max(1, PART_BYTES * n_batches // n_bytes)
        if n_batches <= together:
            return content.schema, [((), n_bytes)]
        places = [(start, min(start + together, n_batches)) for start in range(0, n_batches, together)]
        return content.schema, [(place, n_bytes * (place[1] - place[0]) // n_batches) for place in places]

    def rows_in(self, file: BinaryIO, url: str, source: Input) -> Iterator[int]:
        names = _read(file, url).schema.names
        file.seek(0)
        for batch in self.rows_of(file, Stretch(url), source, tuple(names[:1])):
            yield batch.num_rows

    def rows_of(
        self, file: BinaryIO, stretch: Stretch, source: Input, columns: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        names = _read(file, stretch.url).schema.names
        content = _read(file, stretch.url, [names.index(name) for name in columns])
        first, end = stretch.place or (0, content.num_record_batches)
        try:
            for number in range(first, end):
                batch = content.get_batch(number)
                batch.validate(full=True)  # to compute with buffers that are too short would end the process
                yield from (batch.slice(start, BATCH_ROWS) for start in range(0, batch.num_rows, BATCH_ROWS))
        except (pa.ArrowException, OSError):
            raise DataError(
                f"record batches {first} to {end - 1} of {shown(stretch.url)} cannot be read: the file is damaged or "
                "changed meanwhile; write it again"
            ) from None


def _read(file: BinaryIO, url: str, fields: list[int] | None = None) -> pa.ipc.RecordBatchFileReader:
    try:
        return pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False))
    except (pa.ArrowException, OSError):
        raise DataError(
            f"{shown(url)} is not a readable Arrow file (truncated, or of another format); "
            "write it again or set input.format"
        ) from None


FORMAT = Arrow()
