"""``microagg attack``: what an outsider computes from several releases, in a table and in words."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from microagg_core.errors import GateError, SpecError
from microagg_core.plain import to_plain
from microagg_core.series.attack.report import Attack, AttackedPair, AttackReport, attack
from microagg_core.store.failures import explaining
from microagg_flows.process import scratch

_COLUMNS = ("releases", "in both", "in one", "solved", "below k", "smallest trace")


def attack_releases(
    urls: Sequence[str], columns: Sequence[str], endpoint: str | None, solved: Path | None, as_json: bool
) -> None:
    """Attack, show the figures, and write the solved records where asked.

    Raises:
        GateError: somebody is solved, or shares his groups with fewer than k.
    """
    if solved is not None and solved.exists():
        raise SpecError(f"--solved: {solved} exists already; remove it or choose another name")
    options: dict[str, Any] = {"client_kwargs": {"endpoint_url": endpoint}} if endpoint else {}
    with scratch():
        outcome = attack(urls, columns, options)
    if solved is not None:
        _write_solved(outcome, solved)
    if as_json:
        print(json.dumps(to_plain(outcome.report), indent=1))
    else:
        _show(outcome.report)
    if not outcome.report.is_safe:
        raise GateError(_verdict(outcome.report))


def _verdict(report: AttackReport) -> str:
    return (
        f"together the releases give {report.records_solved:,} records away exactly, and {report.below_k:,} share "
        f"their groups among fewer than k={report.k}; withdraw all of them but one"
    )


def _show(report: AttackReport) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for number, release in enumerate(report.releases, 1):
        facts = f"k={release.k}, {release.rows:,} records in {release.groups:,} groups"
        console.print(f"{number}  {release.id} {release.revision}: {facts}  {release.url}")
    console.print()
    table = Table(box=None, pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == "releases" else "right")
    for pair in report.pairs:
        table.add_row(*_cells(pair))
    if len(report.releases) > 2:
        table.add_row("all", "", "", *_figures(report))
    console.print(table)
    for line in ("", *_in_words(report)):
        console.print(line)


def _cells(pair: AttackedPair) -> tuple[str, ...]:
    in_one = f"{pair.only_in_first + pair.only_in_second:,}"
    return (f"{pair.first} and {pair.second}", f"{pair.matched:,}", in_one, *_figures(pair))


def _figures(of: AttackedPair | AttackReport) -> tuple[str, str, str]:
    smallest = "unknown" if of.smallest_trace is None else f"{of.smallest_trace:,}"
    return (f"{of.records_solved:,}", f"{of.below_k:,}", smallest)


def _in_words(report: AttackReport) -> list[str]:
    lines = [
        f"records are known again by: {', '.join(report.columns)}",
        "solved: the quasi-identifiers of so many single records follow from the means",
        f"below k: so many records shared their groups, release by release, among fewer than k={report.k}; "
        "smallest trace: the fewest that did",
    ]
    if report.undecided:
        lines.append(f"not decided for {report.undecided:,} records, too many to try: more of them may be solvable")
    if report.is_safe:
        lines.append("nobody is given away by these releases together; with other columns (--columns) it may differ")
    else:
        lines.append(
            "no later release mends this: withdraw all of these but one, and release no regrouped people again"
        )
    return lines


def _write_solved(outcome: Attack, path: Path) -> None:
    """Write one line for each solved record of each release, to a new file that its owner alone can read."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("release", "row", *outcome.quasi_identifiers))
    for number, (rows, solved) in enumerate(outcome.solved, 1):
        for row, values in zip(rows.tolist(), solved.tolist(), strict=True):
            writer.writerow((number, row + 1, *values))
    with explaining(str(path), "writing"):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text.getvalue())
