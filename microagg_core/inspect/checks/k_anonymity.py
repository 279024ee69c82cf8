"""k-anonymity: every released combination of quasi-identifiers and blocking values is that of at least k units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import GateCheck, Promise, ReleasedFile
from microagg_core.inspect.kanonymity import CombinationCounter
from microagg_core.inspect.notes import InTable


@dataclass(frozen=True)
class Combinations:
    """The combinations that files do not show k times, with their counts; in a release that is right, none."""

    counter: Annotated[CombinationCounter, InTable(CombinationCounter.to_table, CombinationCounter.from_table)]

    def __add__(self, other: Combinations) -> Combinations:
        return Combinations(self.counter + other.counter)


class KAnonymity(GateCheck[Combinations]):
    """Counts combinations over all files."""

    name = "k-anonymity"
    notes = Combinations
    of_survivors = judges_survivors = True

    def note(self, file: ReleasedFile) -> Combinations:
        counter = CombinationCounter(file.promise.key_columns, file.promise.k)
        counter.add(file.table)
        return Combinations(counter)

    def nothing(self, promise: Promise) -> Combinations:
        return Combinations(CombinationCounter(promise.key_columns, promise.k))

    def judge(self, promise: Promise, released: Combinations, expected: Combinations) -> Check:
        if failing := released.counter.failing():
            return Check(self.name, False, f"{failing} combinations have fewer than k={promise.k} units")
        right = f"every combination of quasi-identifiers and blocking values has at least {promise.k} units"
        return Check(self.name, True, right)
