"""Small problems that run through everything a part compiles; solved by the child process alone.

An algorithm's problems are of one shape for all: few records, which are scanned, and many, which go into a tree. What
is compiled depends on nothing else: arrays come in one layout and one type, whatever k and the number of attributes.
"""

from __future__ import annotations

import datetime
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats
from microagg_core.compiling import stamp
from microagg_core.errors import sanitized
from microagg_core.group.algorithms import AlgorithmInfo, algorithms
from microagg_core.kernels.machine_code.code_cache import not_kept

#: Enough for a tree at two attributes and the least k; see :func:`microagg_core.kernels.tree.searches.tree_pays`.
_FEW, _MANY = 40, 1600


def _records(n: int, p: int) -> Floats:
    X = np.random.default_rng(0).random((n, p))
    X[: n // 10] = X[0]
    return X


def _hash_tables() -> None:
    from microagg_core.data.tables.hashing import hash_rows
    from microagg_core.inspect.samples import sketch_of
    from microagg_core.kernels.tools.hashing import mix_words

    columns = [["a", None], [b"", b"b"], [1, None], [0.5, 1.0], [True, None], [Decimal("1.5"), None], [None, None]]
    days = pa.array([datetime.date(2020, 1, 1), None])
    hashes = mix_words(hash_rows([*map(pa.array, columns), days], 2, seed=0))
    sketch_of(hashes, np.ones(2, dtype=np.bool_), _records(2, 1), np.zeros((2, 1), dtype=np.bool_))


def _bound_and_measure() -> None:
    from microagg_core.group.metrics.statistics import loss_statistics
    from microagg_core.group.refine.neighbours import neighbour_bound_of

    records = _records(_FEW, 2)
    neighbour_bound_of(records, 3)
    loss_statistics(records, records, np.zeros(records.shape, dtype=np.bool_))


def _link() -> None:
    from microagg_core.inspect.candidates import Candidates

    records, all_alike = _records(_FEW, 2), np.zeros(_FEW, dtype=np.int64)
    missing = np.zeros(records.shape, dtype=np.bool_)
    for costs in (None, np.array([1.0, 0.0])):
        Candidates(records, missing, all_alike, all_alike + 1, costs).link(records, np.arange(_FEW))


def _anneal() -> None:
    from microagg_core.group.costs import LARGE_K
    from microagg_core.group.refine.annealing import Annealing
    from microagg_core.group.refine.neighbours import Records
    from microagg_core.group.refine.refinement import refine

    for k in (3, LARGE_K + 1):  # of which only the second goes downhill
        n = max(_FEW, 3 * k)
        refine(_records(n, 2), np.arange(n) % 3, k)
    records = Records.of(_records(_FEW, 2), 5)
    annealing = Annealing(records.points, records.near(5), 2, 0)
    annealing.regions = 2
    annealing.run(np.arange(_FEW) // 2, 1, 1.0, 1, 2)


def _make_small_blocks() -> None:
    from microagg_core.group.points import Points
    from microagg_core.group.refine.small_blocks import group_small_blocks

    points = Points.of(_records(_FEW, 2))
    group_small_blocks(points, points, np.array([0, 4, _FEW]), 3, "fast", np.ones(2, dtype=np.uint64))


def _prove_factor() -> None:
    from microagg_core.group.refine.bounds import factor_bound

    for n in (_FEW, _MANY):
        factor_bound(_records(n, 2), 2)


def _prove_optimum() -> None:
    from microagg_core.group.refine.refinement import refine

    refine(_records(_FEW, 2), np.arange(_FEW) // 2, 2, effort="thorough")


def _prove_prices() -> None:
    from microagg_core.group.refine.columns import column_bound

    column_bound(_records(_FEW, 2), 3)


def _protect() -> None:
    from microagg_core.inspect.demand import Demand
    from microagg_core.inspect.distributions import Distribution
    from microagg_core.inspect.protect.groups import block_demands, protected_groups

    values = pa.array(np.arange(_FEW) // 3)
    whole = Distribution.of(values)
    demands = block_demands([Demand("value", 2, 0.2)], [whole.codes(values)], [whole])
    protected_groups(_records(_FEW, 2), np.arange(_FEW) // 4, 4, demands, "fast", 0)


_PROBLEMS: dict[str, Callable[[], None]] = {
    "tables": _hash_tables,
    "bound": _bound_and_measure,
    "links": _link,
    "annealing": _anneal,
    "small blocks": _make_small_blocks,
    "factor": _prove_factor,
    "optimum": _prove_optimum,
    "prices": _prove_prices,
    "protection": _protect,
}


def _run_algorithm(info: AlgorithmInfo) -> None:
    p = 1 if info.each_attribute else min(2, info.max_attributes or 2)
    # A search's steps change nothing of what it compiles.
    parameters: dict[str, Any] = {of.name: of.minimum for of in info.parameters if of.name == "steps"}
    for n in (_FEW, _MANY):
        info.run(_records(min(n, info.max_records or n), p), info.min_k, **parameters)


def solve(part: str) -> None:
    if part in _PROBLEMS:
        _PROBLEMS[part]()
    else:
        _run_algorithm(algorithms()[part])


def _end_with_the_parent() -> None:
    """End when the other end of the pipe closes: the parent is gone, however it went."""
    os.read(0, 1)  # not through sys.stdin, whose lock would be held when this process itself ends
    os._exit(0)


def main(parts: list[str]) -> None:
    """Compile parts one after the other, and say of each that it is done, or why it was not."""
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    for part in parts:
        try:
            solve(part)
        except Exception as error:
            trouble = sanitized(error, "compiling the kernels")
            print(f"{trouble.kind} {trouble.message}", flush=True)
            sys.exit(1)
        if not not_kept:
            with suppress(OSError):  # then the part counts as not kept
                stamp(part)
        print(f"done {part}", flush=True)
