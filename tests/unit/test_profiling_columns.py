"""What is said of a column: notations told as one text by itself is, figures as others compute them, nobody's value."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from covering import each
from microagg_core.profile.columns import ColumnProfile, profiled
from microagg_core.profile.notations import (
    DAY_NUMBERS,
    declared_type,
    why_text,
)
from microagg_core.profile.profile import profile_of
from microagg_core.profile.proposals import RoleProposal, proposed_roles
from microagg_core.profile.reading import understood


def column(values: list[object], held: pa.DataType | None = None) -> ColumnProfile:
    return profiled("x", str(held), pa.chunked_array([pa.array(values, held)]))


CELLS = {
    "int64": ["1", "-2", "30"],
    "float64": ["1.5", "2", "1e-3", ".5", "3."],
    "bool": ["true", "False", "TRUE"],
    "date": ["2020-01-31", "1999-12-01"],
    "timestamp": ["2020-01-31 10:00", "2020-01-31T10:00:00.25", "2020-01-31"],
}


@pytest.mark.parametrize("kind", CELLS)
def test_a_declared_type_is_one_that_the_reader_takes(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text("".join(f"{cell},a\n" for cell in ["x", *CELLS[kind], "NA"]))
    result = understood(str(path))
    assert result.source.csv.types == {"x": kind}
    assert result.source.csv.null_words == ("", "NA")
    assert result.sample.table.column("x").null_count == 1


@each(
    "cells, expected",
    [
        (["007", "12"], "leading zeros"),
        (["001.1", "250.0"], "leading zeros"),
        (["12345678901234567890", "1"], "too long for a number"),
        (["1,234,567", "12"], "thousands separators"),
        (["1.234.567,8", "12"], "thousands separators"),
        (["1 234", "12 345"], "thousands separators"),
        (["1,234", "5,678"], "whose comma may be a decimal mark or not"),
        (["31.01.2020", "1.2.2021"], "dates in another notation"),
        (["01/31/2020", "12/01/2021"], "dates in another notation"),
        (["31-Jan-2020", "01-Feb-2021"], "dates in another notation"),
        (["2020-01-31T10:00:00Z", "2020-01-31T10:00:00+01:00"], "with a time zone"),
        (["10:30", "9:15:00"], "times of day"),
        (["12 %", "15 %"], "a sign or unit"),
        (["+5", "+6"], "a sign or unit"),
        (["20200131", "20200201", "19991231", "20000101", "20010101"], "days written as numbers"),
        ([*map(str, range(99)), "<5"], "1 % of its values are no numbers"),
    ],
)
def test_what_the_reader_does_not_take_stays_text_and_is_said(tmp_path: Path, cells: list[str], expected: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text("".join(f'"{cell}";a\n' for cell in ["x", *cells]))
    result = understood(str(path))
    assert "x" not in result.source.csv.types
    assert expected in result.remarks["x"]
    assert not any(cell in result.remarks["x"] for cell in cells if len(cell) > 4 and cell != "1,234")


def test_decimal_marks_are_one_for_the_file(tmp_path: Path) -> None:
    """The commoner one; columns with the other stay text, and say why."""
    (tmp_path / "x.csv").write_text("a;b;c;d\n" + 5 * "1,5;2,5;3.5;4\n")
    result = understood(str(tmp_path / "x.csv"))
    assert result.source.csv.types == {"a": "float64", "b": "float64", "d": "int64"}
    assert "decimal points and with decimal commas" not in result.remarks.get("a", "")
    assert result.sample.table.column("a").to_pylist() == 5 * [1.5]
    assert declared_type({"comma": 1, "decimal": 1}, True) is None
    assert "decimal points and with decimal commas" in why_text({"comma": 1, "decimal": 1})


def test_figures_are_those_that_others_compute() -> None:
    rng = np.random.default_rng(1)
    values = np.where(rng.random(5000) < 0.3, 0, np.round(rng.lognormal(8, 1, 5000)))
    values[rng.random(5000) < 0.1] = np.nan
    series = pd.Series(values)
    profile = profiled("x", "float64", pa.chunked_array([pa.array(values, from_pandas=True)]))
    assert (profile.records, profile.missing, profile.distinct) == (5000, series.isna().sum(), series.nunique())
    assert profile.unique == pytest.approx((series.value_counts() == 1).sum() / series.count())
    assert profile.zeros == pytest.approx((series == 0).sum() / series.count())
    inner = series.dropna().sort_values()[round(0.01 * series.count()) - 1 : -round(0.01 * series.count()) + 1]
    assert profile.skew == pytest.approx(inner.skew(), abs=0.06)
    assert profile.low == "0" and float((profile.high or "").replace(",", "")) == pytest.approx(inner.max(), rel=0.05)


def test_no_range_is_a_records_value() -> None:
    """The outermost records are not in it, and the ends are rounded."""
    rng = np.random.default_rng(2)
    incomes = np.round(rng.normal(40_000, 9_000, 2000), 2)
    incomes[7] = 123_456_789.25
    profile = profiled("x", "float64", pa.chunked_array([pa.array(incomes)]))
    assert (profile.low, profile.high) == ("19,000", "61,000")
    assert profile.skew is not None and abs(profile.skew) < 0.3
    few = profiled("x", "float64", pa.chunked_array([pa.array(incomes[:15])]))
    assert few.low is None and few.high is None and few.skew is None


@each(
    "values, held, expected",
    [
        (20 * [18, 30, 90], pa.int8(), ("18", "90")),
        (20 * [0, 1], pa.int64(), ("0", "1")),
        (30 * [5], pa.int64(), ("5", "5")),
        (20 * [float("nan"), float("inf"), 1.0, 2.0], pa.float64(), ("1.0", "2.0")),
        (20 * [datetime.date(1950, 3, 4), datetime.date(2001, 5, 6)], pa.date32(), ("1950", "2001")),
        (20 * [datetime.date(2001, 3, 4), datetime.date(2001, 5, 6)], pa.date32(), ("2001-03", "2001-05")),
        (20 * [datetime.datetime(1890, 1, 1), datetime.datetime(2001, 5, 6)], pa.timestamp("ns"), ("1890", "2001")),
        (20 * [True, False], pa.bool_(), (None, None)),
        (20 * [b"x", b"y"], pa.binary(), (None, None)),
        (20 * [[1], [2]], pa.list_(pa.int8()), (None, None)),
        (20 * [1.0, 2.0], pa.float16(), ("1.0", "2.0")),
        (20 * [Decimal("1.50"), Decimal("2.25")], pa.decimal32(5, 2), ("1.50", "2.25")),
        (20 * [Decimal("1.50"), Decimal("2.25")], pa.decimal64(12, 2), ("1.50", "2.25")),
        ([None] * 9, pa.month_day_nano_interval(), (None, None)),
        ([None] * 9, pa.int8(), (None, None)),
        ([], pa.string(), (None, None)),
    ],
)
def test_ranges_of_any_type(values: list[object], held: pa.DataType, expected: tuple[str, str]) -> None:
    array = pa.array(np.array(values, np.float16)) if held == pa.float16() else pa.array(values, held)
    profile = profiled("x", str(held), pa.chunked_array([array]))
    assert (profile.low, profile.high) == expected
    assert profile.is_nested == (pa.types.is_nested(held) or pa.types.is_interval(held))


@each(
    "values, codes",
    [
        (9 * [-9] + list(range(90)), (-9,)),
        (9 * [999] + list(range(90)), (999,)),
        (9 * [99] + list(range(90)), ()),
        (4 * [-9] + list(range(90)), ()),
        (9 * [-9] + list(range(-50, 50)), ()),
    ],
)
def test_codes_for_missing_values_are_suspected(values: list[object], codes: tuple[int, ...]) -> None:
    assert column(values, pa.int64()).codes == codes


def test_day_numbers_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("day,n\n" + "".join(f"201301{day:02},{day}\n" for day in range(1, 29)))
    profile = profile_of(str(tmp_path / "x.csv"))
    assert profile.columns[0].remark == DAY_NUMBERS
    assert profile.proposals[0].role == "drop"


def people(n: int = 1000) -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "patient_id": np.arange(n) + 7,
            "household": np.sort(rng.integers(0, n // 3, n)) + 100_000,
            "email": [f"p{i}@example.org" for i in range(n)],
            "sex": rng.choice(["f", "m"], n),
            "q7": rng.choice(["Mann", "Frau"], n),
            "region": rng.choice([f"R{i}" for i in range(6)], n),
            "commune": rng.choice([f"C{i:03}" for i in range(150)], n),
            "age": rng.integers(18, 91, n),
            "birthDate": [datetime.date(1950, 1, 1) + datetime.timedelta(int(d)) for d in rng.integers(0, 20000, n)],
            "income": np.round(rng.lognormal(10, 1, n), 2),
            "diagnosis": rng.choice(["flu", "hiv", "none"], n),
            "weight": rng.random(n),
            "comment": [f"said {i} things of some length, among them a telephone number {i}" for i in range(n)],
            "married": rng.random(n) < 0.5,
            "source": ["web"] * n,
        }
    )


def proposals_for(table: pa.Table) -> tuple[RoleProposal, ...]:
    columns = [profiled(name, str(table.schema.field(name).type), table.column(name)) for name in table.column_names]
    return proposed_roles(columns, table)


def roles_of(table: pa.Table) -> dict[str, str]:
    return {one.column.name: one.role for one in proposals_for(table)}


def test_roles_of_a_file_of_people() -> None:
    assert roles_of(people(4000)) == {
        "patient_id": "identifiers",
        "household": "identifiers",
        "email": "identifiers",
        "sex": "blocking",
        "q7": "blocking",
        "region": "blocking",
        "commune": "quasi_identifiers",
        "age": "quasi_identifiers",
        "birthDate": "quasi_identifiers",
        "income": "confidential",
        "diagnosis": "confidential",
        "weight": "quasi_identifiers",
        "comment": "drop",
        "married": "blocking",
        "source": "drop",
    }


def test_what_a_small_file_cannot_be_blocked_by() -> None:
    """Truth values have a mean, texts do not."""
    assert roles_of(people(160).select(["married", "q7", "commune", "age"])) == {
        "married": "quasi_identifiers",
        "q7": "blocking",
        "commune": "drop",
        "age": "quasi_identifiers",
    }


def test_what_nobody_knows_is_taken_for_known_and_few_numbers_for_codes() -> None:
    """A kind is proposed for texts and few whole numbers; too many categories are no quasi-identifier."""
    n, rng = 2000, np.random.default_rng(4)
    sizes = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 3, n)), ["S", "M", "L"], ordered=True)
    texts = pa.table({"shirt": sizes.cast(pa.string()), "roof": rng.choice([1, 2, 9], n), "z": rng.random(n)})
    texts = texts.append_column("kids", pa.array(rng.integers(0, 5, n)))
    texts = texts.append_column("education", pa.array(rng.integers(1, 9, n)))
    floats = {"zone": rng.choice([1.0, 2.0, 3.0], n), "dose": rng.choice([0.5, 1.0, 2.0], n)}
    for name, values in floats.items():
        texts = texts.append_column(name, pa.array(values, mask=rng.random(n) < 0.1))
    texts = texts.append_column("model", pa.array([f"M{value}" for value in rng.integers(0, 101, n)]))
    texts = texts.append_column("income", pa.array(rng.choice([1, 2], n)))
    proposals = {one.column.name: one for one in proposals_for(texts)}
    quasi = {name: one.kind for name, one in proposals.items() if one.role == "quasi_identifiers"}
    codes = {"shirt": "nominal", "roof": "nominal", "z": None, "kids": "number", "education": "ordinal"}
    assert quasi == {**codes, "zone": "nominal", "dose": None}
    assert proposals["model"].role == "drop" and "recode them into fewer" in proposals["model"].reason
    assert proposals["income"].role == "confidential"


def test_an_order_that_the_file_has_is_proposed(tmp_path: Path) -> None:
    sizes = pd.Categorical(["S", "M", "L", "M"] * 30, ["S", "M", "L"], ordered=True)
    pd.DataFrame({"shirt": sizes, "z": np.arange(120.0) ** 2}).to_parquet(tmp_path / "x.parquet")
    assert [one.kind for one in profile_of(str(tmp_path / "x.parquet")).proposals] == ["ordinal", None]


def test_not_all_of_many_unknown_columns_are_quasi_identifiers() -> None:
    table = pa.table({"age": np.arange(100), **{f"x{i}": np.random.default_rng(i).random(100) for i in range(30)}})
    roles = list(roles_of(table).values())
    assert (roles.count("quasi_identifiers"), roles.count("drop")) == (20, 11)


def test_where_nothing_is_known_from_outside_all_continuous_figures_are() -> None:
    """As with figures of firms; money of people is not taken for it."""
    rng = np.random.default_rng(5)
    firms = pa.table({"turnover": rng.random(100), "assets": rng.random(100), "weights": rng.random(100)})
    assert roles_of(firms) == {
        "turnover": "quasi_identifiers",
        "assets": "quasi_identifiers",
        "weights": "weight",
    }
    persons = pa.table({"sex": 50 * ["f", "m"], "income": rng.random(100), "x": rng.random(100)})
    assert roles_of(persons) == {"sex": "blocking", "income": "confidential", "x": "quasi_identifiers"}


def test_blocking_leaves_enough_records_a_key() -> None:
    """In any number of records: what cannot be blocked by is told, and not released as it is."""
    for n in (40, 200, 1000, 20_000):
        table = people(n)
        proposals = proposals_for(table)
        blocking = [one.column.name for one in proposals if one.role == "blocking"]
        assert "confidential" not in {one.role for one in proposals if one.column.name in ("sex", "region")}
        if blocking:
            assert table.to_pandas().groupby(blocking).size().mean() >= 50
