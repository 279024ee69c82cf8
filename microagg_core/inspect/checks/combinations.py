"""k-anonymity: every released combination of quasi-identifiers and blocking values is that of at least k units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Base64Bytes

from microagg_core.data.tables.slices import read_slice, to_bytes
from microagg_core.inspect.check import Check
from microagg_core.inspect.checks.contract import Inspection, Promise, ReleasedFile
from microagg_core.inspect.kanonymity import CombinationCounter


@dataclass(frozen=True)
class Combinations:
    """The combinations that a file does not show k times, with their counts; in a release that is right, none."""

    counter: Base64Bytes


class KAnonymity(Inspection[Combinations]):
    """Counts combinations over all files."""

    name = "k-anonymity"
    of_all_files = True
    note = Combinations

    def of_file(self, file: ReleasedFile) -> Combinations:
        """Count the file's own."""
        counter = CombinationCounter(file.promise.key_columns, file.promise.k)
        counter.add(file.table)
        return Combinations(to_bytes(counter.to_table()))

    def check(self, promise: Promise, files: Sequence[Combinations], parts: Sequence[Combinations]) -> Check:
        """None may stay below k once the files are counted together."""
        counter = CombinationCounter(promise.key_columns, promise.k)
        for file in files:
            counter.merge(CombinationCounter.from_table(read_slice(file.counter)))
        if failing := counter.failing():
            return Check(self.name, False, f"{failing} combinations have fewer than k={promise.k} units")
        right = f"every combination of quasi-identifiers and blocking values has at least {promise.k} units"
        return Check(self.name, True, right)
