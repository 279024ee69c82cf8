"""Counts of a night, added up over ranges; for the operator alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Self


class _Added:
    """Counts that add up field by field."""

    @classmethod
    def total(cls, counts: Iterable[Self]) -> Self:
        """All of them together."""
        rows = [[getattr(one, field.name) for field in fields(cls)] for one in counts]  # type: ignore[arg-type]
        return cls(*(sum(column) for column in zip(*rows, strict=True)))


@dataclass(frozen=True)
class MatchCounts(_Added):
    """What meeting the input with the ledger came to.

    >>> MatchCounts.total([MatchCounts(arrivals=1), MatchCounts(arrivals=2, leavers=1)]).arrivals
    3
    """

    #: Records whose unit has another record.
    repeated: int = 0
    arrivals: int = 0
    #: Units of the input that are never released again.
    closed: int = 0
    #: Units of the input that some night released.
    released_before: int = 0
    leavers: int = 0
    #: Units of the ledger that some night released.
    released: int = 0
    #: Of these, who have a confidential row of their own in their range.
    alone: int = 0


@dataclass(frozen=True)
class FateCounts(_Added):
    """What becomes of the units that were released before."""

    carried: int = 0
    ghosts: int = 0
    withheld: int = 0
    vanished: int = 0
    #: Changed values, or rows where no column is watched, that are released as they were last.
    held_back: int = 0


@dataclass(frozen=True)
class FateNotes:
    """What is noted of one range of atoms: counts, and the nights whose releases hold the values of its atoms."""

    counts: FateCounts
    nights: tuple[int, ...]


@dataclass(frozen=True)
class GateCounts(_Added):
    """What a candidate file, or a range of the next ledger, has that it should not have."""

    #: Units that are released although they never may be again.
    again: int = 0
    #: Survivors that are not released in the class in which they were last.
    moved: int = 0
    #: Survivors, or ghosts, with values that are neither tonight's nor those of their last release.
    altered: int = 0
    #: Released records whose unit is not known.
    unknown: int = 0
    #: Atoms of which some are released, and others may be later.
    split: int = 0
