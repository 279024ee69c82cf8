"""A slow, readable twin of every algorithm: plain Python, written from the rules, sharing nothing with the kernels.

Each twin takes the records as given and returns the groups as lists of record numbers. What decides a tie is
spelled out: a squared distance is added up attribute by attribute in order; the distance of a record from the
centroid of m records is that of m times the record from their total, which needs no division; a total is the
exact one, rounded once; and equal distances go to the lower record number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

Point = Sequence[float]
Points = Sequence[Point] | Mapping[int, Point]
Groups = list[list[int]]


def squared_distance(a: Point, b: Point) -> float:
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += (x - y) ** 2
    return total


def total(X: Sequence[Point], records: Iterable[int]) -> list[float]:
    """The exact sum of the records, rounded once."""
    columns = zip(*(X[i] for i in records), strict=True)
    return [float(sum(map(Fraction, column))) for column in columns]


def times(factor: int, point: Point) -> list[float]:
    return [factor * x for x in point]


def farthest_from_centroid(X: Sequence[Point], records: Collection[int]) -> int:
    scaled = {i: times(len(records), X[i]) for i in records}
    return farthest(scaled, records, total(X, records))


def farthest(X: Points, records: Iterable[int], point: Point) -> int:
    return min(records, key=lambda i: (-squared_distance(X[i], point), i))


def nearest(X: Sequence[Point], records: Iterable[int], point: Point, count: int) -> list[int]:
    return sorted(records, key=lambda i: (squared_distance(X[i], point), i))[:count]


def group_around(X: Sequence[Point], free: set[int], record: int, k: int) -> list[int]:
    """Take a record and its k-1 nearest out of the free ones."""
    group = [record, *nearest(X, free - {record}, X[record], k - 1)]
    free.difference_update(group)
    return group


def mdav(X: Sequence[Point], k: int) -> Groups:
    free = set(range(len(X)))
    groups: Groups = []
    while len(free) >= 2 * k:
        r = farthest_from_centroid(X, free)
        groups.append(group_around(X, free, r, k))
        s = farthest(X, free, X[r])
        groups.append(group_around(X, free, s, k))
    if len(free) >= k:
        groups.append(sorted(free))
    elif free:
        rest = times(k, total(X, free))
        last_two = sorted(groups[-2:], key=min)
        min(last_two, key=lambda group: squared_distance(times(len(free), total(X, group)), rest)).extend(free)
    return groups


def join_nearest(X: Sequence[Point], groups: Groups, left_over: Iterable[int]) -> None:
    """Give each record to the group with the nearest centroid; those that join do not move the centroids."""
    closed = [(group, total(X, group), len(group)) for group in sorted(groups, key=min)]
    for i in sorted(left_over):
        nearest_one = min(closed, key=lambda g: squared_distance(times(g[2], X[i]), g[1]) / g[2] ** 2)
        nearest_one[0].append(i)


def _may_join(X: Sequence[Point], group: list[int], free: set[int], gamma: float) -> int | None:
    """The free record nearest to the group, if it is nearer to it than gamma times to any other free record."""
    to_group = {i: min(squared_distance(X[i], X[j]) for j in group) for i in free}
    candidate = min(free, key=lambda i: (to_group[i], i))
    others = [squared_distance(X[candidate], X[i]) for i in free if i != candidate]
    return candidate if to_group[candidate] < gamma * min(others, default=math.inf) else None


def v_mdav(X: Sequence[Point], k: int, gamma: float = 0.2) -> Groups:
    free = set(range(len(X)))
    middle = total(X, free)
    scaled = [times(len(X), x) for x in X]
    groups: Groups = []
    while len(free) >= k:
        group = group_around(X, free, farthest(scaled, free, middle), k)
        while gamma > 0 and free and len(group) < 2 * k - 1:
            joining = _may_join(X, group, free, gamma)
            if joining is None:
                break
            group.append(joining)
            free.remove(joining)
        groups.append(group)
    join_nearest(X, groups, free)
    return groups


def mdav_plus(X: Sequence[Point], k: int) -> Groups:
    return v_mdav(X, k, gamma=0.0)


#: The twin of each algorithm of the registry.
TWINS: dict[str, Callable[..., Groups]] = {
    "mdav": mdav,
    "mdav_plus": mdav_plus,
    "v_mdav": v_mdav,
}


def labels(algorithm: str, X: np.ndarray, k: int, **params: Any) -> list[int]:
    """The twin's groups as labels, numbered by each group's lowest record."""
    groups = TWINS[algorithm]([tuple(map(float, row)) for row in X], k, **params)
    label_of = {i: label for label, group in enumerate(sorted(groups, key=min)) for i in group}
    return [label_of[i] for i in range(len(X))]
