"""The best lower bound that is affordable, and groups refined together with it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from microagg_core.arrays import Ints
from microagg_core.group.bounds import UNPROVED, Bound, Certificate, in_units_of
from microagg_core.group.costs import EFFORTS, factor_is_affordable
from microagg_core.group.points import AnyPoints, Points
from microagg_core.group.refine.neighbours import Records, neighbour_bound, neighbour_bound_of
from microagg_core.group.refine.refinement import (
    affordable_optimum,
    are_alike,
    least_loss,
    neighbour_count,
    refine_near,
)

if TYPE_CHECKING:
    from microagg_core.group.factor import Optimum


def factor_bound(X: AnyPoints, k: int) -> Bound | None:
    """Prove half the weight of the lightest [1,2]-factor, for k=2; None where that is not affordable."""
    n, p = X.shape
    if n < 2 * k or not factor_is_affordable(n, p, k):
        return None
    from microagg_core.group.factor import minimum_factor

    factor = minimum_factor(X)
    proved = factor.certificate.lower_bound
    return replace(proved, facts={**proved.facts, "records": n, "pairs": n * (n - 1) // 2, "rounds": factor.rounds})


def _by_columns(X: AnyPoints, k: int) -> Bound | None:
    from microagg_core.group.refine.columns import column_bound

    return column_bound(X, k)


def best_bound(X: AnyPoints, k: int, effort: str) -> Bound:
    """Prove the neighbour bound, or with "thorough" the best of all bounds that apply."""
    neighbours = neighbour_bound_of(X, k)
    if effort != "thorough" or neighbours.kind == "one group":
        return neighbours
    return _higher(neighbours, factor_bound(X, k) or _by_columns(X, k))


def _higher(bound: Bound, other: Bound | None) -> Bound:
    return other if other is not None and other.sse > bound.sse else bound


def _bound_of(optimum: Optimum) -> Bound:
    facts = {"rounds": optimum.rounds, "groups": optimum.groups, "odd_sets": optimum.odd_sets, "gap": optimum.gap}
    return Bound(optimum.bound, "optimum", facts)


def refine_with_bound(
    X: AnyPoints, labels: Ints, k: int, effort: str | float, seed: int, certified: Certificate | None = None
) -> tuple[Ints, Bound]:
    """Refine labels (the given ones stay where nothing is gained), and prove what X loses at least.

    ``effort`` is "off", "fast", "thorough", or a number of seconds for a search from the labels; what takes long to
    prove is tried with "thorough" only, and for k=2 the optimum itself. ``certified`` is what the algorithm has proved
    of X already, or ``UNPROVED``: the bound is not a number then.
    """
    n, unproved = len(X), Bound(math.nan, "neighbours")
    if certified is UNPROVED and (effort == "off" or n < 2 * k):
        return labels, unproved
    if n < 2 * k:
        return labels, neighbour_bound_of(X, k)
    if are_alike(X, labels):
        return labels, Bound(0.0, "neighbours", {"records": n, "neighbours": k - 1})
    records = Records.of(X, k - 1 if effort == "off" else max(k - 1, neighbour_count(n, k)))
    neighbours = unproved if certified is UNPROVED else in_units_of(Points.of(X), neighbour_bound(records, k))
    optimum = affordable_optimum(records, k, effort)
    if optimum is not None:
        proved = in_units_of(Points.of(X), _bound_of(optimum))
        return least_loss(records, labels, optimum, seed), _higher(neighbours, proved)
    factor = factor_bound(X, k) if certified is None else certified.lower_bound
    bound = _higher(neighbours, factor or (_by_columns(X, k) if effort == "thorough" else None))
    if effort == "off":
        return labels, bound
    if effort in EFFORTS:
        return refine_near(records, labels, k, str(effort), seed), bound
    from microagg_core.group.refine.search import search

    better = search(X, k, seconds=float(effort), seed=seed, start=labels)
    return (labels if np.array_equal(better, labels) else better), bound
