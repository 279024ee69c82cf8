"""What a later night of a series costs beside a release without one: bytes, CPU and memory.

    python tests/benchmark/night_bytes.py --people 5000000 --churn 0.005

Releases the same people three times in this process: without a series, as night 0 and, after some left and others
came, as night 1. Bytes are all that the process reads and writes, input and output included, as the system counts them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import yaml

from microagg_core.series.ledger import ledger_of
from microagg_core.spec.loading import load_spec
from microagg_flows.executors import InProcess
from microagg_flows.progress import Silence
from microagg_flows.release import new_release
from microagg_flows.stages import run_until

_PART = 500_000
_ROLES = {
    "identifiers": ["person"],
    "quasi_identifiers": ["age", "income", "distance", "area"],
    "blocking": ["district"],
    "confidential": ["diagnosis", "benefits", "hours"],
}


def write_people(folder: Path, first: int, end: int, districts: int) -> None:
    """People number ``first`` to ``end``, each the same whenever they are written."""
    folder.mkdir(parents=True)
    for block in range(first // _PART, -(-end // _PART)):
        start, stop = max(first - block * _PART, 0), min(end - block * _PART, _PART)
        table = _columns(np.random.default_rng([7, block]), block, districts).slice(start, stop - start)
        pa.parquet.write_table(table, folder / f"{block:03}.parquet")


def _columns(draw: np.random.Generator, block: int, districts: int) -> pa.Table:
    n = _PART
    return pa.table(
        {
            "person": pa.array(np.arange(block * n, (block + 1) * n)),
            "age": draw.integers(0, 95, n),
            "income": np.round(draw.lognormal(7.5, 0.6, n), 0),
            "distance": np.round(draw.gamma(2.0, 6.0, n), 1),
            "area": draw.integers(15, 300, n),
            "district": draw.integers(0, districts, n).astype(np.int32),
            "diagnosis": draw.integers(0, 40, n).astype(np.int16),
            "benefits": draw.integers(0, 900, n).astype(np.int32),
            "hours": draw.integers(0, 60, n).astype(np.int16),
        }
    )


def released(folder: Path, name: str, people: str, **changes: Any) -> dict[str, float]:
    """Make one release; what it took."""
    spec = {
        "name": "people",
        "id": name,
        "k": 5,
        "refine": "off",
        "input": {"url": f"{people}/*.parquet"},
        "output": {"url": "release"},
        "work": {"url": "work"},
        "roles": _ROLES,
        "unit": ["person"],
        **changes,
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(spec), encoding="utf-8")
    before, clock, cpu = _io(), time.perf_counter(), time.process_time()
    release = new_release(load_spec(str(path)), InProcess(Silence()), None, False, datetime.datetime.now(datetime.UTC))
    run_until("report", release)
    read, written = (after - earlier for after, earlier in zip(_io(), before, strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "read_mb": round(read / 1e6, 1),
        "written_mb": round(written / 1e6, 1),
        "seconds": round(time.perf_counter() - clock, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "peak_mib": round(peak),
        **{f"stage_{outcome.name}": round(outcome.seconds, 1) for outcome in release.outcomes},
    }


def _io() -> tuple[int, int]:
    """Bytes that this process read and wrote so far, from caches too."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"]), int(counts["wchar"])


def measure(people: int, churn: float, districts: int, leavers: str) -> dict[str, Any]:
    """The three releases, and what the ledger holds of each unit."""
    changed = max(1, int(people * churn))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_people(folder / "night-0", 0, people, districts)
        write_people(folder / "night-1", changed, people + changed, districts)
        key = folder / "key"
        key.write_text("the key of a benchmark, no secret")
        key.chmod(0o600)
        alone = {"output": {"url": "alone"}, "work": {"url": "alone-work"}, "unit": "row"}
        alone["roles"] = {**_ROLES, "identifiers": [], "drop": ["person"]}
        series = {"series": {"mode": "atoms", "leavers": leavers, "key_file": "key"}}
        runs = {
            "without a series": released(folder, "alone", "night-0", **alone),
            "night 0": released(folder, "n0", "night-0", **series),
            "night 1": released(folder, "n1", "night-1", **series),
        }
        head = ledger_of(load_spec(str(folder / "n1.yaml"))).head()
        assert head is not None
        bytes_a_unit = head.n_bytes / head.counts.units
    both = {name: run["read_mb"] + run["written_mb"] for name, run in runs.items()}
    return {
        "people": people,
        "runs": runs,
        "bytes_a_unit": round(bytes_a_unit, 1),
        "night_1_over_none": round(both["night 1"] / both["without a series"], 2),
    }


def main() -> None:
    """Read the arguments, measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--people", type=int, default=200_000)
    parser.add_argument("--churn", type=float, default=0.005)
    parser.add_argument("--districts", type=int, default=500)
    parser.add_argument("--leavers", choices=("withhold", "ghosts", "decoys"), default="ghosts")
    given = parser.parse_args()
    print(json.dumps(measure(given.people, given.churn, given.districts, given.leavers), indent=1))


if __name__ == "__main__":
    main()
