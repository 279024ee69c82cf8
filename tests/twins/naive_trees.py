"""Slow, readable twins of the algorithms that grow trees: plain Python, sharing nothing with the kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from twins.naive import Groups, Point, farthest_from_centroid, group_around, md, squared_distance


class Forest:
    """Trees over vertices: record i is vertex i; Steiner vertices come after the records and count for nothing."""

    def __init__(self, edges: Sequence[tuple[int, int]], n: int) -> None:
        self.n = n
        self.stands_for = list(range(n))
        self.neighbours: list[set[int]] = [set() for _ in range(n)]
        for u, v in edges:
            self.link(u, v)

    def link(self, u: int, v: int) -> None:
        self.neighbours[u].add(v)
        self.neighbours[v].add(u)

    def cut(self, u: int, v: int) -> None:
        self.neighbours[u].remove(v)
        self.neighbours[v].remove(u)

    def tree(self, u: int, without: int | None = None) -> set[int]:
        """The vertices that can be reached from u, not by way of a certain one."""
        found, waiting = {u}, [u]
        while waiting:
            new = self.neighbours[waiting.pop()] - found - {without}
            found |= new
            waiting.extend(new)
        return found

    def records(self, u: int, without: int | None = None) -> list[int]:
        return sorted(v for v in self.tree(u, without) if v < self.n)

    def subtrees(self, u: int) -> dict[int, int]:
        """The neighbours of u, by the records that they stand for, and how many records lie that way."""
        return {v: len(self.records(v, u)) for v in sorted(self.neighbours[u], key=self.stands_for.__getitem__)}

    def split(self, u: int, given: Sequence[int]) -> int:
        """Let a new Steiner vertex take u's place towards some of its neighbours."""
        steiner = len(self.neighbours)
        self.neighbours.append(set())
        self.stands_for.append(self.stands_for[u])
        for v in given:
            self.cut(u, v)
            self.link(steiner, v)
        return steiner

    def groups(self) -> Groups:
        return [tree for u in range(self.n) if (tree := self.records(u))[0] == u]


def edges_of_forest(X: Sequence[Point], k: int, order: Sequence[int]) -> dict[int, int]:
    """FOREST: where each record's edge goes, in the order in which the edges come."""
    n = len(X)
    heads: dict[int, int] = {}
    tree_of = {i: {i} for i in range(n)}
    for u in order:
        if len(tree_of[u]) < k:
            outside = [v for v in range(n) if v not in tree_of[u]]
            heads[u] = min(outside, key=lambda v: (squared_distance(X[u], X[v]), v))
            joined = tree_of[u] | tree_of[heads[u]]
            tree_of.update(dict.fromkeys(joined, joined))
    return heads


def gather(subtrees: dict[int, int], enough: int) -> list[int]:
    """The first subtrees that together have enough records."""
    taken: list[int] = []
    while sum(subtrees[v] for v in taken) < enough:
        taken.append(next(v for v in subtrees if v not in taken))
    return taken


def give_away(forest: Forest, hub: int, k: int, limit: int) -> None:
    """Cut a tree at a vertex whose subtrees are all smaller than k."""
    subtrees = forest.subtrees(hub)
    if hub < forest.n:
        largest = max(subtrees, key=lambda v: subtrees[v])
        taken = [largest] if subtrees[largest] == k - 1 else gather(subtrees, k - 1)
        away = sum(subtrees[v] for v in taken)
        stay = sum(subtrees.values()) - away
        if away >= k and stay == k - 1:
            forest.split(hub, taken)
            return
        hub = forest.split(hub, [v for v in subtrees if v not in taken])
    while sum((subtrees := forest.subtrees(hub)).values()) > limit:
        taken = gather(subtrees, k)
        if sum(subtrees.values()) - sum(subtrees[v] for v in taken) < k:
            return
        forest.split(hub, taken)


def cut_large(forest: Forest, start: int, k: int, limit: int, draws: Iterator[float]) -> list[int]:
    """One step of DECOMPOSE-COMPONENT on the tree of a vertex; vertices of the trees that still wait."""
    records = forest.records(start)
    if len(records) <= limit:
        return []
    u, size = records[int(next(draws) * len(records))], len(records)
    while True:
        subtrees = forest.subtrees(u)
        v = max(subtrees, key=lambda v: subtrees[v])
        if size - subtrees[v] >= k:
            break
        if size - subtrees[v] == k - 1 and v < forest.n:
            return [v, forest.split(v, sorted(forest.neighbours[v] - {u}))]
        u = v
    if subtrees[v] < k:
        give_away(forest, u, k, limit)
        return []
    waiting = [u]
    for v in sorted(subtrees, key=lambda v: -subtrees[v]):
        if subtrees[v] < k or size - subtrees[v] < k or size <= limit:
            break
        forest.cut(u, v)
        size -= subtrees[v]
        waiting.append(v)
    return waiting


def tree_partition(X: Sequence[Point], k: int, seed: int = 0) -> Groups:
    n, limit = len(X), max(2 * k - 1, 3 * k - 5)
    generator = np.random.Generator(np.random.PCG64(seed))
    order = np.argsort(generator.random(n), kind="stable").tolist()
    draws = iter(generator.random(n // k).tolist())
    heads = edges_of_forest(X, k, order)
    forest = Forest(list(heads.items()), n)
    waiting = [u for u in range(n) if u not in heads]
    while waiting:
        waiting.extend(cut_large(forest, waiting.pop(), k, limit, draws))
    return forest.groups()


def mu_approx(X: Sequence[Point], k: int, seed: int = 0) -> Groups:
    groups: Groups = []
    for tree in tree_partition(X, k, seed):
        free = set(tree)
        if len(tree) >= 2 * k:
            groups.append(group_around(X, free, farthest_from_centroid(X, free), k))
        groups.append(sorted(free))
    return groups


def spanning_edges(X: Sequence[Point]) -> list[tuple[float, int, int]]:
    """The minimum spanning tree by Kruskal's rule: the shortest edge that joins two trees, until there is one."""
    tree_of = {i: {i} for i in range(len(X))}
    edges = []
    for d, i, j in sorted((squared_distance(X[i], X[j]), i, j) for i, j in combinations(range(len(X)), 2)):
        if tree_of[i] is not tree_of[j]:
            edges.append((d, i, j))
            joined = tree_of[i] | tree_of[j]
            tree_of.update(dict.fromkeys(joined, joined))
    return edges


def mst(X: Sequence[Point], k: int) -> Groups:
    edges = spanning_edges(X)
    forest = Forest([(i, j) for _, i, j in edges], len(X))
    for _, i, j in sorted(edges, key=lambda edge: (-edge[0], edge[1], edge[2])):
        if len(forest.records(i, j)) >= k and len(forest.records(j, i)) >= k:
            forest.cut(i, j)
    groups: Groups = []
    for tree in forest.groups():
        parts = md([X[i] for i in tree], k) if len(tree) >= 2 * k else [range(len(tree))]
        groups.extend([tree[i] for i in part] for part in parts)
    return groups
