"""Hypothesis strategies for the data that algorithms must get right: tied, repeated, flat, wide, extreme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from microagg_core.group.algorithms import AlgorithmInfo, algorithms

#: For every parameter of an algorithm, values that a user may choose, and values at the edge of what is allowed.
VALUES: dict[str, list[Any]] = {"gamma": [0.2, 1.1, 3.0, "auto"], "steps": [100, 1000], "seconds": [0]}
EDGES: dict[str, list[Any]] = {"gamma": [0.0, 1e300], "steps": [1, 1.5], "seconds": [0.0]}

#: What searches at random has no twin of its own, and another way where a last bit or the order of attributes is
#: another. Its parts have twins, and what it promises has tests.
SEARCHING = frozenset({"search", "best"})
#: What cuts from the low end, and of attributes that vary alike across the first, makes other groups of mirrored ones.
ONE_SIDED = frozenset({"slabs"})


@dataclass(frozen=True)
class Case:
    """An algorithm with parameters, a matrix, and a k that the matrix has enough records for."""

    algorithm: str
    params: dict[str, Any]
    X: np.ndarray
    k: int


def most_records(info: AlgorithmInfo, wanted: int, p: int, k: int) -> int:
    """How many of the wanted records an algorithm can group in some hundredths of a second."""
    return next(n for n in range(wanted, 0, -1) if n <= 2 * k or info.cost_seconds(n, p, k) < 0.02)


def _finite(limit: float) -> st.SearchStrategy[float]:
    return st.floats(-limit, limit, allow_nan=False, allow_infinity=False, width=64)


def matrices(n: int, p: int) -> st.SearchStrategy[np.ndarray]:
    """An (n, p) array: ordinary numbers, a small lattice, repeated records, all equal, or 1e-300 beside 1e300."""
    shape = (n, p)
    extremes = st.sampled_from([0.0, 1.0, -1.0, 1e300, -1e300, 1e-300, -1e-300, 5e-324, 1.5e300])
    ordinary = hnp.arrays(np.float64, shape, elements=_finite(1e6))
    lattice = hnp.arrays(np.float64, shape, elements=st.integers(-2, 2).map(float))
    few = hnp.arrays(np.float64, (3, p), elements=_finite(10))
    repeated = st.tuples(few, hnp.arrays(np.int64, n, elements=st.integers(0, 2))).map(lambda t: t[0][t[1]])
    equal = _finite(1e300).map(lambda value: np.full(shape, value))
    extreme = hnp.arrays(np.float64, shape, elements=extremes)
    return st.one_of(ordinary, lattice, repeated, equal, extreme)


@st.composite
def runs(draw: st.DrawFn, ordinary: bool = False) -> Case:
    """Any algorithm of the registry on any matrix it takes; ``ordinary``: on multiples of an eighth, many tied."""
    info = algorithms()[draw(st.sampled_from(sorted(algorithms())))]
    k = draw(st.integers(info.min_k, min(info.max_k or 6, 6)))
    width = draw(st.integers(1, min(info.max_attributes or 5, 5)))
    most = most_records(info, 6 * k, width, k)
    n = draw(st.one_of(st.sampled_from([k, k + 1, 2 * k - 1, 2 * k]), st.integers(k, most)))
    if ordinary:
        spread = draw(st.sampled_from([2, 5, 1000]))
        X = draw(hnp.arrays(np.float64, (n, width), elements=st.integers(-spread, spread).map(lambda v: v / 8)))
    else:
        X = draw(matrices(n, width))
    params = {p.name: draw(st.sampled_from(VALUES[p.name] + EDGES[p.name])) for p in info.parameters}
    return Case(info.name, params, X, k)
