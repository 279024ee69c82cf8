"""Measure what algorithms cost, beside what their models say: n, p, k, seconds, model, ratio, and memory.

    python tests/benchmark/algorithm_cost.py [--algorithms mdav,v_mdav] [--largest 100000] [--data lognormal]

It runs over the registry, on sizes that an algorithm takes and whose model stays below ``--seconds``. The
coefficients of the cost models were fitted to this table on one core of a 2-core virtual machine. A run costs CPU
seconds of one thread, compilation left out. Memory is the growth of a fresh process's peak.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator

import numpy as np

from microagg_core.group.algorithms import AlgorithmInfo, algorithms

#: Data sets of the same size that a search can find easy or hard.
DATA: dict[str, Callable[[int, int], np.ndarray]] = {
    "uniform": lambda n, p: np.random.default_rng(1).random((n, p)),
    "normal": lambda n, p: np.random.default_rng(1).standard_normal((n, p)),
    "lognormal": lambda n, p: np.exp(2 * np.random.default_rng(1).standard_normal((n, p))),
    "lattice": lambda n, p: np.random.default_rng(1).integers(0, 5, (n, p)).astype(np.float64),
}


def _sizes(info: AlgorithmInfo, largest: int, most_seconds: float) -> Iterator[tuple[int, int, int]]:
    """Numbers of records, attributes and k that the algorithm takes, and within reach."""
    most, ks = info.max_records, sorted({max(info.min_k, min(k, info.max_k or k)) for k in (3, 10, 50)})
    for n in (2_000, 20_000, 100_000) if most is None else (most - 8, most - 4, most - 2, most):
        for p in (1, 4, 10, 30):
            for k in ks:
                if n <= largest and not info.refuses(k, p) and info.cost_seconds(n, p, k) <= most_seconds:
                    yield n, p, k


def _seconds(info: AlgorithmInfo, X: np.ndarray, k: int) -> float:
    start = time.process_time()
    info.run(X, k)
    return time.process_time() - start


def _measure(name: str, data: str, n: int, p: int, k: int) -> tuple[float, int]:
    """CPU seconds of a run, and bytes by which it raised the peak memory of this fresh process."""
    info = algorithms()[name]
    X = DATA[data](n, p)
    _seconds(info, X[: 2 * k], k)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = min(_seconds(info, X, k) for _ in range(2 if n < 50_000 else 1))
    return seconds, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def _line(name: str, info: AlgorithmInfo, data: str, n: int, p: int, k: int) -> str:
    with multiprocessing.get_context("spawn").Pool(1) as fresh:
        seconds, memory = fresh.apply(_measure, (name, data, n, p, k))
    model = info.cost_seconds(n, p, k)
    megabytes = f"{memory / 1e6:>8.1f}{info.memory_bytes(n, p, k) / 1e6:>8.1f}"
    return f"{name:<20}{n:>8}{p:>4}{k:>4}{seconds:>10.4f}{model:>10.4f}{seconds / model:>7.2f}{megabytes}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithms", default=",".join(algorithms()))
    parser.add_argument("--largest", type=int, default=100_000, help="most records to measure")
    parser.add_argument("--seconds", type=float, default=60.0, help="longest run to measure, by its model")
    parser.add_argument("--data", choices=sorted(DATA), default="uniform")
    chosen = parser.parse_args()
    print(f"{'algorithm':<20}{'n':>8}{'p':>4}{'k':>4}{'seconds':>10}{'model':>10}{'ratio':>7}{'MB':>8}{'model':>8}")
    for name in chosen.algorithms.split(","):
        info = algorithms()[name]
        for n, p, k in _sizes(info, chosen.largest, chosen.seconds):
            print(_line(name, info, chosen.data, n, p, k), flush=True)


if __name__ == "__main__":
    main()
