"""Words of the pages: of a release, its columns, and of their types as everybody else calls them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from microagg_core.group.metrics.figures import AttributeFigures
from microagg_core.group.metrics.statistics import readable
from microagg_core.release.manifest import ColumnEntry, Manifest
from microagg_core.release.pages.escaping import visible
from microagg_core.spec.about import About, ColumnAbout


def about(manifest: Manifest) -> About:
    return manifest.about or About()


def title(manifest: Manifest) -> str:
    return about(manifest).title or visible(manifest.name)


def address(manifest: Manifest) -> str | None:
    """Address of the release's own folder, if receivers were told."""
    url = about(manifest).url
    return f"{url}/{manifest.id}/{manifest.revision}" if url else None


def said_of(manifest: Manifest, column: ColumnEntry) -> ColumnAbout:
    return about(manifest).columns.get(column.name) or ColumnAbout()


def in_role(manifest: Manifest, role: str) -> tuple[ColumnEntry, ...]:
    return tuple(column for column in manifest.columns if column.role == role)


def role_words(manifest: Manifest, column: ColumnEntry) -> str:
    if column.role == "blocking":
        return {"merge": "kept, small ones merged", "suppress": "kept, small ones withheld"}.get(
            manifest.undersized, "kept"
        )
    if column.role == "confidential":
        return "as it came"
    if column.role == "weight":
        return "mean weight of its group"
    return f"{column.stands} {'for' if column.stands == 'one value' else 'of'} its group"


def column_words(manifest: Manifest, column: ColumnEntry, *names: str | None) -> str:
    """Describe a column on one line: what it is called, what is said of it, and what became of its values."""
    words = (*names, said_of(manifest, column).description, role_words(manifest, column))
    return visible("; ".join(" ".join(word.split()) for word in words if word))


def variation_word(manifest: Manifest) -> str:
    """What losses are shares of: categories have no variance, but vary."""
    quasi = in_role(manifest, "quasi_identifier")
    return "variation" if any(column.is_category for column in quasi) else "variance"


def mean_words(of: AttributeFigures, *, apart: bool | None = None) -> str:
    if of.mean is None:
        return "-"
    return of.mean if isinstance(of.mean, str) else readable(of.mean, apart=apart)


def deviation_words(of: AttributeFigures, *, apart: bool | None = None) -> str:
    """Write the standard deviation in its unit, where that is not the column's own."""
    if of.variance is None:
        return "-"
    unit = "" if of.unit in (None, "the column's") else f" {of.unit}"
    return f"{readable(of.variance**0.5, apart=apart)}{unit}"


def units_word(manifest: Manifest) -> str:
    if manifest.several:
        return "units"
    return "records" if manifest.unit == "row" else "people or firms"


def year(manifest: Manifest) -> str:
    return manifest.created[:4]


def summary(manifest: Manifest) -> str:
    """Describe the release in one sentence, for catalogues in which its publisher says nothing."""
    if manifest.has_whole_units:
        return (
            f"{manifest.rows:,} records of units such as households or patients, one or several each, in "
            f"{len(manifest.columns)} columns, microaggregated: whoever knows some or all records of a unit finds at "
            f"least {manifest.k} units that fit."
        )
    return (
        f"{manifest.rows:,} records in {len(manifest.columns)} columns, microaggregated: every combination of the "
        f"columns that are known from elsewhere is shared by at least {manifest.k} {units_word(manifest)}."
    )


def size_words(n_bytes: int) -> str:
    """Write a size as file managers show it.

    >>> size_words(2048), size_words(123_456_789_000)
    ('2.0 kB', '123.5 GB')
    """
    size, units = float(n_bytes), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.0f} {units[0]}" if units[0] == "bytes" else f"{size:,.1f} {units[0]}"


_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([A-Za-z0-9_+:/-]+))?\]")
_DECIMAL = re.compile(r"decimal(32|64|128)\((\d+), (-?\d+)\)")
_TIME = re.compile(r"time(32|64)\[(s|ms|us|ns)\]")
_DURATION = re.compile(r"duration\[(s|ms|us|ns)\]")


@dataclass(frozen=True)
class ColumnType:
    """A released type as everybody else calls it; the names for Python are expressions."""

    #: In a person's words.
    words: str
    #: A type of Table Schema, and its format.
    table_schema: str
    #: A type that Croissant knows.
    croissant: str
    #: As DDI has variables: numeric or character; and whether it is a date, a time or something else.
    ddi: Literal["numeric", "character"]
    #: SQL of DuckDB.
    duckdb: str
    #: Expressions of pyarrow (pandas holds its types) and of polars, and a class of R.
    arrow: str
    polars: str
    r: str
    table_format: str | None = None
    ddi_category: Literal["date", "time", "other"] = "other"


