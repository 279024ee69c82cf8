"""Best: whichever of the suitable algorithms loses least after refinement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from microagg_core.algorithms.contract import AlgorithmInfo
from microagg_core.refine.costs import EFFORTS, refinement_bytes, refinement_seconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def groups(X: NDArray[np.float64], k: int, *, seed: int) -> NDArray[np.int64]:
    """Group the records as the best of the suitable algorithms does, refined."""
    from microagg_core.refine.best import best

    return best(X, k, seed=seed).labels


def _cost_seconds(n: int, p: int, k: int) -> float:
    from microagg_core.refine.best import suitable

    return sum(
        info.cost_seconds(n, p, k) + refinement_seconds(n, p, k, EFFORTS["fast"][0]) for info in suitable(n, p, k)
    )


def _memory_bytes(n: int, p: int, k: int) -> int:
    from microagg_core.refine.best import suitable

    return refinement_bytes(n, p, k) + max(info.memory_bytes(n, p, k) for info in suitable(n, p, k))


INFO = AlgorithmInfo(
    name="best",
    summary="runs the suitable algorithms, refines each, and keeps the least loss",
    description=(
        "Runs every algorithm that takes the data and is not far slower than the fastest, refines each result, and "
        "keeps the one with the least loss; the result says what was tried. Choose it when you do not want to choose. "
        "Groups have k records or more, as the best algorithm made them. Time grows as that of all of them together. "
        "It is a heuristic: a lower bound says how far it can be."
    ),
    groups=groups,
    sizes=lambda k: (k, None),
    sizes_text="k and more, as the best algorithm made them",
    cost_seconds=_cost_seconds,
    memory_bytes=_memory_bytes,
)
