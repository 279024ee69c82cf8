"""Commands that study files and release nothing: releases attacked together, algorithms side by side."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from microagg_core.errors import GateError, SpecError
from microagg_flows.command.call import (
    EndpointOption,
    IdOption,
    JsonOption,
    QuietOption,
    SetOption,
    command,
    listed,
    storage_options,
)
from microagg_flows.process import scratch

if TYPE_CHECKING:
    from microagg_core.series.attack.report import Attack
    from microagg_flows.record import RunRecord


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
        typer.echo(json.dumps(to_plain(report), indent=1))
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
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text.getvalue())


QuasiIdentifiersOption = Annotated[
    str, typer.Option("--quasi-identifiers", help="Of a file: columns, separated by commas; default: all with a mean.")
]
KsOption = Annotated[
    str,
    typer.Option(
        "--k", help="Values of k, separated by commas; default: of a file 3,5,10, of a spec its own and neighbours."
    ),
]
RefineOption = Annotated[
    str | None, typer.Option("--refine", help="Of a spec: off, fast, thorough, separated by commas; default: all.")
]
SeedsOption = Annotated[
    int | None, typer.Option(min=1, max=100, help="Of a spec: seeds that are tried of what draws; default: 3.")
]
RecordsOption = Annotated[
    int | None,
    typer.Option(help="Of a spec: records up to which all are grouped, and else about as many; default: 30,000."),
]
PictureOption = Annotated[
    Path | None,
    typer.Option("--plot", help="Also draw loss against k, or of a spec risk against loss, here (.png, .svg, .pdf)."),
]


@command("compare")
def compare(
    record: RunRecord,
    data: Annotated[
        str,
        typer.Argument(
            help="A release spec; or a Parquet, CSV or Arrow file (path, URL or glob).", metavar="release.yaml|DATA"
        ),
    ],
    quasi_identifiers: QuasiIdentifiersOption = "",
    k: KsOption = "",
    algorithms: Annotated[
        str, typer.Option("--algorithms", help="Algorithms, separated by commas; default: all that suit.")
    ] = "",
    seed: Annotated[int | None, typer.Option(min=0, help="Of a file: for algorithms that draw; default: 0.")] = None,
    refine: RefineOption = None,
    seeds: SeedsOption = None,
    records: RecordsOption = None,
    release_id: IdOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
    table: Annotated[Path | None, typer.Option("--table", "--csv", help="Also write the table as CSV here.")] = None,
    plot: PictureOption = None,
    page: Annotated[Path | None, typer.Option("--html", help="Of a spec: also write a page with all of it.")] = None,
    quiet: QuietOption = False,
) -> None:
    """Try algorithms side by side: on a file, or on what a release.yaml would release, and which to choose.

    Of a spec: blocks, missing values, scale, refinement and rounding are those of the release; of a large file blocks
    are drawn. Loss, risk, sizes and time are for the operator alone, and nothing is released.
    """
    from microagg_core.compare.grid import Grid
    from microagg_flows.command.comparing import compare_file, compare_spec, is_spec
    from microagg_flows.releasing import Order

    if is_spec(data):
        of_file = {"--quasi-identifiers": quasi_identifiers or None, "--seed": seed}
        _refuse_options(of_file, data, "a release spec, which says that itself")
        ks = _whole_numbers(k) if k else []
        budget = {name: value for name, value in (("seeds", seeds), ("records", records)) if value is not None}
        grid = Grid(tuple(ks), tuple(listed(algorithms)), tuple(listed(refine or "")), **budget)
        compare_spec(Order(data, release_id, settings=tuple(settings or ())), grid, as_json, table, plot, page, record)
        return
    of_spec = {"--refine": refine, "--seeds": seeds, "--records": records, "--id": release_id, "--set": settings}
    _refuse_options({**of_spec, "--html": page}, data, "a file of data; the option is for a release.yaml")
    columns, ks = listed(quasi_identifiers), _whole_numbers(k or "3,5,10")
    compare_file(data, columns, ks, listed(algorithms), seed or 0, as_json, table, plot, quiet)


def _refuse_options(options: Mapping[str, object], data: str, what: str) -> None:
    """Stop for an option that says nothing of what is compared."""
    for name, value in options.items():
        if value is not None:
            raise SpecError(f"{name}: {data} is {what}")


def _whole_numbers(text: str) -> list[int]:
    if not all(word.isdecimal() and len(word) < 19 for word in listed(text)) or not listed(text):
        raise SpecError(f"--k: must be whole numbers separated by commas (got {text!r})")
    return [int(word) for word in listed(text)]
