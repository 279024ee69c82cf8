"""A release spec to start from, for files that are looked at."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

from microagg_core.formats.inputs.registry import input_format
from microagg_core.spec.formats import ReleasedFormatName
from microagg_core.spec.places import Input, Output
from microagg_core.spec.starter import starter_spec
from microagg_core.storage.urls import is_local, local_path


def starter_for(data: str, spec: Path) -> str:
    """The starter spec, to be written to ``spec``, for the file or files at ``data``.

    The release has the format of the input, if releases are made in it.

    Raises:
        StorageError: there is no such file.
        DataError: the file cannot be read.
    """
    source = Input(url=data)
    form = input_format(source)
    schema, options = form.schema(source), form.starter_options(source)
    url = data
    if is_local(data):  # the spec's paths start at its own folder
        url = Path(os.path.relpath(local_path(data), spec.resolve().parent)).as_posix()
    output_format = form.name if form.name in get_args(ReleasedFormatName) else Output.model_fields["format"].default
    return starter_spec(url, schema, options, output_format)
