"""Arrow types: what is asked of them in several places, and columns without the encodings that files may have."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def is_text_or_bytes(kind: pa.DataType) -> bool:
    return is_text(kind) or is_bytes(kind)


def is_nested(kind: pa.DataType) -> bool:
    """Tell types that no release can hold: lists, structures, types of extensions, intervals of several units."""
    return bool(pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType) or pa.types.is_interval(kind))


def plain(column: pa.Array) -> pa.Array:
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    kind = plain_type(column.type)
    return column if kind == column.type else column.cast(kind)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Drop a type's encoding: no dictionary, no runs, no views into other buffers, and decimals of one width.

    >>> plain_type(pa.dictionary(pa.int8(), pa.string())), plain_type(pa.decimal32(9, 2))
    (DataType(string), Decimal128Type(decimal128(9, 2)))
    """
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    # Asked for by their names: older versions of pyarrow do not have these types.
    if str(kind).startswith(("decimal32(", "decimal64(")):
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(f.name, plain_type(f.type)) for f in schema])


def is_ordered(kind: pa.DataType) -> bool:
    """Tell dictionaries whose values stand in an order that means something."""
    return bool(pa.types.is_dictionary(kind) and kind.ordered)


_LEVELS = b"microagg.levels"


def with_levels(field: pa.Field, levels: Sequence[str]) -> pa.Field:
    """Keep the values of an ordered dictionary, in their order, with a column that is decoded; none: nobody knows."""
    return field.with_metadata({_LEVELS: json.dumps(list(levels)).encode()})


def levels_of(field: pa.Field) -> tuple[str, ...] | None:
    """List what :func:`with_levels` kept.

    >>> levels_of(with_levels(pa.field("size", pa.string()), ["S", "M"])), levels_of(pa.field("age", pa.int8()))
    (('S', 'M'), None)
    """
    kept = (field.metadata or {}).get(_LEVELS)
    return None if kept is None else tuple(json.loads(kept))
