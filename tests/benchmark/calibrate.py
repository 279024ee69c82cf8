"""Fit the figures by which releases are forecast, from releases that are made and recorded here.

    python tests/benchmark/calibrate.py record FOLDER
    python tests/benchmark/calibrate.py fit FOLDER --machine WORDS

``record`` makes the releases, a process each, in minutes of a core; ``fit`` writes figures.json of the room that reads
them.
CPU seconds are counted, so a machine that has other things to do is no worse but for its caches. ``fit`` prints how far
the figures are from each release that they were fitted to, and ``--keep`` leaves the file as it is.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil
from bookkeeping import measure as bookkeep
from null_workers import Census
from recorded_release import Case, Recording, record
from release_at_scale import write_input, write_spec
from scipy.optimize import nnls

from microagg_core.formats.inputs.contract import BATCH_ROWS
from microagg_core.spec.clusters import RunningCluster
from microagg_core.spec.loading import load_spec
from microagg_core.steps.sizing.description import Description
from microagg_core.steps.sizing.drawing import draw_plan, sizes_of_keys
from microagg_core.steps.sizing.figures import STAGE_OF_STEP, Columns, TaskSizes
from microagg_core.steps.work import Receipt, Run, Task
from microagg_core.storage.objects import Store
from microagg_core.tables.slices import Slice, Slices
from microagg_flows.clusters import connect, dask_executor
from microagg_flows.progress import Silence
from servers.process import end_with_the_tests
from servers.s3_server import ACCESS_KEY, REGION, SECRET_KEY, is_ready, start_weed, stop_weed

FIGURES = Path(__file__).resolve().parents[2] / "microagg_core" / "steps" / "sizing" / "figures.json"
#: Releases that differ in what tasks are made of: rows, columns, blocks, keys, slices.
CASES = (
    Case(1_000_000, 1_000),
    Case(1_000_000, 20_000),
    Case(400_000, 300_000, part_rows=40_000),
    Case(300_000, 2_000, quasi_identifiers=2, confidential=1),
    Case(300_000, 2_000, quasi_identifiers=2),
    Case(300_000, 2_000, confidential=1),
    Case(300_000, 100, refine="fast"),
    Case(300_000, 10_000, refine="fast"),
    Case(1_000_000, 5_000, pieces=400, part_rows=100_000),
    Case(300_000, 2_000, pieces=1_500),
    Case(3_000_000, 3_000),
    Case(600_000, 2_000, part_rows=40_000, file_bytes=200_000),
)
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_DEFAULT_REGION": REGION}
#: Made twice, on a disk and in a bucket, for what a bucket costs.
REMOTE = Case(500_000, 2_000, pieces=100, part_rows=100_000)
#: Bookkeeping alone, of censuses that nobody has: rows, keys, parts.
BOOKS = (
    Census(10**7, 10**4, 10),
    Census(10**8, 3 * 10**5, 50),
    Census(10**8, 10**4, 470),
    Census(10**9, 10**5, 470),
    Census(3 * 10**8, 10**6, 150),
    Census(10**9, 3 * 10**6, 470),
    Census(10**9, 3 * 10**6, 60),
)
#: What a task of each step is made of, and what it writes for that.
MADE_OF = {
    "survey": ("task", "row", "row_quasi", "row_confidential", "row_identifier", "batch_key"),
    "units": ("task", "row", "slice_read"),
    "keys": ("task", "key", "stream_read"),
    "scatter": ("task", "row", "row_quasi", "row_confidential", "key", "route", "stream_written"),
    "anonymize": ("task", "row", "row_quasi", "row_confidential", "block", "stream_read", "stream_written"),
    "assemble": ("task", "row", "row_quasi", "row_confidential", "stream_read", "stream_written"),
    "check-input": ("task", "row", "row_quasi", "row_confidential", "key", "route", "slice_read", "stream_written"),
    "check-files": ("task", "row", "row_quasi", "row_confidential", "stream_read"),
    "upload": ("task", "row_byte"),
}  # fmt: skip
#: What the algorithm and refinement take, measured on their own within the tasks of anonymize.
KERNELS = ("kernel", "refined_kernel", "refined_block", "block", "block_quasi")
WRITES = {
    "survey": ("task", "row_identifier", "key", "row_confidential"),
    "units": ("task",),
    "keys": ("task", "key"),
    "scatter": ("task", "row_byte", "stream_written"),
    "anonymize": ("task", "row_byte", "stream_written", "block"),
    "assemble": ("task", "row", "row_byte", "stream_written"),
    "check-input": ("task", "row_quasi", "stream_written"),
    "check-files": ("task",),
    "upload": ("task",),
}
#: What the flow's own seconds of each stage are for, and its memory.
FLOW = {
    "survey": ("release", "sketch", "slice_survey"),
    "plan": ("release", "key", "block"),
    "scatter": ("release", "part"),
    "anonymize": ("release", "partition", "file", "slice_scatter", "slice_anonymize"),
    "validate": ("release", "part", "file", "slice_assemble", "slice_check-input"),
    "measure": ("release", "partition", "block"),
    "publish": ("release", "file", "block"),
    "report": ("release", "object"),
}
#: Memory of the survey, which is free again when the plan is made.
_SURVEY_BYTES = ("release", "sketch")


# --- Recording -----------------------------------------------------------------------------------------------


def record_all(folder: Path) -> None:
    """Make every release that is not there yet, each in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [f"case {number}" for number in range(len(CASES))]
    jobs += ["remote 0", "remote 1", "dispatch 0", *(f"book {number}" for number in range(len(BOOKS)))]
    for job in jobs:
        target = folder / f"{job.replace(' ', '-')}.json"
        if not target.exists():
            done = subprocess.run([sys.executable, __file__, "one", *job.split()], stdout=subprocess.PIPE, check=True)
            target.write_bytes(done.stdout)
            print(f"{target.name}", flush=True)


