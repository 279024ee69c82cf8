"""The demands on the groups of one block, ready for kernels; and the exact answer whether groups hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.group.metrics.moments import Groups
from microagg_core.inspect.demand import Demand
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.protect.rules import FEW, NAMES, ORDERED, UNBOUND, Rules, broken_by_all

#: What kernels allow above t: less than the gate does, so that rounding does not have it refuse what they let through.
_SLACK = 5e-13


@dataclass(frozen=True)
class _Whole:
    """What kernels look up of a distribution."""

    cumulative: Ints
    prefix: Ints
    passed: Ints


@dataclass(frozen=True, eq=False)
class BlockDemands:
    """The demands, and the code of each record's value, demand by demand."""

    demands: tuple[Demand, ...]
    codes: tuple[Ints, ...]
    wholes: tuple[Distribution | None, ...]

    def rules(self) -> Rules:
        """The demands for kernels."""
        n_columns, n = len(self.demands), len(self.codes[0])
        used = [self._whole(j) for j in range(n_columns)]
        values = np.array([0 if one is None else len(one.counts) for one in used], dtype=np.int64)
        looked_up = [_looked_up(_Key(one)) if one is not None else _NOTHING for one in used]
        most = [demand.t for demand in self.demands]
        return Rules(
            codes=np.ascontiguousarray(np.stack(self.codes)),
            kinds=np.array([UNBOUND if w is None else ORDERED if w.is_ordered else NAMES for w in used]),
            least=np.array([demand.distinct for demand in self.demands]),
            most=np.array([np.inf if t is None else t + _SLACK for t in most]),
            totals=np.array([1 if one is None else one.valued for one in used]),
            without=np.array([0.0 if one is None else one.counts[0] / one.total for one in used]),
            values=values,
            starts=np.cumsum(values) - values,
            cumulative=np.concatenate([one.cumulative for one in looked_up]),
            prefix=np.concatenate([one.prefix for one in looked_up]),
            passed=np.stack([one.passed for one in looked_up]),
            room=np.empty(n, dtype=np.int64),
        )

    def _whole(self, j: int) -> Distribution | None:
        return None if self.demands[j].t is None else self.wholes[j]

    def taken(self, order: Ints) -> BlockDemands:
        """The same for the records in another order, or for some of them."""
        return BlockDemands(self.demands, tuple(codes[order] for codes in self.codes), self.wholes)

    def closeness_left(self, j: int) -> float:
        """How far a group may be from the block, so that it is within t of the whole whatever the block is."""
        demand, whole = self.demands[j], self._whole(j)
        if demand.t is None or whole is None:
            return 0.0
        one_group = np.zeros(len(self.codes[j]), dtype=np.int64)
        return demand.t - float(whole.distances(self.codes[j], one_group)[0])

    def broken(self, labels: Ints) -> Bools:
        """Which groups, 0 to g-1, do not hold all demands, exactly."""
        columns = zip(self.demands, self.codes, self.wholes, strict=True)
        broken = [demand.broken(codes, labels, whole) for demand, codes, whole in columns]
        return np.asarray(np.any(broken, axis=0))

    def impossible(self) -> Demand | None:
        """A demand that the block as one group does not hold, so that no groups of it can; None where there is none."""
        whole = np.zeros(len(self.codes[0]), dtype=np.int64)
        for demand, codes, distribution in zip(self.demands, self.codes, self.wholes, strict=True):
            if demand.broken(codes, whole, distribution)[0]:
                return demand
        return None


def broken_by_groups(rules: Rules, labels: Ints) -> Floats:
    """By how much each group breaks what is demanded."""
    groups = Groups.of(labels)
    return broken_by_all(rules, groups.order, groups.first, groups.sizes)


@dataclass(frozen=True)
class _Key:
    """A distribution as itself: it is the same one for all blocks of a partition."""

    whole: Distribution

    def __hash__(self) -> int:
        return id(self.whole)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.whole is self.whole


@lru_cache(maxsize=8)
def _looked_up(key: _Key) -> _Whole:
    whole = key.whole
    passed = np.zeros((FEW + 1, FEW + 1), dtype=np.int64)
    for size in range(1, FEW + 1):
        levels = -(-whole.valued * np.arange(size + 1) // size)
        passed[size, : size + 1] = np.searchsorted(whole.cumulative, levels)
    return _Whole(whole.cumulative, np.concatenate([[0], np.cumsum(whole.cumulative)]), passed)


_NOTHING = _Whole(
    np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros((FEW + 1, FEW + 1), dtype=np.int64)
)


def block_demands(
    demands: Sequence[Demand], codes: Sequence[Ints], wholes: Sequence[Distribution | None]
) -> BlockDemands:
    """Put together, with codes that are small where only their equality counts, and whether they are 0."""
    small = [
        np.unique(np.append(0, of_column), return_inverse=True)[1][1:] if demand.t is None else of_column
        for demand, of_column in zip(demands, codes, strict=True)
    ]
    return BlockDemands(tuple(demands), tuple(small), tuple(wholes))
