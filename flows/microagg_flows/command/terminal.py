"""Plans, releases, verifications and algorithms on a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from microagg_core.group.algorithms import algorithms
from microagg_core.group.metrics.figures import Figures
from microagg_core.group.metrics.statistics import readable
from microagg_core.inspect.check import Check
from microagg_core.pages.comparison_report import Expectation
from microagg_core.pages.plan_report import BlockLine, PlanReport, forecast_rows, forecast_stages, loss_rows
from microagg_core.pages.release_report import attribute_table, summary_rows
from microagg_core.pages.risk_report import FIVE, column_table, headline, intruder_table, near_table, risk_sentences
from microagg_core.pages.words import duration
from microagg_core.release.sizing.forecast import Forecast
from microagg_core.release.verify import VerifyReport
from microagg_core.series.verification import LedgerStatus

_MOST_LINES = 12


def _pairs(rows: list[tuple[str, str]]) -> str:
    """Lay out two columns as plain text: a URL is never cut or folded, so that it can be copied."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _aligned(rows: list[tuple[str, ...]]) -> str:
    """Lay out columns of figures as plain text: none is cut or folded, however narrow the terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([f"{row[0]:<{widths[0]}}", *(f"{cell:>{w}}" for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    )


def show_document(document: dict[str, Any]) -> None:
    print(_pairs(summary_rows(document)))
    attributes = attribute_table(Figures.model_validate(document["losses"]))
    if len(attributes) > 1:
        print("\n" + _aligned(attributes))


def show_risks(figures: dict[str, Any]) -> None:
    """Show the worst that a release gives away, in a few lines."""
    print(f"\n{headline(figures)}")
    for sentence in risk_sentences(figures, FIVE):
        print(f"  {sentence}")


def show_risk(figures: dict[str, Any]) -> None:
    """Show all that a release gives away: in words, then in tables."""
    print("\n".join([headline(figures), *(f"  {sentence}" for sentence in risk_sentences(figures))]))
    sizes = figures["sizes"]
    if sizes["groups"]:
        print(f"\n{sizes['groups']:,} groups of {sizes['smallest']:,} to {sizes['largest']:,} records")
    for rows in (column_table(figures), intruder_table(figures), near_table(figures)):
        if len(rows) > 1:
            print("\n" + _aligned(rows))


def show_plan(report: PlanReport, refused: str = "") -> None:
    """Show a plan: totals, the largest blocks, what was merged and split, and what looks unwise and is not refused."""
    print(
        _pairs(
            [
                ("records", f"{report.records:,}" + (f" ({report.withheld:,} withheld)" if report.withheld else "")),
                *(report.night.rows() if report.night else []),
                ("blocking keys", f"{report.keys:,} ({report.undersized_keys:,} below k)"),
                ("blocks", f"{report.blocks:,} ({report.merged_blocks:,} merged, {report.split_blocks:,} from splits)"),
                *_label_rows(report),
                ("partitions", f"{report.partitions:,}"),
                ("released files", f"{report.files:,}"),
                ("largest block allowed", f"{report.max_records:,} records"),
                ("kernel time", _kernel_time(report)),
                ("memory", f"about {report.task_bytes / 2**20:,.0f} MiB a task, beside the worker itself"),
            ]
        )
    )
    _show_blocks("largest blocks", report.largest, len(report.largest))
    _show_blocks("merged and split blocks", report.changed, report.n_changed)
    print("\nmeans are rounded")
    for line in report.rounding:
        print(f"  {line}")
    print(f"know this: {report.pooling}")
    for line in report.withheld_words:
        print(f"withheld: {line}")
    for line in (line for line in report.unwise if line not in refused):
        print(f"look at this: {line}")


def _kernel_time(report: PlanReport) -> str:
    took = f"about {duration(report.seconds)} on one core"
    if report.pace is None:
        return took
    return f"{took}: {readable(report.pace, 2)} times the cost model, as blocks grouped here took"


def show_expectation(expectation: Expectation) -> None:
    """Show what the planned release would lose and give away, for several k."""
    print(f"\n{expectation.headline()}")
    if expectation.expected:
        print(_aligned(expectation.table()))
    for sentence in expectation.sentences():
        print(f"  {sentence}")


def _label_rows(report: PlanReport) -> list[tuple[str, str]]:
    if not report.listing_labels:
        return []
    told = f"{report.listing_labels:,} of {report.labels:,} tell that a key with fewer than k records is there"
    return [("labels", f"{told}; blocks.labels: parent or star do not")]


def _show_blocks(title: str, lines: tuple[BlockLine, ...], n_blocks: int) -> None:
    if not lines:
        return
    print(f"\n{title}")
    rows = [(str(line.block), f"{line.records:,}", f"{line.seconds:.2f}", line.reason) for line in lines[:_MOST_LINES]]
    rows.insert(0, ("block", "records", "seconds", "why"))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in rows:
        print("  ".join([*(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=False)), row[3]]))
    if n_blocks > _MOST_LINES:
        which = "all" if n_blocks == len(lines) else f"the first {len(lines):,}"
        print(f"... and {n_blocks - _MOST_LINES:,} more (--json shows {which})")


def show_forecast(forecast: Forecast) -> None:
    """Show what a release would take: in all, by stage, and where the workers' time goes."""
    print(_pairs(forecast_rows(forecast)))
    print("\n" + _aligned(forecast_stages(forecast)))
    print("\nof the workers' time\n" + _pairs(loss_rows(forecast)))
    print(f"\nmeasured {forecast.measured}")


def show_verification(report: VerifyReport, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report.document(), indent=1))
        return
    print(f"{report.name} {report.id} {report.revision}, manifest with sha256 {report.sha256}")
    show_checks(report.checks)
    for warning in report.warnings:
        print(f"note {warning}")


def show_checks(checks: Iterable[Check]) -> None:
    for check in checks:
        print(f"{'ok  ' if check.passed else 'FAIL'} {check.name}: {check.detail}")


def show_series(status: LedgerStatus) -> None:
    smallest = "not known" if status.smallest_trace is None else f"shared by {status.smallest_trace:,} units"
    size = f"{status.bytes / 2**20:,.1f} MiB, {status.bytes_per_unit:.1f} bytes a unit, {status.files:,} files"
    rows = [
        ("series", f"{status.series}, {status.mode}, {status.guarantee}, k={status.k}"),
        ("ledger", status.url),
        ("nights", f"{status.nights:,}"),
        ("the last", f"{status.release_id} {status.revision} of {status.date} ({status.kind})"),
        ("units", f"{status.live:,} live, {status.gone:,} gone, {status.held:,} held, {status.forgotten:,} forgotten"),
        ("smallest trace", smallest),
        ("size", size),
        ("key", status.key_fingerprint),
    ]
    print(_pairs(rows))


def show_algorithms(as_json: bool) -> None:
    infos = algorithms()
    if as_json:
        print(json.dumps([info.document() for info in infos.values()], indent=1))
        return
    for info in infos.values():
        print(f"{info.name}: {info.summary}")
        print(f"    {info.description}")
        print(f"    groups: {info.sizes_text}")
        for parameter in info.parameters:
            print(f"    {parameter.name} (default {parameter.default}): {parameter.description}")
        cost = info.document()["cost"]
        size = f"{cost['records']:,} records, {cost['attributes']} attribute(s), k={cost['k']}"
        print(f"    about {cost['seconds']:.1f} s for {size} on one core\n")
