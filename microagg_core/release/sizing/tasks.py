"""The tasks of a release of a described size: what each step's tasks compute, read and write.

What a task reads and writes follows from the step's declaration; what that takes, from figures that were measured, one
for each thing that a task's size is made of. They lie in ``figures.json``, with the day and the machine on which
``tests/benchmark/calibrate.py`` measured them; nobody writes them by hand. How many slices there are follows from how
rows meet: a run of n rows out of a mixed input has one for each of the partitions that it meets by chance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.blocks.memory import (
    OBJECT_BYTES,
    RUN_BYTES,
    RUN_UNITS,
    STEADY_BYTES,
    STEADY_KEYS,
    STEADY_PARTS,
    TASK_KEYS,
    TASK_UNITS,
    grown_size,
)
from microagg_core.blocks.plan import BlockPlan, default_max_records
from microagg_core.blocks.routes import SHARD_KEYS
from microagg_core.data.formats.csv_bytes import RANGE_BYTES
from microagg_core.data.formats.reading import BATCH_ROWS, PART_BYTES
from microagg_core.group.algorithms import algorithms
from microagg_core.registry import members
from microagg_core.release.planned import BLOCKS, ROUTES
from microagg_core.release.sizing.description import Description, draw_plan, input_row_bytes, row_bytes
from microagg_core.release.step import Step
from microagg_core.release.steps.anonymize import ANONYMIZED
from microagg_core.release.steps.keys import PART_KEYS
from microagg_core.release.steps.scatter import SCATTERED
from microagg_core.release.steps.survey import CONFIDENTIAL
from microagg_core.release.steps.units import DIGESTS, REPEATED, UNIT_COLUMNS
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.remote import REQUESTS_AT_ONCE

#: Bytes of a staged row besides its values: record number and block.
_NUMBER_BYTES = 12
#: Of digests: buckets of an object, and bytes of one. Of a part's keys: as many in a range.
_BUCKETS, _DIGEST_BYTES, _RANGE_KEYS = 256, 16, 4096
#: Every task looks for its receipt, which is not there, and leaves one.
_LOOKS, _RECEIPT = 1, 1
#: Parquet is read by ranges: what the file is, its footer, then a range for each row group, or a few. All but the first
#: come while the rows before them are worked on.
_FIRST_READS, _GROUP_ROWS = 3, 1_000_000
_CHUNK_BYTES = 8 * 2**20
#: Requests of one task that are under way at a time, where they do not wait for each other.
PARALLEL_REQUESTS = REQUESTS_AT_ONCE
#: Sizes of blocks that are looked at, where theirs are not known yet.
_SIZES = 12
#: What is no task: copying a checked file to the output.
UPLOAD = "upload"

#: How large the tasks of one step are, an entry a task, by the names of figures; what is not there is nothing.
Sizes = dict[str, Floats]


def sizes_by_figure(
    description: Description, rows: Floats, kernel_seconds: Floats | float = 0.0, **counts: Floats
) -> Sizes:
    """Take tasks of so many rows apart; ``kernel_seconds`` are those of the algorithm by the registry.

    ``counts`` are what rows do not tell: ``block``, ``key`` and ``route``, keys as often as another batch of rows has
    them (``batch_key``), slices, and streams in them, one for each time that rows were packed.
    """
    one, refined = description, description.refine != "off"
    blocks = counts.get("block", np.zeros(len(rows)))
    return counts | {
        "task": np.ones(len(rows)),
        "row": rows,
        "row_quasi": rows * one.quasi_identifiers,
        "row_confidential": rows * one.confidential,
        "row_identifier": rows * one.identifiers,
        "row_byte": rows * row_bytes(one),
        "block_quasi": blocks * one.quasi_identifiers,
        "kernel": np.full(len(rows), kernel_seconds) * (not refined),
        "refined_kernel": np.full(len(rows), kernel_seconds) * refined,
        "refined_block": blocks * refined,
    }


@dataclass(frozen=True)
class MeasuredFigures:
    """Measured figures: seconds and bytes by step, and the flow's own work by stage."""

    measured: str
    #: CPU seconds of a task, and bytes that it writes, by step.
    cpu: Mapping[str, Mapping[str, float]]
    written: Mapping[str, Mapping[str, float]]
    #: CPU seconds of the flow itself between its tasks, by stage and by what they are for; and bytes of its memory.
    flow: Mapping[str, Mapping[str, float]]
    flow_bytes: Mapping[str, float]
    #: CPU seconds of a worker for each request to a remote store and each byte that it moves, and of its server.
    remote: Mapping[str, float]
    #: CPU seconds of the flow for each task that it hands out and takes back, and of the scheduler.
    dispatch: Mapping[str, float]
    #: Bytes of an input row as it is stored, for each byte of it, by format.
    stored: Mapping[str, float]


