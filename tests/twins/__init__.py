"""The twin of each algorithm of the registry, and its groups as labels."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from microagg_core import algorithms
from twins import naive, naive_factor, naive_trees

#: The twin of each algorithm of the registry.
TWINS: dict[str, Callable[..., naive.Groups]] = {
    "mdav": naive.mdav,
    "mdav_generic": naive.mdav_generic,
    "mdav_single": naive.mdav_single,
    "mdav_plus": naive.mdav_plus,
    "slabs": naive.slabs,
    "v_mdav": naive.v_mdav,
    "mdav_star": naive.mdav_star,
    "md": naive.md,
    "univariate": naive.univariate,
    "individual_ranking": naive.univariate,
    "exhaustive": naive.exhaustive,
    "mst": naive_trees.mst,
    "mu_approx": naive_trees.mu_approx,
    "two_mu_approx": naive_factor.two_mu_approx,
}

#: The most records that a twin can take, where these are few.
MOST = {"exhaustive": 9, "two_mu_approx": 9}


#: Algorithms that settle ties by a rule that no readable twin can follow: there the weight must be the twin's.
TIES_BY_WEIGHT = {"two_mu_approx"}


def k_for(algorithm: str, k: int) -> int:
    """The nearest k that the algorithm takes."""
    info = algorithms()[algorithm]
    return max(info.min_k, min(k, info.max_k or k))


def labels(algorithm: str, X: np.ndarray, k: int, **params: Any) -> list[int]:
    """The twin's groups as labels, numbered by each group's lowest record."""
    groups = TWINS[algorithm]([tuple(map(float, row)) for row in X], k, **params)
    label_of = {i: label for label, group in enumerate(sorted(groups, key=min)) for i in group}
    return [label_of[i] for i in range(len(X))]


def agree(algorithm: str, X: np.ndarray, found: list[int], expected: list[int]) -> bool:
    """Whether the labels are the twin's, or, where ties may be settled otherwise, weigh the same."""
    if found == expected or algorithm not in TIES_BY_WEIGHT:
        return found == expected
    # The fast engine weighs in units of 2**-51 of the largest squared distance there can be.
    unit = Fraction(float((np.ptp(X, axis=0) ** 2).sum())) / 2**50
    return abs(_weight(X, found) - _weight(X, expected)) <= len(X) * unit


def _weight(X: np.ndarray, found: list[int]) -> Fraction:
    points = [tuple(map(float, row)) for row in X]
    groups = [[i for i, label in enumerate(found) if label == group] for group in set(found)]
    return sum((naive_factor.weight(points, naive_factor.lightest_edges(points, g)) for g in groups), Fraction(0))
