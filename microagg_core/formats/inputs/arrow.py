"""Arrow IPC files, which Feather files are too: a part is a run of record batches.

The footer says where the record batches lie and not how large they are, so a file is cut by their average size. A
record batch is the least that can be read: a file larger than a worker has to be written in many of them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.ipc

from microagg_core.errors import DataError
from microagg_core.formats.inputs.contract import BATCH_ROWS, PART_BYTES, FileFormat, InputPart, Place
from microagg_core.spec.places import Input
from microagg_core.storage.inputs import open_input
from microagg_core.storage.urls import shown


class Arrow(FileFormat):
    """A part's place is its first record batch and the one behind its last."""

    name = "arrow"

    def layout(self, url: str, source: Input) -> tuple[pa.Schema, list[Place]]:
        """From the footer, and the size of the file."""
        with open_input(url, source.storage_options) as handle:
            file = _open(handle, url)
            n_batches, n_bytes = file.num_record_batches, handle.seek(0, io.SEEK_END)
            together = max(1, PART_BYTES * n_batches // n_bytes)
            starts = range(0, max(n_batches, 1), together)
            return file.schema, [(start, min(start + together, n_batches)) for start in starts]

    def rows_in(self, url: str, source: Input) -> Iterator[int]:
        """Batch by batch, of which one column is fetched."""
        schema, places = self.layout(url, source)
        for place in places:
            for batch in self.batches(InputPart(0, url, place), source, tuple(schema.names[:1])):
                yield batch.num_rows

    def batches(self, part: InputPart, source: Input, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Only what the columns need is fetched."""
        first, end = part.place
        with open_input(part.url, source.storage_options) as handle:
            names = _open(handle, part.url).schema.names
            file = _open(handle, part.url, [names.index(name) for name in columns])
            try:
                for number in range(first, end):
                    yield from _checked(file.get_batch(number))
            except (pa.ArrowException, OSError):
                raise DataError(
                    f"record batches {first} to {end - 1} of {shown(part.url)} cannot be read: the file is damaged or "
                    "changed meanwhile; write it again"
                ) from None


def _open(handle: BinaryIO, url: str, fields: list[int] | None = None) -> pa.ipc.RecordBatchFileReader:
    try:
        return pa.ipc.open_file(handle, options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False))
    except (pa.ArrowException, OSError):
        raise DataError(
            f"{shown(url)} is not a readable Arrow file (truncated, or of another format); "
            "write it again or set input.format"
        ) from None


def _checked(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A record batch in pieces of bounded size; to compute with buffers that are too short would end the process."""
    batch.validate(full=True)
    for start in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(start, BATCH_ROWS)


FORMAT = Arrow()
