"""What a spec demands of a release besides k: of every group, and of what can be inferred or linked in the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import Field, model_validator

from microagg_core.model import ColumnName, Model, Number, PartError, Problem, Whole

#: Stands for all confidential columns.
EVERY_COLUMN = "*"
LINKAGE = "linkage"

Share: TypeAlias = Annotated[Number, Field(ge=0, le=1, allow_inf_nan=False)]


class ColumnDemand(Model):
    """What is demanded of one confidential column."""

    distinct: Whole | None = Field(
        default=None, ge=2, description="distinct values that every group has at least; a missing one is none"
    )
    t: Number | None = Field(
        default=None,
        gt=0,
        lt=1,
        allow_inf_nan=False,
        description="most that a group's distribution differs from the whole release's: their earth mover's distance "
        "among records that have a value, and the difference of the shares of those that have none",
    )
    inference: Share | None = Field(
        default=None, description="most of the records, as a share, whose value follows from their combination"
    )

    def over(self, other: ColumnDemand | None) -> ColumnDemand:
        """Take these demands, and the other's where these say nothing.

        >>> ColumnDemand(distinct=3).over(ColumnDemand(distinct=2, inference=0.1)).inference
        0.1
        """
        if other is None:
            return self
        said = {name: value for name, value in self if value is not None}
        return other.model_copy(update=said)


class Protect(Model):
    """Demands on confidential columns, and on links. In a file, columns stand beside ``linkage``, without a level."""

    columns: dict[ColumnName, ColumnDemand] = Field(
        default={}, description="confidential column, or '*' for all of them -> what is demanded of it"
    )
    linkage: Share | None = Field(
        default=None,
        description="most of the records, as a share, that somebody who knows all their quasi-identifiers exactly is "
        "expected to link rightly",
    )

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        """Take ``linkage`` for a limit where it is a number, and for a column where it is a mapping."""
        if isinstance(value, Protect):
            return value
        if not isinstance(value, Mapping):
            raise ValueError("must be a mapping, such as {diagnosis: {distinct: 2}, linkage: 0.2}")
        if _is_written_out(value):
            return value
        problems: list[Problem] = []
        for name, demand in value.items():
            if isinstance(demand, ColumnDemand) or (name == LINKAGE and not isinstance(demand, Mapping)):
                continue
            problems += _shape_problems(str(name), demand)
        if problems:
            raise PartError(problems)
        columns = {name: demand for name, demand in value.items() if isinstance(demand, Mapping | ColumnDemand)}
        return {"columns": columns, **{k: v for k, v in value.items() if k not in columns}}

    def of_columns(self, confidential: Iterable[str]) -> dict[str, ColumnDemand]:
        """List what is demanded of each confidential column of which anything is, in their order.

        >>> protect = Protect.model_validate({"a": {"distinct": 2}, "*": {"inference": 0.1}, "linkage": 0.2})
        >>> [(name, demand.distinct, demand.inference) for name, demand in protect.of_columns(["b", "a"]).items()]
        [('b', None, 0.1), ('a', 2, 0.1)]
        """
        every = self.columns.get(EVERY_COLUMN)
        demands = {name: self.columns.get(name, ColumnDemand()).over(every) for name in confidential}
        return {name: demand for name, demand in demands.items() if demand != ColumnDemand()}


def _is_written_out(value: Mapping[str, Any]) -> bool:
    """Tell whether it is as the model has it, and not as a file does."""
    columns = value.get("columns")
    return isinstance(columns, Mapping) and all(isinstance(of, Mapping | ColumnDemand) for of in columns.values())


def _shape_problems(name: str, demand: Any) -> Iterator[Problem]:
    keys = ", ".join(ColumnDemand.model_fields)
    if not isinstance(demand, Mapping) or not demand:
        yield (name,), f"must be a mapping with some of the keys {keys}"
        return
    for key in demand:
        if key not in ColumnDemand.model_fields:
            yield (name, str(key)), f"is nothing that can be demanded of a column; that is {keys}"


def protect_problems(parts: Mapping[str, Any]) -> Iterator[Problem]:
    """Find what demands do to the rest of the spec, and it to them."""
    protect = parts.get("protect")
    if protect is None:
        return
    series = parts.get("series")
    if series is not None and series.carries:
        yield (
            ("protect",),
            f"is not for mode: {series.mode}, in which groups stay as they are while their confidential values change",
        )
    if "roles" in parts:
        confidential = parts["roles"].confidential
        for name in protect.columns:
            if name == EVERY_COLUMN and not confidential:
                yield ("protect", name), "stands for all confidential columns, and there is none"
            elif name != EVERY_COLUMN and name not in confidential:
                yield ("protect", name), "is not a confidential column"
    for name, demand in protect.columns.items():
        if demand.distinct is not None and demand.distinct > parts.get("k", demand.distinct):
            yield (
                ("protect", name, "distinct"),
                f"must be at most k = {parts['k']}, as many as a group's records have (got {demand.distinct})",
            )
