"""Frozen dataclasses as plain values, and back: the one way in which results become JSON and JSON becomes results.

A field may be whatever pydantic knows: numbers, texts, tuples, mappings, other dataclasses; and a numpy array or bytes
if its type says how, as ``PlainFloats`` and pydantic's ``Base64Bytes`` do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from pydantic import BeforeValidator, GetCoreSchemaHandler, PlainSerializer, TypeAdapter
from pydantic_core import CoreSchema, core_schema

T = TypeVar("T")


@dataclass(frozen=True)
class AsLists:
    """Has a field's array become lists of numbers, and lists an array of this type."""

    dtype: DTypeLike
    #: Whether numbers may be NaN, which is null in JSON.
    has_gaps: bool = False

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._array, serialization=core_schema.plain_serializer_function_ser_schema(self._lists)
        )

    def _lists(self, array: NDArray[Any]) -> Any:
        if not self.has_gaps:
            return array.tolist()
        with_nulls = array.astype(object)
        with_nulls[np.isnan(array)] = None
        return with_nulls.tolist()

    def _array(self, value: Any) -> NDArray[Any]:
        try:
            return np.asarray(value, dtype=self.dtype)
        except (TypeError, OverflowError):
            raise ValueError("no array of numbers") from None


#: A number, or NaN, which is null in JSON.
PlainNumber: TypeAlias = Annotated[
    float,
    BeforeValidator(lambda value: math.nan if value is None else value),
    PlainSerializer(lambda value: value if math.isfinite(value) else None),
]
PlainFloats: TypeAlias = Annotated[NDArray[np.float64], AsLists(np.float64)]
PlainGaps: TypeAlias = Annotated[NDArray[np.float64], AsLists(np.float64, has_gaps=True)]
PlainInts: TypeAlias = Annotated[NDArray[np.int64], AsLists(np.int64)]
PlainHashes: TypeAlias = Annotated[NDArray[np.uint64], AsLists(np.uint64)]


_adapter: Callable[[Any], TypeAdapter[Any]] = lru_cache(maxsize=256)(TypeAdapter)


def to_plain(value: Any, context: Any = None, kind: Any = None) -> Any:
    """A dataclass, or a list or mapping of some, as mappings, lists, numbers and texts.

    ``context`` is for fields that pydantic hands it to; ``kind`` is the type, where the value does not tell it.

    >>> from microagg_core.group.metrics.moments import EMPTY
    >>> to_plain(EMPTY)
    {'n': 0, 'origin': 0, 'mean': 0.0, 'm2': 0.0, 'exponent': 0, 'least': 0, 'greatest': 0, 'counts': []}
    """
    return _adapter(kind or type(value)).dump_python(value, mode="json", context=context)


def from_plain(kind: type[T], value: Any, context: Any = None) -> T:
    """Inverse of :func:`to_plain`, whatever the value may be.

    >>> from microagg_core.group.metrics.moments import EMPTY, Moments
    >>> from_plain(tuple[Moments, ...], [to_plain(EMPTY)]) == (EMPTY,)
    True
    """
    parsed: T = _adapter(kind).validate_python(value, context=context)
    return parsed


def to_json(value: Any) -> bytes:
    """Write JSON in which whole numbers of any size stay exact."""
    return json.dumps(to_plain(value)).encode()


def from_json(kind: type[T], data: bytes) -> T:
    """Inverse of :func:`to_json`, whatever the bytes may be.

    >>> from_json(tuple[int, ...], to_json((1, 2**70)))
    (1, 1180591620717411303424)
    """
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return from_plain(kind, value)
