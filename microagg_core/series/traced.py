"""How many units share each trace, counted range by range."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Ints, UInt64s
from microagg_core.series.ranges import State

#: Traces, how many units have each, and whether a live one has.
_Counts = tuple[UInt64s, UInt64s, Ints, Bools]


def _no_counts() -> _Counts:
    none = np.empty(0, dtype=np.uint64)
    return none, none, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)


@dataclass
class TraceCounter:
    """The traces of all units that were ever released, with how many units have each, and whether a live one has.

    Units that wait were never released, and are not counted. Those that are gone, or were erased, are in the files of
    the nights before, and hide the others there as ever.

    >>> TraceCounter().smallest() is None
    True
    """

    _counts: _Counts = field(default_factory=_no_counts)
    #: What was counted since, range by range; put together when it is as much as what there is, so that few sorts do.
    _ranges: list[_Counts] = field(default_factory=list)

    def add(self, table: pa.Table) -> None:
        """Count the units of one more range."""
        state = table["state"].to_numpy()
        is_released = table["last"].to_numpy() >= 0
        t0, t1 = (table[name].to_numpy()[is_released] for name in ("t0", "t1"))
        units = np.ones(len(t0), dtype=np.int64)
        self._ranges.append(_merged(t0, t1, units, state[is_released] == State.LIVE))
        if sum(len(counts[0]) for counts in self._ranges) >= len(self._counts[0]):
            self._all()

    def smallest(self) -> int | None:
        """How many units share the rarest trace; None if no unit was ever released."""
        _, _, units, _ = self._all()
        return int(units.min()) if len(units) else None

    def rarer_than(self, k: int) -> int:
        """How many units have a trace that a live unit has and fewer than k units share."""
        _, _, units, live = self._all()
        return int(units[live & (units < k)].sum())

    def _all(self) -> _Counts:
        if self._ranges:
            pieces = [self._counts, *self._ranges]
            self._counts, self._ranges = _merged(*map(np.concatenate, zip(*pieces, strict=True))), []
        return self._counts


def _merged(t0: UInt64s, t1: UInt64s, units: Ints, live: Bools) -> _Counts:
    """The same with every trace once."""
    if not len(t0):
        return t0, t1, units, live
    order = np.lexsort((t1, t0))
    t0, t1 = t0[order], t1[order]
    is_new = np.concatenate(([True], (t0[1:] != t0[:-1]) | (t1[1:] != t1[:-1])))
    first = np.flatnonzero(is_new)
    return t0[first], t1[first], np.add.reduceat(units[order], first), np.logical_or.reduceat(live[order], first)
