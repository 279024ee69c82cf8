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
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from microagg_core.formats.inputs.contract import InputListing, InputPart
from microagg_core.formats.reading import first_rows
from microagg_core.kinds.contract import Kind
from microagg_core.kinds.encoding import Encoding
from microagg_core.metrics.moments import EMPTY, Moments
from microagg_core.plain import from_plain, to_plain
from microagg_core.spec.columns import FileSchema, resolve_schema
from microagg_core.spec.release import ReleaseSpec
from microagg_core.steps.pieces import Piece, Pieces, all_there, read_sealed, sealed
from microagg_core.storage.layout import RunLayout
from microagg_core.storage.objects import Store, canonical_json, sha256_hex

FORMAT_VERSION = 2


@dataclass(frozen=True)
class Task:
    """One piece of work: its stage, its number within it, numbers that it needs (never data), and what it reads."""

    stage: str
    number: int
    work: Store
    key: str
    arguments: tuple[tuple[int, ...], ...] = ()
    reads: tuple[Piece, ...] = ()
    format_version: int = FORMAT_VERSION

    @property
    def layout(self) -> RunLayout:
        """Names of the run's objects."""
        return RunLayout(self.key)

    @property
    def pieces(self) -> Pieces:
        """What it reads."""
        return Pieces(self.work, self.reads)

    def reading(self, pieces: tuple[Piece, ...]) -> Task:
        """The task that reads these besides."""
        return replace(self, reads=(*self.reads, *pieces))

    def digest(self) -> str:
        """What tells this task from all others, those of the same name included that read other content."""
        reads = [(piece.name, piece.sha256) for piece in self.reads]
        return Digest().add(self.stage, self.number, self.arguments, reads, self.format_version).hex()


@dataclass(frozen=True)
class Receipt:
    """What a task did: the objects it wrote, the rows in them, and figures for the plan and the log."""

    stage: str
    number: int
    rows: int
    pieces: tuple[Piece, ...]
    #: Where slices lie: (object, destination, start, end, rows, checksum) each.
    slices: tuple[tuple[int, ...], ...] = ()
    #: The digest of the task that it is the receipt of.
    task: str = ""
    seconds: float = 0.0
    kernel_seconds: float = 0.0
    peak_bytes: int = 0
    format_version: int = FORMAT_VERSION

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        pieces = [[p.name, p.bytes, p.sha256, p.stage, p.number] for p in self.pieces]
        return {**self.__dict__, "pieces": pieces, "slices": [list(s) for s in self.slices]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Receipt:
        """Inverse of :meth:`to_json`."""
        pieces = tuple(Piece(*p) for p in value["pieces"])
        return cls(**{**value, "pieces": pieces, "slices": tuple(tuple(s) for s in value["slices"])})


def pieces_of(work: Store, receipts: Sequence[Receipt]) -> Pieces:
    """What finished tasks wrote."""
    return Pieces(work, tuple(piece for receipt in receipts for piece in receipt.pieces))


def work_store(spec: ReleaseSpec) -> Store:
    """The work area of a spec: for this user alone."""
    return Store(spec.work.url, dict(spec.work.storage_options), private=True)


def put_piece(task: Task, name: str, data: bytes) -> Piece:
    """Write an object of the run, for good before any receipt names it, and account for it."""
    task.work.put(name, data, durable=True)
    return Piece(name, len(data), sha256_hex(data), task.stage, task.number)


def save_receipt(task: Task, receipt: Receipt) -> None:
    """Write a task's receipt: from now on it is done."""
    task.work.put(task.layout.receipt(task.stage, task.number), sealed(canonical_json(receipt.to_json())))


def load_receipt(task: Task) -> Receipt | None:
    """The receipt of exactly this task, if it was done before and all its objects are still there."""
    data = read_sealed(task.work, task.layout.receipt(task.stage, task.number))
    value = {} if data is None else json.loads(data)
    if value.get("format_version") != FORMAT_VERSION or value["task"] != task.digest():
        return None
    receipt = Receipt.from_json(value)
    return receipt if all_there(task.work, receipt.pieces) else None


def discard_receipts(work: Store, layout: RunLayout, places: Iterable[tuple[str, int]]) -> None:
    """Forget that these tasks were done, because what they made is damaged."""
    for stage, number in places:
        work.delete(layout.receipt(stage, number))


@dataclass(frozen=True)
class Context:
    """What every worker of a run needs to know, read once from the work area."""

    spec: ReleaseSpec
    schema: FileSchema
    types: tuple[Kind, ...]
    parts: tuple[InputPart, ...]
    rough: Encoding


def save_context(
    work: Store,
    key: str,
    spec: ReleaseSpec,
    schema: pa.Schema,
    parts: Sequence[InputPart],
    rough: Sequence[Moments],
) -> tuple[Piece, ...]:
    """Write what :func:`load_context` reads; nothing of it depends on who works, or how often a run is started."""
    maker, layout = Task("context", 0, work, key), RunLayout(key)
    value = {
        "format_version": FORMAT_VERSION,
        "spec": spec.model_dump(mode="json", exclude={"cluster", "id"}),
        "parts": to_plain(parts),
        "rough": [m.to_dict() for m in rough],
    }
    return (
        put_piece(maker, layout.input_schema(), schema.serialize().to_pybytes()),
        put_piece(maker, layout.context(), canonical_json(value)),
    )


def rough_moments(spec: ReleaseSpec, listing: InputListing, schema: FileSchema) -> list[Moments]:
    """Moments of the first rows only: a scale near enough for sketches, which are made before the true one is known."""
    names = tuple(c.name for c in schema.quasi_identifiers)
    for part in listing.parts:
        table = first_rows(part, spec.input, names)
        if table is None:
            continue
        return [_usable_moments(kind, table[kind.name]) for kind in schema.kinds]
    return [EMPTY for _ in schema.kinds]


def _usable_moments(kind: Kind, column: pa.ChunkedArray) -> Moments:
    ticks, missing = kind.ticks(column)
    return kind.moments(ticks[kind.finite(ticks) & ~missing])


def load_context(task: Task) -> Context:
    """The context of the task's run, read once a process."""
    pieces, layout = task.pieces, task.layout
    return _load_context(task.work, pieces.piece(layout.context()), pieces.piece(layout.input_schema()))


@lru_cache(maxsize=4)
def _load_context(work: Store, context: Piece, input_schema: Piece) -> Context:
    pieces = Pieces(work, (context, input_schema))
    value = json.loads(pieces.read(context.name))
    spec = ReleaseSpec.model_validate(value["spec"])
    schema = resolve_schema(spec, pa.ipc.read_schema(pa.py_buffer(pieces.read(input_schema.name))))
    rough = tuple(Moments(**m) for m in value["rough"])
    parts = from_plain(tuple[InputPart, ...], value["parts"])
    return Context(spec, schema, schema.kinds, parts, Encoding.from_moments(schema.kinds, rough))


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
