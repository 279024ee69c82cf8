"""What it costs to release arrivals in small cohorts, and what waiting for more of them saves.

    python tests/benchmark/cohorts.py --people 20000 --nights 1,7,30,100 --until 5,2000,5000,20000

As many people arrive every night, and every release is one of a disjoint series. Its loss is computed from the released
files and the truth: squared distances of all attributes, standardized, over the sum of their squares. Beside it stands
the loss of every cohort anonymized by itself: no series can do better that releases it at once. With ``hold`` arrivals
wait until there are so many of them; a night long after the others releases whoever still waits.
"""

from __future__ import annotations

import argparse
import datetime
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray

from microagg_core import microaggregate
from microagg_core.spec.loading import load_spec
from microagg_flows.executors import InProcess
from microagg_flows.progress import Silence
from microagg_flows.release import new_release
from microagg_flows.stages import run_until

_ATTRIBUTES = ["a", "b", "c", "d"]
_K = 5
_FIRST = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def people(n: int) -> NDArray[np.float64]:
    """Uniform in the unit cube, to six decimals."""
    return np.round(np.random.default_rng(2026).random((n, len(_ATTRIBUTES))), 6)


def percent_lost(X: NDArray[np.float64], released: NDArray[np.float64]) -> float:
    """L_SSE on the scale of all people."""
    centred = X - X.mean(axis=0)
    return float(100 * (((X - released) / X.std(axis=0)) ** 2).sum() / ((centred / X.std(axis=0)) ** 2).sum())


def alone(X: NDArray[np.float64], nights: int, refine: str) -> float:
    """The loss where every cohort is anonymized by itself."""
    released = np.empty_like(X)
    for night in range(nights):
        cohort = np.arange(len(X)) % nights == night
        table = pd.DataFrame(X[cohort], columns=_ATTRIBUTES)
        released[cohort] = microaggregate(table, _ATTRIBUTES, _K, algorithm="mdav", refine=refine).data.to_numpy()
    return percent_lost(X, released)


def of_series(X: NDArray[np.float64], nights: int, until: int, refine: str) -> tuple[float, int]:
    """The loss of a disjoint series over so many nights, and how many releases had somebody in them."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "key").write_text("the key of a benchmark, no secret")
        (folder / "key").chmod(0o600)
        (folder / "input").mkdir()
        for night in range(nights):
            here = np.flatnonzero(np.arange(len(X)) % nights <= night)
            _write(folder / "input" / "people.parquet", X, here)
            _release(folder, night, nights, until, refine)
        if until > _K:
            _release(folder, 2 * nights + 1, nights, until, refine)
        return _loss_of_releases(folder, X)


def _write(path: Path, X: NDArray[np.float64], here: NDArray[np.int64]) -> None:
    columns = {"id": here, "number": here, **{name: X[here, j] for j, name in enumerate(_ATTRIBUTES)}}
    pq.write_table(pa.table(columns), path)


def _release(folder: Path, night: int, nights: int, until: int, refine: str) -> None:
    # Nobody waits on a series' first night, so the first release is of the first cohort whatever is asked for.
    hold = {} if until <= _K else {"hold": {"until": until, "days": nights}}
    spec: dict[str, Any] = {
        "name": "people",
        "id": f"night-{night}",
        "k": _K,
        "algorithm": "mdav",
        "refine": refine,
        "input": {"url": "input/*.parquet"},
        "output": {"url": "release"},
        "work": {"url": "work"},
        "roles": {"identifiers": ["id"], "quasi_identifiers": _ATTRIBUTES, "confidential": ["number"]},
        "unit": ["id"],
        "acknowledge": {"nearly_unique": ["number"]},
        "series": {"mode": "disjoint", "key_file": "key", **hold},
    }
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump(spec), encoding="utf-8")
    now = _FIRST + datetime.timedelta(days=night)
    run_until("report", new_release(load_spec(str(path)), InProcess(Silence()), None, False, now))


def _loss_of_releases(folder: Path, X: NDArray[np.float64]) -> tuple[float, int]:
    released, n_releases = np.full_like(X, np.nan), 0
    for manifest in sorted((folder / "release").glob("*/*/manifest.json")):
        tables = [pq.read_table(path) for path in sorted((manifest.parent / "data").glob("*.parquet"))]
        rows = sum(table.num_rows for table in tables)
        n_releases += rows > 0
        for table in tables:
            released[np.asarray(table["number"])] = np.column_stack([np.asarray(table[name]) for name in _ATTRIBUTES])
    there = ~np.isnan(released[:, 0])
    if not there.all():
        raise SystemExit(f"{int((~there).sum())} people were never released")
    return percent_lost(X, released), n_releases


def main() -> None:
    """Read the arguments, measure, print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--nights", default="1,7,30")
    parser.add_argument("--until", default=f"{_K},2000")
    parser.add_argument("--refine", choices=("off", "fast"), default="fast")
    given = parser.parse_args()
    X = people(given.people)
    for nights in map(int, given.nights.split(",")):
        least = alone(X, nights, given.refine)
        for until in map(int, given.until.split(",")):
            loss, releases = of_series(X, nights, until, given.refine)
            figures = {"nights": nights, "until": until, "releases": releases, "loss": round(loss, 3)}
            print(json.dumps({**figures, "alone": round(least, 3), "over_alone": round(loss / least, 4)}), flush=True)


if __name__ == "__main__":
    main()
