"""Tasks, receipts and the run's folder in the work area: what workers are told, and what they answer.

A task names everything that it reads from the work area, with checksums. Its receipt lists the objects it wrote in the
same way, and says which task it is the receipt of, down to these checksums: while a receipt and its objects are there
the same task is not done twice, whoever asks, and whatever an early stage does anew with another outcome makes the
receipts of later stages those of other tasks. Nothing in a task or a receipt is a value of a record or a blocking
label, so both may be logged, pickled and shown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from microagg_core.data.formats.reading import InputListing, InputPart, first_rows
from microagg_core.data.kinds.contract import Kind
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.tables.slices import Slices
from microagg_core.group.metrics.moments import EMPTY, Moments
from microagg_core.plain import from_plain, to_plain
from microagg_core.release.steps.pieces import Piece, Pieces, Place, all_there, read_sealed, sealed
from microagg_core.spec.columns import FileSchema, resolve_schema
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import RunLayout
from microagg_core.store.objects import Store, canonical_json, sha256_hex

FORMAT_VERSION = 6


@dataclass(frozen=True)
class Run:
    """One run's folder in the work area: where its objects lie, and how they are written and read."""

    work: Store
    key: str

    @property
    def layout(self) -> RunLayout:
        """Names of the run's objects."""
        return RunLayout(self.key)

    def put(self, name: str, data: bytes, step: str, number: int = 0) -> Piece:
        """Write an object, for good before any receipt names it, and account for it."""
        self.work.put(name, data, durable=True)
        return Piece(name, len(data), sha256_hex(data), step, number)

    def pieces(self, pieces: Iterable[Piece]) -> Pieces:
        """What these pieces hold."""
        return Pieces(self.work, tuple(pieces))

    def forget(self, places: Iterable[Place]) -> None:
        """Take what these tasks made for not done, because it is damaged."""
        self.work.delete_many([self.layout.receipt(step, number) for step, number in places])


@dataclass(frozen=True)
class Task:
    """One piece of work: its step, its number within it, the slices of rows that are for it, and what else it reads."""

    step: str
    number: int
    run: Run
    slices: Slices = field(default_factory=Slices)
    reads: tuple[Piece, ...] = ()
    #: Slices of other steps' tasks, by step, for a task that needs rows from several.
    also: tuple[tuple[str, Slices], ...] = ()
    format_version: int = FORMAT_VERSION

    @property
    def layout(self) -> RunLayout:
        """Names of the run's objects."""
        return self.run.layout

    @property
    def pieces(self) -> Pieces:
        """What it reads."""
        return self.run.pieces(self.reads)

    def put(self, name: str, data: bytes) -> Piece:
        """Write an object of its own."""
        return self.run.put(name, data, self.step, self.number)

    def reading(self, pieces: tuple[Piece, ...]) -> Task:
        """The task that reads these besides."""
        return replace(self, reads=(*self.reads, *pieces))

    def receiving(self, step: str, slices: Slices) -> Task:
        """The task that is sent these besides, by tasks of that step."""
        return replace(self, also=(*self.also, (step, slices)))

    def sent_by(self, step: str) -> Slices:
        """What it is sent besides by tasks of that step."""
        return Slices.joined(slices for maker, slices in self.also if maker == step)

    def digest(self) -> str:
        """What tells this task from all others, those of the same name included that read other content."""
        reads = [(piece.name, piece.sha256) for piece in self.reads]
        slices = sha256_hex(self.slices.to_bytes())
        also = [(step, sha256_hex(some.to_bytes())) for step, some in self.also]
        return Digest().add(self.step, self.number, slices, reads, also, self.format_version).hex()


@dataclass(frozen=True)
class Receipt:
    """What a task did: the objects it wrote, the rows in them, and figures for the plan and the log."""

    step: str
    number: int
    rows: int
    pieces: tuple[Piece, ...]
    #: Where in its objects lies what is for whom.
    slices: Slices = field(default_factory=Slices)
    #: The digest of the task that it is the receipt of.
    task: str = ""
    seconds: float = 0.0
    #: Of the thread that did it, once it was done.
    cpu_seconds: float = 0.0
    kernel_seconds: float = 0.0
    peak_bytes: int = 0
    format_version: int = FORMAT_VERSION

    def to_bytes(self) -> bytes:
        """A line of JSON, pieces as the lists of their fields; behind it the slices' array."""
        plain = {**self.__dict__, "pieces": [astuple(piece) for piece in self.pieces], "slices": len(self.slices)}
        return json.dumps(plain, separators=(",", ":")).encode() + b"\n" + self.slices.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Receipt | None:
        """Inverse of :meth:`to_bytes`; None where another version wrote it."""
        line, _, slices = data.partition(b"\n")
        value = json.loads(line)
        if value.get("format_version") != FORMAT_VERSION:
            return None
        pieces = tuple(Piece(*piece) for piece in value["pieces"])
        return cls(**{**value, "pieces": pieces, "slices": Slices.from_bytes(slices)})


