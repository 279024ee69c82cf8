"""CSV: text is quoted, numbers are not, and a missing value is the null word without quotes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from microagg_core.data.formats.options import CsvOutput
from microagg_core.data.formats.writing import ReaderCode, ReleasedFormat, SaysFormat
from microagg_core.data.tables.types import is_bytes, is_text
from microagg_core.errors import InternalError

_BLOCK_BYTES = 8 * 2**20
_FORMULA_START = r"^[=+\-@\t\r]"
_DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), tz=(.+)\]")


@dataclass(frozen=True)
class CsvRelease(ReleasedFormat):
    dialect: CsvOutput

    name = "csv"
    title = "CSV"
    media_type = "text/csv"
    reader_code = ReaderCode(
        pandas_imports="import pandas as pd\nimport pyarrow as pa\nfrom pyarrow import csv\n",
        pandas="""\
# The manifest knows the types; and a missing value is no empty text.
types = {{
    {types}
}}
options = {{
    "parse_options": csv.ParseOptions(
        delimiter={delimiter}, newlines_in_values=True, ignore_empty_lines=False
    ),
    "convert_options": csv.ConvertOptions(
        column_types={{c["name"]: types[c["type"]] for c in manifest["columns"]}},
        null_values=[{null_word}],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    ),
}}
tables = []
for name in files:
    with fsspec.open(name) as file:
        tables.append(csv.read_csv(file, **options))
data = pa.concat_tables(tables).to_pandas(types_mapper=pd.ArrowDtype)
""",
        polars_before="""\
types = {{
    {types}
}}
# polars takes a quoted {null_word} for a missing value as well.
options = {{
    "schema": {{c["name"]: types[c["type"]] for c in manifest["columns"]}},
    "separator": {delimiter},
    "null_values": [{null_word}],
}}
""",
        polars="pl.read_csv(file, **options)",
        r="""\
types <- c(
  {types}
)
# R takes a quoted {null_word} for a missing value as well.
read <- function(file) {{
  read.csv(
    file, sep = {delimiter}, na.strings = {null_word},
    colClasses = unname(types[manifest$columns$type]),
    check.names = FALSE, encoding = "UTF-8", blank.lines.skip = FALSE
  )
}}
data <- do.call(rbind, lapply(files, read))
""",
        duckdb_function="read_csv",
    )
    needs_valid_text = True
    cure = "output.format: parquet may carry what CSV cannot, else "

    @classmethod
    def of(cls, said: SaysFormat) -> Self:
        if said.csv is None:
            raise InternalError("a bug: a CSV release without a dialect; please report it")
        return cls(said.csv)

    def in_manifest(self) -> dict[str, Any]:
        return {"format": self.name, "csv": self.dialect}

    def refusal(self, kind: pa.DataType) -> str | None:
        return "bytes, which CSV cannot carry; use parquet" if is_bytes(kind) else None

    def released_form(self, table: pa.Table) -> pa.Table:
        return escape_formulas(table) if self.dialect.formulas == "escape" else table

    def to_bytes(self, table: pa.Table, blocking: list[str]) -> bytes:
        sink = io.BytesIO()
        options = pa.csv.WriteOptions(
            include_header=True,
            delimiter=self.dialect.delimiter,
            null_string=self.dialect.null_word,
            quoting_style="needed",
        )
        pa.csv.write_csv(table, sink, write_options=options)
        return sink.getvalue()

    def from_bytes(self, data: bytes, declared: pa.Schema) -> pa.Table:
        options = pa.csv.ReadOptions(use_threads=False, block_size=max(len(data), 1))
        types = dict(zip(declared.names, declared.types, strict=True))
        return pa.csv.read_csv(io.BytesIO(data), options, *self._dialect_options(types))

    def batches(self, path: Path, declared: Mapping[str, str]) -> tuple[pa.Schema, Iterator[pa.Table]]:
        options = pa.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES)
        types = {name: arrow_type(text) for name, text in declared.items()}
        reader = pa.csv.open_csv(path, options, *self._dialect_options(types))
        return reader.schema, (pa.table(batch) for batch in reader)

    def _dialect_options(self, types: Mapping[str, pa.DataType]) -> tuple[pa.csv.ParseOptions, pa.csv.ConvertOptions]:
        """Read what was written: the null word without quotes is a null, and with quotes a text."""
        parse = pa.csv.ParseOptions(
            delimiter=self.dialect.delimiter,
            newlines_in_values=True,
            # An empty line is a record where there is a single column, and a ragged one elsewhere.
            ignore_empty_lines=False,
        )
        convert = pa.csv.ConvertOptions(
            column_types=types,
            null_values=[self.dialect.null_word],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        return parse, convert


def escape_formulas(table: pa.Table) -> pa.Table:
    """Put an apostrophe before every text that a spreadsheet would run.

    >>> escape_formulas(pa.table({"t": ["=1+1", "a"]}))["t"].to_pylist()
    ["'=1+1", 'a']
    """
    for position, column in enumerate(table.columns):
        if is_text(column.type):
            runs = pc.match_substring_regex(column, _FORMULA_START)
            escaped = pc.binary_join_element_wise(pa.scalar("'", column.type), column, pa.scalar("", column.type))
            table = table.set_column(position, table.field(position), pc.if_else(runs, escaped, column))
    return table


def arrow_type(text: str) -> pa.DataType:
    """Parse the Arrow type that a manifest names.

    Raises:
        ValueError: there is no such type.

    >>> arrow_type("decimal128(12, 2)"), arrow_type("timestamp[us, tz=UTC]"), arrow_type("date32[day]")
    (Decimal128Type(decimal128(12, 2)), TimestampType(timestamp[us, tz=UTC]), DataType(date32[day]))
    """
    if match := _DECIMAL.fullmatch(text):
        kind: pa.DataType = getattr(pa, f"decimal{match[1]}")(int(match[2]), int(match[3]))
        return kind
    if match := _ZONED.fullmatch(text):
        return pa.timestamp(match[1], match[2])
    return pa.type_for_alias(text)
