"""Clusters: workers of this machine, started for a release and stopped after it, or a scheduler that runs already.

Whoever reaches a Dask scheduler can run code in its workers. So the local one speaks TLS with certificates that exist
only in the memory of this process and its workers, and one beyond this machine is reached without TLS only where the
spec says so.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import dask
from distributed import Client, LocalCluster, Security

from microagg_core.errors import ClusterError, StorageError
from microagg_core.spec.release import LocalCluster as LocalSpec
from microagg_core.spec.release import ReleaseSpec, RunningCluster
from microagg_flows.dask_executor import DaskExecutor
from microagg_flows.interrupts import sparing_children
from microagg_flows.progress import Progress, awaited
from microagg_flows.scratch import scratch

_CONNECT_SECONDS = 30
#: A local worker that dies is started again by its nanny within seconds.
_LOCAL_WAIT_SECONDS = 60.0
#: Loggers of callbacks that fail when a connection ends under them, as it does when a run is interrupted or a cluster
#: goes away. What matters of it is raised where the work is waited for, and said in a sentence.
_CALLBACKS = ("tornado.application", "asyncio", "distributed", "distributed.client")
_SETTINGS = {
    # 30 s is dask's shortest patience that survives a busy machine.
    "distributed.comm.timeouts.connect": "30s",
    # A worker that is not heard of for so long is given up, and its tasks go to others.
    "distributed.scheduler.worker-ttl": "45s",
    "distributed.worker.daemon": True,
}


@contextmanager
def connect(cluster: LocalSpec | RunningCluster, spec: ReleaseSpec, progress: Progress) -> Iterator[DaskExecutor]:
    """A cluster as the spec asks for; one of our own is stopped at the end.

    Raises:
        ClusterError: it cannot be started, no scheduler answers, or a worker is not fit for the work.
    """
    for name in _CALLBACKS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask.config.set(_SETTINGS):
        if isinstance(cluster, RunningCluster):
            with _running(cluster, spec, progress) as executor:
                yield executor
        else:
            with _local(cluster, spec, progress) as executor:
                yield executor


@contextmanager
def _local(cluster: LocalSpec, spec: ReleaseSpec, progress: Progress) -> Iterator[DaskExecutor]:
    with scratch() as folder, ExitStack() as running:
        with awaited(progress, f"{cluster.workers} workers to start"):
            client = _start(cluster, str(folder / "workers"), running)
        yield DaskExecutor(client, spec, progress, no_workers=_LOCAL_WAIT_SECONDS, own=True)


def _start(cluster: LocalSpec, folder: str, running: ExitStack) -> Client:
    """Start a scheduler in this process, and workers in processes of their own.

    Raises:
        ClusterError: this machine does not let it.
    """
    try:
        _try_loopback()
        security = Security.temporary()  # type: ignore[no-untyped-call]
        with sparing_children():
            workers = running.enter_context(
                LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=cluster.workers,
                    threads_per_worker=cluster.threads,
                    memory_limit=cluster.memory_bytes,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    local_directory=folder,
                    security=security,
                    silence_logs=50,
                )
            )
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
    """Connect to this process over the loopback network; without one, Dask would try for a minute.

    Raises:
        OSError: there is none.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5.0).close()


@contextmanager
def _running(cluster: RunningCluster, spec: ReleaseSpec, progress: Progress) -> Iterator[DaskExecutor]:
    with _connected(cluster) as client:
        yield DaskExecutor(client, spec, progress, no_workers=cluster.wait, own=False)


@contextmanager
def _connected(cluster: RunningCluster) -> Iterator[Client]:
    """A client of the scheduler at the spec's address.

    Raises:
        ClusterError: none answers there, or not with these certificates.
    """
    try:
        client = Client(  # type: ignore[no-untyped-call]
            cluster.address, timeout=_CONNECT_SECONDS, security=_security(cluster), set_as_default=False
        )
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError):
        tls = ", and that its certificates and those of cluster.tls are of one authority"
        raise ClusterError(
            f"no Dask scheduler answers at {cluster.address}; check that it runs there"
            f"{tls if cluster.address.startswith('tls') else ''}, or correct cluster.address"
        ) from None
    with client:
        yield client


def _security(cluster: RunningCluster) -> Any:
    """The certificates that the spec names; those of Dask's own configuration where it names none.

    Raises:
        ClusterError: the address asks for certificates and there are none, or they cannot be read.
    """
    if not cluster.address.startswith(("tls://", "wss://")):
        return None
    if cluster.tls is None:
        security = Security()  # type: ignore[no-untyped-call]
        if not _connection(security).get("ssl_context"):
            raise ClusterError(
                f"{cluster.address} asks for certificates and none are named; set cluster.tls (ca, cert, key), or "
                "name them in Dask's own configuration"
            )
        return security
    names = cluster.tls
    security = Security(  # type: ignore[no-untyped-call]
        tls_ca_file=names.ca, tls_client_cert=names.cert, tls_client_key=names.key, require_encryption=True
    )
    try:
        _connection(security)
    except OSError:
        raise ClusterError(
            "the certificates that cluster.tls names cannot be read; check their paths, their rights and that the key "
            "belongs to the certificate"
        ) from None
    return security


def _connection(security: Any) -> dict[str, Any]:
    """How a client connects; reads the certificates."""
    arguments: dict[str, Any] = security.get_connection_args("client")
    return arguments
