"""Columns in figures, before and after: shares of zeros and of heaps, and quantiles.

A mean shows neither: a column that is zero for most, or that people answer in round numbers, comes out smooth.

*Heaps* are the five most frequent values other than zero. Five, whatever they are: the incomes of a survey heap at
hundreds, minutes at 15 and 30, so no base of round numbers fits all columns; and a column without heaps has next to no
records at its five. Before and after have five values each: those of the release are there to be counted by whoever
reads it, and those of the input are named to nobody.

A quantile of the input is the value of somebody, or lies between two. It is told, to the operator as to everybody, as
the shortest interval of decimals (of days, months, years for dates) in which enough records lie that none stands out,
or as it is where enough records have that very value; and only where enough records lie on either side. So it is no
equation, as a mean of neighbours would be: with the mean of a group that has all of these but one, that gives the last.
Quantiles of the release can be computed by whoever reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats
from microagg_core.group.metrics.statistics import significant
from microagg_core.inspect.portrait.contract import PERCENTS, Counted, Quantile, Summary
from microagg_core.inspect.portrait.scales import DrawnColumn, ShownColumn

#: Values that make heaps.
_HEAPS = 5
#: Digits of a quantile at most.
_DIGITS = 6
#: Powers of ten that are tried, from the least of which an interval can have enough records.
_TRIED = 3
_GREATEST, _GREATEST_EXPONENT = float(np.finfo(np.float64).max), 308
#: Parts of the calendar that are tried, from the least, which is the column's unit.
_CALENDARS = {"days": ("D", "M", "Y"), "seconds": ("s", "m", "h", "D", "M", "Y")}


def summaries_of(columns: Iterable[DrawnColumn], fewest: int) -> list[Summary]:
    """Summarize the numbers, dates and timestamps of which enough records have a value.

    >>> from microagg_core.data.kinds.registry import kind_of
    >>> before, after = np.repeat([0.0, 4.0, 9.0], [40, 40, 5]), np.repeat([0.0, 5.0], [20, 65])
    >>> (x,) = summaries_of([DrawnColumn(ShownColumn(kind_of("x", pa.float64())), before, after)], 10)
    >>> x.zeros, [quantile and quantile.value for quantile in x.before], x.after
    (Counted(before=40, after=20), [None, 0.0, 4.0, 4.0, None], (0.0, 5.0, 5.0, 5.0, 5.0))
    """
    shown = (column for column in columns if not pa.types.is_boolean(column.shown.kind.source_type))
    return [_summary(column, fewest) for column in shown if int(column.there.sum()) >= 2 * fewest]


def _summary(column: DrawnColumn, fewest: int) -> Summary:
    there, shown = column.there, column.shown
    before, after = (np.unique(side[there], return_counts=True) for side in (column.before, column.after))
    zeros = Counted(*(int(counts[values == 0].sum()) for values, counts in (before, after)))
    heaps = Counted(*(int(np.sort(counts[values != 0])[-_HEAPS:].sum()) for values, counts in (before, after)))
    came, released = (np.repeat(*side) for side in (before, after))
    return Summary(
        column=shown.kind.name,
        unit=shown.unit,
        records=len(came),
        zeros=None if shown.unit else zeros,
        heaps=None if shown.unit else heaps,
        before=tuple(common_quantile(came, percent, fewest, shown) for percent in PERCENTS),
        after=tuple(_as_it_is(_quantile(released, percent, shown), shown) for percent in PERCENTS),
    )


def _quantile(ordered: Floats, percent: int, shown: ShownColumn) -> float:
    """Find the quantile as pandas does; between two days or seconds there is none, and it is the earlier."""
    low, rest = divmod((len(ordered) - 1) * percent, 100)
    if shown.unit or not rest or ordered[low] == ordered[low + 1]:
        return float(ordered[low])
    return float(ordered[low] * (1 - rest / 100) + ordered[low + 1] * (rest / 100))


def common_quantile(ordered: Floats, percent: int, fewest: int, shown: ShownColumn) -> Quantile | None:
    """Tell a quantile as far as it is common to ``fewest`` of the values, which ascend; None where nothing is.

    >>> from microagg_core.data.kinds.registry import kind_of
    >>> incomes, shown = np.arange(10_000.0, 30_000.0, 7.0), ShownColumn(kind_of("income", pa.float64()))
    >>> common_quantile(incomes, 50, 10, shown), common_quantile(incomes[:150], 5, 10, shown)
    (Quantile(value=20000.0, within=50.0), None)
    """
    if min(percent, 100 - percent) * len(ordered) < 100 * fewest:
        return None
    quantile = _quantile(ordered, percent, shown)
    if np.searchsorted(ordered, quantile, "right") - np.searchsorted(ordered, quantile) >= fewest:
        return Quantile(_as_it_is(quantile, shown))
    if shown.unit:
        return _in_calendar(ordered, quantile, fewest, shown)
    return _in_decimals(ordered, quantile, fewest)


@np.errstate(over="ignore")
def _in_decimals(ordered: Floats, quantile: float, fewest: int) -> Quantile | None:
    """Round by the least power of ten for which enough values lie within what is rounded alike, and not at its ends."""
    place = int(np.searchsorted(ordered, quantile))
    near = np.abs(ordered[max(0, place - fewest) : place + fewest] - quantile)
    first = math.ceil(math.log10(min(np.partition(near, fewest - 1)[fewest - 1], _GREATEST)))
    if quantile:
        first = max(first, math.floor(math.log10(abs(quantile))) + 1 - _DIGITS)
    for exponent in range(first, min(first + _TRIED, _GREATEST_EXPONENT)):
        value, half = float(f"{round(quantile / float(f'1e{exponent}'))}e{exponent}"), float(f"5e{exponent - 1}")
        inside = np.searchsorted(ordered, value + half) - np.searchsorted(ordered, value - half, "right")
        if inside >= fewest:
            return Quantile(value, half)
    return None


def _in_calendar(ordered: Floats, quantile: float, fewest: int, shown: ShownColumn) -> Quantile | None:
    """Name the least part of the calendar in which the quantile and enough values lie."""
    parts = _CALENDARS[shown.unit or ""]
    moment, zone = np.array([math.floor(quantile)]), "Z" * shown.words([quantile])[0].endswith("Z")
    for part in parts:
        first = moment.astype(f"M8[{parts[0]}]").astype(f"M8[{part}]")
        ends = np.concatenate([first, first + 1]).astype(f"M8[{parts[0]}]").astype(np.int64)
        if np.diff(np.searchsorted(ordered, ends))[0] >= fewest:
            return Quantile(f"{first[0]}{zone}" if part in "smh" else str(first[0]))
    return None


def _as_it_is(value: float, shown: ShownColumn) -> float | str:
    return shown.words([value])[0] if shown.unit else significant(value)
