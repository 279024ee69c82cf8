"""Groups: every released value may stand for the values that came in among the records of its released combination.

Groups are taken for what a reader sees, the records of one released combination; how they were made is not asked. What
may stand for the values of a group is for their kind to say: of numbers, what lies within their range.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats
from microagg_core.data.kinds.contract import Claim, Kind
from microagg_core.group.metrics.moments import Groups
from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import GateCheck, Promise, ReleasedFile

_WRONG = {True: "lie outside the range of", False: "may not stand for"}


class GroupRanges(GateCheck[tuple[int, ...]]):
    """Count values outside the range by column, file by file: the records of a combination are all in one."""

    name = "groups"
    notes = tuple[int, ...]

    def note(self, file: ReleasedFile) -> tuple[int, ...]:
        """Hold the file's values against those that came in, which :class:`Values` holds against the input's."""
        sharing, kinds = Sharing(file.combinations[0], file.weights), file.promise.kinds
        columns = [(kind, came, file.table[kind.name]) for kind, came in zip(kinds, file.came, strict=True)]
        may_be_blank = file.promise.blanked is not None
        return tuple(outside_ranges(*column, sharing, may_be_blank=may_be_blank) for column in columns)

    def judge(self, promise: Promise, released: tuple[int, ...], expected: tuple[int, ...]) -> Check:
        wrong = [
            f"{count} values of {kind.name!r} {_WRONG[Claim.WITHIN_RANGE in kind.claims]} the records that share them"
            for kind, count in zip(promise.kinds, released, strict=True)
            if count
        ]
        right = "every released value is within the range of the records that share it, and theirs where they are equal"
        if not all(Claim.WITHIN_RANGE in kind.claims for kind in promise.kinds):
            right = "every released value may stand for the records that share it, and is theirs where they are equal"
        return Check(self.name, not wrong, "; ".join(wrong) or right)


class Sharing:
    """Records by the released combination that they share, of which each has a number; and their survey weights."""

    def __init__(self, combination: NDArray[Any], weights: Floats | None = None) -> None:
        self._combination, self._weights = combination, weights

    @cached_property
    def _groups(self) -> Groups:
        return _groups_of(self._combination)

    def among(self, rows: Bools) -> Groups:
        groups = self._groups if rows.all() else _groups_of(self._combination[rows])
        return groups if self._weights is None else replace(groups, weights=self._weights[rows])


def outside_ranges(
    kind: Kind, came: pa.ChunkedArray, released: pa.ChunkedArray, sharing: Sharing, *, may_be_blank: bool = False
) -> int:
    """Count released values that may not stand for the input's values of their combination.

    A value that is missing on one side only counts; where cells ``may_be_blank``, a value that is there for none does.

    >>> from microagg_core.data.kinds.registry import kind_of
    >>> values = lambda *v: pa.chunked_array([v])
    >>> sharing = Sharing(np.array([1, 1, 2, 2], dtype=np.uint64))
    >>> outside_ranges(kind_of("x", pa.int64()), values(1, 4, 7, 7), values(2, 2, 7, 8), sharing)
    1
    """
    before, missing = kind.ticks(came)
    after, missing_after = kind.reader.ticks(released)
    there = ~(missing | missing_after)
    wrong = int(np.sum(missing > missing_after if may_be_blank else missing != missing_after))
    if not there.any():
        return wrong
    return wrong + int(np.sum(~kind.fits(before[there], after[there], sharing.among(there))))


def _groups_of(combination: NDArray[Any]) -> Groups:
    # As a file's rows lie, so their numbers ascend already.
    is_ordered = bool(np.all(combination[1:] >= combination[:-1]))
    order = np.arange(len(combination)) if is_ordered else np.argsort(combination)
    ordered = combination if is_ordered else combination[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return Groups(order, first, np.diff(np.append(first, len(ordered))))
