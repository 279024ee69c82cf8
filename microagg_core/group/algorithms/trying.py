"""What the algorithm "best" does: every suitable algorithm, each refined, and the one that loses least kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.group.algorithms.best import suitable
from microagg_core.group.grouping.headway import Way
from microagg_core.group.grouping.scaling import private_copy
from microagg_core.group.refine.improving import neighbour_count, refine_near, sse_of_labels
from microagg_core.group.refine.neighbours import Records

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


def best(X: Floats, k: int, *, seed: int = 0) -> Best:
    """Run the suitable algorithms on an (n, p) array of finite numbers, refine each, and keep the least loss.

    >>> best(np.array([[0.0], [9.0], [0.1], [9.1]]), 2).labels.tolist()
    [0, 1, 0, 1]
    """
    n, p = X.shape
    records = Records.of(X, neighbour_count(n, k)) if n >= 2 * k else None
    Z = private_copy(X)
    # In the units of X; the scaled copy's squares are far larger.
    unit = float(np.abs(X).max()) / float(np.abs(Z).max()) if np.abs(Z).max() > 0 else 1.0
    kept, chosen, least = np.zeros(n, dtype=np.int64), "", np.inf
    tried: list[Tried] = []
    for info in suitable(n, p, k):
        told = Way(f"trying {info.name}", Z)
        for parameters in _VARIANTS.get(info.name, ({},)):
            labels = info.run(X, k, seed=seed, **parameters)
            refined = labels if records is None else refine_near(records, labels, k, "fast", seed)
            before, after = sse_of_labels(Z, labels), sse_of_labels(Z, refined)
            told.at(after)
            tried.append(Tried(info.name, parameters, before * unit * unit, after * unit * unit))
            if not chosen or after < least:
                kept, chosen, least = refined, info.name, after
    return Best(kept, chosen, tuple(tried))
