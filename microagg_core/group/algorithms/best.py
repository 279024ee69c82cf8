"""Best: whichever of the suitable algorithms loses least after refinement."""

from __future__ import annotations

import math
from dataclasses import dataclass

from microagg_core.group.algorithms.info import AlgorithmInfo, AnyPoints, Ints, Values
from microagg_core.group.costs import annealing_sweeps, refinement_bytes, refinement_seconds

#: Algorithms that search or choose themselves are not tried.
_NOT_TRIED = ("search", "best")
#: An algorithm is tried if its model stays below so many seconds, or so many times the cheapest.
_SECONDS, _TIMES = 1.0, 5.0
#: It is so fast that others are not measured by it.
_FASTEST = "slabs"
#: Other values of parameters than the defaults that are worth a try.
_VARIANTS: dict[str, tuple[dict[str, float], ...]] = {"v_mdav": ({"gamma": 0.2}, {"gamma": 1.1})}


@dataclass(frozen=True)
class Tried:
    """An algorithm with parameters, and the sum of squared errors before and after refinement."""

    algorithm: str
    parameters: dict[str, float]
    sse: float
    refined_sse: float


def suitable(n: int, p: int, k: int) -> list[AlgorithmInfo]:
    """List the algorithms that take these records and are not far slower than the fastest, in the registry's order."""
    from microagg_core.group.algorithms import algorithms  # the registry, which this file is itself in

    able = [
        info
        for name, info in algorithms().items()
        if name not in _NOT_TRIED
        and not info.each_attribute
        and info.refuses(k, p) is None
        and info.refuses_records(n) is None
    ]
    limit = max(_SECONDS, _TIMES * min(info.cost_seconds(n, p, k) for info in able if info.name != _FASTEST))
    return [info for info in able if info.cost_seconds(n, p, k) <= limit]


def best(points: AnyPoints, k: int, *, seed: int = 0) -> tuple[Ints, tuple[Tried, ...]]:
    """Run the suitable algorithms on points or an array of finite numbers, refine each, and keep the least loss.

    Returns the groups, and everything that was tried: of several with the least loss, the first made the groups.
    """
    import numpy as np

    from microagg_core.group.headway import Progress
    from microagg_core.group.labels import exponent_of
    from microagg_core.group.metrics.losses import sse_of_labels
    from microagg_core.group.points import Points
    from microagg_core.group.refine.neighbours import Records
    from microagg_core.group.refine.refinement import neighbour_count, refine_near

    points = Points.of(points)
    n, p = points.shape
    records = Records.of(points, neighbour_count(n, k)) if n >= 2 * k else None
    exponent = exponent_of(points)
    # Squares of the scaled copy neither overflow nor vanish.
    Z = points.scaled(exponent)
    kept, least = np.zeros(n, dtype=np.int64), np.inf
    tried: list[Tried] = []
    for info in suitable(n, p, k):
        if info.sorts and not points.are_numbers:
            continue
        progress = Progress(f"trying {info.name}", Z)
        for parameters in _VARIANTS.get(info.name, ({},)):
            labels = info.run(points, k, seed=seed, **parameters)
            refined = labels if records is None else refine_near(records, labels, k, "fast", seed)
            before, after = sse_of_labels(Z, labels), sse_of_labels(Z, refined)
            progress.report(after)
            tried.append(Tried(info.name, parameters, *(math.ldexp(sse, -2 * exponent) for sse in (before, after))))
            if after < least:
                kept, least = refined, after
    return kept, tuple(tried)


def groups(values: Values, k: int, *, seed: int) -> Ints:
    from microagg_core.group.labels import points_of

    return best(points_of(values), k, seed=seed)[0]


def _cost_seconds(n: int, p: int, k: int) -> float:
    refining = refinement_seconds(n, p, k, annealing_sweeps("fast", n, p, k))
    return sum(info.cost_seconds(n, p, k) + refining for info in suitable(n, p, k))


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
    memory_bytes=lambda n, p, k: (
        refinement_bytes(n, p, k) + max(info.memory_bytes(n, p, k) for info in suitable(n, p, k))
    ),
    draws=True,
)
