"""Units in the spec: a row each, a row each that columns name, or several rows that belong together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from microagg_core.model import ColumnName, Columns, Model, Problem, Whole

#: Rows of a unit, at most: more are no household and no patient, and a group of so many positions is none either.
MOST_ROWS = 1000


class RowsLimit(Model):
    """Limit of the rows that are released of a unit, and the choice of them."""

    at_most: Whole = Field(ge=1, le=MOST_ROWS, description="rows of a unit that are released, at most")
    keep: Literal["newest", "oldest", "first"] = Field(
        default="first", description="which ones: the newest or the oldest, or the first of the input"
    )
    by: ColumnName | None = Field(
        default=None, description="for newest and oldest: the column that says when; default: the newest come last"
    )

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        if parts.get("keep") == "first" and parts.get("by") is not None:
            yield ("by",), "says which rows are newest or oldest; write keep: newest or keep: oldest beside it"


def _columns_shape(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


SomeColumns = Annotated[Columns, BeforeValidator(_columns_shape)]


def _rows_shape(value: Any) -> Any:
    if value != "several" and not isinstance(value, dict | RowsLimit):
        raise ValueError("must be 'several', or the most that are released of a unit, such as {at_most: 12}")
    return value


class SeveralRows(Model):
    """Units of several rows: households, patients, panels."""

    id: SomeColumns = Field(min_length=1, description="column(s) that name the unit, the same in all of its rows")
    rows: Annotated[
        Annotated[Literal["several"], Tag("all")] | Annotated[RowsLimit, Tag("limit")],
        Discriminator(lambda value: "all" if isinstance(value, str) else "limit"),
        BeforeValidator(_rows_shape),
    ] = Field(default="several", description="'several', or how many of a unit's rows are released at most, and which")
    row: SomeColumns = Field(
        default=(), description="column(s) that name a row within its unit, the same every night; a series needs them"
    )
    per_unit: SomeColumns = Field(
        default=(), description="quasi-identifiers that are the same in all rows of a unit, such as a dwelling's tenure"
    )
    rows_tied: Literal["possible", "impossible"] = Field(
        default="possible",
        description="possible: k units share all of their rows; impossible: rows are released one by one, k units "
        "behind each combination, and the gate stops what tells which rows are those of a unit",
    )

    @property
    def limit(self) -> RowsLimit | None:
        return self.rows if isinstance(self.rows, RowsLimit) else None

    @property
    def named(self) -> tuple[str, ...]:
        """List the columns that say whose a row is, which row it is, and when it was."""
        by = self.limit.by if self.limit else None
        return (*self.id, *self.row, *([by] if by else []))


def _unit_shape(value: Any) -> Any:
    return value if value == "row" or isinstance(value, list | tuple | dict | SeveralRows) else [value]


def _unit_tag(value: Any) -> str:
    return "row" if value == "row" else "several" if isinstance(value, dict | SeveralRows) else "columns"


Unit = Annotated[
    Annotated[Literal["row"], Tag("row")] | Annotated[Columns, Tag("columns")] | Annotated[SeveralRows, Tag("several")],
    Discriminator(_unit_tag),
    BeforeValidator(_unit_shape),
]


def unit_problems(parts: Mapping[str, Any], role: Mapping[str, str]) -> Iterator[Problem]:
    """Find columns of the unit that lack the role which they have to have."""
    unit = parts.get("unit", "row")
    if unit == "row":
        return
    if unit == ():
        yield ("unit",), "must name at least one column, or be 'row'"
    is_several = isinstance(unit, SeveralRows)
    for place, names in {("id",): unit.id, ("row",): unit.row}.items() if is_several else [((), unit)]:
        for position, column in enumerate(names):
            if role.get(column) != "identifiers":
                yield (
                    ("unit", *place, position),
                    f"{column!r} must be an identifier, so that nothing of what names a unit is released",
                )
            elif column in names[:position]:
                yield ("unit", *place, position), f"{column!r} is named twice"
    if is_several:
        yield from _several_problems(parts, unit, role)


def _several_problems(parts: Mapping[str, Any], unit: SeveralRows, role: Mapping[str, str]) -> Iterator[Problem]:
    for column in set(unit.id) & set(unit.row):
        yield ("unit", "row"), f"{column!r} names the unit already; name what tells its rows apart"
    for position, column in enumerate(unit.per_unit):
        if role.get(column) != "quasi_identifiers":
            yield ("unit", "per_unit", position), f"{column!r} is not a quasi-identifier"
    if unit.limit and unit.limit.by and unit.limit.by not in role:
        yield ("unit", "rows", "by"), f"{unit.limit.by!r} has no role; name it under roles, be it under drop"
    if unit.rows_tied == "impossible":
        yield from _untied_problems(parts, unit, role)
    if parts.get("missing", "error") != "error":
        yield (
            ("missing",),
            f"{parts['missing']} cannot be combined with units of several rows; fill missing values in, or take them "
            "for a category ({name: ..., kind: nominal, missing: category})",
        )
    roles = parts.get("roles")
    for position, quasi in enumerate(roles.quasi_identifiers if roles is not None else ()):
        if quasi.zeros is not None:
            yield (
                ("roles", "quasi_identifiers", position, "zeros"),
                "separate is for units of one row each; take it away",
            )
    series = parts.get("series")
    if series is None:
        return
    if series.mode == "independent":
        yield ("series", "mode"), "independent cannot be combined with units of several rows; take another mode"
    if not unit.row:
        yield ("unit",), "needs 'row' for a series: the column(s) that tell the rows of a unit apart, every night"
    if series.carries and series.leavers != "withhold":
        yield ("series", "leavers"), "must be withhold, where units have several rows; others would part them"
    if series.carries and unit.limit and (unit.limit.keep != "oldest" or unit.limit.by is None):
        yield (
            ("unit", "rows", "keep"),
            "must be oldest, by a column, where a series follows rows: others are the first or newest every night",
        )
    if series.guarantee == "trace+changes":
        yield ("series", "guarantee"), "must be trace, where units have several rows"


def _untied_problems(parts: Mapping[str, Any], unit: SeveralRows, role: Mapping[str, str]) -> Iterator[Problem]:
    if unit.per_unit:
        yield ("unit", "per_unit"), "is for units whose rows stay together; take it away, or rows_tied: impossible"
    if parts.get("protect") is not None:
        yield ("protect",), "cannot be combined with rows_tied: impossible; take it away, or say rows_tied: possible"
    if (roles := parts.get("roles")) is not None and roles.weight is not None:
        yield ("roles", "weight"), "cannot be combined with rows_tied: impossible; give the column another role"
    for position, known in enumerate(parts.get("known", ())):
        if own := [name for name in known if role.get(name) == "confidential"]:
            yield (
                ("known", position),
                f"{own[0]!r} is confidential, and with rows_tied: impossible k units are counted for quasi-identifiers "
                "and blocking columns alone; make it one of these, or leave it out",
            )
    series = parts.get("series")
    if series is not None and series.carries:
        yield (
            ("series", "mode"),
            "must be disjoint with rows_tied: impossible, as rows that come again night after night are tied; take it, "
            "or rows_tied: possible",
        )
