"""Correlations where values are missing: those of pandas, whatever the pairs' records are and however they come."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.group.metrics.statistics import (
    LossStatistics,
    PairMoments,
    correlation_changes,
    loss_statistics,
    pair_moments,
)
from microagg_core.plain import from_json, to_json, to_plain


def with_gaps(n: int, p: int, seed: int = 0, share: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Correlated values whose gaps depend on them, so that the pairs' records differ from the file's."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, p)) + rng.normal(size=(n, 1))
    missing = rng.random((n, p)) < np.clip(share + 0.3 * values, 0.0, 0.9)
    return values, missing


def as_pandas(values: np.ndarray, missing: np.ndarray) -> np.ndarray:
    return pd.DataFrame(np.where(missing, np.nan, values)).corr().to_numpy()


def in_pieces(values: np.ndarray, missing: np.ndarray, cuts: list[int]) -> PairMoments:
    pieces = [piece for piece in np.split(np.arange(len(values)), sorted(cuts)) if len(piece)]
    return PairMoments.sum_of([pair_moments(values[piece], missing[piece]) for piece in pieces])


@pytest.mark.parametrize("p", [1, 5])
def test_correlations_are_those_of_pandas(p: int) -> None:
    values, missing = with_gaps(400, p)
    assert pair_moments(values, missing).correlations() == pytest.approx(as_pandas(values, missing), abs=1e-12)


@given(st.lists(st.integers(0, 60), max_size=8), st.integers(0, 1000))
@examples(60)
def test_the_whole_is_what_its_pieces_make(cuts: list[int], seed: int) -> None:
    values, missing = with_gaps(60, 4, seed, share=0.5)
    found = in_pieces(values, missing, cuts).correlations()
    assert found == pytest.approx(as_pandas(values, missing), abs=1e-12, nan_ok=True)


@given(st.lists(st.integers(0, 60), max_size=8), st.integers(0, 1000))
@examples(60)
def test_adding_all_at_once_is_adding_one_by_one(cuts: list[int], seed: int) -> None:
    values, missing = with_gaps(60, 3, seed, share=0.5)
    values[:, 2] = 0.1
    values = np.where(missing, 0.0, values)
    pieces = [piece for piece in np.split(np.arange(60), sorted(cuts)) if len(piece)]
    parts = [loss_statistics(values[piece], values[piece].round(), missing[piece]) for piece in pieces]
    at_once, one_by_one = LossStatistics.sum_of(parts), reduce(add, parts)
    assert_alike(to_plain(at_once), to_plain(one_by_one))
    assert not at_once.before.squares[2].any(), "what is constant in all parts is constant in the whole"


def assert_alike(some: Any, others: Any) -> None:
    if isinstance(some, dict):
        assert some.keys() == others.keys()
        for name in some:
            assert_alike(some[name], others[name])
    else:
        np.testing.assert_allclose(some, others, rtol=1e-12, atol=1e-12)


def exact_correlation(x: np.ndarray, y: np.ndarray) -> float:
    a, b = [Fraction(v) for v in x.tolist()], [Fraction(v) for v in y.tolist()]
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    covariance = sum((v - mean_a) * (w - mean_b) for v, w in zip(a, b, strict=True))
    squares = sum((v - mean_a) ** 2 for v in a), sum((w - mean_b) ** 2 for w in b)
    return float(covariance) / math.sqrt(float(squares[0])) / math.sqrt(float(squares[1]))


@pytest.mark.parametrize("spread", [1e-6, 1e-12])
def test_common_records_far_from_the_mean_and_near_each_other(spread: float) -> None:
    """Three deviations from the file's mean, nearly equal: sums of squares about 0 would lose every digit."""
    rng = np.random.default_rng(1)
    values = 3.0 + spread * (rng.normal(size=(90, 2)) + rng.normal(size=(90, 1)))
    none = np.zeros((90, 2), dtype=bool)
    expected = exact_correlation(values[:, 0], values[:, 1])
    assert pair_moments(values, none).correlations()[0, 1] == pytest.approx(expected, abs=1e-9)
    # Pieces hand their means on as floats, of which the spacing is 2^-52 here.
    merged = in_pieces(values, none, [1, 7, 60]).correlations()[0, 1]
    assert merged == pytest.approx(expected, abs=1e-9 + 2**-52 / spread)


def test_what_is_constant_in_the_common_records_has_no_correlation() -> None:
    """Where a has 0.1 in all records that have b: no rounding error is taken for a variance, however they are cut."""
    values = np.array([[0.1, 5.0], [0.1, 7.0], [0.1, 6.5], [0.9, 0.0], [0.3, 0.0]])
    missing = np.array([[False, False]] * 3 + [[False, True]] * 2)
    for cuts in ([], [1], [1, 2, 3, 4]):
        found = in_pieces(values, missing, cuts).correlations()
        assert math.isnan(found[0, 1]) and math.isnan(found[1, 0])
        assert found[0, 0] == pytest.approx(1) and found[1, 1] == pytest.approx(1)


def test_fewer_than_two_common_records_have_no_correlation() -> None:
    values, missing = np.eye(3), ~np.eye(3, dtype=bool)
    missing[0] = False
    found = pair_moments(values, missing)
    assert found.n[0, 1] == 1 and found.n[0, 0] == 1 and found.n[1, 1] == 2
    assert np.isnan(found.correlations()[np.triu_indices(3, 1)]).all()


@given(st.lists(st.tuples(*[st.floats(-1e150, 1e150) | st.none()] * 3), min_size=1, max_size=12))
@examples(300)
def test_no_correlation_is_outside_its_range(rows: list[tuple[float | None, ...]]) -> None:
    missing = np.array([[v is None for v in row] for row in rows])
    values = np.array([[v or 0.0 for v in row] for row in rows])
    found = pair_moments(values, missing).correlations()
    assert (np.isnan(found) | (np.abs(found) <= 1)).all()


def test_the_change_is_over_the_pairs_that_have_a_correlation() -> None:
    before, missing = with_gaps(300, 4, 2)
    after = before.round(0)
    missing[:, 3], missing[:4, 3] = True, False
    after[:, 3] = 1.0
    change = np.abs(as_pandas(after, missing) - as_pandas(before, missing))[np.triu_indices(3, 1)]
    assert change.max() > 0.01
    found, places = correlation_changes(loss_statistics(before, after, missing))
    assert found == pytest.approx(change) and places.tolist() == [0, 1, 3], "of six pairs those without the last"
    only = loss_statistics(before[:, [2, 3]], after[:, [2, 3]], missing[:, [2, 3]])
    assert len(correlation_changes(only)[0]) == 0


def test_json_keeps_every_bit() -> None:
    values, missing = with_gaps(50, 3)
    statistics = loss_statistics(values, values.round(0), missing)
    again = from_json(LossStatistics, to_json(statistics))
    assert to_json(again) == to_json(statistics)
