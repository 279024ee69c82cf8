"""What loss is reached, and what is proved of it, on the reference data and on uniform data.

    python tests/benchmark/loss_reached.py [--parts search,fast,growth,bounds] [--cells tarragona:3,census:3]
        [--steps 6000] [--seeds 0,1] [--sizes 100000,1000000]

search: each cell's loss after a search, beside what a minute of search is known to reach. fast: what ``refine="fast"``
makes of MDAV's and MDAV*'s groups, in what time. growth: the same on uniform data in four attributes, with the
neighbour bound. bounds: what is proved of the cells' losses, and the gap. Losses are computed from the data and the
groups in plain Python, sharing nothing with the kernels. Seconds are of one core, compilation left out.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from microagg_core import lower_bound, partition
from microagg_core.group.metrics.losses import standardize
from microagg_core.group.refine.refinement import refine

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
from published import dataset

KS = (3, 4, 5, 7, 10)
#: L_SSE that ruin and recreate reaches within a minute, in percent.
REACHED = {
    "tarragona": (14.563, 17.121, 20.153, 25.662, 30.126),
    "census": (4.671, 6.096, 7.365, 9.198, 11.509),
    "eia": (0.351, 0.483, 0.737, 1.466, 1.939),
}
#: Steps for each record that take about a minute at most, for k up to 5 and above.
STEPS = {"tarragona": (25_000, 15_000), "census": (20_000, 12_000), "eia": (7_000, 7_000)}
CELLS = [f"{name}:{k}" for name in REACHED for k in KS]


@cache
def records(name: str) -> np.ndarray:
    """A reference file, or so many uniform records in four attributes; standardized."""
    return standardize(np.random.default_rng(1).random((int(name), 4))) if name.isdigit() else dataset(name)


def loss(X: np.ndarray, labels: np.ndarray, k: int) -> float:
    """L_SSE in percent, by definition, after a look at the groups' sizes."""
    groups: dict[int, list[list[float]]] = {}
    for row, label in zip(X.tolist(), labels.tolist(), strict=True):
        groups.setdefault(label, []).append(row)
    if min(map(len, groups.values())) < k:
        raise SystemExit("a group has fewer than k records")
    within = 0.0
    for rows in groups.values():
        means = [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
        within += math.fsum((x - m) ** 2 for row in rows for x, m in zip(row, means, strict=True))
    return 100 * within / float(((X - X.mean(axis=0)) ** 2).sum())


def timed(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, float]:
    start = time.process_time()
    found = function(*args, **options)
    return found, time.process_time() - start


def default_steps(name: str, k: int) -> int:
    """Steps of a search for each record, where the command does not say."""
    return STEPS.get(name, (6000, 6000))[k > 5]


def _target(name: str, k: int) -> float | None:
    return REACHED[name][KS.index(k)] if name in REACHED and k in KS else None


def _search(cells: list[tuple[str, int]], steps: int | None, seeds: list[int]) -> None:
    print(f"\n{'search':<12}{'k':>4}{'L_SSE':>10}{'a minute':>10}{'':>9}{'seconds':>9}", flush=True)
    for name, k in cells:
        X = records(name)
        for seed in seeds:
            labels, seconds = timed(partition, X, k, "search", steps=steps or default_steps(name, k), seed=seed)
            found, target = loss(X, labels, k), _target(name, k)
            beside = (
                "" if target is None else f"{target:>10.3f}  {'reached' if round(found, 3) <= target else 'missed'}"
            )
            print(f"{name:<12}{k:>4}{found:>10.4f}{beside:<19}{seconds:>9.1f}  seed {seed}", flush=True)


def _fast(cells: list[tuple[str, int]]) -> None:
    print(f"\n{'refine fast':<12}{'k':>4}{'from':>11}{'L_SSE':>9}{'refined':>9}{'below mdav_star':>17}{'seconds':>9}")
    for name, k in cells:
        X = records(name)
        star = loss(X, partition(X, k, "mdav_star"), k)
        for algorithm in ("mdav", "mdav_star"):
            labels = partition(X, k, algorithm)
            refined, seconds = timed(refine, X, labels, k)
            before, after = loss(X, labels, k), loss(X, refined, k)
            less = f"{100 * (1 - after / star):.1f} %" if star > 0 else ""
            print(f"{name:<12}{k:>4}{algorithm:>11}{before:>9.3f}{after:>9.3f}{less:>17}{seconds:>9.2f}", flush=True)


def _growth(sizes: list[int], k: int = 5) -> None:
    print(
        f"\n{'uniform':<10}{'k':>4}{'mdav':>9}{'refined':>9}{'less':>8}{'seconds':>9}{'times':>7}{'bound':>9}{'seconds':>9}"
    )
    last = 0.0
    for n in sizes:
        X = records(str(n))
        labels = partition(X, k)
        refined, seconds = timed(refine, X, labels, k)
        before, after = loss(X, labels, k), loss(X, refined, k)
        bound, bound_seconds = timed(lower_bound, X, k)
        times = f"{seconds / last:.1f}" if last else ""
        line = f"{n:<10}{k:>4}{before:>9.4f}{after:>9.4f}{100 * (1 - after / before):>6.1f} %{seconds:>9.2f}{times:>7}"
        print(f"{line}{100 * bound.sse / X.size:>9.4f}{bound_seconds:>9.2f}", flush=True)
        last = seconds


def _bounds(cells: list[tuple[str, int]], steps: int | None) -> None:
    print(f"\n{'bounds':<12}{'k':>4}{'L_SSE':>10}{'bound':>10}{'gap':>9}{'seconds':>9}  proof")
    for name, k in cells:
        X = records(name)
        labels = (
            partition(X, k, "two_mu_approx", refine="thorough")
            if k == 2
            else partition(X, k, "search", steps=steps or default_steps(name, k))
        )
        found = loss(X, labels, k)
        for effort in ("fast", "thorough"):
            bound, seconds = timed(lower_bound, X, k, effort)
            percent = 100 * bound.sse / float(((X - X.mean(axis=0)) ** 2).sum())
            gap = f"{100 * (1 - percent / found):.2f} %"
            print(f"{name:<12}{k:>4}{found:>10.4f}{percent:>10.4f}{gap:>9}{seconds:>9.1f}  {bound.kind}", flush=True)


def _compile() -> None:
    X = np.random.default_rng(0).standard_normal((60, 3))
    partition(X, 3, "mdav_star", refine="thorough")
    partition(X, 3, "search", steps=50)
    for k in (2, 3):
        lower_bound(X, k, "thorough")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="search,fast,growth,bounds")
    parser.add_argument("--cells", help="data set (or number of uniform records) and k, as in tarragona:3,200:5")
    parser.add_argument("--steps", type=int, help="steps of a search for each record")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--sizes", default="100000,1000000", help="uniform records")
    chosen = parser.parse_args()

    def cells(default: list[str]) -> list[tuple[str, int]]:
        names = chosen.cells.split(",") if chosen.cells else default
        return [(name, int(k)) for name, k in (cell.split(":") for cell in names)]

    _compile()
    parts = chosen.parts.split(",")
    if "search" in parts:
        _search(cells(CELLS), chosen.steps, [int(seed) for seed in chosen.seeds.split(",")])
    if "fast" in parts:
        _fast(cells([f"{name}:{k}" for name in REACHED for k in (3, 5, 10)]))
    if "growth" in parts:
        _growth([int(n) for n in chosen.sizes.split(",")])
    if "bounds" in parts:
        _bounds(cells([f"{name}:{k}" for name in ("census", "tarragona") for k in (2, 3, 4)]), chosen.steps)


if __name__ == "__main__":
    main()
