"""What refining costs beside MDAV, and what it gains: microseconds of a core for each record, and L_SSE.

    python tests/benchmark/refine_cost.py [--to tests/benchmark/results] [--cases uniform:100000:4:5,census:0:0:3]
        [--threads 1,2] [--growth uniform:10000:2:5,uniform:20000:10:5]

Each case is data, records, attributes and k; a reference file has its own records and attributes. MDAV and the
refinement of its groups run in turn in one process, compilation left out; ratios are the median of the turns'. With
``--threads`` only the refinement runs, in so many: its CPU and how long it takes, the least of the turns. With
``--growth`` all that a release does for a block: groups to start from, refinement and bound; ``--growth all`` is of
10,000 to 3,000,000 records and 2 to 20 attributes.
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
from microagg_core.group.algorithms import algorithms
from microagg_core.group.metrics.losses import losses, standardize
from microagg_core.group.refine.bounds import refine_with_bound
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
GROWTH = tuple(
    f"uniform:{n}:{p}:5" for p in (2, 4, 10, 20) for n in (10_000, 31_623, 100_000, 316_228, 1_000_000, 3_000_000)
)
_TURNS = 3
_HEADER = ("case", "mdav us", "refine us", "times mdav", "L_SSE mdav", "refined")
_HEADER_OF_GROWTH = ("case", "groups by", "us", "refined us", "all us", "L_SSE", "bound of loss")
_HEADER_OF_THREADS = ("case", "threads", "CPU us", "takes us", "of one thread's", "L_SSE")


def records(data: str, n: int, p: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    if data == "uniform":
        return rng.random((n, p))
    if data == "binary":
        return rng.integers(0, 2, (n, p)).astype(np.float64)
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


def line_of_growth(case: str) -> tuple[str, ...]:
    """A case's row of the table of growth, from one run."""
    what, X, k = case_of(case)
    Z = standardize(X)
    info = algorithms()["mdav"].start_of("fast", *Z.shape, k)
    labels, grouping = timed(info.run, Z, k)
    (refined, bound), more = timed(refine_with_bound, Z, labels, k, "fast", 0)
    cost = [f"{1e6 * seconds / len(Z):.2f}" for seconds in (grouping, more, grouping + more)]
    lost = losses(Z, refined)
    return what, info.name, *cost, f"{lost.l_sse:.4g}", f"{bound.sse / lost.sse if lost.sse else 1.0:.0%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, help="folder for the table")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--threads", help="numbers of threads, the first of them 1")
    parser.add_argument("--growth", help="cases, or all")
    chosen = parser.parse_args()
    for n, p in ((100, 4), (5000, 4), (2000, 12)):
        X = records("uniform", n, p)
        for algorithm in ("mdav", "slabs"):
            refine_with_bound(X, partition(X, 3, algorithm), 3, "fast", 0)
    numbers = [int(number) for number in chosen.threads.split(",")] if chosen.threads else []
    growth = ",".join(GROWTH) if chosen.growth == "all" else chosen.growth
    header = _HEADER_OF_GROWTH if growth else _HEADER_OF_THREADS if numbers else _HEADER
    rows = [header, ("---",) * len(header)]
    for case in (growth or chosen.cases).split(","):
        of_case = [line_of_growth(case)] if growth else lines_of_threads(case, numbers) if numbers else [line(case)]
        for row in of_case:
            rows.append(row)
            print(*row, sep=" | ", flush=True)
    if chosen.to is not None:
        table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
        name = "refine_growth.md" if growth else "refine_threads.md" if numbers else "refine.md"
        (chosen.to / name).write_text(table)


if __name__ == "__main__":
    main()
