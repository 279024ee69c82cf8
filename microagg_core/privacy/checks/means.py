"""Means: every quasi-identifier keeps its mean, but for what its rounding may move it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.kinds.encoding import QuasiType, quasi_type
from microagg_core.metrics.moments import EMPTY, Moments, merge, merge_all, moments_of
from microagg_core.privacy.checks.contract import InputBatch, Inspection, Promise, ReleasedFile
from microagg_core.privacy.outcome import Check


@dataclass(frozen=True)
class QuasiMoments:
    """The moments of each quasi-identifier."""

    moments: tuple[Moments, ...]


class Means(Inspection[QuasiMoments]):
    """Compares means."""

    name = "means"
    note = QuasiMoments

    def of_file(self, file: ReleasedFile) -> QuasiMoments:
        """Moments of what is released."""
        return QuasiMoments(tuple(_moments(kind, file.table[kind.name]) for kind in file.promise.types))

    def of_batch(self, batch: InputBatch, before: QuasiMoments | None) -> QuasiMoments:
        """Moments of what came in."""
        earlier = before.moments if before else (EMPTY,) * len(batch.values)
        pairs = zip(earlier, batch.values, strict=True)
        return QuasiMoments(tuple(merge(moments, moments_of(values)) for moments, values in pairs))

    def check(self, promise: Promise, files: Sequence[QuasiMoments], parts: Sequence[QuasiMoments]) -> Check:
        """The same number of values on both sides, and the same mean."""
        wrong = []
        for j, kind in enumerate(promise.types):
            before, after = (merge_all(note.moments[j] for note in side) for side in (parts, files))
            if before.n != after.n or (before.n and not _mean_kept(kind, before, after)):
                wrong.append(f"the mean of {kind.name!r} is not kept")
        return Check(self.name, not wrong, "; ".join(wrong) or "the mean of every quasi-identifier is kept")


def _moments(kind: QuasiType, column: pa.ChunkedArray) -> Moments:
    released = quasi_type(kind.name, kind.released_type, "type")
    ticks, missing = released.ticks(column)
    finite = np.isfinite(ticks) if released.kind == "float" else np.ones(len(ticks), dtype=np.bool_)
    return moments_of(ticks[finite & ~missing])


def _mean_kept(kind: QuasiType, before: Moments, after: Moments) -> bool:
    """Within 1e-9 deviations, 4 units in the last place of the largest magnitude, and half the rounding step."""
    unit = 10.0**kind.scale if kind.kind == "int" and not kind.step else 1.0
    if unit == 1.0 and isinstance(before.origin, int) == isinstance(after.origin, int):
        difference = after.mean_from(before.origin) - before.mean
    else:
        difference = (float(after.origin) + after.mean) - (float(before.origin) + before.mean) / unit
    largest = max(abs(float(before.least)), abs(float(before.greatest))) / unit
    half_step = kind.step / 2.0 if kind.decimals is None else 0.5 * 10.0**-kind.decimals
    if kind.released_type == pa.float32():
        half_step += float(np.spacing(np.float32(largest))) / 2.0
    tolerance = 1e-9 * before.deviation / unit + 4 * float(np.spacing(largest)) + half_step
    return abs(difference) <= tolerance
