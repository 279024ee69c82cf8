"""Every input format by its name in a spec. A new one is a file in this folder and a line here."""

from __future__ import annotations

from microagg_core.formats.inputs.arrow import Arrow
from microagg_core.formats.inputs.contract import InputFormat
from microagg_core.formats.inputs.csv import Csv
from microagg_core.formats.inputs.parquet import Parquet
from microagg_core.spec.parts import Input

INPUT_FORMATS: dict[str, InputFormat] = {
    form.name: form
    for form in (
        Parquet(),
        Csv(),
        Arrow(),
    )
}


def input_format(source: Input) -> InputFormat:
    """The format of the input."""
    return INPUT_FORMATS[source.resolved_format]
