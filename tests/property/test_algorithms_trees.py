"""The tree and its searches against sorting, and the kernels that stand on it against plain scans."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from covering import cover, each, is_whole
from microagg_core import partition
from microagg_core.group.labels import checked_labels, private_copy
from microagg_core.kernels.scan.mdav import peel
from microagg_core.kernels.scan.variable_groups import closest, groups_of, mdav_star, v_mdav
from microagg_core.kernels.tree import mdav, searches
from microagg_core.kernels.tree.closed_groups import (
    ClosedGroups,
    add_member,
    cheapest_to_join,
    farthest_from_centroid,
    hold,
    new_closed_groups,
    new_group,
    new_order,
)
from microagg_core.kernels.tree.mdav import peel_tree
from microagg_core.kernels.tree.searches import (
    Search,
    farthest_from_record,
    farthest_from_total,
    find_nearest,
    new_search,
)
from microagg_core.kernels.tree.shrinking_tree import LEAF, Tree, new_tree, rebuild_if_sparse, remaining, remove
from microagg_core.kernels.tree.variable_groups import mdav_star_tree, v_mdav_tree
from microagg_core.kernels.values import Total, Values, total_of_values

Data = Callable[[np.random.Generator, int, int], np.ndarray]
Kernel = Callable[[Values, int], np.ndarray]


def _correlated(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    return rng.standard_normal((n, 2)) @ rng.standard_normal((2, p)) + 0.1 * rng.standard_normal((n, p))


def _clustered(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    return 10 * rng.standard_normal((5, p))[rng.integers(0, 5, n)] + 0.1 * rng.standard_normal((n, p))


def _on_a_sphere(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    X = rng.standard_normal((n, p))
    return X / np.sqrt((X**2).sum(axis=1, keepdims=True))


DATA: dict[str, Data] = {
    "random": lambda rng, n, p: rng.standard_normal((n, p)),
    "lattice": lambda rng, n, p: rng.integers(0, 3, (n, p)).astype(np.float64),
    "tenths": lambda rng, n, p: rng.integers(-9, 10, (n, p)) * 0.1,
    "repeated": lambda rng, n, p: rng.standard_normal((max(2, n // 9), p))[rng.integers(0, max(2, n // 9), n)],
    "equal": lambda rng, n, p: np.full((n, p), rng.random()),
    "correlated": _correlated,
    "clustered": _clustered,
    "sphere": _on_a_sphere,
    "heavy tails": lambda rng, n, p: np.exp(6 * rng.standard_normal((n, p))),
    "far off": lambda rng, n, p: rng.random((n, p)) + 1e12,
}


def _peeling(times: int) -> tuple[Kernel, Kernel]:
    return lambda X, k: peel_tree(X, k, times * k), lambda X, k: peel(X, k, times * k)


def _growing(gamma: float) -> tuple[Kernel, Kernel]:
    return lambda X, k: v_mdav_tree(X, k, gamma), lambda X, k: v_mdav(X, k, gamma)


#: Each kernel on the tree, with its plain counterpart, which other tests compare with its twin.
KERNELS: dict[str, tuple[Kernel, Kernel]] = {
    "mdav": _peeling(2),
    "mdav_generic": _peeling(3),
    "mdav_single": _peeling(10**6),
    "mdav_plus": _growing(0.0),
    "v_mdav 0.2": _growing(0.2),
    "v_mdav 1.1": _growing(1.1),
    "mdav_star": (mdav_star_tree, mdav_star),
}


def _numbers(X: np.ndarray) -> Values:
    return Values(X, np.zeros(0))


def _as_wide(total: Total, categories: list[int]) -> dict[str, np.ndarray]:
    """Room for the counts of all codes, also of those that are gone."""
    parts = [total.counts[a:b] for a, b in zip(total.starts, total.starts[1:], strict=False)]
    counts = np.concatenate([np.pad(part, (0, n - len(part))) for part, n in zip(parts, categories, strict=True)])
    return {"counts": counts, "starts": np.cumsum([0, *categories])}


def _numbered(labels: np.ndarray) -> list[int]:
    return checked_labels(labels, (1, None), "test").tolist()


def _assert_alike(kernel: str, X: np.ndarray, k: int) -> None:
    fast, plain = KERNELS[kernel]
    assert _numbered(fast(private_copy(X), k)) == _numbered(plain(private_copy(X), k))


@pytest.mark.parametrize("kernel", KERNELS)
@each("data, seed", list(product(DATA, range(6))))
def test_a_kernel_on_the_tree_equals_scans_of_few_records(kernel: str, data: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(4, 90)), int(rng.integers(1, 21))
    _assert_alike(kernel, DATA[data](rng, n, p), int(rng.integers(2, min(n, 9) + 1)))


@pytest.mark.parametrize("kernel", KERNELS)
@each("data, size", cover(DATA, [(4000, 2, 5), (3000, 20, 3), (2500, 7, 60), (1500, 1, 2)]))
def test_a_kernel_on_the_tree_equals_scans_of_many_records(kernel: str, data: str, size: tuple[int, int, int]) -> None:
    """Enough records for many leaves, for trees that are built anew, and for the change to scans and back."""
    n, p, k = size
    _assert_alike(kernel, DATA[data](np.random.default_rng(n), n, p), k)


@pytest.mark.parametrize("algorithm", ["mdav", "mdav_generic", "mdav_single", "mdav_plus", "v_mdav", "mdav_star"])
def test_the_choice_between_tree_and_scans_changes_nothing(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(4).integers(0, 30, (2000, 3)).astype(np.float64)
    found = []
    for pays in (True, False):
        for module in (searches, mdav):
            monkeypatch.setattr(module, "tree_pays", lambda *sizes, pays=pays, **memory: pays)
        found.append(partition(X, 4, algorithm).tolist())
    assert found[0] == found[1]


def _thinned(data: str, seed: int) -> tuple[Tree, Search, Values, np.ndarray]:
    """A tree out of which records were taken, a search, the records, numbers and codes, and which remain."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(1, 400)), int(rng.integers(1, 21))
    X = np.ascontiguousarray(DATA[data](rng, n, p).T)
    costs = rng.integers(1, 9, int(rng.integers(0, 4))).astype(np.float64)
    codes = [rng.integers(0, rng.choice([2, 5, 90, 5000]), n) for _ in costs]
    X = np.vstack([X, *codes])
    tree, left = new_tree(Values(X, costs)), np.arange(n)
    for _ in range(int(rng.integers(0, 30))):
        gone = rng.permutation(left)[: int(rng.integers(0, 20))]
        if len(gone) < len(left):
            remove(tree, gone)
            left = np.setdiff1d(left, gone)
            rebuild_if_sparse(tree)
    return tree, new_search(tree, n), Values(X, costs), left


