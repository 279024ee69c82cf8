"""What a later night of a series costs beside a release without one: bytes, CPU and memory.

    python tests/benchmark/night_bytes.py --people 1000000 --churn 0.005
    python tests/benchmark/night_bytes.py --people 5000000 --workers 2 --memory 1GiB

Releases the same people again and again: without a series, of units that are rows (with their ids as identifiers, which
are looked at, and without any ids); as night 0 of a series; and, after some left and others came, as its next nights.
Bytes are all that is read and written, input and output included, as the system counts them for the process and its
children. With ``--workers`` each release is a command of its own with so many Dask workers; else all are made in this
process.
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import subprocess
import sys
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


def released(folder: Path, identity: str, people: str, **changes: Any) -> dict[str, float]:
    spec = {
        "name": "people",
        "id": identity,
        "k": 5,
        "refine": "off",
        "input": {"url": f"{people}/*.parquet"},
        "output": {"url": "release"},
        "work": {"url": "work"},
        "roles": _ROLES,
        "unit": ["person"],
        # Nobody is behind these records.
        "acknowledge": {"jointly_unique": _ROLES["confidential"]},
        **changes,
    }
    path = folder / f"{identity}.yaml"
    path.write_text(yaml.safe_dump(spec), encoding="utf-8")
    before, clock, cpu = _io(), time.perf_counter(), _cpu()
    stages = _by_command(path) if "cluster" in changes else _in_this_process(path)
    read, written = (after - earlier for after, earlier in zip(_io(), before, strict=True))
    return {
        "read_mb": round(read / 1e6, 1),
        "written_mb": round(written / 1e6, 1),
        "seconds": round(time.perf_counter() - clock, 1),
        "cpu_seconds": round(_cpu() - cpu, 1),
        "peak_mib": max(_peak_mib(resource.RUSAGE_SELF), _peak_mib(resource.RUSAGE_CHILDREN)),
        **stages,
    }


def _in_this_process(path: Path) -> dict[str, float]:
    release = new_release(load_spec(str(path)), InProcess(Silence()), None, False, datetime.datetime.now(datetime.UTC))
    run_until("report", release)
    return {f"stage_{outcome.name}": round(outcome.seconds, 1) for outcome in release.outcomes}


def _by_command(path: Path) -> dict[str, float]:
    call = "from microagg_flows.command.cli import main; main()"
    subprocess.run([sys.executable, "-c", call, "run", str(path), "--direct"], check=True, stdout=subprocess.DEVNULL)
    return {}


def _cpu() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _peak_mib(who: int) -> int:
    return round(resource.getrusage(who).ru_maxrss / 1024)


def _io() -> tuple[int, int]:
    """Bytes that this process and its children read and wrote so far, from caches too."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"]), int(counts["wchar"])


def measure(people: int, churn: float, districts: int, nights: int, **changes: Any) -> dict[str, Any]:
    changed = max(1, int(people * churn))
    leavers = changes.pop("leavers", "ghosts")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for night in range(nights + 1):
            write_people(folder / f"night-{night}", night * changed, people + night * changed, districts)
        key = folder / "key"
        key.write_text("the key of a benchmark, no secret")
        key.chmod(0o600)
        nobody = {"roles": {**_ROLES, "identifiers": [], "drop": ["person"]}}
        series = {"series": {"mode": "atoms", "leavers": leavers, "key_file": "key"}}
        write_people(folder / "few", 0, 1000, 1)
        runs = {
            "a few people": released(folder, "few", "few", **_elsewhere("few"), **changes),
            "without a series": released(folder, "alone", "night-0", **_elsewhere("alone"), **changes),
            "without ids": released(folder, "nobody", "night-0", **_elsewhere("nobody"), **nobody, **changes),
        }
        for night in range(nights + 1):
            runs[f"night {night}"] = released(folder, f"n{night}", f"night-{night}", **series, **changes)
        head = ledger_of(load_spec(str(folder / "n0.yaml"))).head()
        assert head is not None
        bytes_a_unit = head.n_bytes / head.counts.units
    # Programs and compiled kernels are read too, by each command anew; they do not count.
    start = runs["a few people"]["read_mb"]
    both = {name: run["read_mb"] + run["written_mb"] - start for name, run in runs.items()}
    if "cluster" not in changes:
        both = {name: n_bytes + start for name, n_bytes in both.items()}
    last = both[f"night {nights}"]
    return {
        "people": people,
        "runs": runs,
        "bytes_a_unit": round(bytes_a_unit, 1),
        "last_night_over_none": round(last / both["without a series"], 2),
        "last_night_over_none_without_ids": round(last / both["without ids"], 2),
    }


def _elsewhere(name: str) -> dict[str, Any]:
    return {"name": name, "output": {"url": name}, "work": {"url": f"{name}-work"}, "unit": "row"}


def main() -> None:
    """Read the arguments, measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--people", type=int, default=200_000)
    parser.add_argument("--churn", type=float, default=0.005)
    parser.add_argument("--districts", type=int, default=500)
    parser.add_argument("--leavers", choices=("withhold", "ghosts", "decoys"), default="ghosts")
    parser.add_argument("--nights", type=int, default=1, help="after the first")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--memory", default="1GiB", help="of each worker")
    given = parser.parse_args()
    changes: dict[str, Any] = {"leavers": given.leavers}
    if given.workers:
        changes["cluster"] = {"workers": given.workers, "memory": given.memory}
    print(json.dumps(measure(given.people, given.churn, given.districts, given.nights, **changes), indent=1))


if __name__ == "__main__":
    main()
