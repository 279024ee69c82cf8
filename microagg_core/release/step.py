"""Steps, declared once: what makes a task, what a task reads, what it writes, and the function that does it.

From the declaration follow the names of objects, the wiring of reads, resuming by receipts, ``microagg step``, the
forecast of a plan and the table of steps in ``flows/README.md``. A task names everything that it reads from the work
area, with checksums; its receipt lists what it wrote in the same way, and says which task it is the receipt of, down to
these checksums. While a receipt and its objects are there the same task is not done twice, and whatever an early step
does anew with another outcome makes the receipts of later steps those of other tasks. Nothing in a task or a receipt is
a value of a record or a blocking label, so both may be logged, pickled and shown.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.blocks.memory import OBJECT_BYTES, RUN_BYTES, STEADY_BYTES, grown_size
from microagg_core.data.tables.slices import (
    Slice,
    Slices,
    join_slices,
    read_slice,
    read_together,
    to_bytes,
    write_slices,
)
from microagg_core.plain import from_json, to_json
from microagg_core.release.pieces import (
    Digest,
    Piece,
    Place,
    Range,
    all_there,
    read_pieces,
    read_ranges,
    read_sealed,
    sealed,
)
from microagg_core.store.layout import RUNS, SHARDS, RunLayout, is_name
from microagg_core.store.objects import Store, sha256_hex

FORMAT_VERSION = 8
#: The stages of a release, in their order.
STAGES = ("survey", "plan", "scatter", "anonymize", "validate", "measure", "publish", "report")
#: Contents of a step's objects that are read at once: together they are smaller than the rows that a worker holds.
_AT_ONCE = 16

T = TypeVar("T")


@dataclass(frozen=True)
class Output(Generic[T]):
    """Objects of one kind that tasks write: their name in the work area, and how a value becomes bytes and back."""

    name: str
    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]
    ending: str

    def path(self, run: str, step: str, number: int = 0, index: int = 0) -> str:
        """Name the object of a task; a task that writes several numbers them by ``index``.

        >>> TableOutput("sample").path("3f9a", "survey", 2)
        'runs/3/3f9a/survey/sample-00002.arrows'
        """
        return RunLayout(run).object(step, self.name, number, index, self.ending)


class JsonOutput(Output[T]):
    """Objects that hold a dataclass, or plain values, as JSON."""

    def __init__(self, name: str, kind: type[T]) -> None:
        super().__init__(name, to_json, lambda data: from_json(kind, data), "json")


class TableOutput(Output[pa.Table]):
    def __init__(self, name: str, ending: str = "arrows") -> None:
        super().__init__(name, to_bytes, read_slice, ending)


class BytesOutput(Output[bytes]):
    def __init__(self, name: str) -> None:
        super().__init__(name, bytes, bytes, "bytes")


class Rows(TableOutput):
    """Rows on their way to tasks of other steps: objects that are cut by destination, of which readers get ranges."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "slices")


class Load(NamedTuple):
    """Size of the largest task of a step, as far as that takes memory."""

    rows: int = 0
    columns: int = 0
    row_bytes: float = 0.0
    batch_rows: int = 0
    #: Of the rows of all tasks; and what an algorithm takes for a block.
    whole_bytes: float = 0.0
    block_bytes: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Step:
    """A step of a release."""

    #: Of its tasks, receipts and objects.
    name: str
    stage: str
    #: What makes a task of it ("part", "partition", "file", ...).
    per: str
    #: Does the work of one task; returns how many rows it was about.
    does: Callable[[Work], int]
    #: Estimates the bytes that a task needs beside the worker itself.
    memory: Callable[[Load], int] = lambda load: 0
    #: Whether a task reads an input part, whose number is its own.
    reads_input: bool = False
    #: Objects of the whole run.
    knows: tuple[Output[Any], ...] = ()
    #: Objects that the task of the same number of a step with the same ``per`` wrote, where there are any.
    same: tuple[Output[Any], ...] = ()
    #: Objects of all tasks.
    all: tuple[Output[Any], ...] = ()
    #: Objects of the whole run of which it reads ranges, by what it knows.
    ranges_of: tuple[Rows, ...] = ()
    #: Rows that tasks send to the task's number.
    receives: tuple[Rows, ...] = ()
    #: Shares rows out to tasks where their destinations are not the tasks' numbers.
    deals: Callable[[Slices], list[Slices]] | None = None
    writes: tuple[Output[Any], ...] = ()
    sends: tuple[Rows, ...] = ()
    #: Whether it is done at every run, as it never trusts what it found before.
    is_gate: bool = False
    #: Whether its stage does it at its end, without a line that asks for it.
    by_itself: bool = False
    #: Makes a sentence for the operator of what all tasks of such a step wrote, or raises what stops the run.
    tells: Callable[[Pieces], str] | None = None


