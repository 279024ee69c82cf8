"""Arguments and options that many commands have."""

from __future__ import annotations

from typing import Annotated

import typer

SpecArgument = Annotated[
    str, typer.Argument(help="The release spec: a path or any fsspec URL.", metavar="release.yaml")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
