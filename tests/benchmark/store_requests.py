"""What a request to a bucket costs: CPU microseconds of this process, through obstore and through s3fs.

    python tests/benchmark/store_requests.py

Starts SeaweedFS, and prints a table: microseconds of CPU and of waiting a request, seconds of CPU for large objects.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from microagg_core.store.buckets import BucketStore
from microagg_core.store.remote import RemoteStore
from servers.s3_server import ACCESS_KEY, REGION, SECRET_KEY, running_weed

REQUESTS, LARGE = 500, 2**28
NAMES = [f"small/{i:05d}" for i in range(REQUESTS)]


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(work: Callable[[], object], n: int = REQUESTS) -> str:
    begun, spent = time.perf_counter(), cpu()
    work()
    spent, passed = cpu() - spent, time.perf_counter() - begun
    return f"{spent / n * 1e6:9.0f} {passed / n * 1e6:9.0f}"


def rows(store: RemoteStore, large: Path) -> dict[str, str]:
    small = os.urandom(4000)
    store.create("warm", b"")
    found = {"put 4 kB": measured(lambda: [store.put(name, small) for name in NAMES])}
    found["get whole"] = measured(lambda: [store.read(name) for name in NAMES])
    found["get a range"] = measured(lambda: [store.read(name, 1000, 3000) for name in NAMES])
    ranges = [(name, 1000, 3000) for name in NAMES]
    store.read_ranges(ranges)
    found["ranges at once"] = measured(lambda: store.read_ranges(ranges))
    found["look for"] = measured(lambda: [store.size(name) for name in NAMES])
    found["create"] = measured(lambda: [store.create(f"{name}-new", small) for name in NAMES])
    found["list, an object"] = measured(lambda: store.names("small"), 2 * REQUESTS)
    found["delete, an object"] = measured(lambda: store.delete_all("small"), 2 * REQUESTS)
    found["put 256 MiB, a MiB"] = measured(lambda: store.put_file("large", large), LARGE >> 20)
    found["get 256 MiB, a MiB"] = measured(lambda: store.read("large"), LARGE >> 20)
    return found


def main() -> None:
    os.environ |= {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_DEFAULT_REGION": REGION}
    with tempfile.TemporaryDirectory() as folder, running_weed(Path(folder)) as server:
        (large := Path(folder) / "large").write_bytes(os.urandom(1 << 20) * (LARGE >> 20))
        tables = []
        for kind in (BucketStore, RemoteStore):
            place = server.new_bucket()
            tables.append(rows(kind(f"{place.url}/work", place.storage_options), large))
    print(f"{'us of CPU, us of time':22} {'obstore':>19} {'s3fs':>19}")
    for name in tables[0]:
        print(f"{name:22} {tables[0][name]} {tables[1][name]}")


if __name__ == "__main__":
    main()
