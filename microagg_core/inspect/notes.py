"""Notes of files, or of parts of the input: by the names of inspections, added up, and written as one object each.

Notes of an inspection are plain values, tuples and mappings of them, frozen dataclasses, and what says how it is added.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any, TypeAlias

import pyarrow as pa
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from microagg_core.data.tables.slices import read_slice, to_bytes
from microagg_core.plain import from_plain, to_plain


@dataclass(frozen=True)
class InTable:
    """Marks notes, or a field of them, as written in an Arrow table, behind all that is plain."""

    table_of: Callable[[Any], pa.Table] = lambda table: table
    from_table: Callable[[pa.Table], Any] = lambda table: table

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        write = core_schema.plain_serializer_function_ser_schema(self._write, info_arg=True)
        return core_schema.with_info_plain_validator_function(self._read, serialization=write)

    def _write(self, value: Any, info: Any) -> int:
        info.context.append(to_bytes(self.table_of(value)))
        return len(info.context) - 1

    def _read(self, value: Any, info: Any) -> Any:
        return self.from_table(read_slice(info.context[value]))


PlainTable: TypeAlias = Annotated[pa.Table, InTable()]


def added(a: Any, b: Any) -> Any:
    """Add notes: mappings, tuples and dataclasses part by part, tables behind each other, all else by ``+``.

    >>> added(({"x": 1}, 2), ({"x": 10}, 20))
    ({'x': 11}, 22)
    """
    if isinstance(a, pa.Table):
        return pa.concat_tables([a, b], promote_options="default")  # files of survivors have fewer columns
    if isinstance(a, Mapping):
        return {key: added(a[key], b[key]) for key in a}
    if isinstance(a, tuple):
        return tuple(added(*pair) for pair in zip(a, b, strict=True))
    if is_dataclass(a) and not hasattr(a, "__add__") and not isinstance(a, type):
        return replace(a, **{part.name: added(getattr(a, part.name), getattr(b, part.name)) for part in fields(a)})
    return a + b


@dataclass(frozen=True)
class Notes:
    """Notes of some files, or of some parts of the input, by inspection."""

    rows: int = 0
    by_key: Mapping[str, Any] = field(default_factory=dict)
    #: How columns differ from the declared ones, in words, and whether there is a record number for each row.
    wrong_columns: tuple[str, ...] = ()
    numbered: bool = True

    @property
    def readable(self) -> bool:
        return self.numbered and not self.wrong_columns

    def __add__(self, other: Notes) -> Notes:
        by_key = {**self.by_key, **other.by_key}
        by_key |= {key: added(self.by_key[key], other.by_key[key]) for key in self.by_key.keys() & other.by_key.keys()}
        wrong = tuple(sorted({*self.wrong_columns, *other.wrong_columns}))
        return Notes(self.rows + other.rows, by_key, wrong, self.numbered and other.numbered)

    def to_bytes(self, types: Mapping[str, Any]) -> bytes:
        """Write a line of JSON, and behind it the tables; ``types`` are those of the notes by their keys."""
        tables: list[bytes] = []
        by_key = {key: to_plain(notes, tables, types[key]) for key, notes in self.by_key.items()}
        plain = [self.rows, by_key, self.wrong_columns, self.numbered, [len(table) for table in tables]]
        return b"".join([json.dumps(plain, separators=(",", ":")).encode(), b"\n", *tables])

    @classmethod
    def from_bytes(cls, data: bytes, types: Mapping[str, Any]) -> Notes:
        """Inverse of :meth:`to_bytes`; a KeyError for an inspection that is not there."""
        end = data.index(b"\n") + 1
        rows, by_key, wrong, numbered, lengths = json.loads(data[:end])
        tables = []
        for length in lengths:
            tables.append(data[end : end + length])
            end += length
        read = {key: from_plain(types[key], plain, tables) for key, plain in by_key.items()}
        return cls(rows, read, tuple(wrong), numbered)


def total(every: Iterable[Notes]) -> Notes:
    """Add notes up pairwise, neighbours first, so that rounding grows with the logarithm of their number.

    No more than that many are held at once.
    """
    sums: list[tuple[int, Notes]] = []
    for notes in every:
        level, whole = 0, notes
        while sums and sums[-1][0] == level:
            whole, level = sums.pop()[1] + whole, level + 1
        sums.append((level, whole))
    if not sums:
        return Notes()
    whole = sums.pop()[1]
    while sums:
        whole = sums.pop()[1] + whole
    return whole
