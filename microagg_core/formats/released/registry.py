"""Every released format by its name in a spec. A new one is a file in this folder and a line here."""

from __future__ import annotations

from microagg_core.formats.released.arrow import ArrowRelease
from microagg_core.formats.released.contract import ReleasedFormat, SaysFormat
from microagg_core.formats.released.csv import CsvRelease
from microagg_core.formats.released.parquet import ParquetRelease

RELEASED_FORMATS: dict[str, type[ReleasedFormat]] = {
    form.name: form
    for form in (
        ParquetRelease,
        CsvRelease,
        ArrowRelease,
    )
}


def released_format(said: SaysFormat) -> ReleasedFormat:
    """The format that a spec's ``output`` or a manifest says, with its options."""
    return RELEASED_FORMATS[said.format].of(said)
