"""Ties: rows are exchanged within combinations, what ties them is what the slow twin finds, and chance is no tie."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from covering import each
from microagg_core.arrays import Ints
from microagg_core.inspect.checks.ties import deviations, exchanged_rows, tied_columns
from microagg_core.kernels.tools.hashing import mix_words
from twins import naive_ties


def people(draw: np.random.Generator, n: int, most: int = 4) -> tuple[Ints, Ints]:
    """Units of few rows, and combinations of three or four units each, in any order."""
    units = np.repeat(np.arange(n), draw.integers(1, most + 1, n))
    combinations = draw.permutation(len(units) // 4 * 4) // 4 % max(len(units) // 4, 1)
    return units, np.append(combinations, np.zeros(len(units) - len(combinations), dtype=np.int64))


def noted(units: Ints, other: Ints, columns: list[pa.Array]) -> pa.Table:
    values = {f"own {j}": column for j, column in enumerate(columns)}
    exchanged = {f"other {j}": column.take(pa.array(other)) for j, column in enumerate(columns)}
    return pa.table({"unit": units, "record": np.arange(len(units)), **values, **exchanged})


@each("seed", range(20))
def test_rows_are_exchanged_for_any_of_other_units_of_their_combination(seed: int) -> None:
    draw = np.random.default_rng(seed)
    units, groups = draw.integers(0, 12, 40), draw.integers(0, 8, 40)
    met = np.array([exchanged_rows(groups, units, np.full(40, x)) for x in np.linspace(0, 0.999, 400)])
    for row in range(40):
        may = np.flatnonzero((groups == groups[row]) & (units != units[row])).tolist()
        assert sorted(set(met[:, row].tolist())) == (may or [row])


def of_columns(draw: np.random.Generator, units: Ints, how: str) -> tuple[list[pa.Array], list[bool]]:
    n, whose = len(units), lambda values: draw.choice(values, units.max() + 1)[units]
    income, job = draw.lognormal(3, 1, n).round(2), draw.integers(0, 4, n)
    flag, kept = draw.integers(0, 2, n), draw.random(n) < 0.8
    if how == "equal":
        income = np.where(kept, whose(income), income)
    elif how == "near":
        income = whose(income) + draw.random(n).round(3)
    elif how == "names":
        job = np.where(kept, whose(job), job)
    elif how == "two":
        job = (flag + whose([0, 1])) % 2
    elif how == "before":
        rate = np.where(np.diff(units, prepend=-1) == 0, np.roll(income, 1), draw.lognormal(3, 1, n).round(2))
        return [pa.array(income), pa.array(rate)], [True, True]
    missing = draw.random(n) < 0.1
    names = pa.array(np.array([11, 12, 13, 14], dtype=np.uint64)[job])  # hashes, as of texts
    return [pa.array(income, mask=missing), names, pa.array(flag)], [True, False, True]


@pytest.mark.parametrize("how", ["chance", "equal", "near", "names", "two", "before"])
@each("seed", range(3))
def test_what_ties_rows_is_what_the_twin_finds(how: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    units, groups = people(draw, 60)
    columns, ordered = of_columns(draw, units, how)
    other = exchanged_rows(groups, units, draw.random(len(units)))
    rows = np.argsort(mix_words(np.arange(len(units), dtype=np.uint64)))  # the random order
    own, theirs = ([column.take(pa.array(of)).to_pylist() for column in columns] for of in (rows, other[rows]))
    n_looks = {2: 6 * 7 // 2 + 1, 3: 7 * 8 // 2 + 3}[len(columns)]
    expected = naive_ties.tied_columns(units[rows].tolist(), own, theirs, ordered, deviations(n_looks))
    order = draw.permutation(len(units))
    assert tied_columns(noted(units, other, columns).take(pa.array(order)), ordered) == expected
    wanted: dict[str, list[tuple[int, ...]]] = {"equal": [(0,)], "near": [(0,)], "names": [(1,)], "before": [(0, 1)]}
    assert expected == wanted.get(how, []) or how == "two"


@each("seed", range(20))
def test_chance_is_no_tie_and_a_few_units_of_many_are(seed: int) -> None:
    """Values that few have, that most have, that all differ in; and then one unit in fifty has an income twice."""
    draw = np.random.default_rng(seed)
    units, groups = people(draw, 1500, 6)
    n, other = len(units), exchanged_rows(groups, units, draw.random(len(units)))
    income, spent = draw.lognormal(3, 1, n), np.where(draw.random(n) < 0.9, 0, draw.integers(1, 10**6, n))
    age = groups % 90 + draw.integers(0, 3, n)  # goes with the combination, which units have rows in at random
    columns = [income, spent, draw.random(n) < 0.01, age, draw.zipf(1.5, n).clip(max=99)]
    assert tied_columns(noted(units, other, [pa.array(column) for column in columns]), [True] * 5) == []
    second = np.flatnonzero((np.diff(units, prepend=-1) == 0) & (units % 50 == 0))
    income[second] = income[second - 1]
    assert (0,) in tied_columns(noted(units, other, [pa.array(column) for column in columns]), [True] * 5)
