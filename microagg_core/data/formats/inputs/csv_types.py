"""Types of CSV columns: by the names that a spec declares them with, and as a file's first lines suggest them."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from microagg_core.spec.formats import CsvInput

_ARROW_TYPES: dict[str, pa.DataType] = {
    "text": pa.string(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    **{
        name: getattr(pa, name)() for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    "float32": pa.float32(),
    "float64": pa.float64(),
}
#: What a type is called in a spec, by what pyarrow makes of the text.
_SUGGESTED = {pa.int64(): "int64", pa.float64(): "float64", pa.bool_(): "bool", pa.date32(): "date"}
_LEADING_ZERO = r"^\s*[-+]?0[0-9]"


def csv_type(name: str) -> pa.DataType:
    """The Arrow type of a declared CSV type.

    >>> csv_type("date"), csv_type("decimal(9, 2)")
    (DataType(date32[day]), Decimal128Type(decimal128(9, 2)))
    """
    match = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", name)
    return pa.decimal128(int(match[1]), int(match[2])) if match else _ARROW_TYPES[name]


def suggested_types(head: bytes, csv: CsvInput) -> dict[str, str]:
    """Types that columns of a CSV file may be declared with, judged by its first lines.

    ``head`` is the start of the file; its last line, which may be cut, is left out. Columns that look like
    text are not in the answer, nor are numbers with leading zeros: they are codes. A file that cannot be read
    gives no suggestion.

    >>> suggested_types(b"id,age,since\\n007,41,2020-01-31\\n012,39,2021-12-01\\n", CsvInput())
    {'age': 'int64', 'since': 'date'}
    """
    whole_lines = head[: head.rfind(b"\n") + 1]
    try:
        guessed = _read(whole_lines, csv, None)
        texts = _read(whole_lines, csv, dict.fromkeys(guessed.column_names, pa.string()))
    except (pa.ArrowException, ValueError, LookupError):
        # Their messages may quote the file.
        return {}
    return {
        field.name: name
        for field, text in zip(guessed.schema, texts.columns, strict=True)
        if (name := _name_of(field.type)) and not _are_codes(text)
    }


def _read(head: bytes, csv: CsvInput, types: dict[str, pa.DataType] | None) -> pa.Table:
    return pa.csv.read_csv(
        pa.BufferReader(head),
        read_options=pa.csv.ReadOptions(encoding=csv.encoding),
        parse_options=pa.csv.ParseOptions(delimiter=csv.delimiter, newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            null_values=list(csv.null_words),
            strings_can_be_null=types is None,
            column_types=types,
            decimal_point=csv.decimal_mark,
        ),
    )


def _name_of(kind: pa.DataType) -> str | None:
    return "timestamp" if pa.types.is_timestamp(kind) else _SUGGESTED.get(kind)


def _are_codes(texts: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, _LEADING_ZERO)).as_py())
