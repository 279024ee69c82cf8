"""What all parts of a spec are: frozen models, closed to keys they do not know; and numbers that are numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

from microagg_core.spec.field_paths import Loc, dotted

Problem = tuple[Loc, str]
# true and "5" are no numbers here: a spec that means 5 says 5.
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
ColumnName = Annotated[str, Field(min_length=1)]
Columns = tuple[ColumnName, ...]


class PartError(ValueError):
    """Several things that are wrong within one part of a spec, each with the place where it stands."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{dotted(loc)}: {why}" if loc else why for loc, why in problems))
        self.problems = problems


class Model(BaseModel):
    """A part of the spec: frozen, and closed to keys it does not know."""

    # pydantic would quote what it was given, which may be a secret.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        """What is wrong between the parts; a part that is wrong in itself is missing from ``parts``."""
        yield from ()

    @model_validator(mode="after")
    def _cross_checked(self) -> Self:
        if problems := list(self.cross_check(dict(self))):
            raise PartError(problems)
        return self
