"""Groups that hold what is demanded of them: several ways to make them, the best of these, and then refinement.

The ways: *mending* and *merging* of the algorithm's groups, *merging* alone, *k-first* and *t-first*. Each ends with
groups joining others, so that all of them hold the demands. Refinement goes on from there by steps that break none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints, ShortInts
from microagg_core.errors import DataError, InternalError
from microagg_core.group.costs import EFFORTS, annealing_sweeps
from microagg_core.group.metrics.losses import group_means, sse_of_labels
from microagg_core.group.metrics.moments import MOST_OF_WEIGHT, Groups
from microagg_core.group.points import AnyPoints
from microagg_core.group.refine.neighbours import Records
from microagg_core.inspect.demand import Demand
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.protect.gathering import gather_k_first, gather_t_first
from microagg_core.inspect.protect.rings import exchange_records, join_rings, mend, relabel, rings
from microagg_core.inspect.protect.rules import (
    FEW,
    NAMES,
    ORDERED,
    UNBOUND,
    Rules,
    broken_by,
    broken_by_all,
)
from microagg_core.kernels.tools.random_draws import exponential_quantiles, random_state

#: What kernels allow above t: less than the gate does, so that rounding does not have it refuse what they let through.
_SLACK = 5e-13
#: Of so many nearest groups, those left over choose one that stays right.
_NEAREST = 8
#: So many distances are quicker computed than a tree is made.
_MOST_PAIRS = 2**19
#: Records that are looked at around each; in large blocks fewer, as they are most of the time that it takes.
_NEAR, _NEAR_OF_LARGE = 24, 12
#: Above so many records, ways that others make superfluous are not tried, and only the best is refined.
_LARGE = 20_000
#: A column of more categories is taken for so many numbers, by which its distances are rough; losses tell what it cost.
_MOST_CATEGORIES = 16
#: Records that k-first looks at for each group, besides its nearest, for each of k.
_WALK = 8
#: With so many more strata t-first is tried, one by one, where ties break its bound; and then by so many times more.
_MORE_STRATA, _TIMES_MORE = 3, 1.3
_MOST_TRIES = 8
#: Mending did it, if it leaves no more than this share of the groups broken: others need not be tried on large blocks.
_MENDED = 0.05
#: And is not tried there, if more than this share is broken before: what is all around is broken too.
_HOPELESS = 0.5
#: How hot refinement begins, in units of the mean squared error: with many sweeps, and with few.
_HOTTEST, _HOTTEST_OF_FEW, _FEW_SWEEPS = 0.3, 0.05, 20
#: In large blocks a sweep changes little after so many of them.
_SWEEPS_OF_LARGE = 6
#: Larger groups are left as they are: to look at one takes as long as it has records.
_LARGEST = 256
_QUANTILES = exponential_quantiles(1024)


class _Whole(NamedTuple):
    cumulative: Ints
    prefix: Ints
    passed: Ints


@dataclass(frozen=True, eq=False)
class BlockDemands:
    """The demands, and the code of each record's value, demand by demand; and the records' survey weights, if any."""

    demands: tuple[Demand, ...]
    codes: tuple[Ints, ...]
    wholes: tuple[Distribution | None, ...]
    weights: Floats | None = None

    @property
    def _one_group(self) -> Ints:
        return np.zeros(len(self.codes[0] if self.weights is None else self.weights), dtype=np.int64)

    def rules(self) -> Rules:
        n = len(self._one_group)
        used = [self._whole(j) for j in range(len(self.demands))]
        values = np.array([0 if whole is None else len(whole.counts) for whole in used], dtype=np.int64)
        looked_up = [_NOTHING if whole is None else _looked_up(whole) for whole in used]
        most = [demand.t for demand in self.demands]
        return Rules(
            codes=np.array(self.codes, dtype=np.int64).reshape(len(self.codes), n),
            kinds=_ints(UNBOUND if w is None else ORDERED if w.is_ordered else NAMES for w in used),
            least=_ints(demand.distinct for demand in self.demands),
            most=np.array([np.inf if t is None else t + _SLACK for t in most], dtype=np.float64),
            totals=_ints(1 if whole is None else whole.valued for whole in used),
            without=np.array([0.0 if w is None else w.counts[0] / w.total for w in used], dtype=np.float64),
            values=values,
            starts=np.cumsum(values) - values,
            cumulative=np.concatenate([_NOTHING.cumulative, *(whole.cumulative for whole in looked_up)]),
            prefix=np.concatenate([_NO_INTS, *(whole.prefix for whole in looked_up)]),
            passed=np.array([whole.passed for whole in looked_up], dtype=np.int64).reshape(-1, FEW + 1, FEW + 1),
            room=np.empty(n, dtype=np.int64),
            weights=np.zeros(0) if self.weights is None else np.ascontiguousarray(self.weights),
        )

    def _whole(self, j: int) -> Distribution | None:
        return None if self.demands[j].t is None else self.wholes[j]

    def taken(self, order: Ints) -> BlockDemands:
        """Take some of the records, or all in another order."""
        weights = None if self.weights is None else self.weights[order]
        return BlockDemands(self.demands, tuple(codes[order] for codes in self.codes), self.wholes, weights)

    def side_by_side(self, order: Ints) -> BlockDemands:
        """Ask the same of each position of units of several rows; ``order`` has the rows of a unit in a row.

        The weight of a unit is that of all its rows.
        """
        times, weights = order.shape[1], None if self.weights is None else self.weights[order[:, 0]]
        codes = tuple(codes[rows] for rows in order.T for codes in self.codes)
        return BlockDemands(self.demands * times, codes, self.wholes * times, weights)

    def closeness_left(self, j: int) -> float:
        """Leave of t what the block itself is off: so far may a group be from the block."""
        demand, whole = self.demands[j], self._whole(j)
        if demand.t is None or whole is None:
            return 0.0
        return demand.t - float(whole.distances(self.codes[j], self._one_group)[0])

    def broken(self, labels: Ints) -> Bools:
        """Find the groups, 0 to g-1, that do not hold all demands, exactly."""
        columns = zip(self.demands, self.codes, self.wholes, strict=True)
        broken = [demand.broken(codes, labels, whole) for demand, codes, whole in columns]
        if self.weights is not None:
            broken.append(Groups.of(labels).greatest_shares(self.weights) > MOST_OF_WEIGHT)
        return np.asarray(np.any(broken, axis=0))

    def refuse_dominated(self, weight: object, cure: str) -> None:
        """Stop where one record has so much of the block's weight that no groups can hold the rule."""
        if self.weights is None or Groups.of(self._one_group).greatest_shares(self.weights)[0] <= MOST_OF_WEIGHT:
            return
        raise DataError(
            f"weight {weight!r}: in a block one record has more than half of the weight of all its records, so that "
            f"the means of its group would be nearly its own; {cure}"
        )

    def impossible(self) -> Demand | None:
        """Find a demand that the block as one group does not hold, so that no groups of it can."""
        block, columns = self._one_group, zip(self.demands, self.codes, self.wholes, strict=True)
        return next((demand for demand, codes, whole in columns if demand.broken(codes, block, whole)[0]), None)


