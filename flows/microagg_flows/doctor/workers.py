"""The workers: whether each could be given work, its kernels, memory, disk, clock and its way to the work area."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from microagg_core.blocks.memory import WORKER_BASE_BYTES, bytes_per_task
from microagg_core.errors import ClusterError, MicroaggError
from microagg_core.release.context import work_store
from microagg_core.release.surroundings import Surroundings
from microagg_flows.clusters import WorkerRecord, cluster_for, hired_workers
from microagg_flows.clusters.scheduler import pause_share
from microagg_flows.doctor import Finding, Patient, clock_finding, looked, strange, well, wrong
from microagg_flows.doctor.storage import LEAST_FREE, SLOW_SECONDS
from microagg_flows.record import newest_documents

_MIB = 2**20
#: Outcomes among which one with a plan is looked for.
_MOST_LOOKED_AT = 20


def look(patient: Patient) -> Iterator[Finding]:
    yield from looked("workers", lambda: _workers(patient))


def _workers(patient: Patient) -> Iterator[Finding]:
    cluster = cluster_for(patient.spec)
    with hired_workers(cluster, patient.progress) as workers:
        patient.records = workers.records(patient.spec)
        fit = [record.address for record in patient.records if record.unfit is None]
        asked = time.time()
        patient.around = workers.surroundings(patient.spec, fit)
        took = time.time() - asked
    unfit = [wrong("workers", record.unfit) for record in patient.records if record.unfit is not None]
    if unfit:
        yield from unfit
    else:
        yield _alike(patient.records)
    yield from looked("memory", lambda: _memory(patient))
    yield from _around(patient, asked, took)


def _alike(records: list[WorkerRecord]) -> Finding:
    if len(records) == 1 and not records[0].address:
        return well("workers", "this process does the work, and has input, work area and output in reach")
    threads = sum(record.threads for record in records)
    return well(
        "workers",
        f"{len(records)} with {threads} threads, of this Python, Dask and sources, with input, work area and output in "
        "reach",
    )


def _memory(patient: Patient) -> Iterator[Finding]:
    """Compare what each thread has for its rows with what the newest release's plan needed."""
    limits = [(record.memory_limit, record.threads) for record in patient.records if record.memory_limit]
    least = min((bytes_per_task(limit, pause_share(), threads) for limit, threads in limits), default=None)
    if least is None:
        yield well("memory", "nobody sets a limit")
        return
    has = f"each thread has {least // _MIB} MiB for its rows"
    needed = _most_needed(patient)
    if needed is None:
        yield well("memory", f"{has}; microagg plan says what this input needs")
        return
    what, n_bytes = needed
    if least < n_bytes:
        raise ClusterError(
            f"{has}, and {what} needed {n_bytes // _MIB} MiB; give workers more memory or fewer threads, or lower "
            "blocks.max_records"
        )
    close = strange if least < 1.2 * n_bytes else well
    yield close("memory", f"{has}, and {what} needed {n_bytes // _MIB} MiB")


def _most_needed(patient: Patient) -> tuple[str, int] | None:
    """Find which of the last runs needed most for one task, and how many bytes; None where no plan was made.

    An outcome has what a plan would need of a whole worker; the worker's own share is taken off.
    """
    needs = []
    with suppress(MicroaggError):
        for _, document in newest_documents(work_store(patient.spec), _MOST_LOOKED_AT):
            with suppress(ValueError, KeyError, TypeError):  # damaged, or of another version
                estimate = document["memory_bytes"]["estimate"]
                if document["series"] == patient.spec.name and estimate:
                    needs.append((int(estimate) - WORKER_BASE_BYTES, f"{document['command']} {document['id']}"))
    return max(needs)[::-1] if needs else None


def _around(patient: Patient, asked: float, took: float) -> Iterator[Finding]:
    around = {record.number: patient.around.get(record.address) for record in patient.records}
    facts = {number: surroundings for number, surroundings in around.items() if surroundings is not None}
    if not facts:
        return
    yield _kernels(patient.records, facts)
    yield _disks(facts)
    yield from _ways(facts)
    if any(record.address for record in patient.records):
        yield from _clocks(facts, asked, took)


def _kernels(records: list[WorkerRecord], facts: dict[int, Surroundings]) -> Finding:
    cold = [number for number, worker in facts.items() if not worker.is_warm]
    if not cold:
        return well("kernels", "compiled for all who need them")
    who = _listed(cold) if any(record.address for record in records) else "this process"
    return strange("kernels", f"not compiled for {who}, which takes a run a minute or two; microagg warm does it there")


def _disks(facts: dict[int, Surroundings]) -> Finding:
    least = min(worker.free_bytes for worker in facts.values())
    full = [number for number, worker in facts.items() if worker.free_bytes < LEAST_FREE]
    says = f"temporary files have {least / 2**30:,.1f} GiB or more"
    return strange("disk", f"{_listed(full)}: {says}; make room there") if full else well("disk", says)


def _ways(facts: dict[int, Surroundings]) -> Iterator[Finding]:
    out = [worker.seconds_out for worker in facts.values() if worker.seconds_out is not None]
    back = [worker.seconds_back for worker in facts.values() if worker.seconds_back is not None]
    if out and back:
        says = f"a megabyte takes workers at most {1000 * max(out):.0f} ms there and {1000 * max(back):.0f} ms back"
        slow = max(*out, *back) > SLOW_SECONDS
        yield strange("speed", f"{says}; look at their network") if slow else well("speed", says)


def _clocks(facts: dict[int, Surroundings], asked: float, took: float) -> Iterator[Finding]:
    ahead = {number: max(0.0, w.clock - asked - took) + min(0.0, w.clock - asked) for number, w in facts.items()}
    number = max(ahead, key=lambda n: abs(ahead[n]))
    yield clock_finding(f"the clock of worker {number}", ahead[number])


def _listed(numbers: Iterable[int]) -> str:
    return "workers " + ", ".join(map(str, numbers))
