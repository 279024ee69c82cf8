"""Commands that study files and release nothing: releases attacked together, algorithms side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from microagg_core.errors import SpecError
from microagg_flows.command.arguments import JsonOption, QuietOption, listed


def attack(
    releases: Annotated[list[str], typer.Argument(help="URLs of two or more releases, as for verify.", metavar="URL")],
    columns: Annotated[
        str,
        typer.Option(help="Confidential columns that tell records apart, separated by commas; default: all shared."),
    ] = "",
    endpoint: Annotated[str | None, typer.Option(help="Endpoint of an S3 store other than AWS.")] = None,
    solved: Annotated[
        Path | None,
        typer.Option(
            help="Also write the solved quasi-identifiers of people here, by release and row: keep it secret."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute what an outsider can from several releases of the same people; exit code 4 where that is somebody."""
    from microagg_flows.command.attacking import attack_releases

    attack_releases(releases, listed(columns), endpoint, solved, as_json)


def compare(
    data: Annotated[str, typer.Argument(help="A Parquet, CSV or Arrow file (path, URL or glob).")],
    quasi_identifiers: Annotated[
        str, typer.Option("--quasi-identifiers", help="Columns, separated by commas; default: all with a mean.")
    ] = "",
    k: Annotated[str, typer.Option("--k", help="Values of k, separated by commas.")] = "3,5,10",
    algorithms: Annotated[
        str, typer.Option("--algorithms", help="Algorithms, separated by commas; default: all that suit.")
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="For algorithms that draw.")] = 0,
    as_json: JsonOption = False,
    csv: Annotated[Path | None, typer.Option("--csv", help="Also write the table as CSV here.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Also draw loss against k here (.png, .svg, .pdf).")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Run the algorithms side by side on a file: loss, group sizes, time, and which is best here."""
    from microagg_flows.command.comparing import compare_file

    compare_file(
        data, listed(quasi_identifiers), _whole_numbers(k), listed(algorithms), seed, as_json, csv, plot, quiet
    )


def _whole_numbers(text: str) -> list[int]:
    if not all(word.isdecimal() for word in listed(text)) or not listed(text):
        raise SpecError(f"--k: must be whole numbers separated by commas (got {text!r})")
    return [int(word) for word in listed(text)]
