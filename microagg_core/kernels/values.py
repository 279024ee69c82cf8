"""Values of records as kernels read them: numbers, then codes of categories; distances, totals, and what is alike.

Two records whose codes differ are farther apart by what that costs, squared, whatever the codes. It is as if each
category were the corner of a regular simplex, and centroids the shares of categories: a code is half its cost times
(1 - 2 s + S) from shares of which its own is s, and whose squares add up to S. Shares are never needed: counts do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import inlined, jit, uncounted
from microagg_core.kernels.tools.sums import add_record, total_of


class Values(NamedTuple):
    """Values of n records: the first rows are numbers, at least one, and the last ones codes, one a cost."""

    X: Floats  #: (p, n), one attribute a row
    costs: Floats  #: of a mismatch, of each row of codes


class Total(NamedTuple):
    """The total of some records: of their numbers, and how often each code is there; changed in place."""

    sums: Floats  #: (2, numbers), high and low parts
    counts: Floats  #: of all codes, one row of them after the other
    starts: Ints  #: where the counts of each row of codes start
    squares: Floats  #: of each row of codes, the sum of the squared counts


@jit
def total_of_values(values: Values) -> Total:
    """Add up all records."""
    X, q = values.X, values.costs.shape[0]
    numbers, starts = X.shape[0] - q, np.zeros(q + 1, np.int64)
    for c in range(q):
        starts[c + 1] = starts[c] + np.int64(X[numbers + c].max()) + 1
    counts, squares = np.zeros(starts[q]), np.zeros(q)
    for c in range(q):
        for i in range(X.shape[1]):
            counts[starts[c] + np.int64(X[numbers + c, i])] += 1.0
        for code in range(starts[c], starts[c + 1]):
            squares[c] += counts[code] ** 2
    return Total(total_of(X[:numbers], 0, X.shape[1]), counts, starts, squares)


@inlined
def count_code(total: Total, c: int, code: float, sign: float) -> None:
    """Count a code once more (sign 1) or once less (sign -1)."""
    at = total.starts[c] + np.int64(code)
    total.squares[c] += 2.0 * sign * total.counts[at] + 1.0
    total.counts[at] += sign


@jit
def add_to_total(total: Total, values: Values, position: int, sign: float) -> None:
    """Add (sign 1) the record at a position to the total, or take it away (sign -1)."""
    add_record(total.sums, values.X, position, sign)
    numbers = total.sums.shape[1]
    for c in range(values.costs.shape[0]):
        count_code(total, c, values.X[numbers + c, position], sign)


@inlined
def from_total(total: Total, costs: Floats, m: float, c: int, code: float) -> float:
    """Add to a squared distance from the total of m records what a code makes of it, for m times the record."""
    count = total.counts[total.starts[c] + np.int64(code)]
    return float(0.5 * costs[c] * (m * m - 2.0 * m * count + total.squares[c]))


@jit
def squared_distances(values: Values, start: int, point: Floats, out: Floats) -> None:
    """Write squared distances from a record's values of the records in columns start, start + 1, ... into ``out``."""
    X, costs = values
    numbers, size = X.shape[0] - costs.shape[0], out.shape[0]
    distances_of_numbers(X[:numbers], start, 1.0, point, out)
    for c in range(costs.shape[0]):
        row, code, cost = X[numbers + c, start : start + size], point[numbers + c], costs[c]
        for i in range(size):
            out[i] += cost if row[i] != code else 0.0


@jit
def scaled_distances(values: Values, start: int, m: float, total: Total, out: Floats) -> None:
    """Write squared distances of m times each of these records from the total of m records into ``out``."""
    X, costs = values
    numbers, size = X.shape[0] - costs.shape[0], out.shape[0]
    distances_of_numbers(X[:numbers], start, m, total.sums[0], out)
    for c in range(costs.shape[0]):
        row = X[numbers + c, start : start + size]
        for i in range(size):
            out[i] += from_total(total, costs, m, c, row[i])


@jit
def distances_of_numbers(X: Floats, start: int, factor: float, point: Floats, out: Floats) -> None:
    """Write squared distances, by numbers alone, of ``factor`` times the records from a point into ``out``."""
    size = out.shape[0]
    row = X[0, start : start + size]
    for i in range(size):
        out[i] = (factor * row[i] - point[0]) ** 2
    for j in range(1, X.shape[0]):
        row = X[j, start : start + size]
        c = point[j]
        for i in range(size):
            out[i] += (factor * row[i] - c) ** 2


@uncounted
def distance(values: Values, a: int, b: int) -> float:
    """Compute the squared distance of the records in two columns."""
    X, costs = values
    d, numbers = 0.0, X.shape[0] - costs.shape[0]
    for j in range(numbers):
        d += (X[j, a] - X[j, b]) ** 2
    for c in range(costs.shape[0]):
        if X[numbers + c, a] != X[numbers + c, b]:
            d += costs[c]
    return d


@jit
def alike(values: Values, a: int, point: Floats) -> float:
    """Add up the costs of the codes in which the record in a column agrees with a record's values."""
    X, costs = values
    total, numbers = 0.0, X.shape[0] - costs.shape[0]
    for c in range(costs.shape[0]):
        if X[numbers + c, a] == point[numbers + c]:
            total += costs[c]
    return total
