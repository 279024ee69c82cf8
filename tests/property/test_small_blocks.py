"""Small blocks made together, beside each of them made alone."""

from __future__ import annotations

import numpy as np
import pytest

from covering import cover, each
from microagg_core.errors import DataError
from microagg_core.group.algorithms import algorithms
from microagg_core.group.bounds import NOTHING
from microagg_core.group.points import Points
from microagg_core.group.refine.bounds import refine_with_bound
from microagg_core.group.refine.small_blocks import are_small, group_small_blocks

VALUES = {
    "scattered": lambda draw, n, p: draw.normal(size=(n, p)),
    "tied": lambda draw, n, p: np.round(draw.normal(size=(n, p))),
    "long tails": lambda draw, n, p: np.exp(3 * draw.normal(size=(n, p))),
    "all alike": lambda draw, n, p: np.ones((n, p)),
    "tiny": lambda draw, n, p: draw.normal(size=(n, p)) * 1e-200,
}


def points_of(draw: np.random.Generator, kind: str, n: int, p: int, codes: int) -> tuple[Points, Points]:
    """Records on two scales, of whose columns some are codes, not all of them behind the numbers."""
    X, costs = VALUES[kind](draw, n, p), np.zeros(p)
    measured = X * 1.01
    for j in draw.permutation(p)[:codes]:
        X[:, j] = measured[:, j] = draw.integers(0, 4, n)
        costs[j] = draw.random() + 0.3
    return Points(X, costs), Points(measured, costs * 1.1)


@each("k, effort, kind, p, codes", cover([3, 5, 12], ["off", "fast"], list(VALUES), [1, 4, 7], [0, 1, 3]))
def test_each_is_made_as_if_it_were_alone(k: int, effort: str, kind: str, p: int, codes: int) -> None:
    draw = np.random.default_rng(k * p + codes)
    sizes = draw.integers(k, 12 * k, 25)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    Z, measured = points_of(draw, kind, starts[-1], p, min(codes, p))
    seeds = draw.integers(0, 2**62, len(sizes)).astype(np.uint64)
    assert are_small(sizes, measured, k, effort, proving=True).all()
    made = group_small_blocks(Z, measured, starts, k, effort, seeds)
    for of, start, stop, seed in zip(made, starts[:-1], starts[1:], seeds.tolist(), strict=True):
        rows = slice(start, stop)
        labels = algorithms()["mdav"].run(Z.rows(rows), k)
        refined, bound = refine_with_bound(measured.rows(rows), labels, k, effort, seed, NOTHING)
        assert np.array_equal(of.labels, labels)
        assert np.array_equal(of.refined, refined)
        assert (of.refined is of.labels) == (refined is labels)
        assert of.lower_bound == pytest.approx(bound.sse, rel=1e-12)


def test_what_takes_a_longer_way_is_not_made_together() -> None:
    sizes, numbers = np.array([50, 399, 400]), Points.of(np.ones((10, 2)))
    assert are_small(sizes, numbers, 5, "fast", proving=True).tolist() == [True, True, False]
    assert not are_small(sizes, numbers, 5, "thorough", proving=True).any()
    assert not are_small(sizes, numbers, 2, "off", proving=True).any()
    assert are_small(sizes, numbers, 2, "off", proving=False).any()
    many_codes = Points(np.array([[0.0], [256.0]]), np.ones(1))
    assert not are_small(sizes, many_codes, 5, "fast", proving=True).any()


def test_nothing_is_proved_where_nothing_is_asked_for() -> None:
    points = Points.of(np.random.default_rng(0).random((50, 3)))
    seeds, starts = np.ones(2, dtype=np.uint64), np.array([0, 8, 50])
    for effort in ("off", "fast"):
        proved = group_small_blocks(points, points, starts, 5, effort, seeds)
        unproved = group_small_blocks(points, points, starts, 5, effort, seeds, proving=False)
        assert all(np.array_equal(a.refined, b.refined) for a, b in zip(proved, unproved, strict=True))
        assert all(np.isnan(block.lower_bound) for block in unproved)


def test_groups_that_lose_more_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def shuffle(*arguments: object) -> None:
        np.random.default_rng(0).shuffle(arguments[3])

    monkeypatch.setattr("microagg_core.group.refine.small_blocks.anneal_blocks", shuffle)
    points = Points.of(np.random.default_rng(0).random((50, 3)))
    (block,) = group_small_blocks(points, points, np.array([0, 50]), 5, "fast", np.ones(1, dtype=np.uint64))
    assert block.refined is block.labels


def test_missing_and_infinite_values_are_refused() -> None:
    broken = Points.of(np.array([[1.0], [np.nan], [3.0]]))
    with pytest.raises(DataError, match="missing or infinite"):
        group_small_blocks(broken, broken, np.array([0, 3]), 3, "off", np.ones(1, dtype=np.uint64))
