"""A commented release spec to start from: everything that a file's schema tells, and a list of what it does not.

No role is guessed. Every column stands under ``to_decide``, which the spec's checks refuse until it is empty.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import yaml

from microagg_core.algorithms import algorithms
from microagg_core.errors import DataError, SpecError
from microagg_core.formats.reading import read_schema
from microagg_core.spec.release import CsvInput, Input
from microagg_core.storage.inputs import input_files, open_input
from microagg_core.storage.urls import basename, holds_credentials, is_local, local_path, shown

#: Words that YAML, or a person who reads it, takes for something else than a name.
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
#: What a CSV type is called in a spec, by what pyarrow makes of the text.
_CSV_NAMES = {pa.int64(): "int64", pa.float64(): "float64", pa.bool_(): "bool", pa.date32(): "date"}
#: Enough of a CSV file to judge its types by.
_HEAD_BYTES = 1 << 20
_LEADING_ZERO = r"^\s*[-+]?0[0-9]"


def starter_spec(url: str, schema: pa.Schema, suggested: Mapping[str, str] | None = None) -> str:
    """The text of a release spec for the data at ``url``, which the user completes.

    ``schema`` is the file's own; for CSV, ``suggested`` gives declared types (see :func:`suggested_types`)
    that are written as comments.

    Raises:
        DataError: a column without a name, or two of one name.
        SpecError: the URL holds a user or password.

    >>> text = starter_spec("people.parquet", pa.schema({"age": pa.int8(), "no": pa.string()}))
    >>> print("\\n".join(line for line in text.splitlines() if line.startswith("    - ")))
        - age     # int8, a number
        - "no"    # string
    """
    if holds_credentials(url):
        raise SpecError(f"{shown(url)}: a spec must not hold a user or password; use the environment of each worker")
    _check_names(schema.names)
    source = Input(url=url)
    is_csv = source.resolved_format == "csv"
    names = [_quoted(name) for name in schema.names]
    width = max((len(name) for name in names), default=0)
    columns = [
        f"    - {name:<{width}}    # {_described(field.type)}" for name, field in zip(names, schema, strict=True)
    ]
    return _TEMPLATE.format(
        n_columns=len(names),
        algorithms=", ".join(algorithms()),
        name=_quoted(_series_name(url)),
        url=_quoted(url),
        format=source.resolved_format,
        csv=_csv_lines(suggested or {}) if is_csv else "",
        output_format=source.resolved_format,
        columns="\n".join(columns),
    )


def starter_for(data: str, spec: Path) -> str:
    """The starter spec, to be written to ``spec``, for the file or files at ``data``.

    Raises:
        StorageError: there is no such file.
        DataError: the file cannot be read.
    """
    source = Input(url=data)
    schema = read_schema(source)
    suggested = suggested_types_of(data) if source.resolved_format == "csv" else {}
    url = data
    if is_local(data):  # the spec's paths start at its own folder
        url = Path(os.path.relpath(local_path(data), spec.resolve().parent)).as_posix()
    return starter_spec(url, schema, suggested)


def suggested_types_of(data: str) -> dict[str, str]:
    """Types suggested by the first lines of the first of some CSV files."""
    with open_input(input_files(data, {})[0][0], {}) as handle:
        return suggested_types(handle.read(_HEAD_BYTES), CsvInput())


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
        if (name := _csv_name(field.type)) and not _are_codes(text)
    }


def _read(head: bytes, csv: CsvInput, types: dict[str, pa.DataType] | None) -> pa.Table:
    return pa_csv.read_csv(
        pa.BufferReader(head),
        read_options=pa_csv.ReadOptions(encoding=csv.encoding),
        parse_options=pa_csv.ParseOptions(delimiter=csv.delimiter, newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            null_values=list(csv.null_words), strings_can_be_null=types is None, column_types=types
        ),
    )


def _csv_name(kind: pa.DataType) -> str | None:
    return "timestamp" if pa.types.is_timestamp(kind) else _CSV_NAMES.get(kind)


def _are_codes(texts: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, _LEADING_ZERO)).as_py())


def _check_names(names: list[str]) -> None:
    if "" in names:
        raise DataError(f"column {names.index('') + 1} of the input has no name; give it one")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"the input has more than one column named {', '.join(map(repr, twice))}; rename them")


def _quoted(name: str) -> str:
    """The name as YAML, in quotes where it needs them."""
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in _WORDS:
        return name
    quoted: str = yaml.safe_dump(name, default_style='"', allow_unicode=True, width=2**31)
    return quoted.rstrip("\n")


def _series_name(url: str) -> str:
    """A name for the releases, from the name of the file."""
    stem = basename(url).split(".")[0] or "release"
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_")[:64] or "release"


def _described(kind: pa.DataType) -> str:
    """What a column holds, on one line and in a person's words."""
    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return "nested; cannot be released, so drop it"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return f"{kind}, a number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "a date" if pa.types.is_date(kind) else "a timestamp"
    return "bytes" if "binary" in str(kind) else re.sub(r"[^ -~]", "?", str(kind))


def _csv_lines(suggested: Mapping[str, str]) -> str:
    lines = [
        "  csv:",
        '    delimiter: ","',
        "    encoding: utf-8",
        '    null_words: [""]        # a missing value, in columns of a declared type',
        '    # A column without a type here is text, kept to the byte ("01" stays "01"). Quasi-identifiers must be',
        "    # numbers or dates, so declare theirs.",
    ]
    if not suggested:
        return "\n".join([*lines, "    # types:", "    #   a_column: int64"]) + "\n"
    lines.append("    # The first lines of the file look like this; take out the # of what is right:")
    types = [f"    #   {_quoted(name)}: {kind}" for name, kind in suggested.items()]
    return "\n".join([*lines, "    # types:", *types]) + "\n"


_TEMPLATE = """\
# A release spec to start from, made from the input's {n_columns} columns. Give each a role under roles, look over the
# rest, and see what a release would do:  microagg plan release.yaml

name: {name}
id: date                  # one release a day, named after it; or an id of your own
seed: 0
k: 5                      # least number of people or firms that share a combination: yours to decide
algorithm: mdav           # one of {algorithms}
refine: fast              # improve its groups: off, fast or thorough

input:
  url: {url}
  format: {format}
{csv}output:
  url: release            # where releases are published; s3://bucket/prefix works the same
  format: {output_format}
work:
  url: work               # a private place, not inside the output: staged rows, then audits

roles:
  # to decide: move every column from here to the list that fits, then take to_decide out.
  to_decide:
{columns}
  identifiers: []         # name a person or firm: dropped
  quasi_identifiers: []   # known from outside, numbers or dates: microaggregated together; at least one
  blocking: []            # known from outside and kept exactly, from general to fine
  confidential: []        # released as they are
  drop: []                # not released, not looked at

unit: row                 # is one row one person or firm? If not, name the column(s) that tell them apart
blocks:
  undersized: merge       # blocking values with fewer than k: merge, suppress or error
missing: error            # quasi-identifiers without a value: error, or separate
# rounding:               # means have their column's type, floats one decimal more than the input, unless it says else
#   a_column: 0.5         # a step; or type, for all digits; or none, for the mean as it is, as float64

# cluster: local          # or none, or the address of a running scheduler; without it, the input's size decides
"""
