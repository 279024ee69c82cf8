"""Best: whichever of the suitable algorithms loses least after refinement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from microagg_core.group.algorithms.info import AlgorithmInfo
from microagg_core.group.refine.costs import annealing_sweeps, refinement_bytes, refinement_seconds

if TYPE_CHECKING:
    from microagg_core.arrays import Floats, Ints


#: Algorithms that search or choose themselves are not tried.
_NOT_TRIED = ("search", "best")
#: An algorithm is tried if its model stays below so many seconds, or so many times the cheapest.
_SECONDS, _TIMES = 1.0, 5.0


def suitable(n: int, p: int, k: int) -> list[AlgorithmInfo]:
    """Algorithms that take these records and are not far slower than the fastest, in the registry's order."""
    from microagg_core.group.algorithms import algorithms  # the registry, which this file is itself in

    able = [
        info
        for name, info in algorithms().items()
        if name not in _NOT_TRIED
        and not info.each_attribute
        and info.refuses(k, p) is None
        and info.refuses_records(n) is None
    ]
    limit = max(_SECONDS, _TIMES * min(info.cost_seconds(n, p, k) for info in able))
    return [info for info in able if info.cost_seconds(n, p, k) <= limit]


def groups(X: Floats, k: int, *, seed: int) -> Ints:
    """Group the records as the best of the suitable algorithms does, refined."""
    from microagg_core.group.algorithms.trying import best

    return best(X, k, seed=seed).labels


def _cost_seconds(n: int, p: int, k: int) -> float:
    refining = refinement_seconds(n, p, k, annealing_sweeps("fast", n, p, k))
    return sum(info.cost_seconds(n, p, k) + refining for info in suitable(n, p, k))


def _memory_bytes(n: int, p: int, k: int) -> int:
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
    draws=True,
)