def _ints(numbers: Iterable[int]) -> Ints:
    return np.fromiter(numbers, dtype=np.int64)


def broken_by_groups(rules: Rules, labels: Ints) -> Floats:
    """Measure by how much each group breaks what is demanded."""
    groups = Groups.of(labels)
    return broken_by_all(rules, groups.order, groups.first, groups.sizes)


@lru_cache(maxsize=8)
def _looked_up(whole: Distribution) -> _Whole:
    # Kept by identity: it is the same one for all blocks of a partition.
    passed = np.zeros((FEW + 1, FEW + 1), dtype=np.int64)
    for size in range(1, FEW + 1):
        levels = -(-whole.valued * np.arange(size + 1) // size)
        passed[size, : size + 1] = np.searchsorted(whole.cumulative, levels)
    return _Whole(whole.cumulative, np.concatenate([[0], np.cumsum(whole.cumulative)]), passed)


_NO_INTS = np.zeros(0, dtype=np.int64)
_NOTHING = _Whole(_NO_INTS, np.zeros(1, dtype=np.int64), np.zeros((FEW + 1, FEW + 1), dtype=np.int64))


def block_demands(
    demands: Sequence[Demand],
    codes: Sequence[Ints],
    wholes: Sequence[Distribution | None],
    weights: Floats | None = None,
) -> BlockDemands:
    """Put together, with codes that are small where only their equality counts, and whether they are 0."""
    small = [
        np.unique(np.append(0, of_column), return_inverse=True)[1][1:] if demand.t is None else of_column
        for demand, of_column in zip(demands, codes, strict=True)
    ]
    return BlockDemands(tuple(demands), tuple(small), tuple(wholes), weights)


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
    """Pair groups that are joined with those that join them; each group once."""
    taken: set[int] = set()
    pairs = []
    for group, other in zip(worst.tolist(), others.tolist(), strict=True):
        if group not in taken and other not in taken:
            taken |= {group, other}
            pairs.append((other, group))
    into, joining = np.array(pairs, dtype=np.int64).T
    return into, joining


def _nearest_others(centroids: Floats, groups: Ints) -> Ints:
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
        broken = [broken_by(rules, np.array(group), len(group)) for group in members]
        chosen = groups[int(np.argmin(broken))]
        joining.setdefault(chosen, []).append(record)
        labels[record] = chosen
    return labels


def _tree(points: Floats) -> Any:
    from scipy.spatial import cKDTree

    return cKDTree(points)


@dataclass(frozen=True)
class _Block:
    """The records in an order that depends on their values alone, as numbers, and what is demanded of them."""

    Z: Floats
    near: ShortInts
    k: int
    demands: BlockDemands
    rules: Rules

    @property
    def is_large(self) -> bool:
        return len(self.Z) > _LARGE


def protected_groups(
    points: AnyPoints, labels: Ints, k: int, demands: BlockDemands, effort: str | float, seed: int
) -> tuple[Ints, Ints]:
    """Make groups of at least k that hold all demands, from those of an algorithm: the best as made, and refined.

    They are the same array where nothing was gained. The block as one group has to hold the demands, see
    :meth:`BlockDemands.impossible`.
    """
    n = len(points)
    if n < 2 * k:
        whole = np.zeros(n, dtype=np.int64)
        return whole, whole
    count = min(n - 1, _NEAR_OF_LARGE if n > _LARGE else _NEAR)
    records = Records.of(points, count)
    ordered = demands.taken(records.order)
    block = _Block(records.points.nearly_dense(_MOST_CATEGORIES), records.near(count), k, ordered, ordered.rules())
    candidates = list(ways(block.Z, records.inward(labels), k, block.demands, block.near).values())
    loss = [sse_of_labels(block.Z, groups) for groups in candidates]
    plain = candidates[int(np.argmin(loss))]
    refined = plain
    if effort != "off":
        starts = [plain] if block.is_large else candidates
        better = [_refined(block, start, effort, seed, len(starts)) for start in starts]
        refined = min([plain, *better], key=lambda groups: sse_of_labels(block.Z, groups))
    outward = records.outward(plain, k)
    outcome = outward, outward if refined is plain else records.outward(refined, k)
    if any(demands.broken(groups).any() for groups in outcome):
        raise InternalError("a bug: groups that do not hold what is demanded of them; please report it")
    return outcome


def mended_groups(points: AnyPoints, labels: Ints, k: int, demands: BlockDemands, rows: Ints | None = None) -> Ints:
    """Exchange records of the groups that break a demand, and have those join others that still do.

    For demands that few groups break: all others stay as they are. The block as one group has to hold the demands; of
    some ``rows`` of it that do not, groups stay as they are.
    """
    demands = demands if rows is None else demands.taken(rows)
    if not demands.broken(labels).any() or (rows is not None and demands.broken(0 * labels).any()):
        return labels
    n = len(points)
    if n < 2 * k:
        return np.zeros(n, dtype=np.int64)
    count = min(n - 1, _NEAR)
    records = Records.of(points, count)
    rules, Z = demands.taken(records.order).rules(), records.points.nearly_dense(_MOST_CATEGORIES)
    groups, _ = _mended(Z, records.inward(labels), rules, records.near(count))
    mended = records.outward(groups, k)
    if demands.broken(mended).any():
        raise InternalError("a bug: groups that do not hold what is demanded of them; please report it")
    return mended


def ways(Z: Floats, labels: Ints, k: int, demands: BlockDemands, near: ShortInts) -> dict[str, Ints]:
    """Make groups each way that is tried; all hold the demands."""
    rules, is_large = demands.rules(), len(Z) > _LARGE
    by_way: dict[str, Ints] = {}
    n_groups, is_close = int(labels.max()) + 1, any(demand.t is not None for demand in demands.demands)
    if not (is_large and is_close) or (broken_by_groups(rules, labels) > 0).mean() <= _HOPELESS:
        by_way["mend"], n_broken = _mended(Z, labels, rules, near)
        if is_large and n_broken <= _MENDED * n_groups:
            return by_way
    by_way |= _t_first(Z, k, demands, rules)
    if not is_large or not by_way:
        by_way["merge"] = joined(Z, labels, rules)
        gathered = gather_k_first(np.ascontiguousarray(Z.T), _seeds(Z), k, _WALK * k, rules)
        by_way["k-first"] = joined(Z, gathered, rules)
    return by_way


def _seeds(Z: Floats) -> Ints:
    return np.argsort(-((Z - Z.mean(axis=0)) ** 2).sum(axis=1), kind="stable")


def _mended(Z: Floats, labels: Ints, rules: Rules, near: ShortInts) -> tuple[Ints, int]:
    groups, broken = rings(Z, labels, int(labels.max()) + 1), broken_by_groups(rules, labels)
    mend(groups, rules, near, broken)
    return joined(Z, groups.label, rules), int((broken > 0).sum())


def _t_first(Z: Floats, k: int, demands: BlockDemands, rules: Rules) -> dict[str, Ints]:
    of_columns = {
        f"t-first {demand.column}": groups_across_strata(
            Z, k, codes, least_strata(len(Z), demands.closeness_left(j)), rules
        )
        for j, (demand, codes) in enumerate(zip(demands.demands, demands.codes, strict=True))
        if demand.t is not None
    }
    return {name: groups for name, groups in of_columns.items() if groups is not None}


def least_strata(n: int, t: float) -> int:
    """Count the strata that bring every group within t of n records with as many values, by the proved bound.

    One more where there would be as many records left over as groups.

    >>> [least_strata(1080, t) for t in (0.01, 0.05, 0.09, 0.13, 0.17, 0.21, 0.25)]
    [49, 10, 6, 4, 3, 3, 2]
    """
    if t <= 0:
        return n
    strata = max(1, math.ceil(n / (2 * (n - 1) * t + 1)))
    return strata + n % strata // (n // strata)


def groups_across_strata(Z: Floats, k: int, codes: Ints, n_strata: int, rules: Rules) -> Ints | None:
    """Form groups of equally many near records from each stratum of a confidential column's values, as t demands.

    None where there are too few records for two groups.

    Equal values may lie on both sides of a stratum's end and break the bound: then with more strata.
    """
    best: Ints | None = None
    least, by_value = math.inf, np.argsort(codes, kind="stable")
    strata = np.empty(len(Z), dtype=np.int64)
    for attempt in range(_MOST_TRIES):
        share = -(-k // n_strata)
        n_groups = (len(Z) // n_strata) // share
        if n_groups < 2:
            break
        strata[by_value] = np.arange(len(Z)) * n_strata // len(Z)
        # Longer than all records are wide: the nearest within a stratum are nearer than any other.
        step = 4.0 * float(np.ptp(Z, axis=0).sum()) + 1.0
        layered = np.ascontiguousarray(np.vstack([Z.T, strata * step]))
        gathered = gather_t_first(layered, _seeds(Z), n_strata, share, n_groups)
        whole = with_left_over(Z, gathered, rules)
        n_broken = int((broken_by_groups(rules, whole) > 0).sum())
        groups = joined(Z, whole, rules)
        loss = sse_of_labels(Z, groups)
        if loss < least:
            best, least = groups, loss
        if n_broken == 0 or (len(Z) > _LARGE and n_broken <= _MENDED * n_groups):
            break
        n_strata = n_strata + 1 if attempt < _MORE_STRATA else math.ceil(_TIMES_MORE * n_strata)
    return best


def _refined(block: _Block, labels: Ints, effort: str | float, seed: int, n_starts: int) -> Ints:
    """Refine groups by steps that break nothing; they may lose more than before."""
    n, p = block.Z.shape
    groups, random = rings(block.Z, labels, int(labels.max()) + 1), random_state(seed)
    mean = sse_of_labels(block.Z, labels) / n

    def run(sweeps: int, hottest: float) -> float:
        rest = (sweeps, hottest * mean, _QUANTILES, random)
        return exchange_records(groups, block.rules, block.near, block.k, _LARGEST, *rest)

    if not isinstance(effort, str):
        ends = time.monotonic() + effort / n_starts
        while time.monotonic() < ends:
            run(_FEW_SWEEPS, _HOTTEST_OF_FEW)
    else:
        sweeps = annealing_sweeps(effort, n, p, block.k)
        if block.is_large and effort in EFFORTS and effort != "thorough":
            sweeps = min(sweeps, _SWEEPS_OF_LARGE)
        run(sweeps, _HOTTEST if sweeps >= _FEW_SWEEPS else _HOTTEST_OF_FEW)
    return np.unique(groups.label, return_inverse=True)[1]
