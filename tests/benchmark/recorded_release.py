"""A release whose every task is recorded: its size, what it took, and what it asked of the store.

The one source of the figures that :mod:`calibrate` fits. All is done in this process, one task after the other, so that
CPU seconds are those of the task alone, however busy the machine is.
"""

from __future__ import annotations

import datetime
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import release_at_scale
import yaml
from release_at_scale import write_input
from s3fs import S3FileSystem
from work_bytes import CountingStore, Traffic

from microagg_core.blocks import packing
from microagg_core.blocks.memory import FILE_BYTES
from microagg_core.data.formats.reading import InputFormat
from microagg_core.data.tables import slices
from microagg_core.data.tables.slices import frames_of, tables_of
from microagg_core.release.publish import Upload
from microagg_core.release.step import Receipt, Task
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store import s3
from microagg_core.store.objects import Store
from microagg_flows.executors import InProcess
from microagg_flows.pages import SWITCH
from microagg_flows.progress import Silence
from microagg_flows.release import Release, new_release
from microagg_flows.stages import STAGES, Stage, run_stage

QUASI_IDENTIFIERS = ("birth", "income", "area", "commute")
CONFIDENTIAL = ("diagnosis", "wage", "benefit", "hours")


@dataclass(frozen=True)
class Case:
    """A release to be recorded; with ``pieces`` its work is cut into so many partitions, however small they get.

    ``file_bytes`` is what a released file aims at in memory.
    """

    rows: int
    blocks: int
    quasi_identifiers: int = 4
    confidential: int = 4
    refine: str = "off"
    pieces: int | None = None
    part_rows: int = 1_000_000
    file_bytes: int = FILE_BYTES


@dataclass(frozen=True)
class TaskRecord:
    """A task: what it was about, and what it took. Requests are to the work area alone."""

    step: str
    rows: int
    #: Ranges of bytes that it read, and streams in them; slices that it wrote, and streams.
    slices_read: int
    streams_read: int
    slices_written: int
    streams_written: int
    blocks: int
    cpu_seconds: float
    kernel_seconds: float
    #: What the registry says of the algorithm on its blocks.
    model_seconds: float
    wall_seconds: float
    reads: int
    bytes_read: int
    writes: int
    bytes_written: int
    #: Requests to a bucket, those for the input among them, and the bytes that they moved.
    asked: int
    moved: int


@dataclass
class Recording:
    """What a release came to."""

    case: Case
    folder: Path
    tasks: list[TaskRecord] = field(default_factory=list)
    #: CPU seconds of the flow itself, by stage, and its requests.
    flow_seconds: dict[str, float] = field(default_factory=dict)
    flow_requests: dict[str, int] = field(default_factory=dict)
    #: What the model needs to know of it besides.
    facts: dict[str, float] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "folder"}


class Recorder(InProcess):
    """Does the tasks in this process, and writes down what each took."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(Silence())
        self.recording, self.work = recording, CountingStore("memory://none")
        self.blocks_of: Callable[[int], tuple[int, float]] = lambda number: (0, 0.0)
        self.seconds = 0.0
        self.requests = 0
        self.streams: Counter[str] = Counter()
        self.bucket: Counter[str] = Counter()

    def map(self, function: Callable[[Any], Any], items: Sequence[Any], what: str) -> list[Any]:
        return [self._recorded(function, item, what) for item in items]

    def _recorded(self, function: Callable[[Any], Any], item: Any, what: str) -> Any:
        before, start, cpu = self._traffic(), time.perf_counter(), time.process_time()
        result = function(item)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - start
        after = self._traffic()
        reads, bytes_read, writes, bytes_written, read, written, asked, moved = (
            a - b for a, b in zip(after, before, strict=True)
        )
        self.seconds += cpu
        self.requests += reads + writes
        receipt = result if isinstance(result, Receipt) else None
        rows = receipt.rows if receipt else item[1].entry.rows if _is_upload(item) else 0
        sent = item.slices if isinstance(item, Task) else ()
        blocks, model = self.blocks_of(item.number) if what == "anonymize" else (0, 0.0)
        self.recording.tasks.append(
            TaskRecord(
                step=receipt.step if receipt else what,
                rows=rows,
                slices_read=len(sent),
                streams_read=read,
                slices_written=len(receipt.slices) if receipt else 0,
                streams_written=written,
                blocks=blocks,
                cpu_seconds=cpu,
                kernel_seconds=receipt.kernel_seconds if receipt else 0.0,
                model_seconds=model,
                wall_seconds=wall,
                reads=reads,
                bytes_read=bytes_read,
                writes=writes,
                bytes_written=bytes_written,
                asked=asked,
                moved=moved,
            )
        )
        return result

    def _traffic(self) -> tuple[int, ...]:
        def both(traffic: Traffic) -> tuple[int, int]:
            return traffic.times.total(), traffic.bytes.total()

        streams, bucket = self.streams, self.bucket
        store = *both(self.work.seen), *both(self.work.written)
        return *store, streams["read"], streams["written"], bucket["requests"], bucket["bytes"]

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count streams, each of which is a frame; and what a bucket is asked for."""
        with ExitStack() as stack:
            stack.enter_context(patch.object(S3FileSystem, "_call_s3", _counted_calls(self.bucket)))
            stack.enter_context(patch.object(s3, "_range", _counted_ranges(self.bucket)))
            stack.enter_context(patch.object(slices, "frames_of", self._written))
            stack.enter_context(patch.object(slices, "tables_of", self._read))
            yield

    def _written(self, *what: Any) -> Iterator[bytes]:
        for frame in frames_of(*what):
            self.streams["written"] += 1
            yield frame

    def _read(self, frames: Sequence[memoryview]) -> list[pa.Table]:
        self.streams["read"] += len(frames)
        return tables_of(frames)


