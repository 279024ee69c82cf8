"""The tasks of a release, step by step: what each of them computes, reads and writes.

How many slices there are follows from how rows meet: a run of n rows out of a mixed input has one for each of the
partitions that it meets by chance. What one step writes for another is what that one reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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
from microagg_core.release.steps.sizing.description import Description
from microagg_core.release.steps.sizing.drawing import input_row_bytes, row_bytes
from microagg_core.release.steps.sizing.figures import Columns, MeasuredFigures, TaskSizes
from microagg_core.store.remote import REQUESTS_AT_ONCE

#: Bytes of a staged row besides its values: record number and block.
_NUMBER_BYTES = 12
#: Of digests: buckets of an object, and bytes of one.
_BUCKETS, _DIGEST_BYTES = 256, 16
#: What a part is surveyed into, besides digests of units and what is gathered of each confidential column.
_SURVEYED = 6
#: What is noted of a file: for the gate, of its values, of its risks, and for the operator's page.
_NOTED = 6
#: Every task looks for its receipt, which is not there, and leaves one.
_LOOKS, _RECEIPT = 1, 1
#: Parquet is read by ranges: what the file is, its footer, then a range for each row group, or a few. All but the first
#: come while the rows before them are worked on.
_FOOTER_READS, _GROUP_READS, _GROUP_ROWS = 2, 1, 1_000_000
_CHUNK_BYTES = 8 * 2**20
#: Requests of one task that are under way at a time, where they do not wait for each other.
PARALLEL_REQUESTS = REQUESTS_AT_ONCE


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


@dataclass(frozen=True)
class Sent:
    """What one task sends to many: objects, and the streams and slices that each destination gets."""

    objects: int
    streams: Floats
    slices: Floats


class ReadsInTurn(NamedTuple):
    """Of each task the requests made in turn, how many it waits for, and the bytes that it does not wait for."""

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
        """The columns, as far as they make tasks longer."""
        return Columns.of(self.description)

    @cached_property
    def part_rows(self) -> Floats:
        """Rows of each input part."""
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
        """Rows of each released file."""
        plan, rows = self.plan, self.plan.strata.rows_of_labels()
        file = np.repeat(plan.file_first, plan.file_count) + _within(plan.file_count)
        share = np.repeat(rows / plan.file_count, plan.file_count)
        return np.bincount(file, share, plan.n_files).astype(np.float64)

    def sent_of_part(self, step: str, width: float, destination_rows: Floats | Ints) -> Sent:
        """What an input part sends to destinations of so many rows, its own rows being so many bytes wide.

        Rows are packed when they are enough in memory, and written when what is packed is enough for an object.
        """
        rows = float(self.part_rows[0])
        whole = self.description.rows * self.columns.row_bytes
        packs = max(1, int(np.ceil(rows * width / grown_size(RUN_BYTES, whole, STEADY_BYTES))))
        streams = self._met(rows / packs, destination_rows)
        sizes = TaskSizes(np.array([rows]), streams_written=np.array([packs * float(streams.sum())]))
        n_bytes = float(self.figures.bytes_written(step, sizes, self.columns)[0])
        objects = min(packs, max(1, int(np.ceil(n_bytes / grown_size(OBJECT_BYTES, whole, STEADY_BYTES)))))
        return Sent(objects, packs * streams, objects * self._met(rows / objects, destination_rows))

    @cached_property
    def scattered(self) -> Sent:
        """What an input part sends to partitions."""
        one, width = self.description, self.columns.row_bytes
        staged = _NUMBER_BYTES + width * one.columns / (one.columns + one.blocking)
        return self.sent_of_part("scatter", staged, self.plan.rows_of_partitions())

    # --- Who meets whom --------------------------------------------------------------------------------------

    def _met(self, rows: float, destination_rows: Floats | Ints) -> Floats:
        """The chance that a run of so many rows holds some for each destination."""
        if self.description.order == "sorted":
            return np.minimum(1.0, (rows + destination_rows) / self.description.rows)
        return -np.expm1(-rows * destination_rows / self.description.rows)

    @cached_property
    def own_keys(self) -> float:
        """Blocking keys that an input part has."""
        return float(self._met(float(self.part_rows[0]), self.plan.strata.rows).sum())

    @cached_property
    def files_of_partitions(self) -> tuple[Ints, Ints]:
        """The first and the last file that each partition has rows for."""
        plan = self.plan
        first = np.searchsorted(plan.block_partition, np.arange(plan.n_partitions))
        last = np.append(first[1:], plan.n_blocks) - 1
        label_of_first, label_of_last = (plan.strata.label[plan.block_stratum[block]] for block in (first, last))
        return plan.file_first[label_of_first], (plan.file_first + plan.file_count - 1)[label_of_last]

    # --- Steps -----------------------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> dict[str, StepTasks]:
        """The tasks of every step, in the steps' order."""
        makers = (
            self._survey, self._units, self._keys, self._scatter, self._anonymize,
            self._assemble, self._check_files, self._upload,
        )  # fmt: skip
        done: dict[str, StepTasks] = {}
        for maker in makers:
            tasks = maker(done)
            if len(tasks):
                done[tasks.step] = tasks
        return done

    def _tasks(
        self,
        step: str,
        sizes: TaskSizes,
        reads: Floats | float,
        writes: Floats | float,
        bytes_read: Floats | float,
        order: Ints | None = None,
        in_turn: ReadsInTurn | None = None,
    ) -> StepTasks:
        n, figures = len(sizes), self.figures
        asked, waits, ahead = in_turn or (0.0, 0.0, 0.0)
        written = figures.bytes_written(step, sizes, self.columns)
        all_reads, all_writes = np.full(n, reads) + asked + _LOOKS, np.full(n, writes) + _RECEIPT
        rounds = np.ceil(np.full(n, reads) / PARALLEL_REQUESTS) + waits + _LOOKS
        moved = np.full(n, bytes_read) + written
        cpu = figures.seconds(step, sizes, self.columns)
        if self.description.store == "s3":
            cpu = cpu + figures.remote["request"] * (all_reads + all_writes) + figures.remote["byte"] * moved
        order = np.arange(n) if order is None else order
        read, ahead = np.full(n, bytes_read), np.full(n, ahead)
        return StepTasks(step, sizes, cpu, all_reads, rounds, all_writes, read, written, ahead, order)

    @cached_property
    def input_bytes(self) -> Floats:
        """Bytes of each part, as they are stored."""
        one = self.description
        return self.part_rows * input_row_bytes(one) * self.figures.stored[one.input_format]

    def input_reads(self) -> ReadsInTurn:
        """How each part is read."""
        n_bytes = self.input_bytes
        if self.description.input_format == "parquet":
            groups = np.ceil(self.part_rows / _GROUP_ROWS)
            first = _FOOTER_READS + _GROUP_READS
            return ReadsInTurn(first * groups, np.full(len(groups), first), n_bytes * (1 - 1 / groups))
        chunks = np.ceil(n_bytes / _CHUNK_BYTES) + 1
        return ReadsInTurn(chunks, chunks, np.zeros(len(chunks)))

    def _runs_of_units(self) -> float:
        """Objects of digests that a part writes for each identifier."""
        return float(np.ceil(self.part_rows[0] / grown_size(RUN_UNITS, self.n_parts, STEADY_PARTS)))

    def _survey(self, done: dict[str, StepTasks]) -> StepTasks:
        one, rows = self.description, self.part_rows
        runs = self._runs_of_units() * one.identifiers
        keys = np.full(len(rows), self.own_keys)
        slices = np.full(len(rows), runs * _BUCKETS) + np.ceil(keys / 4096)
        of_batch = float(self._met(BATCH_ROWS, self.plan.strata.rows).sum())
        writes = _SURVEYED + one.confidential + runs
        sizes = TaskSizes(rows, slices_written=slices, keys=keys, batch_keys=np.ceil(rows / BATCH_ROWS) * of_batch)
        return self._tasks("survey", sizes, 1, writes, self.input_bytes, in_turn=self.input_reads())

    def _units(self, done: dict[str, StepTasks]) -> StepTasks:
        one = self.description
        n = one.identifiers * min(_BUCKETS, -(-one.rows // TASK_UNITS))
        rows = np.full(n, one.rows * one.identifiers / max(n, 1))
        objects = self.n_parts * self._runs_of_units()
        sizes = TaskSizes(rows, slices_read=np.full(n, objects * max(1.0, _BUCKETS * one.identifiers / max(n, 1))))
        return self._tasks("units", sizes, objects, 0, rows * _DIGEST_BYTES)

    def _keys(self, done: dict[str, StepTasks]) -> StepTasks:
        counted = self.own_keys * self.n_parts
        n = 1 << int(np.ceil(np.log2(max(1.0, counted / grown_size(TASK_KEYS, counted, STEADY_KEYS)))))
        keys = np.full(n, counted / n)
        ranges = np.full(n, self.n_parts * max(1.0, self.own_keys / 4096 / n))
        sizes = TaskSizes(np.full(n, self.description.keys / n), ranges, ranges, keys=keys)
        return self._tasks("keys", sizes, float(self.n_parts), 1, keys * self.figures.written["survey"].get("key", 0.0))

    def _knowing_keys(self) -> tuple[float, float]:
        """Requests and bytes by which a part's routes are read."""
        keys = len(self.plan.strata.key_hashes)
        own_bytes = self.own_keys * self.figures.written["survey"].get("key", 0.0)
        n_bytes = keys * self.figures.flow_bytes["route_stored"] + own_bytes
        return 1 + np.ceil(keys / SHARD_KEYS), n_bytes

    def _of_parts(self, read: float, sent: Sent) -> TaskSizes:
        n = self.n_parts
        return TaskSizes(
            self.part_rows,
            slices_read=np.full(n, read),
            streams_read=np.full(n, read),
            slices_written=np.full(n, sent.slices.sum()),
            streams_written=np.full(n, sent.streams.sum()),
            keys=np.full(n, self.own_keys),
            routes=np.full(n, float(len(self.plan.strata.key_hashes))),
        )

    def _scatter(self, done: dict[str, StepTasks]) -> StepTasks:
        requests, key_bytes = self._knowing_keys()
        sizes, writes = self._of_parts(0.0, self.scattered), self.scattered.objects + 2
        n_bytes = self.input_bytes + key_bytes
        return self._tasks("scatter", sizes, requests, writes, n_bytes, in_turn=self.input_reads())

    def _anonymize(self, done: dict[str, StepTasks]) -> StepTasks:
        plan, rows = self.plan, self.plan.rows_of_partitions().astype(np.float64)
        seconds = np.bincount(plan.block_partition, plan.block_seconds, plan.n_partitions).astype(np.float64)
        slices, (first, last) = self.scattered.slices * self.n_parts, self.files_of_partitions
        written = (last - first + 1).astype(np.float64)
        sizes = TaskSizes(
            rows,
            slices_read=slices,
            streams_read=self.scattered.streams * self.n_parts,
            slices_written=written,
            streams_written=written,
            blocks=np.bincount(plan.block_partition, minlength=plan.n_partitions).astype(np.float64),
            kernel_seconds=seconds,
            refined=self.description.refine != "off",
        )
        n_bytes = done["scatter"].bytes_written.sum() * rows / rows.sum()
        # Its blocks and the scale of losses come before.
        order, before = np.argsort(-seconds, kind="stable"), ReadsInTurn(2.0, 2.0, 0.0)
        return self._tasks("anonymize", sizes, slices, 3, n_bytes, order, before)

    def _assemble(self, done: dict[str, StepTasks]) -> StepTasks:
        first, last = self.files_of_partitions
        edges = np.bincount(first, minlength=len(self.file_rows) + 1)[: len(self.file_rows)]
        edges = edges - np.bincount(last + 1, minlength=len(self.file_rows) + 1)[: len(self.file_rows)]
        slices = np.cumsum(edges).astype(np.float64)
        sizes = TaskSizes(self.file_rows, slices, slices)
        n_bytes = done["anonymize"].bytes_written.sum() * self.file_rows / self.file_rows.sum()
        return self._tasks("assemble", sizes, slices, 2, n_bytes)

    def _check_files(self, done: dict[str, StepTasks]) -> StepTasks:
        # The file, and what lies beside it.
        beside = ReadsInTurn(2.0, 2.0, 0.0)
        n_bytes = done["assemble"].bytes_written
        return self._tasks("check-files", TaskSizes(self.file_rows), 0, _NOTED, n_bytes, in_turn=beside)

    def _upload(self, done: dict[str, StepTasks]) -> StepTasks:
        n_bytes = self.candidate_bytes
        chunks = np.ceil(n_bytes / _CHUNK_BYTES)
        in_turn = ReadsInTurn(chunks, chunks, 0.0)
        tasks = self._tasks("upload", TaskSizes(self.file_rows), 0, 1, n_bytes, in_turn=in_turn)
        return StepTasks(**{**vars(tasks), "bytes_written": n_bytes})

    @cached_property
    def candidate_bytes(self) -> Floats:
        """Bytes of each released file."""
        return self.file_rows * row_bytes(self.description) * self.figures.stored[f"released_{self.description.format}"]

    # --- The flow --------------------------------------------------------------------------------------------

    @cached_property
    def counts(self) -> dict[str, float]:
        """What the flow's own work grows with."""
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
        """Objects that the run leaves in its work area before they are removed."""
        return float(sum(tasks.writes.sum() for step, tasks in self.steps.items() if step != "upload"))

    def flow_seconds(self, stage: str) -> float:
        """CPU seconds of the flow itself in a stage, between its tasks."""
        return sum(value * self.counts[name] for name, value in self.figures.flow.get(stage, {}).items())


def _within(counts: Ints) -> Ints:
    """0 to n-1 for each of these counts, one after the other.

    >>> _within(np.array([2, 1, 3])).tolist()
    [0, 1, 0, 0, 1, 2]
    """
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
