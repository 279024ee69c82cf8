"""A portrait from what was drawn and summed up of a release: which records are drawn, and what all of it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from microagg_core.group.metrics.statistics import LossStatistics
from microagg_core.inspect.portrait.clouds import pictures_of, telling_pairs
from microagg_core.inspect.portrait.columns import DrawnColumn
from microagg_core.inspect.portrait.contract import Portrait, Regression
from microagg_core.inspect.portrait.correlating import correlations_of
from microagg_core.inspect.portrait.edges import FEWEST
from microagg_core.inspect.portrait.histograms import distributions_of

#: Records that pictures are of: a share of them is off by a third of a percent at most, mostly.
DRAWN = 100_000
#: And fewer where there are many columns: this many values, before and after, are what the flow can hold (32 MB).
_DRAWN_VALUES = 4_000_000


def drawing_share(records: int, p: int) -> float:
    """The share of a release's records that pictures are made of, where it has ``p`` quasi-identifiers.

    >>> drawing_share(50_000, 4), drawing_share(10**6, 4), drawing_share(10**6, 200)
    (1.0, 0.1, 0.01)
    """
    return min(1.0, min(DRAWN, _DRAWN_VALUES // (2 * max(p, 1))) / max(records, 1))


def fewest_records(k: int) -> int:
    """How many records an interval, a cell or a level has at least.

    >>> fewest_records(3), fewest_records(25)
    (10, 25)
    """
    return max(k, FEWEST)


@dataclass(frozen=True)
class Material:
    """What there is to show of a release."""

    k: int
    records: int
    columns: Sequence[DrawnColumn]
    #: Of all records that were grouped; None where none was.
    statistics: LossStatistics | None
    regressions: Sequence[Regression] = ()
    left_out: Sequence[str] = field(default=())


def compose(material: Material) -> Portrait:
    """The portrait: pictures of the drawn records, correlations of all, and the models as they were computed."""
    fewest, columns = fewest_records(material.k), material.columns
    drawn = len(columns[0].before) if columns else 0
    if material.statistics is None or not drawn:
        return Portrait(material.records, drawn, left_out=tuple(material.left_out))
    names = [column.shown.kind.name for column in columns]
    correlations = correlations_of(names, material.statistics, fewest)
    distributions, left_out = distributions_of(columns, fewest)
    return Portrait(
        records=material.records,
        drawn=drawn,
        distributions=tuple(distributions),
        pairs=tuple(pictures_of(columns, telling_pairs(correlations), fewest)),
        correlations=correlations,
        regressions=tuple(material.regressions),
        left_out=(*material.left_out, *left_out),
    )
