"""Scales of pictures: columns in the unit in which they are shown, round numbers, and where many records are cut.

Cuts are round numbers between the 1st and the 99th percentile, so that a picture shows the shape of many records and
none of them: the outermost intervals are open, and hold many records. A cut that would be the value of few records is
moved a little, or left out; intervals with few are joined with their neighbours. What most records have (no income at
all) does not take part in choosing a scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.data.kinds.contract import Kind
from microagg_core.group.metrics.statistics import readable

#: Units in which a picture has numbers, while a person reads a calendar.
_CALENDAR = ("days", "seconds")
#: Significant digits of a number in words: as few of these as tell all numbers apart.
_DIGITS = (6, 10, 13, 17)
#: Of a day, in seconds.
DAY = 86_400
#: Steps of a scale of numbers within a decade: digits, and the power of ten they are at.
_STEPS = ((1, 0), (2, 0), (25, -1), (5, 0), (1, 1))
#: Round steps are far from each other: a step too small by a quarter is better than one twice as large.
_TOO_SMALL = 0.8
#: Cuts of a decade where there is room for as many.
_CUTS_OF_A_DECADE = (("1", "1.5", "2", "3", "5", "7"), ("1", "2", "5"), ("1",))
_SECONDS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)
_DAYS = (1, 2, 7, 14)
_MONTHS = (1, 2, 3, 6, 12, 24, 60)
_DAYS_OF_A_MONTH = 30.4
_MONTHS_BEFORE_1970 = 1970 * 12
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
class ShownColumn:
    """One quasi-identifier, in its unit.

    >>> import pyarrow as pa
    >>> from microagg_core.data.kinds.registry import kind_of
    >>> born = ShownColumn(kind_of("born", pa.date32()))
    >>> born.unit, born.words([-365.0]), ShownColumn(kind_of("income", pa.float64())).words([12000.0, 0.5])
    ('days', ('1969-01-01',), ('12,000', '0.5'))
    >>> ShownColumn(kind_of("year", pa.int16())).words([1945.0, 1960.0])
    ('1945', '1960')
    """

    kind: Kind

    @property
    def unit(self) -> str | None:
        """Days or seconds since 1970; None for the column's own."""
        name = self.kind.unit.name
        return name if name in _CALENDAR else None

    def before(self, column: pa.ChunkedArray | pa.Array) -> Floats:
        ticks, missing = self.kind.ticks(column)
        return np.where(missing, np.nan, ticks.astype(np.float64) / self.kind.ticks_of_value)

    def after(self, column: pa.ChunkedArray | pa.Array) -> Floats:
        ticks, missing = self.kind.reader.ticks(column)
        return np.where(missing, np.nan, ticks.astype(np.float64) / self.kind.unit.ticks)

    def words(self, numbers: Sequence[float]) -> tuple[str, ...]:
        """Write numbers as a person reads them, each differently; of a part of a day, the day that begins next."""
        if pa.types.is_boolean(self.kind.source_type) and {*numbers} <= {0.0, 1.0}:
            return tuple("true" if number else "false" for number in numbers)
        if self.unit is None:
            apart = any(abs(number) >= 10_000 for number in numbers)  # years have no commas
            forms = [[readable(number, digits, apart=apart) for number in numbers] for digits in _DIGITS]
            return tuple(next((words for words in forms if len({*words}) == len({*numbers})), forms[-1]))
        words = [self._moment(number) for number in numbers]
        midnight = f"T00:00:00{'Z' if words and words[0].endswith('Z') else ''}"
        at_midnight = all(word.endswith(midnight) for word in words)
        return tuple(word.removesuffix(midnight) if at_midnight else word for word in words)

    def _moment(self, number: float) -> str:
        if self.unit == "seconds" and number != math.floor(number):
            seconds, micros = divmod(round(number * 10**6), 10**6)  # as one number it may need more than 64 bits
            return f"{np.datetime64(seconds, 's')}.{micros:06d}"
        return str(self.kind.shown(math.ceil(number) * self.kind.unit.ticks))


