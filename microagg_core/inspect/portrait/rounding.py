"""Round numbers between values: what a person would cut a scale at, and what no record's value has to be."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from microagg_core.arrays import Floats

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


def between(low: float, high: float) -> float | None:
    """The shortest decimal between two numbers, near their middle; None where there is no float between them.

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
    """Multiples of a round step between two numbers, a quarter more than ``most`` or fewer.

    Args:
        low: no cut is below.
        high: no cut is above.
        most: intervals that are asked for, about.
        unit: days or seconds since 1970 are cut as calendars and clocks are; else None.
        whole: whether only whole numbers lie between; where each may have an interval of its own, cuts are halves.

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
    """Cuts of a scale of magnitudes between two positive numbers, ``most`` or fewer.

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
    """The round number that is at least so much, as digits and a power of ten; whether it is to be a whole one."""
    exponent = math.floor(math.log10(apart))
    steps = [(digits, exponent + power) for digits, power in _STEPS]
    usable = [step for step in steps if not whole or step != (25, -1)]
    return next(((d, e) for d, e in usable if float(f"{d}e{e}") >= apart), usable[-1])


def _multiples(low: float, high: float, step: int, exponent: int) -> Floats:
    """Multiples of ``step * 10**exponent``, each the nearest float to what is written."""
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
    days = _first_days([number * step - _MONTHS_BEFORE_1970 for number in numbers])
    return days[(days >= low) & (days <= high)]


def _first_days(months: Sequence[int]) -> Floats:
    return np.array(months, dtype="M8[M]").astype("M8[D]").astype(np.int64).astype(np.float64)
