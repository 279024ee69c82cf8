"""Means: every quasi-identifier keeps its mean, but for what its rounding may move it."""

from __future__ import annotations

import pyarrow as pa

from microagg_core.data.kinds.contract import Claim, Kind
from microagg_core.group.metrics.moments import EMPTY, Moments
from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import GateCheck, InputBatch, Promise, ReleasedFile


class Means(GateCheck[tuple[Moments, ...]]):
    """Compare means; survivors are noted for figures of the whole release.

    Where cells are blanked, nobody but the file tells whose they are: behind the moments of its columns stand those of
    the same cells as they came in, which :class:`Values` holds against the input.
    """

    name = "means"
    notes = tuple[Moments, ...]
    of_survivors = True

    def note(self, file: ReleasedFile) -> tuple[Moments, ...]:
        kinds = file.promise.kinds
        released = tuple(_moments(kind.reader, file.table[kind.name]) for kind in kinds)
        if file.promise.blanked is None:
            return released
        columns = zip(kinds, file.came, strict=True) if not file.is_carried else ()
        there = ((kind, came, ~kind.reader.ticks(file.table[kind.name])[1]) for kind, came in columns)
        kept = tuple(_moments(kind, came.filter(pa.array(valid))) for kind, came, valid in there)
        return released + (kept or (EMPTY,) * len(kinds))

    def note_input(self, batch: InputBatch, before: tuple[Moments, ...] | None) -> tuple[Moments, ...]:
        columns = zip(batch.promise.kinds, batch.values, strict=True)
        return tuple(kind.moments(values) for kind, values in columns)

    def judge(self, promise: Promise, released: tuple[Moments, ...], expected: tuple[Moments, ...]) -> Check:
        """Demand the same number of values on both sides, and the same mean where a kind claims that it is kept."""
        p, wrong = len(promise.kinds), []
        kept, blanked = released[p:] or expected, promise.blanked or (0,) * p
        columns = zip(promise.kinds, expected[:p], kept, released[:p], blanked, strict=True)
        for kind, came, before, after, n_blanked in columns:
            has_mean = _keeps_mean(promise, kind)
            if (
                came.n - n_blanked != after.n
                or before.n != after.n
                or (has_mean and before.n and not kind.keeps_mean(before, after))
            ):
                wrong.append(f"the mean of {kind.name!r} is not kept" if has_mean else f"{kind.name!r} lacks values")
        whose = ", of the records that are grouped tonight" if promise.carried else ""
        if promise.schema.weight is not None:
            return Check(self.name, not wrong, "; ".join(wrong) or "no quasi-identifier lost or gained values")
        which = "" if all(Claim.MEAN_KEPT in kind.claims for kind in promise.kinds) else " that has one"
        but = "" if promise.blanked is None else ", over the values that are not blanked"
        right = f"the mean of every quasi-identifier{which} is kept{whose}{but}"
        return Check(self.name, not wrong, "; ".join(wrong) or right)


def _keeps_mean(promise: Promise, kind: Kind) -> bool:
    """Tell whether the plain mean is kept; with weights it is the weighted one, which another check holds."""
    return Claim.MEAN_KEPT in kind.claims and promise.schema.weight is None


def _moments(kind: Kind, column: pa.ChunkedArray) -> Moments:
    ticks, missing = kind.ticks(column)
    return kind.moments(ticks[kind.finite(ticks) & ~missing])
