"""Where a picture of many records is cut, so that it shows their shape and none of them.

Cuts are round numbers between the 1st and the 99th percentile: the outermost intervals are open, and hold many records.
A cut that would be the value of few records is moved a little, or left out; intervals with few are joined with their
neighbours. What most records have (no income at all) does not take part in choosing a scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.inspect.portrait.rounding import between, cuts, decade_cuts

#: How the edges lie: evenly; by magnitude, around zero; each common value for itself; or as many records in each.
Scale = Literal["linear", "log", "values", "quantiles"]
#: Never fewer records than this in an interval or cell, however small k is.
FEWEST = 10
#: Beyond these shares of the records is nothing but two open intervals.
_LOWEST, _HIGHEST = 0.01, 0.99
#: A value that so many records have is a spike: it says nothing of how the others are spread.
_SPIKE = 0.1
#: Where no more records than this have rare values, common values get intervals of their own.
_RARE = 0.02
#: Where the middle half of the records lies within fewer intervals, a scale of magnitudes shows more than an even one;
#: and within fewer than the other, an even one shows nothing.
_FEW_OF_MIDDLE, _LEAST_OF_MIDDLE = 2.5, 1.0
#: Where other scales leave fewer edges, as of two clumps far apart, equal shares may show more.
_LEAST_EDGES = 4
#: A scale of magnitudes is for values that differ by at least this factor.
_LEAST_FACTOR = 10.0
#: A cut is moved by a twentieth of what lies between it and the next, or by up to five; a date by as many days.
_MOVES = tuple(sign * step for step in range(1, 6) for sign in (-1, 1))
_PARTS = 20
_GREATEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Sight:
    """The values of some records that a scale is chosen for, all finite and in one unit."""

    values: Floats
    #: Days or seconds since 1970; None: whatever the column's own unit is.
    unit: str | None
    #: Records that an interval has at least.
    fewest: int
    #: Intervals at most.
    most: int

    @cached_property
    def counted(self) -> tuple[Floats, Ints]:
        """Distinct values and their records."""
        return np.unique(self.values, return_counts=True)

    @cached_property
    def common(self) -> Floats:
        """The values of so many records that none stands out."""
        distinct, counts = self.counted
        return distinct[counts >= self.fewest]

    @property
    def n_common(self) -> int:
        """How many records have one of these."""
        counts = self.counted[1]
        return int(counts[counts >= self.fewest].sum())

    @property
    def _is_spike(self) -> Bools:
        return self.counted[1] >= max(self.fewest, _SPIKE * len(self.values))

    @cached_property
    def spikes(self) -> Floats:
        """The values of very many records."""
        return self.counted[0][self._is_spike]

    @cached_property
    def spread(self) -> Floats:
        """All other values, ascending."""
        distinct, counts = self.counted
        return np.repeat(distinct[~self._is_spike], counts[~self._is_spike])

    def records_between(self, places: Floats) -> Ints:
        """Records in the intervals between these places, the outermost two open."""
        distinct, counts = self.counted
        up_to = np.concatenate([[0], np.cumsum(counts)])[np.searchsorted(distinct, places)]
        return np.diff(up_to, prepend=0, append=len(self.values))

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        distinct = self.counted[0]
        return bool((np.floor(distinct) == distinct).all() and (np.abs(distinct) < 2.0**52).all())

    def quantile(self, share: float) -> float:
        """The value up to which this share of the spread ones lies."""
        return float(self.spread[min(len(self.spread) - 1, int(share * len(self.spread)))])

    def records_at(self, place: float) -> int:
        """How many records have this very value."""
        distinct, counts = self.counted
        at = int(np.searchsorted(distinct, place))
        return int(counts[at]) if at < len(distinct) and distinct[at] == place else 0


@dataclass(frozen=True)
class Edges:
    """The edges of intervals, ascending, and how they lie."""

    places: Floats
    scale: Scale

    def counts(self, values: Floats) -> Ints:
        """Records in each interval, one more than there are edges; a value at an edge is above it."""
        return np.bincount(np.searchsorted(self.places, values, side="right"), minlength=len(self.places) + 1)


def find_edges(sight: Sight) -> Edges:
    """Edges of intervals with at least ``fewest`` records, the outermost two open; none where there is one interval.

    >>> ages = np.repeat(np.arange(20.0, 70.0), 40)
    >>> find_edges(Sight(ages, None, 10, 10)).places.tolist()
    [25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0]
    """
    if len(sight.values) < 2 * sight.fewest:
        return Edges(np.zeros(0), "linear")
    if _has_few_values(sight):
        return _of_many(sight, _of_common(sight))
    edges = _of_many(sight, _of_spread(sight))
    if len(edges.places) >= _LEAST_EDGES:
        return edges
    shares = _of_many(sight, Edges(_of_shares(sight), "quantiles"))
    return shares if len(shares.places) > len(edges.places) else edges


def frame_edges(sight: Sight) -> Edges:
    """The same for the side of a picture that has no open intervals: common values get a border each way."""
    edges, common = find_edges(sight), sight.common
    if edges.scale != "values" or not len(common):
        return edges
    with np.errstate(over="ignore"):
        margin = float(np.diff(common).min()) / 2 if len(common) > 1 else max(0.5, abs(float(common[0])) / 2)
        outer = np.clip([common[0] - margin, common[-1] + margin], -_GREATEST, _GREATEST)
    return Edges(np.unique(np.concatenate([outer[:1], edges.places, outer[1:]])), "values")


def _of_many(sight: Sight, wanted: Edges) -> Edges:
    """The edges that are left once none is the value of few records, and no interval has few."""
    moved = [_off_few(sight, wanted.places, i) for i in range(len(wanted.places))]
    apart = np.unique(np.array([place for place in moved if place is not None]))
    return Edges(_joined(apart, sight.records_between(apart), sight.fewest), wanted.scale)


def _has_few_values(sight: Sight) -> bool:
    n_rare = len(sight.values) - sight.n_common
    few = n_rare <= max(sight.fewest, _RARE * len(sight.values)) and len(sight.common) <= sight.most
    return few or len(sight.spread) < 2 * sight.fewest


def _of_common(sight: Sight) -> Edges:
    pairs = zip(sight.common[:-1].tolist(), sight.common[1:].tolist(), strict=True)
    places = [between(low, high) for low, high in pairs]
    return Edges(np.array([place for place in places if place is not None]), "values")


def _of_spread(sight: Sight) -> Edges:
    """An even scale where it shows the middle, else one of magnitudes, else of shares; and spikes for themselves."""
    low, high = sight.quantile(_LOWEST), sight.quantile(_HIGHEST)
    even = cuts(low, high, sight.most, sight.unit, sight.whole)
    if _shows(sight, even, _FEW_OF_MIDDLE):
        chosen = Edges(even, "linear")
    elif sight.unit is None and len(sized := _of_magnitudes(sight, low, high)):
        chosen = Edges(sized, "log")
    elif _shows(sight, even, _LEAST_OF_MIDDLE):
        chosen = Edges(even, "linear")
    else:
        chosen = Edges(_of_shares(sight), "quantiles")
    return Edges(np.unique(np.concatenate([chosen.places, _around_spikes(sight)])), chosen.scale)


def _shows(sight: Sight, even: Floats, intervals: float) -> bool:
    """Whether the middle half of the records takes so many intervals."""
    if len(even) < 2:
        return False
    return bool(sight.quantile(0.75) / 2 - sight.quantile(0.25) / 2 >= intervals * (even[1] / 2 - even[0] / 2))


def _of_magnitudes(sight: Sight, low: float, high: float) -> Floats:
    sizes = np.sort(np.abs(sight.spread[sight.spread != 0]))
    if not len(sizes) or sizes[int(_HIGHEST * len(sizes))] / _LEAST_FACTOR < sizes[len(sizes) // 4]:
        return np.zeros(0)
    least, both = float(sizes[len(sizes) // 20]), low < 0 < high
    most = max(1, sight.most // 2) if both else sight.most
    sides = [sign * decade_cuts(least, size, most) for sign, size in ((-1, -low), (1, high)) if size > least]
    return np.sort(np.concatenate(sides)) if sides else np.zeros(0)


def _of_shares(sight: Sight) -> Floats:
    around = [((i - 0.25) / sight.most, (i + 0.25) / sight.most) for i in range(1, sight.most)]
    places = [between(sight.quantile(low), sight.quantile(high)) for low, high in around]
    return np.unique(np.array([place for place in places if place is not None]))


def _around_spikes(sight: Sight) -> Floats:
    """An edge on each side of a spike that has other records, as near as lets enough of these lie between."""
    places = []
    for spike in sight.spikes.tolist():
        above, below = sight.spread[sight.spread > spike], sight.spread[sight.spread < spike]
        if len(above) >= sight.fewest:
            places.append(between(spike, float(above[sight.fewest - 1])))
        if len(below) >= sight.fewest:
            places.append(between(float(below[-sight.fewest]), spike))
    return np.array([place for place in places if place is not None])


def _off_few(sight: Sight, places: Floats, i: int) -> float | None:
    """An edge, or one near it that is the value of no record, if it is that of few; None where there is none."""
    place, gaps = float(places[i]), np.diff(places)
    near = gaps[max(0, i - 1) : i + 1]
    gap = float(near.min()) if len(near) else abs(place) / 2 or 1.0
    step = 1.0 if sight.unit == "days" else gap / _PARTS
    moves = (move * step for move in _MOVES)
    for moved in (place, *(float(f"{place + move:.12g}") for move in moves)):
        there = sight.records_at(moved)
        if there >= sight.fewest or not there:
            return moved
    return place - 0.5 if sight.whole and sight.unit is None else None


def _joined(places: Floats, counts: Ints, fewest: int) -> Floats:
    """The edges left when intervals with fewer records are joined with the next, and the last with the one before."""
    kept: list[int] = []
    sizes: list[int] = []
    records = 0
    for i, count in enumerate(counts[:-1].tolist()):
        records += count
        if records >= fewest:
            kept.append(i)
            sizes.append(records)
            records = 0
    records += int(counts[-1])
    while kept and records < fewest:
        kept.pop()
        records += sizes.pop()
    return places[kept]