class Companion(Protocol):
    """Looks at the rows that a step reads anyway."""

    def add(self, rows: Any) -> None:
        """Take in the next rows, in the form that the step has them."""

    def end(self) -> int:
        """Write what was made of them; return how many rows that was."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CompanionStep:
    """Addition of another room to a step: it reads, writes and sends as if the step's declaration said so."""

    #: The name of the step.
    step: str
    #: Begins a task, given what is planned; None where the task is not one for it.
    starts: Callable[[Work, Any], Companion | None]
    #: As of a :class:`Step`; what is not there is not read.
    knows: tuple[Output[Any], ...] = ()
    same: tuple[Output[Any], ...] = ()
    writes: tuple[Output[Any], ...] = ()
    sends: tuple[Rows, ...] = ()


@dataclass(frozen=True)
class Run:
    """Write, read and remove what one run has in the work area."""

    work: Store
    key: str

    @property
    def layout(self) -> RunLayout:
        return RunLayout(self.key)

    def put(self, output: Output[Any], data: bytes, step: str, number: int = 0, index: int = 0) -> Piece:
        """Write an object, for good before any receipt names it, and account for it."""
        name = output.path(self.key, step, number, index)
        self.work.put(name, data, durable=True)
        return Piece(name, len(data), sha256_hex(data), step, number, output.name, index)

    def forget(self, places: Iterable[Place]) -> None:
        """Take what these tasks made for not done, because it is damaged."""
        self.work.delete_many([self.layout.receipt(step, number) for step, number in places])

    def remove(self) -> None:
        """Remove all that the run wrote, whatever receipts say; what says that there is such a run goes last."""
        self.remove_below("")
        self.work.delete_all(self.layout.folder)

    def remove_below(self, *names: str) -> None:
        """Remove what the run has in these folders of its shards."""
        there = [shard for shard in self.work.folders(RUNS) if shard in SHARDS]
        with ThreadPoolExecutor(len(SHARDS)) as pool:
            list(
                pool.map(self.work.delete_all, [self.layout.in_shard(shard, name) for shard in there for name in names])
            )

    def last_change(self) -> float | None:
        """Find when the run wrote last, in seconds since 1970; None where nothing of it is left."""
        folders = [self.layout.folder, *(self.layout.in_shard(shard) for shard in SHARDS)]
        moments = (self.work.last_change(folder) for folder in folders)
        return max((moment for moment in moments if moment is not None), default=None)


def runs_in(work: Store) -> list[Run]:
    """Find the runs that left anything in a work area."""
    names = work.folders(RUNS)
    sharded = {key for shard in names if shard in SHARDS for key in work.folders(f"{RUNS}/{shard}")}
    return [Run(work, key) for key in sorted({*names, *sharded} - {*SHARDS}) if is_name(key)]


class Sent(NamedTuple):
    """Rows that a task of a step sends, or that a task is sent by the tasks of a step."""

    step: str
    output: str
    slices: Slices


def _slices(sent: Iterable[Sent], output: Rows) -> Slices:
    return Slices.joined(rows.slices for rows in sent if rows.output == output.name)


@dataclass(frozen=True)
class Task:
    """One piece of work: its step, its number within it, the objects that it reads, and the rows that it is sent."""

    step: str
    number: int
    run: Run
    reads: tuple[Piece, ...] = ()
    sent: tuple[Sent, ...] = ()
    format_version: int = FORMAT_VERSION

    def digest(self) -> str:
        """Tell this task from all others, those of the same name included that read other content."""
        reads = [(piece.name, piece.sha256) for piece in self.reads]
        sent = [(rows.step, rows.output, sha256_hex(rows.slices.to_bytes())) for rows in self.sent]
        return Digest().add(self.step, self.number, reads, sent, self.format_version).hex()

    def to_bytes(self) -> bytes:
        return _written({name: value for name, value in vars(self).items() if name != "run"})

    @classmethod
    def from_bytes(cls, data: bytes, run: Run) -> Task:
        plain = _parsed(data)
        return cls(**{**plain, "reads": tuple(Piece(*piece) for piece in plain["reads"])}, run=run)


