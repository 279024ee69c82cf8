"""Declarations of quasi-identifiers: a name, or a name with how the column is to be taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from microagg_core.model import ColumnName, Model, Number, Problem

KindName = Literal["number", "ordinal", "nominal"]


class QuasiIdentifier(Model):
    """A quasi-identifier as the spec declares it; written and dumped as its name, where nothing else is said.

    >>> QuasiIdentifier.model_validate("age").model_dump()
    'age'
    >>> QuasiIdentifier(name="education", kind="ordinal", levels=("low", "high")).model_dump(mode="json")
    {'name': 'education', 'kind': 'ordinal', 'levels': ['low', 'high']}
    """

    name: ColumnName = Field(description="the column's name")
    kind: KindName | None = Field(
        default=None,
        description="how values are compared and what groups are released as: number (distance, mean), ordinal (rank, "
        "median) or nominal (equal or not, most frequent value); default: what the column's type says",
    )
    levels: tuple[str, ...] | None = Field(
        default=None, description="all values of an ordinal column, from the lowest to the highest"
    )
    weight: Number = Field(
        default=1.0,
        ge=0.001,
        le=1000,
        description="importance: squared differences count so many times when groups are made; not when losses are",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_name(cls, value: Any) -> Any:
        return value if isinstance(value, dict | cls) else {"name": value}

    @model_serializer(mode="wrap")
    def _as_written(self, plain: SerializerFunctionWrapHandler) -> Any:
        written = {name: value for name, value in plain(self).items() if getattr(self, name) != self._default(name)}
        return self.name if written.keys() == {"name"} else written

    @classmethod
    def _default(cls, field: str) -> Any:
        return cls.model_fields[field].get_default()

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        levels = parts.get("levels")
        if levels is None:
            return
        if "kind" in parts and parts["kind"] != "ordinal":
            yield ("levels",), "are for kind: ordinal; add that, or take the levels away"
        if len(levels) < 2:
            yield ("levels",), "must be at least two"
        counts = Counter(levels)
        for place, level in enumerate(levels):
            if counts[level] > 1 and level in levels[:place]:
                yield ("levels", place), f"{level!r} is named twice"
