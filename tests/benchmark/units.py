"""What k-anonymity of whole households costs: eusilc's persons, of whom each household's are released together.

    python tests/benchmark/units.py EUSILC.csv [--k 3,5,10]

EUSILC.csv are the 14,827 persons in 6,000 households of R's package laeken, as a file with commas. Age is a number, the
others are categories, and a missing value is one of them. Groups are made by MDAV and refined, fast, of the households
of each size by themselves. L_SSE is of all persons; households of sizes that fewer than k have are left out. With
``region once`` that column, which is the same for all of a household, is in the points of households once. Seconds are
of one core, compilation left out.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.blocks.units import group_units
from microagg_core.data.kinds.contract import Declaration
from microagg_core.data.kinds.encoding import QuasiIdentifiers
from microagg_core.group.algorithms import algorithms
from microagg_core.group.bounds import NOTHING
from microagg_core.group.points import Points
from microagg_core.group.refine.bounds import refine_with_bound

UNIT, NUMBER, NOMINAL = "db030", "age", ["rb090", "pl030", "pb220a", "db040"]


def read(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path, dtype=str, keep_default_na=False).sort_values(UNIT, kind="stable", ignore_index=True)
    return table.astype({NUMBER: float})


def points(table: pd.DataFrame) -> Points:
    columns = {name: pa.array(table[name]) for name in (NUMBER, *NOMINAL)}
    return QuasiIdentifiers.of(
        columns, declared={name: Declaration(name, kind="nominal") for name in NOMINAL}
    ).measured()


def grouped(rows: Points, sizes: Ints, k: int, once: np.ndarray) -> Ints:
    """Number each person's group and position, -1 where too few households are as large."""

    def group(of_units: Points) -> Ints:
        labels = algorithms()["mdav"].run(of_units, k)
        return refine_with_bound(of_units, labels, k, "fast", 0, NOTHING)[0]

    labels = np.full(len(rows), -1)
    for size in np.unique(sizes):
        own = np.flatnonzero(sizes == size)
        if len(own) >= k * size:
            labels[own] = labels.max() + 1 + group_units(rows.rows(own), int(size), once, group)
    return labels


def loss(table: pd.DataFrame, labels: np.ndarray) -> float:
    """L_SSE in percent, from the definitions: of age, and of the corners of a simplex for each other column."""
    lost, there = 0.0, labels >= 0
    for name in (NUMBER, *NOMINAL):
        dense = pd.get_dummies(table[name]) if name in NOMINAL else table[[name]]
        total = ((dense - dense.mean()) ** 2).to_numpy(float).sum()
        means = dense[there].astype(float).groupby(labels[there]).transform("mean")
        lost += ((dense[there] - means) ** 2).to_numpy(float).sum() / total
    return 100 * lost / (1 + len(NOMINAL))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("eusilc", type=Path)
    arguments.add_argument("--k", default="3,5,10")
    given = arguments.parse_args()
    table = read(given.eusilc)
    rows, sizes = points(table), table.groupby(UNIT)[UNIT].transform("size").to_numpy()
    grouped(rows, sizes, 100, np.zeros(5, dtype=bool))
    print(f"{'':12} |  k | L_SSE % | persons left out | CPU s")
    for k in map(int, given.k.split(",")):
        for name, once in (("none once", [False] * 5), ("region once", [False] * 4 + [True])):
            start = time.process_time()
            labels = grouped(rows, sizes, k, np.array(once))
            seconds = time.process_time() - start
            figures = f"{loss(table, labels):7.3f} | {np.count_nonzero(labels < 0):16}"
            print(f"{name:12} | {k:2} | {figures} | {seconds:5.2f}", flush=True)


if __name__ == "__main__":
    main()
