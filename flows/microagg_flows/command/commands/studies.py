"""Commands that study files and release nothing: releases attacked together, algorithms side by side."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from microagg_core.errors import GateError, SpecError
from microagg_core.store.urls import is_local, local_path
from microagg_flows.command.call import (
    EndpointOption,
    IdOption,
    JsonOption,
    QuietOption,
    SetOption,
    command,
    echo_json,
    listed,
    storage_options,
    write_file,
)
from microagg_flows.process import claim_limits, scratch

if TYPE_CHECKING:
    from microagg_core.compare.grid import Grid
    from microagg_core.series.attack.report import Attack
    from microagg_flows.record import RunRecord
    from microagg_flows.releasing import Order

#: Endings of names by which it is known what is compared; of data, those besides what formats have.
_SPEC_ENDINGS = (".yaml", ".yml")
#: A spec has these keys, and a text of data is no mapping with them.
_SPEC_KEYS = frozenset({"roles", "input"})
_MOST_BYTES = 2_000_000
#: What files with risk figures may be, where they are not there yet: read by whoever asked.
_FOR_ITS_OWNER = 0o600


@command("attack", recorded=False)
def attack(
    releases: Annotated[list[str], typer.Argument(help="URLs of two or more releases, as for verify.", metavar="URL")],
    columns: Annotated[
        str,
        typer.Option(help="Confidential columns that tell records apart, separated by commas; default: all shared."),
    ] = "",
    endpoint: EndpointOption = None,
    solved: Annotated[
        Path | None,
        typer.Option(
            help="Also write the solved quasi-identifiers of people here, by release and row: keep it secret."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute what an outsider can from several releases of the same people; exit code 4 where that is somebody."""
    from microagg_core.plain import to_plain
    from microagg_core.series.attack.report import attack as attack_releases
    from microagg_flows.command.terminal import show_attack

    if solved is not None and solved.exists():
        raise SpecError(f"--solved: {solved} exists already; remove it or choose another name")
    with scratch():
        outcome = attack_releases(releases, listed(columns), storage_options(endpoint))
    report = outcome.report
    if solved is not None:
        _write_solved(outcome, solved)
    if as_json:
        echo_json(to_plain(report))
    else:
        show_attack(report)
    if not report.is_safe:
        raise GateError(
            f"together the releases give {report.records_solved:,} records away exactly, and {report.below_k:,} share "
            f"their groups among fewer than k={report.k}; withdraw all of them but one"
        )


def _write_solved(outcome: Attack, path: Path) -> None:
    """Write one line for each solved record of each release, to a new file that its owner alone can read."""
    from microagg_core.store.failures import explaining

    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("release", "row", *outcome.quasi_identifiers))
    for number, (rows, solved) in enumerate(outcome.solved, 1):
        for row, values in zip(rows.tolist(), solved.tolist(), strict=True):
            writer.writerow((number, row + 1, *values))
    with explaining(str(path), "writing"):
        write_file(path, text.getvalue().encode(), 0o600, os.O_EXCL)


