"""The named invariants of a series, and the census behind the first: each is checked where it could break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools
from microagg_core.errors import GateError
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.series.generations import Counts, Generation, UnitCounts
from microagg_core.series.units import NO_ATOM, State

#: Each invariant and what it says; ``require`` names the one that does not hold.
INVARIANTS = {
    "ledger-counts": "before a night is committed, its counts are those of the ledger's own rows, read again",
    "promise-history": "what a release promises is true of all nights of its series, not of this one alone",
    "erasure-effect": "an erasure closes the units that it announced, and no others; no readable file holds them",
    "output-named": "after a publication the output holds what manifests name, and nothing else",
}


def require(name: str, wrong: Sequence[str]) -> None:
    """Stop where an invariant does not hold; ``wrong`` has a clause for each reason."""
    if wrong:
        raise GateError(
            f"invariant {name} does not hold: {'; '.join(wrong)}; what must hold: {INVARIANTS[name]}; keep ledger and "
            "output as they are, and report this"
        )


@dataclass(frozen=True)
class Census(Counts):
    """Units and atoms of a ledger counted from their own rows, to be held against its document.

    The sums add up over ranges, so that workers can take them apart. That the live units of every atom are as many as
    the atom says is seen without bringing the two together: the digests of atoms, added up over units, are those added
    up over atoms, each as often as it has units, modulo 2^64.
    """

    live: int = 0
    held: int = 0
    gone: int = 0
    forgotten: int = 0
    of_units: int = 0
    released: int = 0
    withheld: int = 0
    of_atoms: int = 0

    def wrong(self, generation: Generation) -> list[str]:
        """Compare with a document's counts; a clause for each difference."""
        is_once = generation.frozen.mode == "disjoint"
        released, withheld = (0, 0) if is_once else (self.released, self.withheld)
        counted = UnitCounts(released, withheld, self.held, self.gone, self.forgotten)
        wrong = []
        if generation.counts != counted:
            document = counts_in_words(generation.counts)
            wrong.append(f"the document says {document}; the rows hold {counts_in_words(counted)}")
        if self.live != released + withheld:
            wrong.append(f"{self.live:,} units may be released again, and atoms have {released + withheld:,} of these")
        elif self.of_units % 2**64 != self.of_atoms % 2**64:
            wrong.append("some atoms have other units than they say")
        return wrong


def census_of_units(table: pa.Table, mode: str) -> Census:
    state = np.asarray(table["state"])
    n = np.bincount(state, minlength=State.REMOVED)
    sum_of_atoms = _sum_of(mix_words(np.asarray(table["atom"])[counts_for_its_atom(table, mode)]))
    return Census(int(n[State.LIVE]), int(n[State.HELD]), int(n[State.GONE]), int(n[State.FORGOTTEN]), sum_of_atoms)


def counts_for_its_atom(table: pa.Table, mode: str) -> Bools:
    """Mark the units that their atoms count: live ones; where units are released once, all that ever were."""
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
    return ", ".join(f"{number:,} {name}" for name, number in vars(counts).items())
