"""A release of millions of rows on small workers: time by stage, peak memory of each process, share of kernels.

    python tests/benchmark/release_at_scale.py --rows 5000000 --blocks 500 --workers 2 --memory 1GiB

Prints one JSON document. ``--largest 0.75`` puts that share of the rows into one block, which is then cut.
"""

from __future__ import annotations

import argparse
import datetime
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import LocalCluster
from microagg_flows.clusters import connect
from microagg_flows.progress import Silence
from microagg_flows.release import new_release
from microagg_flows.stages import run_until

_PART_ROWS = 1_000_000


def write_input(folder: Path, rows: int, blocks: int, largest: float) -> None:
    """Census-like rows in blocks of uneven size, a million a file."""
    rng = np.random.default_rng(1)
    share = 1.0 / np.arange(1, blocks + 1) ** 0.6
    share = np.append(largest, share[1:] / share[1:].sum() * (1 - largest)) if largest else share / share.sum()
    folder.mkdir(parents=True)
    for part, first in enumerate(range(0, rows, _PART_ROWS)):
        n = min(_PART_ROWS, rows - first)
        key = rng.choice(blocks, size=n, p=share)
        table = pa.table(
            {
                "person_id": np.char.mod("P%09d", np.arange(first, first + n)),
                "region": (key // 10).astype(np.int16),
                "group": np.char.mod("g%d", key % 10),
                "birth": pa.array(rng.integers(-15_000, 18_000, n).astype(np.int32)).view(pa.date32()),
                "income": np.round(np.exp(rng.normal(10, 0.6, n))),
                "area": rng.gamma(4, 20, n).astype(np.int32),
                "commute": rng.exponential(8, n).astype(np.float32),
                "diagnosis": np.char.mod("%02d", rng.integers(0, 90, n)),
                "wage": (rng.gamma(3, 900, n) // 50 * 50).astype(np.int64),
                "benefit": rng.random(n) < 0.2,
                "hours": rng.integers(0, 60, n).astype(np.int8),
            }
        )
        pq.write_table(table, folder / f"part-{part:04d}.parquet")


def write_spec(folder: Path, algorithm: str, max_records: int | None, *, identifiers: bool = True) -> Path:
    """The spec over that input, with or without its identifier."""
    spec: dict[str, Any] = {
        "name": "benchmark",
        "k": 5,
        "algorithm": algorithm,
        "input": {"url": "input/*.parquet"},
        "output": {"url": "output"},
        "work": {"url": "work"},
        "roles": {
            "identifiers": ["person_id"],
            "quasi_identifiers": ["birth", "income", "area", "commute"],
            "blocking": ["region", "group"],
            "confidential": ["diagnosis", "wage", "benefit", "hours"],
        },
    }
    if not identifiers:
        del spec["roles"]["identifiers"]
    if max_records:
        spec["blocks"] = {"max_records": max_records}
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump(spec))
    return path


class PeakMemory(threading.Thread):
    """Watches the resident memory of this process and of its children."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peaks: dict[str, int] = {}
        self.over = threading.Event()

    def run(self) -> None:
        me = psutil.Process()
        while not self.over.wait(0.2):
            for process in (me, *me.children(recursive=True)):
                try:
                    name = "flow" if process.pid == me.pid else f"child {process.pid}"
                    self.peaks[name] = max(self.peaks.get(name, 0), process.memory_info().rss)
                except psutil.Error:
                    continue


def measure(
    rows: int, blocks: int, workers: int, memory: str, largest: float, max_records: int | None
) -> dict[str, Any]:
    """Make the input, the release, and the account of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_input(folder / "input", rows, blocks, largest)
        spec = load_spec(str(write_spec(folder, "mdav", max_records)))
        watch = PeakMemory()
        watch.start()
        start = time.perf_counter()
        with connect(LocalCluster(workers=workers, memory=memory), spec, Silence()) as connected:
            release = new_release(spec, connected, None, False, datetime.datetime.now(datetime.UTC))
            run_until("report", release)
        wall = time.perf_counter() - start
        watch.over.set()
    kernel = sum(o.kernel_seconds for o in release.outcomes)
    return {
        "rows": rows,
        "blocks": release.planned.outline.n_blocks,
        "partitions": release.planned.outline.n_partitions,
        "workers": workers,
        "memory": memory,
        "wall_seconds": round(wall, 1),
        "stages": {o.name: round(o.seconds, 1) for o in release.outcomes},
        "kernel_seconds": round(kernel, 1),
        "share_not_in_kernels": round(1 - kernel / (wall * workers), 3),
        "peak_mib": {who: peak >> 20 for who, peak in sorted(watch.peaks.items())},
        "l_sse": release.measured.figures.l_sse,
    }


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--blocks", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--largest", type=float, default=0.0)
    parser.add_argument("--max-records", type=int)
    a = parser.parse_args()
    print(json.dumps(measure(a.rows, a.blocks, a.workers, a.memory, a.largest, a.max_records), indent=1))


if __name__ == "__main__":
    main()
