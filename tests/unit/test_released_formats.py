"""Every released format: what is written is read back the same, by its bytes alone, and nulls hide nothing."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from covering import each
from microagg_core.data.formats import input_names, released_names
from microagg_core.data.formats.reading import input_formats
from microagg_core.data.formats.released.arrow import ArrowRelease
from microagg_core.data.formats.writing import released_format
from microagg_core.errors import SpecError, StorageError
from microagg_core.spec.release import Output

RELEASED_FORMATS = released_names()
DAY = datetime.date(2020, 2, 29)
MOMENT = datetime.datetime(2020, 2, 29, 12, 0, 1)
#: A value of every type that may be released.
VALUES: list[tuple[pa.DataType, object]] = [
    *((getattr(pa, f"{sign}int{bits}")(), 7) for sign in ("", "u") for bits in (8, 16, 32, 64)),
    (pa.float32(), 0.5),
    (pa.float64(), 0.1),
    (pa.bool_(), True),
    (pa.string(), "canary"),
    (pa.large_string(), "canary"),
    (pa.date32(), DAY),
    (pa.date64(), DAY),
    (pa.timestamp("s"), MOMENT),
    (pa.timestamp("ms", "Europe/Berlin"), MOMENT),
    (pa.time32("s"), MOMENT.time()),
    (pa.time64("us"), MOMENT.time()),
    (pa.timestamp("us"), MOMENT),
    (pa.timestamp("ns", "UTC"), MOMENT),
    (pa.decimal128(12, 2), Decimal("1.50")),
    (pa.binary(), b"canary"),
    (pa.large_binary(), b"canary"),
    (pa.binary(6), b"canary"),
    (pa.duration("s"), datetime.timedelta(seconds=5)),
]


def table_of_everything(kinds: list[pa.DataType]) -> pa.Table:
    """A column of each type; every third value is missing."""
    return pa.table(
        {
            f"{i}.{kind}": pa.array([value, value, None] * 5, kind)
            for i, (kind, value) in enumerate(VALUES)
            if kind in kinds
        }
    )


def test_a_format_has_the_name_of_its_file() -> None:
    assert tuple(form.name for form in input_formats()) == input_names()
    assert tuple(released_format(Output(url="out", format=name)).name for name in released_names()) == released_names()


@pytest.mark.parametrize("name", RELEASED_FORMATS)
def test_what_is_written_is_read_back(name: str, tmp_path: Path) -> None:
    form = released_format(Output(url="out", format=name))
    # CSV is not refused for a duration: what is written is found to be unreadable.
    kinds = [
        kind for kind, _ in VALUES if not form.refusal(kind) and not (name == "csv" and pa.types.is_duration(kind))
    ]
    table = table_of_everything(kinds)
    data = form.to_bytes(table, [])
    assert data == form.to_bytes(table, [])
    assert form.read_back(data, table.schema).equals(table)
    (tmp_path / "part").write_bytes(data)
    schema, batches = form.batches(tmp_path / "part", {field.name: str(field.type) for field in table.schema})
    assert schema.equals(table.schema)
    assert pa.Table.from_batches([b for t in batches for b in t.to_batches()], schema).equals(table)


@pytest.mark.parametrize("name", RELEASED_FORMATS)
def test_what_is_no_file_is_not_read_back(name: str) -> None:
    form = released_format(Output(url="out", format=name))
    schema = pa.schema([("x", pa.int8()), ("note", pa.string())])
    with pytest.raises(StorageError, match="that was written for release cannot be read back"):
        form.read_back(b'x,note\n1,a\n2\nno "file', schema)


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("csv", pa.binary(6), "column 'x' holds bytes, which CSV cannot carry; use parquet"),
        (
            "parquet",
            pa.date64(),
            "column 'x' holds date64[ms], which Parquet keeps as date32[day]; use arrow, or cast it",
        ),
    ],
)
def test_types_that_a_format_cannot_carry_are_refused(name: str, kind: pa.DataType, says: str) -> None:
    schema = pa.schema([("y", pa.int8()), ("x", kind)])
    with pytest.raises(SpecError) as caught:
        released_format(Output(url="out", format=name)).refuse_types(schema)
    assert caught.value.message == f"output.format: {says}"
    ArrowRelease().refuse_types(schema)


def masked(array: pa.Array) -> pa.Array:
    """Every second value made null, and left where it is."""
    shown = pa.array(np.arange(len(array)) % 2 == 0)
    return pa.Array.from_buffers(array.type, len(array), [shown.buffers()[1], *array.buffers()[1:]])


def bits_under_nulls(array: pa.Array) -> Iterator[bytes]:
    """What the array's own buffers hold of each missing value."""
    bare = pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]])
    for shown, value in zip(array.is_valid().to_pylist(), bare, strict=True):
        if not shown:
            if pa.types.is_boolean(array.type):
                yield bytes([value.as_py()])
            else:
                yield from (
                    b.to_pybytes() for b in pa.array([value.as_py()], array.type).buffers()[-1:] if b is not None
                )


@each("kind, value", VALUES)
def test_an_arrow_file_holds_nothing_under_its_nulls(kind: pa.DataType, value: object) -> None:
    hidden = masked(pa.array([value] * 10, kind))
    assert any(any(bits) for bits in bits_under_nulls(hidden))
    form = ArrowRelease()
    read = form.from_bytes(form.to_bytes(pa.table({"x": hidden}), []), pa.schema([]))
    assert read["x"].combine_chunks().equals(hidden)
    assert not any(any(bits) for bits in bits_under_nulls(read["x"].chunk(0)))
