"""Minimum-weight factors and best partitions against brute force, on generic and degenerate records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from covering import each, examples, is_whole
from microagg_core.group.factor import minimum_factor, optimal_two
from microagg_core.group.factor.minimum import in_units, scaled
from microagg_core.kernels.matching.pair_tree import weights_of

Array = NDArray[np.float64]

#: Kinds of records: in general position, tied, duplicated, on a line, in far clusters.
KINDS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "generic": lambda rng, n: rng.standard_normal((n, 3)),
    "grid": lambda rng, n: rng.integers(0, 3, (n, 2)).astype(float),
    "duplicates": lambda rng, n: rng.standard_normal((3, 2))[rng.integers(0, 3, n)],
    "line": lambda rng, n: np.outer(rng.integers(0, 12, n), [1.0, 2.0]),
    "regular": lambda rng, n: np.arange(n, dtype=float)[:, None] * rng.choice([0.1, 1.0, 7.0]),
    "clusters": lambda rng, n: rng.integers(0, 2, (n, 1)) * 100.0 + rng.random((n, 2)),
    "hub": lambda rng, n: np.vstack([np.zeros((1, n - 1)), np.eye(n - 1) * rng.random((n - 1, 1))]),
}


def cheapest(n: int, cost: Callable[[tuple[int, ...]], int]) -> int:
    """The least total cost of a partition into groups of two and three, by trying all."""

    @cache
    def rest(left: int) -> int:
        if left == 0:
            return 0
        members = [v for v in range(n) if left >> v & 1]
        first, others = members[0], members[1:]
        best = 10**30
        for size in (1, 2):
            for mates in combinations(others, size):
                group = (first, *mates)
                best = min(best, cost(group) + rest(left & ~sum(1 << v for v in group)))
        return best

    return rest((1 << n) - 1)


def whole_weights(X: Array) -> list[list[int]]:
    points = scaled(X)
    n = len(X)
    left, right = np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
    table: list[list[int]] = weights_of(points.rows, points.costs, left, right, points.scale).reshape(n, n).tolist()
    return table


def tree_cost(W: list[list[int]], group: tuple[int, ...]) -> int:
    """The weight of the lightest edges that hold a group together: all but the heaviest of a triple's."""
    sides = sorted(W[a][b] for a, b in combinations(group, 2))
    return sum(sides[: len(group) - 1])


def sse_cost(W: list[list[int]], group: tuple[int, ...]) -> int:
    """Six times a group's SSE, in whole weights."""
    return 6 // len(group) * sum(W[a][b] for a, b in combinations(group, 2))


def instances(kind: str, count: int) -> Iterator[Array]:
    rng = np.random.default_rng(sum(map(ord, kind)))
    for _ in range(count):
        yield KINDS[kind](rng, int(rng.integers(2, 10)))


@each("kind", KINDS)
def test_both_engines_reach_the_least_weight_of_all_factors(kind: str) -> None:
    for X in instances(kind, 60 if is_whole() else 20):
        W = whole_weights(X)
        least = cheapest(len(X), lambda group, W=W: tree_cost(W, group))  # type: ignore[misc]
        for few in (0, 99):
            assert minimum_factor(X, few=few).whole_weight == least, (kind, few, X.tolist())


@each("kind", KINDS)
def test_the_best_partition_is_that_of_exhaustive_search(kind: str) -> None:
    for X in instances(kind, 8 if is_whole() else 4):
        W = whole_weights(X)
        least = cheapest(len(X), lambda group, W=W: sse_cost(W, group))  # type: ignore[misc]
        best, factor = optimal_two(X), minimum_factor(X)
        expected = least / 6 * 2.0 ** -scaled(X).exponent
        assert best.sse == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert best.gap < 1e-9 and best.bound <= best.sse
        assert best.sse <= factor.certificate.sse * (1 + 1e-12)
        # SSE <= w(F_min) <= 2 SSE_opt
        assert factor.certificate.sse <= factor.certificate.weight * (1 + 1e-12)
        assert factor.certificate.optimum_at_least <= best.sse * (1 + 1e-12)


def test_a_whole_relaxation_is_the_answer_even_where_rounded_prices_leave_a_gap() -> None:
    """Records far away leave so few units for the near ones that whole prices, rounded down, fall short of the cost."""
    best = optimal_two(np.array([[0.0], [1.0], [3.0], [1e6], [1e6]]), seconds=None)
    assert best.labels.tolist() == [0, 0, 0, 1, 1]
    assert 0 < best.gap < 1e-3
    assert best.sse == pytest.approx(14 / 3, rel=1e-12)


@given(
    n=st.integers(2, 8),
    far=st.integers(0, 4),
    magnitude=st.sampled_from([0, 3, 4, 5, 6, 8, 12, 140]),
    constant=st.sampled_from([0.0, 7.25]),
    seed=st.integers(0, 2**32 - 1),
)
@examples(120)
def test_records_near_and_far_are_grouped_as_by_exhaustive_search(
    n: int, far: int, magnitude: int, constant: float, seed: int
) -> None:
    """With ties, duplicates and columns that do not differ; to the part of the cost that the solver's numbers tell."""
    rng = np.random.default_rng(seed)
    X = np.stack([rng.integers(0, 6, n), rng.integers(0, 2, n), np.full(n, constant)], axis=1)
    X[:far, 0] += 10.0**magnitude
    W = whole_weights(X)
    best = optimal_two(X, seconds=None)
    groups = [np.flatnonzero(best.labels == label).tolist() for label in np.unique(best.labels)]
    least = cheapest(len(X), lambda group: sse_cost(W, group))
    assert set(map(len, groups)) <= {2, 3}
    assert least <= sum(sse_cost(W, tuple(group)) for group in groups) <= least * (1 + 1e-7)
    assert best.bound <= in_units(scaled(X), least) / 6


@each("kind", ["generic", "grid", "duplicates", "clusters"])
def test_engines_agree_on_more_records(kind: str) -> None:
    X = KINDS[kind](np.random.default_rng(30), 30)
    assert minimum_factor(X, few=0).whole_weight == minimum_factor(X, few=99).whole_weight


@each("kind", KINDS)
def test_few_neighbours_and_many_give_the_same_weight(kind: str) -> None:
    X = KINDS[kind](np.random.default_rng(5), 150)
    few, many = (minimum_factor(X, neighbours=count).whole_weight for count in (1, 20))
    assert few == many
