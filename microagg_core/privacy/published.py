"""Which figures of information loss may be published: those that cannot be solved for single records.

A record's distance from its group's mean is unknown to a reader; there are as many free unknowns for each attribute as
records less groups. Figures are equations in them, so they are published only where unknowns abound, over the whole
release, and to six significant digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from microagg_core.kinds.contract import Kind
from microagg_core.metrics.figures import AttributeFigures, CorrelationChange, Figures
from microagg_core.metrics.moments import Moments
from microagg_core.metrics.statistics import (
    AttributeLosses,
    LossStatistics,
    attribute_losses,
    correlation_change,
    losses_of,
    significant,
)

_FREE_FOR_TOTALS = 7
_FREE_FOR_ATTRIBUTES = 50


def published_figures(
    statistics: LossStatistics, n_groups: int, kinds: Sequence[Kind], moments: Sequence[Moments], proved: Figures
) -> Figures:
    """The figures that may be published of so many records and groups; ``moments`` are those of what is released."""
    free = statistics.records - n_groups
    if free < _FREE_FOR_TOTALS:
        return figures_of_few(statistics.records)
    figures = Figures(records=statistics.records) | _totals(statistics) | proved
    if free < _FREE_FOR_ATTRIBUTES:
        return figures | Figures(withheld="figures by attribute: the release is too small for them")
    attributes = zip(kinds, attribute_losses(statistics), moments, strict=True)
    figures |= Figures(attributes={kind.name: _attribute(kind, losses, after) for kind, losses, after in attributes})
    return figures | Figures(correlation_change=_correlations(statistics)) if len(kinds) > 1 else figures


def figures_of_few(records: int) -> Figures:
    """What is said of so few records that every figure would tell of single ones."""
    return Figures(records=records, withheld="the release is too small for figures that do not tell of single records")


def _totals(statistics: LossStatistics) -> Figures:
    losses = losses_of(statistics)
    return Figures(
        sse=_published(losses.sse),
        sst=_published(losses.sst),
        l_sse=_published(losses.l_sse),
        sde=_published(losses.sde),
        sdt=_published(losses.sdt),
        l_e=_published(losses.l_e),
    )


def _correlations(statistics: LossStatistics) -> CorrelationChange:
    change = correlation_change(statistics)
    rounded = {"mean": _published(change.mean), "largest": _published(change.largest)}
    return change.model_copy(update=rounded)


def _attribute(kind: Kind, losses: AttributeLosses, after: Moments) -> AttributeFigures:
    return AttributeFigures(
        unit=kind.unit.name,
        l_sse=_published(losses.l_sse),
        il1s=_published(losses.il1s),
        mean=_mean(kind, after) if after.n else None,  # nothing but missing values has none
        variance=_squared(after.deviation / kind.unit.ticks),
        variance_kept=_published(losses.variance_kept),
    )


def _mean(kind: Kind, after: Moments) -> float | str:
    """The mean in the kind's unit: as a number to six digits, or as its text."""
    mean = kind.shown(float(after.origin) + after.mean)
    return mean if isinstance(mean, str) else significant(mean)


def _squared(deviation: float) -> float | None:
    """The variance; None where no float is large enough for it, since JSON has no infinity."""
    return _published(deviation * deviation)


def _published(value: float | None) -> float | None:
    """A figure to six significant digits; None where there is none that JSON could hold."""
    return significant(value) if value is not None and math.isfinite(value) else None
