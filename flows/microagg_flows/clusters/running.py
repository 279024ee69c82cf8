"""A Dask scheduler that is already there, with its workers.

Whoever reaches a scheduler can run code in its workers, so one beyond this machine is reached without TLS only where
the spec says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Security

from microagg_core.errors import ClusterError
from microagg_core.spec.clusters import RunningCluster
from microagg_flows.clusters.pool import Pool
from microagg_flows.clusters.scheduler import connected, dask_settings
from microagg_flows.progress import Progress


@contextmanager
def hired(cluster: RunningCluster, _progress: Progress) -> Iterator[Pool]:
    tls = ", and that its certificates and those of cluster.tls are of one authority"
    silent = (
        f"no Dask scheduler answers at {cluster.address}; check that it runs there"
        f"{tls if cluster.address.startswith('tls') else ''}, or correct cluster.address"
    )
    with dask_settings(), connected(cluster.address, silent, _security(cluster)) as client:
        yield Pool(client, no_workers=cluster.wait)


def _security(cluster: RunningCluster) -> Any:
    """Load the certificates that the spec names; those of Dask's own configuration where it names none."""
    if not cluster.address.startswith(("tls://", "wss://")):
        return None
    names = cluster.tls
    files = {"tls_ca_file": names.ca, "tls_client_cert": names.cert, "tls_client_key": names.key} if names else {}
    security: Any = Security(**files, **({"require_encryption": True} if names else {}))  # type: ignore[no-untyped-call]
    try:
        has_certificates = security.get_connection_args("client").get("ssl_context")
    except OSError:
        source = "cluster.tls" if names else "Dask's own configuration"
        raise ClusterError(
            f"the certificates that {source} names cannot be read; check their paths, their rights and that the key "
            "belongs to the certificate"
        ) from None
    if not has_certificates:
        raise ClusterError(
            f"{cluster.address} asks for certificates and none are named; set cluster.tls (ca, cert, key), or "
            "name them in Dask's own configuration"
        )
    return security
