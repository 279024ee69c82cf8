"""A lower bound by column generation: prices of records, and the proof of what any group can undercut them by.

For any prices, a partition costs the sum of all prices plus what each of its groups costs beyond the prices of its
records. Groups of 2k or more can be split without loss, so groups have k to 2k-1 records and one medoid each, and
there are at most n/k of them. If no group with medoid i costs less than w_i <= 0 beyond its prices, then no partition
costs less than the sum of prices plus the n/k least of the w_i. This holds for whatever prices a solver gave, however
inexact; exact pricing gives the w_i. Column generation only makes the prices good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from microagg_core.arrays import Floats, Ints
from microagg_core.group.bounds import Bound, in_units_of
from microagg_core.group.costs import columns_are_affordable
from microagg_core.group.headway import Progress, only_for
from microagg_core.group.metrics.losses import group_means, sse_of_labels
from microagg_core.group.points import AnyPoints, Points
from microagg_core.group.refine.neighbours import Records
from microagg_core.group.refine.search import CandidateGroups, relaxation, searched
from microagg_core.kernels.refinement.pricing import price_all

#: Rounds of relaxation and pricing, and nodes of all searches: counts, so that every machine proves the same.
_ROUNDS, _NODES = 60, 100_000_000
#: Steps of the search that finds the first groups.
_STEPS = 1500
#: Prices are at first held below so many times what a record would add to the loss of another group: without, those of
#: outliers swing from round to round.
_CAPS = (2.0, 8.0)
#: Rounds stop when the relaxation is nearer than this share; nearer than the other, prices are averaged.
_CLOSE, _NEAR = 2e-4, 0.1
#: Distances are taken this much smaller, and the sum of prices lower, than floats have them: far more than
#: the rounding of a thousand operations.
_SLACK = 2.0**-40


@dataclass
class _Proof:
    """Best bound so far, the prices that it stands on, and the nodes that searches may still visit."""

    nodes: int
    value: float = 0.0
    rounds: int = 0
    price: Floats | None = None


@dataclass(frozen=True)
class _Task:
    """Squared distances in units of the mean loss of a record, sums of each record's least, and prices' caps."""

    k: int
    D: Floats
    nearest: Floats
    caps: Floats
    scale: float


def column_bound(X: AnyPoints, k: int) -> Bound | None:
    """Prove the column generation bound of an (n, p) array; None where it did not come to a valid iterate."""
    if len(X) < 2 * k or not columns_are_affordable(len(X), k):
        return None
    with only_for("proving how little any groups can lose"):
        return _proved(X, k)


def _proved(X: AnyPoints, k: int) -> Bound | None:
    n = len(X)
    records = Records.of(X, 12)
    Z = records.points
    labels, candidates = searched(records, k, _STEPS)
    upper = sse_of_labels(Z, labels)
    if upper <= 0:
        return None
    task = _task(Z, labels, k, upper / n)
    proof = _generate(task, candidates)
    if proof.price is None:
        return None
    facts = {
        "records": n,
        "rounds": proof.rounds,
        "groups": len(candidates.cost),
        "proved": "no group of k to 2k-1 records costs less beyond its prices than the bound allows for",
    }
    return in_units_of(Points.of(X), Bound(proof.value * task.scale * (1.0 - _SLACK), "columns", facts))


def _task(Z: Points, labels: Ints, k: int, scale: float) -> _Task:
    n = len(Z)
    numbers, codes = Z.X[:, ~Z.is_code], Z.X[:, Z.is_code].astype(np.int64)
    D = cdist(numbers, numbers, "sqeuclidean")
    for column, cost in zip(codes.T, Z.costs[Z.is_code], strict=True):
        D += cost * (column[:, None] != column)
    D *= (1.0 - _SLACK) / scale
    nearest = np.zeros((n, 2 * k))
    others = np.sort(D, axis=1)[:, 1 : 2 * k]
    nearest[:, 1 : 1 + others.shape[1]] = np.cumsum(others, axis=1)
    sizes = np.bincount(labels)
    added = cdist(numbers, group_means(numbers, labels), "sqeuclidean")
    for column, cost in zip(codes.T, Z.costs[Z.is_code], strict=True):
        shares = np.zeros((len(sizes), column.max() + 1))
        np.add.at(shares, (labels, column), 1.0 / sizes[labels])
        added += 0.5 * cost * (1.0 - 2.0 * shares[:, column].T + (shares**2).sum(axis=1))
    added /= scale
    own = added[np.arange(n), labels] * (sizes[labels] / (sizes[labels] - 1))
    added *= sizes / (sizes + 1)
    added[np.arange(n), labels] = own
    return _Task(k, D, nearest, added.min(axis=1), scale)


def _generate(task: _Task, candidates: CandidateGroups) -> _Proof:
    """Go through rounds of relaxation and pricing, with prices held low at first."""
    proof = _Proof(_NODES)
    n = len(task.D)
    alone, progress = [(i,) for i in range(n)], Progress("pricing groups")
    for cap in _CAPS:
        while proof.rounds < _ROUNDS:
            proof.rounds += 1
            progress.report()
            cost = np.concatenate([np.array(list(candidates.cost.values())) / task.scale, cap * task.caps])
            solved = relaxation([*candidates.cost, *alone], cost, n)
            if solved is None:
                return proof
            value, price = solved
            if value - proof.value <= _CLOSE * value:
                break
            near = proof.price is not None and value - proof.value <= _NEAR * value
            tried = 0.5 * price + 0.5 * proof.price if near and proof.price is not None else price
            before = len(candidates.cost)
            if not _price(task, tried, candidates, proof):
                return proof
            if len(candidates.cost) == before and not (near and _price(task, price, candidates, proof)):
                break
            if len(candidates.cost) == before:
                break
    return proof


def _price(task: _Task, price: Floats, candidates: CandidateGroups, proof: _Proof) -> bool:
    """Price exactly, add the groups found, and keep the bound if it is better; False when pricing was given up."""
    n, k = len(price), task.k
    least, sizes = np.zeros(n), np.zeros(n, dtype=np.int64)
    groups = np.zeros((n, 2 * k - 1), dtype=np.int64)
    nodes = price_all(task.D, price, task.nearest, k, proof.nodes, least, groups, sizes)
    if nodes < 0:
        return False
    proof.nodes -= nodes
    for i in np.flatnonzero(least < -1e-9):
        candidates.add(groups[i, : sizes[i]].tolist())
    value = proved_by(price, least, k)
    if proof.price is None or value > proof.value:
        proof.value, proof.price = max(value, 0.0), price
    return True


def proved_by(price: Floats, least: Floats, k: int) -> float:
    """Bound any partition's cost, if no group around record i costs less than its prices plus ``least[i]`` <= 0.

    Lowered by more than the rounding of the prices' sums, and of the searches' costs, can have added.
    """
    n = len(price)
    slack = _SLACK * (math.fsum(np.abs(price)) + n * max(1.0, float(np.abs(price).max())))
    return math.fsum(price) + math.fsum(np.sort(least)[: n // k]) - slack
