"""Hierarchies: the values of a column below parents, such as occupations below trades, and all of these below ``*``.

Values are leaves. Where several are to be told as one, their *least common parent* is the one that has all of them
below it and as few others as may be. A parent is released as its label, or as its code where it has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

#: What all values are below.
ROOT = "*"
#: Levels below the root; a code that lies deeper is a mistake.
MOST_LEVELS = 30
#: A code, its parent, and its label; "" where there is none.
Row = tuple[str, str, str]


@dataclass(frozen=True)
class Hierarchy:
    """A hierarchy as rows by code; of the root there is one only if it has a label.

    >>> jobs = Hierarchy.of([("Craft", "Manual", ""), ("Farming", "Manual", ""), ("Sales", "", ""), ("Manual", "", "")])
    >>> jobs.leaves, jobs.least_common(["Craft", "Farming"]), jobs.least_common(["Craft", "Sales"])
    (('Craft', 'Farming', 'Sales'), 'Manual', '*')
    """

    rows: tuple[Row, ...]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Hierarchy:
        """Put codes that have no parent below the root, those that are named as parents alone too."""
        own = {code: (code, "" if code == ROOT else parent or ROOT, label) for code, parent, label in rows}
        above = {parent: (parent, ROOT, "") for _, parent, _ in own.values() if parent not in ("", ROOT)}
        return cls(tuple(sorted((above | own).values())))

    @cached_property
    def parent_of(self) -> Mapping[str, str]:
        return {code: parent for code, parent, _ in self.rows if code != ROOT}

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        inner = set(self.parent_of.values())
        return tuple(code for code in self.parent_of if code not in inner)

    @cached_property
    def parents(self) -> tuple[str, ...]:
        """The root, and the other codes that are no leaves."""
        return (ROOT, *sorted({*self.parent_of.values()} - {ROOT}))

    def name(self, parent: str) -> str:
        return self._labels.get(parent) or parent

    @cached_property
    def _labels(self) -> dict[str, str]:
        return {code: label for code, _, label in self.rows}

    def path(self, code: str) -> list[str]:
        """List codes from the root down to one."""
        path = [code]
        while path[-1] != ROOT:
            path.append(self.parent_of[path[-1]])
        return path[::-1]

    def least_common(self, values: Iterable[str | None]) -> str:
        """Find the least common parent of different values; that of a missing one and others is the root."""
        paths = [[ROOT] if value is None else self.path(value) for value in values]
        agreeing: list[str] = [level[0] for level in zip(*paths, strict=False) if len(set(level)) == 1]
        return agreeing[-1]


def row_problems(rows: Sequence[Row]) -> Iterator[tuple[int, str]]:
    """Find rows that make no tree, by their places: what is wrong with a code.

    >>> list(row_problems([("a", "b", ""), ("b", "a", ""), ("c", "", ""), ("c", "a", "")]))
    [(0, 'is above itself'), (1, 'is above itself'), (3, 'is there twice; give it one parent')]
    """
    first = {code: place for place, (code, _, _) in reversed([*enumerate(rows)])}
    parent_of = {code: rows[place][1] for code, place in first.items()}
    for place, (code, parent, _) in enumerate(rows):
        if not code:
            yield place, "is empty"
        elif first[code] != place:
            yield place, "is there twice; give it one parent"
        elif code == ROOT and parent:
            yield place, f"is what all others are below, and has no parent itself; write another for {ROOT}"
        else:
            yield from ((place, why) for why in _wrong_above(code, parent_of))


def _wrong_above(code: str, parent_of: Mapping[str, str]) -> Iterator[str]:
    above, seen = parent_of[code], {code, ROOT, ""}
    while above not in seen and len(seen) < MOST_LEVELS + 3:
        seen.add(above)
        above = parent_of.get(above, "")
    if above == code != ROOT:
        yield "is above itself"
    elif above not in seen:
        yield f"lies more than {MOST_LEVELS} levels deep"


def name_problems(hierarchy: Hierarchy) -> Iterator[tuple[str, str]]:
    """Find parents that nobody could tell from something else, by their codes; and what is no hierarchy.

    >>> list(name_problems(Hierarchy.of([("a", "x", ""), ("b", "x", ""), ("x", "", "a")])))
    [('x', 'is released as another code is; give it another label')]
    """
    if len(hierarchy.leaves) < 2:
        yield ROOT, "has fewer than two values below it"
    names = set(hierarchy.leaves)
    for parent in hierarchy.parents:
        if hierarchy.name(parent) in names:
            yield parent, "is released as another code is; give it another label"
        names.add(hierarchy.name(parent))
