"""Known sets: every combination of each set of columns that somebody may know is that of at least k units."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import GateCheck, Promise, ReleasedFile
from microagg_core.inspect.kanonymity import MOST_SPREAD, SpreadCounter
from microagg_core.inspect.notes import InTable

Counters: TypeAlias = tuple[Annotated[SpreadCounter, InTable(SpreadCounter.to_table, SpreadCounter.from_table)], ...]


class KnownSets(GateCheck[Counters]):
    """Count the sets that have a confidential column; combinations of the others are some of k-anonymity's together."""

    name = "known sets"
    notes = Counters
    of_survivors = judges_survivors = True

    def note(self, file: ReleasedFile) -> Counters:
        counters = tuple(SpreadCounter(names, file.promise.k) for names in file.promise.known_besides)
        for counter in counters:
            counter.add(file.once_a_unit(counter.columns))
        return counters

    def judge(self, promise: Promise, released: Counters, expected: Counters) -> Check | None:
        if not promise.known:
            return None
        wrong = [
            f"{_found(counter)}; {known_cure(counter.columns, promise.key_columns)}"
            for counter in released
            if counter.is_given_up or counter.failing()
        ]
        right = f"every combination of each of {len(promise.known)} sets of columns has at least {promise.k} units"
        return Check(self.name, not wrong, "; ".join(wrong) or right)


def _found(counter: SpreadCounter) -> str:
    names = ", ".join(counter.columns)
    if counter.is_given_up:
        return f"[{names}] has more than {MOST_SPREAD:,} combinations, which are not counted"
    return f"{counter.failing():,} combinations of [{names}] have fewer than k={counter.k} units"


def known_cure(names: tuple[str, ...], key_columns: tuple[str, ...]) -> str:
    """Say what to do about a known set that has confidential columns.

    >>> known_cure(("age", "job"), ("age", "sex"))
    "make 'job' a quasi-identifier or a blocking column, coarsen it, or leave it out of known"
    """
    own = [name for name in names if name not in key_columns]
    what, it = ("a quasi-identifier or a blocking column", "it") if len(own) == 1 else ("key columns", "them")
    return f"make {' and '.join(map(repr, own))} {what}, coarsen {it}, or leave {it} out of known"
