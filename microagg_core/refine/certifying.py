"""The best lower bound that an effort affords."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from microagg_core.factor import minimum_factor
from microagg_core.refine.bounds import Bound, neighbour_bound_of

Floats = NDArray[np.float64]

#: Above so many records, or attributes, a factor takes minutes.
_MOST_FOR_FACTOR, _MOST_ATTRIBUTES = 100_000, 30


def factor_bound(X: Floats, k: int) -> Bound | None:
    """For k=2, half the weight of the lightest [1,2]-factor, proved over all pairs; None where that is not affordable.

    >>> factor_bound(np.array([[0.0], [2.0], [10.0], [12.0]]), 2).sse
    3.999999999999998
    """
    n, p = X.shape
    if k != 2 or not 2 * k <= n <= _MOST_FOR_FACTOR or p > _MOST_ATTRIBUTES:
        return None
    found = minimum_factor(X)
    facts = {"records": n, "pairs": found.proof.pairs, "rounds": found.proof.rounds}
    return Bound(found.certificate.optimum_at_least, "factor", facts)


#: Proofs that are tried with "thorough" besides the neighbours: None where they do not apply, or came to no end.
PROOFS: MappingProxyType[str, Callable[[Floats, int], Bound | None]] = MappingProxyType({"factor": factor_bound})


def best_bound(X: Floats, k: int, effort: str) -> Bound:
    """The neighbour bound, or with "thorough" the best of all proofs that apply, for an (n, p) array.

    >>> best_bound(np.array([[0.0], [2.0], [10.0], [12.0]]), 2, "fast").kind
    'neighbours'
    """
    bounds = [neighbour_bound_of(X, k)]
    if effort == "thorough" and bounds[0].kind != "one group":
        bounds += [bound for prove in PROOFS.values() if (bound := prove(X, k)) is not None]
    return max(bounds, key=lambda bound: bound.sse)
