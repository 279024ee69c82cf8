"""A slow, readable twin of 2-mu-Approx: every way to make pairs and triples, in exact numbers.

Of several factors of the least weight, it takes another than the fast engine does, so what they weigh is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations

from twins.naive import Groups, Point, squared_distance

Edges = list[tuple[int, int]]


def weight(X: Sequence[Point], edges: Edges) -> Fraction:
    """The sum of squared distances."""
    return sum((Fraction(squared_distance(X[i], X[j])) for i, j in edges), Fraction(0))


def lightest_edges(X: Sequence[Point], group: Sequence[int]) -> Edges:
    """The lightest edges that join a pair or a triple."""
    pairs = list(combinations(sorted(group), 2))
    return min((list(edges) for edges in combinations(pairs, len(group) - 1)), key=lambda edges: weight(X, edges))


def minimum_factor(X: Sequence[Point]) -> Edges:
    """The lightest [1,2]-factor whose components are pairs and triples."""

    @cache
    def best(free: frozenset[int]) -> Edges:
        if not free:
            return []
        lowest, *others = sorted(free)
        choices = [(lowest, *more) for size in (1, 2) for more in combinations(others, size)]
        options = [
            lightest_edges(X, group) + best(free.difference(group)) for group in choices if len(free) - len(group) != 1
        ]
        return min(options, key=lambda edges: weight(X, edges))

    return best(frozenset(range(len(X))))


def two_mu_approx(X: Sequence[Point], k: int) -> Groups:
    group_of = {i: {i} for i in range(len(X))}
    for i, j in minimum_factor(X):
        joined = group_of[i] | group_of[j]
        group_of.update(dict.fromkeys(joined, joined))
    return [sorted(group) for i, group in group_of.items() if min(group) == i]
