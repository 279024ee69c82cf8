"""What a spec says of a release's size: all but the rows."""

from __future__ import annotations

from typing import Any

from microagg_core.errors import SpecError
from microagg_core.spec.clusters import LocalCluster
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.urls import is_local


def described(spec: ReleaseSpec) -> dict[str, Any]:
    """Values of a description, by name.

    Raises:
        SpecError: the spec's refinement ends by the clock.
    """
    if not isinstance(spec.refine, str):
        raise SpecError("refine: seconds for each block cannot be described; add --set refine=off, fast or thorough")
    roles = spec.roles
    values: dict[str, Any] = {
        "columns": len(roles.quasi_identifiers) + len(roles.confidential),
        "quasi_identifiers": len(roles.quasi_identifiers),
        "blocking": len(roles.blocking),
        "identifiers": len(roles.identifiers),
        "k": spec.k,
        "algorithm": spec.algorithm.name,
        "refine": spec.refine,
        "max_records": spec.blocks.max_records or 0,
        "format": spec.output.format,
        "store": "disk" if is_local(spec.work.url) else "s3",
    }
    if not roles.blocking:
        values["keys"] = 1
    if isinstance(spec.cluster, LocalCluster):
        cluster = spec.cluster
        values |= {"workers": cluster.workers, "threads": cluster.threads, "memory": cluster.memory_bytes}
    return values
