"""Scales of quasi-identifiers as one would compute them by hand, from all values of the column."""

from __future__ import annotations

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """Between two records the quantile lies as far from the first as the share says."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def coordinates(values: Sequence[float], scale: str | None, top: float = math.inf) -> list[float]:
    """The coordinate of each value: limited, mapped, and brought to mean 0 and deviation 1, or to quartiles."""
    limited = [min(value, top) for value in values]
    if scale == "robust":
        median = quantile(limited, 0.5)
        spread = (quantile(limited, 0.75) - quantile(limited, 0.25)) / 1.3489795003921634
        if not spread:  # three quarters of the records have one value
            spread = sum(abs(value - median) for value in limited) / len(limited) * math.sqrt(math.pi / 2)
        return [(value - median) / spread if spread else 0.0 for value in limited]
    if scale == "log1p":
        limited = [math.copysign(math.log1p(abs(value)), value) for value in limited]
    if scale == "rank":
        limited = [sum(other < value for other in limited) + limited.count(value) / 2 for value in limited]
    mean = sum(limited) / len(limited)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in limited) / len(limited))
    return [(value - mean) / deviation if deviation else 0.0 for value in limited]
