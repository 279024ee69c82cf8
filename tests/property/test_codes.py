"""Groups of records with categories, against the same records with a number for each category."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import cover, each, examples
from microagg_core.group.algorithms import algorithms
from microagg_core.group.bounds import Bound
from microagg_core.group.metrics.losses import sse_of_labels
from microagg_core.group.points import Points
from microagg_core.group.refine.bounds import best_bound
from microagg_core.group.refine.refinement import refine
from microagg_core.inspect.demand import Demand
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.protect.groups import block_demands, protected_groups

#: Half of them is a square of a whole number or of a half, so that dense columns are exact, and what is tied is tied.
COSTS = (0.5, 2.0, 8.0)


def points(seed: int, n: int, numbers: int, categories: tuple[int, ...], *, tied: bool = True) -> Points:
    """Columns in any order; rare categories, and as costs or as numbers what ties."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 5, n) * 0.5 if tied else rng.random(n) for _ in range(numbers)]
    for count in categories:
        rarer = 1.0 / np.arange(1, count + 1)
        columns.append(rng.choice(count, n, p=rarer / rarer.sum()).astype(np.float64))
    costs = np.append(np.zeros(numbers), rng.choice(COSTS, len(categories)))
    order = rng.permutation(len(columns))
    return Points(np.column_stack(columns)[:, order], costs[order])


SHAPES = [(300, 2, (3, 5)), (500, 0, (3, 5, 70)), (90, 1, (2,)), (3500, 1, (4, 90)), (4000, 3, (2, 3, 5))]
ALGORITHMS = ["mdav", "mdav_generic", "mdav_single", "mdav_plus", "v_mdav", "mdav_star", "mu_approx", "md", "mst"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@each("shape, tied", cover(SHAPES, [True, False]))
def test_groups_are_those_of_a_number_for_each_category(
    algorithm: str, shape: tuple[int, int, tuple[int, ...]], tied: bool
) -> None:
    mixed, info = points(1, *shape, tied=tied), algorithms()[algorithm]
    if len(mixed) > 1000 and algorithm in ("md", "mst"):
        return  # they scan all pairs, as of few records
    labels = info.run(mixed, 3, seed=1)
    assert labels.tolist() == info.run(mixed.dense(), 3, seed=1).tolist()
    assert sse_of_labels(mixed, labels) == pytest.approx(sse_of_labels(mixed.dense(), labels), rel=1e-12)


@given(
    st.integers(0, 10**6),
    st.integers(4, 11),
    st.integers(0, 2),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.booleans(),
    st.integers(2, 3),
)
@examples(60)
def test_bounds_are_never_above_the_optimum(
    seed: int, n: int, numbers: int, categories: list[int], tied: bool, k: int
) -> None:
    mixed = points(seed, n, numbers, tuple(categories), tied=tied)
    if n < k:
        return
    optimum = sse_of_labels(mixed, algorithms()["exhaustive"].run(mixed, k))
    dense = mixed.dense()
    assert optimum == pytest.approx(sse_of_labels(dense, algorithms()["exhaustive"].run(dense, k)), abs=1e-9)
    for effort in ("fast", "thorough"):
        assert best_bound(mixed, k, effort).sse <= optimum * (1 + 1e-12)
    refined = refine(mixed, algorithms()["mdav"].run(mixed, k), k)
    assert sse_of_labels(mixed, refined) >= optimum - 1e-9
    if k == 2:
        labels, certificate = algorithms()["two_mu_approx"].run_certified(mixed, 2, measured=mixed)
        assert certificate is not None and certificate.sse == pytest.approx(sse_of_labels(mixed, labels), abs=1e-9)
        assert certificate.bound / 2 <= optimum * (1 + 1e-12) and certificate.sse <= 2 * optimum + 1e-9
        assert sse_of_labels(mixed, refine(mixed, labels, 2, effort="thorough")) == pytest.approx(optimum, abs=1e-9)


def test_bounds_are_those_of_a_number_for_each_category() -> None:
    mixed = points(3, 600, 2, (3, 90), tied=False)
    mine, dense = (best_bound(of, 3, "fast") for of in (mixed, mixed.dense()))
    assert isinstance(mine, Bound) and mine.sse == pytest.approx(dense.sse, rel=1e-9)


def test_refinement_is_as_good_as_on_a_number_for_each_category() -> None:
    mixed = points(4, 2000, 1, (4, 90), tied=False)
    start = algorithms()["mdav"].run(mixed, 3)
    lost = [sse_of_labels(mixed, refine(of, start, 3, effort="thorough")) for of in (mixed, mixed.dense())]
    assert lost[0] < 1.02 * lost[1] < 0.6 * sse_of_labels(mixed, start)


def test_demands_are_held_by_groups_of_codes() -> None:
    mixed, values = points(6, 400, 1, (3, 40)), np.random.default_rng(6).integers(0, 4, 400)
    whole = Distribution.of(pa.array(values))
    demands = block_demands([Demand("value", 2, 0.4)], [whole.codes(pa.array(values))], [whole])
    plain, refined = protected_groups(mixed, algorithms()["mdav"].run(mixed, 5), 5, demands, "fast", 0)
    for groups in (plain, refined):
        assert all(np.bincount(groups) >= 5) and not demands.broken(groups).any()
    assert sse_of_labels(mixed, refined) < 0.8 * sse_of_labels(mixed, np.zeros(400, dtype=np.int64))


def test_regions_of_codes_alone_make_proper_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    from microagg_core.group import costs

    monkeypatch.setattr(costs, "_RECORDS_OF_REGION", 50)
    monkeypatch.setattr(costs, "_RECORDS_FOR_K", 8)
    for numbers in (0, 2):
        mixed = points(5, 900, numbers, (4, 30, 6))
        start = algorithms()["mdav"].run(mixed, 3)
        refined = refine(mixed, start, 3)
        assert np.bincount(refined).min() >= 3
        assert sse_of_labels(mixed, refined) < sse_of_labels(mixed, start)
