"""One night of a series: what is settled before its first record is read, and how its workers read that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, ShortInts
from microagg_core.data.formats.writing import released_format
from microagg_core.errors import InternalError
from microagg_core.release.context import Context
from microagg_core.release.pieces import sealed, unsealed
from microagg_core.release.step import JsonOutput, Output, Rows, Work
from microagg_core.series.atoms import FIRST_NUMBER, no_atoms
from microagg_core.series.digests import SeriesKey, UnitForm, rows_of, values_of
from microagg_core.series.generations import Generation, Past
from microagg_core.series.ledger import Ledger
from microagg_core.series.units import empty_range
from microagg_core.spec.series import Guarantee, Leavers, SeriesMode

#: The last digit of the number under which the row of a ghost travels, which no record of the input has.
GHOSTS_FROM = 2**48


@dataclass(frozen=True)
class Night:
    """Tonight: its number, its rules, and the state that the nights before have left."""

    ledger: Ledger
    #: 0 for the first release.
    number: int
    mode: SeriesMode
    guarantee: Guarantee
    leavers: Leavers
    k: int
    #: The smallest k of all nights so far.
    least_k: int
    #: Of all nights before; None on the first.
    past: Past | None
    nights: int | None
    #: The columns that name a unit; none where a unit is a row.
    unit: tuple[str, ...]
    #: How ids are compared, as the ledger began.
    unit_form: UnitForm
    #: The generation that tonight goes on from; None before the first release.
    state: Generation | None
    #: The night of the release before tonight's; -1 where there is none.
    previous: int
    #: Arrivals that were first seen in this night or before have waited as long as any has to; -1: none.
    waited: int
    #: Ranges of units in tonight's ledger, and of atoms, by which survivors are carried.
    n_ranges: int
    n_atom_ranges: int
    #: The confidential columns whose changes are looked at.
    columns: tuple[str, ...]
    #: Whether units have several rows: then the ledger has these, each under its unit's digest and its own.
    several: bool = False

    @property
    def n_carried(self) -> int:
        return self.n_atom_ranges if self.mode in ("atoms", "rotation") and self.state is not None else 0

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
        return self.is_due(since)

    def is_due(self, since: ShortInts) -> Bools:
        """Mark the atoms whose rotation ends, by the night of their first release."""
        if self.mode == "atoms":
            return np.zeros(len(since), dtype=np.bool_)
        if self.mode != "rotation" or self.nights is None:
            raise InternalError("a bug: a rotation without its number of nights; please report it")
        return np.asarray(self.number - since >= self.nights)

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


def confidential_digests(context: Context, night: Night, key: SeriesKey, table: pa.Table) -> dict[str, pa.Array]:
    """Digest confidential values as a released file has them: ``row`` of all, ``d0`` .. of each watched column."""
    names = [column.name for column in context.schema.confidential]
    released = released_format(context.spec.output).released_form(table.select(names))
    values = {f"d{j}": values_of(released[name], key) for j, name in enumerate(night.columns)}
    return {name: pa.array(digests) for name, digests in {"row": rows_of(released, names, key), **values}.items()}


def gather(work: Work, output: Rows, columns: list[tuple[str, pa.DataType]], maker: pa.Field | None = None) -> pa.Table:
    """Read the rows that the task is sent; an empty table of ``columns`` where there are none."""
    table = work.gather(output, maker)
    return pa.schema([*columns, *([maker] if maker else [])]).empty_table() if table is None else table
