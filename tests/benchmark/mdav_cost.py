"""Measure what algorithms cost, beside what their models say: n, p, k, seconds, model, ratio, and memory.

    python tests/benchmark/mdav_cost.py [--algorithms mdav,v_mdav] [--largest 100000]

The coefficients of the cost models were fitted to this table on one core of a 2-core virtual machine. A run
costs CPU seconds of one thread, compilation left out. Memory is the growth of a fresh process's peak.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time

import numpy as np

from microagg_core.algorithms import AlgorithmInfo, algorithms

SIZES = [(n, p, k) for n in (2_000, 20_000, 100_000) for p in (1, 4, 10, 30) for k in (3, 10, 50)]


def _seconds(info: AlgorithmInfo, X: np.ndarray, k: int) -> float:
    start = time.process_time()
    info.run(X, k)
    return time.process_time() - start


def _measure(name: str, n: int, p: int, k: int) -> tuple[float, int]:
    """CPU seconds of a run, and bytes by which it raised the peak memory of this fresh process."""
    info = algorithms()[name]
    X = np.random.default_rng(1).random((n, p))
    _seconds(info, X[:60], 3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = min(_seconds(info, X, k) for _ in range(2 if n < 50_000 else 1))
    return seconds, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithms", default=",".join(algorithms()))
    parser.add_argument("--largest", type=int, default=100_000, help="most records to measure")
    chosen = parser.parse_args()
    print(f"{'algorithm':<12}{'n':>8}{'p':>4}{'k':>4}{'seconds':>10}{'model':>10}{'ratio':>7}{'MB':>8}{'model':>8}")
    for name in chosen.algorithms.split(","):
        info = algorithms()[name]
        for n, p, k in SIZES:
            if n > chosen.largest:
                continue
            with multiprocessing.get_context("spawn").Pool(1) as fresh:
                seconds, memory = fresh.apply(_measure, (name, n, p, k))
            model = info.cost_seconds(n, p, k)
            megabytes = f"{memory / 1e6:>8.1f}{info.memory_bytes(n, p, k) / 1e6:>8.1f}"
            print(f"{name:<12}{n:>8}{p:>4}{k:>4}{seconds:>10.4f}{model:>10.4f}{seconds / model:>7.2f}{megabytes}")


if __name__ == "__main__":
    main()
