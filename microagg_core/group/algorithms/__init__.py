"""The registry of algorithms: a new one is a file in this folder with an ``AlgorithmInfo``, and no line elsewhere.

The spec's checks, the planner, the command line and the property and reference tests all run over this registry.
Nothing here loads numba or numpy: reading a spec must be quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from microagg_core.group.algorithms.info import AlgorithmInfo, Parameter
from microagg_core.registry import members

__all__ = ["AlgorithmInfo", "Parameter", "algorithms"]

#: Shown first, in this order; all others follow by name.
ORDER = (
    "mdav", "mdav_generic", "mdav_single", "mdav_plus", "v_mdav", "mdav_star", "md", "univariate", "individual_ranking",
    "exhaustive", "mst", "mu_approx", "slabs", "two_mu_approx", "search", "best",
)  # fmt: skip


@cache
def algorithms() -> Mapping[str, AlgorithmInfo]:
    """Map names to algorithms, in the order in which they are shown; read-only.

    >>> algorithms()["mdav"].sizes(5)
    (5, 9)
    """
    return MappingProxyType({info.name: info for info in members(__name__, AlgorithmInfo)})
