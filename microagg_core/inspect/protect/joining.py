"""Groups that break what is demanded join others, until what they are together holds it."""

from __future__ import annotations

from typing import Any

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.group.metrics.losses import group_means
from microagg_core.inspect.protect.block import broken_by_groups
from microagg_core.inspect.protect.rings import join_rings, relabel, rings
from microagg_core.inspect.protect.rules import Rules, broken_by

#: Of so many nearest groups, those left over choose one that stays right.
_NEAREST = 8
#: So many distances are quicker computed than a tree is made.
_MOST_PAIRS = 2**19


def joined(X: Floats, labels: Ints, rules: Rules) -> Ints:
    """Have the groups that break the rules join their nearest, the worst first, until none does or one is left.

    In a round no group joins twice, and nearest is by the centroids at its start.
    """
    labels = np.unique(labels, return_inverse=True)[1]
    broken = broken_by_groups(rules, labels)
    if not (broken > 0).any():
        return labels
    groups = rings(X, labels, len(broken))
    there = np.arange(len(broken))
    while len(there) > 1 and (broken > 0).any():
        centroids = groups.total[there] / groups.size[there, None]
        worst = np.flatnonzero(broken[there] > 0)
        worst = worst[np.argsort(-broken[there[worst]], kind="stable")]
        into, joining = _pairs(worst, _nearest_others(centroids, worst))
        join_rings(groups, rules, there[into], there[joining], broken)
        there = np.delete(there, joining)
    relabel(groups)
    return np.unique(groups.label, return_inverse=True)[1]


def _pairs(worst: Ints, others: Ints) -> tuple[Ints, Ints]:
    """Who is joined, and who joins; each group once."""
    taken: set[int] = set()
    pairs = []
    for group, other in zip(worst.tolist(), others.tolist(), strict=True):
        if group not in taken and other not in taken:
            taken |= {group, other}
            pairs.append((other, group))
    into, joining = np.array(pairs, dtype=np.int64).T
    return into, joining


def _nearest_others(centroids: Floats, groups: Ints) -> Ints:
    """For each of some groups the nearest other one."""
    if len(groups) * len(centroids) > _MOST_PAIRS:
        near = np.asarray(_tree(centroids).query(centroids[groups], k=2)[1])
        return np.where(near[:, 0] == groups, near[:, 1], near[:, 0])
    squared = np.zeros((len(groups), len(centroids)))
    for column in centroids.T:
        squared += (column[groups, None] - column) ** 2
    squared[np.arange(len(groups)), groups] = np.inf
    return np.asarray(squared.argmin(axis=1))


def with_left_over(X: Floats, labels: Ints, rules: Rules) -> Ints:
    """Give each record without a group (-1) to one of the nearest, if there is one that breaks no rules by it."""
    labels, left = labels.copy(), np.flatnonzero(labels < 0)
    if not len(left):
        return labels
    there = np.flatnonzero(labels >= 0)
    centroids = group_means(X[there], labels[there])
    count = min(_NEAREST, len(centroids))
    near = np.asarray(_tree(centroids).query(X[left], k=count)[1]).reshape(len(left), count)
    order = there[np.argsort(labels[there], kind="stable")]
    bounds = np.searchsorted(labels[order], np.arange(len(centroids) + 1))
    joining: dict[int, list[int]] = {}
    for record, groups in zip(left.tolist(), near.tolist(), strict=True):
        members = [[*order[bounds[g] : bounds[g + 1]].tolist(), *joining.get(g, []), record] for g in groups]
        broken = [broken_by(rules, np.array(some), len(some)) for some in members]
        chosen = groups[int(np.argmin(broken))]
        joining.setdefault(chosen, []).append(record)
        labels[record] = chosen
    return labels


def _tree(points: Floats) -> Any:
    """SciPy's tree, loaded only where something is protected."""
    from scipy.spatial import cKDTree

    return cKDTree(points)
