"""Groups: every released value lies in the range that the records of its released combination have in the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from microagg_core.privacy.check import Check
from microagg_core.privacy.checks.contract import Inspection, Promise, ReleasedFile
from microagg_core.privacy.group_ranges import Sharing, outside_ranges
from microagg_core.tables.hashing import hash_rows

_SEED = 11


@dataclass(frozen=True)
class Outside:
    """For each quasi-identifier, values outside the range; None where the input has not the file's records."""

    counts: tuple[int, ...] | None


class GroupRanges(Inspection[Outside]):
    """Compares values with ranges, file by file: the records of a combination are all in one."""

    name = "groups"
    note = Outside

    def of_file(self, file: ReleasedFile) -> Outside:
        """Hold the file's values against the input's."""
        kinds = file.promise.kinds
        if file.origins is None:
            return Outside(None if file.table.num_rows else (0,) * len(kinds))
        sharing = Sharing(
            hash_rows([file.table[name] for name in file.promise.key_columns], file.table.num_rows, _SEED)
        )
        columns = [(kind, file.origins[f"q{j}"], file.table[kind.name]) for j, kind in enumerate(kinds)]
        return Outside(tuple(outside_ranges(*column, sharing) for column in columns))

    def check(self, promise: Promise, files: Sequence[Outside], parts: Sequence[Outside]) -> Check:
        """None may be outside."""
        counts = [file.counts for file in files if file.counts is not None]
        if len(counts) < len(files):
            detail = "a file's record numbers are not those of the input's records that it holds"
            return Check(self.name, False, detail)
        wrong = [
            f"{count} values of {kind.name!r} lie outside the range of the records that share them"
            for j, kind in enumerate(promise.kinds)
            if (count := sum(of_file[j] for of_file in counts))
        ]
        right = "every released value is within the range of the records that share it, and theirs where they are equal"
        return Check(self.name, not wrong, "; ".join(wrong) or right)
