"""Loss of a release as sums over its records: what a block notes, and how notes add.

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

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.group.metrics.losses import Losses, percent, squares_of_codes
from microagg_core.group.metrics.moments import Groups, float_means
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

    def correlations(self) -> Floats:
        """Compute the correlation of each pair, within [-1, 1]; NaN where it has none.

        A pair has none with fewer than two common records, or where one of its attributes is constant in them.
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


@dataclass(frozen=True)
class Categories:
    """Attributes that are no numbers: codes of categories, and ranks, whose groups have a mean that nobody releases.

    A group's squares of such an attribute are about its centre: of ranks their mean; of codes the mean of the corners
    of a simplex, on whose scale two codes that differ are ``costs`` apart, squared. The ``shares`` of a code are those
    of all records. What is released may have codes beyond them: parents of what a group's records have, as far from
    any record as a code that nobody has.
    """

    is_coded: Bools
    is_ranked: Bools
    costs: Floats
    shares: tuple[tuple[float, ...], ...]

    @property
    def are_some(self) -> Ints:
        return np.flatnonzero(self.is_coded | self.is_ranked)

    def squares_from_file(self, j: int, codes: Floats) -> Floats:
        """Compute the squared distance of codes of an attribute from the centre of all records."""
        shares = np.append(self.shares[j], 0.0)
        own = shares[np.minimum(codes.astype(np.int64), len(shares) - 1)]
        return np.asarray(self.costs[j] / 2 * (1.0 - 2.0 * own + shares @ shares))

    def is_parent(self, j: int, codes: Floats) -> Bools:
        return np.asarray(self.is_coded[j] & (codes >= len(self.shares[j])))


#: Sums over all attributes: of squared differences, of distances, and of what distances from the file's mean lose.
_WHOLE = 3


