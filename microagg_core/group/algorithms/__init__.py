"""The registry: every algorithm by its name, with all that a spec, a plan or a person needs to know of it.

A new algorithm is one file in this folder, whose ``INFO`` describes it, and one line in ``_FILES`` below. The
spec's checks, the planner, the command line and the property and reference tests all run over this registry.
Nothing here loads numba or numpy: reading a spec must be quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

from microagg_core.group.algorithms.info import AlgorithmInfo, Parameter

__all__ = ["AlgorithmInfo", "Parameter", "algorithms"]

#: One line an algorithm, in the order in which they are shown.
_FILES = (
    "mdav",
    "mdav_generic",
    "mdav_single",
    "mdav_plus",
    "v_mdav",
    "mdav_star",
    "md",
    "univariate",
    "individual_ranking",
    "exhaustive",
    "mst",
    "mu_approx",
    "two_mu_approx",
    "search",
    "best",
)


@cache
def algorithms() -> Mapping[str, AlgorithmInfo]:
    """Every algorithm, by name, in the order in which they are shown; the mapping is read-only.

    >>> algorithms()["mdav"].sizes(5)
    (5, 9)
    """
    infos: list[AlgorithmInfo] = [import_module(f"{__name__}.{file}").INFO for file in _FILES]
    return MappingProxyType({info.name: info for info in infos})
