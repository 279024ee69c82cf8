"""What refining costs beside MDAV, and what it gains: microseconds of a core for each record, and L_SSE.

    python tests/benchmark/refine_cost.py [--to tests/benchmark/results] [--cases uniform:100000:4:5,census:0:0:3]
        [--threads 1,2]

Each case is data, records, attributes and k; a reference file has its own records and attributes. MDAV and the
refinement of its groups run in turn in one process, compilation left out; ratios are the median of the turns'. With
``--threads`` only the refinement runs, in so many: its CPU and how long it takes, the least of the turns.
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
from microagg_core.group.metrics.losses import losses
from microagg_core.group.refine.refinement import refine
from microagg_core.kernels.tools.threads import Threads, cpu_seconds

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
_HEADER_OF_THREADS = ("case", "threads", "CPU us", "takes us", "of one thread's", "L_SSE")


def records(data: str, n: int, p: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    if data == "uniform":
        return rng.random((n, p))
    return np.exp(rng.standard_normal((n, p))) if data == "lognormal" else dataset(data)


def timed(function: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    start = time.process_time()
    result = function(*args)
    return result, time.process_time() - start


def case_of(text: str) -> tuple[str, np.ndarray, int]:
    data, n, p, k = text.split(":")
    X = records(data, int(n), int(p))
    return f"{data}, {len(X):,} x {X.shape[1]}, k={k}", X, int(k)


def shared(X: np.ndarray, labels: np.ndarray, k: int, threads: int) -> tuple[np.ndarray, float, float]:
    """What refining in so many threads gives, its CPU seconds, and the seconds that it takes."""
    with Threads(threads).running():
        start, cpu_start = time.perf_counter(), cpu_seconds()
        refined = refine(X, labels, k)
        return refined, cpu_seconds() - cpu_start, time.perf_counter() - start


def lines_of_threads(case: str, numbers: list[int]) -> list[tuple[str, ...]]:
    """A case's rows of the table of threads, whose turns alternate."""
    what, X, k = case_of(case)
    labels = partition(X, k)
    turns = [[shared(X, labels, k, threads) for threads in numbers] for _ in range(_TURNS)]
    if any(not np.array_equal(refined, turns[0][0][0]) for turn in turns for refined, _, _ in turn):
        raise SystemExit(f"{what}: the groups depend on the number of threads")
    cpu, takes = (1e6 / len(X) * np.array([[one[i] for one in turn] for turn in turns]).min(axis=0) for i in (1, 2))
    loss = f"{losses(X, turns[0][0][0]).l_sse:.4g}"
    return [
        (what, str(threads), f"{cpu[i]:.2f}", f"{takes[i]:.2f}", f"{takes[i] / takes[0]:.2f}", loss)
        for i, threads in enumerate(numbers)
    ]


def line(case: str) -> tuple[str, ...]:
    what, X, k = case_of(case)
    both = []
    for _ in range(_TURNS):
        labels, plain = timed(partition, X, k)
        refined, more = timed(refine, X, labels, k)
        both.append((plain, more))
    times = statistics.median(more / plain for plain, more in both)
    cost = [1e6 * min(seconds) / len(X) for seconds in zip(*both, strict=True)]
    loss = [losses(X, groups).l_sse for groups in (labels, refined)]
    return what, f"{cost[0]:.2f}", f"{cost[1]:.2f}", f"{times:.1f}", *(f"{percent:.4g}" for percent in loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, help="folder for the table")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--threads", help="numbers of threads, the first of them 1")
    chosen = parser.parse_args()
    for n in (100, 5000):
        X = records("uniform", n, 4)
        refine(X, partition(X, 3), 3)
    numbers = [int(number) for number in chosen.threads.split(",")] if chosen.threads else []
    header = _HEADER_OF_THREADS if numbers else _HEADER
    rows = [header, ("---",) * len(header)]
    for case in chosen.cases.split(","):
        for row in lines_of_threads(case, numbers) if numbers else [line(case)]:
            rows.append(row)
            print(*row, sep=" | ", flush=True)
    if chosen.to is not None:
        table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
        (chosen.to / ("refine_threads.md" if numbers else "refine.md")).write_text(table)


if __name__ == "__main__":
    main()
