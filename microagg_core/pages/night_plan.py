"""A night of a series in its plan: who comes again, who is withheld, who waits, and what waiting is worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Ints


@dataclass(frozen=True)
class NightPlan:
    """What becomes of units tonight, in numbers that are for the operator alone."""

    mode: str
    night: int
    arrivals: int
    #: Arrivals that wait for a later night.
    held: int
    survivors: int
    ghosts: int
    #: Survivors whose atoms are not whole, and units that are never released again.
    withheld: int
    vanished: int
    #: Changes that are not released, because too few of their class changed, or because it holds a ghost.
    held_back: int
    #: How many times the loss of blocks of ``until`` arrivals tonight's have, by their sizes; None without blocks.
    price: float | None
    until: int

    def rows(self) -> list[tuple[str, str]]:
        """As pairs to show."""
        rows = [
            ("series", f"{self.mode}, night {self.night}"),
            ("arrivals", f"{self.arrivals:,}" + (f", of which {self.held:,} wait" if self.held else "")),
        ]
        if self.night and self.mode in ("atoms", "rotation"):
            rows.append(("survivors", f"{self.survivors:,} released as before, {self.ghosts:,} ghosts of who left"))
            rows.append(("not released", f"{self.withheld:,} withheld with their atoms, {self.vanished:,} vanish"))
        if self.held_back:
            rows.append(("held back", f"{self.held_back:,} changes, of too few to be told or beside ghosts"))
        if self.price is not None and self.price > 1.05:
            rows.append(
                ("price of haste", f"about {self.price:.1f} times the loss of blocks of {self.until:,} arrivals")
            )
        return rows


def price_of_haste(block_rows: Ints, until: int, n_attributes: int) -> float | None:
    """How many times the loss of blocks of ``until`` records these blocks have, by the law of growing density.

    In p attributes groups of k among n records have radii that shrink as n^(-1/p), and so losses as n^(-2/p).

    >>> price_of_haste(np.array([25, 100]), 100, 2)
    1.6
    >>> price_of_haste(np.array([], dtype=np.int64), 100, 2) is None
    True
    """
    if not len(block_rows):
        return None
    small = np.minimum(block_rows, until)
    times = (until / small) ** (2 / n_attributes)
    return round(float((times * block_rows).sum() / block_rows.sum()), 3)
