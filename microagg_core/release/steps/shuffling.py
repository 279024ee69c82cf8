"""Shuffling: rows that tasks write for other tasks, and how those gather what was sent to them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.blocks.memory import OBJECT_BYTES, RUN_BYTES, STEADY_BYTES, grown_size
from microagg_core.data.tables.slices import Slice, Slices, join_slices, read_slice, read_together, write_slices
from microagg_core.release.steps.pieces import Piece, Range, read_ranges
from microagg_core.release.steps.work import Receipt, Run, Task


@dataclass
class Scatter:
    """The objects that one task writes for many destinations, each named by task and number.

    Rows are held as they come, and packed by destination when there are enough of them; what is packed is a fraction
    of the rows, and held until it is worth an object: readers ask for one range of each. ``whole_bytes`` is what all
    tasks together write, before it is packed, where that may be more than usual.
    """

    task: Task
    name: Callable[[int, int], str]
    whole_bytes: float = 0.0
    tables: list[pa.Table] = field(default_factory=list)
    destinations: list[Ints] = field(default_factory=list)
    packed: list[tuple[bytes, Slices]] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    slices: Slices = field(default_factory=Slices)
    held: int = 0
    rows: int = 0

    def add(self, table: pa.Table, destination: Ints) -> None:
        """Hold rows until there are enough of them for an object."""
        if table.num_rows == 0:
            return
        self.tables.append(table)
        self.destinations.append(destination)
        self.held += table.nbytes
        self.rows += table.num_rows
        if self.held >= grown_size(RUN_BYTES, self.whole_bytes, STEADY_BYTES):
            self._pack()
        if sum(len(data) for data, _ in self.packed) >= grown_size(OBJECT_BYTES, self.whole_bytes, STEADY_BYTES):
            self._write()

    def flush(self) -> None:
        """Write what is held."""
        self._pack()
        self._write()

    def _pack(self) -> None:
        if not self.tables:
            return
        rows, destination = pa.concat_tables(self.tables), np.concatenate(self.destinations)
        self.tables, self.destinations, self.held = [], [], 0
        self.packed.append(write_slices(rows, destination, self.task.number, len(self.pieces)))

    def _write(self) -> None:
        """Write what is packed as one object."""
        if not self.packed:
            return
        data, slices = join_slices(self.packed)
        self.packed = []
        self.pieces.append(self.task.put(self.name(self.task.number, len(self.pieces)), data))
        self.slices += slices


def tasks_of_slices(step: str, receipts: Sequence[Receipt], n: int, run: Run, reads: tuple[Piece, ...]) -> list[Task]:
    """One task a destination, with the slices that are for it, in the order of their tasks and objects."""
    slices = Slices.joined(receipt.slices for receipt in receipts).by_destination(n)
    return [Task(step, number, run, slices[number], reads) for number in range(n)]


def gather_slices(run: Run, slices: Sequence[Slice], maker: str, name_of: Callable[[int, int], str]) -> pa.Table | None:
    """The rows of slices, in their order; None where there are none.

    Args:
        run: where they lie.
        slices: of one destination, as :func:`tasks_of_slices` gives them.
        maker: the step whose tasks wrote them.
        name_of: the name of an object, by the number of its task and its own.

    Raises:
        DamagedWorkError: an object in the work area is not what was written.
    """
    return read_together(_read(run, slices, maker, name_of)) if slices else None


def gather_with_makers(
    run: Run, slices: Sequence[Slice], maker: str, name_of: Callable[[int, int], str], makers: pa.Field
) -> pa.Table | None:
    """The same, with a column more: the number of the task that sent each row."""
    table = gather_slices(run, slices, maker, name_of)
    if table is None:
        return None
    sent_by = np.repeat([one.maker for one in slices], [one.rows for one in slices])
    return table.append_column(makers, pa.array(sent_by, makers.type)).combine_chunks()


def read_slices(run: Run, slices: Sequence[Slice], maker: str, name_of: Callable[[int, int], str]) -> list[pa.Table]:
    """The rows of each slice, all asked for at once; as :func:`gather_slices`."""
    return [read_slice(data) for data in _read(run, slices, maker, name_of)]


def _read(run: Run, slices: Sequence[Slice], maker: str, name_of: Callable[[int, int], str]) -> list[bytes]:
    ranges = [Range(name_of(s.maker, s.object), s.start, s.end, s.checksum, maker, s.maker) for s in slices]
    return read_ranges(run.work, ranges, zlib.crc32)
