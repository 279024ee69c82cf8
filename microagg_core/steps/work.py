"""Tasks, receipts and the run's folder in the work area: what workers are told, and what they answer.

A task is known by its stage and number. Its receipt lists the objects it wrote with their size and checksum; while
a receipt and its objects are there, the task is not done twice, whoever asks. Nothing in a task or a receipt is a
value of a record or a blocking label, so both may be logged, pickled and shown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.encoding import Encoding, QuasiType
from microagg_core.errors import StorageError
from microagg_core.metrics.moments import EMPTY, Moments, moments_of
from microagg_core.schema import FileSchema, quasi_types, resolve_schema
from microagg_core.spec import ReleaseSpec
from microagg_core.storage.layout import RunLayout
from microagg_core.storage.objects import Store, sha256_hex
from microagg_core.tables.reading import InputListing, InputPart, first_rows

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Piece:
    """An object that a task wrote."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Task:
    """One piece of work: its stage, its number within it, and numbers that it needs (never data)."""

    stage: str
    number: int
    work: Store
    key: str
    arguments: tuple[tuple[int, ...], ...] = ()
    format_version: int = FORMAT_VERSION

    @property
    def layout(self) -> RunLayout:
        """Names of the run's objects."""
        return RunLayout(self.key)


@dataclass(frozen=True)
class Receipt:
    """What a task did: the objects it wrote, the rows in them, and figures for the plan and the log."""

    stage: str
    number: int
    rows: int
    pieces: tuple[Piece, ...]
    #: Where slices lie: (object, destination, start, end, rows, checksum) each.
    slices: tuple[tuple[int, ...], ...] = ()
    seconds: float = 0.0
    kernel_seconds: float = 0.0
    peak_bytes: int = 0
    format_version: int = FORMAT_VERSION

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        pieces = [[p.name, p.bytes, p.sha256] for p in self.pieces]
        return {**self.__dict__, "pieces": pieces, "slices": [list(s) for s in self.slices]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Receipt:
        """Inverse of :meth:`to_json`."""
        pieces = tuple(Piece(*p) for p in value["pieces"])
        return cls(**{**value, "pieces": pieces, "slices": tuple(tuple(s) for s in value["slices"])})


def put_piece(task: Task, name: str, data: bytes) -> Piece:
    """Write an object of the run and account for it."""
    task.work.put(name, data)
    return Piece(name, len(data), sha256_hex(data))


def read_piece(task_work: Store, piece: Piece) -> bytes:
    """Read an object back, refusing one that is not what was written.

    Raises:
        StorageError: missing or changed.
    """
    data = task_work.read(piece.name)
    if len(data) != piece.bytes or sha256_hex(data) != piece.sha256:
        raise StorageError(
            f"{piece.name} in the work area is not what was written; run microagg clean and start the release again"
        )
    return data


def load_receipt(work: Store, layout: RunLayout, stage: str, number: int) -> Receipt | None:
    """The receipt of a task that was done before, if all its objects are still there."""
    name = layout.receipt(stage, number)
    if not work.exists(name):
        return None
    value = work.read_json(name)
    if value.get("format_version") != FORMAT_VERSION:
        return None
    receipt = Receipt.from_json(value)
    return receipt if all(work.exists(p.name) and work.size(p.name) == p.bytes for p in receipt.pieces) else None


@dataclass(frozen=True)
class Context:
    """What every worker of a run needs to know, read once from the work area."""

    spec: ReleaseSpec
    schema: FileSchema
    types: tuple[QuasiType, ...]
    parts: tuple[InputPart, ...]
    rough: Encoding


def save_context(
    work: Store,
    layout: RunLayout,
    spec: ReleaseSpec,
    schema: pa.Schema,
    parts: Sequence[InputPart],
    rough: Sequence[Moments],
) -> None:
    """Write what :func:`load_context` reads."""
    work.put(layout.input_schema(), schema.serialize().to_pybytes())
    work.put_json(
        layout.context(),
        {
            "format_version": FORMAT_VERSION,
            "spec": spec.model_dump(mode="json"),
            "parts": [p.__dict__ for p in parts],
            "rough": [m.to_dict() for m in rough],
        },
    )


def rough_moments(
    spec: ReleaseSpec, listing: InputListing, types: Sequence[QuasiType], schema: FileSchema
) -> list[Moments]:
    """Moments of the first rows only: a scale near enough for sketches, which are made before the true one is known."""
    names = tuple(c.name for c in schema.quasi_identifiers)
    for part in listing.parts:
        table = first_rows(part, spec.input, names)
        if table is None:
            continue
        found = []
        for kind in types:
            ticks, missing = kind.ticks(table[kind.name])
            finite = np.isfinite(ticks) if kind.kind == "float" else np.ones(len(ticks), dtype=np.bool_)
            found.append(moments_of(ticks[finite & ~missing]))
        return found
    return [EMPTY for _ in types]


def load_context(task: Task) -> Context:
    """The context of the task's run."""
    return _load_context(task.work.url, json.dumps(task.work.storage_options, sort_keys=True), task.key)


@lru_cache(maxsize=4)
def _load_context(url: str, options: str, key: str) -> Context:
    work, layout = Store(url, json.loads(options)), RunLayout(key)
    value = work.read_json(layout.context())
    spec = ReleaseSpec.model_validate(value["spec"])
    schema = resolve_schema(spec, pa.ipc.read_schema(pa.py_buffer(work.read(layout.input_schema()))))
    types = quasi_types(spec, schema)
    rough = tuple(Moments(**m) for m in value["rough"])
    parts = tuple(InputPart(**p) for p in value["parts"])
    return Context(spec, schema, types, parts, Encoding.from_moments(types, rough))


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
