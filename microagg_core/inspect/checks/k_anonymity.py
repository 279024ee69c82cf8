"""k-anonymity: every released combination of quasi-identifiers and blocking values is that of at least k units."""

from __future__ import annotations

from typing import Annotated

from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import GateCheck, Promise, ReleasedFile
from microagg_core.inspect.kanonymity import CombinationCounter
from microagg_core.inspect.notes import InTable


class KAnonymity(GateCheck[CombinationCounter]):
    """Count combinations over all files; a sum holds those that stay below k, in a release that is right none."""

    name = "k-anonymity"
    notes = Annotated[CombinationCounter, InTable(CombinationCounter.to_table, CombinationCounter.from_table)]
    of_survivors = judges_survivors = True

    def note(self, file: ReleasedFile) -> CombinationCounter:
        counter = CombinationCounter(file.promise.key_columns, file.promise.k)
        counter.add(file.once_a_unit(counter.columns))
        return counter

    def judge(self, promise: Promise, released: CombinationCounter, expected: CombinationCounter) -> Check:
        if failing := released.failing():
            return Check(self.name, False, f"{failing} combinations have fewer than k={promise.k} units")
        right = f"every combination of quasi-identifiers and blocking values has at least {promise.k} units"
        return Check(self.name, True, right)
