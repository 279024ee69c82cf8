"""Means: every quasi-identifier keeps its mean, but for what its rounding may move it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from microagg_core.data.kinds.contract import Claim, Kind
from microagg_core.group.metrics.moments import EMPTY, Moments, merge, merge_all
from microagg_core.inspect.check import Check
from microagg_core.inspect.checks.contract import InputBatch, Inspection, Promise, ReleasedFile


@dataclass(frozen=True)
class QuasiMoments:
    """The moments of each quasi-identifier."""

    moments: tuple[Moments, ...]


class Means(Inspection[QuasiMoments]):
    """Compares means."""

    name = "means"
    note = QuasiMoments
    notes_all_files = True

    def of_file(self, file: ReleasedFile) -> QuasiMoments:
        """Moments of what is released."""
        return QuasiMoments(tuple(_moments(kind.reader, file.table[kind.name]) for kind in file.promise.kinds))

    def of_batch(self, batch: InputBatch, before: QuasiMoments | None) -> QuasiMoments:
        """Moments of what came in."""
        earlier = before.moments if before else (EMPTY,) * len(batch.values)
        columns = zip(batch.promise.kinds, earlier, batch.values, strict=True)
        return QuasiMoments(tuple(merge(moments, kind.moments(values)) for kind, moments, values in columns))

    def check(self, promise: Promise, files: Sequence[QuasiMoments], parts: Sequence[QuasiMoments]) -> Check:
        """The same number of values on both sides, and the same mean."""
        wrong = []
        for j, kind in enumerate(promise.kinds):
            before, after = (merge_all(note.moments[j] for note in side) for side in (parts, files))
            has_mean = Claim.MEAN_KEPT in kind.claims
            if before.n != after.n or (has_mean and before.n and not kind.keeps_mean(before, after)):
                wrong.append(f"the mean of {kind.name!r} is not kept" if has_mean else f"{kind.name!r} lacks values")
        whose = ", of the records that are grouped tonight" if promise.carried else ""
        which = "" if all(Claim.MEAN_KEPT in kind.claims for kind in promise.kinds) else " that has one"
        kept = f"the mean of every quasi-identifier{which} is kept{whose}"
        return Check(self.name, not wrong, "; ".join(wrong) or kept)


def _moments(kind: Kind, column: pa.ChunkedArray) -> Moments:
    ticks, missing = kind.ticks(column)
    return kind.moments(ticks[kind.finite(ticks) & ~missing])