def _counted_ranges(seen: Counter[str]) -> Callable[..., Any]:
    original = s3._range

    async def range_of(*what: Any) -> bytes | None:
        data = await original(*what)
        seen.update(requests=1, bytes=len(data or b""))
        return data

    return range_of


def _counted_calls(seen: Counter[str]) -> Callable[..., Any]:
    original = S3FileSystem._call_s3

    async def call(self: S3FileSystem, method: str, *args: Any, **kwargs: Any) -> Any:
        answer = await original(self, method, *args, **kwargs)
        sent = kwargs.get("Body", b"")
        received = answer.get("ContentLength", 0) if method == "get_object" else 0
        seen.update(requests=1, bytes=received + (len(sent) if isinstance(sent, bytes) else 0))
        return answer

    return call


def _is_upload(item: Any) -> bool:
    return isinstance(item, tuple) and isinstance(item[1], Upload)


def make_input(case: Case, folder: Path, store: str | None = None, options: dict[str, Any] | None = None) -> None:
    release_at_scale._PART_ROWS = case.part_rows
    write_input(Store(str(folder / "input")), case.rows, case.blocks, 0.0)
    if store:
        target = Store(f"{store}/{folder.name}/input", options or {})
        for path in (folder / "input").iterdir():
            target.put(path.name, path.read_bytes())


def record(case: Case, folder: Path, store: str | None = None, options: dict[str, Any] | None = None) -> Recording:
    """Make the input, unless it is there, and the release; ``store`` is the bucket of all, unless they lie there."""
    if not (folder / "input").exists():
        make_input(case, folder, store, options)
    spec = load_spec(str(_write_spec(case, folder, store, options or {})))
    recording = Recording(case, folder)
    workers = Recorder(recording)
    # Every file is a part, however small it is; of the page only large censuses are asked (bookkeeping.py).
    with (
        patch.object(InputFormat, "part_bytes", 1),
        patch.object(packing, "FILE_BYTES", case.file_bytes),
        patch.dict(os.environ, {SWITCH: "off"}),
    ):
        _make(spec, workers, case)
    return recording


def _make(spec: ReleaseSpec, workers: Recorder, case: Case) -> None:
    release = new_release(spec, workers, None, True, datetime.datetime.now(datetime.UTC))
    release.work = workers.work = CountingStore(release.work.url, dict(release.work.storage_options), private=True)
    if case.pieces:
        packing._PIECES, packing._LEAST_SECONDS, packing._LEAST_BYTES = case.pieces, 0.0, 1
    try:
        with workers.counting():
            for stage in STAGES:
                _run(stage, release, workers)
    finally:
        packing._PIECES, packing._LEAST_SECONDS, packing._LEAST_BYTES = 48, 0.2, 4 * 2**20


def _run(stage: Stage, release: Release, workers: Recorder) -> None:
    workers.seconds, workers.requests, recording = 0.0, 0, workers.recording
    before, cpu = sum(workers._traffic()[::2]), time.process_time()
    if stage.name == "anonymize":
        outline = release.planned.outline
        first = np.append(outline.first_blocks, outline.n_blocks)
        workers.blocks_of = lambda number: (int(first[number + 1] - first[number]), float(outline.seconds[number]))
    if stage.name == "report":
        _note_facts(release, recording)
    run_stage(stage, release)
    recording.flow_seconds[stage.name] = time.process_time() - cpu - workers.seconds
    recording.flow_requests[stage.name] = sum(workers._traffic()[::2]) - before - workers.requests


def _note_facts(release: Release, recording: Recording) -> None:
    planned, plan = release.planned, release.plan_report
    assert plan is not None
    recording.facts = {
        "rows": planned.survey.rows,
        "row_bytes": planned.survey.row_bytes,
        "parts": len(planned.context.parts),
        "keys": plan.keys,
        "blocks": plan.blocks,
        "partitions": plan.partitions,
        "files": plan.files,
        "model_seconds": float(planned.outline.seconds.sum()),
        "input_bytes": sum(path.stat().st_size for path in recording.folder.glob("input/*")),
        "encoded_bytes": sum(map(_encoded_bytes, recording.folder.glob("input/*"))),
        "objects": len(release.work.list(release.layout.folder)),
    }


def _encoded_bytes(path: Path) -> int:
    """Bytes of the rows before compression, by which parts are cut."""
    meta = pq.ParquetFile(path).metadata
    return sum(meta.row_group(group).total_byte_size for group in range(meta.num_row_groups))


def _write_spec(case: Case, folder: Path, store: str | None, options: dict[str, Any]) -> Path:
    kept, hidden = QUASI_IDENTIFIERS[: case.quasi_identifiers], CONFIDENTIAL[: case.confidential]
    dropped = [name for name in (*QUASI_IDENTIFIERS, *CONFIDENTIAL) if name not in (*kept, *hidden)]
    place = {"storage_options": options} if store else {}
    spec = {
        "name": "benchmark",
        "k": 5,
        "refine": case.refine,
        "input": {"url": f"{store}/{folder.name}/input/*.parquet" if store else "input/*.parquet", **place},
        "output": {"url": f"{store}/{folder.name}/output" if store else "output", **place},
        "work": {"url": f"{store}/{folder.name}/work" if store else "work", **place},
        "roles": {
            "identifiers": ["person_id"],
            "quasi_identifiers": list(kept),
            "blocking": ["region", "group"],
            "confidential": list(hidden),
            **({"drop": dropped} if dropped else {}),
        },
        # Nobody is behind these records.
        "acknowledge": {what: list(hidden) for what in ("nearly_unique", "jointly_unique", "ties_few_records")},
    }
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump(spec))
    return path
