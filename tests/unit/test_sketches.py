"""Sketches of confidential columns: what is nearly unique, and what fixes a quasi-identifier."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.privacy.sketches import SAMPLE_VALUES, Sketch, merge_sketches, sketch_of
from microagg_core.tables.hashing import hash_rows


def sketched(values: np.ndarray, quasi: np.ndarray, n_batches: int = 5) -> Sketch:
    sketches = []
    for rows in np.array_split(np.arange(len(values)), n_batches):
        hashes = hash_rows([pa.array(values[rows])], len(rows), seed=0)
        Z = quasi[rows, None]
        sketches.append(sketch_of(hashes, np.ones(len(rows), dtype=bool), Z, np.zeros_like(Z, dtype=bool)))
    return merge_sketches(sketches)


@pytest.mark.parametrize("distinct", [1, 7, SAMPLE_VALUES, 20_000, 60_000])
def test_distinct_values_are_counted(distinct: int) -> None:
    rng = np.random.default_rng(1)
    values = np.append(np.arange(distinct), rng.integers(0, distinct, 80_000 - distinct))
    rng.shuffle(values)
    found = sketched(values, rng.normal(size=80_000))
    assert found.distinct() == (distinct if distinct <= SAMPLE_VALUES else pytest.approx(distinct, rel=0.1))
    assert found.complete == (distinct <= SAMPLE_VALUES)


def test_nearly_unique() -> None:
    rng = np.random.default_rng(2)
    assert sketched(np.arange(30_000), rng.normal(size=30_000)).nearly_unique()
    assert not sketched(np.arange(30_000) // 2, rng.normal(size=30_000)).nearly_unique()
    assert sketched(np.arange(11), rng.normal(size=11)).nearly_unique()


@pytest.mark.parametrize("n", [300, 50_000])
def test_a_copy_of_a_quasi_identifier_fixes_it(n: int) -> None:
    rng = np.random.default_rng(3)
    quasi = rng.integers(0, n // 10, n)
    z = (quasi - quasi.mean()) / quasi.std()
    assert sketched(quasi * 3 + 1, z).fixes(0)
    assert sketched(quasi // 3, z).fixes(0)  # a copy made only a little coarser
    assert not sketched(rng.integers(0, 50, n), z).fixes(0)


def test_chance_does_not_fix() -> None:
    """Pairs of records share a value and a skewed attribute hardly varies: it agrees within most pairs by chance."""
    rng = np.random.default_rng(4)
    quasi = (rng.random(40_000) < 0.01).astype(float)
    values = np.repeat(np.arange(20_000), 2)
    assert not sketched(values, quasi).fixes(0)


def test_a_constant_quasi_identifier_is_not_fixed() -> None:
    assert not sketched(np.arange(1000) % 10, np.zeros(1000)).fixes(0)


def test_merging_knows_what_a_batch_left_out() -> None:
    """The sample keeps only values whose records are all there: their counts are exact."""
    rng = np.random.default_rng(5)
    values = rng.integers(0, 9000, 70_000)
    found = sketched(values, rng.normal(size=70_000), n_batches=9)
    hashes = hash_rows([pa.array(values)], len(values), seed=0)
    distinct, counts = np.unique(hashes, return_counts=True)
    expected = dict(zip(distinct.tolist(), counts.tolist(), strict=True))
    assert len(found.table) > 1000
    assert {int(h): int(n) for h, n in found.table["n"].items()} == {
        int(h): expected[int(h)] for h in found.table.index
    }
    assert sorted(found.table.index) == distinct[: len(found.table)].tolist()
