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
from census import CONFIDENTIAL, QUASI_IDENTIFIERS, write_input, write_spec
from obstore import Bytes
from s3fs import S3FileSystem

from microagg_core.blocks import packing
from microagg_core.blocks.memory import FILE_BYTES
from microagg_core.data.formats.reading import InputFormat
from microagg_core.data.tables import slices
from microagg_core.data.tables.slices import frames_of, tables_of
from microagg_core.release.publish import Upload
from microagg_core.release.step import Receipt, Task
from microagg_core.spec.loading import load_spec
from microagg_core.store.buckets import BucketStore
from microagg_core.store.objects import Store
from microagg_flows.executors import InProcess
from microagg_flows.pages import SWITCH
from microagg_flows.progress import Silence
from microagg_flows.release import Release, new_release
from microagg_flows.stages import STAGES, Stage, run_stage


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
class CountingStore(Store):
    """A work area that counts requests and bytes, by the names of figures."""

    counts: Counter[str] = field(default_factory=Counter, compare=False)

    def put(self, name: str, data: bytes, *, durable: bool = False) -> None:
        super().put(name, data, durable=durable)
        self.counts.update(writes=1, bytes_written=len(data))

    def put_if(self, name: str, data: bytes, version: str) -> bool:
        self.counts.update(writes=1, bytes_written=len(data))
        return super().put_if(name, data, version)

    def read(self, name: str) -> bytes:
        data = super().read(name)
        self.counts.update(reads=1, bytes_read=len(data))
        return data

    def read_ranges(self, ranges: Sequence[tuple[str, int, int]]) -> Any:
        contents = super().read_ranges(ranges)
        self.counts.update(reads=len(contents), bytes_read=sum(map(len, contents)))
        return contents

    def chunks(self, name: str) -> Iterator[bytes]:
        for chunk in super().chunks(name):
            self.counts.update(reads=1, bytes_read=len(chunk))
            yield chunk


