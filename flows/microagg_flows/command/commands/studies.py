"""Commands that study files and release nothing: releases attacked together, algorithms side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from microagg_core.errors import SpecError
from microagg_flows.command.call import (
    EndpointOption,
    IdOption,
    JsonOption,
    QuietOption,
    SetOption,
    command,
    listed,
)

if TYPE_CHECKING:
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
    from microagg_flows.command.attacking import attack_releases

    attack_releases(releases, listed(columns), endpoint, solved, as_json)


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
    from microagg_flows.command.comparing import Files, SpecWish, compare_file, compare_spec, is_spec

    if is_spec(data):
        of_file = {"--quasi-identifiers": quasi_identifiers or None, "--seed": seed}
        _refuse_options(of_file, data, "a release spec, which says that itself")
        ks = _whole_numbers(k) if k else []
        wish = SpecWish(release_id, settings or (), ks, listed(algorithms), listed(refine or ""), seeds, records)
        compare_spec(data, wish, Files(table, plot, page), as_json, record)
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
