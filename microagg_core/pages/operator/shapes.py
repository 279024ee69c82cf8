"""Before and after: distributions, pairs, correlations and the analyses that the spec names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from microagg_core.group.metrics.statistics import readable
from microagg_core.inspect.portrait.contract import Correlations, Distribution, Fit, Pair, Portrait, Regression
from microagg_core.pages.operator.charts import correlation_chart, distribution_chart, fits_chart, pair_chart
from microagg_core.pages.operator.inputs import ReportInputs
from microagg_core.pages.operator.parts import PageChart, PageSection, PageTable, is_there
from microagg_core.pages.risk_report import percent_in_words
from microagg_core.pages.words import NONE

_UNMEASURED = "Not measured by this run; microagg report SPEC makes the release again, apart, and measures it."
#: Pairs of columns that a table of correlations has, those first that changed most.
_MOST_PAIRS = 60
#: So much of the records' weight in another interval is a shape that looks the same.
_ALIKE, _CHANGED = 0.02, 0.1


def moved_share(one: Distribution) -> float:
    """The share of records that would have to lie in another interval for both shapes to be one.

    >>> round(moved_share(Distribution("x", None, (0.0,), ("0",), (50, 50), (40, 60), 0)), 6)
    0.1
    """
    before, after = (np.asarray(counts, dtype=float) for counts in (one.before, one.after))
    if not before.sum() or not after.sum():
        return 0.0
    return float(np.abs(before / before.sum() - after / after.sum()).sum() / 2)


def distributions_section(inputs: ReportInputs) -> PageSection:
    """Every quasi-identifier, those first whose shape changed most."""
    title, portrait = "Distributions, before and after", inputs.portrait
    if portrait is None or not portrait.distributions:
        return PageSection("distributions", title, (_UNMEASURED, *_left_out(portrait))[-1:])
    ordered = sorted(portrait.distributions, key=lambda one: -moved_share(one))
    return PageSection(
        "distributions",
        title,
        (_headline(ordered), _drawn(portrait)),
        tuple(_distribution(i, one) for i, one in enumerate(ordered)),
        notes=(
            "An area is the records as they came, the line those that are released. Where intervals are of different "
            "widths, the area counts and not the height. The outermost intervals are open: no least and no greatest "
            "value can be read from them.",
            *_left_out(portrait),
        ),
        legend="areas",
    )


def _left_out(portrait: Portrait | None) -> tuple[str, ...]:
    return () if portrait is None else tuple(_sentence(one) for one in portrait.left_out)


def _sentence(words: str) -> str:
    text = words[:1].upper() + words[1:]
    return text if text.endswith(".") else f"{text}."


def _drawn(portrait: Portrait) -> str:
    if portrait.drawn == portrait.records:
        words = f"Of all {portrait.records:,} records"
    else:
        words = f"Of {portrait.drawn:,} records that were drawn from {portrait.records:,}"
    has_missing = any(one.missing for one in portrait.distributions)
    return f"{words}; shares are of those that have a value." if has_missing else f"{words}."


def _headline(ordered: Sequence[Distribution]) -> str:
    shares = [moved_share(one) for one in ordered]
    most, usual = percent_in_words(shares[0]), percent_in_words(shares[len(shares) // 2])
    if len(ordered) == 1:
        return f"{most} of records would have to lie elsewhere for the shape of ‘{ordered[0].column}’ to be as it was."
    if shares[0] < _ALIKE:
        return f"All {len(ordered)} shapes are kept: none differs by more than {most} of its records."
    return (
        f"‘{ordered[0].column}’ changed most: {most} of records would have to lie elsewhere for its shape to be as it "
        f"was. For half of the columns it is at most {usual}."
    )


def _distribution(number: int, one: Distribution) -> PageChart:
    share = moved_share(one)
    word = "is kept" if share < _ALIKE else "is mostly kept" if share < _CHANGED else "changed"
    missing = f" {one.missing:,} records have no value, before and after." if one.missing else ""
    says = f"The shape {word}: {percent_in_words(share)} of records would have to lie elsewhere.{missing}"
    unit = f" ({one.unit})" if one.unit and one.unit != "the column's" else ""
    words = one.values or _intervals(one.edge_words)
    rows = [
        (name, f"{before:,}", f"{after:,}") for name, before, after in zip(words, one.before, one.after, strict=False)
    ]
    table = PageTable.of(f"{one.column}{unit}: records in each interval", ("interval", "before", "after"), rows)
    label = f"Distribution of {one.column} before and after. {says}"
    return PageChart(one.column, distribution_chart(f"d{number}", label, one), says, table)


def _intervals(words: Sequence[str]) -> list[str]:
    """Intervals between edges, in words.

    >>> _intervals(["10", "20"])
    ['below 10', '10 to 20', '20 and above']
    """
    if not words:
        return ["all"]
    inner = [f"{low} to {high}" for low, high in pairwise(words)]
    return [f"below {words[0]}", *inner, f"{words[-1]} and above"]


def pairs_section(inputs: ReportInputs) -> PageSection | None:
    """Clouds of two columns, and the means that stand for them."""
    portrait = inputs.portrait
    if portrait is None or not portrait.pairs:
        return None
    return PageSection(
        "pairs",
        "Pairs: the records, and the means that stand for them",
        (
            "Dots on dark cells: the released means stand where the records are. A dark region without any dot is what "
            "the release no longer shows, unless its means are among those that were not drawn.",
            "A shaded cell has enough records that none stands out; others are left white, and what lies beyond the "
            "outermost cells is not drawn.",
        ),
        tuple(_pair(i, one) for i, one in enumerate(portrait.pairs) if len(one.x_edges) > 1 and len(one.y_edges) > 1),
        legend="dots",
    )


def _pair(number: int, one: Pair) -> PageChart:
    shown = sum(sum(row) for row in one.before)
    carried = sum(mean.records for mean in one.means)
    on_cells = sum(mean.records for mean in one.means if _lies_in_cell(one, mean.x, mean.y))
    share = percent_in_words(on_cells / carried) if carried else NONE
    says = f"{len(one.means):,} means; {share} of the records that they stand for lie where the cloud is shaded."
    if not shown:
        says = "No cell has enough records to be shaded, so nothing can be seen of this pair."
    rows = [(f"{one.y_words[i]} to {one.y_words[i + 1]}", f"{sum(counts):,}") for i, counts in enumerate(one.before)]
    table = PageTable.of(
        f"{one.x} and {one.y}: {shown:,} records in shaded cells, by {one.y}", (one.y, "records in shaded cells"), rows
    )
    label = f"Cloud of {one.x} and {one.y} with released means. {says}"
    return PageChart(f"{one.x} and {one.y}", pair_chart(f"p{number}", label, one), says, table)


def _lies_in_cell(one: Pair, x: float, y: float) -> bool:
    j = int(np.searchsorted(one.x_edges, x, side="right")) - 1
    i = int(np.searchsorted(one.y_edges, y, side="right")) - 1
    return 0 <= i < len(one.before) and 0 <= j < len(one.before[i]) and one.before[i][j] > 0


def correlations_section(inputs: ReportInputs) -> PageSection | None:
    """Three matrices, and the pairs that changed most."""
    portrait = inputs.portrait
    if portrait is None or portrait.correlations is None or len(portrait.correlations.columns) < 2:
        return None
    c = portrait.correlations
    before, after = (np.asarray(matrix, dtype=float) for matrix in (c.before, c.after))
    change = after - before
    i, j = np.triu_indices(len(c.columns), 1)
    has_both = np.isfinite(change[i, j])
    if not has_both.any():
        return None
    i, j = i[has_both], j[has_both]
    limit = _round_limit(float(np.abs(change[i, j]).max()))
    says = _correlation_words(c, change[i, j], i, j)
    charts = (
        _matrix("before", "As the records came", before, 1.0),
        _matrix("after", "As they are released", after, 1.0),
        _matrix("change", f"The difference (full colour: {limit:g})", change, limit),
    )
    order = np.argsort(-np.abs(change[i, j]), kind="stable")[:_MOST_PAIRS]
    rows = [
        (c.columns[i[n]], c.columns[j[n]], *(f"{m[i[n], j[n]]:.3f}" for m in (before, after, change)))
        for n in order.tolist()
    ]
    order_words = (
        ", ".join(c.columns) if len(c.columns) <= _MOST_NAMED else f"the order of the spec, {c.columns[0]} first"
    )
    return PageSection(
        "correlations",
        "Correlations, before, after and their difference",
        says,
        charts,
        folded=is_there(
            [PageTable.of("The pairs that changed most", ("", "and", "before", "after", "difference"), rows)]
        ),
        notes=(
            f"Rows and columns are in this order: {order_words}. Red is above 0, blue below, white 0; grey has none.",
        ),
    )


_MOST_NAMED = 30


def _round_limit(most: float) -> float:
    """The end of a scale that a person remembers.

    >>> _round_limit(0.013), _round_limit(0.3), _round_limit(0.0)
    (0.02, 0.5, 0.01)
    """
    return next((step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if step >= most), 2.0)


def _correlation_words(
    c: Correlations, change: np.ndarray[tuple[int], np.dtype[np.float64]], i: object, j: object
) -> tuple[str, ...]:
    worst = int(np.argmax(np.abs(change)))
    one, other = c.columns[np.asarray(i)[worst]], c.columns[np.asarray(j)[worst]]
    return (
        f"Correlations change by {np.abs(change).mean():.3f} on average; that of ‘{one}’ and ‘{other}’ changes most, "
        f"by {change[worst]:+.3f}.",
    )


def _matrix(
    name: str, title: str, matrix: np.ndarray[tuple[int, ...], np.dtype[np.float64]], limit: float
) -> PageChart:
    label = f"Matrix of correlations, {title.lower()}; the table below has the figures that differ most."
    return PageChart(title, correlation_chart(f"c-{name}", label, matrix, limit))


def regressions_section(inputs: ReportInputs) -> PageSection:
    """The analyses that the spec names."""
    title, portrait = "Analyses, before and after", inputs.portrait
    if portrait is None:
        return PageSection("analyses", title, (_UNMEASURED,))
    if not portrait.regressions:
        words = (
            'The spec names none. With analyses: ["income ~ age + education"] this page compares their coefficients.'
        )
        return PageSection("analyses", title, (words,))
    return PageSection(
        "analyses",
        title,
        tuple(_fit_words(one) for one in portrait.regressions),
        tuple(_regression(i, one) for i, one in enumerate(portrait.regressions)),
        notes=(
            "Of each term the upper line is before and the lower one after. A line is two standard errors to each "
            "side, on the scale of the term’s own error before.",
        ),
        legend="lines",
    )


def _fit_words(one: Regression) -> str:
    before, after = one.before.r_squared, one.after.r_squared
    words = f"{one.formula}: R² {_figure(before)} before and {_figure(after)} after"
    worst, off = _worst_term(one)
    if worst is None:
        return f"{words}."
    return f"{words}; ‘{worst}’ changes most, by {readable(off, 2)} standard errors."


def _worst_term(one: Regression) -> tuple[str | None, float]:
    """The term, but the constant, whose coefficient changes most for its standard error before."""
    changes = {
        term: abs(a - b) / e
        for term, b, e, a in list(
            zip(one.terms, one.before.coefficients, one.before.errors, one.after.coefficients, strict=True)
        )[1:]
        if e > 0 and math.isfinite(a) and math.isfinite(b)
    }
    worst = max(changes, key=lambda term: changes[term], default=None)
    return worst, changes.get(worst, 0.0) if worst is not None else 0.0


def _regression(number: int, one: Regression) -> PageChart:
    label = f"Coefficients of {one.formula} before and after. {_fit_words(one)}"
    return PageChart(
        one.formula, fits_chart(f"r{number}", label, one.terms, one.before, one.after), "", _coefficients(one)
    )


def _coefficients(one: Regression) -> PageTable:
    def cells(fit: Fit, n: int) -> tuple[str, str]:
        return _figure(fit.coefficients[n]), _figure(fit.errors[n])

    rows = [(term, *cells(one.before, n), *cells(one.after, n)) for n, term in enumerate(one.terms)]
    rows.append(("R²", _figure(one.before.r_squared), "", _figure(one.after.r_squared), ""))
    rows.append(("records", f"{one.before.records:,}", "", f"{one.after.records:,}", ""))
    bases = getattr(one, "bases", ())
    beside = f"; compared with {', '.join(bases)}" if bases else ""
    return PageTable(f"{one.formula}{beside}", ("term", "before", "error", "after", "error"), tuple(rows))


def _figure(value: float) -> str:
    """A figure with four digits that mean something.

    >>> _figure(-13310.2), _figure(0.45612), _figure(39.3217), _figure(0.0), _figure(1.5e-9)
    ('-13,310', '0.4561', '39.32', '0', '1.5e-09')
    """
    if not math.isfinite(value):
        return NONE
    if value == 0 or not 1e-4 <= abs(value) < 1e9:
        return f"{value:.4g}"
    comma = "," if abs(value) >= 10_000 else ""
    return f"{value:{comma}.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"
