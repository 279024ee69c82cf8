"""The independent recount finds what it is there to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from recount import Expected, check_release, parse_label

BEFORE = pa.table(
    {
        "tag": range(8),
        "x": [1, 2, 3, 10, 11, 12, 5, 5],
        "place": ["a", "a", "a", "b", "b", "b", "c", "d"],
        "note": ["u", "v", "w", "u", None, "w", "", "z"],
    }
)
AFTER = pa.table(
    {
        "tag": [7, 6, 5, 4, 3, 2, 1, 0],
        "x": [5, 5, 11, 11, 11, 2, 2, 2],
        "place": ["c|d", "c|d", "b", "b", "b", "a", "a", "a"],
        "note": ["z", "", "w", None, "u", "w", "v", "u"],
    }
)
EXPECTED = Expected(2, ["x"], ["place"], ["tag", "note"])


def with_value(name: str, row: int, value: Any) -> Callable[[], pa.Table]:
    def change() -> pa.Table:
        values = AFTER[name].to_pylist()
        values[row] = value
        return AFTER.set_column(AFTER.column_names.index(name), name, pa.array(values, AFTER[name].type))

    return change


BROKEN: dict[str, Callable[[], pa.Table]] = {
    "a record missing": lambda: AFTER.slice(1),
    "a record twice": lambda: pa.concat_tables([AFTER, AFTER.slice(0, 1)]),
    "a combination below k": with_value("x", 7, 3),
    "a mean that is none": lambda: AFTER.set_column(1, "x", pa.array([5, 5, 13, 13, 13, 2, 2, 2])),
    "a confidential value of somebody else": with_value("note", 0, "u"),
    "a null that was an empty text": with_value("note", 1, None),
    "a blocking value of somebody else": with_value("place", 2, "a"),
    "a list that names a value nobody has": lambda: AFTER.set_column(
        2, "place", pa.array(["c|d|e", "c|d|e", *AFTER["place"].to_pylist()[2:]])
    ),
    "another type": lambda: AFTER.set_column(1, "x", AFTER["x"].cast(pa.float64())),
    "another order of columns": lambda: AFTER.select(["x", "tag", "place", "note"]),
    "a column too many": lambda: AFTER.append_column("who", AFTER["tag"]),
}


def test_what_is_right_passes() -> None:
    check_release(BEFORE, AFTER, EXPECTED)


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_found(name: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        check_release(BEFORE, BROKEN[name](), EXPECTED)


@pytest.mark.parametrize(
    ("label", "values"),
    [("a", {"a"}), (None, {None}), ("a|b", {"a", "b"}), ("a\\|b", {"a|b"}), ("\\N|\\\\N", {None, "\\N"}), ("", {""})],
)
def test_labels_are_read(label: str | None, values: set[str | None]) -> None:
    assert parse_label(label) == values