def _distances(X: np.ndarray, costs: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Squared distances, added up attribute by attribute."""
    total, numbers = np.zeros(X.shape[1]), len(X) - len(costs)
    for j in range(numbers):
        total += (X[j] - point[j]) ** 2
    for row, code, cost in zip(X[numbers:], point[numbers:], costs, strict=True):
        total += np.where(row != code, cost, 0.0)
    return total


def _from_total(X: np.ndarray, costs: np.ndarray, of_numbers: np.ndarray) -> np.ndarray:
    """Squared distances of so many times each record as there are from the total of all."""
    numbers, m = len(X) - len(costs), float(X.shape[1])
    total = _distances(m * X[:numbers], np.zeros(0), of_numbers)
    for row, cost in zip(X[numbers:].astype(np.int64), costs, strict=True):
        counts = np.bincount(row).astype(np.float64)
        total += 0.5 * cost * (m * m - 2.0 * m * counts[row] + (counts**2).sum())
    return total


def _codes_below(tree: Tree, node: int) -> set[tuple[int, int]]:
    """Words and bits that are set."""
    return {(word, bit) for word, held in enumerate(tree.held[node].tolist()) for bit in range(64) if held >> bit & 1}


def _places(tree: Tree, codes: np.ndarray) -> set[tuple[int, int]]:
    """Words and bits of codes, up to 64 words a row of them."""
    return {
        (int(tree.words[c]) + code // 64 % int(tree.words[c + 1] - tree.words[c]), code % 64)
        for c, row in enumerate(codes)
        for code in map(int, row)
    }


@each("data, seed", list(product(DATA, range(10 if is_whole() else 3))))
def test_searches_in_a_thinned_tree_find_what_sorting_finds(data: str, seed: int) -> None:
    """From records that remain, from records that are gone, and from points far outside; by tree and by scan."""
    tree, search, (X, costs), left = _thinned(data, seed)
    numbers = len(X) - len(costs)
    assert sorted(remaining(tree)) == left.tolist()
    assert (tree.ids[tree.slots[left]] == left).all()
    assert (tree.boxes[1, 0] == X[:numbers, left].min(axis=1)).all()
    assert (tree.boxes[1, 1] == X[:numbers, left].max(axis=1)).all()
    assert _codes_below(tree, 1) == _places(tree, X[numbers:, left])
    assert tree.lowest[1] == left.min()
    rng, total = np.random.default_rng(seed), total_of_values(Values(np.ascontiguousarray(X[:, left]), costs))
    far_away = np.append(np.full(numbers, 1e6), X[numbers:, 0])
    points = [*X.T[rng.integers(0, X.shape[1], 4)], far_away]
    for scans, point in product([0, 99], points):
        d = _distances(X[:, left], costs, point)
        for most in {1, min(5, len(left)), len(left)}:
            search.scans[:], search.point[:] = scans, point
            leaf = int(rng.integers(0, tree.size[0]))
            assert find_nearest(tree, search, leaf, most) == most
            assert search.found[:most].tolist() == left[np.lexsort((left, d))[:most]].tolist()
            assert search.near[:most].tolist() == np.sort(d)[:most].tolist()
        search.scans[:] = scans
        assert farthest_from_record(tree, search, total) == left[np.argmax(d)]
        search.scans[:] = scans
        assert (
            farthest_from_total(tree, search, total) == left[np.argmax(_from_total(X[:, left], costs, total.sums[0]))]
        )


@each("data, batch", cover(DATA, [1, 40]))
def test_the_order_by_an_old_centroid_finds_the_farthest(data: str, batch: int) -> None:
    """Records leave at random, few or many at a time, so that the centroid moves little or far."""
    rng = np.random.default_rng(batch)
    X = np.vstack([DATA[data](rng, 3000, 3).T, rng.integers(0, 3, 3000), rng.integers(0, 200, 3000)])
    costs = np.array([1.0, 3.0])
    tree, left = new_tree(Values(X, costs)), np.arange(3000)
    search = new_search(tree, 1)
    total = total_of_values(Values(X, costs))
    order = new_order(tree, total)
    for _ in range(60):
        total = total_of_values(Values(np.ascontiguousarray(X[:, left]), costs))
        total = total._replace(**_as_wide(total, [3, 200]))
        farthest = farthest_from_centroid(tree, search, order, total)
        assert farthest == left[np.argmax(_from_total(X[:, left], costs, total.sums[0]))]
        gone = np.union1d(rng.choice(left, batch - 1, replace=False), [farthest])
        remove(tree, gone)
        left = np.setdiff1d(left, gone)


def test_an_empty_tree_gives_nothing() -> None:
    X = np.arange(3.0)[None, :]
    tree = new_tree(_numbers(X))
    search = new_search(tree, 2)
    remove(tree, np.arange(3))
    assert find_nearest(tree, search, 0, 2) == 0


def test_a_tree_that_does_not_prune_gives_way_to_scans() -> None:
    """Independent attributes: nearly every leaf may hold a neighbour, so most searches scan."""
    X = np.ascontiguousarray(np.random.default_rng(0).standard_normal((200 * LEAF, 20)).T)
    tree = new_tree(_numbers(X))
    search = new_search(tree, 4)
    ordered = []
    for record in range(40):
        search.point[:] = X[:, record]
        find_nearest(tree, search, 0, 4)
        ordered.append(int(search.scans[0, 1]))
    assert sorted(set(ordered)) == [8, 24, 56], "a tree that disappoints again is left for longer"


def _closed(data: str, seed: int) -> tuple[Tree, ClosedGroups, Values, list[np.ndarray]]:
    """Groups of some records around others, some of them joined later, and records that stay free."""
    rng = np.random.default_rng(seed)
    p, k = int(rng.integers(1, 21)), int(rng.integers(2, 6))
    costs = np.array([1.0, 4.0])[: seed % 3]
    X = np.vstack([DATA[data](rng, 600, p).T, *(rng.integers(0, 5, 600) for _ in costs)])
    tree = new_tree(Values(X, costs))
    groups, order, members = new_closed_groups(tree, k), rng.permutation(600), []
    slots = []
    for i in range(0, 60 * k, k):
        members.append(order[i : i + k])
        slots.append(new_group(groups, int(order[i])))
    for record in order[60 * k : 60 * k + 100]:
        group = int(rng.integers(0, 60))
        members[group] = np.append(members[group], record)
    for slot, group in zip(slots, members, strict=True):
        for record in group:
            add_member(groups, slot, X, costs, int(record))
            hold(groups, slot)
    assert groups.labels[slots].tolist() == list(range(60))
    return tree, groups, Values(X, costs), members


@each("data, scans", cover(DATA, [0, 99]))
def test_the_group_that_grows_least_is_found(data: str, scans: int) -> None:
    """The same as by looking at all groups one after the other, to the last bit."""
    for seed in range(5 if is_whole() else 2):
        tree, groups, values, members = _closed(data, seed)
        (X, costs), search = values, new_search(tree, 1)
        labels = np.full(600, -1)
        for i, group in enumerate(members):
            labels[group] = i
        by_scan = groups_of(values, np.arange(600), labels, 0, len(members))
        sizes = by_scan.sizes
        for record in range(0, 600, 25):
            search.point[:], groups.state[3] = X[:, record], scans
            slot, numerator, weight = cheapest_to_join(groups, tree, search, record)
            label, codes = groups.labels[slot], X[len(X) - len(costs) :]
            agree = costs @ (codes == codes[:, [record]]) if len(costs) else np.zeros(600)
            shared = np.array([agree[group].sum() for group in members])
            assert (label, numerator) == closest(X[:, record].copy(), 1.0, costs.sum(), shared, by_scan, True)
            assert weight == sizes[label] * (sizes[label] + 1.0)


@pytest.mark.parametrize("scans", [0, 99])
def test_of_groups_that_grow_alike_the_one_with_the_lowest_record_is_joined(scans: int) -> None:
    X = np.array([[0.0, 2.0, 0.0, 2.0, 0.0, 2.0, 1.0, 40.0, 41.0, 42.0]])
    tree = new_tree(_numbers(X))
    groups, search = new_closed_groups(tree, 2), new_search(tree, 1)
    for pair in ([4, 2], [1, 3], [0, 5], [7, 8]):
        slot = new_group(groups, pair[0])
        for record in pair:
            add_member(groups, slot, X, np.zeros(0), record)
        hold(groups, slot)
    # The centroids are 0, 2, 1 and 40.5.
    for record, label in ((4, 0), (3, 1), (6, 2), (9, 3)):
        search.point[:], groups.state[3] = X[:, record], scans
        assert groups.labels[cheapest_to_join(groups, tree, search, record)[0]] == label
    search.point[:], groups.state[3] = 1.5, scans
    assert groups.labels[cheapest_to_join(groups, tree, search, 6)[0]] == 2, "0 and 5 are before 1 and 3"
    search.point[:], groups.state[3] = -5.0, scans
    assert groups.labels[cheapest_to_join(groups, tree, search, 6)[0]] == 0
