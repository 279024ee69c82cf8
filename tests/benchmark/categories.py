"""What k-anonymity of a file of categories costs: adult's eight quasi-identifiers, beside Mondrian and files by ARX.

    python tests/benchmark/categories.py ADULT.csv [--k 3,5,10] [--arx K=FILE ...]

ADULT.csv is the census file of 30,162 records with semicolons. Mondrian is that of anonypy (``pip install anonypy``),
left out where it is not installed; its groups get modes, medians and means as ours do. The files by ARX are those in
the repository of pycanon (``data/processed/adult_anonymized_3.csv``), made of other columns of the file before records
with missing values were left out: of them only rows are counted. A record is changed in a cell of categories where it
gets another one than it had; L_SSE is of the groups. Seconds are of one core, compilation left out.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

from microagg_core import microaggregate

LEVELS = [
    *("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college"),
    *("Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate"),
]
NOMINAL = ["sex", "race", "marital-status", "workclass", "occupation", "native-country"]
QUASI = ["age", "education", *NOMINAL]
#: Records of the file that ARX was given.
ARX_RECORDS = 32_561


def read(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path, sep=";")
    table["education"] = pd.Categorical(table["education"], LEVELS, ordered=True)
    return table


def loss(table: pd.DataFrame, labels: np.ndarray) -> float:
    """L_SSE in percent, from the definitions: of age, of midranks, and of the corners of a simplex for each column."""
    lost = 0.0
    for name in QUASI:
        column = table[name]
        if name in NOMINAL:
            dense = pd.get_dummies(column).to_numpy(float)
        else:
            numbers = column if name == "age" else column.cat.codes.rank()
            dense = numbers.to_numpy(float)[:, None]
        means = pd.DataFrame(dense).groupby(labels).transform("mean").to_numpy()
        lost += ((dense - means) ** 2).sum() / ((dense - dense.mean(axis=0)) ** 2).sum()
    return 100 * lost / len(QUASI)


def changed(table: pd.DataFrame, labels: np.ndarray) -> float:
    """Percent of all cells of nominal columns whose category is not the most frequent of its group."""
    kept = 0
    for name in NOMINAL:
        kept += table.groupby([labels, table[name]]).size().groupby(level=0).max().sum()
    return 100 * (1 - kept / (len(table) * len(NOMINAL)))


def mondrian(table: pd.DataFrame, k: int) -> np.ndarray | None:
    try:
        from anonypy.mondrian import Mondrian
    except ImportError:
        return None
    frame = table[QUASI].copy()
    frame["education"] = frame["education"].cat.codes
    for name in NOMINAL:
        frame[name] = frame[name].astype("category")
    labels = np.empty(len(frame), dtype=np.int64)
    for number, rows in enumerate(Mondrian(frame, QUASI).partition(k)):
        labels[rows] = number
    return labels


def show(who: str, k: int, table: pd.DataFrame, labels: np.ndarray, seconds: float) -> None:
    figures = f"{loss(table, labels):8.3f} | {changed(table, labels):15.2f} | {np.bincount(labels).min():5}"
    print(f"{who:26} | {k:4} | {figures} | {seconds:6.2f}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("adult", type=Path)
    arguments.add_argument("--k", default="3,5,10")
    arguments.add_argument("--arx", nargs="*", default=[])
    given = arguments.parse_args()
    table = read(given.adult)
    microaggregate(table.iloc[:200], QUASI, 3, refine="fast")
    print(f"{'':26} |    k |  L_SSE % | cells changed % | least |  CPU s")
    for k in map(int, given.k.split(",")):
        start = time.process_time()
        groups = microaggregate(table, QUASI, k, refine="fast").groups
        show("microagg, mdav and fast", k, table, groups, time.process_time() - start)
        start = time.process_time()
        if (labels := mondrian(table, k)) is not None:
            show("Mondrian (anonypy)", k, table, labels, time.process_time() - start)
    for k, _, path in (text.partition("=") for text in given.arx):
        rows = len(pd.read_csv(path))
        left_out = 100 * (1 - rows / ARX_RECORDS)
        print(f"ARX, k={k}: {rows:,} of {ARX_RECORDS:,} records are released, {left_out:.0f} % are not")


if __name__ == "__main__":
    main()
