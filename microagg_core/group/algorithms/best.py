"""Best: whichever of the suitable algorithms loses least after refinement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from microagg_core.group.algorithms.info import AlgorithmInfo
from microagg_core.group.costs import annealing_sweeps, refinement_bytes, refinement_seconds

if TYPE_CHECKING:
    from microagg_core.arrays import Floats, Ints

#: Algorithms that search or choose themselves are not tried.
_NOT_TRIED = ("search", "best")
#: An algorithm is tried if its model stays below so many seconds, or so many times the cheapest.
_SECONDS, _TIMES = 1.0, 5.0
#: Other values of parameters than the defaults that are worth a try.
_VARIANTS: dict[str, tuple[dict[str, float], ...]] = {"v_mdav": ({"gamma": 0.2}, {"gamma": 1.1})}


@dataclass(frozen=True)
class Tried:
    """An algorithm with parameters, and the sum of squared errors before and after refinement."""

    algorithm: str
    parameters: dict[str, float]
    sse: float
    refined_sse: float


@dataclass(frozen=True)
class Best:
    """The best groups, the algorithm that they came from, and everything that was tried."""

    labels: Ints
    chosen: str
    tried: tuple[Tried, ...]


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
    limit = max(_SECONDS, _TIMES * min(info.cost_seconds(n, p, k) for info in able))
    return [info for info in able if info.cost_seconds(n, p, k) <= limit]


def best(X: Floats, k: int, *, seed: int = 0) -> Best:
    """Run the suitable algorithms on an (n, p) array of finite numbers, refine each, and keep the least loss.

    >>> import numpy as np
    >>> best(np.array([[0.0], [9.0], [0.1], [9.1]]), 2).labels.tolist()
    [0, 1, 0, 1]
    """
    import numpy as np

    from microagg_core.group.headway import Progress
    from microagg_core.group.labels import private_copy
    from microagg_core.group.refine.neighbours import Records
    from microagg_core.group.refine.refinement import neighbour_count, refine_near, sse_of_labels

    n, p = X.shape
    records = Records.of(X, neighbour_count(n, k)) if n >= 2 * k else None
    Z = private_copy(X)
    # In the units of X; the scaled copy's squares are far larger.
    unit = float(np.abs(X).max()) / float(np.abs(Z).max()) if np.abs(Z).max() > 0 else 1.0
    kept, chosen, least = np.zeros(n, dtype=np.int64), "", np.inf
    tried: list[Tried] = []
    for info in suitable(n, p, k):
        progress = Progress(f"trying {info.name}", Z)
        for parameters in _VARIANTS.get(info.name, ({},)):
            labels = info.run(X, k, seed=seed, **parameters)
            refined = labels if records is None else refine_near(records, labels, k, "fast", seed)
            before, after = sse_of_labels(Z, labels), sse_of_labels(Z, refined)
            progress.report(after)
            tried.append(Tried(info.name, parameters, before * unit * unit, after * unit * unit))
            if not chosen or after < least:
                kept, chosen, least = refined, info.name, after
    return Best(kept, chosen, tuple(tried))


def groups(X: Floats, k: int, *, seed: int) -> Ints:
    return best(X, k, seed=seed).labels


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
