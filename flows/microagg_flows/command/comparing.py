"""`microagg compare`: the table, the words, and the files beside them."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from microagg_core.comparing.compare import Comparison, compare, read_columns
from microagg_core.comparing.published import Figure
from microagg_core.plain import to_plain
from microagg_core.reporting.loss_plot import check_ending, plot_losses
from microagg_core.storage.troubles import explaining
from microagg_flows.progress import terminal_progress

_COLUMNS = ("algorithm", "k", "L_SSE %", "L_E %", "groups", "sizes", "seconds")


def compare_file(
    data: str,
    quasi_identifiers: Sequence[str],
    ks: Sequence[int],
    names: Sequence[str],
    seed: int,
    as_json: bool,
    table_path: Path | None,
    plot_path: Path | None,
    quiet: bool,
) -> None:
    """Compare, and show and write what was asked for."""
    if plot_path is not None:
        check_ending(plot_path)
    progress = terminal_progress(quiet or as_json)
    comparison = compare(read_columns(data, quasi_identifiers), ks, names, seed, progress.say)
    if as_json:
        print(json.dumps(comparison.document(), indent=1))
    else:
        _show(comparison)
    if table_path is not None:
        _write_table(comparison, table_path)
    if plot_path is not None:
        plot_losses(comparison, plot_path)


def _show(comparison: Comparison) -> None:
    console = Console(highlight=False, markup=False)
    table = Table(box=None, pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == "algorithm" else "right")
    for k in comparison.ks():
        for o in comparison.best(k):
            sizes = f"{o.least}" if o.least == o.most else f"{o.least} to {o.most}"
            cells = (f"{o.l_sse:.4f}", f"{o.l_e:.3f}", f"{o.groups:,}", sizes, f"{o.seconds:.3f}")
            table.add_row(o.algorithm, str(o.k), *cells)
        table.add_section()
    console.print(table)
    _show_published(console, comparison)
    for line in (*comparison.in_words(), *(f"left out: {reason}" for reason in comparison.left_out)):
        console.print(line, soft_wrap=True)


def _show_published(console: Console, comparison: Comparison) -> None:
    figures = [f for f in comparison.published if f.k in comparison.ks() and f.measure in ("L_SSE", "L_E")]
    if not figures:
        return
    table = Table(
        box=None, pad_edge=False, title=f"\nprinted in the literature for {figures[0].dataset}", title_justify="left"
    )
    for column in ("method", "measure", *(f"k={k}" for k in comparison.ks()), "source"):
        table.add_column(column, justify="right" if column.startswith("k=") else "left")
    lines: dict[tuple[str, str, str], dict[int, Figure]] = {}
    for f in figures:
        lines.setdefault((f.source, f.method, f.measure), {})[f.k] = f
    for (source, method, measure), by_k in lines.items():
        values = (f"{by_k[k].value:g}" if k in by_k else "" for k in comparison.ks())
        table.add_row(method, measure, *values, source)
    console.print(table)
    console.print()


def _write_table(comparison: Comparison, path: Path) -> None:
    rows = to_plain(comparison.outcomes)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with explaining(str(path), "writing"):
        path.write_text(text.getvalue(), encoding="utf-8", newline="")
    print(f"wrote {path}", file=sys.stderr)
