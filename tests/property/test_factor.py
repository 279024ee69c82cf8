"""The parts of a factor's proof: prices over absent pairs, what a bound refuses, coverage, cutting, scaling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from covering import each
from microagg_core.errors import InternalError
from microagg_core.group.bounds import combined
from microagg_core.group.factor import Certificate, minimum_factor, optimal_two
from microagg_core.group.factor.minimum import (
    Duals,
    Graph,
    Scaled,
    complete_graph,
    cut,
    in_units,
    labels_of,
    neighbour_graph,
    pairs_by_blossoms,
    pairs_by_networkx,
    prices_of,
    scaled,
    whole_bound,
)
from microagg_core.group.factor.optimal import (
    RelaxationTask,
    broken_sets,
    costs,
    distinct,
    groups_of,
    not_excluded,
    relax,
    relaxed_bound,
)
from microagg_core.kernels.matching.pair_tree import cheap_groups, light_pairs, new_pair_tree

Array = NDArray[np.float64]


def uniform(n: int, p: int = 3, seed: int = 1) -> Array:
    return np.random.default_rng(seed).random((n, p))


def solved(graph: Graph) -> tuple[NDArray[np.int64], Duals]:
    found = pairs_by_blossoms(graph)
    assert found is not None
    return found


def light(points: Scaled, duals: Duals) -> set[tuple[int, int]]:
    left, right = light_pairs(new_pair_tree(points.rows, points.costs), prices_of(duals, points.scale), 100_000)
    return {(min(u, v), max(u, v)) for u, v in zip(left.tolist(), right.tolist(), strict=True)}


def light_by_hand(points: Scaled, duals: Duals) -> set[tuple[int, int]]:
    """The pairs whose price is too high, from the statement itself: over all edges of all pairs."""
    n, y = points.n, duals.y.tolist()
    around: list[set[int]] = []
    for copy in range(2 * n):
        node, sets = int(duals.parent[copy]), set()
        while node >= 0:
            sets.add(node)
            node = int(duals.parent[node])
        around.append(sets)
    graph = complete_graph(points)
    found = set()
    for u, v, w in zip(graph.left.tolist(), graph.right.tolist(), graph.weight.tolist(), strict=True):
        for a, b in ((u, v), (u, n + v), (n + u, v)):
            if y[a] + y[b] - sum(int(duals.z[s]) for s in around[a] & around[b]) > 2 * w:
                found.add((u, v))
    return found


@each("seed", range(4))
def test_pricing_finds_exactly_the_pairs_that_the_statement_names(seed: int) -> None:
    points = scaled(uniform(150, 2 + seed, seed + 1))
    _, duals = solved(neighbour_graph(points, new_pair_tree(points.rows, points.costs), 2))
    assert np.any(duals.z > 0)
    by_hand = light_by_hand(points, duals)
    assert by_hand and light(points, duals) == by_hand


@each("seed", range(4))
def test_a_pair_of_the_factor_that_is_withheld_is_found(seed: int) -> None:
    """Without one of its pairs the weight grows (the optimum being unique), so pricing must name a pair that helps."""
    points = scaled(uniform(40, 3, seed))
    graph = complete_graph(points)
    chosen, duals = solved(graph)
    assert light(points, duals) == set()
    weight = int(graph.weight[chosen].sum())
    for withheld in chosen[:5].tolist():
        keep = np.arange(len(graph.left)) != withheld
        poorer = Graph(graph.n, graph.left[keep], graph.right[keep], graph.weight[keep])
        other, its_duals = solved(poorer)
        assert int(poorer.weight[other].sum()) > weight
        assert light(points, its_duals) == {(int(graph.left[withheld]), int(graph.right[withheld]))}


def test_pricing_stops_at_its_room() -> None:
    points = scaled(uniform(200, 2))
    _, duals = solved(neighbour_graph(points, new_pair_tree(points.rows, points.costs), 2))
    left, _ = light_pairs(new_pair_tree(points.rows, points.costs), prices_of(duals, points.scale), 1)
    assert len(left) == 1


def test_a_graph_without_a_factor_is_known_as_such_and_widened() -> None:
    """Twenty records around a hub that is the nearest of each: the hub can serve two of them."""
    X = np.vstack([np.zeros((1, 20)), np.eye(20)])
    points = scaled(X)
    star = points.graph(np.zeros(20, np.int64), np.arange(1, 21))
    assert pairs_by_blossoms(star) is None and pairs_by_networkx(star) is None
    alone = points.graph(np.array([0]), np.array([1]))
    assert pairs_by_blossoms(alone) is None
    found = minimum_factor(X, few=0, neighbours=1)
    assert np.bincount(found.labels).min() >= 2
    assert found.rounds > 1
    # the hub with two records, the eighteen others in pairs that weigh 2 each
    assert found.certificate.weight == pytest.approx(20.0)


def test_a_bound_refuses_duals_that_prove_nothing() -> None:
    _, duals = solved(complete_graph(scaled(uniform(60, 2))))
    n = 60
    used = int(np.flatnonzero(duals.z)[0])
    wrong_sign = duals.y.copy()
    wrong_sign[n + 3] = 1
    negative, on_copy = duals.z.copy(), duals.z.copy()
    negative[used], on_copy[0] = -2, 2
    fewer = duals.parent.copy()
    fewer[int(np.flatnonzero(duals.parent == used)[0])] = -1
    broken = (
        replace(duals, y=wrong_sign),
        replace(duals, z=negative),
        replace(duals, z=on_copy),
        replace(duals, parent=fewer),
    )
    for wrong in broken:
        with pytest.raises(InternalError, match="the proof of a minimum-weight factor does not hold"):
            whole_bound(wrong)
    with pytest.raises(InternalError, match="too large"):
        prices_of(replace(duals, y=duals.y * 0 + 2**61), 1.0)
    circle = duals.parent.copy()
    circle[used] = used
    with pytest.raises(InternalError, match="nested"):
        prices_of(replace(duals, parent=circle), 1.0)


@each("n", [2, 3, 4, 7, 40, 301])
def test_duplicates_only(n: int) -> None:
    found = minimum_factor(np.full((n, 2), 7.5), few=0)
    assert set(np.bincount(found.labels).tolist()) <= {2, 3}
    assert found.certificate == Certificate(0.0, 0.0, 0.0)
    assert found.certificate.ratio == 1.0


def test_long_components_are_cut_at_their_zero_edges() -> None:
    edges = np.arange(6)
    path = Graph(7, edges, edges + 1, np.array([4, 0, 0, 0, 0, 4]))
    assert cut(path, edges).tolist() == [0, 2, 4, 5]
    assert labels_of(path, cut(path, edges)).tolist() == [0, 0, 1, 1, 2, 2, 2]
    with pytest.raises(InternalError, match="outside its sizes, 2 to 3"):
        labels_of(path, edges)


def test_the_same_input_gives_the_same_groups() -> None:
    X = np.round(uniform(300, 2), 1)
    first, second = minimum_factor(X), minimum_factor(np.asfortranarray(X))
    assert np.array_equal(first.labels, second.labels) and first.whole_weight == second.whole_weight


@each("factor", [2.0**-900, 2.0**-30, 2.0**480])
def test_a_scale_of_a_power_of_two_changes_nothing(factor: float) -> None:
    X = uniform(60)
    plain, larger = minimum_factor(X), minimum_factor(X * factor)
    assert np.array_equal(plain.labels, larger.labels)
    assert plain.whole_weight == larger.whole_weight
    if factor > 2.0**-500:
        assert larger.certificate.sse == plain.certificate.sse * factor * factor


def test_a_large_mean_does_not_drown_small_differences() -> None:
    X = np.arange(12.0)[:, None] ** 2 * 2.0**-20 + 2.0**20
    found = minimum_factor(X)
    assert found.whole_weight > 0
    assert np.array_equal(found.labels, minimum_factor(np.arange(12.0)[:, None] ** 2).labels)


def test_a_bound_in_units_is_never_above_what_was_proved() -> None:
    points = scaled(uniform(30))
    whole = minimum_factor(uniform(30), few=0).whole_weight
    value = in_units(points, whole)
    assert value < whole * 2.0**-points.exponent
    assert value == pytest.approx(whole * 2.0**-points.exponent, rel=1e-14)
    assert in_units(points, 0) == 0.0


def test_certificates_of_blocks_add_up() -> None:
    parts = [minimum_factor(uniform(50, seed=seed)).certificate for seed in range(3)]
    whole = combined(parts)
    assert whole.sse == pytest.approx(sum(part.sse for part in parts))
    assert whole.bound <= sum(part.bound for part in parts)
    assert 1 < whole.ratio <= 2 and whole.document()["ratio"] == whole.ratio
    assert Certificate(1.0, 0.0, 0.0).document()["ratio"] is None
    assert combined([]).ratio == 1.0


@each("X", [np.zeros((1, 2)), np.zeros((4, 0)), np.zeros(4), np.array([[0.0], [np.nan]]), np.array([[0.0], [np.inf]])])
def test_what_is_no_table_of_finite_numbers_is_refused(X: Array) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        minimum_factor(X)
    with pytest.raises(ValueError, match="finite numbers"):
        optimal_two(X)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ValueError, match="seconds must be above 0"):
        optimal_two(uniform(5), seconds=0)


def all_groups(n: int) -> NDArray[np.int64]:
    a, b, c = (axis.ravel() for axis in np.meshgrid(np.arange(n), np.arange(n), np.arange(-1, n), indexing="ij"))
    keep = (a < b) & ((b < c) | (c == -1))
    return distinct(np.stack([a, b, c], axis=1)[keep], n)


@each("slack", [0, 2**46])
def test_cheap_groups_are_exactly_those_below_their_prices(slack: int) -> None:
    points = scaled(uniform(40, 2))
    price = np.random.default_rng(3).integers(-(2**44), 2**48, 40)
    groups = all_groups(40)
    gain = np.where(groups >= 0, price[groups], 0).sum(axis=1) - costs(points, groups)
    cheap = gain + slack > 0
    expected = {(*row, by) for row, by in zip(groups[cheap].tolist(), gain[cheap].tolist(), strict=True)}
    found, excess, are_all = cheap_groups(new_pair_tree(points.rows, points.costs), price, points.scale, slack, 100_000)
    rows = np.sort(np.where(found < 0, 40, found), axis=1)
    rows = np.where(rows == 40, -1, rows)
    assert are_all and len(expected) > 10
    assert {(*row, by) for row, by in zip(rows.tolist(), excess.tolist(), strict=True)} == expected
    assert not cheap_groups(new_pair_tree(points.rows, points.costs), price, points.scale, slack, 5)[2]


def test_a_bound_holds_even_where_groups_were_withheld_from_the_relaxation() -> None:
    """Prices of a relaxation that lacks groups are too high; the bound lowers them, and stays below the optimum."""
    X = uniform(60, 2)
    points, factor = scaled(X), minimum_factor(X)
    task = RelaxationTask(points, new_pair_tree(points.rows, points.costs), factor.whole_weight / 60)
    poor = relax(task, groups_of(factor.labels), (), 60.0)
    assert poor is not None and len(not_excluded(task, poor, poor.price, 0)[0]) > 0
    best = optimal_two(X)
    assert best.gap == 0.0
    assert in_units(points, max(0, relaxed_bound(task, poor))) / 6 <= best.bound * (1 + 1e-12)


def test_three_half_pairs_break_the_inequality_of_their_triangle() -> None:
    groups = np.array([[0, 1, -1], [1, 2, -1], [0, 2, -1], [3, 4, -1]])
    assert broken_sets(groups, np.array([0.5, 0.5, 0.5, 1.0]), 5) == [(0, 1, 2)]
    assert broken_sets(groups, np.array([0.0, 1.0, 0.0, 1.0]), 5) == []


def test_without_time_the_factor_is_the_answer_with_its_own_gap() -> None:
    X = uniform(400)
    best, factor = optimal_two(X, seconds=1e-9), minimum_factor(X)
    assert np.array_equal(best.labels, factor.labels)
    assert best.bound == pytest.approx(factor.certificate.optimum_at_least, rel=1e-12)
    assert 0 < best.gap < 0.5
