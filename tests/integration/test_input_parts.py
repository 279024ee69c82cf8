"""Parts of an input on a disk and in a bucket: how many there are, what is read of them, and files that changed."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from microagg_core.data.formats.reading import (
    InputListing,
    count_rows,
    first_rows,
    input_format,
    list_input,
    read_part,
)
from microagg_core.data.places import Input
from microagg_core.errors import DataError
from microagg_core.store.objects import Store
from servers.s3_server import Place

TYPES = {"types": {"n": "int64", "note": "text"}}


def table(n: int, first: int = 0) -> pa.Table:
    """Records of which some have two lines in CSV."""
    notes = [f'"{i}"\nand more' if i % 7 == 0 else "é" * (i % 11) for i in range(first, first + n)]
    numbers = pa.array(range(first, first + n), pa.int64())
    return pa.table({"n": numbers, "note": pa.array(notes, pa.string())})


def as_parquet(some: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(some, sink, **options)
    return sink.getvalue()


def as_csv(some: pa.Table) -> bytes:
    sink = io.BytesIO()
    pa.csv.write_csv(some, sink)
    return sink.getvalue()


def as_arrow(some: pa.Table, rows: int = 10**6) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, some.schema) as writer:
        writer.write_table(some, rows)
    return sink.getvalue()


def cut(source: Input) -> InputListing:
    listing = list_input(source)
    form = input_format(source)
    return form.cut(listing, source, [(one, form.scan(one, source)) for one in form.stretches_to_scan(listing, source)])


def rows_of_parts(listing: InputListing, source: Input) -> list[list[int]]:
    def rows(i: int) -> list[int]:
        return [n for some in read_part(listing.parts[i], source, ("n", "note")) for n in some["n"].to_pylist()]

    assert [part.number for part in listing.parts] == list(range(len(listing.parts)))
    return [rows(i) for i in range(len(listing.parts))]


@pytest.fixture(params=["disk", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    if request.param == "disk":
        return Place(str(tmp_path_factory.mktemp("input")), {})
    bucket: Place = request.getfixturevalue("s3_bucket")
    return bucket


@pytest.mark.parametrize(("ending", "write"), [("parquet", as_parquet), ("csv", as_csv), ("arrow", as_arrow)])
def test_small_files_are_read_together(
    ending: str, write: Callable[[pa.Table], bytes], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the files' order, one without a record among them, as many as the time to open them allows."""
    store = Store(place.url, place.storage_options)
    monkeypatch.setattr("microagg_core.data.formats.reading.MANY_PARTS", 1)
    for i in range(23):
        store.put(f"in/{i:02d}.{ending}", write(table(0 if i == 4 else 10, 10 * i)))
    source = Input(url=f"{place.url}/in/*.{ending}", storage_options=place.storage_options, csv=TYPES)
    listing = list_input(source)
    (records,) = rows_of_parts(listing, source)
    assert records == [n for n in range(230) if n // 10 != 4]
    assert listing.parts[0].files.endswith(f"00.{ending} to 22.{ending}")
    assert count_rows(source) >= 220
    monkeypatch.setattr("microagg_core.data.formats.reading.OPENING_BYTES", 15 * 2**20)
    several = list_input(source)
    assert len(several.parts) == (6 if ending == "csv" else 3)
    assert list(chain(*rows_of_parts(several, source))) == records
    assert several.state == listing.state
    first = first_rows(several.parts[1], source, ("n",))
    assert first is not None
    assert first["n"][0].as_py() == rows_of_parts(several, source)[1][0]


def test_a_damaged_file_among_many_is_named(place: Place) -> None:
    store = Store(place.url, place.storage_options)
    for i in range(9):
        store.put(f"in/{i}.parquet", b"no such thing" if i == 6 else as_parquet(table(9)))
    source = Input(url=f"{place.url}/in/*.parquet", storage_options=place.storage_options)
    with pytest.raises(DataError, match=r"in/6\.parquet is not a readable Parquet file"):
        list_input(source)


def test_a_large_csv_file_is_read_in_ranges(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microagg_core.data.formats.csv_bytes.RANGE_BYTES", 4000)
    monkeypatch.setattr("microagg_core.data.formats.csv_bytes._LOOK_BYTES", 100)
    store = Store(place.url, place.storage_options)
    store.put("a.csv", as_csv(table(3)))
    store.put("b.csv", as_csv(table(2000, 3)))
    store.put("c.csv", as_csv(table(5, 2003)))
    source = Input(url=f"{place.url}/*.csv", storage_options=place.storage_options, csv=TYPES)
    assert len(list_input(source).parts) == 3
    listing = cut(source)
    read = rows_of_parts(listing, source)
    assert len(read) > 8
    assert read[0] == [0, 1, 2]
    assert list(chain(*read)) == list(range(2008))
    assert cut(source) == listing
    store.put("b.csv", as_csv(table(2000, 4)))
    with pytest.raises(DataError, match=r"b\.csv changed while the release was made"):
        rows_of_parts(listing, source)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_large_file_is_read_by_its_groups_of_rows(ending: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """And where it was cut is not taken for a place in what it has become."""
    monkeypatch.setattr(f"microagg_core.data.formats.inputs.{ending}.PART_BYTES", 5000)
    monkeypatch.setattr("microagg_core.data.formats.reading.AT_ONCE_BYTES", 1000)
    store = Store(place.url, place.storage_options)

    def write(some: pa.Table) -> None:
        store.put(f"a.{ending}", as_arrow(some, 100) if ending == "arrow" else as_parquet(some, row_group_size=100))

    write(table(2000))
    source = Input(url=f"{place.url}/a.{ending}", storage_options=place.storage_options)
    listing = list_input(source)
    stretches = [stretch for part in listing.parts for stretch in part.stretches]
    assert len(stretches) > 4
    assert list(chain(*rows_of_parts(listing, source))) == list(range(2000))
    write(table(3000))
    with pytest.raises(DataError, match=rf"a\.{ending} changed while the release was made"):
        rows_of_parts(listing, source)
