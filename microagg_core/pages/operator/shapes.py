"""Sections on the data before and after: distributions, pairs, correlations, and the analyses that the spec names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np

from microagg_core.arrays import Floats
from microagg_core.data.kinds.metric import metric_words
from microagg_core.group.metrics.statistics import readable
from microagg_core.inspect.portrait.contract import (
    PERCENTS,
    CategoryTable,
    Counted,
    Distribution,
    Pair,
    Portrait,
    Quantile,
    Regression,
    Summary,
)
from microagg_core.inspect.portrait.pictures import MOST_NAMED
from microagg_core.inspect.portrait.portrait import fewest_records
from microagg_core.pages.operator.charts import correlation_chart, distribution_chart, fits_chart, pair_chart
from microagg_core.pages.operator.inputs import ReportInputs
from microagg_core.pages.operator.parts import UNMEASURED, PageChart, PageSection, PageTable
from microagg_core.pages.words import NONE, capital, percent_in_words

#: Pairs of columns that a table of correlations has, those first that changed most.
_MOST_PAIRS = 60
#: Columns whose names a sentence lists.
_MOST_NAMED = 30
#: So much of the records' weight in another interval is a shape that looks the same.
_ALIKE, _CHANGED = 0.02, 0.1


def moved_share(column: Distribution) -> float:
    """Share of records that would have to lie in another interval for both shapes to be the same.

    >>> round(moved_share(Distribution("x", None, (0.0,), ("0",), (50, 50), (40, 60), 0)), 6)
    0.1
    """
    before, after = (np.asarray(counts, dtype=float) for counts in (column.before, column.after))
    if not before.sum() or not after.sum():
        return 0.0
    return float(np.abs(before / before.sum() - after / after.sum()).sum() / 2)


def distributions_section(inputs: ReportInputs) -> PageSection | None:
    title, portrait = "Distributions, before and after", inputs.portrait
    if portrait is not None and portrait.categories and not portrait.distributions and not portrait.left_out:
        return None
    if portrait is None or not portrait.distributions:
        return PageSection("distributions", title, (UNMEASURED, *_left_out(portrait))[-1:])
    ordered = sorted(portrait.distributions, key=lambda column: -moved_share(column))
    return PageSection(
        "distributions",
        title,
        (_headline(ordered), _drawn(portrait)),
        [_distribution(column) for column in ordered],
        [_shares_table(portrait.summaries, fewest_records(inputs.manifest.k)), _quantiles_table(portrait.summaries)],
        notes=(
            "An area is the records as they came, the line those that are released. Where intervals are of different "
            "widths, the area counts and not the height. The outermost intervals are open: no least and no greatest "
            "value can be read from them.",
            "Frequent values are the five that most records have, but zero; before and after they may be others. "
            "Quantiles before are told as far as many records have them in common.",
            *_counted_words(inputs),
            *_left_out(portrait),
        ),
        legend="areas",
    )


def categories_section(inputs: ReportInputs) -> PageSection | None:
    """Show how many records have which category; nothing where no quasi-identifier has any."""
    tables = inputs.portrait.categories if inputs.portrait else ()
    if not tables:
        return None
    fewest = fewest_records(inputs.manifest.k)
    return PageSection(
        "categories",
        "Categories, before and after",
        ("Records with each category, as they came and as they are released.", *_bounded_changes(inputs)),
        tables=[_categories_table(of) for of in tables],
        notes=(
            "S is what groups lose: half of each group’s records, times the chance that two of these differ.",
            f"Categories that fewer than {fewest} records had stand together, and so do those beyond the {MOST_NAMED} "
            "most frequent.",
        ),
    )


def _categories_table(of: CategoryTable) -> PageTable:
    sums = [sum(of.before) + of.others_before, sum(of.after) + of.others_after]
    lines = list(zip(of.categories, of.before, of.after, strict=True))
    if of.others:
        lines.append((f"{of.others:,} others" if lines else "all", of.others_before, of.others_after))
    rows = []
    for name, *counts in lines:
        pairs = zip(counts, sums, strict=True)
        cells = ((f"{n:,}", percent_in_words(n / whole if whole else None)) for n, whole in pairs)
        rows.append((name, *chain.from_iterable(cells)))
    return PageTable(of.column, [("category", "before", "share", "after", "share"), *rows])


def _bounded_changes(inputs: ReportInputs) -> list[str]:
    """Hold the records whose category changed against the loss S, that of chance: at least S and at most twice S.

    With survey weights they may be more: S counts records, and what has most weight in a group may be rare in it.
    """
    figures, words = inputs.losses, []
    coarser = (figures.coarser or {}).keys()
    is_weighted = any(column.role == "weight" for column in inputs.manifest.columns)
    for of in inputs.portrait.categories if inputs.portrait else ():
        own = (figures.attributes or {}).get(of.column)
        if own is None or own.l_sse is None or own.mismatches is None or own.rank_displacement is not None:
            continue
        if own.generalized:  # whoever got a parent does not count as changed
            continue
        if not coarser.isdisjoint(f"attributes.{of.column}.{name}" for name in ("l_sse", "mismatches")):
            continue
        n = sum(of.after) + of.others_after
        chance, changed = own.l_sse / 100 * of.variation * n, own.mismatches / 100 * n
        most = "" if is_weighted else f" ≤ 2 S = {2 * chance:,.0f}"
        words.append(f"‘{of.column}’: S = {chance:,.0f} ≤ {changed:,.0f} changed{most}.")
    return words


def _left_out(portrait: Portrait | None) -> list[str]:
    return [] if portrait is None else [f"{capital(words).removesuffix('.')}." for words in portrait.left_out]


def _drawn(portrait: Portrait) -> str:
    if portrait.drawn == portrait.records:
        words = f"Of all {portrait.records:,} records"
    else:
        words = f"Of {portrait.drawn:,} records that were drawn from {portrait.records:,}"
    has_missing = any(column.missing for column in portrait.distributions)
    return f"{words}; shares are of those that have a value." if has_missing else f"{words}."


def _headline(ordered: Sequence[Distribution]) -> str:
    shares = [moved_share(column) for column in ordered]
    most, usual = percent_in_words(shares[0]), percent_in_words(shares[len(shares) // 2])
    if len(ordered) == 1:
        return f"{most} of records would have to lie elsewhere for the shape of ‘{ordered[0].column}’ to be as it was."
    if shares[0] < _ALIKE:
        return f"All {len(ordered)} shapes are kept: none differs by more than {most} of its records."
    return (
        f"‘{ordered[0].column}’ changed most: {most} of records would have to lie elsewhere for its shape to be as it "
        f"was. For half of the columns it is at most {usual}."
    )


def _distribution(column: Distribution) -> PageChart:
    share = moved_share(column)
    word = "is kept" if share < _ALIKE else "is mostly kept" if share < _CHANGED else "changed"
    missing = f" {column.missing:,} records have no released value." if column.missing else ""
    says = f"The shape {word}: {percent_in_words(share)} of records would have to lie elsewhere.{missing}"
    unit = f" ({column.unit})" if column.unit and column.unit != "the column's" else ""
    rows = zip(column.values or _intervals(column.edge_words), column.before, column.after, strict=False)
    cells = [("interval", "before", "after"), *((name, f"{before:,}", f"{after:,}") for name, before, after in rows)]
    table = PageTable(f"{column.column}{unit}: records in each interval", cells)
    label = f"Distribution of {column.column} before and after. {says}"
    return PageChart(column.column, distribution_chart(label, column), says, table)


def _shares_table(summaries: Sequence[Summary], fewest: int) -> PageTable | None:
    rows = []
    for summary in summaries:
        if summary.zeros is not None and summary.heaps is not None:
            cells = [_counted(of, summary.records, fewest) for of in (summary.zeros, summary.heaps)]
            rows.append((summary.column, *cells[0], *cells[1]))
    head = ("column", "zeros before", "zeros after", "frequent values before", "frequent values after")
    return PageTable("Shares of zeros, and of round or other frequent values", [head, *rows]) if rows else None


def _counted_words(inputs: ReportInputs) -> list[str]:
    """Say how columns counted when groups were made, where not by their values."""
    metric = (inputs.manifest.metric or {}).items()
    ways = ((name, metric_words(of.scale, of.top, of.zeros)) for name, of in metric)
    return [f"How ‘{name}’ counted when groups were made: {words}." for name, words in ways]


def _counted(of: Counted, records: int, fewest: int) -> tuple[str, str]:
    """Write shares before and after; none that is of few records before, or of all but few.

    >>> _counted(Counted(4, 0), 100, 10), _counted(Counted(0, 50), 100, 10)
    (('–', '0 %'), ('0 %', '50 %'))
    """
    is_told = of.before in (0, records) or fewest <= of.before <= records - fewest
    return percent_in_words(of.before / records if is_told else None), percent_in_words(of.after / records)


def _quantiles_table(summaries: Sequence[Summary]) -> PageTable | None:
    rows: list[tuple[str, ...]] = []
    for summary in summaries:
        rows.append((f"{summary.column}, before", *map(_quantile, summary.before)))
        rows.append((f"{summary.column}, after", *(_quantile(Quantile(of)) for of in summary.after)))
    head = ("column", *(f"{percent} %" for percent in PERCENTS))
    return PageTable("Quantiles", [head, *rows]) if rows else None


def _quantile(of: Quantile | None) -> str:
    if of is None:
        return NONE
    words = of.value if isinstance(of.value, str) else readable(of.value)
    return f"{words} ± {readable(of.within)}" if of.within else words


def _intervals(words: Sequence[str]) -> list[str]:
    """Write intervals between edges in words.

    >>> _intervals(["10", "20"])
    ['below 10', '10 to 20', '20 and above']
    """
    if not words:
        return ["all"]
    inner = [f"{low} to {high}" for low, high in pairwise(words)]
    return [f"below {words[0]}", *inner, f"{words[-1]} and above"]


def pairs_section(inputs: ReportInputs) -> PageSection | None:
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
        [_pair(pair) for pair in portrait.pairs if len(pair.x_edges) > 1 and len(pair.y_edges) > 1],
        legend="dots",
    )


def _pair(pair: Pair) -> PageChart:
    shown = sum(map(sum, pair.before))
    carried = sum(mean.records for mean in pair.means)
    on_cells = sum(mean.records for mean in pair.means if _lies_in_cell(pair, mean.x, mean.y))
    share = percent_in_words(on_cells / carried) if carried else NONE
    says = f"{len(pair.means):,} means; {share} of the records that they stand for lie where the cloud is shaded."
    if not shown:
        says = "No cell has enough records to be shaded, so nothing can be seen of this pair."
    rows = [(f"{pair.y_words[i]} to {pair.y_words[i + 1]}", f"{sum(counts):,}") for i, counts in enumerate(pair.before)]
    caption = f"{pair.x} and {pair.y}: {shown:,} records in shaded cells, by {pair.y}"
    table = PageTable(caption, [(pair.y, "records in shaded cells"), *rows])
    label = f"Cloud of {pair.x} and {pair.y} with released means. {says}"
    return PageChart(f"{pair.x} and {pair.y}", pair_chart(label, pair), says, table)


def _lies_in_cell(pair: Pair, x: float, y: float) -> bool:
    j = int(np.searchsorted(pair.x_edges, x, side="right")) - 1
    i = int(np.searchsorted(pair.y_edges, y, side="right")) - 1
    return 0 <= i < len(pair.before) and 0 <= j < len(pair.before[i]) and pair.before[i][j] > 0


def correlations_section(inputs: ReportInputs) -> PageSection | None:
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
    changes = change[i, j]
    limit = _round_limit(float(np.abs(changes).max()))
    order = np.argsort(-np.abs(changes), kind="stable")[:_MOST_PAIRS].tolist()
    rows = [
        (c.columns[i[n]], c.columns[j[n]], *(f"{matrix[i[n], j[n]]:.3f}" for matrix in (before, after, change)))
        for n in order
    ]
    first, second = rows[0][:2]
    says = (
        f"Correlations change by {np.abs(changes).mean():.3f} on average; that of ‘{first}’ and ‘{second}’ changes "
        f"most, by {changes[order[0]]:+.3f}."
    )
    names = ", ".join(c.columns) if len(c.columns) <= _MOST_NAMED else f"the order of the spec, {c.columns[0]} first"
    return PageSection(
        "correlations",
        "Correlations, before, after and their difference",
        (says,),
        (
            _matrix("As the records came", before, 1.0),
            _matrix("As they are released", after, 1.0),
            _matrix(f"The difference (full colour: {limit:g})", change, limit),
        ),
        folded=[PageTable("The pairs that changed most", [("", "and", "before", "after", "difference"), *rows])],
        notes=(f"Rows and columns are in this order: {names}. Red is above 0, blue below, white 0; grey has none.",),
    )


def _round_limit(most: float) -> float:
    """Round the end of a scale up to a number that a person remembers.

    >>> _round_limit(0.013), _round_limit(0.3), _round_limit(0.0)
    (0.02, 0.5, 0.01)
    """
    return next((step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if step >= most), 2.0)


def _matrix(title: str, matrix: Floats, limit: float) -> PageChart:
    label = f"Matrix of correlations, {title.lower()}; the table below has the figures that differ most."
    return PageChart(title, correlation_chart(label, matrix, limit))


def regressions_section(inputs: ReportInputs) -> PageSection:
    title, portrait = "Analyses, before and after", inputs.portrait
    none = 'The spec names none. With analyses: ["income ~ age + education"] this page compares their coefficients.'
    if portrait is None or not portrait.regressions:
        return PageSection("analyses", title, (UNMEASURED if portrait is None else none,))
    return PageSection(
        "analyses",
        title,
        [_fit_words(fit) for fit in portrait.regressions],
        [_regression(fit) for fit in portrait.regressions],
        notes=(
            "Of each term the upper line is before and the lower one after. A line is two standard errors to each "
            "side, on the scale of the term’s own error before.",
        ),
        legend="lines",
    )


def edits_section(inputs: ReportInputs) -> PageSection | None:
    """Show how often the spec's rules between columns are broken; nothing where there are none."""
    edits = inputs.portrait.edits if inputs.portrait else {}
    if not edits:
        return None
    worse = [f"{count.in_words(rule)}." for rule, count in edits.items() if count.is_worse]
    rows = [
        (rule, f"{count.after.compared:,}", f"{count.before.broken:,}", f"{count.after.broken:,}")
        for rule, count in edits.items()
    ]
    return PageSection(
        "edits",
        "Rules between columns, before and after",
        worse or ("No rule is broken more often than it was.",),
        tables=[
            PageTable("Records that break a rule", [("rule", "records with both values", "before", "after"), *rows])
        ],
        notes=(
            "A rule by <= or >= between quasi-identifiers, or one and a number, holds of a group’s means, but for "
            "rounding, where it holds of all its records; beside a column that is released as it came it need not.",
        ),
    )


