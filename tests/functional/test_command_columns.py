"""Columns of every type that a release can hold, in every role: types and values as they should come out."""

from __future__ import annotations

import csv
import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import Project
from recount import Expected, check_release, mean_of

from covering import share

CLUSTER = "none"  # releases are made by the process that is called
N = 60
UNIQUE = {"nearly_unique": ["tag"]}
_numbers = np.random.default_rng(0).integers(0, 40, N)


def _whole(kind: pa.DataType, factor: int = 1, start: int = 0) -> pa.Array:
    return pa.array([start + int(i) * factor for i in _numbers], kind)


def _ticks(kind: pa.DataType, factor: int, start: int = 0) -> pa.Array:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return _whole(width, factor, start).cast(kind)


def cycled(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([values[i % len(values)] for i in range(N)], kind)


QUASI_IDENTIFIERS: dict[str, pa.Array] = {
    "int8": _whole(pa.int8(), start=-20),
    "int16": _whole(pa.int16(), 7),
    "uint8": _whole(pa.uint8()),
    "int64": _whole(pa.int64(), 10**15 + 1, 2**60),
    "uint64 above 2^53": _whole(pa.uint64(), 7, 2**63 + 2**53 + 1),
    "bool": pa.array(_numbers % 2 == 0),
    "decimal(9,2)": pa.array([Decimal(int(i) * 137) / 100 for i in _numbers], pa.decimal128(9, 2)),
    "decimal(9,2) narrow": pa.array([Decimal(int(i) * 137) / 100 for i in _numbers], pa.decimal32(9, 2)),
    "decimal(18,4)": pa.array([Decimal(int(i) * 137 + 10**17).scaleb(-4) for i in _numbers], pa.decimal128(18, 4)),
    "decimal(30,5)": pa.array([Decimal(int(i) * 137 + 10**20).scaleb(-5) for i in _numbers], pa.decimal128(30, 5)),
    "decimal(30,5) greatest": pa.array([Decimal("9" * 25 + ".99999")] * N, pa.decimal128(30, 5)),
    "float32": pa.array(_numbers * 0.1, pa.float32()),
    "float64": pa.array(_numbers * 0.1),
    "date32": _ticks(pa.date32(), 100),
    "date64": _ticks(pa.date32(), 100).cast(pa.date64()),
    "timestamp s": _ticks(pa.timestamp("s"), 86_401),
    "timestamp ms": _ticks(pa.timestamp("ms"), 86_401),
    "timestamp us": _ticks(pa.timestamp("us"), 86_401, 10**15),
    "timestamp ns": _ticks(pa.timestamp("ns"), 86_401, 10**18 + 1),
    "timestamp s Berlin": _ticks(pa.timestamp("s", "Europe/Berlin"), 86_401),
    "timestamp ms +02:00": _ticks(pa.timestamp("ms", "+02:00"), 86_401),
    "timestamp us Berlin": _ticks(pa.timestamp("us", "Europe/Berlin"), 86_401, 10**15),
    "timestamp ns UTC": _ticks(pa.timestamp("ns", "UTC"), 86_401, 10**18 + 1),
    "before 1970": _ticks(pa.timestamp("us", "UTC"), -86_401, -(10**15)),
    "int8 extremes": cycled([-128, 127], pa.int8()),
    "int64 extremes": cycled([-(2**63), 2**63 - 1], pa.int64()),
    "uint64 extremes": cycled([0, 2**64 - 1], pa.uint64()),
    "negative decimals": pa.array([Decimal(int(i) - 20) / 100 for i in _numbers], pa.decimal128(9, 2)),
    "decimal(18,0) extremes": cycled([Decimal(10**18 - 1), Decimal(1 - 10**18)], pa.decimal128(18, 0)),
    "date32 extremes": cycled([-(2**31), 2**31 - 1], pa.int32()).cast(pa.date32()),
    "timestamp ns extremes": cycled([1 - 2**63, 2**63 - 1], pa.int64()).cast(pa.timestamp("ns")),
    "float32 extremes": cycled([3.4e38, -3.4e38], pa.float32()),
    "sentinel": pa.array(np.where(_numbers % 5 == 0, -999, _numbers)),
    "constant": pa.array([5] * N),
    "constant fraction": pa.array([0.1] * N),
    "mean 1e9 times the deviation": pa.array(1e9 + np.random.default_rng(1).normal(size=N)),
    "1e300": pa.array(_numbers * 1e300),
    "1e-300": pa.array(_numbers * 1e-300),
    "near the greatest float": pa.array(np.where(_numbers % 2 == 0, -1.5e308, 1.5e308)),
    "zeros of both signs": pa.array(np.where(_numbers % 2 == 0, -0.0, 0.0)),
}


def table_with(**columns: pa.Array) -> pa.Table:
    return pa.table({"tag": pa.array(range(N)), **columns})


def as_stored(project: Project, table: pa.Table) -> pa.Table:
    """The table as Parquet has it, which knows no timestamps in seconds and one width of decimals."""
    stored = pq.read_table(project.write(table))
    for position, field in enumerate(stored.schema):
        if str(field.type).startswith(("decimal32(", "decimal64(")):
            kind = pa.decimal128(field.type.precision, field.type.scale)
            stored = stored.set_column(position, field.name, stored[field.name].cast(kind))
        elif pa.types.is_string_view(field.type) or pa.types.is_binary_view(field.type):
            kind = pa.string() if pa.types.is_string_view(field.type) else pa.binary()
            stored = stored.set_column(position, field.name, stored[field.name].cast(kind))
    return stored


def test_quasi_identifiers_of_all_types_together(project: Project) -> None:
    table = as_stored(project, table_with(**QUASI_IDENTIFIERS))
    names = list(QUASI_IDENTIFIERS)
    project.write_spec({"quasi_identifiers": names, "confidential": ["tag"]}, acknowledge=UNIQUE)
    project.release()
    check_release(table, project.released(), Expected(3, names))
    assert project.command("verify", "release").code == 0


@pytest.mark.parametrize("name", share(QUASI_IDENTIFIERS, 3))
def test_a_quasi_identifier_of_each_type_alone_in_blocks(name: str, project: Project) -> None:
    place = pa.array(["a", "b", "c"] * (N // 3))
    table = as_stored(project, table_with(q=QUASI_IDENTIFIERS[name], place=place))
    project.write_spec(
        {"quasi_identifiers": ["q"], "blocking": ["place"], "confidential": ["tag"]},
        acknowledge=UNIQUE,
        algorithm={"name": "v_mdav", "gamma": 0.3},
    )
    project.release()
    check_release(table, project.released(), Expected(3, ["q"], ["place"]))
    assert project.call("verify", "release").code == 0


def test_means_are_kept_over_the_whole_release(project: Project) -> None:
    """Floats nearly exactly, whole numbers within half of 1; at a mean 1e9 times the deviation, too."""
    rng = np.random.default_rng(2)
    table = pa.table(
        {
            "whole": rng.integers(0, 100, 3000),
            "far": 1e9 + rng.normal(size=3000),
            "huge": rng.normal(size=3000) * 1e300,
            "tiny": rng.normal(size=3000) * 1e-300,
            "day": pa.array(rng.integers(0, 20000, 3000), pa.int32()).cast(pa.date32()),
            "far day": pa.array(rng.integers(10**14, 10**15, 3000)).cast(pa.timestamp("ms")),
            "code": [f"{v:02d}" for v in rng.integers(0, 20, 3000)],
        }
    )
    project.write(table)
    names = [name for name in table.column_names if name != "code"]
    project.write_spec({"quasi_identifiers": names, "confidential": ["code"]})
    document = project.release()
    released = project.released()
    for name, deviation in {"far": 1.0, "huge": 1e300, "tiny": 1e-300}.items():
        spacing = float(np.spacing(max(abs(v) for v in table[name].to_pylist())))
        assert abs(mean_of(released[name]) - mean_of(table[name])) <= 1e-9 * deviation + 4 * spacing, name
    for name in ("whole", "day", "far day"):
        assert abs(mean_of(released[name]) - mean_of(table[name])) <= 0.5, name
    figures = document["losses"]["attributes"]
    assert figures["huge"]["variance"] is None
    assert figures["tiny"]["variance"] == 0.0
    assert figures["far"]["variance"] == pytest.approx(np.var(np.array(released["far"])), rel=1e-4)
    assert figures["far day"]["mean"] == str(np.datetime64(round(mean_of(released["far day"]) / 1000), "s"))


ROUNDING: dict[str, tuple[pa.Array, Any, Fraction]] = {
    "none on int": (_whole(pa.int16(), 7), "none", Fraction(0)),
    "none on uint64": (_whole(pa.uint64(), 7, 2**60), "none", Fraction(0)),
    "none on decimal": (QUASI_IDENTIFIERS["decimal(9,2)"], "none", Fraction(0)),
    "none on float32": (QUASI_IDENTIFIERS["float32"], "none", Fraction(0)),
    "5 on int": (_whole(pa.int16(), 7), 5, Fraction(5)),
    "5 on uint64": (_whole(pa.uint64(), 7, 2**63 + 1), 5, Fraction(5)),
    "0.29 on decimal": (QUASI_IDENTIFIERS["decimal(9,2)"], 0.29, Fraction(29, 100)),
    "0.1 on float": (_whole(pa.float64(), 3), 0.1, Fraction(1, 10)),
    "0.25 on float32": (_whole(pa.float32(), 3), 0.25, Fraction(1, 4)),
    "1000 on float": (_whole(pa.float64(), 300), 1000, Fraction(1000)),
    "7 days": (QUASI_IDENTIFIERS["date32"], 7, Fraction(7)),
    "1000 s of ms": (QUASI_IDENTIFIERS["timestamp ms"], 1000, Fraction(1000)),
}


def test_rounding_rules(project: Project) -> None:
    table = as_stored(project, table_with(**{name: column for name, (column, _, _) in ROUNDING.items()}))
    names = list(ROUNDING)
    project.write_spec(
        {"quasi_identifiers": names, "confidential": ["tag"]},
        acknowledge=UNIQUE,
        rounding={name: rule for name, (_, rule, _) in ROUNDING.items()},
    )
    project.release()
    released = project.released()
    steps = {name: step for name, (_, _, step) in ROUNDING.items()}
    check_release(table, released, Expected(3, names, steps=steps))
    for name, (column, _, step) in ROUNDING.items():
        if not step:
            assert released[name].type == pa.float64()
            continue
        values = released[name].cast(pa.int64()) if pa.types.is_timestamp(column.type) else released[name]
        values = values.cast(pa.int32()) if pa.types.is_date(column.type) else values
        for value in set(values.to_pylist()):
            assert Fraction(repr(value) if isinstance(value, float) else value) % step == 0, (name, value)


CONFIDENTIAL: dict[str, pa.Array] = {
    "text": cycled(["01", "", "null", "NA", None, "a,b", "x\ny", '"q"', " lead", "\r\n", "é€😀", "\t=1"], pa.string()),
    "large text": cycled(["01", "", None], pa.large_string()),
    "text view": cycled(["01", "a text too long to be held inline", None], pa.string()).cast(pa.string_view()),
    "int64": cycled([2**53 + 1, -(2**63), 2**63 - 1, None], pa.int64()),
    "uint64": cycled([2**64 - 1, 0, None], pa.uint64()),
    "bool": cycled([True, False, None], pa.bool_()),
    "decimal": cycled([Decimal("0.01"), Decimal("-9999999.99"), None], pa.decimal128(9, 2)),
    "narrow decimal": cycled([Decimal("0.01"), Decimal("-9999999.99"), None], pa.decimal64(9, 2)),
    "wide decimal": cycled([Decimal(10**38 - 1), Decimal(1 - 10**38), None], pa.decimal128(38, 0)),
    "float": cycled([float("nan"), -0.0, 0.0, None, 5e-324, 1.7e308, float("inf"), -float("inf"), 0.1], pa.float64()),
    "float32": cycled([float("nan"), -0.0, 0.0, None, 1e-40, 0.1], pa.float32()),
    "date32": cycled([dt.date(1, 1, 1), dt.date(9999, 12, 31), None], pa.date32()),
    "date64": cycled([dt.date(1, 1, 1), dt.date(9999, 12, 31), None], pa.date64()),
    "timestamp us": cycled([dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)], pa.timestamp("us")),
    "timestamp ns": cycled([1, -1, 2**62, None], pa.int64()).cast(pa.timestamp("ns")),
    "timestamp tz": cycled([1, -1, 10**15, None], pa.int64()).cast(pa.timestamp("us", "America/New_York")),
    "time32": cycled([1, 2, None], pa.int32()).cast(pa.time32("ms")),
    "time64": cycled([1, 2, None], pa.int64()).cast(pa.time64("ns")),
    "duration": cycled([1, -2, None], pa.int64()).cast(pa.duration("us")),
    "nothing but nulls": pa.nulls(N, pa.string()),
    "no type": pa.nulls(N),
    "categories": pa.DictionaryArray.from_arrays(pa.array([i % 2 for i in range(N)], pa.int8()), ["x", "y", "unused"]),
}
BYTES: dict[str, pa.Array] = {
    "binary": cycled([b"\0\xff", b"", None], pa.binary()),
    "large binary": cycled([b"\0\xff", b"", None], pa.large_binary()),
    "fixed binary": cycled([b"\0\xff", b"ab", None], pa.binary(2)),
}


def test_confidential_values_of_all_types_are_kept_to_the_bit(project: Project) -> None:
    columns = CONFIDENTIAL | BYTES
    table = as_stored(project, table_with(q=_whole(pa.int64()), **columns))
    confidential = ["tag", *columns]
    project.write_spec({"quasi_identifiers": ["q"], "confidential": confidential}, acknowledge=UNIQUE)
    project.release()
    check_release(table, project.released(), Expected(3, ["q"], confidential=confidential))
    written = b"".join(path.read_bytes() for path in project.parts())
    assert b"unused" not in written
    assert project.command("verify", "release").code == 0


def test_confidential_values_of_all_types_in_csv(project: Project) -> None:
    """Read back with the types that the manifest gives them, the values are the same to the bit."""
    table = as_stored(project, table_with(q=_whole(pa.int64()), **CONFIDENTIAL))
    confidential = ["tag", *CONFIDENTIAL]
    project.write_spec(
        {"quasi_identifiers": ["q"], "confidential": confidential},
        acknowledge=UNIQUE,
        output={"url": "release", "format": "csv"},
    )
    project.release()
    assert project.command("verify", "release").code == 0
    (part,) = project.parts()
    with part.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    place = {int(row["tag"]): row for row in rows}
    assert sorted(place) == list(range(N))
    for name in ("text", "large text", "text view", "categories"):
        plain = table[name].cast(pa.string()).to_pylist()
        assert [place[i][name] for i in range(N)] == [v or "" for v in plain], name
    for name in ("int64", "uint64", "decimal", "wide decimal"):
        found = [Decimal(place[i][name]) if place[i][name] else None for i in range(N)]
        assert found == [None if v is None else Decimal(v) for v in table[name].to_pylist()], name
    assert {place[i]["nothing but nulls"] for i in range(N)} == {""}


BLOCKING: dict[str, pa.Array] = {
    "text": cycled(["a", "b", None], pa.string()),
    "large text": cycled(["01", "", None], pa.large_string()),
    "text view": cycled(["01", "a text too long to be held inline", None], pa.string()).cast(pa.string_view()),
    "categories": pa.DictionaryArray.from_arrays(
        pa.array([None if i % 3 == 2 else i % 3 for i in range(N)], pa.int8()), ["x", "y", "unused"]
    ),
    "int64": cycled([2**53 + 1, 2**53, None], pa.int64()),
    "uint64": cycled([2**64 - 1, 0, None], pa.uint64()),
    "bool": cycled([True, False, None], pa.bool_()),
    "decimal": cycled([Decimal("1.00"), Decimal("1.10"), None], pa.decimal128(9, 2)),
    "narrow decimal": cycled([Decimal("1.00"), Decimal("1.10"), None], pa.decimal32(9, 2)),
    "float": cycled([0.1, -0.0, float("nan")], pa.float64()),
    "float32": cycled([0.1, 2.0, None], pa.float32()),
    "date32": cycled([dt.date(1, 1, 1), dt.date(9999, 12, 31), None], pa.date32()),
    "date64": cycled([dt.date(2000, 1, 1), dt.date(2000, 1, 2), None], pa.date64()),
    "timestamp": cycled([1, 2, None], pa.int64()).cast(pa.timestamp("ns", "Europe/Berlin")),
    "time": cycled([1, 2, None], pa.int32()).cast(pa.time32("ms")),
    "duration": cycled([1, 2, None], pa.int64()).cast(pa.duration("us")),
    "no type": pa.nulls(N),
}


@pytest.mark.parametrize("undersized", ["merge", "suppress"])
def test_blocking_values_of_all_types(undersized: str, project: Project) -> None:
    table = as_stored(project, table_with(q=_whole(pa.int64()), **BLOCKING))
    names = list(BLOCKING)
    project.write_spec(
        {"quasi_identifiers": ["q"], "blocking": names, "confidential": ["tag"]},
        acknowledge=UNIQUE,
        blocks={"undersized": undersized},
    )
    project.release()
    check_release(table, project.released(), Expected(3, ["q"], names, merged=undersized == "merge"))
    assert b"unused" not in b"".join(path.read_bytes() for path in project.parts())


@pytest.mark.parametrize("name", share(BLOCKING, 3))
def test_blocking_values_of_each_type_are_merged(name: str, project: Project) -> None:
    """One value of each column has too few records; it joins another, and the list says exactly which."""
    stored = as_stored(project, pa.table({"place": BLOCKING[name]}))
    column = stored["place"].take(pa.array([*range(2), *(0, 1) * 12, *(2,) * 10]))
    table = as_stored(project, pa.table({"tag": range(36), "q": [i % 7 for i in range(36)], "place": column}))
    project.write_spec(
        {"quasi_identifiers": ["q"], "blocking": ["place"], "confidential": ["tag"]}, k=11, acknowledge=UNIQUE
    )
    project.release()
    check_release(table, project.released(), Expected(11, ["q"], ["place"]))
