"""The column generation bound: prices proved by exact pricing, checked against all groups of few records."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from test_lower_bounds import cases, least_loss

from microagg_core import lower_bound, partition
from microagg_core.group.metrics.losses import losses
from microagg_core.group.refine import columns
from microagg_core.group.refine.columns import column_bound, proved_by
from microagg_core.group.refine.search import relaxation
from microagg_core.kernels.refinement.pricing import price_all


def squared(X: np.ndarray) -> np.ndarray:
    return ((X[:, None] - X) ** 2).sum(axis=2)


def sums_of_nearest(D: np.ndarray, k: int) -> np.ndarray:
    nearest = np.zeros((len(D), 2 * k))
    others = np.sort(D, axis=1)[:, 1 : 2 * k]
    nearest[:, 1 : 1 + others.shape[1]] = np.cumsum(others, axis=1)
    return nearest


def all_groups(D: np.ndarray, price: np.ndarray, k: int) -> Iterator[tuple[int, float, tuple[int, ...]]]:
    """Every group of k to 2k-1 records: its medoid, and what it costs beyond the prices of its records."""
    n = len(D)
    for m in range(k, 2 * k):
        for group in combinations(range(n), m):
            members = list(group)
            pairs = D[np.ix_(members, members)]
            yield members[int(np.argmin(pairs.sum(axis=1)))], float(pairs.sum() / (2 * m) - price[members].sum()), group


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("tied", [False, True])
def test_pricing_finds_the_cheapest_group_of_every_medoid(k: int, tied: bool) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2 * k, 10))
        X = rng.integers(0, 3, (n, 2)).astype(np.float64) if tied else rng.standard_normal((n, 2))
        D, price = squared(X), rng.normal(0.5, 0.7, n)
        least, sizes, groups = np.zeros(n), np.zeros(n, np.int64), np.zeros((n, 2 * k - 1), np.int64)
        assert price_all(D, price, sums_of_nearest(D, k), k, 10**9, least, groups, sizes) > 0
        cost_of = {frozenset(group): cost for _, cost, group in all_groups(D, price, k)}
        for medoid, cost, _ in all_groups(D, price, k):
            assert least[medoid] <= cost + 1e-12
        for i in range(n):
            if sizes[i]:
                group = frozenset(groups[i, : sizes[i]].tolist())
                assert i in group and cost_of[group] == pytest.approx(least[i], abs=1e-12)
            else:
                assert least[i] == 0


@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_prices_nothing_false_is_proved(seed: int) -> None:
    for X, k in cases(seed + 100, 150):
        n = len(X)
        if k < 3 or n < 2 * k or np.abs(X).max() > 1e6:
            continue
        rng = np.random.default_rng(n)
        optimum = least_loss(X, k)
        scale = float(optimum) / n or 1.0
        D = squared(X) / scale * (1.0 - 2.0**-40)
        for price in (np.zeros(n), rng.random(n) * 2, rng.normal(1, 1, n), rng.random(n) * 100):
            least, sizes, groups = np.zeros(n), np.zeros(n, np.int64), np.zeros((n, 2 * k - 1), np.int64)
            assert price_all(D, price, sums_of_nearest(D, k), k, 10**9, least, groups, sizes) >= 0
            assert Fraction(proved_by(price, least, k)) * Fraction(scale) <= optimum


def relaxed(X: np.ndarray, k: int) -> float:
    """The linear relaxation over all groups of k to 2k-1."""
    D, n = squared(X), len(X)
    found = [(group, cost) for _, cost, group in all_groups(D, np.zeros(n), k)]
    solved = relaxation([group for group, _ in found], np.array([cost for _, cost in found]), n)
    assert solved is not None
    return solved[0]


@pytest.mark.parametrize("seed", range(4))
def test_column_bounds_hold_and_prove_all_that_prices_can(seed: int) -> None:
    compared = 0
    for X, k in cases(seed + 200, 120):
        bound = column_bound(X, k)
        if bound is None:
            continue
        assert 0 <= Fraction(bound.sse) <= least_loss(X, k), (k, X.tolist())
        if 1e-3 < np.ptp(X) < 1e4 and np.abs(X).max() < 1e4:
            compared += 1
            assert bound.sse >= relaxed(X, k) * (1 - 1e-3)
    assert compared > 15


def test_more_is_proved_than_by_neighbours() -> None:
    X = np.random.default_rng(0).standard_normal((90, 3))
    loss = losses(X, partition(X, 3, "search", steps=1500)).sse
    fast, thorough = lower_bound(X, 3), lower_bound(X, 3, "thorough")
    assert (fast.kind, thorough.kind) == ("neighbours", "columns")
    assert fast.gap(loss) > 20 and 0 <= thorough.gap(loss) < 6
    assert thorough.facts["rounds"] > 1
    assert lower_bound(X, 3, "thorough") == thorough, "the same on every run"


def test_a_search_that_is_given_up_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_normal((40, 3))
    D = squared(X)
    found = (np.zeros(40), np.zeros((40, 5), np.int64), np.zeros(40, np.int64))
    assert price_all(D, np.ones(40), sums_of_nearest(D, 3), 3, 10, *found) == -1
    monkeypatch.setattr(columns, "_NODES", 10)
    assert column_bound(X, 3) is None
    assert lower_bound(X, 3, "thorough").kind == "neighbours"


@pytest.mark.parametrize(("n", "k"), [(30, 2), (30, 6), (1501, 3), (5, 3)])
def test_what_is_out_of_reach_is_left_to_the_neighbours(n: int, k: int) -> None:
    assert column_bound(np.random.default_rng(0).random((n, 2)), k) is None
