"""What files carry besides the released values: metadata, statistics of others, values under nulls, bytes between."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from microagg_core.store.objects import Store
from releasing.forging import Forged, failed, look
from releasing.parts import publish_tables, safe_tables, table_of


@pytest.fixture
def on_disk(tmp_path: Path, work: Store) -> Forged:
    output = Store(str(tmp_path / "output"))
    return Forged(output, publish_tables(output, work, safe_tables()))


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"write_statistics": ["town"], **options})
    return sink.getvalue()


def with_metadata_of_a_field(table: pa.Table) -> pa.Table:
    return table.cast(pa.schema([field.with_metadata({"label": "canary"}) for field in table.schema]))


def with_forged_footer(table: pa.Table) -> bytes:
    """Statistics that are those of other values, such as the ones before masking."""
    data = parquet(table, compression="none", use_dictionary=False)
    length = int.from_bytes(data[-8:-4], "little") + 8
    page, footer = data[:-length], data[-length:]
    assert footer.count(b"\x01a") >= 2
    return page + footer.replace(b"\x01a", b"\x01A")


def with_bytes_before_footer(table: pa.Table) -> bytes:
    data = parquet(table)
    length = int.from_bytes(data[-8:-4], "little") + 8
    return data[:-length] + b"canary" + data[-length:]


STATISTICS = "statistics of a column that is not for blocking"
FOOTERS: dict[str, tuple[Callable[[pa.Table], bytes], str]] = {
    "pandas": (lambda t: parquet(pa.Table.from_pandas(t.to_pandas(), schema=t.schema)), "metadata"),
    "a note": (lambda t: parquet(t.replace_schema_metadata({"source": "canary.csv"})), "metadata"),
    "a label": (lambda t: parquet(with_metadata_of_a_field(t)), "metadata in its schema"),
    "least and greatest": (lambda t: parquet(t, write_statistics=True), STATISTICS),
    "others' statistics": (with_forged_footer, "statistics that are not those of its values"),
    "an index of pages": (lambda t: parquet(t, write_page_index=True), "bytes that belong to no column"),
    "bytes between": (with_bytes_before_footer, "bytes that belong to no column"),
    "a writer": (
        lambda t: parquet(t).replace(b"parquet-cpp-arrow", b"canary-cpp-canary"),
        "the name of another writer",
    ),
}


@pytest.mark.parametrize("footer", FOOTERS)
def test_a_footer_that_carries_more(footer: str, on_disk: Forged) -> None:
    make, what = FOOTERS[footer]
    table = table_of([30.5] * 4, ["a"] * 4, ["x", "y", "z", "w"])
    on_disk.add(make(table), 4)
    report = look(on_disk)
    assert list(failed(report)) == ["nothing besides"] and report.exit_code == 4
    assert failed(report)["nothing besides"].startswith(f"1 of 3 parts carry {what}: data/part-00002-")
    assert "canary" not in str(report)


def arrow(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def arrow_with_metadata_of_the_file(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, metadata={"source": "canary.csv"}) as writer:
        writer.write_table(table)
    return sink.getvalue()


def arrow_with_metadata_of_a_batch(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_batch(table.to_batches()[0], custom_metadata={"source": "canary.csv"})
    return sink.getvalue()


def arrow_with_values_under_nulls(table: pa.Table) -> bytes:
    masked = pa.array(np.array([30.5, 30.5, 30.5, 77.25]), mask=np.array([True] * 4))
    return arrow(table.set_column(0, "age", masked))


ARROW_FILES: dict[str, tuple[Callable[[pa.Table], bytes], str]] = {
    "schema": (lambda t: arrow(t.replace_schema_metadata({"source": "canary.csv"})), "metadata"),
    "field": (lambda t: arrow(with_metadata_of_a_field(t)), "metadata"),
    "file": (arrow_with_metadata_of_the_file, "metadata"),
    "batch": (arrow_with_metadata_of_a_batch, "metadata of a batch"),
    "nulls": (arrow_with_values_under_nulls, "values under its nulls"),
}


@pytest.mark.parametrize("carried", ARROW_FILES)
def test_an_arrow_file_that_carries_more(carried: str, tmp_path: Path, work: Store) -> None:
    output = Store(str(tmp_path / "output"))
    release = Forged(output, publish_tables(output, work, safe_tables(), form="arrow"))
    make, what = ARROW_FILES[carried]
    release.add(make(table_of([30.5] * 4, ["a"] * 4, ["x", "y", "z", "w"])), 4)
    report = look(release)
    assert list(failed(report)) == ["nothing besides"] and "canary" not in str(report)
    assert failed(report)["nothing besides"].startswith(f"1 of 3 parts carry {what}: data/part-00002-")
