"""Loss of a release as sums over its records: a block's statistics, and how blocks combine.

Everything is measured on the released records' standardized quasi-identifiers (mean 0, population variance 1, with
all digits: not the scale to 24 bits on which the groups are made). Missing values take no part; a correlation is over
the records that have both attributes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.group.metrics.figures import CorrelationChange
from microagg_core.group.metrics.losses import Losses, percent
from microagg_core.group.metrics.moments import Groups
from microagg_core.kernels.tools.sums import loss_sums, moments_of_pairs
from microagg_core.plain import PlainFloats


@dataclass(frozen=True)
class PairMoments:
    """Moments of attributes i and j over the records that have both; two sets combine by addition.

    A correlation is that of the records that have both attributes, with their own means and variances over these
    records (pairwise complete, as ``pandas.DataFrame.corr`` has it). So each *pair* has means and squares of its own,
    kept about its own mean and merged by Chan's formula: nothing cancels however far the pair's records lie from the
    file's mean, and what is constant there has squares of exactly 0.

    All are (p, p): ``n`` records; ``mean`` of i; ``squares``, of the deviations of i from that mean; ``products``, of
    the deviations of i and j.
    """

    n: PlainFloats
    mean: PlainFloats
    squares: PlainFloats
    products: PlainFloats

    @classmethod
    def sum_of(cls, parts: Sequence[PairMoments]) -> PairMoments:
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
        """Compute the correlation of each pair, within [-1, 1]; NaN where it has none.

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
    """Compute the moments of all pairs of columns of (n, p) values, n > 0, of which some are missing.

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
    """Compute the moments of records that have the same attributes, those named, and no other."""
    p, pairs = values.shape[1], np.ix_(there, there)
    of_each, of_pairs = moments_of_pairs(np.ascontiguousarray(values[:, there] if len(there) < p else values), counts)
    n, mean, squares, products = np.zeros((4, p, p))
    n[pairs] = counts.sum()
    mean[pairs] = of_each[:, None]
    squares[pairs] = np.diag(of_pairs)[:, None]
    products[pairs] = of_pairs
    return PairMoments(n, mean, squares, products)


#: Sums over all attributes: of squared differences, of distances, and of what distances from the file's mean lose.
_WHOLE = 3


@dataclass(frozen=True)
class TopTwo:
    """Largest and second-largest contribution of a group to each of some sums; two sets combine by addition.

    >>> (TopTwo.of(np.array([[5.0], [1.0]])) + TopTwo.of(np.array([[3.0]]))).second.tolist()
    [3.0]
    """

    first: PlainFloats
    second: PlainFloats

    @classmethod
    def of(cls, contributions: Floats) -> TopTwo:
        """Find the largest two of contributions, a row a group and a column a sum."""
        none = np.zeros((2, contributions.shape[1]))
        ordered = np.partition(np.concatenate([none, contributions]), -2, axis=0)
        return cls(ordered[-1], ordered[-2])

    @classmethod
    def sum_of(cls, parts: Sequence[TopTwo]) -> TopTwo:
        return cls.of(np.stack([largest for part in parts for largest in (part.first, part.second)]))

    def __add__(self, other: TopTwo) -> TopTwo:
        return self.sum_of((self, other))


@dataclass(frozen=True)
class Contributions:
    """Share of the largest groups in the losses; two sets combine by addition.

    A sum of which one group makes nearly all is that group's own figure, whatever the size of the file.

    ``sse`` and ``absolute`` of each attribute; ``whole`` of the sums over all attributes: of squared differences, of
    distances, and of what distances from the file's mean lose when records become means. Of each pair of attributes,
    ``products`` of their differences; as these have signs, ``crossed`` is what all groups make of them without.
    """

    sse: TopTwo
    absolute: TopTwo
    whole: TopTwo
    products: TopTwo
    crossed: PlainFloats

    @classmethod
    def sum_of(cls, parts: Sequence[Contributions]) -> Contributions:
        names = [f.name for f in fields(cls) if f.name != "crossed"]
        tops = {name: TopTwo.sum_of([getattr(part, name) for part in parts]) for name in names}
        return cls(**tops, crossed=np.sum([part.crossed for part in parts], axis=0))

    def __add__(self, other: Contributions) -> Contributions:
        return self.sum_of((self, other))


def contributions_of(of_groups: Floats, n_attributes: int) -> Contributions:
    """Name the sums that :func:`~microagg_core.kernels.tools.sums.loss_sums` makes of groups."""
    p = n_attributes
    parts = np.split(of_groups, np.cumsum([p, p, _WHOLE]), axis=1)
    sse, absolute, whole, products = (TopTwo(part[1].copy(), part[2].copy()) for part in parts)
    return Contributions(sse, absolute, whole, products, parts[-1][0].copy())


@dataclass(frozen=True)
class LossStatistics:
    """Sums over some records; two sets combine by addition.

    Arrays over attributes: ``sse`` (squared differences), ``absolute`` (absolute differences). ``before`` and
    ``after`` are the moments of pairs of attributes. ``sde`` and ``sdt`` are sums of distances, ``sdt_after`` is that
    of the released records. ``largest`` has what the groups that contribute most make of the sums.
    """

    records: int
    sse: PlainFloats
    absolute: PlainFloats
    before: PairMoments
    after: PairMoments
    sde: float
    sdt: float
    sdt_after: float
    largest: Contributions

    @classmethod
    def sum_of(cls, parts: Sequence[LossStatistics]) -> LossStatistics:
        each: dict[str, list[Any]] = {f.name: [getattr(part, f.name) for part in parts] for f in fields(cls)}
        before, after = (PairMoments.sum_of(each.pop(name)) for name in ("before", "after"))
        largest = Contributions.sum_of(each.pop("largest"))
        sums = {name: reduce(add, values) for name, values in each.items()}
        return cls(**sums, before=before, after=after, largest=largest)

    def __add__(self, other: LossStatistics) -> LossStatistics:
        return self.sum_of((self, other))


def significant(value: float, digits: int = 6) -> float:
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value


def readable(value: float, digits: int = 6, *, apart: bool | None = None) -> str:
    """Write a number to so many significant digits, not as a power of ten unless it is very small.

    ``apart``: whether thousands have commas; None: from 10,000 on, as years have none.

    >>> readable(50541200.0), readable(1945.0), readable(2.79124e7, apart=False), readable(117.3, 2), readable(0.0)
    ('50,541,200', '1945', '27912400', '120', '0')
    """
    text = f"{value:.{digits}g}"
    if not 1e-4 <= abs(value) < 1e17:
        return text
    return f"{Decimal(text):{',' if (abs(value) >= 10_000 if apart is None else apart) else ''}f}"


def loss_statistics(before: Floats, after: Floats, missing: Bools, labels: Ints | None = None) -> LossStatistics:
    """Add up some records: standardized values before and after, zero where missing.

    ``labels`` are the records' groups, 0..g-1, whose records lack the same values; ``after`` has a row for each group.
    None: each record is one.

    >>> s = loss_statistics(np.array([[1.0], [-1.0]]), np.zeros((2, 1)), np.zeros((2, 1), dtype=bool))
    >>> losses_of(s).l_sse
    100.0
    """
    groups = Groups.of_each(len(before)) if labels is None else Groups.of(labels)
    of_group = missing[groups.order[groups.first]]
    if missing.any():
        before, after = np.where(missing, 0.0, before), np.where(of_group, 0.0, after)
    before, after = np.ascontiguousarray(before), np.ascontiguousarray(after)
    of_groups, lengths = loss_sums(before, after, groups.order, groups.sizes)
    p, total = before.shape[1], of_groups[0]
    return LossStatistics(
        records=len(before),
        sse=total[:p].copy(),
        absolute=total[p : 2 * p].copy(),
        before=pair_moments(before, missing),
        after=pair_moments(after, of_group, groups.sizes),
        sde=float(total[2 * p + 1]),
        sdt=float(lengths[0]),
        sdt_after=float(lengths[1]),
        largest=contributions_of(of_groups, p),
    )


def losses_of(s: LossStatistics) -> Losses:
    return Losses(sse=float(s.sse.sum()), sst=float(_squares(s.before).sum()), sde=s.sde, sdt=s.sdt)


@dataclass(frozen=True)
class AttributeLosses:
    """Loss of one attribute in percent of its variance, the share of variance kept, and IL1s."""

    l_sse: float
    variance_kept: float
    il1s: float


def attribute_losses(s: LossStatistics) -> list[AttributeLosses]:
    sst, kept = _squares(s.before), _squares(s.after)
    n = np.maximum(np.diag(s.before.n), 1.0)
    return [
        AttributeLosses(
            l_sse=percent(float(s.sse[j]), float(sst[j])),
            variance_kept=percent(float(kept[j]), float(sst[j])) if sst[j] > 0 else 100.0,
            il1s=float(s.absolute[j] / n[j] / np.sqrt(2.0)),
        )
        for j in range(len(sst))
    ]


def correlation_change(s: LossStatistics) -> CorrelationChange:
    """Measure by how much correlations change, over the pairs of attributes that have one before and after.

    A pair with fewer than two common records, or with an attribute that is constant in these, has none: it is counted
    in ``left_out``, and takes no part in the ``mean`` and the ``largest`` change (None where no pair has one).

    >>> before, none = np.array([[1.0, 4.0, 5.0], [2.0, 2.0, 5.0]]), np.zeros((2, 3), dtype=bool)
    >>> correlation_change(loss_statistics(before, before, none))
    CorrelationChange(pairs=1, left_out=2, mean=0.0, largest=0.0)
    """
    differences, _ = correlation_changes(s)
    n_attributes = len(s.sse)
    return CorrelationChange(
        pairs=len(differences),
        left_out=n_attributes * (n_attributes - 1) // 2 - len(differences),
        mean=float(differences.mean()) if len(differences) else None,
        largest=float(differences.max()) if len(differences) else None,
    )


def correlation_changes(s: LossStatistics) -> tuple[Floats, Ints]:
    """Measure each pair's change of correlation, of those that have one before and after; and their places."""
    all_pairs = np.triu_indices(len(s.sse), 1)
    change = np.abs(s.after.correlations() - s.before.correlations())[all_pairs]
    places = np.flatnonzero(np.isfinite(change))
    return change[places], places


def _squares(pairs: PairMoments) -> Floats:
    return np.diag(pairs.squares)