@dataclass(frozen=True)
class Receipt:
    """What a task did: the objects it wrote, the rows in them, and figures for the plan and the log."""

    step: str
    number: int
    rows: int
    pieces: tuple[Piece, ...] = ()
    sent: tuple[Sent, ...] = ()
    #: The digest of the task that it is the receipt of.
    task: str = ""
    seconds: float = 0.0
    #: Of the thread that did it, once it was done.
    cpu_seconds: float = 0.0
    kernel_seconds: float = 0.0
    peak_bytes: int = 0
    format_version: int = FORMAT_VERSION

    @property
    def own_pieces(self) -> list[Piece]:
        """Select what the task wrote; what it vouches for is another's."""
        return [piece for piece in self.pieces if piece.step == self.step]

    def piece(self, output: Output[Any]) -> Piece:
        """Find the only object of an output."""
        (piece,) = (piece for piece in self.pieces if piece.output == output.name)
        return piece

    def slices(self, output: Rows) -> Slices:
        return _slices(self.sent, output)

    def save(self, run: Run) -> None:
        """Write it: from now on the task is done."""
        run.work.put(run.layout.receipt(self.step, self.number), sealed(_written(vars(self))))


def _written(plain: dict[str, Any]) -> bytes:
    """Write a line of JSON; behind it the arrays of slices."""
    lengths = [(rows.step, rows.output, len(rows.slices)) for rows in plain["sent"]]
    line = json.dumps({**plain, "sent": lengths}, separators=(",", ":"), default=_plain_piece).encode()
    return b"\n".join([line, Slices.joined(rows.slices for rows in plain["sent"]).to_bytes()])


def _plain_piece(piece: Piece) -> list[Any]:
    return list(vars(piece).values())


def _parsed(data: bytes) -> dict[str, Any]:
    line, _, array = data.partition(b"\n")
    plain, slices, start, sent = json.loads(line), Slices.from_bytes(array), 0, []
    for step, output, length in plain["sent"]:
        sent.append(Sent(step, output, slices[start : start + length]))
        start += length
    return {**plain, "sent": tuple(sent)}


def load_receipt(task: Task) -> Receipt | None:
    """Read the receipt of exactly this task, if it was done before and all its objects are still there."""
    data = read_sealed(task.run.work, task.run.layout.receipt(task.step, task.number))
    if data is None or json.loads(data.partition(b"\n")[0]).get("format_version") != FORMAT_VERSION:
        return None
    plain = _parsed(data)
    receipt = Receipt(**{**plain, "pieces": tuple(Piece(*piece) for piece in plain["pieces"])})
    return receipt if receipt.task == task.digest() and all_there(task.run.work, receipt.pieces) else None


class Pieces:
    """Objects that were written, by their outputs; the one way to read them back."""

    def __init__(self, run: Run, pieces: Iterable[Piece]) -> None:
        self.run, self.pieces = run, tuple(pieces)

    def of(self, output: Output[Any]) -> list[Piece]:
        return [piece for piece in self.pieces if piece.output == output.name]

    def has(self, output: Output[Any]) -> bool:
        return bool(self.of(output))

    def piece(self, output: Output[Any]) -> Piece:
        """Find the only object of an output."""
        (piece,) = self.of(output)
        return piece

    def read(self, output: Output[T]) -> T:
        """Read the only object of an output."""
        return self.read_of(output, [self.piece(output)])[0]

    def read_all(self, output: Output[T]) -> list[T]:
        """Read all objects of an output; looks at all before it says which are damaged."""
        return self.read_of(output, self.of(output))

    def read_of(self, output: Output[T], pieces: Sequence[Piece]) -> list[T]:
        return [output.decode(data) for data in read_pieces(self.run.work, pieces)]

    def each(self, output: Output[T]) -> Iterator[tuple[Piece, T]]:
        """Read all objects of an output, some at a time."""
        pieces = self.of(output)
        for first in range(0, len(pieces), _AT_ONCE):
            batch = pieces[first : first + _AT_ONCE]
            yield from zip(batch, self.read_of(output, batch), strict=True)

    def load(self, output: Output[T]) -> T:
        """Read the only object of an output, once a process."""
        return _loaded(self.run, output, self.piece(output))  # type: ignore[no-any-return]


@lru_cache(maxsize=8)
def _loaded(run: Run, output: Output[Any], piece: Piece) -> Any:
    return Pieces(run, [piece]).read(output)