def record_one(what: str, number: int) -> dict[str, Any]:
    """One recording, as plain values."""
    if what == "book":
        return bookkeep(BOOKS[number])
    if what == "dispatch":
        return measure_dispatch()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if what == "case":
            return _warmed(CASES[number], folder).document()
        if not number:
            return _warmed(REMOTE, folder).document()
        return _remote(folder)


def _warmed(case: Case, folder: Path, *place: Any, watched: psutil.Process | None = None) -> Recording:
    """A recording after a small one, and what the first one took longer than a second like it."""
    small, starts = Case(20_000, 20, refine=case.refine), []
    for number in range(2):
        (folder / f"small-{number}").mkdir()
        recording = record(small, folder / f"small-{number}", *place)
        starts.append(sum(task.cpu_seconds for task in recording.tasks))
    (folder / "large").mkdir()
    before = _cpu_of(watched)
    recording = record(case, folder / "large", *place)
    recording.facts |= {"start": starts[0] - starts[1], "server_seconds": _cpu_of(watched) - before}
    return recording


def _cpu_of(process: psutil.Process | None) -> float:
    """CPU seconds of a process so far."""
    return sum(process.cpu_times()[:2]) if process else 0.0


def _remote(folder: Path) -> dict[str, Any]:
    os.environ |= _CREDENTIALS
    server = start_weed(folder)
    try:
        while not is_ready(server):
            time.sleep(0.5)
        place = server.new_bucket()
        assert server.process is not None
        process = psutil.Process(server.process.pid)
        return _warmed(REMOTE, folder, place.url, place.storage_options, watched=process).document()
    finally:
        stop_weed(server)


def _answer(task: Task) -> Receipt:
    return Receipt(task.step, task.number, 1, (), task.slices)


