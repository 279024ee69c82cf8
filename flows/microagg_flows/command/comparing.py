"""Run and show ``microagg compare``: tables, words, and files beside them; of a bare file, or of a spec's release.

Which of the two is asked for, the name says: one that ends in .yaml or .yml is that of a spec, one with an ending of
data, or for several files, that of data. Any other is a spec where its text is that of one.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from microagg_core.compare.bare_file import Comparison, PrintedLoss, compare, read_columns
from microagg_core.compare.grid import Grid
from microagg_core.data.formats.options import compression_of
from microagg_core.data.formats.reading import format_of
from microagg_core.pages.plots import check_ending, plot_losses, risk_picture
from microagg_core.plain import to_plain
from microagg_core.spec.marked_yaml import parse
from microagg_core.store.failures import explaining
from microagg_core.store.urls import is_local, local_path
from microagg_flows.progress import terminal_progress

if TYPE_CHECKING:
    from microagg_core.compare.choice import ReleaseComparison
    from microagg_flows.record import RunRecord

#: What is written for a terminal of any width, and for one that nobody sees.
_WIDTH = 80
#: Endings of names by which it is known what is compared; of data, those besides what formats have.
_SPEC_ENDINGS = (".yaml", ".yml")
#: A spec has these keys, and a text of data is no mapping with them.
_SPEC_KEYS = frozenset({"roles", "input"})
_MOST_BYTES = 2_000_000
#: What files with risk figures may be, where they are not there yet: read by whoever asked.
_FOR_ITS_OWNER = 0o600

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
    """Compare algorithms on a bare file, and show and write what was asked for."""
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


@dataclass(frozen=True)
class Files:
    """Files to write beside what is shown."""

    table: Path | None = None
    plot: Path | None = None
    page: Path | None = None


@dataclass(frozen=True)
class SpecWish:
    """Options of a comparison that only a spec can answer."""

    release_id: str | None = None
    settings: Sequence[str] = ()
    ks: Sequence[int] = ()
    algorithms: Sequence[str] = ()
    refinements: Sequence[str] = ()
    seeds: int | None = None
    records: int | None = None

    def grid(self) -> Grid:
        given = {name: value for name, value in (("seeds", self.seeds), ("records", self.records)) if value is not None}
        return Grid(tuple(self.ks), tuple(self.algorithms), tuple(self.refinements), **given)


def is_spec(name: str) -> bool:
    """Tell the name of a release spec from that of data.

    >>> is_spec("night/release.yaml"), is_spec("people.csv.gz"), is_spec("s3://in/part-*")
    (True, False, False)
    """
    lower = name.lower()
    if lower.endswith(_SPEC_ENDINGS):
        return True
    is_data = format_of(lower) is not None or compression_of(lower) is not None
    if is_data or any(sign in name for sign in "*?[") or not is_local(name):
        return False
    return _reads_as_spec(Path(local_path(name)))


def _reads_as_spec(path: Path) -> bool:
    """Tell whether the text of a file is a mapping with what every spec has."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        tree = parse(data.decode("utf-8-sig"))[0] if len(data) <= _MOST_BYTES else None
    except (OSError, UnicodeDecodeError):
        return False
    return tree is not None and isinstance(tree.value, dict) and not _SPEC_KEYS.isdisjoint(tree.children)


def compare_spec(spec: str, wish: SpecWish, files: Files, as_json: bool, record: RunRecord) -> None:
    """Compare what a spec's release would come to, and show and write what was asked for."""
    from microagg_flows.aside import compare_release
    from microagg_flows.process import claim_limits, scratch
    from microagg_flows.releasing import Order

    if files.plot is not None:
        check_ending(files.plot)
    claim_limits()
    order = Order(spec, wish.release_id, settings=tuple(wish.settings))
    with scratch():
        settled, comparison = compare_release(order, wish.grid(), record.progress)
    record.about(settled)
    if as_json:
        from microagg_core.pages.comparison_report import comparison_document

        print(json.dumps(comparison_document(comparison), indent=1))
    else:
        _show_release(comparison)
    _write_files(comparison, settled.name, files)


def _show_release(comparison: ReleaseComparison) -> None:
    """Print all figures, what the columns are, and what is advised."""
    from microagg_core.pages import comparison_report as report

    print(report.headline_of(comparison))
    for k in comparison.ks():
        asked = ", as the spec asks" if k == comparison.asked.k else ""
        print(f"\nk={k}{asked}: what is lost, and what it takes\n{_columns(report.loss_table(comparison, k))}")
        print(f"\nk={k}: what is given away\n{_columns(report.risk_table(comparison, k))}")
    print()
    _say(report.table_notes(comparison))
    choice = comparison.choice(comparison.asked.k)
    if choice is not None:
        print(f"\nfor k={comparison.asked.k}, as the spec asks, write into it\n")
        print("\n".join(f"    {line}" for line in report.yaml_lines(choice.chosen)) + "\n")
    _say(report.advice_lines(comparison))


def _say(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        print(textwrap.fill(sentence, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False))


def _columns(rows: list[tuple[str, ...]]) -> str:
    """Align columns as plain text, the first two of words: none is cut or folded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            f"{cell:<{w}}" if i < 2 else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _write_files(comparison: ReleaseComparison, name: str, files: Files) -> None:
    """Write the files that were asked for; only their owner may read them, as what they say is private."""
    from microagg_core.pages.comparison_report import comparison_csv, comparison_page

    if files.table is not None:
        _write(files.table, comparison_csv(comparison).encode(), _FOR_ITS_OWNER)
    if files.plot is not None:
        _write(files.plot, risk_picture(comparison, files.plot.suffix[1:].lower()), _FOR_ITS_OWNER)
    if files.page is not None:
        _write(files.page, comparison_page(comparison, name).encode(), _FOR_ITS_OWNER)


def _write(path: Path, data: bytes, mode: int = 0o666) -> None:
    with (
        explaining(str(path), "writing"),
        open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file,  # noqa: PTH123 - a descriptor
    ):
        file.write(data)
    print(f"wrote {path}", file=sys.stderr)


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
    lines: dict[tuple[str, str, str], dict[int, PrintedLoss]] = {}
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
    _write(path, text.getvalue().encode())