@dataclass(frozen=True)
class LossStatistics:
    """Sums over some records; two sets combine by addition.

    ``by_group`` has a column for each sum over groups that :func:`~microagg_core.kernels.tools.sums.loss_sums` makes:
    the total, and the largest and second-largest that a group makes of it. A sum of which one group makes nearly all
    is that group's own figure, whatever the size of the file. ``before`` and ``after`` are the moments of pairs of
    attributes; ``sdt`` and ``sdt_after`` are sums of distances from the file's mean, before and after.

    >>> none, labels = np.zeros((4, 1), dtype=bool), np.array([0, 0, 1, 1])
    >>> s = loss_statistics(np.array([[1.0], [-1.0], [3.0], [-3.0]]), np.zeros((2, 1)), none, labels)
    >>> s.squares.ravel().tolist(), (s + s).squares.ravel().tolist()
    ([20.0, 18.0, 2.0], [40.0, 18.0, 18.0])
    """

    records: int
    by_group: PlainFloats
    before: PairMoments
    after: PairMoments
    sdt: float
    sdt_after: float

    @property
    def squares(self) -> Floats:
        """Return the squared differences of each attribute: in rows the total, the largest and the second-largest."""
        return self._sums(0)

    @property
    def differences(self) -> Floats:
        """Return the absolute differences of each attribute, in the same rows."""
        return self._sums(1)

    @property
    def whole(self) -> Floats:
        """Return the sums over all attributes, in the same rows: squares, distances, and what distances lose."""
        return self._sums(2)

    @property
    def products(self) -> Floats:
        """Return the products of differences of each pair of attributes, in the same rows, without their signs."""
        return self._sums(3)

    @property
    def changed(self) -> Floats:
        """Return the records of each attribute that got neither their own category nor a parent of it, in these rows.

        Empty for numbers alone.
        """
        return self._sums(4)

    @property
    def moved(self) -> Floats:
        """Return the records of each attribute that got another category than their own, be it a parent of it."""
        return self._sums(5)

    def _sums(self, place: int) -> Floats:
        p = len(self.before.n)
        parts: list[Floats] = np.split(self.by_group, np.cumsum([p, p, _WHOLE, p * (p - 1) // 2, p]), axis=1)
        return parts[place]

    @classmethod
    def sum_of(cls, parts: Sequence[LossStatistics]) -> LossStatistics:
        total = reduce(add, (part.by_group[0] for part in parts))
        largest = np.partition(np.concatenate([part.by_group[1:] for part in parts]), -2, axis=0)
        return cls(
            records=sum(part.records for part in parts),
            by_group=np.stack([total, largest[-1], largest[-2]]),
            before=PairMoments.sum_of([part.before for part in parts]),
            after=PairMoments.sum_of([part.after for part in parts]),
            sdt=sum(part.sdt for part in parts),
            sdt_after=sum(part.sdt_after for part in parts),
        )

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


def loss_statistics(
    before: Floats,
    after: Floats,
    missing: Bools,
    labels: Ints | None = None,
    categories: Categories | None = None,
) -> LossStatistics:
    """Add up some records: standardized values before and after, zero where missing.

    ``labels`` are the records' groups, 0..g-1, whose records lack the same values; ``after`` has a row for each group.
    None: each record is one. Where some attributes are ``categories``, codes stand in their columns.
    """
    groups = Groups.of(np.arange(len(before)) if labels is None else labels)
    before, after = _without_missing(before, after, missing, groups)
    if categories is not None:
        return _with_categories(before, after, missing, groups, categories)
    return _of_numbers(before, after, missing, groups)


def _without_missing(before: Floats, after: Floats, missing: Bools, groups: Groups) -> tuple[Floats, Floats]:
    if missing.any():
        of_group = missing[groups.order[groups.first]]
        before, after = np.where(missing, 0.0, before), np.where(of_group, 0.0, after)
    return np.ascontiguousarray(before), np.ascontiguousarray(after)


def squares_of_records(
    before: Floats, after: Floats, missing: Bools, labels: Ints, categories: Categories | None
) -> Floats:
    """Compute the squared error of each record, of what :func:`loss_statistics` adds up.

    >>> squares_of_records(np.array([[1.0], [3.0]]), np.array([[2.5]]), np.zeros((2, 1), bool), np.array([0, 0]), None)
    array([2.25, 0.25])
    """
    groups = Groups.of(labels)
    before, after = _without_missing(before, after, missing, groups)
    if categories is None:
        return np.asarray(np.square(before - after[labels]).sum(axis=1))
    squares = np.empty(len(before))
    squares[groups.order] = _squares(before, after, ~missing[groups.order], groups, categories).sum(axis=1)
    return squares


def _squares(before: Floats, after: Floats, there: Bools, groups: Groups, categories: Categories) -> Floats:
    """Compute squared errors by attribute, records and what is ``there`` of them in the order of their groups."""
    group, came = np.repeat(np.arange(len(groups.sizes)), groups.sizes), before[groups.order]
    squares = (came - after[group]) ** 2
    for j in categories.are_some.tolist():
        if categories.is_coded[j]:
            squares[:, j] = categories.costs[j] * squares_of_codes(came[:, j].astype(np.int64), group)
        else:
            squares[:, j] = (came[:, j] - float_means(before[:, j], groups)[group]) ** 2
    return np.where(there, squares, 0.0)


def _of_numbers(before: Floats, after: Floats, missing: Bools, groups: Groups) -> LossStatistics:
    of_group = missing[groups.order[groups.first]]
    by_group, lengths = loss_sums(before, after, groups.order, groups.sizes)
    return LossStatistics(
        records=len(before),
        by_group=by_group,
        before=pair_moments(before, missing),
        after=pair_moments(after, of_group, groups.sizes),
        sdt=float(lengths[0]),
        sdt_after=float(lengths[1]),
    )


def _with_categories(
    before: Floats, after: Floats, missing: Bools, groups: Groups, categories: Categories
) -> LossStatistics:
    """Add up records of which some attributes are codes or ranks: what these lose takes the place of differences."""
    coded, p = categories.is_coded, before.shape[1]
    numbers = _of_numbers(np.where(coded, 0.0, before), np.where(coded, 0.0, after), missing | coded, groups)
    group = np.repeat(np.arange(len(groups.sizes)), groups.sizes)
    came, there = before[groups.order], ~missing[groups.order]
    squares, from_file, from_file_after = _squares(before, after, there, groups, categories), came**2, after**2
    changed, moved = np.zeros_like(squares), np.zeros_like(squares)
    for j in categories.are_some.tolist():
        if coded[j]:
            from_file[:, j], from_file_after[:, j] = (
                categories.squares_from_file(j, codes) for codes in (came[:, j], after[:, j])
            )
        moved[:, j] = came[:, j] != after[group, j]
        changed[:, j] = moved[:, j] * ~categories.is_parent(j, after[:, j])[group]
    from_file, changed, moved = (np.where(there, of, 0.0) for of in (from_file, changed, moved))
    from_file_after = np.where(there[groups.first], from_file_after, 0.0)
    length, length_after = np.sqrt(from_file.sum(axis=1)), np.sqrt(from_file_after.sum(axis=1))
    lost = np.sqrt(squares.sum(axis=1))
    own = np.column_stack([squares, squares.sum(axis=1), lost, length - length_after[group], changed, moved])
    sums = _largest(np.abs(np.add.reduceat(own, groups.first)))
    by_group = numbers.by_group.copy()
    by_group[:, categories.are_some] = sums[:, categories.are_some]
    by_group[:, 2 * p : 2 * p + _WHOLE] = sums[:, p : p + _WHOLE]
    n_coded = np.diag(np.where(coded & (categories.costs > 0), there.sum(axis=0), 0.0))
    of_codes = PairMoments(np.diag(np.where(coded, there.sum(axis=0), 0.0)), 0 * n_coded, n_coded, n_coded)
    return LossStatistics(
        records=len(before),
        by_group=np.column_stack([by_group, sums[:, p + _WHOLE :]]),
        before=PairMoments(*(getattr(numbers.before, f.name) + getattr(of_codes, f.name) for f in fields(PairMoments))),
        after=numbers.after,
        sdt=float(length.sum()),
        sdt_after=float(length_after[group].sum()),
    )


def _largest(sums: Floats) -> Floats:
    """Find the total, the largest and the second-largest of sums over groups, a row each."""
    padded = np.partition(np.vstack([sums, np.zeros((2, sums.shape[1]))]), -2, axis=0)
    return np.stack([sums.sum(axis=0), padded[-1], padded[-2]])


def losses_of(s: LossStatistics) -> Losses:
    sst = np.diag(s.before.squares).sum()
    return Losses(sse=float(s.squares[0].sum()), sst=float(sst), sde=float(s.whole[0, 1]), sdt=s.sdt)


def attribute_losses(s: LossStatistics) -> dict[str, list[float]]:
    """Compute of each attribute the loss and the share that is kept, in percent of its variance, and IL1s."""
    sst, kept = np.diag(s.before.squares), np.diag(s.after.squares)
    records = np.maximum(np.diag(s.before.n), 1.0)
    return {
        "l_sse": [percent(*of) for of in zip(s.squares[0].tolist(), sst.tolist(), strict=True)],
        "variance_kept": [percent(b, a) if a > 0 else 100.0 for a, b in zip(sst.tolist(), kept.tolist(), strict=True)],
        "il1s": (s.differences[0] / records / np.sqrt(2.0)).tolist(),
    }


def correlation_changes(s: LossStatistics) -> tuple[Floats, Ints]:
    """Measure the change of each pair of attributes that has a correlation before and after; and the pairs' places.

    A pair with fewer than two common records, or with an attribute that is constant in these, has none.

    >>> before, none = np.array([[1.0, 4.0, 5.0], [2.0, 2.0, 5.0]]), np.zeros((2, 3), dtype=bool)
    >>> correlation_changes(loss_statistics(before, before, none))
    (array([0.]), array([0]))
    """
    change = np.abs(s.after.correlations() - s.before.correlations())[np.triu_indices(len(s.before.n), 1)]
    places = np.flatnonzero(np.isfinite(change))
    return change[places], places
