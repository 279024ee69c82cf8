"""How the cost of searches in a tree over the records grows, for the cost models of what makes them.

Fitted to tests/benchmark/algorithm_cost.py on uniform data, on one core of a 2-core virtual machine: a tree prunes them
worse than most data. Figures are relative to 100,000 records.
"""

from __future__ import annotations

import math

#: With more attributes there is no tree.
MOST_ATTRIBUTES = 16


def of_a_search(n: int, p: int) -> float:
    """How the seconds of a search grow with the number of records and, above all, of attributes.

    >>> of_a_search(100_000, 0), of_a_search(100_000, 17)
    (1.0, inf)
    """
    if p > MOST_ATTRIBUTES:
        return math.inf
    return math.pow(1.48, p) * math.pow(n / 100_000, 0.06 * p)


def of_a_record(n: int) -> float:
    """How the seconds that a record takes in the tree grow with the number of records.

    >>> of_a_record(100_000)
    1.0
    """
    return math.pow(n / 100_000, 0.15)


def bytes_of_tree(n: int, p: int) -> int:
    """Memory of the tree and of what goes with it, or of scans where there are too many attributes for a tree.

    >>> bytes_of_tree(1000, 4)
    80000
    """
    return n * (10 * p + 40 if p <= MOST_ATTRIBUTES else 56)
