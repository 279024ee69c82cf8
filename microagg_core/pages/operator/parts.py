"""Parts of the page: sections of sentences, charts and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: What stands in a column of figures.
_FIGURE: Final = re.compile(r"[-–]?[\d.,e+-]*(?: ?[%a-zA-Z]{1,4})*(?: ± [\d.]+ %)?")


@dataclass(frozen=True)
class PageTable:
    """A table; its first column names the rows."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def figures(self) -> tuple[bool, ...]:
        """Tell which columns have figures alone."""
        cells = ([row[j] for row in self.rows] for j in range(len(self.header)))
        return tuple(all(_FIGURE.fullmatch(cell) for cell in column) for column in cells)

    @classmethod
    def of(cls, caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> PageTable | None:
        """Make a table; None without rows."""
        return cls(caption, tuple(header), tuple(map(tuple, rows))) if rows else None


@dataclass(frozen=True)
class PageChart:
    """An SVG, a sentence that says what it shows, and its figures as a table."""

    title: str
    svg: str
    says: str = ""
    table: PageTable | None = None


@dataclass(frozen=True)
class PageSection:
    """A section; ``says`` stands over its charts, ``notes`` under them."""

    id: str
    title: str
    says: tuple[str, ...] = ()
    charts: tuple[PageChart, ...] = ()
    #: Shown at once, and only to who opens them.
    tables: tuple[PageTable, ...] = ()
    folded: tuple[PageTable, ...] = ()
    notes: tuple[str, ...] = ()
    #: How its charts show before and after: areas (and lines), dots (on shades), lines; empty where they do not.
    legend: str = ""


@dataclass(frozen=True)
class Answer:
    """The answer to a question of whoever signs, and a link to the section with more."""

    question: str
    says: tuple[str, ...]
    link: str
    link_text: str


def with_rows(*tables: PageTable | None) -> tuple[PageTable, ...]:
    """Leave out tables without rows."""
    return tuple(table for table in tables if table is not None)
