"""No bound lies above the least loss there is, found by trying all partitions of a few records in whole numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from covering import each, examples, is_whole
from inputs.strategies import matrices
from microagg_core import lower_bound, partition
from microagg_core.group.metrics.losses import losses

#: Any group size up to 17 divides it.
_ALL = math.lcm(*range(1, 18))


def least_loss(X: np.ndarray, k: int) -> Fraction:
    """The least exact sum of squared errors of all partitions into groups of at least k.

    Groups of 2k and more need not be tried: in two parts they lose no more.
    """
    exact = [[Fraction(float(x)) for x in row] for row in X]
    unit = math.lcm(*(x.denominator for row in exact for x in row))
    rows = [[int(x * unit) for x in row] for row in exact]
    n = len(rows)
    squares = [sum(x * x for x in row) for row in rows]

    def cost(group: tuple[int, ...]) -> int:
        totals = (sum(rows[i][j] for i in group) for j in range(len(rows[0])))
        return _ALL * sum(squares[i] for i in group) - _ALL // len(group) * sum(t * t for t in totals)

    best: dict[int, int | None] = {0: 0}

    def rest(left: int) -> int | None:
        if left not in best:
            members = [i for i in range(n) if left >> i & 1]
            found: list[int] = []
            for size in range(k, min(2 * k, len(members) + 1)):
                for mates in combinations(members[1:], size - 1):
                    group = (members[0], *mates)
                    more = rest(left & ~sum(1 << i for i in group))
                    if more is not None:
                        found.append(cost(group) + more)
            best[left] = min(found, default=None)
        return best[left]

    least = rest((1 << n) - 1)
    assert least is not None
    return Fraction(least, _ALL * unit * unit)


def cases(seed: int, count: int) -> Iterator[tuple[np.ndarray, int]]:
    """Small cases: in general position, tied, repeated, in clusters, far from 0, and of very different magnitudes."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        k = int(rng.integers(2, 5))
        n, p = int(rng.integers(k, 9 if k < 4 else 10)), int(rng.integers(1, 4))
        yield (
            [
                rng.standard_normal((n, p)),
                rng.integers(0, 4, (n, p)).astype(np.float64),
                rng.standard_normal((3, p))[rng.integers(0, 3, n)],
                rng.integers(0, 2, (n, 1)) * 100 + rng.random((n, p)),
                1e9 + rng.standard_normal((n, p)),
                rng.integers(-3, 4, (n, p)) * 0.1,
                np.exp(9 * rng.standard_normal((n, p))),
                np.arange(n * p, dtype=np.float64).reshape(n, p),
            ][i % 8],
            k,
        )


def naive_neighbour_bound(X: np.ndarray, k: int) -> float:
    distances = np.sort(((X[:, None] - X) ** 2).sum(axis=2), axis=1)
    return float(distances[:, 1:k].sum() / (2 * k))


def test_no_bound_is_above_the_least_loss() -> None:
    for number, (X, k) in enumerate(cases(0, 5000 if is_whole() else 1500)):
        optimum = least_loss(X, k)
        for effort in ("fast", "thorough") if number % 5 == 0 else ("fast",):
            bound = lower_bound(X, k, effort)
            assert 0 <= Fraction(bound.sse) <= optimum, (bound.kind, k, X.tolist())


@each("seed", range(3))
def test_the_neighbour_bound_is_what_it_says(seed: int) -> None:
    """Rounded down, but by no more than rounding."""
    rng = np.random.default_rng(seed)
    for X in (rng.standard_normal((60, 3)), rng.integers(0, 4, (60, 2)) * 1.0, rng.random((60, 9)) * 1e120):
        for k in (2, 3, 7, 30):
            bound, expected = lower_bound(X, k), naive_neighbour_bound(X, k)
            assert bound.kind == "neighbours"
            assert expected * (1 - 1e-12) <= bound.sse <= expected


def test_fewer_than_two_groups_are_bounded_by_the_only_one() -> None:
    X = np.random.default_rng(0).random((9, 3))
    assert lower_bound(X, 1).sse == 0
    bound = lower_bound(X, 5)
    sse = losses(X, np.zeros(9, dtype=np.int64)).sse
    assert bound.kind == "one group" and sse * (1 - 1e-12) <= bound.sse < sse
    assert bound.gap(sse) < 1e-9


def test_what_loses_nothing_has_a_bound_of_nothing() -> None:
    X = np.repeat(np.random.default_rng(0).random((4, 3)), 5, axis=0)
    for effort in ("fast", "thorough"):
        bound = lower_bound(X, 5, effort)
        assert bound.sse == 0 and bound.gap(losses(X, partition(X, 5)).sse) == 0


@given(st.data())
@examples(150)
def test_extreme_records_have_bounds_that_hold(data: st.DataObject) -> None:
    k = data.draw(st.integers(2, 3))
    X = data.draw(matrices(data.draw(st.integers(k, 7)), 2))
    assert 0 <= Fraction(lower_bound(X, k).sse) <= least_loss(X, k)


def test_two_records_a_group_have_a_stronger_proof() -> None:
    X = np.random.default_rng(0).standard_normal((120, 4))
    fast, thorough = lower_bound(X, 2), lower_bound(X, 2, "thorough")
    assert (fast.kind, thorough.kind) == ("neighbours", "factor")
    assert fast.sse < 0.99 * thorough.sse
    assert thorough.facts["pairs"] == 120 * 119 // 2
    assert thorough.sse <= losses(X, partition(X, 2, "two_mu_approx")).sse <= 2 * thorough.sse