def work_store(spec: ReleaseSpec) -> Store:
    """The work area of a spec: for this user alone."""
    return Store(spec.work.url, dict(spec.work.storage_options), private=True)


def save_receipt(task: Task, receipt: Receipt) -> None:
    """Write a task's receipt: from now on it is done."""
    task.run.work.put(task.layout.receipt(task.step, task.number), sealed(receipt.to_bytes()))


def load_receipt(task: Task) -> Receipt | None:
    """The receipt of exactly this task, if it was done before and all its objects are still there."""
    data = read_sealed(task.run.work, task.layout.receipt(task.step, task.number))
    receipt = None if data is None else Receipt.from_bytes(data)
    if receipt is None or receipt.task != task.digest():
        return None
    return receipt if all_there(task.run.work, receipt.pieces) else None


@dataclass(frozen=True)
class Context:
    """What every worker of a run needs to know, read once from the work area."""

    spec: ReleaseSpec
    schema: FileSchema
    parts: tuple[InputPart, ...]
    rough: Encoding

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What each quasi-identifier is by its type and the spec alone, before anything is known of its values."""
        return self.schema.kinds


def save_context(
    run: Run,
    spec: ReleaseSpec,
    schema: pa.Schema,
    parts: Sequence[InputPart],
    rough: Sequence[Moments],
) -> tuple[Piece, ...]:
    """Write what :func:`load_context` reads; nothing of it depends on who works, or how often a run is started."""
    value = {
        "format_version": FORMAT_VERSION,
        "spec": spec.model_dump(mode="json", exclude={"cluster", "id"}),
        "parts": to_plain(parts),
        "rough": to_plain(rough),
    }
    return (
        run.put(run.layout.input_schema(), schema.serialize().to_pybytes(), "context"),
        run.put(run.layout.context(), canonical_json(value), "context"),
    )


def rough_moments(spec: ReleaseSpec, listing: InputListing, schema: FileSchema) -> list[Moments]:
    """Moments of the first rows only: a scale near enough for sketches, which are made before the true one is known."""
    names = tuple(c.name for c in schema.quasi_identifiers)
    for part in listing.parts:
        table = first_rows(part, spec.input, names)
        if table is None:
            continue
        return usable_moments(schema, table)
    return [EMPTY for _ in schema.kinds]


def usable_moments(schema: FileSchema, table: pa.Table) -> list[Moments]:
    """Moments of the quasi-identifiers of some rows, of values that are there and finite."""
    columns = [(kind, *kind.ticks(table[kind.name])) for kind in schema.kinds]
    return [kind.moments(ticks[kind.finite(ticks) & ~missing]) for kind, ticks, missing in columns]


def load_context(run: Run, reads: Iterable[Piece]) -> Context:
    """The run's context, as it lies in two of the pieces that are read; read once a process."""
    pieces, layout = run.pieces(reads), run.layout
    return _load_context(run, pieces.piece(layout.context()), pieces.piece(layout.input_schema()))


@lru_cache(maxsize=4)
def _load_context(run: Run, context: Piece, input_schema: Piece) -> Context:
    pieces = run.pieces((context, input_schema))
    value = json.loads(pieces.read(context.name))
    spec = ReleaseSpec.model_validate(value["spec"])
    schema = resolve_schema(spec, pa.ipc.read_schema(pa.py_buffer(pieces.read(input_schema.name))))
    rough = from_plain(tuple[Moments, ...], value["rough"])
    parts = from_plain(tuple[InputPart, ...], value["parts"])
    return Context(spec, schema, parts, Encoding.from_moments(schema.kinds, rough))


@dataclass
class Digest:
    """A running SHA-256 over plain values, for keys and fingerprints."""

    _hash: Any = field(default_factory=hashlib.sha256)

    def add(self, *values: Any) -> Digest:
        """Fold values in; they must be JSON-serializable."""
        self._hash.update(json.dumps(values, sort_keys=True, default=str).encode())
        self._hash.update(b"\n")
        return self

    def hex(self) -> str:
        """The digest so far."""
        return str(self._hash.hexdigest())