def figured(figures: Mapping[str, float], sizes: Sizes) -> Floats:
    """Add up what tasks of these sizes take."""
    return sum((value * sizes[name] for name, value in figures.items() if name in sizes), np.zeros(len(sizes["task"])))


def planned_seconds(spec: ReleaseSpec, rows: int, kernel_seconds: float = 0.0, n_blocks: int = 0) -> float:
    """Estimate the CPU seconds of a release in one process, its start included.

    ``kernel_seconds`` are those of its blocks by the cost model.
    """
    roles, figures = spec.roles, measured_figures()
    description = Description(
        rows=rows,
        columns=roles.n_averaged + len(roles.confidential),
        quasi_identifiers=roles.n_averaged,
        blocking=len(roles.blocking),
        identifiers=len(roles.identifiers),
        refine="off" if spec.effort == "off" else "fast",
    )
    sizes = sizes_by_figure(description, np.array([float(rows)]), kernel_seconds, block=np.array([float(n_blocks)]))
    of_steps = sum(float(figured(of_step, sizes)[0]) for of_step in figures.cpu.values())
    return figures.dispatch["start"] + of_steps + sum(of.get("release", 0.0) for of in figures.flow.values())


def most_seconds(spec: ReleaseSpec, rows: int) -> float:
    """Estimate the most CPU seconds that a release may take, whatever its blocks are: they are not known yet."""
    chosen, p = algorithms()[spec.algorithm.name].with_costs_of(spec.algorithm.parameters), spec.roles.n_averaged
    info = chosen.with_refinement(spec.effort)
    width = 8.0 * (p + len(spec.roles.confidential))
    largest = min(rows, spec.blocks.max_records or default_max_records(info, p, spec.k, width))
    sizes = np.geomspace(spec.k, max(spec.k, largest), _SIZES).astype(np.int64).tolist()
    return planned_seconds(spec, rows, rows * max(info.cost_seconds(n, p, spec.k) / n for n in sizes))


@lru_cache(maxsize=1)
def measured_figures() -> MeasuredFigures:
    return MeasuredFigures(
        **json.loads(files("microagg_core.release.sizing").joinpath("figures.json").read_text(encoding="utf-8"))
    )


@lru_cache(maxsize=1)
def measured_steps() -> dict[str, Step]:
    """Find the steps of which figures were measured, in their order."""
    declared = {step.name: step for step in members("microagg_core.release.steps", Step)}
    return {name: declared[name] for name in measured_figures().cpu if name != UPLOAD}


@dataclass(frozen=True)
class StepTasks:
    """The tasks of one step, an entry a task: CPU seconds, requests, and bytes on their way."""

    step: str
    sizes: Sizes
    cpu: Floats
    reads: Floats
    #: How often it waits for an answer before it computes; and requests that write, made one after the other.
    read_rounds: Floats
    writes: Floats
    bytes_read: Floats
    bytes_written: Floats
    #: Those of the bytes read that come while it computes.
    bytes_ahead: Floats

    @property
    def order(self) -> Ints:
        """Put those on which the algorithm takes longest first, as they are handed out."""
        return np.argsort(-(self.sizes["kernel"] + self.sizes["refined_kernel"]), kind="stable")


class Sending(NamedTuple):
    """Rows on their way between the tasks of two steps."""

    #: Slices, streams and objects of each sending task.
    written: Floats | float
    streams_written: Floats | float
    objects: float
    #: Of each receiving task its rows, slices and streams, and the requests by which it gets them.
    rows: Floats
    read: Floats
    streams_read: Floats
    requests: Floats
    #: Bytes of each receiving task; None: its share of all that is written, by its rows.
    n_bytes: Floats | None = None
    #: Its blocking keys, as often as they were counted.
    keys: Floats | float = 0.0


