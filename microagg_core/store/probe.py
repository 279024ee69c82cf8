"""What a store grants and how fast it is, found out with objects that are removed afterwards."""

from __future__ import annotations

import os
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from microagg_core.errors import MicroaggError
from microagg_core.store.connections import is_bucket, open_bucket
from microagg_core.store.layout import PROBES
from microagg_core.store.objects import Store
from microagg_core.store.urls import is_local


@dataclass(frozen=True)
class StoreProbe:
    #: Whether an object that is there is left as it is by who would create it.
    creates_once: bool
    #: What it took to write a megabyte there, and to read it again.
    seconds_out: float
    seconds_back: float
    #: Seconds by which its clock is ahead of this machine's; None where it does not tell.
    ahead: float | None


def probe_store(store: Store) -> StoreProbe:
    folder = f"{PROBES}/{uuid.uuid4().hex}"
    try:
        out, back = seconds_for_a_megabyte(store, folder)
        before = time.time()
        store.put(f"{folder}/clock", b"now\n")
        changed, after = store.last_change(folder), time.time()
        created = store.create(f"{folder}/once", b"first\n"), store.create(f"{folder}/once", b"second\n")
        is_once = created == (True, False) and store.read(f"{folder}/once") == b"first\n"
    finally:
        with suppress(MicroaggError):  # where it cannot be written, there is nothing to remove
            store.delete_all(folder)
    return StoreProbe(is_once, out, back, _ahead(changed, before, after))


def seconds_for_a_megabyte(store: Store, folder: str) -> tuple[float, float]:
    name = f"{folder}/{uuid.uuid4().hex}"
    data = os.urandom(10**6)
    begun = time.perf_counter()
    store.put(name, data)
    written = time.perf_counter()
    store.read(name)
    read = time.perf_counter()
    store.delete(name)
    return written - begun, read - written


def _ahead(changed: float | None, before: float, after: float) -> float | None:
    """Bound how far a clock is ahead, given what it said (perhaps in whole seconds) between two moments.

    >>> _ahead(100.0, 100.2, 100.4), _ahead(90.0, 100.2, 100.4), _ahead(None, 1.0, 2.0)
    (0.0, -9.2, None)
    """
    if changed is None:
        return None
    return round(min(0.0, changed + 1.0 - before) + max(0.0, changed - after), 1)


def keeps_versions(store: Store) -> bool | None:
    """Ask whether a bucket keeps removed or replaced objects as older versions; None where it does not say."""
    if is_local(store.url):
        return False
    bucket = open_bucket(store.url, dict(store.storage_options))[0] if is_bucket(store.url) else None
    if bucket is None or bucket.client is None:
        return None
    try:
        answer: dict[str, Any] = bucket.client.get_bucket_versioning(**bucket.arguments)
    except Exception:  # whoever may not ask that may still read and write
        return None
    return answer.get("Status") == "Enabled"