@dataclass
class Recording:
    """What a release came to."""

    case: Case
    folder: Path
    #: Of each task what it was about, and what it took.
    tasks: list[dict[str, Any]] = field(default_factory=list)
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
        self.recording, self.seconds, self.requests = recording, 0.0, 0
        self.blocks_of: Callable[[int], tuple[int, float]] = lambda number: (0, 0.0)
        #: Requests to the work area and to a bucket, those for the input among them (``asked``); bytes, and streams.
        self.counts: Counter[str] = Counter()

    def map(self, function: Callable[[Any], Any], items: Sequence[Any], what: str) -> list[Any]:
        return [self._recorded(function, item, what) for item in items]

    def _recorded(self, function: Callable[[Any], Any], item: Any, what: str) -> Any:
        before, cpu = Counter(self.counts), time.process_time()
        result = function(item)
        cpu = time.process_time() - cpu
        took = {name: self.counts[name] - before[name] for name in _COUNTED}
        self.seconds += cpu
        self.requests += took["reads"] + took["writes"]
        receipt = result if isinstance(result, Receipt) else Receipt(what, 0, _rows_of_upload(item))
        blocks, model_seconds = self.blocks_of(item.number) if what == "anonymize" else (0, 0.0)
        self.recording.tasks.append(
            {
                "step": receipt.step,
                "rows": receipt.rows,
                "slices_read": sum(len(rows.slices) for rows in item.sent) if isinstance(item, Task) else 0,
                "slices_written": sum(len(rows.slices) for rows in receipt.sent),
                "blocks": blocks,
                "model_seconds": model_seconds,
                "cpu_seconds": cpu,
                "kernel_seconds": receipt.kernel_seconds,
                **took,
            }
        )
        return result

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count streams, each of which is a frame; and what a bucket is asked for."""
        with ExitStack() as stack:
            stack.enter_context(patch.object(S3FileSystem, "_call_s3", _counted_calls(self.counts)))
            stack.enter_context(patch.object(BucketStore, "_call", _counted_requests(self.counts)))
            stack.enter_context(patch.object(BucketStore, "_put", _counted_puts(self.counts)))
            stack.enter_context(patch.object(slices, "frames_of", self._written))
            stack.enter_context(patch.object(slices, "tables_of", self._read))
            yield

    def _written(self, *what: Any) -> Iterator[bytes]:
        for frame in frames_of(*what):
            self.counts["streams_written"] += 1
            yield frame

    def _read(self, frames: Sequence[memoryview]) -> list[pa.Table]:
        self.counts["streams_read"] += len(frames)
        return tables_of(frames)


_COUNTED = (
    "reads", "bytes_read", "writes", "bytes_written", "streams_read", "streams_written", "asked", "moved",
)  # fmt: skip


def _counted_requests(seen: Counter[str]) -> Callable[..., Any]:
    original = BucketStore._call

    def call(self: BucketStore, *what: Any) -> Any:
        answer = original(self, *what)
        seen.update(asked=1, moved=len(answer) if isinstance(answer, Bytes) else 0)
        return answer

    return call


def _counted_puts(seen: Counter[str]) -> Callable[..., Any]:
    original = BucketStore._put

    def put(self: BucketStore, name: str, data: Any, **how: Any) -> None:
        original(self, name, data, **how)
        seen.update(moved=len(data) if isinstance(data, bytes) else 0)

    return put


def _counted_calls(seen: Counter[str]) -> Callable[..., Any]:
    original = S3FileSystem._call_s3

    async def call(self: S3FileSystem, method: str, *args: Any, **kwargs: Any) -> Any:
        answer = await original(self, method, *args, **kwargs)
        sent = kwargs.get("Body", b"")
        received = answer.get("ContentLength", 0) if method == "get_object" else 0
        seen.update(asked=1, moved=received + (len(sent) if isinstance(sent, bytes) else 0))
        return answer

    return call


def _rows_of_upload(item: Any) -> int:
    return item[1].entry.rows if isinstance(item, tuple) and isinstance(item[1], Upload) else 0


def make_input(case: Case, folder: Path, store: str | None = None, options: dict[str, Any] | None = None) -> None:
    write_input(Store(str(folder / "input")), case.rows, case.blocks, case.part_rows)
    if store:
        target = Store(f"{store}/{folder.name}/input", options or {})
        for path in (folder / "input").iterdir():
            target.put(path.name, path.read_bytes())


def record(case: Case, folder: Path, store: str | None = None, options: dict[str, Any] | None = None) -> Recording:
    """Make the input, unless it is there, and the release; ``store`` is the bucket of all, unless they lie there."""
    if not (folder / "input").exists():
        make_input(case, folder, store, options)
    recording = Recording(case, folder)
    workers = Recorder(recording)
    pieces = {"_PIECES": case.pieces, "_LEAST_SECONDS": 0.0, "_LEAST_BYTES": 1} if case.pieces else {}
    # Every file is a part, however small it is; of the page only large censuses are asked (bookkeeping.py).
    with (
        patch.object(InputFormat, "part_bytes", 1),
        patch.multiple(packing, FILE_BYTES=case.file_bytes, **pieces),
        patch.dict(os.environ, {SWITCH: "off"}),
        workers.counting(),
    ):
        spec = load_spec(str(_write_spec(case, folder, store, options or {})))
        release = new_release(spec, workers, None, True, datetime.datetime.now(datetime.UTC))
        options = dict(release.work.storage_options)
        release.work = CountingStore(release.work.url, options, private=True, counts=workers.counts)
        for stage in STAGES:
            _run(stage, release, workers)
    return recording


def _run(stage: Stage, release: Release, workers: Recorder) -> None:
    workers.seconds, workers.requests, recording = 0.0, 0, workers.recording
    before, cpu = workers.counts["reads"] + workers.counts["writes"], time.process_time()
    if stage.name == "anonymize":
        outline = release.planned.outline
        first = np.append(outline.first_blocks, outline.n_blocks)
        workers.blocks_of = lambda number: (int(first[number + 1] - first[number]), float(outline.seconds[number]))
    if stage.name == "report":
        _note_facts(release, recording)
    run_stage(stage, release)
    recording.flow_seconds[stage.name] = time.process_time() - cpu - workers.seconds
    requests = workers.counts["reads"] + workers.counts["writes"] - before
    recording.flow_requests[stage.name] = requests - workers.requests


def _note_facts(release: Release, recording: Recording) -> None:
    planned, plan = release.planned, release.plan_report
    assert plan is not None
    files = list(recording.folder.glob("input/*"))
    recording.facts = {
        "rows": planned.survey.rows,
        "row_bytes": planned.survey.row_bytes,
        "parts": len(planned.context.parts),
        "keys": plan.keys,
        "model_seconds": float(planned.outline.seconds.sum()),
        "input_bytes": sum(path.stat().st_size for path in files),
        "encoded_bytes": sum(map(_encoded_bytes, files)),
    }


def _encoded_bytes(path: Path) -> int:
    """Bytes of the rows before compression, by which parts are cut."""
    meta = pq.ParquetFile(path).metadata
    return sum(meta.row_group(group).total_byte_size for group in range(meta.num_row_groups))


def _write_spec(case: Case, folder: Path, store: str | None, options: dict[str, Any]) -> Path:
    kept, hidden = QUASI_IDENTIFIERS[: case.quasi_identifiers], CONFIDENTIAL[: case.confidential]
    dropped = [name for name in (*QUASI_IDENTIFIERS, *CONFIDENTIAL) if name not in (*kept, *hidden)]
    roles = {
        "identifiers": ["person_id"],
        "quasi_identifiers": kept,
        "blocking": ["region", "group"],
        "confidential": hidden,
        **({"drop": dropped} if dropped else {}),
    }
    place = f"{store}/{folder.name}/" if store else ""
    return write_spec(folder, place, {"storage_options": options} if store else {}, refine=case.refine, roles=roles)