@command("compare")
def compare(
    record: RunRecord,
    data: Annotated[
        str,
        typer.Argument(
            help="A release spec; or a Parquet, CSV or Arrow file (path, URL or glob).", metavar="release.yaml|DATA"
        ),
    ],
    quasi_identifiers: Annotated[
        str,
        typer.Option("--quasi-identifiers", help="Of a file: columns, separated by commas; default: all with a mean."),
    ] = "",
    k: Annotated[
        str, typer.Option("--k", help="Values of k, separated by commas; default: 3,5,10, of a spec it and neighbours.")
    ] = "",
    algorithms: Annotated[
        str, typer.Option("--algorithms", help="Algorithms, separated by commas; default: all that suit.")
    ] = "",
    seed: Annotated[int | None, typer.Option(min=0, help="Of a file: for algorithms that draw; default: 0.")] = None,
    refine: Annotated[
        str | None, typer.Option("--refine", help="Of a spec: off, fast, thorough, separated by commas; default: all.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=100, help="Of a spec: seeds that are tried of what draws; default: 3.")
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(help="Of a spec: records up to which all are grouped, and else about as many; default: 30,000."),
    ] = None,
    release_id: IdOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
    table: Annotated[Path | None, typer.Option("--table", "--csv", help="Also write the table as CSV here.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", help="Also draw loss against k, or of a spec risk against loss, here (.png, .svg, .pdf)."
        ),
    ] = None,
    page: Annotated[Path | None, typer.Option("--html", help="Of a spec: also write a page with all of it.")] = None,
    quiet: QuietOption = False,
) -> None:
    """Try algorithms side by side: on a file, or on what a release.yaml would release, and which to choose.

    Of a spec: blocks, missing values, scale, refinement and rounding are those of the release; of a large file blocks
    are drawn. Loss, risk, sizes and time are for the operator alone, and nothing is released.
    """
    if is_spec(data):
        from microagg_flows.releasing import Order

        of_file = {"--quasi-identifiers": quasi_identifiers or None, "--seed": seed}
        _refuse_options(of_file, data, "a release spec, which says that itself")
        grid = _grid(k, algorithms, refine or "", seeds=seeds, records=records)
        order = Order(data, release_id, settings=tuple(settings or ()))
        _compare_release(order, grid, as_json, table, plot, page, record)
        return
    of_spec = {"--refine": refine, "--seeds": seeds, "--records": records, "--id": release_id, "--set": settings}
    _refuse_options({**of_spec, "--html": page}, data, "a file of data; the option is for a release.yaml")
    columns, ks = listed(quasi_identifiers), _whole_numbers(k or "3,5,10")
    _compare_file(data, columns, ks, listed(algorithms), seed or 0, as_json, table, plot, quiet)


def _grid(k: str, algorithms: str, refine: str, **budget: int | None) -> Grid:
    from microagg_core.compare.grid import Grid

    limits = {name: value for name, value in budget.items() if value is not None}
    return Grid(tuple(_whole_numbers(k) if k else ()), tuple(listed(algorithms)), tuple(listed(refine)), **limits)


def _compare_file(
    data: str,
    quasi_identifiers: list[str],
    ks: list[int],
    algorithms: list[str],
    seed: int,
    as_json: bool,
    table: Path | None,
    plot: Path | None,
    quiet: bool,
) -> None:
    """Compare algorithms on a bare file, and show and write what was asked for."""
    import pandas as pd

    from microagg_core.compare import bare_file
    from microagg_core.pages.plots import check_ending, plot_losses
    from microagg_flows.command.terminal import show_comparison
    from microagg_flows.progress import terminal_progress

    if plot is not None:
        check_ending(plot)
    columns = bare_file.read_columns(data, quasi_identifiers)
    comparison = bare_file.compare(columns, ks, algorithms, seed, terminal_progress(quiet or as_json).say)
    if as_json:
        echo_json(comparison.document())
    else:
        show_comparison(comparison)
    if table is not None:
        _write(table, pd.DataFrame(comparison.document()["outcomes"]).to_csv(index=False, lineterminator="\n"))
    if plot is not None:
        plot_losses(comparison, plot)


def _compare_release(
    order: Order, grid: Grid, as_json: bool, table: Path | None, plot: Path | None, page: Path | None, record: RunRecord
) -> None:
    """Compare what a spec's release would come to; only their owner may read the files, as what they say is private."""
    from microagg_core.pages.comparison_report import comparison_csv, comparison_document, comparison_page
    from microagg_core.pages.plots import check_ending, risk_picture
    from microagg_flows.aside import compare_release
    from microagg_flows.command.terminal import show_release_comparison

    if plot is not None:
        check_ending(plot)
    claim_limits()
    with scratch():
        settled, comparison = compare_release(order, grid, record.progress)
    record.about(settled)
    if as_json:
        echo_json(comparison_document(comparison))
    else:
        show_release_comparison(comparison)
    if table is not None:
        _write(table, comparison_csv(comparison), _FOR_ITS_OWNER)
    if plot is not None:
        _write(plot, risk_picture(comparison, plot.suffix[1:].lower()), _FOR_ITS_OWNER)
    if page is not None:
        _write(page, comparison_page(comparison, settled.name), _FOR_ITS_OWNER)


def is_spec(name: str) -> bool:
    """Tell the name of a release spec from that of data.

    >>> is_spec("night/release.yaml"), is_spec("people.csv.gz"), is_spec("s3://in/part-*")
    (True, False, False)
    """
    from microagg_core.data.formats.options import compression_of
    from microagg_core.data.formats.reading import format_of

    lower = name.lower()
    if lower.endswith(_SPEC_ENDINGS):
        return True
    is_data = format_of(lower) is not None or compression_of(lower) is not None
    if is_data or any(sign in name for sign in "*?[") or not is_local(name):
        return False
    return _reads_as_spec(Path(local_path(name)))


def _reads_as_spec(path: Path) -> bool:
    from microagg_core.spec.marked_yaml import parse

    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        tree = parse(data.decode("utf-8-sig"))[0] if len(data) <= _MOST_BYTES else None
    except (OSError, UnicodeDecodeError):
        return False
    return tree is not None and isinstance(tree.value, dict) and not _SPEC_KEYS.isdisjoint(tree.children)


def _refuse_options(options: Mapping[str, object], data: str, what: str) -> None:
    """Stop for an option that says nothing of what is compared."""
    for name, value in options.items():
        if value is not None:
            raise SpecError(f"{name}: {data} is {what}")


def _whole_numbers(text: str) -> list[int]:
    if not all(word.isdecimal() and len(word) < 19 for word in listed(text)) or not listed(text):
        raise SpecError(f"--k: must be whole numbers separated by commas (got {text!r})")
    return [int(word) for word in listed(text)]


def _write(path: Path, data: str | bytes, rights: int = 0o666) -> None:
    from microagg_core.store.failures import explaining

    with explaining(str(path), "writing"):
        write_file(path, data.encode() if isinstance(data, str) else data, rights)
    typer.echo(f"wrote {path}", err=True)
