"""How the time of a proved minimum-weight factor grows with n, and what it reaches on the reference data.

    python tests/benchmark/factor_growth.py [--largest 20000] [--optimal SECONDS] [--plot growth.png]

Seconds are of one core, with compilation left out; memory is the peak of a fresh process. The paper of 2006 needed
81 min 17 s for 600 records. With --optimal, the best partition is sought as well, for so many seconds at most.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import resource
import sys
import time
from pathlib import Path

import numpy as np

from microagg_core.group.factor import minimum_factor, optimal_two

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
from published import dataset

SIZES = (600, 2_000, 6_000, 20_000, 100_000)
#: L_SSE and bound to reach, in percent.
TARGETS = {"tarragona": (8.84058, 8.80895), "census": (2.85375, 2.73756), "eia": (0.18432, 0.16772)}


def _records(case: str) -> np.ndarray:
    return np.random.default_rng(1).random((int(case), 4)) if case.isdigit() else dataset(case)


def _measure(case: str, optimal: float) -> tuple[float, str]:
    """Seconds of a factor in this fresh process, and a line about it."""
    minimum_factor(np.random.default_rng(0).random((200, 4)))
    X = _records(case)
    start = time.process_time()
    found = minimum_factor(X)
    seconds = time.process_time() - start
    percent = 100 / ((X - X.mean(axis=0)) ** 2).sum()
    certificate, proof = found.certificate, found.proof
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = (
        f"{case:<10}{X.shape[0]:>8}{X.shape[1]:>4}{seconds:>9.3f}{megabytes:>7.0f}{proof.rounds:>4}"
        f"{proof.candidates:>9}{proof.looked_at:>10}{certificate.weight:>12.5f}{percent * certificate.sse:>10.5f}"
        f"{percent * certificate.optimum_at_least:>10.5f}{certificate.ratio:>9.5f}"
    )
    if case in TARGETS:
        line += "  targets {:.5f} {:.5f}".format(*TARGETS[case])
    if optimal > 0:
        start = time.process_time()
        best = optimal_two(X, seconds=optimal)
        line += f"\n{'':<10}best partition {percent * best.sse:.6f} %, proved gap {100 * best.gap:.6f} %"
        line += f", {time.process_time() - start:.1f} s, {best.rounds} rounds, {best.odd_sets} odd sets"
    return seconds, line


def _plot(measured: dict[int, float], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    axes.loglog(list(measured), list(measured.values()), "o-", label="proved factor, uniform x 4")
    axes.loglog([600], [81 * 60 + 17], "s", label="the paper of 2006")
    axes.set(xlabel="records", ylabel="seconds of one core")
    axes.legend()
    figure.savefig(path, bbox_inches="tight", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=20_000, help="most records to measure")
    parser.add_argument("--optimal", type=float, default=0.0, help="seconds for the best partition")
    parser.add_argument("--plot", help="where to put a picture of the growth")
    chosen = parser.parse_args()
    print(
        f"{'case':<10}{'n':>8}{'p':>4}{'seconds':>9}{'MB':>7}{'rds':>4}{'pairs':>9}{'looked at':>10}"
        f"{'weight':>12}{'L_SSE %':>10}{'bound %':>10}{'ratio':>9}"
    )
    measured: dict[int, float] = {}
    for case in [*TARGETS, *(str(n) for n in SIZES if n <= chosen.largest)]:
        with multiprocessing.get_context("spawn").Pool(1) as fresh:
            seconds, line = fresh.apply(_measure, (case, chosen.optimal))
        print(line, flush=True)
        if case.isdigit():
            measured[int(case)] = seconds
    logs = {n: math.log(seconds) for n, seconds in measured.items()}
    for small, large in zip(list(logs)[:-1], list(logs)[1:], strict=True):
        print(f"growth from {small} to {large}: n^{(logs[large] - logs[small]) / math.log(large / small):.2f}")
    if chosen.plot:
        _plot(measured, chosen.plot)


if __name__ == "__main__":
    main()