@contextmanager
def _cluster(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """A scheduler's address and process, with two workers, none of which logs anything."""
    file, options = folder / "scheduler.json", ["--no-dashboard", "--scheduler-file", str(folder / "scheduler.json")]
    started = [_dask("scheduler", "--host", "127.0.0.1", "--port", "0", *options)]
    started += [_dask("worker", *options, "--local-directory", str(folder)) for _ in range(2)]
    try:
        while not (file.exists() and (text := file.read_text()).endswith("}")):
            time.sleep(0.1)
        yield json.loads(text)["address"], psutil.Process(started[0].pid)
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def _dask(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=end_with_the_tests,
    )


#: What a worker has to load before it can do its first task; Dask is there.
_START = """
import time, distributed
start = time.process_time()
import microagg_core.runner
from microagg_core.storage.objects import Store
try:
    Store("s3://nothing-here", {"client_kwargs": {"endpoint_url": "http://127.0.0.1:9"}}).exists("nothing")
except Exception:
    pass
print(time.process_time() - start)
"""


def measure_start() -> float:
    """CPU seconds of a process that begins to work with a bucket."""
    command, known = [sys.executable, "-c", _START], {**os.environ, **_CREDENTIALS}
    return float(subprocess.run(command, env=known, capture_output=True, text=True, check=True).stdout)


def measure_dispatch(n: int = 2_000) -> dict[str, Any]:
    """CPU seconds of the flow and of the scheduler for a task that goes to a worker and comes back."""
    run = Run(Store("memory://none"), "none")
    slices = Slices.of(Slice(number, 0, 0, 0, 9, 1, 1) for number in range(500))
    tasks = [Task("survey", number, run, slices) for number in range(n)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_input(Store(str(folder / "input")), 1000, 10, 0.0)
        spec = load_spec(str(write_spec(folder, "mdav", None)))
        with (
            _cluster(folder) as (address, scheduler),
            connect(RunningCluster(address=address), spec, Silence()) as workers,
            patch.object(dask_executor, "_AHEAD", n),
        ):  # as many out as many workers have
            workers.map(_answer, tasks[:100], "warm")
            start, before = time.process_time(), scheduler.cpu_times()
            workers.map(_answer, tasks, "survey")
            after = scheduler.cpu_times()
            return {
                "flow": (time.process_time() - start) / n,
                "scheduler": (after.user + after.system - before.user - before.system) / n,
                "start": measure_start(),
            }


# --- Fitting -------------------------------------------------------------------------------------------------


def read_recordings(folder: Path, what: str) -> list[dict[str, Any]]:
    """The recordings of a kind, in their order."""
    paths = sorted(folder.glob(f"{what}-*.json"), key=lambda path: int(path.stem.split("-")[-1]))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def _keys_among(case: Case, rows: int) -> float:
    """Blocking keys that so many rows have."""
    sizes = sizes_of_keys(Description(rows=case.rows, keys=case.blocks))
    return float(-np.expm1(-sizes * min(1.0, rows / case.rows)).sum())


def _model_ratio(case: Case, facts: dict[str, float]) -> float:
    """How the registry's seconds of the algorithm have changed since the release was recorded."""
    described = {"rows": case.rows, "keys": case.blocks, "refine": case.refine}
    plan = draw_plan(Description(**described, quasi_identifiers=case.quasi_identifiers))
    return float(plan.block_seconds.sum()) / facts["model_seconds"]


def rows_of(recordings: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, float]]]:
    """Every recorded task, and what it was made of."""
    for recording in recordings:
        case, facts = Case(**recording["case"]), recording["facts"]
        columns = Columns(case.quasi_identifiers, case.confidential, 2, 1, facts["row_bytes"])
        own, steps = _keys_among(case, case.part_rows), Counter(task["step"] for task in recording["tasks"])
        ratio, of_batch = _model_ratio(case, facts), _keys_among(case, BATCH_ROWS)
        for task in recording["tasks"]:
            keys = own * facts["parts"] / steps["keys"] if task["step"] == "keys" else own
            one = {"blocks": task["blocks"], "keys": keys, "routes": facts["keys"]}
            one |= {"kernel_seconds": task["model_seconds"] * ratio}
            one |= {"batch_keys": np.ceil(task["rows"] / BATCH_ROWS) * of_batch}
            one |= {
                name: task[name]
                for name in ("rows", "slices_read", "streams_read", "slices_written", "streams_written")
            }
            if task["step"] == "units":  # whose receipts have repeated units alone
                one["rows"] = facts["rows"] / steps["units"]
            sizes = TaskSizes(
                **{name: np.array([float(value)]) for name, value in one.items()}, refined=case.refine != "off"
            )
            task["outside"] = task["cpu_seconds"] - task["kernel_seconds"]
            yield task, {name: float(value[0]) for name, value in sizes.parts(columns).items()}


