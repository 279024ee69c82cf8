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
from microagg_core.group.metrics.dominance import Contributions, contributions_of
from microagg_core.group.metrics.figures import CorrelationChange
from microagg_core.group.metrics.losses import Losses, percent
from microagg_core.group.metrics.means import Groups
from microagg_core.group.metrics.pairs import PairMoments, pair_moments
from microagg_core.kernels.tools.loss_sums import loss_sums
from microagg_core.plain import PlainFloats


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
        """Those of all parts' records together; it takes less than adding one by one."""
        each: dict[str, list[Any]] = {f.name: [getattr(part, f.name) for part in parts] for f in fields(cls)}
        before, after = (PairMoments.sum_of(each.pop(name)) for name in ("before", "after"))
        largest = Contributions.sum_of(each.pop("largest"))
        sums = {name: reduce(add, values) for name, values in each.items()}
        return cls(**sums, before=before, after=after, largest=largest)

    def __add__(self, other: LossStatistics) -> LossStatistics:
        return self.sum_of((self, other))


def significant(value: float, digits: int = 6) -> float:
    """A number to so many significant digits.

    >>> significant(12.3456789), significant(0.0)
    (12.3457, 0.0)
    """
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value


def readable(value: float, digits: int = 6, *, apart: bool | None = None) -> str:
    """A number to so many significant digits as a person reads it, not as a power of ten unless it is very small.

    ``apart``: whether thousands have commas; None: from 10,000 on, as years have none.

    >>> readable(50541200.0), readable(1945.0), readable(2.79124e7, apart=False), readable(117.3, 2), readable(0.0)
    ('50,541,200', '1945', '27912400', '120', '0')
    """
    text = f"{value:.{digits}g}"
    if not 1e-4 <= abs(value) < 1e17:
        return text
    return f"{Decimal(text):{',' if (abs(value) >= 10_000 if apart is None else apart) else ''}f}"


def loss_statistics(before: Floats, after: Floats, missing: Bools, labels: Ints | None = None) -> LossStatistics:
    """The statistics of some records: standardized values before and after, zero where missing.

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
    """SSE, SST, SDE and SDT, and the losses they make."""
    return Losses(sse=float(s.sse.sum()), sst=float(_squares(s.before).sum()), sde=s.sde, sdt=s.sdt)


@dataclass(frozen=True)
class AttributeLosses:
    """Of one attribute: loss in percent of its variance, the share of variance kept, and IL1s."""

    l_sse: float
    variance_kept: float
    il1s: float


def attribute_losses(s: LossStatistics) -> list[AttributeLosses]:
    """The losses of each attribute."""
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
    """By how much correlations change, over the pairs of attributes that have one before and after.

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
    """By how much each pair's correlation changes, of those that have one before and after; and their places."""
    all_pairs = np.triu_indices(len(s.sse), 1)
    change = np.abs(s.after.correlations() - s.before.correlations())[all_pairs]
    places = np.flatnonzero(np.isfinite(change))
    return change[places], places


def _squares(pairs: PairMoments) -> Floats:
    """Sums of squared deviations of each attribute."""
    return np.diag(pairs.squares)
