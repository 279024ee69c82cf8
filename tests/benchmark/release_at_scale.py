"""A release of millions of rows on small workers: time by stage, peak memory of each process, share of kernels.

    python tests/benchmark/release_at_scale.py --rows 5000000 --blocks 500 --workers 2 --memory 1GiB

Prints one JSON document. ``--largest 0.75`` puts that share of the rows into one block, which is then cut, and
``--categories 20`` adds columns of categories to four numbers.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import re
import socket
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from census import CONFIDENTIAL, QUASI_IDENTIFIERS, categories_named, write_input, write_spec

from microagg_core.spec.clusters import LocalCluster
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.objects import Store
from microagg_flows.clusters import connect
from microagg_flows.progress import Silence
from microagg_flows.release import StageOutcome, new_release
from microagg_flows.stages import run_until

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from servers.s3_server import ACCESS_KEY, REGION, SECRET_KEY, is_ready, start_weed, stop_weed

#: How SeaweedFS tells what it has sent and received.
_TRAFFIC = re.compile(r'SeaweedFS_s3_bucket_traffic_(sent|received)_bytes_total\{bucket="([^"]+)"\} (\S+)')


def _write_aside(*what: Any) -> None:
    """Write the input in a process of its own, so that the memory it takes is not the flow's."""
    writer = multiprocessing.get_context("spawn").Process(target=write_input, args=what)
    writer.start()
    writer.join()
    if writer.exitcode:
        raise SystemExit("the input could not be written")


class PeakMemory(threading.Thread):
    """Watches the resident memory of this process and of its children."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peaks: dict[str, int] = {}
        self.processes = Processes()
        self.over = threading.Event()

    def run(self) -> None:
        me = psutil.Process()
        while not self.over.wait(0.2):
            self.processes.look()
            for process in (me, *me.children(recursive=True)):
                try:
                    if "weed" in process.name():
                        continue
                    name = "flow" if process.pid == me.pid else f"child {process.pid}"
                    self.peaks[name] = max(self.peaks.get(name, 0), process.memory_info().rss)
                except psutil.Error:
                    continue


class Processes:
    """The CPU time of this process and of its children, those that have ended included."""

    def __init__(self) -> None:
        self._children: dict[int, float] = {}

    def look(self) -> None:
        """Note what each child has used."""
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if "weed" not in child.name():
                    times = child.cpu_times()
                    self._children[child.pid] = times.user + times.system

    def seconds(self) -> float:
        return time.process_time() + sum(self._children.values())


@dataclass(frozen=True)
class Traffic:
    """What an S3 server was asked for and given, by bucket, as it counts itself."""

    metrics_port: int

    def bytes(self) -> dict[str, int]:
        """Bytes read from and written to each bucket so far."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        found = {}
        for line in lines:
            if match := _TRAFFIC.match(line):
                way = "read" if match[1] == "sent" else "written"
                found[f"{match[2]} {way}"] = int(float(match[3]))
        return found


@contextmanager
def places(folder: Path, on_s3: bool) -> Iterator[tuple[dict[str, Any], Traffic | None]]:
    """Where input, output and work area are: folders, or buckets of a server that is started for them."""
    if not on_s3:
        yield {name: {"url": name} for name in ("input", "output", "work")}, None
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ |= {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_DEFAULT_REGION": REGION}
    server = start_weed(folder, options=[f"-metricsPort={port}", "-metricsIp=127.0.0.1"])
    try:
        while not is_ready(server):
            time.sleep(0.5)
        for name in ("input", "output", "work"):
            server.client().create_bucket(Bucket=name)
        options = {"storage_options": server.storage_options}
        yield {name: {"url": f"s3://{name}", **options} for name in ("input", "output", "work")}, Traffic(port)
    finally:
        stop_weed(server)


def measure(a: argparse.Namespace) -> dict[str, Any]:
    """Make the input, the release, and the account of it."""
    with tempfile.TemporaryDirectory(dir=a.folder) as name, places(Path(name), a.s3) as (urls, traffic):
        folder = Path(name)
        urls["input"]["url"] += "/*.parquet"
        quasi = [*QUASI_IDENTIFIERS, *categories_named(a.categories)]
        roles = {"quasi_identifiers": quasi, "blocking": ["region", "group"], "confidential": CONFIDENTIAL}
        roles |= {} if a.no_identifier else {"identifiers": ["person_id"]}
        cuts = {"blocks": {"max_records": a.max_records}} if a.max_records else {}
        path = write_spec(folder, roles=roles, refine=a.refine, **cuts, **urls)
        store = Store(urls["input"]["url"].rpartition("/")[0], urls["input"].get("storage_options", {}))
        _write_aside(
            store if a.s3 else Store(str(folder / "input")), a.rows, a.blocks, 1_000_000, a.largest, a.categories
        )
        return _account(load_spec(str(path)), a, traffic)


def _account(spec: ReleaseSpec, a: argparse.Namespace, traffic: Traffic | None) -> dict[str, Any]:
    before = traffic.bytes() if traffic else {}
    watch, cpu_before, start = PeakMemory(), time.process_time(), time.perf_counter()
    watch.start()
    with connect(LocalCluster(workers=a.workers, memory=a.memory), spec, Silence()) as connected:
        release = new_release(spec, connected, None, False, datetime.datetime.now(datetime.UTC))
        run_until("report", release)
        watch.processes.look()
    wall = time.perf_counter() - start
    watch.over.set()
    kernel, cpu = sum(o.kernel_seconds for o in release.outcomes), watch.processes.seconds() - cpu_before
    plan_report = release.plan_report
    return {
        "rows": a.rows,
        "blocks": release.planned.outline.n_blocks,
        "partitions": release.planned.outline.n_partitions,
        "workers": a.workers,
        "memory": a.memory,
        "refine": a.refine,
        "wall_seconds": round(wall, 1),
        "stages": {outcome.name: _stage(outcome) for outcome in release.outcomes},
        "cpu_seconds": round(cpu, 1),
        "kernel_seconds": round(kernel, 1),
        "outside_kernels": {"share": round(1 - kernel / cpu, 3), "us_a_row": round((cpu - kernel) / a.rows * 1e6, 2)},
        "row_bytes": plan_report.row_bytes if plan_report else None,
        "traffic": {k: v - before.get(k, 0) for k, v in (traffic.bytes() if traffic else {}).items()},
        "peak_mib": {who: peak >> 20 for who, peak in sorted(watch.peaks.items())},
        "l_sse": release.measured.figures.l_sse,
    }


def _stage(outcome: StageOutcome) -> dict[str, float]:
    seconds = {"wall": outcome.seconds, "cpu": outcome.cpu_seconds, "flow_cpu": outcome.flow_cpu_seconds}
    return {**{name: round(value, 1) for name, value in seconds.items()}, "peak_mib": outcome.peak_bytes >> 20}


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=5_000_000)
    parser.add_argument("--blocks", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--refine", default="fast")
    parser.add_argument("--largest", type=float, default=0.0)
    parser.add_argument("--max-records", type=int)
    parser.add_argument("--categories", type=int, default=0, help="columns of categories among the quasi-identifiers")
    parser.add_argument("--s3", action="store_true", help="input, work area and output in buckets of a real server")
    parser.add_argument("--no-identifier", action="store_true", help="without a column of identifiers")
    parser.add_argument("--folder", help="where the input is made")
    print(json.dumps(measure(parser.parse_args()), indent=1))


if __name__ == "__main__":
    main()
