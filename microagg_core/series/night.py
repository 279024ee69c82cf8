"""One night of a series: what is settled before its first record is read, for all who work on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, ShortInts
from microagg_core.errors import InternalError
from microagg_core.series.atoms import FIRST_NUMBER, no_atoms
from microagg_core.series.digests import UnitForm
from microagg_core.series.fates import Guarantee, Leavers, Policy, SeriesMode
from microagg_core.series.generations import Generation, Past
from microagg_core.series.ledger import Ledger
from microagg_core.series.ranges import empty_range
from microagg_core.store.objects import Store

#: Modes in which units that were released before are released again with their atoms.
CARRYING = ("atoms", "rotation")
#: The last digit of the number under which the row of a ghost travels, which no record of the input has.
GHOSTS_FROM = 2**48


@dataclass(frozen=True)
class Night:
    """Tonight: its number, its rules, and the state that the nights before have left.

    Attributes:
        number: 0 for the first release.
        least_k: the smallest k of all nights so far.
        past: of all nights before; None on the first.
        unit: the columns that name a unit; none where a unit is a row.
        unit_form: how ids are compared, as the ledger began.
        state: the generation that tonight goes on from; None before the first release.
        previous: the night of the release before tonight's; -1 where there is none.
        waited: arrivals that were first seen in this night or before have waited as long as any has to; -1: none.
        n_ranges: ranges of units in tonight's ledger.
        n_atom_ranges: ranges of atoms in tonight's ledger, by which survivors are carried.
        columns: the confidential columns whose changes are looked at.
    """

    series: str
    number: int
    mode: SeriesMode
    guarantee: Guarantee
    leavers: Leavers
    k: int
    least_k: int
    past: Past | None
    nights: int | None
    unit: tuple[str, ...]
    unit_form: UnitForm
    ledger_url: str
    ledger_options: dict[str, Any]
    state: Generation | None
    previous: int
    waited: int
    n_ranges: int
    n_atom_ranges: int
    columns: tuple[str, ...]

    @property
    def carries(self) -> bool:
        """Whether units that were released before come again with their atoms."""
        return self.mode in CARRYING

    @property
    def n_carried(self) -> int:
        """How many ranges of atoms are carried: all, or none."""
        return self.n_atom_ranges if self.carries and self.state is not None else 0

    @property
    def compared(self) -> tuple[str, ...]:
        """The digests that tell who changed: of each watched column; or of whole rows, where ghosts may be beside."""
        if self.columns:
            return tuple(f"d{j}" for j in range(len(self.columns)))
        return ("row",) if self.leavers == "ghosts" else ()

    @property
    def least_changed(self) -> int:
        """How many units of an atom have to change in a column for any of them to be released so."""
        return self.k if self.columns else 1

    def may_vanish(self, since: ShortInts) -> Bools:
        """Which survivors may be closed tonight though they are there, by the night of their first release."""
        if not self.n_carried:
            return np.zeros(len(since), dtype=np.bool_)
        if self.leavers == "decoys" or self.k > self.least_k:
            return np.ones(len(since), dtype=np.bool_)
        return self.policy.is_due(since)

    @property
    def next_number(self) -> int:
        """The number from which tonight's new atoms are numbered."""
        return FIRST_NUMBER if self.state is None else self.state.next_number

    @property
    def hides(self) -> bool:
        """Whether some records of the input are not grouped tonight."""
        if self.state is None:
            return False
        # Who was erased is left out whatever the series promises.
        return self.mode != "independent" or self.state.counts.forgotten > 0

    @property
    def is_known_to_readers(self) -> bool:
        """Whether some night before released anybody; nobody waits before that."""
        return self.state is not None and self.state.counts.units > self.state.counts.held

    @property
    def policy(self) -> Policy:
        """The rules for survivors and leavers."""
        if self.mode == "disjoint" or self.mode == "independent":
            raise InternalError("a bug: nobody is carried in this series; please report it")
        return Policy(self.mode, self.guarantee, self.leavers, self.k, self.nights, self.number)

    @property
    def ledger(self) -> Ledger:
        """The ledger, wherever this runs."""
        return Ledger(Store(self.ledger_url, self.ledger_options, private=True), self.series)

    def read_units(self, number: int) -> pa.Table:
        """The units of a range as the nights before have left them."""
        if self.state is None:
            return empty_range(len(self.columns))
        return self.ledger.read_range(self.state, number, self.n_ranges)

    def read_atoms(self, number: int) -> pa.Table:
        """The atoms of a range as the nights before have left them; those that may never come again count no more."""
        if self.state is None or (self.state.frozen.mode == "disjoint" and self.mode != "disjoint"):
            return no_atoms()
        return self.ledger.read_atoms(self.state, number, self.n_atom_ranges)
