"""What workers know once there is a plan (survey, encoding, outline), and how records find their stratum and block."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.blocks.plan import BlockPlan, Outline, PartitionBlocks
from microagg_core.blocks.routes import SHARD_KEYS, SUPPRESSED, Routes, hash_keys
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
class PlanFile:
    """The plan as workers find it: its outline, and where its routes and blocks lie, which are read in shards."""

    outline: Outline
    routes: Slices
    blocks: Slices

    def to_bytes(self) -> bytes:
        shards = {"routes": self.routes.array.tolist(), "blocks": self.blocks.array.tolist()}
        return json.dumps({"outline": to_plain(self.outline), **shards}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> PlanFile:
        value = json.loads(data)
        shards = (Slices.of(Slice(*values) for values in value[name]) for name in ("routes", "blocks"))
        return cls(from_plain(Outline, value["outline"]), *shards)


#: What workers know: the survey of the whole input, and the plan; where the records of each blocking key go; and what
#: is planned for the blocks of each partition.
SURVEY, PLAN = JsonOutput("survey-result", Survey), Output("plan", PlanFile.to_bytes, PlanFile.from_bytes, "json")
ROUTES, BLOCKS = Rows("routes"), Rows("blocks")
#: What every task knows once there is a plan.
PLANNED = (CONTEXT, SURVEY, PLAN)


@dataclass(frozen=True)
class Planned:
    """A run's context with its survey and its plan."""

    context: Context
    survey: Survey
    plan: PlanFile

    @property
    def outline(self) -> Outline:
        return self.plan.outline

    @cached_property
    def encoding(self) -> Encoding:
        """Standardize by the whole file, with kinds that know all values."""
        return self.survey.encoding(self.context.kinds)


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
    #: The unit of each, by the number of its first record; by which units are ordered, where they have several; and
    #: whether their rows are grouped together.
    units: Ints
    came: Ints | None
    as_wholes: bool

    @cached_property
    def points(self) -> Floats:
        """Standardize the quasi-identifiers for cuts; rows of a unit that are grouped together all have their mean."""
        Z = self.encoding.for_cuts(self.encoding.offsets_of(self.ticks), self.missing)
        first = np.flatnonzero(self.counts)
        if len(first) == len(Z):
            return Z
        sizes = np.diff(first, append=len(Z))
        return np.repeat(np.add.reduceat(Z, first) / sizes[:, None], sizes, axis=0)

    @property
    def counts(self) -> Bools:
        """Mark the rows that count in blocks: all, or of units that are wholes the first."""
        return np.asarray(self.units == self.records) if self.as_wholes else np.ones(len(self.units), dtype=np.bool_)

    def released(self) -> Routed:
        """Select the records that are released."""
        kept = self.stratum != SUPPRESSED
        if kept.all():
            return self
        table, ticks = self.table.filter(pa.array(kept)), [values[kept] for values in self.ticks]
        records, place, stratum = self.records[kept], self.place[kept], self.stratum[kept]
        missing, units, came = self.missing[kept], self.units[kept], None if self.came is None else self.came[kept]
        return Routed(table, records, place, stratum, self.encoding, ticks, missing, units, came, self.as_wholes)


def route_batch(
    context: Context, encoding: Encoding, routes: Routes, hash_seed: int, batch: PartBatch, all_known: bool = True
) -> Routed:
    """Find the stratum of each record that takes part by the hash of its key, under the seed of the routes' hashes.

    Unless ``all_known``, records whose key has no route have no stratum.
    """
    table = batch.table
    ticks, missing = encoding.ticks([table[kind.name] for kind in context.kinds])
    hashes = hash_keys(blocking_columns(table, context), batch.shapes(missing), hash_seed)
    place = routes.places_of(hashes) if all_known else routes.find(hashes)
    stratum = np.append(routes.stratum, SUPPRESSED)[place]
    whose = batch.units, batch.came, batch.sizes is not None
    return Routed(table, batch.records, place, stratum, encoding, ticks, missing, *whose)


def write_plan(run: Run, plan: BlockPlan) -> PlanFile:
    """Write routes and blocks in shards; what is returned says where they lie."""
    routes = plan.routes().to_table()
    return PlanFile(
        plan.outline(),
        _write_shards(run, ROUTES, routes, np.arange(routes.num_rows) // SHARD_KEYS),
        _write_shards(run, BLOCKS, plan.blocks(), plan.block_partition),
    )


def _write_shards(run: Run, output: Rows, table: pa.Table, shard: Ints) -> Slices:
    data, slices = write_slices(table, shard, 0) if table.num_rows else write_no_rows(table, 0, 0)
    run.put(output, data, output.name)
    return slices


def _read_shards(run: Run, output: Rows, shards: Slices) -> list[pa.Table]:
    name = output.path(run.key, output.name)
    ranges = [Range(name, shard.start, shard.end, shard.checksum, output.name, 0) for shard in shards]
    return [read_slice(data) for data in read_ranges(run.work, ranges, zlib.crc32)]


def load_planned(work: Work) -> Planned:
    """Load context, survey and plan of the task's run, each read once a process."""
    return Planned(work.load(CONTEXT), work.load(SURVEY), work.load(PLAN))


def load_routes(work: Work, planned: Planned) -> Routes:
    """Read where the records of the task's input part go, some shards at a time."""
    own, routes = read_own_keys(work, planned.outline.hash_seed), list[Routes]()
    for first in range(0, len(planned.plan.routes), _SHARDS_AT_ONCE):
        tables = _read_shards(work.run, ROUTES, planned.plan.routes[first : first + _SHARDS_AT_ONCE])
        routes += [Routes.from_table(table).among(own) for table in tables]
    return Routes.joined(routes)


def load_blocks(work: Work, planned: Planned) -> PartitionBlocks:
    """Read what is planned for the blocks of the task's partition."""
    number = work.number
    (table,) = _read_shards(work.run, BLOCKS, planned.plan.blocks[number : number + 1])
    return PartitionBlocks(int(planned.outline.first_blocks[number]), table)