def _whole(bits: int, signed: bool) -> ColumnType:
    name = f"{'' if signed else 'u'}int{bits}"
    sql = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}[bits]
    # R's whole numbers have 32 bits.
    fits = bits < 32 or (bits == 32 and signed)
    return ColumnType(
        words=f"whole number ({name})",
        table_schema="integer",
        croissant="sc:Integer",
        ddi="numeric",
        duckdb=sql if signed else f"U{sql}",
        arrow=f"pa.{name}()",
        polars=f"pl.{'' if signed else 'U'}Int{bits}",
        r="integer" if fits else "numeric",
    )


_NUMBER = ColumnType(
    "number (float64)", "number", "sc:Float", "numeric", "DOUBLE", "pa.float64()", "pl.Float64", "numeric"
)
_TEXT = ColumnType("text", "string", "sc:Text", "character", "VARCHAR", "pa.string()", "pl.String", "character")
_DATE = ColumnType(
    "date", "date", "sc:Date", "character", "DATE", "pa.date32()", "pl.Date", "Date", ddi_category="date"
)
_BYTES = ColumnType(
    "bytes", "string", "sc:Text", "character", "BLOB", "pa.binary()", "pl.Binary", "character", "binary"
)

#: What a manifest calls text, whose cells in CSV may begin like a formula.
TEXT_TYPES = ("string", "large_string")
_BITS = (8, 16, 32, 64)
_TYPES = {
    **{f"int{bits}": _whole(bits, True) for bits in _BITS},
    **{f"uint{bits}": _whole(bits, False) for bits in _BITS},
    "double": _NUMBER,
    "float": replace(_NUMBER, words="number (float32)", duckdb="FLOAT", arrow="pa.float32()", polars="pl.Float32"),
    "bool": ColumnType(
        "true or false", "boolean", "sc:Boolean", "numeric", "BOOLEAN", "pa.bool_()", "pl.Boolean", "logical"
    ),
    "string": _TEXT,
    "large_string": replace(_TEXT, arrow="pa.large_string()"),
    "string_view": replace(_TEXT, arrow="pa.string_view()"),
    "binary": _BYTES,
    "large_binary": replace(_BYTES, arrow="pa.large_binary()"),
    "date32[day]": _DATE,
    "date64[ms]": replace(_DATE, arrow="pa.date64()"),
    # A column without a value.
    "null": replace(_TEXT, words="nothing but missing values", arrow="pa.null()"),
}  # fmt: skip


def column_type(arrow: str) -> ColumnType:
    """Name a type of a manifest as everybody else does; one that nobody knows is text.

    >>> column_type("int16").words, column_type("decimal128(12, 2)").duckdb, column_type("timestamp[us]").polars
    ('whole number (int16)', 'DECIMAL(12, 2)', "pl.Datetime('us')")
    """
    if plain := _TYPES.get(arrow):
        return plain
    if match := _DECIMAL.fullmatch(arrow):
        return _decimal(match[1], int(match[2]), int(match[3]))
    if match := _TIMESTAMP.fullmatch(arrow):
        return _timestamp(match[1], match[2])
    if match := _TIME.fullmatch(arrow):
        return _time(match[1], match[2])
    if match := _DURATION.fullmatch(arrow):
        return replace(
            _whole(64, True),
            words=f"length of time ({match[1]})",
            arrow=f"pa.duration({match[1]!r})",
            polars="pl.Int64",
        )
    return _TEXT


def _decimal(bits: str, precision: int, scale: int) -> ColumnType:
    sized = f"({precision}, {scale})"
    return replace(
        _NUMBER,
        words=f"decimal number, {scale} decimals" if scale > 0 else "decimal number",
        duckdb=f"DECIMAL{sized}",
        arrow=f"pa.decimal{bits}{sized}",
        polars=f"pl.Decimal{sized}",
    )


def _timestamp(unit: str, zone: str | None) -> ColumnType:
    # As Arrow writes them into CSV: with a blank, and digits of a second to the unit.
    digits, sql = "" if unit == "s" else ".%f", {"s": "_S", "ms": "_MS", "us": "", "ns": "_NS"}[unit]
    in_zone = f", {zone!r}" if zone else ""
    # Polars has no times of whole seconds.
    of_polars = "ms" if unit == "s" else unit
    return ColumnType(
        words=f"date and time{f' ({zone})' if zone else ''}",
        table_schema="datetime",
        croissant="sc:DateTime",
        ddi="character",
        duckdb="TIMESTAMPTZ" if zone else f"TIMESTAMP{sql}",
        arrow=f"pa.timestamp({unit!r}{in_zone})",
        polars=f"pl.Datetime({of_polars!r}{in_zone})",
        r="character",
        table_format=f"%Y-%m-%d %H:%M:%S{digits}{'Z' if zone else ''}",
        ddi_category="time",
    )


def _time(bits: str, unit: str) -> ColumnType:
    return replace(
        _TEXT,
        words="time of day",
        table_schema="time",
        croissant="sc:Time",
        duckdb="TIME",
        arrow=f"pa.time{bits}({unit!r})",
        polars="pl.Time",
        ddi_category="time",
    )
