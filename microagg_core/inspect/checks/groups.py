"""Groups: every released value lies in the range that the records of its released combination have in the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from microagg_core.data.tables.ordering import combinations
from microagg_core.inspect.check import Check
from microagg_core.inspect.checks.contract import Inspection, Promise, ReleasedFile
from microagg_core.inspect.group_ranges import Sharing, outside_ranges


@dataclass(frozen=True)
class Outside:
    """For each quasi-identifier, values outside the range."""

    counts: tuple[int, ...]


class GroupRanges(Inspection[Outside]):
    """Compares values with ranges, file by file: the records of a combination are all in one."""

    name = "groups"
    note = Outside

    def of_file(self, file: ReleasedFile) -> Outside:
        """Hold the file's values against those that came in, which :class:`Values` holds against the input's."""
        kinds, keys = file.promise.kinds, file.promise.key_columns
        sharing = Sharing(combinations([file.table[name] for name in keys], file.table.num_rows)[0])
        columns = [(kind, came, file.table[kind.name]) for kind, came in zip(kinds, file.came, strict=True)]
        return Outside(tuple(outside_ranges(*column, sharing) for column in columns))

    def check(self, promise: Promise, files: Sequence[Outside], parts: Sequence[Outside]) -> Check:
        """None may be outside."""
        wrong = [
            f"{count} values of {kind.name!r} lie outside the range of the records that share them"
            for j, kind in enumerate(promise.kinds)
            if (count := sum(file.counts[j] for file in files))
        ]
        right = "every released value is within the range of the records that share it, and theirs where they are equal"
        return Check(self.name, not wrong, "; ".join(wrong) or right)
