"""A portrait of a release: distributions, pairs, correlations, regressions before and after; for the operator alone.

It is what the operator's page draws. Every count in it is of so many records that none stands out: intervals and cells
with fewer are joined with their neighbours or left out, and no edge of one is the value of a record, least of all the
smallest or the greatest. Only what summaries count may be of few, and then pages do not say of how many.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from microagg_core.inspect.edits import EditCount
from microagg_core.plain import PlainGaps, PlainNumber

#: Of records, below which the quantiles of a summary are.
PERCENTS = (5, 25, 50, 75, 95)


@dataclass(frozen=True)
class Distribution:
    """One quasi-identifier, by intervals: one more than there are edges, the outermost two open."""

    column: str
    #: The unit of the edges: days for dates, seconds for timestamps, and mostly the column's own.
    unit: str | None
    edges: tuple[float, ...]
    #: The edges as a person reads them, such as dates.
    edge_words: tuple[str, ...]
    #: Records in each interval, as they came and as they are released.
    before: tuple[int, ...]
    after: tuple[int, ...]
    missing: int
    #: How the edges lie: "linear", "log" (by magnitude), "values" (one common value each), "quantiles" (equal shares).
    scale: str = "linear"
    #: Where each interval is that of one common value: these, as a person reads them; else empty.
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counted:
    """Records of which something holds, as they came and as they are released."""

    before: int
    after: int


@dataclass(frozen=True)
class Quantile:
    """A quantile of the input, and how far from it the true one is at most; of dates, a day, a month or a year."""

    value: float | str
    within: float = 0.0


@dataclass(frozen=True)
class Summary:
    """One quasi-identifier in figures, of the records that have a value."""

    column: str
    #: Days for dates, seconds for timestamps, whose quantiles are texts; None for the column's own.
    unit: str | None
    records: int
    #: Those that have a zero, and those that have one of the five most frequent other values; None for dates.
    zeros: Counted | None
    heaps: Counted | None
    #: The quantiles at PERCENTS; None where it would be a value of few records.
    before: tuple[Quantile | None, ...]
    after: tuple[float | str, ...]


@dataclass(frozen=True)
class CategoryTable:
    """Categories of one quasi-identifier over all released records: the most frequent, in order if they have one."""

    column: str
    categories: tuple[str, ...]
    #: Records with each, as they came and as they are released.
    before: tuple[int, ...]
    after: tuple[int, ...]
    #: How many others there are, and the records with one of them.
    others: int
    others_before: int
    others_after: int
    #: Half of the chance that two records, drawn with replacement, differ.
    variation: float


@dataclass(frozen=True)
class Mean:
    """A released combination of two quasi-identifiers, and how many of the drawn records have it."""

    x: float
    y: float
    records: int


@dataclass(frozen=True)
class Pair:
    """Two quasi-identifiers: the cloud of records as they came, in cells, and the means that stand for them."""

    x: str
    y: str
    #: Of the cells; records beyond the outermost are in none.
    x_edges: tuple[float, ...]
    y_edges: tuple[float, ...]
    #: The edges as a person reads them.
    x_words: tuple[str, ...]
    y_words: tuple[str, ...]
    #: Records as they came, rows of cells from the lowest y; 0 where there are too few to be shown.
    before: tuple[tuple[int, ...], ...]
    means: tuple[Mean, ...]


@dataclass(frozen=True)
class Correlations:
    """Exact correlations of all pairs of quasi-identifiers; NaN where a pair has none."""

    columns: tuple[str, ...]
    before: PlainGaps
    after: PlainGaps


@dataclass(frozen=True)
class Fit:
    """A linear model by least squares: a coefficient and its standard error for each term.

    Both are NaN for a term that is left out, as it follows from those before it, or few records decide it.
    """

    records: int
    coefficients: tuple[PlainNumber, ...]
    errors: tuple[PlainNumber, ...]
    r_squared: PlainNumber


@dataclass(frozen=True)
class Regression:
    """A model that the spec names, of the records as they came and as they are released."""

    formula: str
    #: The constant first; a category's levels as "column=level", rare ones together.
    terms: tuple[str, ...]
    before: Fit
    after: Fit
    #: The level of each category that the others are compared with, as "column=level".
    bases: tuple[str, ...] = ()


@dataclass(frozen=True)
class WeightedTotals:
    """Survey weights: of each column the weighted total as it came and as it is released; of the weight, its sum."""

    weight: str
    #: Columns that have a total, with both.
    totals: tuple[tuple[str, float, float], ...]
    #: The largest difference of a group's totals, as a share of them; and the largest share that a record has of the
    #: weight of its group.
    farthest: float
    largest_share: float
    #: The share of the weighted variance that is lost, in percent.
    l_sse: float


@dataclass(frozen=True)
class Portrait:
    """All of it; pictures are of ``drawn`` of the ``records``, correlations and regressions of all."""

    records: int
    drawn: int
    distributions: tuple[Distribution, ...] = ()
    pairs: tuple[Pair, ...] = ()
    correlations: Correlations | None = None
    regressions: tuple[Regression, ...] = ()
    #: What is not shown, and why, a sentence each.
    left_out: tuple[str, ...] = ()
    summaries: tuple[Summary, ...] = ()
    categories: tuple[CategoryTable, ...] = ()
    #: What the spec's rules between columns count, by rule.
    edits: dict[str, EditCount] = field(default_factory=dict)
    weighted: WeightedTotals | None = None
