"""Frozen models that are closed to keys they do not know, and problems with the place where each stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, Strict, model_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

#: The way to a field: keys, and numbers for the items of lists.
Loc = tuple[str | int, ...]
_LONGEST = 80


def dotted(loc: Loc) -> str:
    """Write the way to a field as one line of text.

    >>> dotted(("roles", "confidential", 2))
    'roles.confidential[2]'
    """
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + _one_line(part)
    return text


def _one_line(key: str) -> str:
    if not key:
        return "''"
    shown = key if key.isprintable() else repr(key)[1:-1]
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "..."


Problem = tuple[Loc, str]
# true and "5" are no numbers here: a spec that means 5 says 5.
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
ColumnName = Annotated[str, Field(min_length=1)]
Columns = tuple[ColumnName, ...]


class PartError(ValueError):
    """Several problems within one part of a spec, each with the place where it stands."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{dotted(loc)}: {why}" if loc else why for loc, why in problems))
        self.problems = problems


class Model(BaseModel):
    """A frozen model, closed to keys it does not know."""

    # pydantic would quote what it was given, which may be a secret.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        """Find what is wrong between the parts; a part that is wrong in itself is missing from ``parts``."""
        yield from ()

    @model_validator(mode="after")
    def _cross_checked(self) -> Self:
        if problems := list(self.cross_check(dict(self))):
            raise PartError(problems)
        return self


class OneOf:
    """One of some names, which are asked for when a value is checked, and not before."""

    def __init__(self, names: Callable[[], Sequence[str]]) -> None:
        self._names = names

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"enum": list(self._names()), "type": "string"}

    def _checked(self, value: Any) -> str:
        names = [repr(name) for name in self._names()]
        if isinstance(value, str) and repr(value) in names:
            return value
        expected = " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
        # As pydantic has it for Literal, so that people read the same.
        raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
