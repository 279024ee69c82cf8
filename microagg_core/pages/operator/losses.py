"""Sections on loss, by column, by block and against its bound, and on the sizes of groups."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats, Ints
from microagg_core.group.metrics.statistics import readable
from microagg_core.pages.operator.charts import Bar, bars_chart, columns_chart, share_curve
from microagg_core.pages.operator.inputs import ReportInputs
from microagg_core.pages.operator.parts import PageChart, PageSection, PageTable
from microagg_core.pages.release_report import attribute_table
from microagg_core.pages.words import NONE, percent_in_words
from microagg_core.release.pages.method import generalized_words

#: Columns that a chart has; a table has all.
_MOST_COLUMNS = 24
#: Blocks that are shown one by one, and points of the curve of all.
_WORST, _POINTS = 10, 120
#: A block whose records lose so many times the usual has records that lie far from each other.
_FAR = 3.0
#: A block whose records lose at most so many times the usual is among the worst by its size alone.
_USUAL = 1.05
_WORST_HEADER = (
    "block",
    "records",
    "groups",
    "share of the loss",
    "times the usual loss of a record",
    "unavoidable, at least",
    "why",
)
_PROVED = " The bound is proved: no grouping of these blocks into groups of at least k loses less."
#: Sizes that each have a column of their own; more are put together.
_MOST_SIZES = 16


def loss_section(inputs: ReportInputs) -> PageSection:
    losses, blocks = inputs.losses, inputs.blocks
    charts = [_against_bound(inputs), _by_column(inputs)]
    worst: PageTable | None = None
    if blocks is not None and _figures(blocks)[1].any():
        worst = _worst_table(inputs, blocks)
        if blocks.num_rows > 1:
            charts += [_by_block(blocks), _worst_chart(blocks)]
    folded = [PageTable("Every column", attribute_table(inputs.manifest.losses))]
    if inputs.of_arrivals:
        folded.append(PageTable(f"Every column, {inputs.of_arrivals}", attribute_table(losses)))
    parents = {name: of for name, of in (losses.attributes or {}).items() if of.generalized is not None}
    return PageSection(
        "loss",
        "What it cost",
        loss_words(inputs),
        charts,
        [worst],
        folded,
        notes=(
            *(f"Of ‘{name}’, {generalized_words(of)}" for name, of in parents.items()),
            "Loss is the share of the columns’ variation, each standardized, that the release no longer has (L_SSE)."
            f"{'' if losses.lower_bound is None else _PROVED}",
        ),
    )


def loss_words(inputs: ReportInputs) -> tuple[str, ...]:
    losses = inputs.losses
    if losses.records == 0:
        return ("Nobody arrived, so nothing was lost.",)
    if "l_sse" not in losses.model_fields_set:
        asked = inputs.expectation.asked if inputs.expectation else None
        aside = () if asked is None else (f"For you alone: it is about {asked.l_sse:.3g} % of the variation.",)
        return ("The loss is not published, as it would tell of single records.", *aside)
    release = f"O{inputs.of_arrivals[1:]}, the release" if inputs.of_arrivals else "The release"
    words = [f"{release} lost {_loss(inputs)} of the variation of its quasi-identifiers."]
    if losses.gap is not None:
        words.append(f"At most {losses.gap:.3g} % of that loss could have been avoided by better groups of k records.")
    attributes = {name: of.l_sse for name, of in (losses.attributes or {}).items() if of.l_sse is not None}
    if len(attributes) > 1:
        worst = max(attributes, key=lambda name: attributes[name])
        least = min(attributes, key=lambda name: attributes[name])
        words.append(f"‘{worst}’ lost most, {attributes[worst]:.3g} %; ‘{least}’ least, {attributes[least]:.3g} %.")
    return tuple(words)


def _loss(inputs: ReportInputs) -> str:
    """Write the loss with as many digits as a person reads, or as it is published where that is coarser."""
    losses = inputs.losses
    return losses.shown("l_sse") if "l_sse" in (losses.coarser or {}) else f"{losses.l_sse:.3g} %"


def _against_bound(inputs: ReportInputs) -> PageChart | None:
    losses = inputs.losses
    if losses.l_sse is None or losses.sst is None or not losses.sst or losses.lower_bound is None:
        return None
    least = 100.0 * losses.lower_bound / losses.sst
    bars = [
        Bar("lost", losses.l_sse, _loss(inputs)),
        Bar("lost by any such groups, at least", least, f"{least:.3g} %"),
    ]
    says = f"Of {losses.l_sse:.3g} %, at least {least:.3g} % are lost by whatever groups of k records in these blocks."
    return PageChart("Loss against what is unavoidable", bars_chart(says, bars), says)


def _by_column(inputs: ReportInputs) -> PageChart | None:
    attributes = inputs.losses.attributes or {}
    ordered = sorted(((of.l_sse, name) for name, of in attributes.items() if of.l_sse is not None), reverse=True)
    if len(ordered) < 2:
        return None
    bars = [Bar(name, loss, f"{loss:.3g} %") for loss, name in ordered[:_MOST_COLUMNS]]
    more = f" The {_MOST_COLUMNS} that lost most, of {len(ordered)}." if len(ordered) > _MOST_COLUMNS else ""
    says = f"‘{ordered[0][1]}’ lost most of its variation, {ordered[0][0]:.3g} %.{more}"
    return PageChart("Loss by column", bars_chart(says, bars), says)


def _figures(blocks: pa.Table) -> tuple[Ints, Floats]:
    return np.asarray(blocks["records"]).astype(np.int64), np.asarray(blocks["sse"]).astype(np.float64)


def _by_block(blocks: pa.Table) -> PageChart:
    records, sse = _figures(blocks)
    order = np.argsort(-sse / np.maximum(records, 1), kind="stable")
    x = np.concatenate([[0.0], np.cumsum(records[order]) / records.sum()])
    y = np.concatenate([[0.0], np.cumsum(sse[order]) / sse.sum()])
    at = np.unique(np.linspace(0, len(x) - 1, min(len(x), _POINTS)).astype(int))
    tenth = float(np.interp(0.1, x, y))
    says = f"The tenth of records in the blocks that lose most make {percent_in_words(tenth)} of the loss."
    rows = [
        (percent_in_words(share), percent_in_words(float(np.interp(share, x, y))))
        for share in (0.01, 0.05, 0.1, 0.25, 0.5, 0.75)
    ]
    table = PageTable("Shares of the loss", [("of the records, those that lose most", "share of the loss"), *rows])
    points = list(zip(x[at].tolist(), y[at].tolist(), strict=True))
    svg = share_curve(says, points, "records, by block, those that lose most first", "share of the loss")
    return PageChart(f"Loss by block, all {len(records):,}", svg, says, table)


def worst_blocks(blocks: pa.Table) -> list[int]:
    """Rows of the table with the blocks that make most of the loss."""
    rows: list[int] = np.argsort(-_figures(blocks)[1], kind="stable")[:_WORST].tolist()
    return rows


def _worst_chart(blocks: pa.Table) -> PageChart:
    records, sse = _figures(blocks)
    rows, numbers, whole = worst_blocks(blocks), np.asarray(blocks["block"]), float(sse.sum())
    bars = [
        Bar(
            f"block {numbers[row]:,}, {records[row]:,} records",
            float(sse[row] / whole),
            percent_in_words(float(sse[row] / whole)),
            mark=float(records[row] / records.sum()),
        )
        for row in rows
    ]
    share = percent_in_words(float(sse[rows].sum() / whole))
    says = (
        f"These {len(rows)} make {share} of the loss. A ring is the block’s share of records: where the bar goes "
        "beyond it, the block loses more than its part."
    )
    return PageChart(f"The {len(rows)} blocks that lose most", bars_chart(says, bars), says)


def _worst_table(inputs: ReportInputs, blocks: pa.Table) -> PageTable:
    records, sse = _figures(blocks)
    whole, usual = float(sse.sum()), float(sse.sum() / max(records.sum(), 1))
    lines = (*inputs.plan.get("largest", ()), *inputs.plan.get("changed", ()))
    reasons = {line["block"]: line["reason"] for line in lines}
    cells: list[tuple[str, ...]] = [_WORST_HEADER]
    for row in worst_blocks(blocks):
        block = blocks.slice(row, 1).to_pylist()[0]
        number, n, groups, bound = (block[name] for name in ("block", "records", "groups", "lower_bound"))
        times = float(sse[row] / n / usual)
        unavoidable = percent_in_words(min(bound / sse[row], 1.0)) if sse[row] and not math.isnan(bound) else NONE
        why = _why(n, times, inputs.manifest.k, reasons.get(number, ""))
        share = percent_in_words(float(sse[row] / whole))
        cells.append((f"{number:,}", f"{n:,}", f"{groups:,}", share, readable(times, 2), unavoidable, why))
    return PageTable("The blocks that make most of the loss, and why", cells)


def _why(records: int, times: float, k: int, reason: str) -> str:
    """Say why a block loses much.

    >>> _why(7, 4.2, 5, "one blocking key")
    'too few records for two groups; its records lie far apart'
    """
    words = []
    if records < 2 * k:
        words.append("too few records for two groups")
    if times >= _FAR:
        words.append("its records lie far apart")
    elif times <= _USUAL:
        words.append("it is large: a record loses no more there than elsewhere")
    if reason and reason != "one blocking key":
        words.append(reason)
    return "; ".join(words) or "its records lie somewhat farther apart than usual"


def weights_section(inputs: ReportInputs) -> PageSection | None:
    weighted = None if inputs.portrait is None else inputs.portrait.weighted
    if weighted is None:
        return None
    cells: list[tuple[str, ...]] = [("column", "before", "released", "difference")]
    for name, before, after in weighted.totals:
        shown = (readable(before, 10), readable(after, 10), f"{abs(after - before):.2g}")
        cells.append((f"{name} (sum)" if name == weighted.weight else name, *shown))
    says = (
        f"Groups have weighted means and the mean of ‘{weighted.weight}’, so that weighted totals are kept: in all, "
        f"under every label and in every group; none is off by more than {weighted.farthest:.1g} of its total.",
        f"No record has more than {percent_in_words(weighted.largest_share)} of the weight of its group.",
        f"Of the weighted variance of the quasi-identifiers {weighted.l_sse:.3g} % is lost.",
    )
    return PageSection("weights", "Weighted totals", says, tables=[PageTable("Before and after", cells)])


def sizes_section(inputs: ReportInputs) -> PageSection:
    title, risk, k = "Sizes of groups", inputs.risk, inputs.manifest.k
    histogram = {int(size): n for size, n in ((risk or {}).get("sizes") or {}).get("histogram", {}).items()}
    if not histogram:
        return PageSection("sizes", title, ("Not measured; microagg report SPEC measures it.",))
    groups, records = sum(histogram.values()), sum(size * n for size, n in histogram.items())
    smallest = min(histogram)
    least = f"{smallest:,} records" if smallest > k else f"{smallest:,} records, which is k"
    says = (
        f"{groups:,} released {'combination stands' if groups == 1 else 'combinations stand'} for {records:,} records; "
        f"the smallest for {least}.",
        f"A record stands in a group of {sum(s * s * n for s, n in histogram.items()) / records:.1f} on average.",
    )
    columns = _columns(histogram)
    chart = columns_chart(" ".join(says), [(word, float(n)) for word, n in columns])
    cells = [("records in the group", "groups"), *((word, f"{n:,}") for word, n in columns)]
    table = PageTable("Groups of each size", cells)
    return PageSection("sizes", title, says, [PageChart("Groups by their number of records", chart, "", table)])


def _columns(histogram: dict[int, int]) -> list[tuple[str, int]]:
    """Count groups by size, the large ones together where there are many sizes.

    >>> _columns({3: 10, 5: 2}), len(_columns({size: 1 for size in range(3, 90)}))
    ([('3', 10), ('4', 0), ('5', 2)], 15)
    """
    low, high = min(histogram), max(histogram)
    if high - low < _MOST_SIZES:
        return [(f"{size}", histogram.get(size, 0)) for size in range(low, high + 1)]
    # Most groups are near the smallest: these one by one, the rest in two steps.
    near = [(f"{size}", histogram.get(size, 0)) for size in range(low, low + _MOST_SIZES - 2)]
    border = low + _MOST_SIZES - 2
    return [*near, (f"{border}+", sum(n for size, n in histogram.items() if size >= border))]
