"""Workers: a Dask cluster of this machine or a running scheduler, and mapping a function over small items.

Items and results are names and numbers (tasks and receipts); rows never pass through here. A bounded number of
futures is out at a time and each is released as soon as its receipt is in: a worker that dies then makes nobody
repeat what is finished.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import dask
from distributed import Client, LocalCluster, as_completed
from distributed.scheduler import KilledWorker

from flows.interrupts import sparing_children
from flows.progress import Progress, shown
from microagg_core.errors import ClusterError, MicroaggError, TransientClusterError, sanitized
from microagg_core.spec import Cluster, RunningCluster
from microagg_core.spec import LocalCluster as LocalSpec

Item = TypeVar("Item")
Result = TypeVar("Result")

_CONNECT_SECONDS = 30
#: Futures out at a time, for each worker thread: enough to keep it busy, few enough to lose.
_AHEAD = 3
#: Loggers of callbacks that fail when a connection ends under them, as it does when a run is interrupted or a cluster
#: goes away. What matters of it is raised where the work is waited for, and said in a sentence.
_CALLBACKS = ("tornado.application", "asyncio")
#: What a worker needs beside the rows it works on: Python with its libraries, and compiled kernels.
WORKER_BASE_BYTES = 360 * 2**20


class Workers:
    """A connected cluster."""

    def __init__(self, client: Client, progress: Progress) -> None:
        self._client = client
        self.progress = progress

    def threads(self) -> int:
        """Worker threads at this moment."""
        return max(1, sum(int(w["nthreads"]) for w in self._workers().values()))

    def memory_per_task(self) -> int | None:
        """The least memory that a task can count on, in bytes; None where workers have no limit."""
        limits = [int(w["memory_limit"]) // int(w["nthreads"]) for w in self._workers().values() if w["memory_limit"]]
        return min(limits) if limits else None

    def _workers(self) -> dict[str, Any]:
        workers: dict[str, Any] | None = self._client.scheduler_info(n_workers=-1).get("workers")
        if workers is None:
            raise TransientClusterError(
                "the Dask scheduler does not answer any more; finished work is kept, so start the release again"
            )
        return workers

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        """Apply a function to every item on the workers; results in the items' order.

        Raises:
            MicroaggError: the first that a task raised; a ``ClusterError`` where a task kills its workers.
        """
        results: dict[int, Result] = {}
        with shown(self.progress, what, len(items)) as progress:
            for number, result in self._completed(function, items, what):
                results[number] = result
                progress.advance()
        return [results[i] for i in range(len(items))]

    def _completed(
        self, function: Callable[[Item], Result], items: Sequence[Item], what: str
    ) -> Iterator[tuple[int, Result]]:
        run = uuid.uuid4().hex[:8]
        waiting = iter(enumerate(items))
        number_of: dict[str, int] = {}
        pool: Any = as_completed([], loop=self._client.loop)  # type: ignore[no-untyped-call]

        def submit() -> bool:
            number, item = next(waiting, (-1, None))
            if number < 0:
                return False
            key = f"{what}-{number}-{run}"
            number_of[key] = number
            pool.add(self._client.submit(function, item, key=key, pure=False, retries=0))
            return True

        for _ in range(_AHEAD * self.threads()):
            submit()
        try:
            for future in pool:
                number = number_of.pop(future.key)
                result = self._result(future, what, number)
                future.release()
                submit()
                yield number, result
        finally:
            for future in list(pool.futures):
                future.cancel()

    def _result(self, future: Any, what: str, number: int) -> Any:
        try:
            return future.result()
        except MicroaggError:
            raise
        except KilledWorker:
            raise ClusterError(
                f"{what}, task {number}: every worker that tried it died, most likely for memory; "
                "give each worker more memory or fewer threads, or lower blocks.max_records"
            ) from None
        except (asyncio.CancelledError, OSError, TimeoutError):
            raise TransientClusterError(
                f"the cluster went away during {what}; finished work is kept, so start the release again"
            ) from None
        except Exception as error:
            raise _cluster_trouble(error, what) from None


def _cluster_trouble(error: Exception, what: str) -> MicroaggError:
    """Errors of Dask itself, whose classes vary from version to version."""
    if type(error).__module__.split(".")[0] in ("distributed", "tornado", "concurrent"):
        return TransientClusterError(
            f"the cluster failed during {what} ({type(error).__name__}); finished work is kept, so start again"
        )
    return sanitized(error, what)


@contextmanager
def connect(spec: Cluster, progress: Progress) -> Iterator[Workers]:
    """A cluster as the spec asks for; one of our own is stopped at the end.

    Raises:
        ClusterError: no scheduler answers, or it has no workers.
    """
    for name in _CALLBACKS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # 30 s is dask's shortest patience that survives a busy machine; spilled bytes are receipts, hence tiny.
    with dask.config.set({"distributed.comm.timeouts.connect": "30s", "distributed.worker.daemon": True}):
        if isinstance(spec, RunningCluster):
            with _running(spec, progress) as workers:
                yield workers
        else:
            with _local(spec, progress) as workers:
                yield workers


@contextmanager
def _local(spec: LocalSpec, progress: Progress) -> Iterator[Workers]:
    folder = tempfile.mkdtemp(prefix="microagg-workers-")
    try:
        with ExitStack() as running:
            with sparing_children():
                cluster = running.enter_context(
                    LocalCluster(  # type: ignore[no-untyped-call]
                        n_workers=spec.workers,
                        threads_per_worker=spec.threads,
                        memory_limit=spec.memory_bytes,
                        processes=True,
                        dashboard_address="127.0.0.1:0",
                        local_directory=folder,
                        silence_logs=50,
                    )
                )
                client = running.enter_context(Client(cluster, set_as_default=False))  # type: ignore[no-untyped-call]
            yield Workers(client, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(spec: RunningCluster, progress: Progress) -> Iterator[Workers]:
    try:
        client = Client(spec.address, timeout=_CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError):
        raise ClusterError(
            f"no Dask scheduler answers at {spec.address}; start it, or correct cluster.address"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        except TimeoutError:
            raise ClusterError(f"the Dask scheduler at {spec.address} has no workers; start some") from None
        yield Workers(client, progress)
