"""What refining costs beside MDAV, and what it gains: microseconds of a core for each record, and L_SSE.

    python tests/benchmark/refine_cost.py [--to tests/benchmark/results] [--cases uniform:100000:4:5,census:0:0:3]

Each case is data, records, attributes and k; a reference file has its own records and attributes. MDAV and the
refinement of its groups run in turn in one process, compilation left out; ratios are the median of the turns'.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from microagg_core import partition
from microagg_core.metrics.losses import losses
from microagg_core.refine.refining import refine

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
from published import dataset

CASES = (
    *(f"uniform:{n}:4:{k}" for n in (20_000, 100_000) for k in (3, 5, 10)),
    "uniform:400000:4:5",
    *(f"uniform:100000:{p}:5" for p in (2, 8)),
    "uniform:20000:16:5",
    "uniform:20000:4:30",
    "lognormal:100000:4:5",
    *(f"{name}:0:0:5" for name in ("tarragona", "census", "eia")),
)
_TURNS = 3
_HEADER = ("case", "mdav us", "refine us", "times mdav", "L_SSE mdav", "refined")


def records(data: str, n: int, p: int) -> np.ndarray:
    """Made or reference data."""
    rng = np.random.default_rng(1)
    if data == "uniform":
        return rng.random((n, p))
    return np.exp(rng.standard_normal((n, p))) if data == "lognormal" else dataset(data)


def timed(function: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    """What a call gives, and its CPU seconds."""
    start = time.process_time()
    result = function(*args)
    return result, time.process_time() - start


def line(case: str) -> tuple[str, ...]:
    """A case's row of the table."""
    data, n, p, k = (int(part) if part.isdigit() else part for part in case.split(":"))
    X = records(str(data), int(n), int(p))
    both = []
    for _ in range(_TURNS):
        labels, plain = timed(partition, X, k)
        refined, more = timed(refine, X, labels, k)
        both.append((plain, more))
    times = statistics.median(more / plain for plain, more in both)
    cost = [1e6 * min(seconds) / len(X) for seconds in zip(*both, strict=True)]
    loss = [losses(X, groups).l_sse for groups in (labels, refined)]
    what = f"{data}, {len(X):,} x {X.shape[1]}, k={k}"
    return what, f"{cost[0]:.2f}", f"{cost[1]:.2f}", f"{times:.1f}", *(f"{percent:.4g}" for percent in loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, help="folder for the table")
    parser.add_argument("--cases", default=",".join(CASES))
    chosen = parser.parse_args()
    for n in (100, 5000):
        X = records("uniform", n, 4)
        refine(X, partition(X, 3), 3)
    rows = [_HEADER, ("---",) * len(_HEADER)]
    for case in chosen.cases.split(","):
        rows.append(line(case))
        print(*rows[-1], sep=" | ", flush=True)
    if chosen.to is not None:
        table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
        (chosen.to / "refine.md").write_text(table)


if __name__ == "__main__":
    main()
