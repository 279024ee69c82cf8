"""Missing values: as many in each column as came in or were announced, and no quasi-identifier that is not finite."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import GateCheck, InputBatch, Promise, ReleasedFile

#: Missing values by column, and quasi-identifiers that are there and not finite.
Nulls: TypeAlias = tuple[dict[str, int], int]


def _nulls(table: pa.Table) -> dict[str, int]:
    return {name: table[name].null_count for name in table.column_names}


class MissingValues(GateCheck[Nulls]):
    name = "missing values"
    notes = Nulls

    def note(self, file: ReleasedFile) -> Nulls:
        unusable = (kind.reader.count_unusable(file.table[kind.name]) for kind in file.promise.kinds)
        return _nulls(file.table), sum(unusable)

    def note_input(self, batch: InputBatch, before: Nulls | None) -> Nulls:
        return _nulls(batch.expected), 0

    def judge(self, promise: Promise, released: Nulls, expected: Nulls) -> Check:
        """Demand the same number on both sides, in every column, but for what is blanked."""
        (nulls, not_finite), (should_be, _) = released, expected
        names = [kind.name for kind in promise.kinds]
        blanked = dict(zip(names, promise.blanked or (0,) * len(names), strict=True))
        categories = {kind.name for kind in promise.kinds if kind.null_is_category}
        wrong = [
            f"column {name!r} has {after} missing values instead of {should_be[name] + blanked.get(name, 0)}"
            for name, after in nulls.items()
            if after != should_be[name] + blanked.get(name, 0) and name not in categories
        ]
        if not_finite:
            is_category = any(kind.declared_as != "number" for kind in promise.kinds)
            other = ", or no category of the input" if is_category else ""
            wrong.append(f"{not_finite} released quasi-identifiers are not finite{other}")
        but = f", but for {', '.join(map(repr, sorted(categories)))}, where that is a category" if categories else ""
        right = f"no value turned missing or non-finite{but}"
        if promise.blanked is not None:
            right = "missing values are those that came in and those that were to be blanked, and none is non-finite"
        return Check(self.name, not wrong, "; ".join(wrong) or right)
