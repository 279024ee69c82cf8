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
from pathlib import Path
from typing import TYPE_CHECKING

from microagg_core.compare.bare_file import Comparison, PrintedLoss, compare, read_columns
from microagg_core.data.formats.options import compression_of
from microagg_core.data.formats.reading import format_of
from microagg_core.pages.plots import check_ending, plot_losses, risk_picture
from microagg_core.plain import to_plain
from microagg_core.spec.marked_yaml import parse
from microagg_core.store.failures import explaining
from microagg_core.store.urls import is_local, local_path
from microagg_flows.command.terminal import aligned
from microagg_flows.process import claim_limits, scratch
from microagg_flows.progress import terminal_progress

if TYPE_CHECKING:
    from microagg_core.compare.choice import ReleaseComparison
    from microagg_core.compare.grid import Grid
    from microagg_flows.record import RunRecord
    from microagg_flows.releasing import Order

#: What is written for a terminal of any width, and for one that nobody sees.
_WIDTH = 80
#: Endings of names by which it is known what is compared; of data, those besides what formats have.
_SPEC_ENDINGS = (".yaml", ".yml")
#: A spec has these keys, and a text of data is no mapping with them.
_SPEC_KEYS = frozenset({"roles", "input"})
_MOST_BYTES = 2_000_000
#: What files with risk figures may be, where they are not there yet: read by whoever asked.
_FOR_ITS_OWNER = 0o600


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
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        tree = parse(data.decode("utf-8-sig"))[0] if len(data) <= _MOST_BYTES else None
    except (OSError, UnicodeDecodeError):
        return False
    return tree is not None and isinstance(tree.value, dict) and not _SPEC_KEYS.isdisjoint(tree.children)


def compare_spec(
    order: Order,
    grid: Grid,
    as_json: bool,
    table: Path | None,
    plot: Path | None,
    page: Path | None,
    record: RunRecord,
) -> None:
    """Compare what a spec's release would come to, and show and write what was asked for.

    Only their owner may read the files, as what they say is private.
    """
    from microagg_core.pages.comparison_report import comparison_csv, comparison_document, comparison_page
    from microagg_flows.aside import compare_release

    if plot is not None:
        check_ending(plot)
    claim_limits()
    with scratch():
        settled, comparison = compare_release(order, grid, record.progress)
    record.about(settled)
    if as_json:
        print(json.dumps(comparison_document(comparison), indent=1))
    else:
        _show_release(comparison)
    if table is not None:
        _write(table, comparison_csv(comparison).encode(), _FOR_ITS_OWNER)
    if plot is not None:
        _write(plot, risk_picture(comparison, plot.suffix[1:].lower()), _FOR_ITS_OWNER)
    if page is not None:
        _write(page, comparison_page(comparison, settled.name).encode(), _FOR_ITS_OWNER)


def _show_release(comparison: ReleaseComparison) -> None:
    from microagg_core.pages import comparison_report as report

    print(report.headline_of(comparison))
    for k in comparison.ks():
        asked = ", as the spec asks" if k == comparison.asked.k else ""
        losses, risks = (aligned(rows(comparison, k), (0, 1)) for rows in (report.loss_table, report.risk_table))
        print(f"\nk={k}{asked}: what is lost, and what it takes\n{losses}")
        print(f"\nk={k}: what is given away\n{risks}")
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


def _write(path: Path, data: bytes, mode: int = 0o666) -> None:
    with (
        explaining(str(path), "writing"),
        open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file,  # noqa: PTH123 - a descriptor
    ):
        file.write(data)
    print(f"wrote {path}", file=sys.stderr)


def _show(comparison: Comparison) -> None:
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


def _write_table(comparison: Comparison, path: Path) -> None:
    rows = to_plain(comparison.outcomes)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    _write(path, text.getvalue().encode())
