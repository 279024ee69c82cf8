"""Declarations of quasi-identifiers: a name, or a name with how the column is to be taken."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from microagg_core.data.kinds.metric import Metric, ScaleName
from microagg_core.model import ColumnName, Model, Number, Problem

#: A percentage of records, below which is the quantile from which on all values count as it.
TOP_PATTERN = r"^([0-9]{1,2}(?:\.[0-9]{1,6})?)%$"


def _top(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if is_number or (
        isinstance(value, str) and (match := re.fullmatch(TOP_PATTERN, value)) and 50 <= float(match[1]) < 100
    ):
        return value
    raise ValueError("must be a number in the column's unit, or a percentage from 50% to below 100%, such as '99.5%'")


Top = Annotated[float | Annotated[str, Field(pattern=TOP_PATTERN)], BeforeValidator(_top)]
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

    missing: Literal["category"] | None = Field(
        default=None,
        description="'category': a missing value of a nominal column is a category of its own, and released as missing "
        "where it is the most frequent of a group",
    )
    scale: ScaleName | None = Field(
        default=None,
        description="how values are compared when groups are made: log1p (by orders of magnitude), rank, or robust (in "
        "interquartile ranges); released means stay means of values, and losses are measured on values",
    )
    top: Top | None = Field(
        default=None,
        description="values above this one, or above the quantile at this percentage ('99.5%'), count as it when "
        "groups are made; released values are not top-coded",
    )
    zeros: Literal["separate"] | None = Field(
        default=None,
        description="'separate': records with a zero are grouped with each other alone, where k allows it",
    )

    @property
    def metric(self) -> Metric | None:
        """The scale as declared; None where values count as they are."""
        if self.scale is None and self.top is None:
            return None
        if isinstance(self.top, str):
            return Metric(self.scale, None, float(self.top.removesuffix("%")) / 100)
        return Metric(self.scale, self.top)

    @property
    def top_words(self) -> str | None:
        """The limit as it may be told: one that is a value is not."""
        return None if self.top is None else self.top if isinstance(self.top, str) else "a limit"

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
        if parts.get("kind") in ("ordinal", "nominal"):
            for field in ("scale", "top", "zeros"):
                if parts.get(field) is not None:
                    yield (field,), f"is for numbers, and the column is {parts['kind']}; take it away"
        if parts.get("missing") is not None and "kind" in parts and parts["kind"] != "nominal":
            yield ("missing",), "category is for kind: nominal; add that, or take it away"
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
