"""The work area's store: whether it keeps what is promised of it, and how fast it is. Nothing is written elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from microagg_core.errors import StorageError
from microagg_core.release.context import work_store
from microagg_core.store.objects import Store
from microagg_core.store.probe import keeps_versions, probe_store
from microagg_core.store.urls import is_local, local_path
from microagg_flows.doctor import Finding, Patient, clock_finding, looked, strange, well, wrong

#: Below this much a machine's disk is soon full.
LEAST_FREE = 2**30
#: A megabyte that takes longer makes of each pass over the rows a wait.
SLOW_SECONDS = 2.0


def look(patient: Patient) -> Iterator[Finding]:
    yield from looked("work area", lambda: _store(patient, work_store(patient.spec)))


def _store(patient: Patient, work: Store) -> Iterator[Finding]:
    probe = probe_store(work)
    if probe.creates_once:
        alike = _service(work.url) == _service(patient.spec.output.url)
        others = "" if alike else "; the output is elsewhere, where nothing is written to find out"
        yield well("work area", f"{work} is written, and an object is created once{others}")
    else:
        problem = (
            f"{work} lets somebody create an object that is there already, so two runs could publish over each other; "
            "use a store that knows conditional writes (If-None-Match)"
        )
        yield wrong("work area", StorageError(problem))
    yield from _versions(work)
    out, back = probe.seconds_out, probe.seconds_back
    says = f"{work}: a megabyte takes {1000 * out:.0f} ms there and {1000 * back:.0f} ms back"
    is_fast = max(out, back) < SLOW_SECONDS
    yield well("speed", says) if is_fast else strange("speed", f"{says}; look at the network in between")
    if probe.ahead is not None:
        yield clock_finding("the store's clock", probe.ahead)
    if is_local(work.url):
        path = Path(local_path(work.url))
        present = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
        free = shutil.disk_usage(present).free
        says = f"{work}: {free / 2**30:,.1f} GiB are free"
        yield well("disk", says) if free >= LEAST_FREE else strange("disk", f"{says}; make room there")


def _versions(work: Store) -> Iterator[Finding]:
    kept = keeps_versions(work)
    if kept:
        yield strange(
            "versions",
            f"the bucket of {work} keeps versions, so rows that are removed stay as older ones; switch that off, or "
            "have a rule of the bucket remove older versions",
        )
    elif not is_local(work.url):
        yield well("versions", "none are kept" if kept is False else "the store does not say whether it keeps any")


def _service(url: str) -> str:
    """Name what two places have to share to be alike.

    >>> _service("/data/work") == _service("file:///data/output"), _service("s3://a/work")
    (True, 's3')
    """
    return "" if is_local(url) else url.partition("://")[0]
