"""Edits: rules between columns, counted in records as they came and as they are released; some of them stop it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import GateCheck, Promise, ReleasedFile
from microagg_core.inspect.edits import Column, EditCount, RuleCount, count_of

Counts: TypeAlias = tuple[EditCount, ...]


class Edits(GateCheck[Counts]):
    """Count the spec's rules, one after the other; survivors, of whom nobody keeps how they came, only as released.

    What came in lies beside each file, and :class:`Values` holds it against the input.
    """

    name = "edits"
    notes = Counts
    of_survivors = True

    def note(self, file: ReleasedFile) -> Counts:
        edits = file.promise.edits
        if not edits:
            return ()
        after: Mapping[str, Column] = {name: file.table[name] for name in file.table.column_names}
        names = [kind.name for kind in file.promise.kinds]
        before = None if file.is_carried else {**after, **dict(zip(names, file.came, strict=True))}
        rules = [edit.comparison for edit in edits]
        return tuple(
            EditCount(RuleCount() if before is None else count_of(rule, before), count_of(rule, after))
            for rule in rules
        )

    def judge(self, promise: Promise, released: Counts, expected: Counts) -> Check | None:
        """Refuse a rule that is broken more often than in the input, where the spec says that this stops a release."""
        stopping = [pair for pair in zip(promise.edits, released, strict=True) if pair[0].stop]
        if not stopping:
            return None
        wrong = [count.in_words(edit.rule) for edit, count in stopping if count.is_worse]
        return Check(self.name, not wrong, "; ".join(wrong) or "no rule is broken more often than in the input")
