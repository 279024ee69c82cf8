"""The named invariants of a series, and the census behind the first: each is checked where it could break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools
from microagg_core.errors import GateError
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.series.generations import Generation, UnitCounts
from microagg_core.series.units import NO_ATOM, State

#: Each invariant and what it says; ``require`` names the one that does not hold.
INVARIANTS = {
    "ledger-counts": "before a night is committed, its counts are those of the ledger's own rows, read again",
    "promise-history": "what a release promises is true of all nights of its series, not of this one alone",
    "erasure-effect": "an erasure closes the units that it announced, and no others; no readable file holds them",
    "output-named": "after a publication the output holds what manifests name, and nothing else",
}


def require(name: str, wrong: Sequence[str]) -> None:
    """Stop where an invariant does not hold; ``wrong`` says why, a clause each.

    Raises:
        GateError: with the invariant's name.

    >>> require("ledger-counts", [])
    >>> require("ledger-counts", ["the rows hold 3 units, and the document 4"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    microagg_core.errors.GateError: invariant ledger-counts does not hold: the rows hold 3 units, ...
    """
    if wrong:
        raise GateError(
            f"invariant {name} does not hold: {'; '.join(wrong)}; what must hold: {INVARIANTS[name]}; keep ledger and "
            "output as they are, and report this"
        )


@dataclass(frozen=True)
class Census:
    """Units by state, and of atoms how many of their units the newest release holds.

    >>> Census(live=2, of_units=2**64 - 1) + Census(live=1, of_units=2)
    Census(live=3, held=0, gone=0, forgotten=0, of_units=1, released=0, withheld=0, of_atoms=0)
    """

    live: int = 0
    held: int = 0
    gone: int = 0
    forgotten: int = 0
    #: A sum of digests of the units' atoms.
    of_units: int = 0
    released: int = 0
    withheld: int = 0
    #: The same sum as the atoms have it, each as often as it has units.
    of_atoms: int = 0

    def __add__(self, other: Census) -> Census:
        total = Census(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))
        return Census(
            total.live, total.held, total.gone, total.forgotten, total.of_units % 2**64,
            total.released, total.withheld, total.of_atoms % 2**64,
        )  # fmt: skip

    def wrong(self, generation: Generation) -> list[str]:
        """Compare with what a document says; a clause for each difference."""
        said, counted = generation.counts, self._counts(generation.frozen.mode)
        wrong = (
            []
            if said == counted
            else [f"the document says {counts_in_words(said)}; the rows hold {counts_in_words(counted)}"]
        )
        live = 0 if generation.frozen.mode == "disjoint" else self.released + self.withheld
        if self.live != live:
            wrong.append(f"{self.live:,} units may be released again, and atoms have {live:,} of these")
        elif self.of_units != self.of_atoms:
            wrong.append("some atoms have other units than they say")
        return wrong

    def _counts(self, mode: str) -> UnitCounts:
        released, withheld = (0, 0) if mode == "disjoint" else (self.released, self.withheld)
        return UnitCounts(released, withheld, held=self.held, vanished=self.gone, forgotten=self.forgotten)


def census_of_units(table: pa.Table, mode: str) -> Census:
    """Count a range of units."""
    state = np.asarray(table["state"])
    n = np.bincount(state, minlength=State.REMOVED)
    sum_of_atoms = _sum_of(mix_words(np.asarray(table["atom"])[counts_for_its_atom(table, mode)]))
    return Census(int(n[State.LIVE]), int(n[State.HELD]), int(n[State.GONE]), int(n[State.FORGOTTEN]), sum_of_atoms)


def counts_for_its_atom(table: pa.Table, mode: str) -> Bools:
    """Tell which units their atoms count: live ones; where units are released once, all that ever were."""
    state, atom = np.asarray(table["state"]), np.asarray(table["atom"])
    return np.asarray((state == State.LIVE) | ((mode == "disjoint") & (atom != NO_ATOM)))


def census_of_atoms(table: pa.Table, newest: int) -> Census:
    """Count a range of atoms; ``newest`` is the night of the newest release."""
    n, is_out = np.asarray(table["n"]), np.asarray(table["last"]) == newest
    total = _sum_of(mix_words(np.asarray(table["atom"])) * n.astype(np.uint64))
    return Census(released=int(n[is_out].sum()), withheld=int(n[~is_out].sum()), of_atoms=total)


def _sum_of(words: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> int:
    return int(np.add.reduce(words, dtype=np.uint64)) if len(words) else 0


def counts_in_words(counts: UnitCounts) -> str:
    """Say how many units are in which state."""
    parts = vars(counts).items()
    return ", ".join(f"{number:,} {name}" for name, number in parts)
