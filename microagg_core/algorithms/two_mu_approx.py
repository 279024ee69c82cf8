"""2-mu-Approx: pairs and triples from the minimum-weight [1,2]-factor, at most twice the least possible loss."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from microagg_core.algorithms.contract import AlgorithmInfo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from microagg_core.metrics.certificate import Certificate


def groups(X: NDArray[np.float64], k: int, *, seed: int) -> NDArray[np.int64]:
    """Group the records; nothing is drawn at random, so the seed changes nothing."""
    return certified(X)[0]


def certified(X: NDArray[np.float64]) -> tuple[NDArray[np.int64], Certificate]:
    """The groups, and how far from the least possible loss they can be at most."""
    from microagg_core.factor import minimum_factor

    found = minimum_factor(X)
    return found.labels, found.certificate


# Fitted to tests/benchmark/algorithm_cost.py, on uniform data, on one core of a 2-core virtual machine. More
# attributes make more records near one another, so that more pairs must be weighed; on a line, paths grow long.
def _cost_seconds(n: int, p: int, k: int) -> float:
    growth = min(1.05 + 0.055 * p, 3.0)
    on_a_line = 4.5e-10 * n * n if p == 1 else 0.0
    return 4.5e-3 * math.exp(0.2 * min(p, 20)) * math.pow(n / 1000, growth) + on_a_line


def _memory_bytes(n: int, p: int, k: int) -> int:
    """Candidate pairs, the search's nodes and heap, and copies of the data."""
    return n * (1800 + 24 * p)


INFO = AlgorithmInfo(
    name="two_mu_approx",
    summary="k = 2 only: pairs and triples with at most twice the least possible loss",
    description=(
        "Joins records to others so that each is joined and the squared distances add up to the least possible, and "
        "takes the pairs and triples that this makes. Choose it for k = 2 wherever its time allows: on files of "
        "several attributes it loses less than any other heuristic here. A certificate comes with the groups: their "
        "loss is at most so many times the least possible for these records; the factor is proved never to be above "
        "2, and is near 1 on real files. Time grows little faster than the records while there are few attributes; "
        "with ten or more, on scattered data, almost with their square."
    ),
    groups=groups,
    min_k=2,
    max_k=2,
    sizes=lambda k: (2, 3),
    sizes_text="2 or 3",
    cost_seconds=_cost_seconds,
    memory_bytes=_memory_bytes,
    certified=certified,
)
