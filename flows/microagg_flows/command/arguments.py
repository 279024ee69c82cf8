"""Arguments and options that many commands have."""

from __future__ import annotations

from typing import Annotated

import typer

SpecArgument = Annotated[
    str, typer.Argument(help="The release spec: a path or any fsspec URL.", metavar="release.yaml")
]
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
