"""Record releases, and fit to them (fitting.py) the figures by which others are forecast.

    python tests/benchmark/calibrate.py record FOLDER
    python tests/benchmark/calibrate.py fit FOLDER --machine WORDS

``record`` makes the releases, a process each, as many at a time as there are cores, in some minutes of two; ``fit``
writes figures.json of the room that reads them.
CPU seconds are counted, so a machine that has other things to do is no worse but for its caches. ``fit`` prints how far
the figures are from each release that they were fitted to, and ``--keep`` leaves the file as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
from bookkeeping import measure as bookkeep
from census import write_input, write_spec
from fitting import fit
from null_workers import Census
from recorded_release import Case, Recording, make_input, record

from microagg_core.data.tables.slices import Slice, Slices
from microagg_core.release.step import Receipt, Run, Sent, Task
from microagg_core.spec.clusters import RunningCluster
from microagg_core.spec.loading import load_spec
from microagg_core.store.objects import Store
from microagg_flows.clusters import connect, pool
from microagg_flows.clusters.scheduler import worker_variables
from microagg_flows.progress import Silence
from servers.process import end_with_the_tests
from servers.s3_server import ACCESS_KEY, REGION, SECRET_KEY, is_ready, start_weed, stop_weed

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
    Case(2_000_000, 3_000),
    Case(600_000, 2_000, part_rows=40_000, file_bytes=200_000),
)
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_DEFAULT_REGION": REGION}
#: Made twice, on a disk and in a bucket, for what a bucket costs: with many small objects, and with few large ones.
REMOTES = (
    Case(500_000, 2_000, pieces=100, part_rows=100_000),
    Case(300_000, 2_000, pieces=600, part_rows=100_000),
    Case(2_000_000, 1_000),
)
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


def record_all(folder: Path) -> None:
    """Make every release that is not there yet, each in a process of its own; the longest begin."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [f"book {number}" for number in reversed(range(len(BOOKS)))]
    jobs += [f"{place} {number}" for number in reversed(range(len(REMOTES))) for place in ("bucket", "disk")]
    jobs += [*(f"case {number}" for number in range(len(CASES))), "dispatch 0"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name in pool.map(partial(_recorded, folder), jobs):
            print(name, flush=True)


def _recorded(folder: Path, job: str) -> str:
    target = folder / f"{job.replace(' ', '-')}.json"
    if not target.exists():
        call = [sys.executable, __file__, "one", *job.split()]
        environment = {**os.environ, **worker_variables({})}  # memory as workers have it, whose faults take time
        done = subprocess.run(call, stdout=subprocess.PIPE, check=True, env=environment)
        target.write_bytes(done.stdout)
    return target.name


def record_one(what: str, number: int) -> dict[str, Any]:
    if what == "book":
        return bookkeep(BOOKS[number])
    if what == "dispatch":
        return measure_dispatch()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if what == "case":
            return _warmed(CASES[number], folder).document()
        if what == "disk":
            return _warmed(REMOTES[number], folder).document()
        return _remote(REMOTES[number], folder)


def _warmed(case: Case, folder: Path, *place: Any, watched: psutil.Process | None = None) -> Recording:
    """A recording after a small one, and what the first one took longer than a second like it."""
    small, starts = Case(20_000, 20, refine=case.refine), []
    for number in range(2):
        (folder / f"small-{number}").mkdir()
        recording = record(small, folder / f"small-{number}", *place)
        starts.append(sum(task["cpu_seconds"] for task in recording.tasks))
    (folder / "large").mkdir()
    make_input(case, folder / "large", *place)
    before = _cpu_of(watched)
    recording = record(case, folder / "large", *place)
    recording.facts |= {"start": starts[0] - starts[1], "server_seconds": _cpu_of(watched) - before}
    return recording


def _cpu_of(process: psutil.Process | None) -> float:
    return sum(process.cpu_times()[:2]) if process else 0.0


def _remote(case: Case, folder: Path) -> dict[str, Any]:
    os.environ |= _CREDENTIALS
    server = start_weed(folder)
    try:
        while not is_ready(server):
            time.sleep(0.5)
        place = server.new_bucket()
        assert server.process is not None
        process = psutil.Process(server.process.pid)
        return _warmed(case, folder, place.url, place.storage_options, watched=process).document()
    finally:
        stop_weed(server)


def _answer(task: Task) -> Receipt:
    return Receipt(task.step, task.number, 1, (), task.sent)


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
from microagg_core.store.objects import Store
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
    tasks = [Task("survey", number, run, sent=(Sent("survey", "part-keys", slices),)) for number in range(n)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_input(Store(str(folder / "input")), 1000, 10)
        spec = load_spec(str(write_spec(folder, algorithm="mdav")))
        with (
            _cluster(folder) as (address, scheduler),
            connect(RunningCluster(address=address), spec, Silence()) as workers,
            patch.object(pool, "_AHEAD", n),
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
