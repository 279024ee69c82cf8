"""The twin of each algorithm of the registry, and its groups as labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import naive
import naive_factor
import naive_trees

#: The twin of each algorithm of the registry.
TWINS: dict[str, Callable[..., naive.Groups]] = {
    "mdav": naive.mdav,
    "mdav_generic": naive.mdav_generic,
    "mdav_single": naive.mdav_single,
    "mdav_plus": naive.mdav_plus,
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


def labels(algorithm: str, X: np.ndarray, k: int, **params: Any) -> list[int]:
    """The twin's groups as labels, numbered by each group's lowest record."""
    groups = TWINS[algorithm]([tuple(map(float, row)) for row in X], k, **params)
    label_of = {i: label for label, group in enumerate(sorted(groups, key=min)) for i in group}
    return [label_of[i] for i in range(len(X))]
