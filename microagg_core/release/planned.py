"""What workers know once there is a plan (survey, encoding, outline), and how records find their stratum and block."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Floats, Ints, UInt64s
from microagg_core.blocks.plan import BlockPlan, Outline, PartitionBlocks
from microagg_core.blocks.routes import SHARD_KEYS, SUPPRESSED, Routes, hash_keys, missing_pattern
from microagg_core.data.kinds.contract import Ticks
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.tables.slices import Slice, Slices, read_slice, write_no_rows, write_slices
from microagg_core.plain import from_plain, to_plain
from microagg_core.release.context import CONTEXT, Context
from microagg_core.release.pieces import Range, read_ranges
from microagg_core.release.records import PartBatch
from microagg_core.release.step import JsonOutput, Output, Rows, Run, Work
from microagg_core.release.steps.keys import read_own_keys
from microagg_core.release.steps.survey import Survey, blocking_columns

#: Shards of routes that are asked for at once: together they are smaller than the rows that a part holds.
_SHARDS_AT_ONCE = 8


@dataclass(frozen=True)
class Shards:
    """Where the parts of a plan lie that are read one by one."""

    routes: Slices
    blocks: Slices


@dataclass(frozen=True)
class PlanFile:
    """The plan as workers find it: its outline, and where the rest lies."""

    outline: Outline
    shards: Shards

    def to_bytes(self) -> bytes:
        shards = {name: slices.array.tolist() for name, slices in self.shards.__dict__.items()}
        return json.dumps({"outline": to_plain(self.outline), **shards}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> PlanFile:
        value = json.loads(data)
        shards = (Slices.of(Slice(*one) for one in value[name]) for name in ("routes", "blocks"))
        return cls(from_plain(Outline, value["outline"]), Shards(*shards))


#: What workers know: the survey of the whole input, and the plan; where the records of each blocking key go; and what
#: is planned for the blocks of each partition.
SURVEY, PLAN = JsonOutput("survey-result", Survey), Output("plan", PlanFile.to_bytes, PlanFile.from_bytes, "json")
ROUTES, BLOCKS = Rows("routes"), Rows("blocks")
#: What every task knows once there is a plan.
PLANNED = (CONTEXT, SURVEY, PLAN)


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
        """Standardize the quasi-identifiers."""
        return self.encoding.standardize(self.encoding.offsets_of(self.ticks), self.missing)

    def released(self) -> Routed:
        """Select the records that are released."""
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


def write_plan(run: Run, plan: BlockPlan) -> PlanFile:
    """Write routes and blocks in shards; what is returned says where they lie."""
    routes, outline = plan.routes().to_table(), plan.outline()
    shards = Shards(
        _write_shards(run, ROUTES, routes, np.arange(routes.num_rows) // SHARD_KEYS),
        _write_shards(run, BLOCKS, plan.blocks(), plan.block_partition),
    )
    return PlanFile(outline, shards)


def _write_shards(run: Run, output: Rows, table: pa.Table, shard: Ints) -> Slices:
    data, slices = write_slices(table, shard, 0) if table.num_rows else write_no_rows(table, 0, 0)
    run.put(output, data, output.name)
    return slices


def _read_shards(run: Run, output: Rows, shards: Slices) -> list[pa.Table]:
    name = output.path(run.key, output.name)
    ranges = [Range(name, one.start, one.end, one.checksum, output.name, 0) for one in shards]
    return [read_slice(data) for data in read_ranges(run.work, ranges, zlib.crc32)]


def load_planned(work: Work) -> Planned:
    """Context, survey and plan of the task's run, read once a process."""
    plan = work.load(PLAN)
    return Planned.of(work.load(CONTEXT), work.load(SURVEY), plan.outline, plan.shards)


def load_routes(work: Work, planned: Planned) -> Routes:
    """Read where the records of the task's input part go, some shards at a time."""
    own = read_own_keys(work, planned.outline.hash_seed)
    return Routes.joined(_own_routes(work.run, planned.shards.routes, own))


def _own_routes(run: Run, shards: Slices, own: UInt64s) -> list[Routes]:
    routes: list[Routes] = []
    for first in range(0, len(shards), _SHARDS_AT_ONCE):
        tables = _read_shards(run, ROUTES, shards[first : first + _SHARDS_AT_ONCE])
        routes += [Routes.from_table(table).among(own) for table in tables]
    return routes


def load_blocks(work: Work, planned: Planned) -> PartitionBlocks:
    """Read what is planned for the blocks of the task's partition."""
    number = work.number
    (table,) = _read_shards(work.run, BLOCKS, planned.shards.blocks[number : number + 1])
    return PartitionBlocks(int(planned.outline.first_blocks[number]), table)