class Work(Pieces):
    """A task that is being done: the objects that it reads, and what it has written so far."""

    def __init__(self, task: Task, companions: Sequence[CompanionStep] = ()) -> None:
        super().__init__(task.run, task.reads)
        self.task, self.number = task, task.number
        self.written: list[Piece] = []
        self.sent: list[Sent] = []
        self.kernel_seconds = 0.0
        self._companions = companions

    def slices(self, output: Rows) -> Slices:
        """Find where the rows lie that the task is sent."""
        return _slices(self.task.sent, output)

    def contents(self, output: Rows, checksum_of: Callable[[bytes], int] = zlib.crc32) -> list[bytes]:
        """Read the slices that the task is sent, all asked for at once."""
        ranges = [
            Range(
                output.path(self.run.key, rows.step, part.maker, part.object),
                part.start,
                part.end,
                part.checksum,
                rows.step,
                part.maker,
            )
            for rows in self.task.sent
            if rows.output == output.name
            for part in rows.slices
        ]
        return read_ranges(self.run.work, ranges, checksum_of)

    def gather(self, output: Rows, maker: pa.Field | None = None) -> pa.Table | None:
        """Read the rows that the task is sent, in the order of their makers; None where there are none.

        ``maker`` names a column more, with the number of the task that sent each row.
        """
        contents = self.contents(output)
        if not contents:
            return None
        table = read_together(contents)
        if maker is None:
            return table
        slices = self.slices(output).array
        makers = np.repeat(slices["maker"], slices["rows"])
        return table.append_column(maker, pa.array(makers).cast(maker.type)).combine_chunks()

    def gather_each(self, output: Rows) -> list[tuple[Slice, pa.Table]]:
        """Read each slice by itself."""
        return list(zip(self.slices(output), map(read_slice, self.contents(output)), strict=True))

    def companions(self, planned: Any) -> list[Companion]:
        """Begin with what other rooms have this step do besides."""
        started = [companion.starts(self, planned) for companion in self._companions]
        return [companion for companion in started if companion is not None]

    def write(self, output: Output[T], value: T) -> None:
        """Write an object; one more where the task has written some of the output before."""
        self.put(output, output.encode(value))

    def put(self, output: Output[Any], data: bytes) -> None:
        self.written.append(self.run.put(output, data, self.task.step, self.number, self.count(output)))

    def count(self, output: Output[Any]) -> int:
        """Count the objects of an output that the task has written."""
        return sum(piece.output == output.name for piece in self.written)

    def send(self, output: Rows, table: pa.Table, destination: Ints) -> None:
        """Write rows as one object, cut by destination."""
        self.send_packed(output, *write_slices(table, destination, self.number, self.count(output)))

    def send_packed(self, output: Rows, data: bytes, slices: Slices) -> None:
        self.put(output, data)
        self.sent.append(Sent(self.task.step, output.name, slices))

    def vouch(self, piece: Piece) -> None:
        """Name an object that was read in the receipt: it is what this task found it to be."""
        self.written.append(piece)

    def receipt(self, rows: int) -> Receipt:
        pieces, sent = tuple(self.written), tuple(self.sent)
        return Receipt(self.task.step, self.number, rows, pieces, sent, kernel_seconds=self.kernel_seconds)


@dataclass
class Scatter:
    """Rows for many destinations, held as they come and packed by destination when there are enough of them.

    What is packed is a fraction of the rows, and held until it is worth an object: readers ask for one range of each.
    ``whole_bytes`` is what all tasks together write, before it is packed, where that may be more than usual.
    """

    work: Work
    output: Rows
    whole_bytes: float = 0.0
    tables: list[pa.Table] = field(default_factory=list)
    destinations: list[Ints] = field(default_factory=list)
    packed: list[tuple[bytes, Slices]] = field(default_factory=list)
    rows: int = 0

    def add(self, table: pa.Table, destination: Ints) -> None:
        """Hold rows until there are enough of them for an object."""
        if table.num_rows == 0:
            return
        self.tables.append(table)
        self.destinations.append(destination)
        self.rows += table.num_rows
        if sum(held.nbytes for held in self.tables) >= grown_size(RUN_BYTES, self.whole_bytes, STEADY_BYTES):
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
        self.tables, self.destinations = [], []
        self.packed.append(write_slices(rows, destination, self.work.number, self.work.count(self.output)))

    def _write(self) -> None:
        if not self.packed:
            return
        data, slices = join_slices(self.packed)
        self.packed = []
        self.work.send_packed(self.output, data, slices)
