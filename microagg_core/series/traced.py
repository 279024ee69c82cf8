"""How many units share each trace, counted range by range."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Ints, UInt64s
from microagg_core.series.ranges import State


def _no_numbers() -> UInt64s:
    return np.empty(0, dtype=np.uint64)


@dataclass
class TraceCounter:
    """The traces of all units that were ever released, with how many units have each, and whether a live one has.

    Units that wait were never released, and are not counted. Those that are gone, or were erased, are in the files of
    the nights before, and hide the others there as ever.

    >>> TraceCounter().smallest() is None
    True
    """

    _t0: UInt64s = field(default_factory=_no_numbers)
    _t1: UInt64s = field(default_factory=_no_numbers)
    _units: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _live: Bools = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    def add(self, table: pa.Table) -> None:
        """Count the units of one more range."""
        state = table["state"].to_numpy()
        is_released = state != State.HELD
        t0, t1 = (table[name].to_numpy()[is_released] for name in ("t0", "t1"))
        # A range first by itself: it has few traces, and what is counted already is sorted once a range.
        here = _merged(t0, t1, np.ones(len(t0), dtype=np.int64), state[is_released] == State.LIVE)
        so_far = (self._t0, self._t1, self._units, self._live)
        self._t0, self._t1, self._units, self._live = _merged(
            *(np.concatenate(both) for both in zip(so_far, here, strict=True))
        )

    def smallest(self, live: bool = False) -> int | None:
        """How many units share the rarest trace; ``live``: the rarest that a live unit has. None if there is none."""
        counts = self._units[self._live] if live else self._units
        return int(counts.min()) if len(counts) else None

    def rarer_than(self, k: int) -> int:
        """How many units have a trace that a live unit has and fewer than k units share."""
        return int(self._units[self._live & (self._units < k)].sum())


def _merged(t0: UInt64s, t1: UInt64s, units: Ints, live: Bools) -> tuple[UInt64s, UInt64s, Ints, Bools]:
    """The same with every trace once."""
    if not len(t0):
        return t0, t1, units, live
    order = np.lexsort((t1, t0))
    t0, t1 = t0[order], t1[order]
    is_new = np.concatenate(([True], (t0[1:] != t0[:-1]) | (t1[1:] != t1[:-1])))
    first = np.flatnonzero(is_new)
    return t0[first], t1[first], np.add.reduceat(units[order], first), np.logical_or.reduceat(live[order], first)