@dataclass(frozen=True)
class DrawnColumn:
    """One quasi-identifier of the drawn records, before and after; NaN where a value is missing."""

    shown: ShownColumn
    before: Floats
    after: Floats

    @property
    def there(self) -> Bools:
        """Records that have a value; infinite ones are in no release."""
        return np.isfinite(self.before) & np.isfinite(self.after)


def between(low: float, high: float) -> float | None:
    """Find the shortest decimal between two numbers, near their middle; None where there is no float between them.

    >>> between(1.0, 2.0), between(19_873.2, 24_611.8), between(1.0, 1.0)
    (1.5, 20000.0, None)
    """
    middle = low / 2 + high / 2
    for digits in range(1, 18):
        rounded = float(f"{middle:.{digits}g}")
        if low < rounded < high:
            return rounded
    return None


def cuts(low: float, high: float, most: int, unit: str | None, whole: bool) -> Floats:
    """Find multiples of a round step between two numbers, a quarter more than ``most`` or fewer.

    Days and seconds since 1970 are cut as calendars and clocks are. Where only whole numbers lie between, and each may
    have an interval of its own, cuts are halves.

    >>> cuts(1.2, 9.7, 4, None, False).tolist(), cuts(0, 5, 10, None, True).tolist()
    ([2.0, 4.0, 6.0, 8.0], [0.5, 1.5, 2.5, 3.5, 4.5])
    >>> [str(np.datetime64(int(day), "D")) for day in cuts(0, 3000, 5, "days", True)]
    ['1970-01-01', '1972-01-01', '1974-01-01', '1976-01-01', '1978-01-01']
    """
    apart = (high / most - low / most) * _TOO_SMALL
    if not 0 < apart < math.inf:
        return np.zeros(0)
    if unit == "days":
        return _of_days(low, high, apart)
    if unit == "seconds" and apart > _SECONDS[0] / 2:
        fitting = next((step for step in _SECONDS if step >= apart), None)
        if fitting is None:
            return _of_days(low / DAY, high / DAY, apart / DAY) * DAY
        return _multiples(low, high, fitting, 0)
    step, exponent = _round_step(apart, whole)
    if whole and (exponent < 0 or (step, exponent) == (1, 0)):
        return np.arange(math.floor(low), math.ceil(high), dtype=np.float64) + 0.5
    return _multiples(low, high, step, exponent)