@dataclass(frozen=True)
class Workload:
    """All tasks of a release, and what they have in common."""

    description: Description
    figures: MeasuredFigures

    @cached_property
    def plan(self) -> BlockPlan:
        return draw_plan(self.description)

    @cached_property
    def part_rows(self) -> Floats:
        one = self.description
        # CSV is cut by its own bytes, and half as often; others by the bytes of their rows before compression.
        width = input_row_bytes(one) * self.figures.stored[f"cut_{one.input_format}"]
        most = one.part_rows or max(1, int((RANGE_BYTES if one.input_format == "csv" else PART_BYTES) / width))
        n = -(-one.rows // most)
        return np.diff(np.arange(n + 1) * one.rows // n).astype(np.float64)

    @property
    def n_parts(self) -> int:
        return len(self.part_rows)

    @cached_property
    def file_rows(self) -> Floats:
        plan, rows = self.plan, self.plan.strata.rows_of_labels()
        file = np.repeat(plan.file_first, plan.file_count) + _within(plan.file_count)
        share = np.repeat(rows / plan.file_count, plan.file_count)
        return np.bincount(file, share, plan.n_files).astype(np.float64)

    @cached_property
    def input_bytes(self) -> Floats:
        one = self.description
        return self.part_rows * input_row_bytes(one) * self.figures.stored[one.input_format]

    @cached_property
    def candidate_bytes(self) -> Floats:
        return self.file_rows * row_bytes(self.description) * self.figures.stored[f"released_{self.description.format}"]

    def _met(self, rows: float, destination_rows: Floats | Ints) -> Floats:
        """Estimate the chance that a run of so many rows holds some for each destination."""
        if self.description.order == "sorted":
            return np.minimum(1.0, (rows + destination_rows) / self.description.rows)
        return -np.expm1(-rows * destination_rows / self.description.rows)

    @cached_property
    def own_keys(self) -> float:
        """Blocking keys that an input part has."""
        return float(self._met(float(self.part_rows[0]), self.plan.strata.rows).sum())

    @cached_property
    def sendings(self) -> dict[str, Sending]:
        return {
            SCATTERED.name: self._scattered(),
            ANONYMIZED.name: self._anonymized(),
            PART_KEYS.name: self._part_keys(),
            DIGESTS.name: self._digests(),
        }

    def _scattered(self) -> Sending:
        """Pack rows of parts when they are enough in memory, and write them when that is enough for an object."""
        one, rows, width = self.description, float(self.part_rows[0]), row_bytes(self.description)
        staged = _NUMBER_BYTES + width * one.columns / (one.columns + one.blocking)
        to, whole = self.plan.rows_of_partitions(), one.rows * width
        packs = max(1, int(np.ceil(rows * staged / grown_size(RUN_BYTES, whole, STEADY_BYTES))))
        streams = packs * self._met(rows / packs, to)
        sizes = sizes_by_figure(one, np.array([rows]), stream_written=np.array([float(streams.sum())]))
        n_bytes = float(figured(self.figures.written["scatter"], sizes)[0])
        objects = min(packs, max(1, int(np.ceil(n_bytes / grown_size(OBJECT_BYTES, whole, STEADY_BYTES)))))
        slices = objects * self._met(rows / objects, to)
        read = slices * self.n_parts
        written = float(slices.sum()), float(streams.sum()), objects
        return Sending(*written, to.astype(np.float64), read, streams * self.n_parts, read)

    def _anonymized(self) -> Sending:
        """Send rows of partitions to the files of their labels, from the first that each has rows for to the last."""
        plan, n_files = self.plan, len(self.file_rows)
        first_blocks = np.searchsorted(plan.block_partition, np.arange(plan.n_partitions))
        last_blocks = np.append(first_blocks[1:], plan.n_blocks) - 1
        of_first, of_last = (plan.strata.label[plan.block_stratum[block]] for block in (first_blocks, last_blocks))
        first, last = plan.file_first[of_first], (plan.file_first + plan.file_count - 1)[of_last]
        edges = np.bincount(first, minlength=n_files + 1)[:n_files]
        edges = edges - np.bincount(last + 1, minlength=n_files + 1)[:n_files]
        slices, written = np.cumsum(edges).astype(np.float64), (last - first + 1).astype(np.float64)
        return Sending(written, written, 1, self.file_rows, slices, slices, slices)

    def _part_keys(self) -> Sending:
        """Send blocking keys of parts to ranges of their hashes."""
        counted = self.own_keys * self.n_parts
        n = 1 << int(np.ceil(np.log2(max(1.0, counted / grown_size(TASK_KEYS, counted, STEADY_KEYS)))))
        ranges = np.full(n, self.n_parts * max(1.0, self.own_keys / _RANGE_KEYS / n))
        rows, keys = np.full(n, self.description.keys / n), np.full(n, counted / n)
        written = np.ceil(self.own_keys / _RANGE_KEYS)
        requests = np.full(n, float(self.n_parts))
        return Sending(written, 0.0, 1, rows, ranges, ranges, requests, keys * self._key_bytes, keys)

    def _digests(self) -> Sending:
        """Send digests of units of parts to ranges of these."""
        one = self.description
        n = one.identifiers * min(_BUCKETS, -(-one.rows // TASK_UNITS))
        rows = np.full(n, one.rows * one.identifiers / max(n, 1))
        runs = float(np.ceil(self.part_rows[0] / grown_size(RUN_UNITS, self.n_parts, STEADY_PARTS)))
        slices = np.full(n, self.n_parts * runs * max(1.0, _BUCKETS * one.identifiers / max(n, 1)))
        written, requests = runs * one.identifiers, np.full(n, self.n_parts * runs)
        return Sending(written * _BUCKETS, 0.0, written, rows, slices, np.zeros(n), requests, rows * _DIGEST_BYTES)

    @property
    def _key_bytes(self) -> float:
        return self.figures.written["survey"].get("key", 0.0)

    @cached_property
    def steps(self) -> dict[str, StepTasks]:
        done: dict[str, StepTasks] = {}
        for step in measured_steps().values():
            tasks = self._tasks_of(step, done)
            if len(tasks.cpu):
                done[step.name] = tasks
        sizes, chunks = sizes_by_figure(self.description, self.file_rows), np.ceil(self.candidate_bytes / _CHUNK_BYTES)
        upload = self._tasks(UPLOAD, sizes, 1, bytes_read=self.candidate_bytes, in_turn=chunks, waits=chunks)
        done[UPLOAD] = replace(upload, bytes_written=self.candidate_bytes)
        return done

    def _tasks_of(self, step: Step, done: dict[str, StepTasks]) -> StepTasks:
        """Follow a step's declaration."""
        received = [self.sendings[output.name] for output in step.receives]
        sizes = self._sizes(step, received)
        nothing = np.zeros(len(sizes["task"]))
        at_once = sum((sending.requests for sending in received), nothing)
        n_bytes = sum((self._received_bytes(step, sending, done) for sending in received), nothing)
        in_turn, waits, ahead = self._input_reads() if step.reads_input else (nothing, nothing, nothing)
        n_bytes = n_bytes + (self.input_bytes if step.reads_input else 0.0)
        for output in step.same:
            objects, of_output = self._same_number_reads(step, output.name, done)
            in_turn, waits, n_bytes = in_turn + objects, waits + objects, n_bytes + of_output
        if ROUTES in step.ranges_of:
            keys = len(self.plan.strata.key_hashes)
            at_once = at_once + np.ceil(keys / SHARD_KEYS)
            n_bytes = n_bytes + keys * self.figures.flow_bytes["route_stored"]
        if BLOCKS in step.ranges_of:
            in_turn, waits = in_turn + 1, waits + 1
        return self._tasks(step.name, sizes, self._objects(step), at_once, n_bytes, in_turn, waits, ahead)

    def _sizes(self, step: Step, received: list[Sending]) -> Sizes:
        """Size a step's tasks by what makes one, and by the rows that come and go."""
        plan, one, sent = self.plan, self.description, [self.sendings[output.name] for output in step.sends]
        counts: Sizes = {}
        seconds: Floats | float = 0.0
        if step.per == "part":
            rows, of_batch = self.part_rows, float(self._met(BATCH_ROWS, plan.strata.rows).sum())
            counts["key"] = np.full(len(rows), self.own_keys)
            counts["batch_key"] = np.ceil(rows / BATCH_ROWS) * of_batch
            counts["route"] = np.full(len(rows), float(len(plan.strata.key_hashes)))
        elif step.per == "partition":
            rows = plan.rows_of_partitions().astype(np.float64)
            counts["block"] = np.bincount(plan.block_partition, minlength=len(rows)).astype(np.float64)
            seconds = np.bincount(plan.block_partition, plan.block_seconds, len(rows)).astype(np.float64)
        elif step.per == "file":
            rows = self.file_rows
        else:
            rows = received[0].rows
            counts["key"] = np.full(len(rows), received[0].keys)
        nothing = np.zeros(len(rows))
        counts["slice_read"] = sum((sending.read for sending in received), nothing)
        counts["stream_read"] = sum((sending.streams_read for sending in received), nothing)
        counts["slice_written"] = sum((sending.written + nothing for sending in sent), nothing)
        counts["stream_written"] = sum((sending.streams_written + nothing for sending in sent), nothing)
        return sizes_by_figure(one, rows, seconds, **counts)

    def _received_bytes(self, step: Step, sending: Sending, done: dict[str, StepTasks]) -> Floats:
        if sending.n_bytes is not None:
            return sending.n_bytes
        (maker,) = (name for name, other in measured_steps().items() if set(other.sends) & set(step.receives))
        return np.asarray(done[maker].bytes_written.sum() * sending.rows / sending.rows.sum())

    def _same_number_reads(self, step: Step, output: str, done: dict[str, StepTasks]) -> tuple[float, Floats | float]:
        """Estimate requests and bytes of reading what another step's task of the same number wrote.

        Nothing where no step that was measured writes it: only nights of a series do.
        """
        if output == PART_KEYS.name:
            return 1.0, self.own_keys * self._key_bytes
        for maker in measured_steps().values():
            if maker.per == step.per and output in [written.name for written in maker.writes]:
                return 1.0, done[maker.name].bytes_written / len(maker.writes)
        return 0.0, 0.0

    def _objects(self, step: Step) -> float:
        """Count the objects that a task writes."""
        # Of each confidential column, of all together, and of records and of keys that are drawn; what is written only
        # where something is out of the ordinary is not counted.
        several = {CONFIDENTIAL: self.description.confidential + 3.0, UNIT_COLUMNS: 0.0, REPEATED: 0.0}
        sent = sum(self.sendings[output.name].objects for output in step.sends)
        return sent + sum(several.get(output, 1.0) for output in step.writes)

    def _input_reads(self) -> tuple[Floats, Floats, Floats]:
        """Count sequential requests of each part, those that are waited for, and bytes fetched in the background."""
        n_bytes = self.input_bytes
        if self.description.input_format == "parquet":
            groups = np.ceil(self.part_rows / _GROUP_ROWS)
            return _FIRST_READS * groups, np.full(len(groups), float(_FIRST_READS)), n_bytes * (1 - 1 / groups)
        chunks = np.ceil(n_bytes / _CHUNK_BYTES) + 1
        return chunks, chunks, np.zeros(len(chunks))

    def _tasks(
        self,
        step: str,
        sizes: Sizes,
        writes: float,
        at_once: Floats | float = 0.0,
        bytes_read: Floats | float = 0.0,
        in_turn: Floats | float = 0.0,
        waits: Floats | float = 0.0,
        ahead: Floats | float = 0.0,
    ) -> StepTasks:
        """Add up what tasks take that make requests at once and in turn; of these they wait for some."""
        n, remote = len(sizes["task"]), self.figures.remote
        reads, read = np.full(n, at_once) + in_turn + _LOOKS, np.full(n, bytes_read)
        rounds = np.ceil(np.full(n, at_once) / PARALLEL_REQUESTS) + waits + _LOOKS
        all_writes, written = np.full(n, writes) + _RECEIPT, figured(self.figures.written[step], sizes)
        cpu = figured(self.figures.cpu[step], sizes)
        if self.description.store == "s3":
            cpu = cpu + remote["request"] * (reads + all_writes) + remote["byte"] * (read + written)
        return StepTasks(step, sizes, cpu, reads, rounds, all_writes, read, written, np.full(n, ahead))

    @cached_property
    def counts(self) -> dict[str, float]:
        """Count what the flow's own work grows with."""
        steps, plan = self.steps, self.plan
        return {
            "release": 1.0,
            "part": float(self.n_parts),
            "sketch": float(self.n_parts * self.description.confidential),
            "key": float(self.description.keys),
            "block": float(plan.n_blocks),
            "partition": float(plan.n_partitions),
            "file": float(plan.n_files),
            **{f"slice_{name}": float(steps[name].sizes["slice_written"].sum()) for name in _SENDERS},
            "object": self.objects,
        }

    @property
    def objects(self) -> float:
        """Count the objects that the run leaves in its work area before they are removed."""
        return float(sum(tasks.writes.sum() for step, tasks in self.steps.items() if step != UPLOAD))

    def flow_seconds(self, stage: str) -> float:
        """CPU seconds of the flow itself in a stage, between its tasks."""
        return sum(value * self.counts[name] for name, value in self.figures.flow.get(stage, {}).items())


#: Steps whose slices the flow deals.
_SENDERS = ("survey", "scatter", "anonymize")


def _within(counts: Ints) -> Ints:
    """0 to n-1 for each of these counts, one after the other.

    >>> _within(np.array([2, 1, 3])).tolist()
    [0, 1, 0, 0, 1, 2]
    """
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
