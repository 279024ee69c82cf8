"""Weights: of every group the weight in all and the weighted totals are kept, and no record has most of its weight.

Groups are what a reader sees, the records of one released combination, of which the released weight is a part. What
came in stands beside each file, and :class:`~microagg_core.inspect.checks.values.Values` holds it against the input's:
so totals that are kept in every group are kept in every label, and in all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from microagg_core.arrays import Bools, Floats
from microagg_core.data.kinds.averages import AveragedKind
from microagg_core.data.kinds.contract import Claim, Kind
from microagg_core.group.metrics.moments import MOST_OF_WEIGHT
from microagg_core.inspect.check import Check
from microagg_core.inspect.checks.groups import Sharing
from microagg_core.inspect.contract import GateCheck, Promise, ReleasedFile
from microagg_core.plain import PlainFloats

#: Totals are off by no more than this share of the sum of what is added, without signs.
_OFF = 1e-9
#: A record's share of its group's weight is above a half by no more than its rounding can be.
_MOST = MOST_OF_WEIGHT * (1.0 + 5e-10)


@dataclass(frozen=True)
class Weighed:
    """Sums over groups, by quasi-identifier where they are arrays; two sets combine by addition."""

    #: Groups whose total is not kept, the weight's own among them; and groups of whose weight one record has most.
    off: tuple[int, ...] = ()
    dominated: int = 0
    #: The largest share that a record has of its group's weight, and the largest weight.
    largest_share: float = 0.0
    largest: float = 0.0
    #: Weighted totals as they came and as they are released, and the largest difference of a group's, relative.
    before: PlainFloats = field(default_factory=lambda: np.zeros(0))
    after: PlainFloats = field(default_factory=lambda: np.zeros(0))
    farthest: float = 0.0
    #: On the scale of the metric, by column that has a mean: weights, weighted values and their squares; over all of
    #: them, what weighted squares lose, and the most that a group loses if each of its records had the weight 1.
    sums: PlainFloats = field(default_factory=lambda: np.zeros((0, 3)))
    lost: float = 0.0
    most_lost: float = 0.0

    def __add__(self, other: Weighed) -> Weighed:
        if not (self.off and other.off):
            return self if self.off else other
        return Weighed(
            off=tuple(a + b for a, b in zip(self.off, other.off, strict=True)),
            dominated=self.dominated + other.dominated,
            largest_share=max(self.largest_share, other.largest_share),
            largest=max(self.largest, other.largest),
            before=self.before + other.before,
            after=self.after + other.after,
            farthest=max(self.farthest, other.farthest),
            sums=self.sums + other.sums,
            lost=self.lost + other.lost,
            most_lost=max(self.most_lost, other.most_lost),
        )

    @property
    def weights_of_columns(self) -> Floats:
        """The weight of the records that have each column; 0 where it has no mean."""
        return self.sums[:, 0]

    @property
    def squares(self) -> float:
        """Weighted squared deviations from the weighted means, over all columns."""
        weight, values, squares = self.sums.T
        return float(np.sum(squares - values * values / np.maximum(weight, np.finfo(float).tiny)))


class Weights(GateCheck[Weighed]):
    name = "weights"
    notes = Weighed

    def note(self, file: ReleasedFile) -> Weighed:
        if file.promise.schema.weight is None or not file.table.num_rows:
            return Weighed()
        return _Weighing(file).noted()

    def judge(self, promise: Promise, released: Weighed, expected: Weighed) -> Check | None:
        weight = promise.schema.weight
        if weight is None:
            return None
        wrong = [
            f"the {'sum' if kind.is_weight else 'weighted total'} of {kind.name!r} is not kept in {count} groups"
            for kind, count in zip(promise.kinds, released.off, strict=bool(released.off))
            if count
        ]
        if released.dominated:
            wrong.append(f"in {released.dominated} groups one record has more than half of the weight")
        rounded = [kind.name for kind in promise.kinds if _rounding(kind, 1.0) and not kind.is_weight]
        but_for = f", but for the rounding of {', '.join(map(repr, rounded))}" if rounded else ""
        right = (
            f"the sum of {weight!r} and the weighted total of every quasi-identifier that has a mean are those of the "
            f"input in every group{but_for}, and no record has more than half of the weight of its group"
        )
        return Check(self.name, not wrong, "; ".join(wrong) or right)


class _Weighing:
    """The records of a file with their weights, as they came and as they are released."""

    def __init__(self, file: ReleasedFile) -> None:
        kinds, table = file.promise.kinds, file.table
        self.file, self.kinds, self.sharing = file, kinds, Sharing(file.combinations[0])
        self.came = [kind.ticks(came) for kind, came in zip(kinds, file.came, strict=True)]
        self.released = [kind.reader.ticks(table[kind.name]) for kind in kinds]
        (place,) = (j for j, kind in enumerate(kinds) if kind.is_weight)
        self.weights, self.released_weights = self.came[place][0], self.released[place][0]

    def noted(self) -> Weighed:
        groups = self.sharing.among(np.ones(len(self.weights), dtype=np.bool_))
        shares = groups.greatest_shares(self.weights)
        columns = [self._totals(j) for j in range(len(self.kinds))]
        sums, plain = self._losses()
        return Weighed(
            off=tuple(int(np.sum(column.off)) for column in columns),
            dominated=int(np.sum(~(shares <= _MOST))),
            largest_share=float(shares.max()),
            largest=float(self.weights.max()),
            before=np.array([column.before.sum() for column in columns]),
            after=np.array([column.after.sum() for column in columns]),
            farthest=max(column.farthest for column in columns),
            sums=sums,
            lost=float(np.sum(self.weights * plain)),
            most_lost=float(groups.sums(plain).max()),
        )

    def _there(self, j: int) -> Bools:
        return ~(self.came[j][1] | self.released[j][1])

    def _totals(self, j: int) -> _Totals:
        kind, there = self.kinds[j], self._there(j)
        if not there.any() or not (kind.is_weight or Claim.MEAN_KEPT in kind.claims):
            return _Totals(*np.zeros((4, 0)))
        w, w_after = self.weights[there], self.released_weights[there]
        x = x_after = np.ones(len(w))
        if not kind.is_weight:
            x = kind.plain_numbers(self.came[j][0][there], 0)
            x_after = kind.reader.plain_numbers(self.released[j][0][there], 0)
        groups = self.sharing.among(there)
        size = groups.sums(w * np.abs(x))
        allowed = _OFF * size + _rounding(kind, float(np.abs(x).max())) * groups.sums(w_after)
        return _Totals(groups.sums(w * x), groups.sums(w_after * x_after), size, allowed)

    def _losses(self) -> tuple[Floats, Floats]:
        """Add up weights, weighted values and their squares by column; and what each record loses, unweighted."""
        encoding = self.file.promise.encoding
        offsets = encoding.offsets_of([ticks for ticks, _ in self.came])
        columns = zip(encoding.kinds, self.released, encoding.origins, strict=True)
        after = np.column_stack([kind.released_offsets(ticks, origin) for kind, (ticks, _), origin in columns])
        missing = np.column_stack([~self._there(j) for j in range(len(self.kinds))])
        missing |= [kind.is_weight or Claim.MEAN_KEPT not in kind.claims for kind in self.kinds]
        z, z_after = encoding.standardize(offsets, missing), encoding.standardize(after, missing)
        w = np.where(missing, 0.0, self.weights[:, None])
        sums = np.stack([w.sum(axis=0), (w * z).sum(axis=0), (w * z * z).sum(axis=0)], axis=1)
        return sums, np.sum((z - z_after) ** 2, axis=1)


@dataclass(frozen=True)
class _Totals:
    """Weighted totals of a column by group: before and after, without signs, and how far they may differ."""

    before: Floats
    after: Floats
    size: Floats
    allowed: Floats

    @property
    def off(self) -> Bools:
        return ~(np.abs(self.after - self.before) <= self.allowed)

    @property
    def farthest(self) -> float:
        """The largest difference, as a share of the total without signs."""
        there = self.size > 0
        return float((np.abs(self.after - self.before)[there] / self.size[there]).max(initial=0.0))


def _rounding(kind: Kind, largest: float) -> float:
    """Bound by how much the rounding of a mean moves it, where no value is larger than this."""
    return kind.rounding_error(largest) if isinstance(kind, AveragedKind) and not kind.is_weight else 0.0
