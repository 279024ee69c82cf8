"""One night of a series: what is settled before its first record is read, and how its workers read that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, ShortInts, UInt64s
from microagg_core.data.formats.writing import released_format
from microagg_core.errors import InternalError
from microagg_core.release.context import Context
from microagg_core.release.pieces import sealed, unsealed
from microagg_core.release.step import JsonOutput, Output, Work
from microagg_core.series.atoms import FIRST_NUMBER, no_atoms
from microagg_core.series.digests import SeriesKey, UnitForm, rows_of, values_of
from microagg_core.series.fates import Guarantee, Leavers, Policy, SeriesMode
from microagg_core.series.generations import Generation, Past
from microagg_core.series.ledger import Ledger
from microagg_core.series.units import empty_range
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
        return self.mode in CARRYING

    @property
    def n_carried(self) -> int:
        return self.n_atom_ranges if self.carries and self.state is not None else 0

    @property
    def compared(self) -> tuple[str, ...]:
        """Names of the digests that reveal changes: of each watched column, or of whole rows beside ghosts."""
        if self.columns:
            return tuple(f"d{j}" for j in range(len(self.columns)))
        return ("row",) if self.leavers == "ghosts" else ()

    @property
    def least_changed(self) -> int:
        """Units of an atom that must change in a column for any change to be released."""
        return self.k if self.columns else 1

    def may_vanish(self, since: ShortInts) -> Bools:
        """Mark survivors that may be closed though they are in the input, by the night of their first release."""
        if not self.n_carried:
            return np.zeros(len(since), dtype=np.bool_)
        if self.leavers == "decoys" or self.k > self.least_k:
            return np.ones(len(since), dtype=np.bool_)
        return self.policy.is_due(since)

    @property
    def next_number(self) -> int:
        return FIRST_NUMBER if self.state is None else self.state.next_number

    @property
    def hides(self) -> bool:
        if self.state is None:
            return False
        # Who was erased is left out whatever the series promises.
        return self.mode != "independent" or self.state.counts.forgotten > 0

    @property
    def is_known_to_readers(self) -> bool:
        """Some night before released anybody; nobody waits before that."""
        return self.state is not None and self.state.counts.units > self.state.counts.held

    @property
    def policy(self) -> Policy:
        if self.mode == "disjoint" or self.mode == "independent":
            raise InternalError("a bug: nobody is carried in this series; please report it")
        return Policy(self.mode, self.guarantee, self.leavers, self.k, self.nights, self.number)

    @property
    def ledger(self) -> Ledger:
        return Ledger(Store(self.ledger_url, self.ledger_options, private=True), self.series)

    def read_units(self, number: int) -> pa.Table:
        if self.state is None:
            return empty_range(len(self.columns))
        return self.ledger.read_range(self.state, number, self.n_ranges)

    def read_atoms(self, number: int) -> pa.Table:
        """Read the atoms of a range as the nights before have left them, without those that may never come again."""
        if self.state is None or (self.state.frozen.mode == "disjoint" and self.mode != "disjoint"):
            return no_atoms()
        return self.ledger.read_atoms(self.state, number, self.n_atom_ranges)


#: What the tasks of a night know besides the run's context: the night itself, and the series' key. They go with the
#: run's folder.
NIGHT = JsonOutput("night", Night)
NIGHT_KEY = Output("night-key", lambda key: sealed(key.secret), lambda data: SeriesKey(unsealed(data) or b""), "sealed")


def load_night(work: Work) -> tuple[Night, SeriesKey]:
    return work.load(NIGHT), work.load(NIGHT_KEY)


def confidential_digests(
    context: Context, night: Night, key: SeriesKey, table: pa.Table
) -> tuple[UInt64s, list[NDArray[np.uint32]]]:
    """Digest confidential values as a released file has them: whole rows, and each watched column."""
    names = [column.name for column in context.schema.confidential]
    released = released_format(context.spec.output).released_form(table.select(names))
    return rows_of(released, names, key), [values_of(released[name], key) for name in night.columns]
