"""A Dask scheduler that is already there, with its workers.

Whoever reaches a scheduler can run code in its workers, so one beyond this machine is reached without TLS only where
the spec says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, Security

from microagg_core.errors import ClusterError
from microagg_core.spec.clusters import RunningCluster
from microagg_flows.clusters.pool import Pool
from microagg_flows.clusters.scheduler import dask_settings
from microagg_flows.progress import Progress

_CONNECT_SECONDS = 30


@contextmanager
def hired(cluster: RunningCluster, _progress: Progress) -> Iterator[Pool]:
    """Have the workers of a running scheduler, while the block lasts.

    Raises:
        ClusterError: no scheduler answers.
    """
    with dask_settings(), _connected(cluster) as client:
        yield Pool(client, no_workers=cluster.wait)


@contextmanager
def _connected(cluster: RunningCluster) -> Iterator[Client]:
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
    """Load the certificates that the spec names; those of Dask's own configuration where it names none.

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
    """Read the certificates with which a client connects."""
    arguments: dict[str, Any] = security.get_connection_args("client")
    return arguments
