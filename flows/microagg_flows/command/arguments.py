"""Arguments and options that many commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from microagg_flows.accounts.log_lines import LogFormat, LogLevel

SpecArgument = Annotated[
    str, typer.Argument(help="The release spec: a path or any fsspec URL.", metavar="release.yaml")
]
IdOption = Annotated[str | None, typer.Option("--id", help="The release's id, instead of the spec's.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="PATH=VALUE: a field of the spec for this call, such as output.url=s3://dev/people; may be given again.",
        metavar="PATH=VALUE",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
ResultsOption = Annotated[
    Path | None, typer.Option("--results", help="Also write the run's outcome here, a JSON document, however it ends.")
]
LogFormatOption = Annotated[LogFormat, typer.Option("--log-format", help="Lines of the log; json: one object each.")]
LogFileOption = Annotated[
    Path | None, typer.Option("--log-file", help="Append the log to this file, instead of standard error.")
]
LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="The least that is worth a line.")]


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        typer.echo(f"microagg {version('microagg')}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", help="Say which version this is.", callback=_show_version, is_eager=True)
]


def listed(text: str) -> list[str]:
    """Words that are separated by commas.

    >>> listed("age, town,")
    ['age', 'town']
    """
    return [word.strip() for word in text.split(",") if word.strip()]
