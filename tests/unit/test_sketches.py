"""Sketches of confidential columns: how many share a value, and what fixes a quasi-identifier."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from microagg_core.data.tables.hashing import hash_rows
from microagg_core.inspect.samples import (
    SAMPLE_VALUES,
    WORD,
    Draw,
    Sketch,
    drawn_rows,
    merge_draws,
    merge_sketches,
    sketch_of,
)
from microagg_core.kernels.tools.sums import sums_by_value
from microagg_core.release.steps.confidential import ColumnSketch, _Drawn
from twins.naive_sketches import naive_sums_by_value


def sketched(values: np.ndarray, quasi: np.ndarray, n_batches: int = 5) -> Sketch:
    """As parts do it: each batch knows what is left out already by those before it."""
    sketches: list[Sketch] = []
    for rows in np.array_split(np.arange(len(values)), n_batches):
        hashes = hash_rows([pa.array(values[rows])], len(rows), seed=0)
        Z = quasi[rows, None]
        limit = min((s.limit for s in sketches if s.limit is not None), default=None)
        sketches.append(sketch_of(hashes, np.ones(len(rows), dtype=bool), Z, np.zeros_like(Z, dtype=bool), limit))
    return merge_sketches(sketches)


@pytest.mark.parametrize("distinct", [1, 7, SAMPLE_VALUES, 20_000, 60_000])
def test_distinct_values_are_counted(distinct: int) -> None:
    rng = np.random.default_rng(1)
    values = np.append(np.arange(distinct), rng.integers(0, distinct, 80_000 - distinct))
    rng.shuffle(values)
    found = sketched(values, rng.normal(size=80_000))
    assert found.distinct() == (distinct if distinct <= SAMPLE_VALUES else pytest.approx(distinct, rel=0.1))
    assert (found.limit is None) == (distinct <= SAMPLE_VALUES)


def share_by_pandas(values: np.ndarray, least: int, most: int) -> float:
    n = pd.Series(values).map(pd.Series(values).value_counts())
    return float(n.between(least, most).mean())


@pytest.mark.parametrize(
    "values",
    [
        np.arange(11),
        np.arange(30_000),
        np.arange(30_000) // 2,
        np.random.default_rng(2).integers(0, 100_000, 30_000),
        np.random.default_rng(3).integers(0, 1500, 30_000),
        # One value of half of the file, which may or may not be sampled.
        np.where(np.arange(30_000) % 2, 0, np.random.default_rng(4).integers(0, 30_000, 30_000)),
        np.random.default_rng(5).zipf(1.3, 30_000) % 10**9,
    ],
    ids=["eleven", "unique", "pairs", "mostly unique", "repeated", "half zero", "skewed"],
)
def test_shares_of_records_are_those_of_pandas(values: np.ndarray) -> None:
    found = sketched(values, np.zeros(len(values)))
    for least, most in ((1, 1), (2, 8)):
        wanted = share_by_pandas(values, least, most)
        near = 1e-12 if found.limit is None else 0.03
        assert found.share_shared_by(least, most) == pytest.approx(wanted, abs=near)


@pytest.mark.parametrize("n", [300, 50_000])
def test_a_copy_of_a_quasi_identifier_fixes_it(n: int) -> None:
    rng = np.random.default_rng(3)
    quasi = rng.integers(0, n // 10, n)
    z = (quasi - quasi.mean()) / quasi.std()
    assert sketched(quasi * 3 + 1, z).explains(0) == pytest.approx(1)
    assert sketched(quasi // 3, z).explains(0) > 0.98  # a copy made only a little coarser
    assert sketched(rng.integers(0, 50, n), z).explains(0) < 0.1


def test_chance_does_not_fix() -> None:
    """Pairs of records share a value and a skewed attribute hardly varies: it agrees within most pairs by chance."""
    rng = np.random.default_rng(4)
    quasi = (rng.random(40_000) < 0.01).astype(float)
    values = np.repeat(np.arange(20_000), 2)
    assert sketched(values, quasi).explains(0) < 0.1


def test_a_constant_quasi_identifier_is_not_fixed() -> None:
    assert sketched(np.arange(1000) % 10, np.zeros(1000)).explains(0) == 0


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


def test_what_is_no_value_is_not_counted() -> None:
    values = np.array([5, 5, 7, 9, 9, 9])
    valid = np.array([True, True, True, False, False, False])
    Z = np.arange(6.0)[:, None]
    hashes = hash_rows([pa.array(values)], 6, seed=0)
    found = sketch_of(hashes, valid, Z, np.zeros_like(Z, dtype=bool))
    assert (found.rows, found.distinct()) == (3, 2)
    assert sorted(found.table["s0"]) == [1.0, 2.0]
    assert found.share_shared_by(1, 1) == pytest.approx(1 / 3)


def test_sums_are_those_of_the_twin_to_the_bit() -> None:
    rng = np.random.default_rng(6)
    Z, missing = rng.normal(size=(3, 500)), rng.random((3, 500)) < 0.1
    codes = rng.integers(0, 8, 500)  # the last is no value
    assert sums_by_value(codes, 7, Z, missing).tolist() == naive_sums_by_value(codes.tolist(), 7, Z, missing)


@pytest.mark.parametrize("distinct", [SAMPLE_VALUES - 1, SAMPLE_VALUES, SAMPLE_VALUES + 1, 30_000])
def test_a_limit_that_tightens_leaves_the_sample_as_it_is(distinct: int) -> None:
    """What earlier batches leave out need not be looked at; what is kept at the end is the same, and whole."""
    rng = np.random.default_rng(7)
    values = np.append(rng.permutation(distinct), rng.integers(0, distinct, 90_000 - distinct))
    Z = rng.normal(size=(90_000, 1))
    hashes = hash_rows([pa.array(values)], len(values), seed=0)
    tightened, sketches = ColumnSketch(), []
    for rows in np.array_split(np.arange(len(values)), 30):
        batch = hashes[rows], np.ones(len(rows), dtype=bool), Z[rows], np.zeros((len(rows), 1), dtype=bool)
        tightened.add(*batch)
        sketches.append(sketch_of(*batch))
    found, wanted = tightened.merged(), merge_sketches(sketches)
    assert (found.limit, found.rows) == (wanted.limit, wanted.rows)
    assert (found.limit is None) == (distinct <= SAMPLE_VALUES)
    pd.testing.assert_frame_equal(found.table, wanted.table, rtol=1e-12)


@pytest.mark.parametrize("records", [40, 41, 3000])
def test_a_limit_that_tightens_draws_the_same_records(records: int) -> None:
    words = np.random.default_rng(8).integers(0, 2**64, records, dtype=np.uint64)
    tightened, draws = _Drawn([], 40), []
    for batch in np.array_split(words, 25):
        for rows, limit in (drawn_rows(batch, 40, None), tightened.rows(batch)):
            draw = Draw(pd.DataFrame({WORD: batch[rows]}), limit)
            draws.append(draw)
        tightened.add(draws.pop())
    found, wanted = merge_draws(tightened.batches, 40), merge_draws(draws, 40)
    assert found.limit == wanted.limit
    assert found.table[WORD].tolist() == wanted.table[WORD].tolist() == sorted(words.tolist())[:40]
    assert (found.limit is None) == (records <= 40)
