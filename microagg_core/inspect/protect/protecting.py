"""Groups that hold what is demanded of them: several ways to make them, the best of these, and then refinement.

The ways: *mending* and *merging* of the algorithm's groups, *merging* alone, *k-first* and *t-first*. Each ends with
groups joining others, so that all of them hold the demands. Refinement goes on from there by steps that break none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts
from microagg_core.errors import InternalError
from microagg_core.group.costs import EFFORTS, annealing_sweeps
from microagg_core.group.refine.neighbours import Records
from microagg_core.group.refine.refinement import sse_of_labels
from microagg_core.inspect.protect.block import BlockDemands, broken_by_groups
from microagg_core.inspect.protect.exchanging import exchange_records
from microagg_core.inspect.protect.gathering import gather_k_first, gather_t_first
from microagg_core.inspect.protect.joining import joined, with_left_over
from microagg_core.inspect.protect.mending import mend
from microagg_core.inspect.protect.rings import rings
from microagg_core.inspect.protect.rules import Rules
from microagg_core.kernels.tools.random_draws import exponential_quantiles, random_state

#: Records that are looked at around each; in large blocks fewer, as they are most of the time that it takes.
_NEAR, _NEAR_OF_LARGE = 24, 12
#: Above so many records, ways that others make superfluous are not tried, and only the best is refined.
_LARGE = 20_000
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


@dataclass(frozen=True)
class Protected:
    """Groups that hold the demands: the best as they were made, and these refined."""

    plain: Ints
    refined: Ints


@dataclass(frozen=True)
class _Block:
    """The records in an order that depends on their values alone, and what is demanded of them."""

    Z: Floats
    near: ShortInts
    k: int
    demands: BlockDemands
    rules: Rules

    @property
    def is_large(self) -> bool:
        return len(self.Z) > _LARGE


def protected_groups(
    X: Floats, labels: Ints, k: int, demands: BlockDemands, effort: str | float, seed: int
) -> Protected:
    """Groups of at least k that hold all demands, from those of an algorithm.

    Args:
        X: (n, p) finite numbers, on the scale of the loss.
        labels: the algorithm's groups, 0 to g-1.
        k: the least number of records of a group.
        demands: which the block as one group holds; see :meth:`~.block.BlockDemands.impossible`.
        effort: of refinement, "off", "fast", "thorough", or seconds.
        seed: decides what refinement draws.
    """
    n = len(X)
    if n < 2 * k:
        one = np.zeros(n, dtype=np.int64)
        return Protected(one, one)
    count = min(n - 1, _NEAR_OF_LARGE if n > _LARGE else _NEAR)
    records = Records.of(X, count)
    ordered = demands.taken(records.order)
    block = _Block(np.ascontiguousarray(records.Z), records.near(count), k, ordered, ordered.rules())
    candidates = list(ways(block.Z, records.inward(labels), k, block.demands, block.near).values())
    loss = [sse_of_labels(block.Z, groups) for groups in candidates]
    plain = candidates[int(np.argmin(loss))]
    refined = plain
    if effort != "off":
        starts = [plain] if block.is_large else candidates
        better = [_refined(block, start, effort, seed, len(starts)) for start in starts]
        refined = min([plain, *better], key=lambda groups: sse_of_labels(block.Z, groups))
    out = records.outward(plain, k)
    outcome = Protected(out, out if refined is plain else records.outward(refined, k))
    if demands.broken(outcome.plain).any() or demands.broken(outcome.refined).any():
        raise InternalError("a bug: groups that do not hold what is demanded of them; please report it")
    return outcome


def ways(Z: Floats, labels: Ints, k: int, demands: BlockDemands, near: ShortInts) -> dict[str, Ints]:
    """The groups of each way that is tried, by its name; all hold the demands."""
    rules, is_large = demands.rules(), len(Z) > _LARGE
    by_way: dict[str, Ints] = {}
    n_groups, is_close = int(labels.max()) + 1, any(demand.t is not None for demand in demands.demands)
    if not (is_large and is_close) or (broken_by_groups(rules, labels) > 0).mean() <= _HOPELESS:
        by_way["mend"], n_broken = _mended(Z, labels, rules, near)
        if is_large and n_broken <= _MENDED * n_groups:
            return by_way
    for name, groups in _t_first(Z, k, demands, rules):
        by_way[name] = groups
    if not is_large or not by_way:
        by_way["merge"] = joined(Z, labels, rules)
        gathered = gather_k_first(np.ascontiguousarray(Z.T), _seeds(Z), k, _WALK * k, rules)
        by_way["k-first"] = joined(Z, gathered, rules)
    return by_way


def _seeds(Z: Floats) -> Ints:
    """The records from the outside in."""
    return np.argsort(-((Z - Z.mean(axis=0)) ** 2).sum(axis=1), kind="stable")


def _mended(Z: Floats, labels: Ints, rules: Rules, near: ShortInts) -> tuple[Ints, int]:
    """Groups after exchanges and joining, and how many the exchanges left broken."""
    groups, broken = rings(Z, labels, int(labels.max()) + 1), broken_by_groups(rules, labels)
    mend(groups, rules, near, broken)
    return joined(Z, groups.label, rules), int((broken > 0).sum())


def _t_first(Z: Floats, k: int, demands: BlockDemands, rules: Rules) -> Iterator[tuple[str, Ints]]:
    """The groups of t-first by each column of whose distribution something is demanded."""
    for j, demand in enumerate(demands.demands):
        if demand.t is None:
            continue
        groups = t_first(Z, k, demands.codes[j], least_strata(len(Z), demands.closeness_left(j)), rules)
        if groups is not None:
            yield f"t-first {demand.column}", groups


def least_strata(n: int, t: float) -> int:
    """So many strata bring every group within t of n records with as many values, by the proved bound.

    One more where there would be as many records left over as groups.

    >>> [least_strata(1080, t) for t in (0.01, 0.05, 0.09, 0.13, 0.17, 0.21, 0.25)]
    [49, 10, 6, 4, 3, 3, 2]
    """
    if t <= 0:
        return n
    strata = max(1, math.ceil(n / (2 * (n - 1) * t + 1)))
    return strata + n % strata // (n // strata)


def t_first(Z: Floats, k: int, codes: Ints, n_strata: int, rules: Rules) -> Ints | None:
    """Groups with as many records of each stratum, those near the seed; None where there are too few for two groups.

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
    """The groups after steps that break nothing; they may lose more than before."""
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