def decade_cuts(low: float, high: float, most: int) -> Floats:
    """Cut a scale of magnitudes between two positive numbers, ``most`` times or less often.

    >>> decade_cuts(3.0, 400.0, 8).tolist()
    [5.0, 10.0, 20.0, 50.0, 100.0, 200.0]
    """
    first, last = math.floor(math.log10(low)), math.floor(math.log10(high))
    for places in _CUTS_OF_A_DECADE:
        marks = [float(f"{place}e{k}") for k in range(first, last + 1) for place in places]
        marks = [cut for cut in marks if low <= cut <= high]
        if len(marks) <= most:
            return np.array(marks)
    return np.array(marks[:: -(-len(marks) // most)])


def _round_step(apart: float, whole: bool = False) -> tuple[int, int]:
    """Find the round number that is at least so much, as digits and a power of ten."""
    exponent = math.floor(math.log10(apart))
    steps = [(digits, exponent + power) for digits, power in _STEPS]
    usable = [step for step in steps if not whole or step != (25, -1)]
    return next(((d, e) for d, e in usable if float(f"{d}e{e}") >= apart), usable[-1])


def _multiples(low: float, high: float, step: int, exponent: int) -> Floats:
    size = float(f"{step}e{exponent}")
    first, last = math.ceil(low / size), math.floor(high / size)
    return np.unique(np.array([float(f"{i * step}e{exponent}") for i in range(first, last + 1)]))


def _of_days(low: float, high: float, apart: float) -> Floats:
    """Days, weeks, months or years, in days since 1970."""
    fitting = next((step for step in _DAYS if step >= apart), None)
    if fitting is not None:
        return _multiples(low, high, fitting, 0)
    step = next((m for m in _MONTHS if m * _DAYS_OF_A_MONTH >= apart), None)
    if step is None:
        digit, exponent = _round_step(apart / _DAYS_OF_A_MONTH / 12, whole=True)
        step = 12 * digit * 10**exponent
    first, last = (int(np.datetime64(int(day), "D").astype("M8[M]").astype(int)) for day in (low, high))
    numbers = range((first + _MONTHS_BEFORE_1970) // step, (last + _MONTHS_BEFORE_1970) // step + 1)
    months = np.array([number * step - _MONTHS_BEFORE_1970 for number in numbers], dtype="M8[M]")
    days = months.astype("M8[D]").astype(np.int64).astype(np.float64)
    return days[(days >= low) & (days <= high)]


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
        return np.unique(self.values, return_counts=True)

    @cached_property
    def common(self) -> Floats:
        distinct, counts = self.counted
        return distinct[counts >= self.fewest]

    @property
    def _is_spike(self) -> Bools:
        return self.counted[1] >= max(self.fewest, _SPIKE * len(self.values))

    @cached_property
    def spikes(self) -> Floats:
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
        distinct = self.counted[0]
        return bool((np.floor(distinct) == distinct).all() and (np.abs(distinct) < 2.0**52).all())

    def quantile(self, share: float) -> float:
        return float(self.spread[min(len(self.spread) - 1, int(share * len(self.spread)))])

    def records_at(self, place: float) -> int:
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
    """Find edges of intervals with at least ``fewest`` records, the outermost two open; none of one interval.

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
    """Find edges of a picture without open intervals: common values get a border each way."""
    edges, common = find_edges(sight), sight.common
    if edges.scale != "values" or not len(common):
        return edges
    with np.errstate(over="ignore"):
        margin = float(np.diff(common).min()) / 2 if len(common) > 1 else max(0.5, abs(float(common[0])) / 2)
        outer = np.clip([common[0] - margin, common[-1] + margin], -_GREATEST, _GREATEST)
    return Edges(np.unique(np.concatenate([outer[:1], edges.places, outer[1:]])), "values")


def _of_many(sight: Sight, wanted: Edges) -> Edges:
    moved = [_off_few(sight, wanted.places, i) for i in range(len(wanted.places))]
    apart = np.unique(_there(moved))
    return Edges(_joined(apart, sight.records_between(apart), sight.fewest), wanted.scale)


def _has_few_values(sight: Sight) -> bool:
    counts = sight.counted[1]
    n_rare = int(counts[counts < sight.fewest].sum())
    few = n_rare <= max(sight.fewest, _RARE * len(sight.values)) and len(sight.common) <= sight.most
    return few or len(sight.spread) < 2 * sight.fewest


def _of_common(sight: Sight) -> Edges:
    pairs = zip(sight.common[:-1].tolist(), sight.common[1:].tolist(), strict=True)
    return Edges(_there(between(low, high) for low, high in pairs), "values")


def _of_spread(sight: Sight) -> Edges:
    """Choose an even scale where it shows the middle, else one of magnitudes or of shares; and cut around spikes."""
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
    return np.unique(_there(between(sight.quantile(low), sight.quantile(high)) for low, high in around))


def _around_spikes(sight: Sight) -> Floats:
    """Put an edge on each side of a spike that has other records, as near as lets enough of these lie between."""
    places = []
    for spike in sight.spikes.tolist():
        above, below = sight.spread[sight.spread > spike], sight.spread[sight.spread < spike]
        if len(above) >= sight.fewest:
            places.append(between(spike, float(above[sight.fewest - 1])))
        if len(below) >= sight.fewest:
            places.append(between(float(below[-sight.fewest]), spike))
    return _there(places)


def _there(places: Iterable[float | None]) -> Floats:
    return np.array([place for place in places if place is not None])


def _off_few(sight: Sight, places: Floats, i: int) -> float | None:
    """Move an edge that is the value of few records to one of no record near it; None where there is none."""
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
