"""Metric of a quasi-identifier when groups are made, as a spec declares it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ScaleName = Literal["log1p", "rank", "robust"]


@dataclass(frozen=True)
class Metric:
    """A column's scale as a spec declares it."""

    scale: ScaleName | None = None
    #: Above this value, or this share of the records, all values count as one; at most one of the two.
    top: float | None = None
    top_share: float | None = None


def metric_words(scale: str | None, top: str | None, zeros: str | None) -> str:
    """Say how a column counts when groups are made; ``top`` is a percentage, or whatever else limits it.

    >>> metric_words("rank", "99.5%", "separate")
    'by rank; values above the quantile at 99.5% as that; zeros in groups of their own, where k and other demands allow'
    """
    named = f"the quantile at {top}" if top and top.endswith("%") else top
    parts = (_IN_WORDS.get(scale or ""), f"values above {named} as that" if top else "", _APART if zeros else "")
    return "; ".join(part for part in parts if part)


_IN_WORDS = {"log1p": "by its logarithm (log1p)", "rank": "by rank", "robust": "in interquartile ranges"}
_APART = "zeros in groups of their own, where k and other demands allow"
