"""The tasks of a release of a described size: what each step's tasks compute, read and write.

What a task reads and writes follows from the step's declaration; what that takes, from figures that were measured, one
for each thing that a task's size is made of. They lie in ``figures.json``, with the day and the machine on which
``tests/benchmark/calibrate.py`` measured them; nobody writes them by hand. How many slices there are follows from how
rows meet: a run of n rows out of a mixed input has one for each of the partitions that it meets by chance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from microagg_core.blocks.plan import BlockPlan
from microagg_core.blocks.routes import SHARD_KEYS
from microagg_core.data.formats.csv_bytes import RANGE_BYTES
from microagg_core.data.formats.reading import BATCH_ROWS, PART_BYTES
from microagg_core.registry import members
from microagg_core.release.planned import BLOCKS, ROUTES
from microagg_core.release.sizing.description import Description, input_row_bytes, row_bytes
from microagg_core.release.step import Step
from microagg_core.release.steps.anonymize import ANONYMIZED
from microagg_core.release.steps.keys import PART_KEYS
from microagg_core.release.steps.scatter import SCATTERED
from microagg_core.release.steps.survey import CONFIDENTIAL
from microagg_core.release.steps.units import DIGESTS, REPEATED, UNIT_COLUMNS
from microagg_core.store.remote import REQUESTS_AT_ONCE

#: Bytes of a staged row besides its values: record number and block.
_NUMBER_BYTES = 12
#: Of digests: buckets of an object, and bytes of one. Of a part's keys: as many in a range.
_BUCKETS, _DIGEST_BYTES, _RANGE_KEYS = 256, 16, 4096
#: Every task looks for its receipt, which is not there, and leaves one.
_LOOKS, _RECEIPT = 1, 1
#: Parquet is read by ranges: what the file is, its footer, then a range for each row group, or a few. All but the first
#: come while the rows before them are worked on.
_FOOTER_READS, _GROUP_READS, _GROUP_ROWS = 2, 1, 1_000_000
_CHUNK_BYTES = 8 * 2**20
#: Requests of one task that are under way at a time, where they do not wait for each other.
PARALLEL_REQUESTS = REQUESTS_AT_ONCE
#: Objects that tasks write only where something is out of the ordinary.
_SELDOM = (UNIT_COLUMNS, REPEATED)
#: What is no task: copying a checked file to the output.
UPLOAD = "upload"


# --- Measured figures ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """The columns of an input, as far as they make tasks longer."""

    quasi_identifiers: int
    confidential: int
    blocking: int
    identifiers: int
    row_bytes: float

    @classmethod
    def of(cls, description: Description) -> Columns:
        one = description
        return cls(one.quasi_identifiers, one.confidential, one.blocking, one.identifiers, row_bytes(one))


@dataclass(frozen=True)
class TaskSizes:
    """How large the tasks of one step are, an entry a task; what a step knows nothing of is left at 0."""

    rows: Floats
    #: Slices that it is sent, each a range of bytes, and streams in them, one for each time that rows were packed.
    slices_read: Floats = field(default_factory=lambda: np.zeros(1))
    streams_read: Floats = field(default_factory=lambda: np.zeros(1))
    slices_written: Floats = field(default_factory=lambda: np.zeros(1))
    streams_written: Floats = field(default_factory=lambda: np.zeros(1))
    blocks: Floats = field(default_factory=lambda: np.zeros(1))
    #: Blocking keys of its own part or range, as often as they were counted; and those of the whole plan.
    keys: Floats = field(default_factory=lambda: np.zeros(1))
    #: Keys as often as they are met in another batch of rows.
    batch_keys: Floats = field(default_factory=lambda: np.zeros(1))
    routes: Floats = field(default_factory=lambda: np.zeros(1))
    #: What the algorithm takes for its blocks, by the registry.
    kernel_seconds: Floats = field(default_factory=lambda: np.zeros(1))
    #: Whether groups are refined, which has a cost of its own for each block.
    refined: bool = False

    def __len__(self) -> int:
        return len(self.rows)

    def parts(self, columns: Columns) -> dict[str, Floats]:
        """Take sizes apart, by the names that figures have."""
        return {
            "task": np.ones(len(self)),
            "row": self.rows,
            "row_quasi": self.rows * columns.quasi_identifiers,
            "row_confidential": self.rows * columns.confidential,
            "row_identifier": self.rows * columns.identifiers,
            "row_byte": self.rows * columns.row_bytes,
            "slice_read": self.slices_read,
            "stream_read": self.streams_read,
            "stream_written": self.streams_written,
            "block": self.blocks,
            "block_quasi": self.blocks * columns.quasi_identifiers,
            "key": self.keys,
            "batch_key": self.batch_keys,
            "route": self.routes,
            "kernel": self.kernel_seconds * (not self.refined),
            "refined_kernel": self.kernel_seconds * self.refined,
            "refined_block": self.blocks * self.refined,
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

    def seconds(self, step: str, sizes: TaskSizes, columns: Columns) -> Floats:
        """CPU seconds of each task."""
        return _sum(self.cpu[step], sizes.parts(columns), len(sizes))

    def bytes_written(self, step: str, sizes: TaskSizes, columns: Columns) -> Floats:
        return _sum(self.written[step], sizes.parts(columns), len(sizes))


def _sum(figures: Mapping[str, float], parts: Mapping[str, Floats], n: int) -> Floats:
    return sum((value * parts[name] for name, value in figures.items()), np.zeros(n))


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


# --- Tasks ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepTasks:
    """The tasks of one step, an entry a task: CPU seconds, requests, and bytes on their way."""

    step: str
    sizes: TaskSizes
    cpu: Floats
    reads: Floats
    #: How often it waits for an answer before it computes; and requests that write, made one after the other.
    read_rounds: Floats
    writes: Floats
    bytes_read: Floats
    bytes_written: Floats
    #: Those of the bytes read that come while it computes.
    bytes_ahead: Floats
    #: In which order they are handed out.
    order: Ints

    def __len__(self) -> int:
        return len(self.cpu)


class Sending(NamedTuple):
    """Rows on their way between the tasks of two steps.

    Attributes:
        written, streams_written, objects: slices, streams and objects of each sending task.
        rows: rows of each receiving task.
        read, streams_read, requests: slices and streams of each receiving task, and requests by which it gets them.
        n_bytes: of each receiving task; None: its share of all that is written, by its rows.
        keys: blocking keys of each receiving task, as often as they were counted.
    """

    written: Floats | float
    streams_written: Floats | float
    objects: float
    rows: Floats
    read: Floats
    streams_read: Floats
    requests: Floats
    n_bytes: Floats | None = None
    keys: Floats | float = 0.0


class ReadsInTurn(NamedTuple):
    """Per task: sequential requests, round trips, bytes fetched in the background."""

    requests: Floats | float
    waits: Floats | float
    bytes_ahead: Floats | float


@dataclass(frozen=True)
class Workload:
    """All tasks of a release, and what they have in common."""

    description: Description
    plan: BlockPlan
    figures: MeasuredFigures

    @cached_property
    def columns(self) -> Columns:
        return Columns.of(self.description)

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
        """Input parts."""
        return len(self.part_rows)

    @cached_property
    def file_rows(self) -> Floats:
        plan, rows = self.plan, self.plan.strata.rows_of_labels()
        file = np.repeat(plan.file_first, plan.file_count) + _within(plan.file_count)
        share = np.repeat(rows / plan.file_count, plan.file_count)
        return np.bincount(file, share, plan.n_files).astype(np.float64)

    # --- Who meets whom --------------------------------------------------------------------------------------

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
    def files_of_partitions(self) -> tuple[Ints, Ints]:
        """Find the first and the last file that each partition has rows for."""
        plan = self.plan
        first = np.searchsorted(plan.block_partition, np.arange(plan.n_partitions))
        last = np.append(first[1:], plan.n_blocks) - 1
        label_of_first, label_of_last = (plan.strata.label[plan.block_stratum[block]] for block in (first, last))
        return plan.file_first[label_of_first], (plan.file_first + plan.file_count - 1)[label_of_last]

    # --- Rows on their way -----------------------------------------------------------------------------------

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
        one, rows, width = self.description, float(self.part_rows[0]), self.columns.row_bytes
        staged = _NUMBER_BYTES + width * one.columns / (one.columns + one.blocking)
        to, whole = self.plan.rows_of_partitions(), one.rows * width
        packs = max(1, int(np.ceil(rows * staged / grown_size(RUN_BYTES, whole, STEADY_BYTES))))
        streams = packs * self._met(rows / packs, to)
        sizes = TaskSizes(np.array([rows]), streams_written=np.array([float(streams.sum())]))
        n_bytes = float(self.figures.bytes_written("scatter", sizes, self.columns)[0])
        objects = min(packs, max(1, int(np.ceil(n_bytes / grown_size(OBJECT_BYTES, whole, STEADY_BYTES)))))
        slices = objects * self._met(rows / objects, to)
        read = slices * self.n_parts
        written = float(slices.sum()), float(streams.sum()), objects
        return Sending(*written, to.astype(np.float64), read, streams * self.n_parts, read)

    def _anonymized(self) -> Sending:
        """Send rows of partitions to the files of their labels."""
        first, last = self.files_of_partitions
        edges = np.bincount(first, minlength=len(self.file_rows) + 1)[: len(self.file_rows)]
        edges = edges - np.bincount(last + 1, minlength=len(self.file_rows) + 1)[: len(self.file_rows)]
        slices, written = np.cumsum(edges).astype(np.float64), (last - first + 1).astype(np.float64)
        return Sending(written, written, 1, self.file_rows, slices, slices, slices)

    def _part_keys(self) -> Sending:
        """Blocking keys of parts, for ranges of their hashes."""
        counted = self.own_keys * self.n_parts
        n = 1 << int(np.ceil(np.log2(max(1.0, counted / grown_size(TASK_KEYS, counted, STEADY_KEYS)))))
        ranges = np.full(n, self.n_parts * max(1.0, self.own_keys / _RANGE_KEYS / n))
        rows, keys = np.full(n, self.description.keys / n), np.full(n, counted / n)
        written = np.ceil(self.own_keys / _RANGE_KEYS)
        requests = np.full(n, float(self.n_parts))
        return Sending(written, 0.0, 1, rows, ranges, ranges, requests, keys * self._key_bytes, keys)

    def _digests(self) -> Sending:
        """Digests of units of parts, for ranges of these."""
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

    # --- Steps -----------------------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> dict[str, StepTasks]:
        done: dict[str, StepTasks] = {}
        for step in measured_steps().values():
            tasks = self._tasks_of(step, done)
            if len(tasks):
                done[step.name] = tasks
        done[UPLOAD] = self._upload()
        return done

    def _tasks_of(self, step: Step, done: dict[str, StepTasks]) -> StepTasks:
        """Follow a step's declaration."""
        received = [self.sendings[output.name] for output in step.receives]
        sizes = self._sizes(step, received)
        reads = sum((sending.requests for sending in received), np.zeros(len(sizes)))
        n_bytes = sum((self._received_bytes(step, sending, done) for sending in received), np.zeros(len(sizes)))
        in_turn = self.input_reads() if step.reads_input else ReadsInTurn(0.0, 0.0, 0.0)
        n_bytes = n_bytes + (self.input_bytes if step.reads_input else 0.0)
        for output in step.same:
            objects, of_output = self._same_number_reads(step, output.name, done)
            in_turn = ReadsInTurn(in_turn.requests + objects, in_turn.waits + objects, in_turn.bytes_ahead)
            n_bytes = n_bytes + of_output
        if ROUTES in step.ranges_of:
            keys = len(self.plan.strata.key_hashes)
            reads, n_bytes = (
                reads + np.ceil(keys / SHARD_KEYS),
                n_bytes + keys * self.figures.flow_bytes["route_stored"],
            )
        if BLOCKS in step.ranges_of:
            in_turn = ReadsInTurn(in_turn.requests + 1, in_turn.waits + 1, in_turn.bytes_ahead)
        return self._tasks(step.name, sizes, reads, self._objects(step), n_bytes, in_turn)

    def _sizes(self, step: Step, received: list[Sending]) -> TaskSizes:
        """Size a step's tasks by what makes one, and by the rows that come and go."""
        plan, sent = self.plan, [self.sendings[output.name] for output in step.sends]
        if step.per == "part":
            rows, n = self.part_rows, self.n_parts
            of_batch = float(self._met(BATCH_ROWS, plan.strata.rows).sum())
            sizes = TaskSizes(
                rows,
                keys=np.full(n, self.own_keys),
                batch_keys=np.ceil(rows / BATCH_ROWS) * of_batch,
                routes=np.full(n, float(len(plan.strata.key_hashes))),
            )
        elif step.per == "partition":
            sizes = TaskSizes(
                plan.rows_of_partitions().astype(np.float64),
                blocks=np.bincount(plan.block_partition, minlength=plan.n_partitions).astype(np.float64),
                kernel_seconds=np.bincount(plan.block_partition, plan.block_seconds, plan.n_partitions).astype(
                    np.float64
                ),
                refined=self.description.refine != "off",
            )
        elif step.per == "file":
            sizes = TaskSizes(self.file_rows)
        else:
            sizes = TaskSizes(received[0].rows, keys=np.full(len(received[0].rows), received[0].keys))
        n = len(sizes)
        return replace(
            sizes,
            slices_read=sum((sending.read for sending in received), np.zeros(n)),
            streams_read=sum((sending.streams_read for sending in received), np.zeros(n)),
            slices_written=sum((sending.written + np.zeros(n) for sending in sent), np.zeros(n)),
            streams_written=sum((sending.streams_written + np.zeros(n) for sending in sent), np.zeros(n)),
        )

    def _received_bytes(self, step: Step, sending: Sending, done: dict[str, StepTasks]) -> Floats:
        if sending.n_bytes is not None:
            return sending.n_bytes
        (maker,) = (name for name, one in measured_steps().items() if set(one.sends) & set(step.receives))
        return np.asarray(done[maker].bytes_written.sum() * sending.rows / sending.rows.sum())

    def _same_number_reads(self, step: Step, output: str, done: dict[str, StepTasks]) -> tuple[float, Floats | float]:
        """Estimate requests and bytes of reading what another step's task of the same number wrote.

        Nothing where no step that was measured writes it: only nights of a series do.
        """
        if output == PART_KEYS.name:
            return 1.0, self.own_keys * self._key_bytes
        makers = [one for one in measured_steps().values() if one.per == step.per]
        for maker in makers:
            if output in [written.name for written in maker.writes]:
                return 1.0, done[maker.name].bytes_written / len(maker.writes)
        return 0.0, 0.0

    def _objects(self, step: Step) -> float:
        """Count the objects that a task writes."""
        several = {output.name: 0.0 for output in _SELDOM}
        # Of each confidential column, of all together, and of records and of keys that are drawn.
        several[CONFIDENTIAL.name] = self.description.confidential + 3.0
        sent = sum(self.sendings[output.name].objects for output in step.sends)
        return sent + sum(several.get(output.name, 1.0) for output in step.writes)

    def _tasks(
        self,
        step: str,
        sizes: TaskSizes,
        reads: Floats | float,
        writes: Floats | float,
        bytes_read: Floats | float,
        in_turn: ReadsInTurn,
    ) -> StepTasks:
        n, figures = len(sizes), self.figures
        written = figures.bytes_written(step, sizes, self.columns)
        all_reads, all_writes = np.full(n, reads) + in_turn.requests + _LOOKS, np.full(n, writes) + _RECEIPT
        rounds = np.ceil(np.full(n, reads) / PARALLEL_REQUESTS) + in_turn.waits + _LOOKS
        read, ahead = np.full(n, bytes_read), np.full(n, in_turn.bytes_ahead)
        cpu = figures.seconds(step, sizes, self.columns)
        if self.description.store == "s3":
            requests = figures.remote["request"] * (all_reads + all_writes)
            cpu = cpu + requests + figures.remote["byte"] * (read + written)
        order = np.argsort(-np.full(n, sizes.kernel_seconds), kind="stable")
        return StepTasks(step, sizes, cpu, all_reads, rounds, all_writes, read, written, ahead, order)

    def _upload(self) -> StepTasks:
        n_bytes = self.candidate_bytes
        chunks = np.ceil(n_bytes / _CHUNK_BYTES)
        tasks = self._tasks(UPLOAD, TaskSizes(self.file_rows), 0, 1, n_bytes, ReadsInTurn(chunks, chunks, 0.0))
        return replace(tasks, bytes_written=n_bytes)

    @cached_property
    def input_bytes(self) -> Floats:
        one = self.description
        return self.part_rows * input_row_bytes(one) * self.figures.stored[one.input_format]

    def input_reads(self) -> ReadsInTurn:
        n_bytes = self.input_bytes
        if self.description.input_format == "parquet":
            groups = np.ceil(self.part_rows / _GROUP_ROWS)
            first = _FOOTER_READS + _GROUP_READS
            return ReadsInTurn(first * groups, np.full(len(groups), first), n_bytes * (1 - 1 / groups))
        chunks = np.ceil(n_bytes / _CHUNK_BYTES) + 1
        return ReadsInTurn(chunks, chunks, np.zeros(len(chunks)))

    @cached_property
    def candidate_bytes(self) -> Floats:
        return self.file_rows * row_bytes(self.description) * self.figures.stored[f"released_{self.description.format}"]

    # --- The flow --------------------------------------------------------------------------------------------

    @cached_property
    def counts(self) -> dict[str, float]:
        """Count what the flow's own work grows with."""
        steps, plan = self.steps, self.plan
        written = {step: float(tasks.sizes.slices_written.sum()) for step, tasks in steps.items()}
        return {
            "release": 1.0,
            "part": float(self.n_parts),
            "sketch": float(self.n_parts * self.description.confidential),
            "key": float(self.description.keys),
            "block": float(plan.n_blocks),
            "partition": float(plan.n_partitions),
            "file": float(plan.n_files),
            "slice_survey": written["survey"],
            "slice_scatter": written["scatter"],
            "slice_anonymize": written["anonymize"],
            "object": self.objects,
        }

    @property
    def objects(self) -> float:
        """Count the objects that the run leaves in its work area before they are removed."""
        return float(sum(tasks.writes.sum() for step, tasks in self.steps.items() if step != UPLOAD))

    def flow_seconds(self, stage: str) -> float:
        """CPU seconds of the flow itself in a stage, between its tasks."""
        return sum(value * self.counts[name] for name, value in self.figures.flow.get(stage, {}).items())


def _within(counts: Ints) -> Ints:
    """0 to n-1 for each of these counts, one after the other.

    >>> _within(np.array([2, 1, 3])).tolist()
    [0, 1, 0, 0, 1, 2]
    """
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
