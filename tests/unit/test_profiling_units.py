"""Units of several rows are found in a file: what names them, what is constant within them, what tells rows apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from microagg_core.profile.columns import profiled
from microagg_core.profile.proposals import SeveralProposal, proposed_roles
from microagg_core.profile.units import several_rows

RNG = np.random.default_rng(1)
N = 600
SIZES = np.tile([1, 2, 3, 4], N // 4)
HOME = np.repeat(np.arange(N), SIZES)
ROWS = len(HOME)


def found(table: pa.Table, is_whole: bool = True) -> SeveralProposal | None:
    return several_rows(columns_of(table), table, is_whole)


def columns_of(table: pa.Table) -> list[Any]:
    return [profiled(field.name, str(field.type), table.column(field.name)) for field in table.schema]


def homes(**others: Any) -> pa.Table:
    """List persons in a random order, with a tenure and a region of each home."""
    columns = {
        "age": RNG.integers(0, 90, ROWS),
        "sex": RNG.choice(["f", "m"], ROWS),
        "region": RNG.choice(["A", "B"], N)[HOME],
        "tenure": RNG.choice(["own", "rent", "free"], N)[HOME],
        "rooms": RNG.integers(1, 9, N)[HOME],
        **others,
    }
    return pa.table({name: pa.array(values) for name, values in columns.items()}).take(pa.array(RNG.permutation(ROWS)))


LINE = np.arange(ROWS) - np.repeat(np.cumsum(SIZES) - SIZES, SIZES) + 1
PERSON = np.arange(ROWS) + 10_000
#: Two years of every person.
TWICE = pa.table({"hid": np.tile(HOME, 2), "pid": np.tile(PERSON, 2), "year": np.repeat([2023, 2024], ROWS)})
SCHOOL = {"class_id": np.arange(ROWS) // 25, "stream": np.array(["a", "b"])[np.arange(ROWS) // 25 % 2]}


@pytest.mark.parametrize(
    ("table", "unit", "row"),
    [
        (homes(household_id=HOME, person_id=PERSON), "household_id", "person_id"),
        (homes(household_id=HOME, line=LINE), "household_id", "line"),
        (homes(dwelling_x=np.char.add("K", (HOME * 7919 % 10_007).astype(str))), "dwelling_x", None),
        (homes(household_id=HOME, visit_year=2000 + LINE), "household_id", None),
        (homes(person_id=PERSON, **SCHOOL), None, None),
        (homes(person_id=PERSON), None, None),
        (TWICE.append_column("region", pa.array(np.tile(HOME % 3, 2))), "hid", None),
        (TWICE.drop_columns("hid").append_column("sex", pa.array(np.tile(PERSON % 3, 2))), "pid", None),
    ],
    ids=[
        "named",
        "line numbers",
        "by values",
        "years are no ids",
        "classes",
        "single rows",
        "persons in homes",
        "years",
    ],
)
def test_the_unit_is_what_repeats_while_others_are_constant(table: pa.Table, unit: str | None, row: str | None) -> None:
    several = found(table)
    assert (several and several.id, several and several.row) == (unit, row)
    if several is not None:
        same = {name for name in table.column_names if table.group_by(unit).aggregate([(name, "count_distinct")])[
            f"{name}_count_distinct"
        ].to_numpy().max() == 1} - {unit}  # fmt: skip
        assert several.same == same and set(several.telling) <= same
        assert (several.units, several.rows) == (pc.count_distinct(table[unit]).as_py(), table.num_rows)


def test_roles_beside_units_of_several_rows() -> None:
    """What differs within homes blocks nothing; what lacks values is a category, or dropped where it is a number."""
    lacking = pa.array(RNG.random(ROWS) < 0.1)
    table = homes(household_id=HOME, line=LINE, weights=(1 + HOME % 7) / 2, pweight=RNG.random(ROWS) + 1)
    job = pc.if_else(lacking, None, pa.array(RNG.choice(["x", "y"], ROWS)))
    table = table.append_column("job", job).append_column("height", pc.if_else(lacking, None, RNG.random(ROWS)))
    several = found(table)
    proposals = proposed_roles(columns_of(table), table, several)
    roles = {one.column.name: one.role for one in proposals}
    assert several is not None and roles["household_id"] == roles["line"] == "identifiers"
    assert {name for name, role in roles.items() if role == "blocking"} == {"region"}
    assert (roles["weights"], roles["pweight"], roles["height"]) == ("weight", "confidential", "drop")
    declared = {one.column.name: one.declared for one in proposals}
    assert declared["job"] == {"kind": "nominal", "missing": "category"} and declared["sex"] == {"kind": "nominal"}
    assert several.fields(proposals) == {
        "id": ["household_id"], "rows": "several", "row": ["line"], "per_unit": ["tenure", "rooms"]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "at_most"),
    [
        ([1, 2, 3] * 40, None),
        ([1, 2, 3] * 40 + [9, 9, 9, 9], 3),
        ([1, 2, 3] * 40 + [9, 9, 9, 9, 8], 8),
        ([1, 2, 3] * 40 + [20] * 12, 12),
        ([1, 2, 3] * 10 + [20] * 12, None),
    ],
)
def test_as_many_rows_as_k_units_have_and_no_long_tail(sizes: list[int], at_most: int | None) -> None:
    unit = np.repeat(np.arange(len(sizes)), sizes)
    day = pa.array(np.arange(len(unit)), pa.int32()).cast(pa.date32())
    table = pa.table({"patient_id": unit, "sex": np.array(["f", "m"])[unit % 2], "day": day})
    several = found(table)
    assert several is not None and several.at_most == at_most
    assert (several.by, several.left_out) == (
        (None, 0) if at_most is None else ("day", sum(max(0, size - at_most) for size in sizes))
    )
    first_rows = found(table, is_whole=False)
    assert first_rows == replace(several, at_most=None, by=None, left_out=0, cut_units=0)
