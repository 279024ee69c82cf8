"""Sections on loss, by column, by block and against its bound, and on the sizes of groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

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
    if blocks is not None and (ranked := ranked_blocks(blocks))["sse"].any():
        rows = ranked[:_WORST].to_dict("records")
        worst = _worst_table(inputs, rows)
        if len(ranked) > 1:
            charts += [_by_block(ranked), _worst_chart(rows)]
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


def ranked_blocks(blocks: pa.Table) -> pd.DataFrame:
    """Order blocks by the loss that they make, most first, with their shares of it and of the records."""
    ranked: pd.DataFrame = blocks.to_pandas().sort_values("sse", ascending=False, kind="stable")
    return ranked.assign(share=ranked["sse"] / ranked["sse"].sum(), part=ranked["records"] / ranked["records"].sum())


def _by_block(ranked: pd.DataFrame) -> PageChart:
    blocks = ranked.sort_index()
    blocks = blocks.iloc[np.argsort(-blocks["sse"] / np.maximum(blocks["records"], 1), kind="stable")]
    x, y = (np.concatenate([[0.0], np.cumsum(blocks[name])]) for name in ("part", "share"))
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
    return PageChart(f"Loss by block, all {len(blocks):,}", svg, says, table)


def _worst_chart(worst: Sequence[Mapping[Any, Any]]) -> PageChart:
    bars = [
        Bar(f"block {of['block']:,}, {of['records']:,} records", of["share"], percent_in_words(of["share"]), of["part"])
        for of in worst
    ]
    says = (
        f"These {len(worst)} make {percent_in_words(sum(of['share'] for of in worst))} of the loss. A ring is the "
        "block’s share of records: where the bar goes beyond it, the block loses more than its part."
    )
    return PageChart(f"The {len(worst)} blocks that lose most", bars_chart(says, bars), says)


def _worst_table(inputs: ReportInputs, worst: Sequence[Mapping[Any, Any]]) -> PageTable:
    lines = (*inputs.plan.get("largest", ()), *inputs.plan.get("changed", ()))
    reasons = {line["block"]: line["reason"] for line in lines}
    cells: list[tuple[str, ...]] = [_WORST_HEADER]
    for of in worst:
        times = of["share"] / of["part"]
        is_bounded = of["sse"] and not math.isnan(of["lower_bound"])
        unavoidable = percent_in_words(min(of["lower_bound"] / of["sse"], 1.0)) if is_bounded else NONE
        why = _why(of["records"], times, inputs.manifest.k, reasons.get(of["block"], ""))
        counts = (f"{of[name]:,}" for name in ("block", "records", "groups"))
        cells.append((*counts, percent_in_words(of["share"]), readable(times, 2), unavoidable, why))
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
    # Most groups are near the smallest.
    border = high + 1 if high - low < _MOST_SIZES else low + _MOST_SIZES - 2
    near = [(f"{size}", histogram.get(size, 0)) for size in range(low, border)]
    rest = sum(n for size, n in histogram.items() if size >= border)
    return [*near, (f"{border}+", rest)] if rest else near
