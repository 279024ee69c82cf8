"""CPU seconds of rows between tasks: of a stream written and read, and of a request to an S3 server.

    python tests/benchmark/streams.py --rows 220000 --destinations 100
    python tests/benchmark/streams.py --requests 2000

Streams are written as scatter writes them, a pack at a time, and read as whoever gathers them. What a stream costs and
what its rows cost are told apart by packs of as many rows that go to fewer destinations. Requests go to a server of
their own, SeaweedFS on this machine: ranges of 50 kB, and objects of 2 kB and of 1 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa

from microagg_core.data.tables.slices import join_slices, read_together, write_slices
from microagg_core.store.objects import Store

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from servers.s3_server import ACCESS_KEY, REGION, SECRET_KEY, running_weed

#: A scattered task's rows come in this many packs.
_PACKS = 2
#: Of as many rows, this many times fewer streams are written and read to see what rows cost.
_FEWER = 10
#: Parts whose slices one task gathers, written alike.
_PARTS = 20
_RANGE, _SMALL, _LARGE = 50_000, 2_000, 1_000_000
#: What a task asks for at once.
_AT_ONCE = 100


def rows_of(n: int) -> pa.Table:
    """Rows as scatter sends them: the benchmark release's columns, seven of them numbers."""
    rng = np.random.default_rng(1)
    texts = pa.DictionaryArray.from_arrays(rng.integers(0, 90, n), pa.array([f"{i:02}" for i in range(90)]))
    return pa.table(
        {
            "record": np.arange(n) + 10**7,
            "block": rng.integers(0, 40_000, n).astype(np.uint16),
            "q0": pa.array(rng.integers(-15_000, 18_000, n).astype(np.int32)).view(pa.date32()),
            "q1": np.round(np.exp(rng.normal(10, 0.6, n))),
            "q2": rng.gamma(4, 20, n).astype(np.int32),
            "q3": rng.exponential(8, n).astype(np.float32),
            "c0": texts.cast(pa.string()),
            "c1": (rng.gamma(3, 900, n) // 50 * 50).astype(np.int64),
            "c2": rng.random(n) < 0.2,
            "c3": rng.integers(0, 60, n).astype(np.int8),
        }
    )


def of_streams(rows: int, destinations: int) -> dict[str, float]:
    """Microseconds of CPU for each stream, its rows apart, and for each row, written and read; and bytes a row."""
    many, few = (_written_and_read(rows, n) for n in (destinations, max(1, destinations // _FEWER)))
    measured = {"bytes_a_row": many["bytes"] / rows}
    for way in ("write", "read"):
        a_stream = (many[way] - few[way]) / (many["streams"] - few["streams"])
        measured |= {f"{way}_us_a_stream": a_stream * 1e6}
        measured |= {f"{way}_us_a_row": (few[way] - a_stream * few["streams"]) / rows * 1e6}
        measured |= {f"{way}_us_a_stream_with_rows": many[way] / many["streams"] * 1e6}
    return measured


def _written_and_read(rows: int, destinations: int) -> dict[str, float]:
    table = rows_of(rows)
    destination = np.random.default_rng(2).integers(0, destinations, rows)
    cuts = np.linspace(0, rows, _PACKS + 1).astype(int).tolist()

    def write() -> list[bytes]:
        packs = [write_slices(table.slice(a, b - a), destination[a:b], 0) for a, b in pairwise(cuts)]
        data, slices = join_slices(packs)
        return [data[one.start : one.end] for one in slices]

    written = write()

    def read() -> None:
        for data in written:
            read_together([data] * _PARTS)

    return {
        "streams": float(_PACKS * len(written)),
        "bytes": float(sum(map(len, written))),
        "write": _cpu_of(write),
        "read": _cpu_of(read) / _PARTS,
    }


def _cpu_of(call: Callable[[], object], times: int = 3) -> float:
    took = []
    for _ in range(times):
        start = time.process_time()
        call()
        took.append(time.process_time() - start)
    return min(took)


def of_requests(n: int) -> dict[str, float]:
    """Milliseconds of this process' CPU for each request."""
    credentials = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_DEFAULT_REGION": REGION}
    with (
        mock.patch.dict(os.environ, credentials),
        tempfile.TemporaryDirectory() as folder,
        running_weed(Path(folder)) as server,
    ):
        place = server.new_bucket()
        store = Store(f"{place.url}/work", place.storage_options)
        large = os.urandom(_LARGE)
        store.put("object", large * 16)
        starts = (np.arange(n) * 7919 % (15 * _LARGE)).tolist()

        def read() -> None:
            for first in range(0, n, _AT_ONCE):
                store.read_ranges([("object", a, a + _RANGE) for a in starts[first : first + _AT_ONCE]])

        def put(data: bytes) -> None:
            for number in range(n // 4):
                store.put(f"object-{number}", data)

        return {
            "ms_a_range": _cpu_of(read) / n * 1e3,
            "ms_a_small_put": _cpu_of(lambda: put(large[:_SMALL])) / (n // 4) * 1e3,
            "ms_a_large_put": _cpu_of(lambda: put(large)) / (n // 4) * 1e3,
        }


def main() -> None:
    """Measure what is asked for, and print it as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=0, help="that are written and read")
    parser.add_argument("--destinations", type=int, default=100, help="that they go to")
    parser.add_argument("--requests", type=int, default=0, help="of a range; a quarter as many objects are written")
    arguments = parser.parse_args()
    measured: dict[str, float] = {}
    if arguments.rows:
        measured |= of_streams(arguments.rows, arguments.destinations)
    if arguments.requests:
        measured |= of_requests(arguments.requests)
    print(json.dumps({name: round(value, 3) for name, value in measured.items()}, indent=1))


if __name__ == "__main__":
    main()
