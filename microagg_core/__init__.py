"""Microaggregation: k-anonymous microdata by replacing small groups of similar records with their means.

The names below are the library's public face; importing them costs nothing until they are called. Importing
this package loads neither a cluster, nor an orchestrator, nor a compiler.

>>> import microagg_core
>>> list(microagg_core.algorithms())[0]
'mdav'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# The function takes the place of the subpackage of the same name as an attribute of this package:
# ``microagg_core.algorithms()`` and ``from microagg_core.group.algorithms import ...`` both work.
from microagg_core.group.algorithms import algorithms

if TYPE_CHECKING:
    from microagg_core.api import Headway, Microaggregated, lower_bound, microaggregate, partition
    from microagg_core.api.transforming import MicroaggregationTransformer as MicroaggregationTransformer

    __version__: str

__all__ = ["Headway", "Microaggregated", "algorithms", "lower_bound", "microaggregate", "partition"]
#: Needs the extra ``sklearn``, so that a star does not import it.
_TRANSFORMER = "MicroaggregationTransformer"


def __getattr__(name: str) -> Any:
    """Load numpy, and what stands on it, only when a name that needs it is asked for."""
    if name == "__version__":
        from importlib.metadata import version

        return version("microagg")
    if name == _TRANSFORMER:
        from microagg_core.extras import needing

        with needing("sklearn", name):
            from microagg_core.api.transforming import MicroaggregationTransformer
        return MicroaggregationTransformer
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from microagg_core import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, _TRANSFORMER, "__version__"})
