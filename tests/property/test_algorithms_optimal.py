"""What the optimal methods promise: nothing is better, for one attribute and for few records."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twins
from covering import each, examples
from inputs.strategies import matrices
from microagg_core import algorithms, partition
from microagg_core.group.metrics.losses import losses, standardize
from twins import naive

COMPANIES = Path(__file__).parents[2] / "deploy" / "examples" / "sme" / "companies.csv"


def partitions(free: tuple[int, ...], k: int) -> Iterator[list[list[int]]]:
    """Every partition into groups of at least k, however large."""
    if not free:
        yield []
    for size in range(k, len(free) + 1):
        for more in combinations(free[1:], size - 1):
            rest = tuple(i for i in free[1:] if i not in more)
            if not rest or len(rest) >= k:
                yield from ([[free[0], *more], *groups] for groups in partitions(rest, k))


def exact_sse(X: np.ndarray, labels: np.ndarray) -> Fraction:
    groups = [np.flatnonzero(labels == label).tolist() for label in range(labels.max() + 1)]
    return naive.sum_of_squares(X.tolist(), groups)


def is_as_good(one: Fraction, other: Fraction, largest: float = 0.0) -> bool:
    """Equal but for rounding, and for what differs by less than 2**-970 of the largest value."""
    return abs(one - other) <= max(one, other) * Fraction(1, 10**14) + Fraction(largest) ** 2 / 2**1940


@each("n, k, tied", [(5, 2, True), (8, 2, True), (8, 2, False), (8, 3, True), (9, 3, False), (10, 4, False)])
def test_no_groups_of_any_size_are_better(n: int, k: int, tied: bool) -> None:
    rng = np.random.default_rng(n)
    X = rng.integers(0, 4, (n, 2)).astype(np.float64) if tied else rng.standard_normal((n, 2))
    least = min(naive.sum_of_squares(X.tolist(), groups) for groups in partitions(tuple(range(n)), k))
    assert is_as_good(exact_sse(X, partition(X, k, "exhaustive")), least)


@given(st.data())
@examples(150)
def test_univariate_is_as_good_as_exhaustive(data: st.DataObject) -> None:
    k = data.draw(st.integers(2, 5))
    x = data.draw(matrices(data.draw(st.integers(k, 12)), 1))
    shortest, exhaustive = (exact_sse(x, partition(x, k, name)) for name in ("univariate", "exhaustive"))
    assert is_as_good(shortest, exhaustive, np.abs(x).max())


def test_univariate_is_not_blurred_by_what_lies_far_away() -> None:
    """Between heaps that are 1e300 away, the best groups are those that they would be alone."""
    middle = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 7.0])
    alone = partition(middle[:, None], 2, "univariate")
    assert alone.tolist() == [0, 0, 1, 1, 2, 2]
    among = partition(np.concatenate([[-1e100] * 2, middle, [1e100] * 2])[:, None], 2, "univariate")
    assert among.tolist() == [0, 0, *(alone + 1).tolist(), 4, 4]


def test_univariate_takes_groups_of_varying_size() -> None:
    x = np.array([1, 1, 1, 1, 1, 50, 50, 90, 90, 90.0])[:, None]
    assert partition(x, 2, "univariate").tolist() == [0, 0, 1, 1, 1, 2, 2, 3, 3, 3]
    # 1, 50 and 50 cost 2 x 49^2 / 3; the five others, 50, 50, 90, 90 and 90, would cost 6 x 40^2 / 5
    assert partition(x, 3, "univariate").tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_no_algorithm_is_better_than_the_optimum() -> None:
    info = algorithms()["exhaustive"]
    X = np.random.default_rng(0).random((15, 2))
    best = losses(X, info.run(X, 3)).sse
    for name, other in algorithms().items():
        if other.refuses(3, 2) is None:
            assert best <= losses(X, other.run(X, 3)).sse * (1 + 1e-12), name
    assert info.refuses_records(20) is None and info.refuses_records(21) is not None


@each("seed", range(30))
def test_of_mirrored_records_the_first_cut_comes_first(seed: int) -> None:
    """Two ways of cutting them lose exactly as much, and not to the last bit of sums in floats."""
    random = np.random.default_rng(seed)
    k = int(random.integers(2, 5))
    half = np.sort(random.random(int(random.integers(k, 3 * k))))
    x = np.concatenate([-half[::-1], [0.0], half])[:, None]
    assert partition(x, k, "univariate").tolist() == twins.labels("univariate", x, k)


def test_the_optimum_printed_for_eleven_companies() -> None:
    """Example 2 of the mu-Approx paper, which prints 7.484 (cut off: it is 7.48479) and these groups."""
    X = standardize(np.loadtxt(COMPANIES, delimiter=",", skiprows=1, usecols=(2, 3)))
    labels = partition(X, 3, "exhaustive")
    groups = {tuple((np.flatnonzero(labels == label) + 1).tolist()) for label in range(3)}
    assert groups == {(1, 2, 3, 10), (4, 5, 9), (6, 7, 8, 11)}
    found = losses(X, labels)
    assert int(found.sse * 1000) == 7484 and found.sst == pytest.approx(22)