def fitted(wanted: list[float], parts: list[dict[str, float]], names: tuple[str, ...]) -> dict[str, float]:
    """MeasuredFigures, none below zero, whose sums are near what is wanted, large ones counting for more."""
    y = np.array(wanted)
    A = np.array([[of_task[name] for name in names] for of_task in parts])
    if not y.any():
        return {}
    weight = 1 / np.sqrt(np.maximum(y, 0.02 * y.max() + 1e-12))
    scale = np.maximum(np.abs(A).max(axis=0), 1e-12)
    found, _ = nnls(A / scale * weight[:, None], y * weight)
    return {name: float(f"{value:.4g}") for name, value in zip(names, found / scale, strict=True) if value > 0}


def fit_steps(recordings: list[dict[str, Any]], what: str, names: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """MeasuredFigures of each step for what its tasks took or wrote."""
    rows = list(rows_of(recordings))
    figures = {}
    for step in STAGE_OF_STEP:
        mine = [(task[what], parts) for task, parts in rows if task["step"] == step]
        figures[step] = fitted([value for value, _ in mine], [parts for _, parts in mine], names[step])
    return figures


def fit_remote(disk: dict[str, Any], bucket: dict[str, Any]) -> dict[str, float]:
    """What a bucket costs a worker more than a disk, by requests and bytes."""
    longer = [b["cpu_seconds"] - d["cpu_seconds"] for d, b in zip(disk["tasks"], bucket["tasks"], strict=True)]
    parts = [
        {"request": t["reads"] + t["writes"] + 3.0, "byte": t["bytes_read"] + t["bytes_written"]}
        for t in bucket["tasks"]
    ]
    A = np.array([[of_task["request"], of_task["byte"]] for of_task in parts])
    found, _ = nnls(A / A.max(axis=0), np.array(longer))
    request, byte = found / A.max(axis=0)
    moved = sum(of_task["byte"] for of_task in parts)
    server = bucket["facts"]["server_seconds"] / moved
    return {"request": float(f"{request:.4g}"), "byte": float(f"{byte:.4g}"), "server_byte": float(f"{server:.4g}")}


def counts_of(book: dict[str, Any]) -> dict[str, float]:
    """What the flow of a census with null workers had to do with; there every task sends something to every other."""
    parts, partitions, files = book["parts"], book["partitions"], book["files"]
    own = min(book["keys"], book["rows"] / parts)
    return {
        "release": 1.0,
        "part": parts,
        "sketch": 4 * parts,
        "key": book["keys"],
        "block": book["blocks"],
        "partition": partitions,
        "file": files,
        "slice_survey": parts * np.ceil(own / 4096),
        "slice_scatter": parts * partitions,
        "slice_anonymize": partitions + files,
        "slice_assemble": files * parts,
        "slice_check-input": parts * files,
        "object": 8 * parts + 4 * partitions + 6 * files,
    }


def fit_flow(books: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, float]]:
    """The flow's own seconds by stage, and its memory."""
    counts = [counts_of(book) for book in books]
    seconds = {
        stage: fitted([book["stages"][stage] + 1e-3 for book in books], counts, names) for stage, names in FLOW.items()
    }
    peaks = [float(book["flow_peak_mib"]) * 2**20 for book in books]
    few = [at for at, book in enumerate(books) if book["keys"] <= 3 * 10**5]
    memory = fitted([peaks[at] for at in few], [counts[at] for at in few], _SURVEY_BYTES)
    # Of the census with the most keys for its parts, what is more than the base is the plan's.
    most = max(range(len(books)), key=lambda at: books[at]["keys"] / books[at]["parts"])
    memory["key"] = float(f"{(peaks[most] - memory['release']) / books[most]['keys']:.4g}")
    return seconds, memory


