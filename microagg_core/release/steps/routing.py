"""Routing: what workers know once there is a plan (encoding, outline), and how records find their stratum and block."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Floats, Ints, UInt64s
from microagg_core.blocks.outline import Outline, PartitionBlocks
from microagg_core.blocks.plan import BlockPlan
from microagg_core.blocks.routes import SHARD_KEYS, SUPPRESSED, Routes, hash_keys, missing_pattern
from microagg_core.data.kinds.contract import Ticks
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.tables.slices import Slice, Slices, read_slice, write_no_rows, write_slices
from microagg_core.plain import from_json, to_plain
from microagg_core.release.steps.keys import read_own_keys
from microagg_core.release.steps.pieces import Piece, Pieces, Range, read_ranges
from microagg_core.release.steps.reading import PartBatch
from microagg_core.release.steps.survey import Survey, blocking_columns
from microagg_core.release.steps.work import Context, Run, Task, load_context
from microagg_core.store.layout import RunLayout
from microagg_core.store.objects import canonical_json

#: Who made what the flow itself writes of a plan.
_MAKER = "plan"
#: Shards of routes that are asked for at once: together they are smaller than the rows that a part holds.
_SHARDS_AT_ONCE = 8


@dataclass(frozen=True)
class Shards:
    """Where the parts of a plan lie that are read one by one."""

    routes: Slices
    blocks: Slices


@dataclass(frozen=True)
class Planned:
    """A run's context with its survey and the outline of its plan."""

    context: Context
    survey: Survey
    encoding: Encoding
    outline: Outline
    shards: Shards

    @classmethod
    def of(cls, context: Context, survey: Survey, outline: Outline, shards: Shards) -> Planned:
        """Put together, with the whole file's standardization, and kinds that know all values."""
        return cls(context, survey, survey.encoding(context.kinds), outline, shards)


# --- Records on their way ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Routed:
    """A batch of records with the place of each one's key among the routes, and its stratum (or ``SUPPRESSED``)."""

    table: pa.Table
    records: Ints
    place: Ints
    stratum: Ints
    encoding: Encoding
    #: Of each quasi-identifier the exact ticks, and which of them are missing (n x p).
    ticks: list[Ticks]
    missing: Bools

    @cached_property
    def points(self) -> Floats:
        """The standardized quasi-identifiers."""
        return self.encoding.standardize(self.encoding.offsets_of(self.ticks), self.missing)

    def released(self) -> Routed:
        """Those of the records that are released."""
        kept = self.stratum != SUPPRESSED
        if kept.all():
            return self
        table, ticks = self.table.filter(pa.array(kept)), [values[kept] for values in self.ticks]
        records, place, stratum = self.records[kept], self.place[kept], self.stratum[kept]
        return Routed(table, records, place, stratum, self.encoding, ticks, self.missing[kept])


def route_batch(
    context: Context, encoding: Encoding, routes: Routes, hash_seed: int, batch: PartBatch, all_known: bool = True
) -> Routed:
    """Find the stratum of each record that takes part by the hash of its key.

    Args:
        context: of the run.
        encoding: the whole file's standardization.
        routes: of the batch's keys at least, or of those of them that matter.
        hash_seed: under which the routes' keys were hashed.
        batch: the records.
        all_known: whether there is a route for every key; else records of others have no stratum.

    Raises:
        DataError: a key that was not there when the input was surveyed.
    """
    table = batch.table
    ticks, missing = encoding.ticks([table[kind.name] for kind in context.kinds])
    hashes = hash_keys(blocking_columns(table, context), missing_pattern(missing), hash_seed)
    place = routes.places_of(hashes) if all_known else routes.find(hashes)
    stratum = np.append(routes.stratum, SUPPRESSED)[place]
    return Routed(table, batch.records, place, stratum, encoding, ticks, missing)


# --- What workers read ---------------------------------------------------------------------------------------


def save_survey(run: Run, survey: Survey) -> Piece:
    """Write the survey where workers find it."""
    return run.put(run.layout.survey_result(), canonical_json(to_plain(survey)), "survey-result")


def load_survey(pieces: Pieces, layout: RunLayout) -> Survey:
    """The survey of this run."""
    return from_json(Survey, pieces.read(layout.survey_result()))


def save_plan(run: Run, plan: BlockPlan) -> tuple[Outline, Shards, Piece]:
    """Write the plan where workers find it: its outline, and the rest in shards.

    Returns:
        Outline and shards, and the piece by which a worker finds both.
    """
    routes, outline = plan.routes().to_table(), plan.outline()
    shards = Shards(
        _write_shards(run, run.layout.routes(), routes, np.arange(routes.num_rows) // SHARD_KEYS),
        _write_shards(run, run.layout.blocks(), plan.blocks(), plan.block_partition),
    )
    value = {"outline": outline.to_plain(), **{name: of.array.tolist() for name, of in shards.__dict__.items()}}
    return outline, shards, run.put(run.layout.outline(), json.dumps(value).encode(), _MAKER)


def _write_shards(run: Run, name: str, table: pa.Table, shard: Ints) -> Slices:
    data, slices = write_slices(table, shard, 0) if table.num_rows else write_no_rows(table, 0, 0)
    run.put(name, data, _MAKER)
    return slices


def _read_shards(run: Run, name: str, shards: Slices) -> list[pa.Table]:
    ranges = [Range(name, one.start, one.end, one.checksum, _MAKER, 0) for one in shards]
    return [read_slice(data) for data in read_ranges(run.work, ranges, zlib.crc32)]


def load_planned(task: Task) -> Planned:
    """Survey and outline of the task's run, read once a process."""
    layout, pieces = task.layout, task.pieces
    read = _cached(task.run, tuple(pieces.piece(name) for name in (layout.survey_result(), layout.outline())))
    return Planned.of(load_context(task.run, task.reads), *read)


@lru_cache(maxsize=2)
def _cached(run: Run, read: tuple[Piece, ...]) -> tuple[Survey, Outline, Shards]:
    pieces, layout = run.pieces(read), run.layout
    value = json.loads(pieces.read(layout.outline()))
    shards = (Slices.of(Slice(*one) for one in value[name]) for name in ("routes", "blocks"))
    return load_survey(pieces, layout), Outline.from_plain(value["outline"]), Shards(*shards)


def load_routes(task: Task, planned: Planned) -> Routes:
    """Where the records of the task's input part go: they are read some shards at a time."""
    own = read_own_keys(task, task.number, planned.outline.hash_seed)
    return Routes.joined(_own_routes(task.run, planned.shards.routes, own))


def _own_routes(run: Run, shards: Slices, own: UInt64s) -> list[Routes]:
    routes: list[Routes] = []
    for first in range(0, len(shards), _SHARDS_AT_ONCE):
        tables = _read_shards(run, run.layout.routes(), shards[first : first + _SHARDS_AT_ONCE])
        routes += [Routes.from_table(table).among(own) for table in tables]
    return routes


def load_blocks(task: Task, planned: Planned) -> PartitionBlocks:
    """What is planned for the blocks of the task's partition."""
    number = task.number
    (table,) = _read_shards(task.run, task.layout.blocks(), planned.shards.blocks[number : number + 1])
    return PartitionBlocks(int(planned.outline.first_blocks[number]), table)
