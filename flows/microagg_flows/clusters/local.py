"""Workers of this machine, started for a release and stopped after it.

Whoever reaches a Dask scheduler can run code in its workers. So this one speaks TLS with certificates that exist only
in the memory of this process and its workers.
"""

from __future__ import annotations

import asyncio
import errno
import multiprocessing
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from distributed import Client, LocalCluster, Security

from microagg_core.errors import ClusterError, StorageError
from microagg_core.spec.clusters import LocalCluster as LocalSpec
from microagg_flows.clusters.pool import Pool
from microagg_flows.clusters.scheduler import adapted, dask_settings
from microagg_flows.interrupts import sparing_children
from microagg_flows.process import scratch
from microagg_flows.progress import Progress, awaited


@contextmanager
def hired(cluster: LocalSpec, progress: Progress) -> Iterator[Pool]:
    with dask_settings(), scratch() as folder, ExitStack() as running:
        with awaited(progress, f"{cluster.n_least} workers to start"):
            client = _start(cluster, str(folder / "workers"), running)
        yield Pool(client, no_workers=cluster.wait, own=True, restarts=True, wanted=cluster)


def _start(cluster: LocalSpec, folder: str, running: ExitStack) -> Client:
    try:
        _try_loopback()
        security = Security.temporary()  # type: ignore[no-untyped-call]
        with sparing_children():
            _try_shared_memory()
            workers = running.enter_context(
                LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=cluster.n_least,
                    threads_per_worker=cluster.threads,
                    memory_limit=cluster.memory_bytes,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    local_directory=folder,
                    env=dict(cluster.environment),
                    security=security,
                    silence_logs=50,
                )
            )
            if cluster.adapt:
                adapted(workers, cluster)
            client: Client = running.enter_context(
                Client(workers, security=security, set_as_default=False)  # type: ignore[no-untyped-call]
            )
            return client
    except (RuntimeError, OSError, TimeoutError, ValueError, asyncio.CancelledError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EROFS, errno.EDQUOT):
            raise StorageError(
                f"the temporary folder {tempfile.gettempdir()} cannot be written to; free some space, or set TMPDIR"
            ) from None
        raise ClusterError(
            "the workers of this machine do not start: it lacks processes, open files, memory, time or a loopback "
            "network; raise its limits (ulimit -u, ulimit -n), give cluster.local fewer workers, or write cluster: "
            "none, which needs none"
        ) from None


def _try_loopback() -> None:
    """Connect to this process over the loopback network; without one, Dask would try for a minute."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5.0).close()


def _try_shared_memory() -> None:
    """Make a lock between processes, as Dask does for every worker."""
    try:
        multiprocessing.get_context("spawn").Lock()
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.ENOENT, errno.ENOSPC):
            raise
        raise ClusterError(
            "the workers of this machine need shared memory, and /dev/shm cannot be written to; mount it so that it "
            "can be, or write cluster: none, which needs none"
        ) from None
