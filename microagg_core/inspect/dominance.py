"""The rule of dominance: no figure is so much one group's that it tells what that group's records were.

A released figure is a sum over groups, of which a reader knows the means. Statistical offices ask of the total of a
cell that whoever knows the second-largest contribution, and takes it off, comes no nearer to the largest than some
percent of it (the p % rule). Here a contribution is a group's, which is at least that of any of its records.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass

from microagg_core.group.metrics.losses import percent

#: What all but the two largest groups make of a sum is at least this share of what the largest makes. A reader who
#: guesses the rest to within a fifth, from the means beside it, is then off by 21 % of the largest. Most sums are of
#: squares, and 1.1 ** 2 = 1.21: so he is off by a tenth of how far each record lies from its group's mean, at least.
REST_OF_LARGEST = 0.21 / 0.2
#: Digits of a figure that no group dominates.
MOST_DIGITS = 6


@dataclass(frozen=True)
class Dominated:
    """A sum over groups, with what the two that contribute most make of it."""

    total: float
    first: float
    second: float

    @property
    def lacking(self) -> float:
        """By how much the rest falls short of the rule; as much has to be hidden by rounding.

        >>> round(Dominated(10.0, 8.0, 1.5).lacking, 6), Dominated(20.0, 8.0, 1.5).lacking
        (7.9, 0.0)
        """
        rest = max(self.total - self.first - self.second, 0.0)
        return max(REST_OF_LARGEST * self.first - rest, 0.0)


@dataclass(frozen=True)
class Rounded:
    """A figure as it is published, and how far from it the true one is at most; 0 stands for six digits."""

    value: float
    within: float = 0.0

    @classmethod
    def computed(cls, value: float, within: float) -> Rounded:
        """A figure computed from others, with no more digits than these give it.

        >>> Rounded.computed(12.3456789, 0.4), Rounded.computed(12.3456789, 0.0)
        (Rounded(value=12.3, within=0.45), Rounded(value=12.3457, within=0.0))
        """
        if not within or not math.isfinite(value):
            return cls(to_digits(value, MOST_DIGITS))
        decimals = -math.floor(math.log10(within))
        return cls(round(value, decimals), float(f"{within + 0.5 * 10.0**-decimals:.2g}"))

    def percent_of(self, whole: Rounded) -> Rounded:
        """A loss from what is lost and of how much.

        >>> Rounded(1.0).percent_of(Rounded(8.0))
        Rounded(value=12.5, within=0.0)
        """
        value = percent(self.value, whole.value)
        relative = whole.within / whole.value if whole.value else 0.0
        return Rounded.computed(value, percent(self.within, whole.value) * (1 + relative) + value * relative)


def hiding(value: float, lacking: float, direction: str = decimal.ROUND_HALF_EVEN) -> Rounded | None:
    """The figure with as many digits as leave it unknown by ``lacking`` both ways; None where not one does.

    >>> hiding(12.3456789, 0.0), hiding(12.3456789, 0.03), hiding(12.3456789, 7.0)
    (Rounded(value=12.3457, within=0.0), Rounded(value=12.3, within=0.05), None)
    """
    if lacking <= 0.0 or not math.isfinite(value):
        return Rounded(to_digits(value, MOST_DIGITS, direction))
    greatest = math.floor(math.log10(abs(value))) if value else 0
    for digits in range(MOST_DIGITS, 0, -1):
        half = 10.0 ** (greatest - digits + 1) / 2
        if half >= lacking:
            within = half if direction == decimal.ROUND_HALF_EVEN else 2 * half
            return Rounded(to_digits(value, digits, direction), float(f"{within:.0e}"))
    return None


def hiding_decimals(value: float, lacking: float) -> Rounded | None:
    """The same of a figure on a scale of its own, such as a correlation's, where 0.00 says something too.

    >>> hiding_decimals(0.001234, 0.004), hiding_decimals(0.4, 0.3)
    (Rounded(value=0.0, within=0.005), None)
    """
    if lacking <= 0.0:
        return hiding(value, 0.0)
    decimals = math.floor(-math.log10(2 * lacking))
    return Rounded(round(value, decimals), float(f"5e-{decimals + 1}")) if decimals >= 1 else None


def to_digits(value: float, digits: int, direction: str = decimal.ROUND_HALF_EVEN) -> float:
    """A number to so many significant digits, in one of decimal's directions.

    >>> to_digits(12.3456789, 3, decimal.ROUND_FLOOR)
    12.3
    """
    if not math.isfinite(value):
        return value
    return float(decimal.Context(prec=digits, rounding=direction).plus(decimal.Decimal(value)))