def report(recordings: list[dict[str, Any]], cpu: dict[str, Any]) -> None:
    """How far the figures are from what they were fitted to, in percent."""
    for recording in recordings:
        took: dict[str, float] = dict.fromkeys(STAGE_OF_STEP, 0.0)
        says = dict(took)
        for task, parts in rows_of([recording]):
            took[task["step"]] += task["cpu_seconds"]
            says[task["step"]] += sum(value * parts[name] for name, value in cpu[task["step"]].items())
        off = {step: f"{100 * (says[step] / took[step] - 1):+.0f}" for step in took if took[step] > 0.1}
        whole = 100 * (sum(says.values()) / sum(took.values()) - 1)
        print(f"{Case(**recording['case'])}\n   {sum(took.values()):.1f} s, {whole:+.1f} %: {off}")


def fit(folder: Path, machine: str, keep: bool) -> None:
    """Fit, report, and write the figures."""
    cases, remote = read_recordings(folder, "case"), read_recordings(folder, "remote")
    cpu = fit_steps(cases, "outside", MADE_OF)
    kernels = fit_steps(cases, "kernel_seconds", dict.fromkeys(STAGE_OF_STEP, KERNELS))["anonymize"]
    cpu["anonymize"] = dict(Counter(cpu["anonymize"]) + Counter(kernels))
    report(cases, cpu)
    flow, flow_bytes = fit_flow(read_recordings(folder, "book"))
    dispatch = read_recordings(folder, "dispatch")[0]
    base = next(case for case in cases if case["case"]["quasi_identifiers"] == case["case"]["confidential"] == 4)
    facts, uploads = base["facts"], [task for task in base["tasks"] if task["step"] == "upload"]
    released = sum(task["bytes_read"] for task in uploads) / (facts["rows"] * facts["row_bytes"])
    read = facts["input_bytes"] / (facts["rows"] * (facts["row_bytes"] + 12.0))
    figures = {
        "measured": f"{datetime.date.today().isoformat()}, {machine}",
        "cpu": cpu,
        "written": fit_steps(cases, "bytes_written", WRITES),
        "flow": flow,
        "flow_bytes": {**flow_bytes, "route_stored": 16.0},
        "remote": fit_remote(*remote),
        "dispatch": {
            "submit": float(f"{dispatch['flow'] / 2:.3g}"),
            "take": float(f"{dispatch['flow'] / 2:.3g}"),
            "scheduler": float(f"{dispatch['scheduler']:.3g}"),
            "start": float(f"{max(0.0, remote[0]['facts']['start']) + dispatch['start']:.3g}"),
        },
        # Of CSV, whose numbers are texts, nobody has more than a rule of thumb.
        "stored": {
            "parquet": float(f"{read:.3g}"),
            "arrow": 1.0,
            "csv": 1.3,
            "cut_parquet": float(f"{facts['encoded_bytes'] / (facts['rows'] * (facts['row_bytes'] + 12.0)):.3g}"),
            "cut_arrow": 1.0,
            "cut_csv": 1.3,
            "released_parquet": float(f"{released:.3g}"),
            "released_arrow": 1.0,
            "released_csv": 1.3,
        },
    }
    text = json.dumps(figures, indent=1) + "\n"
    if keep:
        print(text)
    else:
        FIGURES.write_text(text, encoding="utf-8")


def main() -> None:
    """Read the arguments, and do what they say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    wishes = parser.add_subparsers(dest="wish", required=True)
    wishes.add_parser("record").add_argument("folder", type=Path)
    one = wishes.add_parser("one")
    one.add_argument("what")
    one.add_argument("number", type=int)
    fitting = wishes.add_parser("fit")
    fitting.add_argument("folder", type=Path)
    fitting.add_argument("--machine", default="an unnamed machine")
    fitting.add_argument("--keep", action="store_true", help="print the figures, and leave the file as it is")
    chosen = parser.parse_args()
    if chosen.wish == "record":
        record_all(chosen.folder)
    elif chosen.wish == "one":
        print(json.dumps(record_one(chosen.what, chosen.number)))
    else:
        fit(chosen.folder, chosen.machine, chosen.keep)


if __name__ == "__main__":
    main()