def _fit_words(fit: Regression) -> str:
    """Write how much both fits explain, and which term, but the constant, changes most for its error before."""
    words = f"{fit.formula}: R² {_figure(fit.before.r_squared)} before and {_figure(fit.after.r_squared)} after"
    sides = zip(fit.terms, fit.before.coefficients, fit.before.errors, fit.after.coefficients, strict=True)
    changes = {
        term: abs(before - after) / error
        for term, before, error, after in list(sides)[1:]
        if error > 0 and math.isfinite(after) and math.isfinite(before)
    }
    if not changes:
        return f"{words}."
    worst = max(changes, key=lambda term: changes[term])
    return f"{words}; ‘{worst}’ changes most, by {readable(changes[worst], 2)} standard errors."


def _regression(fit: Regression) -> PageChart:
    sides = (fit.before, fit.after)
    rows = [
        (term, *(_figure(figures[n]) for side in sides for figures in (side.coefficients, side.errors)))
        for n, term in enumerate(fit.terms)
    ]
    cells = [
        ("term", "before", "error", "after", "error"),
        *rows,
        ("R²", _figure(fit.before.r_squared), "", _figure(fit.after.r_squared), ""),
        ("records", f"{fit.before.records:,}", "", f"{fit.after.records:,}", ""),
    ]
    beside = f"; compared with {', '.join(fit.bases)}" if fit.bases else ""
    label = f"Coefficients of {fit.formula} before and after. {_fit_words(fit)}"
    chart = fits_chart(label, fit.terms, fit.before, fit.after)
    return PageChart(fit.formula, chart, "", PageTable(f"{fit.formula}{beside}", cells))


def _figure(value: float) -> str:
    """Write a figure with four significant digits.

    >>> _figure(-13310.2), _figure(0.45612), _figure(39.3217), _figure(0.0), _figure(1.5e-9)
    ('-13,310', '0.4561', '39.32', '0', '1.5e-09')
    """
    if not math.isfinite(value):
        return NONE
    if value == 0 or not 1e-4 <= abs(value) < 1e9:
        return f"{value:.4g}"
    comma = "," if abs(value) >= 10_000 else ""
    return f"{value:{comma}.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"
