"""Context: the spec, the columns and the input parts of a run, as every worker reads them once from the work area."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from microagg_core.data.formats.reading import (
    InputListing,
    InputPart,
    Place,
    Stretch,
    first_rows,
    input_format,
)
from microagg_core.data.kinds.contract import Kind
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.places import Input
from microagg_core.group.metrics.moments import EMPTY, Moments
from microagg_core.plain import from_plain, to_plain
from microagg_core.release.pieces import read_sealed, sealed
from microagg_core.release.step import FORMAT_VERSION, Output, Run
from microagg_core.spec.columns import FileSchema, resolve_schema
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.objects import Store, canonical_json


def work_store(spec: ReleaseSpec) -> Store:
    """Open the work area of a spec: for this user alone."""
    return Store(spec.work.url, dict(spec.work.storage_options), private=True)


@dataclass(frozen=True)
class Context:
    """What every worker of a run needs to know of spec and input; nothing of it depends on who works, or how often."""

    spec: ReleaseSpec
    input_schema: pa.Schema
    parts: tuple[InputPart, ...]
    #: Of the quasi-identifiers of the first rows: a scale near enough for sketches, before the true one is known.
    rough_moments: tuple[Moments, ...]

    @cached_property
    def schema(self) -> FileSchema:
        return resolve_schema(self.spec, self.input_schema)

    @cached_property
    def rough(self) -> Encoding:
        """Standardize by the first rows."""
        return Encoding.from_moments(self.schema.kinds, self.rough_moments)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Take kinds by type and spec alone, before anything is known of values."""
        return self.schema.kinds


def _encode(context: Context) -> bytes:
    value = {
        "format_version": FORMAT_VERSION,
        "spec": context.spec.model_dump(mode="json", exclude={"cluster", "id"}),
        "schema": base64.b64encode(context.input_schema.serialize().to_pybytes()).decode(),
        "parts": to_plain(context.parts),
        "rough": to_plain(context.rough_moments),
    }
    return canonical_json(value)


def _decode(data: bytes) -> Context:
    value = json.loads(data)
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value["schema"])))
    parts = from_plain(tuple[InputPart, ...], value["parts"])
    return Context(
        ReleaseSpec.model_validate(value["spec"]), schema, parts, from_plain(tuple[Moments, ...], value["rough"])
    )


CONTEXT = Output("context", _encode, _decode, "json")


def rough_moments(spec: ReleaseSpec, listing: InputListing, schema: FileSchema) -> tuple[Moments, ...]:
    """Moments of the first rows of the input."""
    names = tuple(c.name for c in schema.quasi_identifiers)
    tables = (first_rows(part, spec.input, names) for part in listing.parts)
    table = next((table for table in tables if table is not None), None)
    return tuple(EMPTY for _ in schema.kinds) if table is None else usable_moments(schema, table)


def usable_moments(schema: FileSchema, table: pa.Table) -> tuple[Moments, ...]:
    """Moments of the quasi-identifiers of some rows, of values that are there and finite."""
    columns = [(kind, *kind.ticks(table[kind.name])) for kind in schema.kinds]
    return tuple(kind.moments(ticks[kind.finite(ticks) & ~missing]) for kind, ticks, missing in columns)


#: A stretch of the input in which a worker is to find where its records begin.
Scan = tuple[Input, Stretch]


def cut_input(
    run: Run, listing: InputListing, source: Input, answers: Callable[[list[Scan]], Sequence[Place]]
) -> InputListing:
    """Cut large files of the input into parts, as this run cut them before or as ``answers`` finds now."""
    stretches = input_format(source).stretches_to_scan(listing, source)
    if not stretches:
        return listing
    name = run.layout.input_parts()
    kept = read_sealed(run.work, name)
    parts = () if kept is None else from_plain(tuple[InputPart, ...], json.loads(kept))
    if _states(stretch for part in parts for stretch in part.stretches) != _states(stretches):
        scanned = list(zip(stretches, answers([(source, stretch) for stretch in stretches]), strict=True))
        parts = input_format(source).cut(listing, source, scanned).parts
        run.work.put(name, sealed(json.dumps(to_plain(parts)).encode()))
    return replace(listing, parts=parts)


def _states(stretches: Iterable[Stretch]) -> set[tuple[str, str]]:
    return {(stretch.url, stretch.state) for stretch in stretches if stretch.state}
