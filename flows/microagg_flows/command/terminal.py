"""Plans, releases, verifications, attacks and algorithms on a terminal.

All is plain text: no cell is cut or folded, however narrow the terminal, so that a URL can be copied.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from microagg_core.compare.bare_file import Comparison, PrintedLoss
from microagg_core.compare.choice import ReleaseComparison
from microagg_core.group.algorithms import algorithms
from microagg_core.group.metrics.figures import Figures
from microagg_core.group.metrics.statistics import readable
from microagg_core.inspect.check import Check
from microagg_core.pages import comparison_report
from microagg_core.pages.plan_report import BlockLine, PlanReport, forecast_rows, forecast_stages, loss_rows
from microagg_core.pages.release_report import attribute_table, summary_rows
from microagg_core.pages.risk_report import (
    FIVE,
    column_table,
    headline,
    intruder_table,
    near_table,
    risk_sentences,
    unit_table,
)
from microagg_core.pages.words import duration
from microagg_core.release.sizing.forecast import Forecast
from microagg_flows.command.call import echo_json

if TYPE_CHECKING:
    from microagg_core.release.verify import VerifyReport
    from microagg_core.series.attack.report import AttackedPair, AttackReport
    from microagg_core.series.verification import LedgerStatus

_MOST_LINES = 12
#: Columns of text for a terminal of any width, and without a terminal.
_WIDTH = 80


def aligned(rows: Sequence[tuple[str, ...]], texts: Collection[int] = (0,)) -> str:
    """Lay out columns: those of texts begin at one place, those of figures end there.

    >>> print(aligned([("column", "n"), ("a", "12")]))
    column   n
    a       12
    """
    columns = []
    for number, column in enumerate(zip(*rows, strict=True)):
        width = max(map(len, column))
        columns.append([cell.ljust(width) if number in texts else cell.rjust(width) for cell in column])
    return "\n".join("  ".join(cells).rstrip() for cells in zip(*columns, strict=True))


def _pairs(rows: Sequence[tuple[str, str]]) -> str:
    return aligned(rows, texts=(0, 1))


def show_document(document: dict[str, Any]) -> None:
    print(_pairs(summary_rows(document)))
    attributes = attribute_table(Figures.model_validate(document["losses"]))
    if len(attributes) > 1:
        print("\n" + aligned(attributes))


def show_risks(figures: dict[str, Any]) -> None:
    print(f"\n{headline(figures)}")
    for sentence in risk_sentences(figures, FIVE):
        print(f"  {sentence}")


def show_risk(figures: dict[str, Any]) -> None:
    print("\n".join([headline(figures), *(f"  {sentence}" for sentence in risk_sentences(figures))]))
    sizes = figures["sizes"]
    if sizes["groups"]:
        print(f"\n{sizes['groups']:,} groups of {sizes['smallest']:,} to {sizes['largest']:,} records")
    for rows in (unit_table(figures), column_table(figures), intruder_table(figures), near_table(figures)):
        if len(rows) > 1:
            print("\n" + aligned(rows))


def show_plan(report: PlanReport, refused: str = "") -> None:
    by_rows = ", by rows of a unit" if report.units else ""
    rows = [
        ("records", f"{report.records:,}" + (f" ({report.withheld:,} withheld)" if report.withheld else "")),
        *(report.units.rows() if report.units else []),
        *(report.night.rows() if report.night else []),
        ("blocking keys", f"{report.keys:,}{by_rows} ({report.undersized_keys:,} below k)"),
        ("blocks", f"{report.blocks:,} ({report.merged_blocks:,} merged, {report.split_blocks:,} from splits)"),
        *_label_rows(report),
        ("partitions", f"{report.partitions:,}"),
        ("released files", f"{report.files:,}"),
        ("largest block allowed", f"{report.max_records:,} records"),
        ("kernel time", _kernel_time(report)),
        ("a run's CPU", f"about {duration(report.cpu_seconds)} in all, {report.workers}"),
        ("memory", f"about {report.task_bytes / 2**20:,.0f} MiB a task, beside the worker itself"),
    ]
    print(_pairs(rows))
    _show_blocks("largest blocks", report.largest, len(report.largest))
    _show_blocks("merged and split blocks", report.changed, report.n_changed)
    if blanked := report.blanked_rows():
        print("\nmissing cells, and cells blanked so that k records lack the same\n" + aligned(blanked))
    print("\nmeans are rounded")
    for line in report.rounding:
        print(f"  {line}")
    if report.metric:
        print("columns count when groups are made")
    for line in report.metric:
        print(f"  {line}")
    if report.pooling:
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


def show_expectation(expectation: comparison_report.Expectation) -> None:
    print(f"\n{expectation.headline()}")
    if expectation.expected:
        print(aligned(expectation.table()))
    for sentence in expectation.sentences():
        print(f"  {sentence}")


def _label_rows(report: PlanReport) -> list[tuple[str, str]]:
    if not report.listing_labels:
        return []
    counted = "units" if report.units else "records"
    listing = f"{report.listing_labels:,} of {report.labels:,} tell that a key with fewer than k {counted} is there"
    return [("labels", f"{listing}; blocks.labels: parent or star do not")]


def _show_blocks(title: str, lines: tuple[BlockLine, ...], n_blocks: int) -> None:
    if not lines:
        return
    print(f"\n{title}")
    rows = [(str(line.block), f"{line.records:,}", f"{line.seconds:.2f}", line.reason) for line in lines[:_MOST_LINES]]
    rows.insert(0, ("block", "records", "seconds", "why"))
    print(aligned(rows, texts=(3,)))
    if n_blocks > _MOST_LINES:
        which = "all" if n_blocks == len(lines) else f"the first {len(lines):,}"
        print(f"... and {n_blocks - _MOST_LINES:,} more (--json shows {which})")


def show_forecast(forecast: Forecast) -> None:
    print(_pairs(forecast_rows(forecast)))
    print("\n" + aligned(forecast_stages(forecast)))
    print("\nof the workers' time\n" + _pairs(loss_rows(forecast)))
    print(f"\nmeasured {forecast.measured}")


def show_verification(report: VerifyReport, as_json: bool) -> None:
    if as_json:
        echo_json(report.document())
        return
    print(f"{report.name} {report.id} {report.revision}, manifest with sha256 {report.sha256}")
    show_checks(report.checks)
    for warning in report.warnings:
        print(f"note {warning}")


def show_checks(checks: Iterable[Check]) -> None:
    for check in checks:
        print(f"{'ok  ' if check.passed else 'FAIL'} {check.name}: {check.detail}")


def show_series(status: LedgerStatus) -> None:
    what = "row" if status.several else "unit"
    smallest = "not known" if status.smallest_trace is None else f"shared by {status.smallest_trace:,} {what}s"
    size = f"{status.bytes / 2**20:,.1f} MiB, {status.bytes_per_unit:.1f} bytes a {what}, {status.files:,} files"
    rows = [
        ("series", f"{status.series}, {status.mode}, {status.guarantee}, k={status.k}"),
        ("ledger", status.url),
        ("nights", f"{status.nights:,}"),
        ("the last", f"{status.release_id} {status.revision} of {status.date} ({status.kind})"),
        (
            f"{what}s",
            f"{status.live:,} live, {status.gone:,} gone, {status.held:,} held, {status.forgotten:,} forgotten",
        ),
        ("smallest trace", smallest),
        ("size", size),
        ("key", status.key_fingerprint),
    ]
    print(_pairs(rows))


def show_attack(report: AttackReport) -> None:
    """Show what releases give away together, and what the figures mean."""
    for number, release in enumerate(report.releases, 1):
        facts = f"k={release.k}, {release.rows:,} records in {release.groups:,} groups"
        print(f"{number}  {release.id} {release.revision}: {facts}  {release.url}")
    rows = [("releases", "in both", "in one", "solved", "below k", "smallest trace")]
    for pair in report.pairs:
        in_one = f"{pair.only_in_first + pair.only_in_second:,}"
        rows.append((f"{pair.first} and {pair.second}", f"{pair.matched:,}", in_one, *_attack_figures(pair)))
    if len(report.releases) > 2:
        rows.append(("all", "", "", *_attack_figures(report)))
    print("\n" + aligned(rows))
    print(f"\nrecords are known again by: {', '.join(report.columns)}")
    print("solved: the quasi-identifiers of so many single records follow from the means")
    print(
        f"below k: so many records shared their groups, release by release, among fewer than k={report.k}; "
        "smallest trace: the fewest that did"
    )
    if report.undecided:
        print(f"not decided for {report.undecided:,} records, too many to try: more of them may be solvable")
    if report.is_safe:
        print("nobody is given away by these releases together; with other columns (--columns) it may differ")
    else:
        print("no later release mends this: withdraw all of these but one, and release no regrouped people again")


def _attack_figures(counts: AttackedPair | AttackReport) -> tuple[str, str, str]:
    smallest = "unknown" if counts.smallest_trace is None else f"{counts.smallest_trace:,}"
    return (f"{counts.records_solved:,}", f"{counts.below_k:,}", smallest)


def show_release_comparison(comparison: ReleaseComparison) -> None:
    print(comparison_report.headline_of(comparison))
    for k in comparison.ks():
        asked = ", as the spec asks" if k == comparison.asked.k else ""
        losses, risks = (
            aligned(rows(comparison, k), (0, 1))
            for rows in (comparison_report.loss_table, comparison_report.risk_table)
        )
        print(f"\nk={k}{asked}: what is lost, and what it takes\n{losses}")
        print(f"\nk={k}: what is given away\n{risks}")
    print()
    _say(comparison_report.table_notes(comparison))
    choice = comparison.choice(comparison.asked.k)
    if choice is not None:
        print(f"\nfor k={comparison.asked.k}, as the spec asks, write into it\n")
        print("\n".join(f"    {line}" for line in comparison_report.yaml_lines(choice.chosen)) + "\n")
    _say(comparison_report.advice_lines(comparison))


def _say(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        print(textwrap.fill(sentence, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False))


def show_comparison(comparison: Comparison) -> None:
    rows = [("algorithm", "k", "L_SSE %", "L_E %", "groups", "sizes", "seconds")]
    for k in comparison.ks():
        for o in comparison.best(k):
            sizes = f"{o.least}" if o.least == o.most else f"{o.least} to {o.most}"
            figures = (f"{o.l_sse:.4f}", f"{o.l_e:.3f}", f"{o.groups:,}", sizes, f"{o.seconds:.3f}")
            rows.append((o.algorithm, str(o.k), *figures))
    print(aligned(rows))
    _show_published(comparison)
    for line in (*comparison.in_words(), *(f"left out: {reason}" for reason in comparison.left_out)):
        print(line)


def _show_published(comparison: Comparison) -> None:
    ks = comparison.ks()
    figures = [f for f in comparison.published if f.k in ks and f.measure in ("L_SSE", "L_E")]
    if not figures:
        return
    lines: dict[tuple[str, str, str], dict[int, PrintedLoss]] = {}
    for f in figures:
        lines.setdefault((f.source, f.method, f.measure), {})[f.k] = f
    rows = [("method", "measure", *(f"k={k}" for k in ks), "source")]
    for (source, method, measure), by_k in lines.items():
        rows.append((method, measure, *(f"{by_k[k].value:g}" if k in by_k else "" for k in ks), source))
    print(f"\nprinted in the literature for {figures[0].dataset}\n{aligned(rows, (0, 1, 2 + len(ks)))}\n")


def show_algorithms(as_json: bool) -> None:
    infos = algorithms()
    if as_json:
        echo_json([info.document() for info in infos.values()])
        return
    for info in infos.values():
        print(f"{info.name}: {info.summary}")
        print(f"    {info.description}")
        print(f"    groups: {info.sizes_text}")
        print(f"    takes: {'numbers and ordinal' if info.sorts else 'numbers, ordinal and nominal'} quasi-identifiers")
        for parameter in info.parameters:
            print(f"    {parameter.name} (default {parameter.default}): {parameter.description}")
        cost = info.document()["cost"]
        size = f"{cost['records']:,} records, {cost['attributes']} attribute(s), k={cost['k']}"
        print(f"    about {cost['seconds']:.1f} s for {size} on one core\n")
