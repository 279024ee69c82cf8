"""Parts of the page: sections of sentences, charts and tables; what has nothing to show is None or has no rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

UNMEASURED = "Not measured by this run; microagg report SPEC makes the release again, apart, and measures it."
#: What stands in a column of figures. A run of letters is matched as a whole: tried in all pieces, a name of 40 letters
#: took a minute.
_FIGURE: Final = re.compile(r"[-–]?[\d.,e+-]*(?: ?[%a-zA-Z]{1,4}(?![%a-zA-Z]))*(?: ± [\d.,e+-]+(?: %)?)?")


@dataclass(frozen=True)
class PageTable:
    """A table, its header first; the first column names the rows."""

    caption: str
    cells: Sequence[Sequence[str]]

    def __len__(self) -> int:
        return len(self.cells) - 1

    @property
    def figures(self) -> list[bool]:
        """Tell which columns have figures alone."""
        return [all(_FIGURE.fullmatch(cell) for cell in column[1:]) for column in zip(*self.cells, strict=True)]


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
    says: Sequence[str] = ()
    charts: Sequence[PageChart | None] = ()
    #: Shown at once, and only to who opens them.
    tables: Sequence[PageTable | None] = ()
    folded: Sequence[PageTable] = ()
    notes: Sequence[str] = ()
    #: How its charts show before and after: areas (and lines), dots (on shades), lines; empty where they do not.
    legend: str = ""
