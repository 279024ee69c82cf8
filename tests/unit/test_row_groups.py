"""Row groups that are fetched ahead: the rows that Arrow reads itself, by fewer requests, in bounded memory."""

from __future__ import annotations

import io
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from microagg_core.data.formats.inputs import parquet as row_groups
from microagg_core.data.formats.inputs.parquet import FileAhead, blocks_of
from microagg_core.data.formats.reading import Stretch, input_format
from microagg_core.data.places import Input

ROWS = 60_000
TABLE = pa.table(
    {f"n{j}": np.random.default_rng(j).integers(0, 10 ** (j + 2), ROWS) for j in range(5)}
    | {"text": [f"x{i % 97}" for i in range(ROWS)]}
)
WANTED = [tuple(TABLE.column_names), ("n1", "text"), ("n4",)]


class Asked(io.BytesIO):
    """A file that counts what it is asked for, and has it asked by one at a time."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.requests: list[int] = []
        self._busy = threading.Lock()

    def read(self, size: int | None = -1) -> bytes:
        assert self._busy.acquire(blocking=False)
        data = super().read(size)
        self.requests.append(len(data))
        self._busy.release()
        return data


def parquet(group_rows: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, row_group_size=group_rows)
    return sink.getvalue()


def rows_of(file: io.IOBase, columns: tuple[str, ...]) -> pa.Table:
    content = pq.ParquetFile(file, pre_buffer=False)
    return pa.Table.from_batches(content.iter_batches(batch_size=7_000, columns=list(columns), use_threads=False))


def ahead(file: Asked, columns: tuple[str, ...]) -> FileAhead:
    fetched = FileAhead(file)
    meta = pq.ParquetFile(fetched, pre_buffer=False).metadata
    fetched.expect([blocks_of(meta, group, columns) for group in range(meta.num_row_groups)])
    return fetched


@pytest.mark.parametrize("columns", WANTED)
@pytest.mark.parametrize("group_rows", [1_000, 20_000, ROWS])
def test_the_same_rows_by_fewer_requests(group_rows: int, columns: tuple[str, ...]) -> None:
    alone, file = Asked(parquet(group_rows)), Asked(parquet(group_rows))
    expected = rows_of(alone, columns)
    fetched = ahead(file, columns)
    assert rows_of(fetched, columns).equals(expected)
    assert len(file.requests) <= 2 + 2 * -(-ROWS // group_rows)
    assert len(file.requests) <= len(alone.requests)
    fetched.close()
    assert file.closed


def test_no_more_than_two_row_groups_are_held() -> None:
    file = Asked(parquet(20_000))
    fetched, most = ahead(file, WANTED[0]), 0
    for _ in pq.ParquetFile(fetched, pre_buffer=False).iter_batches(batch_size=500, use_threads=False):
        most = max(most, len(fetched._held))
    assert most <= 2
    assert len(file.requests) == 4, "the footer, and three row groups"


def test_a_row_group_that_is_too_large_is_left_to_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "MOST_BYTES", 10_000)
    alone, file = Asked(parquet(20_000)), Asked(parquet(20_000))
    assert rows_of(ahead(file, WANTED[0]), WANTED[0]).equals(rows_of(alone, WANTED[0]))
    assert max(file.requests[1:]) == max(alone.requests[1:])


def test_columns_that_lie_apart_are_fetched_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "_GAP_BYTES", 100)
    file = Asked(parquet(ROWS))
    assert rows_of(ahead(file, ("n0", "text")), ("n0", "text")).equals(TABLE.select(["n0", "text"]))
    meta = pq.ParquetFile(io.BytesIO(parquet(ROWS))).metadata
    assert len(blocks_of(meta, 0, ("n0", "text"))) == 2
    assert sum(file.requests) < len(parquet(ROWS)) / 2


def test_trouble_on_the_way_is_told_to_who_reads() -> None:
    class Broken(Asked):
        def read(self, size: int | None = -1) -> bytes:
            if len(self.requests) == 2:
                raise OSError("the network is gone")
            return super().read(size)

    file = Broken(parquet(20_000))
    with pytest.raises(OSError, match="the network is gone"):
        rows_of(ahead(file, WANTED[0]), WANTED[0])


def test_a_batch_is_bounded_by_what_its_rows_come_to() -> None:
    """A dictionary has a long text once; 100 rows of it are 1 kB in the file and 100 MB when they are decoded."""
    table = pa.table({"note": pa.array(["a" * 10**6] * 100), "x": range(100)})
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    assert len(sink.getvalue()) < 10_000
    source = Input(url="people.parquet")
    stretch = Stretch("people.parquet", len(sink.getvalue()))
    batches = list(input_format(source).rows_of(sink, stretch, source, ("note", "x")))
    assert max(batch.nbytes for batch in batches) <= 64 * 2**20
    assert pa.Table.from_batches(batches).equals(table)
