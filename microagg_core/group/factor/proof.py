"""What is proved of a factor, and the arithmetic that proves it: whole numbers only, whatever found the factor.

Statement. Let W(u, v) be the whole weights of all pairs of n records. Let y be numbers for the 2n copies of the
records, y <= 0 on second copies, and z >= 0 for a family of odd sets of copies, any two of them nested or disjoint. If

    y_a + y_b - (z of the sets that hold both a and b) <= 2 W(u, v)

for the three edges (a, b) of every pair u, v, namely (u, v), (u, n + v) and (n + u, v), then every [1,2]-factor
weighs at least half of D = sum of y - sum over the sets S of z_S (|S| - 1) / 2.

Why. Leaving edges out, every factor becomes one, no heavier, of single edges and of paths of two edges. It
gives a matching of copies: an edge joins first copies; of a path a-b-c, one edge joins the first copies of a
and b, the other b's second copy and c's first. Every first copy is matched. Twice the weight is then the sum
of 2 W over the matching, at least that of y over matched copies, less each z_S times the edges inside S.
The former is at least the sum of all y (first copies are all in it, second ones left out have y <= 0); the
latter number at most (|S| - 1) / 2.

The duals need not be trusted, only checked, for all n (n - 1) / 2 pairs. The weights stand for squared
distances so: W x 2**-exponent is a squared distance as summed in floats, rounded down, and that sum exceeds the
true one by less than a factor of 1 + (p + 3) 2**-53.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from microagg_core.errors import InternalError
from microagg_core.group.factor.engines import Duals
from microagg_core.group.factor.pairs import Points
from microagg_core.kernels.matching.pair_tree import Prices

#: Beyond it, sums of a few duals might leave 64 bits.
_LARGEST = 2**60


def _broken(what: str) -> InternalError:
    return InternalError(f"a bug: the proof of a minimum-weight factor does not hold ({what}); please report it")


def prices_of(duals: Duals, scale: float) -> Prices:
    """Duals ready to price pairs; InternalError for duals too large to be summed safely."""
    parent, around = duals.parent, duals.z.copy()
    depth = np.zeros(len(parent), np.int64)
    if max(int(np.abs(duals.y).max()), int(duals.z.max())) > _LARGEST:
        raise _broken("its numbers are too large")
    outer = parent.copy()
    inside = np.flatnonzero(outer >= 0)
    while len(inside):
        if depth.max() > len(parent) or around.max() > _LARGEST:
            raise _broken("its sets are not nested, or their numbers too large")
        depth[inside] += 1
        around[inside] += duals.z[outer[inside]]
        outer[inside] = parent[outer[inside]]
        inside = inside[outer[inside] >= 0]
    return Prices(duals.y, parent, depth, around, scale)


def whole_bound(duals: Duals) -> int:
    """The least whole weight that a factor can have, if no pair is lighter than its price.

    >>> whole_bound(Duals(np.array([2, 2, 0, 0]), np.zeros(6, np.int64), np.full(6, -1)))
    2
    """
    copies = len(duals.y)
    sizes = np.zeros(len(duals.z), np.int64)
    outer = duals.parent[:copies]
    while np.any(outer >= 0):
        outer = outer[outer >= 0]
        np.add.at(sizes, outer, 1)
        outer = duals.parent[outer]
    used = np.flatnonzero(duals.z)
    if duals.y[copies // 2 :].max() > 0 or duals.z.min() < 0 or np.any(used < copies) or np.any(sizes[used] % 2 == 0):
        raise _broken("a dual has the wrong sign, or a set is even")
    doubled: int = sum(duals.y.tolist()) - sum(
        z * (size // 2) for z, size in zip(duals.z[used].tolist(), sizes[used].tolist(), strict=True)
    )
    return -(-doubled // 2)


def in_units(points: Points, whole: int) -> float:
    """The squared distance, in units of X, that a whole weight has been shown to reach, rounded down.

    >>> from microagg_core.group.factor.pairs import points_of
    >>> points = points_of(np.array([[0.0], [3.0]]))
    >>> 9 * (1 - 1e-14) < in_units(points, 9 * 2**points.exponent) < 9
    True
    """
    p = points.rows.shape[1]
    exact = Fraction(whole) * Fraction(2) ** -points.exponent * (1 - Fraction(p + 3, 2**53))
    return max(0.0, math.nextafter(float(exact), 0.0)) if whole > 0 else 0.0
