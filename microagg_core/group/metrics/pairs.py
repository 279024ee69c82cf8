"""Correlations where values are missing: sums over the records that have both attributes of a pair, and their merging.

A correlation is that of the records that have both attributes, with their own means and variances over these records
(pairwise complete, as ``pandas.DataFrame.corr`` has it). So each *pair* has means and squares of its own, kept about
its own mean and merged by Chan's formula: nothing cancels however far the pair's records lie from the file's mean,
and what is constant there has squares of exactly 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.kernels.tools.loss_sums import moments_of_pairs
from microagg_core.plain import PlainFloats


@dataclass(frozen=True)
class PairMoments:
    """For attributes i and j, over the records that have both; two sets combine by addition.

    All are (p, p): ``n`` records; ``mean`` of i; ``squares``, of the deviations of i from that mean; ``products``, of
    the deviations of i and j.
    """

    n: PlainFloats
    mean: PlainFloats
    squares: PlainFloats
    products: PlainFloats

    @classmethod
    def sum_of(cls, parts: Sequence[PairMoments]) -> PairMoments:
        """Those of all parts' records together."""
        n, mean, squares, products = (np.stack([getattr(part, f.name) for part in parts]) for f in fields(cls))
        total = n.sum(axis=0)
        # Counted from a part that has records: means that are equal are apart by exactly 0.
        base = np.take_along_axis(mean, np.argmax(n > 0, axis=0)[None], axis=0)
        apart = np.where(n > 0, mean - base, 0.0)
        moved = np.divide((n * apart).sum(axis=0), total, out=np.zeros_like(total), where=total > 0)
        apart = np.where(n > 0, apart - moved, 0.0)
        squares = squares.sum(axis=0) + (n * apart * apart).sum(axis=0)
        products = products.sum(axis=0) + (n * apart * apart.transpose(0, 2, 1)).sum(axis=0)
        return cls(total, base[0] + moved, squares, products)

    def __add__(self, other: PairMoments) -> PairMoments:
        return self.sum_of((self, other))

    def correlations(self) -> Floats:
        """The correlation of each pair, within [-1, 1]; NaN where it has none.

        A pair has none with fewer than two common records, or where one of its attributes is constant in them.

        >>> values, none = np.array([[1.0, 4.0], [5.0, 2.0]]), np.zeros((2, 2), dtype=bool)
        >>> pair_moments(values, none).correlations().round(9).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
        """
        # Both attributes' deviations, divided by one after the other: the product of two small ones may be no float.
        first, second = np.sqrt(self.squares), np.sqrt(self.squares.T)
        has_one = (self.n >= 2) & (first > 0) & (second > 0)
        none = np.full_like(self.products, np.nan)
        divided = np.divide(self.products, first, out=none.copy(), where=has_one)
        correlations: Floats = np.clip(np.divide(divided, second, out=none, where=has_one), -1.0, 1.0)
        return correlations


def pair_moments(values: Floats, missing: Bools, counts: Ints | None = None) -> PairMoments:
    """The moments of all pairs of columns of (n, p) values, n > 0, of which some are missing.

    ``counts`` are the records that each row stands for; None: one each.
    """
    counts = np.ones(len(values), dtype=np.int64) if counts is None else counts
    if not missing.any() or (missing == missing[0]).all():  # as within any block of a release
        return _complete(values, counts, np.flatnonzero(~missing[0]))
    patterns, which = np.unique(missing, axis=0, return_inverse=True)
    rows = [which.ravel() == number for number in range(len(patterns))]
    parts = zip(rows, patterns, strict=True)
    return PairMoments.sum_of([_complete(values[own], counts[own], np.flatnonzero(~pattern)) for own, pattern in parts])


def _complete(values: Floats, counts: Ints, there: Ints) -> PairMoments:
    """Of records that have the same attributes, those named, and no other."""
    p, pairs = values.shape[1], np.ix_(there, there)
    of_each, of_pairs = moments_of_pairs(np.ascontiguousarray(values[:, there] if len(there) < p else values), counts)
    n, mean, squares, products = np.zeros((4, p, p))
    n[pairs] = counts.sum()
    mean[pairs] = of_each[:, None]
    squares[pairs] = np.diag(of_pairs)[:, None]
    products[pairs] = of_pairs
    return PairMoments(n, mean, squares, products)
