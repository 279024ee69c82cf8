"""Options of formats, as a spec and a manifest have them: what is said of CSV as it comes and as it goes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import yaml
from pydantic import Field, field_validator

from microagg_core.model import ColumnName, Model, PartError, Problem

#: How files of text may be compressed, by the ending that they have besides.
COMPRESSION_OF_ENDING = {".gz": "gzip", ".zst": "zstd"}
#: Names by which arrow types may be declared for CSV columns; parametrised ones are matched by pattern.
CSV_TYPES = (
    "text", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "date", "timestamp",
)  # fmt: skip
DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def compression_of(url: str) -> str | None:
    """Tell by a file's ending how it is compressed.

    >>> compression_of("s3://in/people.CSV.gz"), compression_of("people.csv")
    ('gzip', None)
    """
    return next((name for end, name in COMPRESSION_OF_ENDING.items() if url.lower().endswith(end)), None)


def _delimiter(text: str) -> str:
    if not text.isascii() or text in ('"', "\r", "\n", "\0"):
        raise ValueError("must be one ASCII character, and neither a quote nor a line end")
    return text


class CsvInput(Model):
    """How to read CSV. A column without a declared type is text and is kept to the byte."""

    delimiter: str = Field(default=",", min_length=1, max_length=1, description="what separates two cells")
    encoding: str = Field(default="utf-8", description="any text encoding that Python knows")
    decimal_mark: Literal[".", ","] = Field(default=".", description="what stands before the decimals of a number")
    null_words: tuple[str, ...] = Field(
        default=("",), description="what stands for a missing value in columns of a declared type other than text"
    )
    types: dict[ColumnName, str] = Field(
        default={}, description=f"column -> one of {', '.join(CSV_TYPES)} or decimal(precision, scale)"
    )

    _one_delimiter = field_validator("delimiter")(_delimiter)

    @field_validator("types")
    @classmethod
    def _known_types(cls, types: dict[str, str]) -> dict[str, str]:
        rule = f"must be one of {', '.join(CSV_TYPES)} or decimal(precision, scale)"
        problems: list[Problem] = []
        for column, name in types.items():
            decimal = DECIMAL.fullmatch(name)
            if decimal and not (1 <= int(decimal[1][:9]) <= 38 and int(decimal[2][:9]) <= int(decimal[1][:9])):
                problems.append(((column,), f"needs a precision of 1 to 38 and a scale up to it (got {name!r})"))
            elif name not in CSV_TYPES and not decimal:
                problems.append(((column,), f"{rule} (got {name!r})"))
        if problems:
            raise PartError(problems)
        return types

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, encoding: str) -> str:
        try:
            "".encode(encoding)
        except (LookupError, ValueError):
            raise ValueError(f"is not an encoding Python knows (got {encoding!r})") from None
        return encoding


class CsvOutput(Model):
    """How to write CSV."""

    delimiter: str = Field(default=",", min_length=1, max_length=1, description="what separates two cells")
    null_word: str = Field(default="", description="what a missing value is written as")
    formulas: Literal["keep", "escape"] = Field(
        default="keep",
        description="text that a spreadsheet would run (it starts with = + - @ tab or return): kept to the "
        "byte, or escaped with a leading apostrophe",
    )

    _one_delimiter = field_validator("delimiter")(_delimiter)

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        if any(mark in parts.get("null_word", "") for mark in ('"', "\r", "\n", parts.get("delimiter", ","))):
            yield ("null_word",), "must hold neither a quote, nor a line end, nor the delimiter"


#: Words that YAML, or a person who reads it, takes for something else than a name.
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def quoted(name: str) -> str:
    """Write a name as YAML, in quotes where it needs them.

    >>> quoted("age"), quoted("no")
    ('age', '"no"')
    """
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in _WORDS:
        return name
    text: str = yaml.safe_dump(name, default_style='"', allow_unicode=True, width=2**31)
    return text.rstrip("\n")
