"""Tonight's units met with those of the ledger, and people noticed who come under other ids.

Each input part sends the digests of its units, cut by range of units; a range is met with the ledger's; and each part
learns what its records are: arrivals, survivors with their atoms, or units that are never released again. Who simply
survives is not heard of again here: only units of which the ledger may have to hear are kept.

Arrivals look like people who are gone where their confidential values are those of one who was released before. Values
that two released units have, or two arrivals, say nothing, so who has them is left out; so many may have zeros. How
many would meet by chance follows from the values of all who were released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Bytes, Ints, UInt64s
from microagg_core.data.tables.slices import RECORD
from microagg_core.errors import GateError
from microagg_core.release.context import CONTEXT
from microagg_core.release.records import MARKS, MEMBERS, TAKES_PART, TOGETHER, rows_of_part
from microagg_core.release.records import WAITED as HAS_WAITED
from microagg_core.release.step import JsonOutput, Rows, Scatter, Step, TableOutput, Work
from microagg_core.release.steps.units import count_repeated
from microagg_core.series.atoms import range_of_atoms
from microagg_core.series.digests import as_columns, numbered_rows, pairs_of, positions_in, units_alone, units_of
from microagg_core.series.generations import Counts
from microagg_core.series.night import NIGHT, NIGHT_KEY, Night, confidential_digests, gather, load_night
from microagg_core.series.units import MOST_UNITS, NO_ATOM, State, range_of, range_schema
from microagg_core.spec.release import ReleaseSpec

#: The column of a part's marks: what each of its records is, in their order.
CODE = "code"
#: The column of survivors' atoms, wherever they travel.
ATOM = "atom"
#: A unit that was never released, which is grouped tonight if its block has enough of them.
ARRIVAL = 0
#: A unit that was released before: it goes with its atom, and is never grouped again.
SURVIVOR = 1
#: A unit that was released before and never will be again.
CLOSED = 2
#: An arrival that has waited as long as any has to.
WAITED = 3
#: A survivor whose confidential values are not those of its last release.
CHANGED = 4

#: Digests of an input part's units, sent to ranges of units.
IDENTIFIED = Rows("identified")
#: What a matched range sends: what the records are, to the parts; and to the ranges of atoms, the live units that are
#: not in tonight's input, and those that are and have other values than in their last release.
MARKS_OF_RANGE, ABSENT, ALTERED = Rows("marks-of-range"), Rows("absent"), Rows("altered")
#: The units of a range of which the ledger may have something new to say, with their places in the input; and bits of
#: digests of rows of a range: of who is gone, and of who arrived.
MET, WORDS = TableOutput("met"), TableOutput("words")
#: The atom of every survivor of an input part, and the range of units of every record.
ATOMS, UNIT_RANGES = TableOutput("atoms"), TableOutput("unit-ranges")
UNIT_RANGE = "unit_range"
#: The half of a row's digest.
_HALF = np.uint64(2**32 - 1)
#: The greatest number of the bits of a digest that are told.
GREATEST_WORD = 2**40 - 1


def take_part(codes: NDArray[Any]) -> Bools:
    """Mark the records that are grouped tonight: the arrivals, however long they have waited.

    >>> take_part(np.array([ARRIVAL, SURVIVOR, CLOSED, WAITED, CHANGED])).tolist()
    [True, False, False, True, False]
    """
    return np.asarray((codes == ARRIVAL) | (codes == WAITED), dtype=np.bool_)


def survive(codes: NDArray[Any]) -> Bools:
    return np.asarray((codes == SURVIVOR) | (codes == CHANGED), dtype=np.bool_)


@dataclass(frozen=True)
class MatchCounts(Counts):
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


def identify_part(work: Work) -> int:
    """Send the digests of one input part's units, and of the values that are compared, to the ranges of units."""
    context, (night, key) = work.load(CONTEXT), load_night(work)
    # What the ledger has of rows is compared with tonight's: survivors' for changes, arrivals' with who is gone.
    is_later = night.state is not None
    confidential = [c.name for c in context.schema.confidential] if is_later else []
    names = tuple(dict.fromkeys((*night.unit, *confidential)))
    is_together = context.spec.several is not None
    scatter, rows = Scatter(work, IDENTIFIED), 0
    for table, members in rows_of_part(work, context, work.number, tuple(confidential) if is_together else names):
        if members is None:
            units = units_of([table[name] for name in night.unit], key, night.unit_form)
        else:
            units = pairs_of(members, "u")
        columns = {RECORD: pa.array(np.arange(rows, rows + len(units))), **as_columns(units, "u")}
        if is_later:
            columns |= confidential_digests(context, night, key, table)
            columns |= {name: pa.array(bits) for name, bits in _bits_of(np.asarray(columns.pop("row"))).items()}
        scatter.add(pa.table(columns), range_of(units[:, 0], night.n_ranges))
        rows += len(units)
    scatter.flush()
    return rows


IDENTIFY = Step(
    name="identify",
    stage="survey",
    per="part",
    does=identify_part,
    reads_input=True,
    knows=(CONTEXT, NIGHT, NIGHT_KEY),
    same=(TOGETHER, MEMBERS),
    sends=(IDENTIFIED,),
)


def half_of(row: UInt64s) -> NDArray[np.uint32]:
    """Take half of a row's digest: enough to see that a file has another row than the input."""
    return (row & _HALF).astype(np.uint32)


def _words_of(table: pa.Table) -> UInt64s:
    half, more = (np.asarray(table[name]).astype(np.uint64) for name in ("half", "more"))
    return np.asarray(half << np.uint64(8) | more)


def _bits_of(row: UInt64s) -> dict[str, NDArray[Any]]:
    """Take 40 bits of a row's digest, by which changes are found: one in a million millions goes unseen.

    Of such a unit the ledger would have an old row, and the night on which it is to come as a ghost would stop.
    """
    return {"half": half_of(row), "more": (row >> np.uint64(32)).astype(np.uint8)}


#: What a ledger has of a unit that it does not have yet; the night in which it was first seen is set when it is told.
_NEW = {"atom": NO_ATOM, "last": -1, "since": -1, "state": State.HELD}


class _Meeting:
    """The units of one range: those of tonight's input, by part and place, and where the ledger has them."""

    def __init__(self, night: Night, came: pa.Table, state: pa.Table) -> None:
        self._night, self._came, self._state = night, came, state
        self.units = pairs_of(came, "u")
        #: The ledger's row of each unit of the input; -1 where it has none.
        self._index = positions_in(self.units, pairs_of(state, "u"))
        self._listed = self._index >= 0
        #: Of the ledger's units, which are in the input.
        self._present = np.zeros(state.num_rows, dtype=np.bool_)
        self._present[self._index[self._listed]] = True
        self._codes = self._codes_of_units()
        if night.several:
            self._close_late_rows()
        self._survivors = np.flatnonzero(survive(self._codes))
        self._changes = self._watched_changes()
        self._codes[self._are_changed()] = CHANGED

    def _codes_of_units(self) -> Bytes:
        night, codes, index = self._night, np.full(len(self._index), ARRIVAL, dtype=np.uint8), self._index[self._listed]
        states, since = self._of_ledger("state")[index], self._of_ledger("since")[index]
        live = {"independent": ARRIVAL, "disjoint": CLOSED}.get(night.mode, SURVIVOR)
        gone = ARRIVAL if night.mode == "independent" else CLOSED
        codes[self._listed] = np.select(
            [states == State.LIVE, states == State.GONE, states == State.FORGOTTEN, since <= night.waited],
            [live, gone, CLOSED, WAITED],
            ARRIVAL,
        )
        return codes

    def _close_late_rows(self) -> None:
        """Close the new rows of units that were released: a row more would tell them from those who share theirs."""
        known = [State.FORGOTTEN] if self._night.mode == "independent" else [State.LIVE, State.GONE, State.FORGOTTEN]
        is_known = np.isin(self._of_ledger("state"), known)
        released = numbered_rows(units_alone(pairs_of(self._state, "u"))[is_known])[1]
        late = take_part(self._codes) & (positions_in(units_alone(self.units), released) >= 0)
        self._codes[late] = CLOSED

    def _of_ledger(self, name: str) -> NDArray[Any]:
        return np.asarray(self._state[name])

    def _differing(self, name: str, then: NDArray[Any]) -> Bools:
        differs, own = np.zeros(len(self._index), dtype=np.bool_), self._survivors
        differs[own] = np.asarray(self._came[name])[own] != then[self._index[own]]
        return differs

    def _watched_changes(self) -> Bools:
        """Mark, by watched column, survivors whose value is another than was last released."""
        names = [f"d{j}" for j in range(len(self._night.columns))] if self._night.n_carried else []
        changes = [self._differing(name, self._of_ledger(name)) for name in names]
        return np.column_stack(changes) if changes else np.zeros((len(self._index), 0), dtype=np.bool_)

    def _are_changed(self) -> Bools:
        if not self._night.n_carried:
            return np.zeros(len(self._index), dtype=np.bool_)
        bits = _bits_of(self._of_ledger("row"))
        changed = np.any([self._differing(name, then) for name, then in bits.items()], axis=0)
        return np.asarray(changed | np.any(self._changes, axis=1))

    def marks(self) -> tuple[pa.Table, Ints]:
        """Describe the records of the input: what each is, its atom, and the part that it belongs to."""
        atoms = np.full(len(self._index), NO_ATOM, dtype=np.uint64)
        atoms[self._survivors] = self._of_ledger("atom")[self._index[self._survivors]]
        columns = {RECORD: self._came[RECORD], CODE: pa.array(self._codes), ATOM: pa.array(atoms)}
        return pa.table(columns), np.asarray(self._came["part"]).astype(np.int64)

    def absent(self) -> pa.Table:
        is_absent = ~self._present & (self._of_ledger("state") == State.LIVE) & bool(self._night.n_carried)
        index = np.flatnonzero(is_absent)
        return self._state.select([ATOM, "row"]).take(pa.array(index)).append_column("index", pa.array(index))

    def altered_survivors(self) -> pa.Table:
        """Select survivors with other values than in their last release, where nights are compared by them."""
        rows = np.flatnonzero((self._codes == CHANGED) & bool(self._night.compared) & bool(self._night.n_carried))
        index, at = pa.array(self._index[rows]), pa.array(rows)
        columns = {name: self._state[name].take(index) for name in (ATOM, "row")}
        columns |= {"place": self._came[RECORD].take(at), "part": self._came["part"].take(at)}
        changes = self._changes[rows]
        columns |= {f"changed{j}": pa.array(changes[:, j].copy()) for j in range(changes.shape[1])}
        return pa.table(columns)

    def met(self) -> pa.Table:
        """Select the units that the ledger may have to hear of, as it has them, and where they are in the input.

        Everybody but those who simply survive; and of these who may vanish tonight.
        """
        night, states, present = self._night, self._of_ledger("state"), self._present
        may_leave = (states == State.LIVE) & (bool(night.n_carried) or night.mode == "disjoint")
        absent = np.flatnonzero(~present & (may_leave | (states == State.HELD)))
        wanted = self._codes != SURVIVOR
        wanted[self._listed] |= night.may_vanish(self._of_ledger("since"))[self._index[self._listed]]
        old, new = np.flatnonzero(wanted & self._listed), np.flatnonzero(wanted & ~self._listed)
        of_ledger = np.concatenate([absent, self._index[old]])
        columns: dict[str, pa.Array] = {}
        for field in range_schema(len(night.columns)):
            kept = self._of_ledger(field.name)[of_ledger]
            is_unit = field.name in ("u0", "u1")
            fresh = np.asarray(self._came[field.name])[new] if is_unit else np.full(len(new), _NEW.get(field.name, 0))
            columns[field.name] = pa.array(np.concatenate([kept, fresh.astype(kept.dtype)]), field.type)
        columns["index"] = pa.array(np.concatenate([of_ledger, np.full(len(new), -1, dtype=np.int64)]))
        nowhere = np.full(len(absent), -1, dtype=np.int64)
        for name, values in (("part", self._came["part"]), ("place", self._came[RECORD])):
            of_input = np.asarray(values).astype(np.int64)[np.concatenate([old, new])]
            columns[name] = pa.array(np.concatenate([nowhere, of_input]))
        return pa.table(columns)

    def words(self) -> pa.Table:
        released = self._of_ledger("last") != -1
        bits = pa.table(_bits_of(self._of_ledger("row")[released]))
        arrived = _words_of(self._came)[~self._listed]
        return words_of_range(_words_of(bits), ~self._present[released], arrived, self._night.n_ranges)

    def counts(self) -> MatchCounts:
        released = self._of_ledger("last") != -1
        of_rows = np.unique(self._of_ledger("row")[released], return_counts=True)[1]
        return MatchCounts(
            repeated=count_repeated(self.units) if len(self.units) else 0,
            arrivals=int(np.isin(self._codes, (ARRIVAL, WAITED)).sum()),
            closed=int((self._codes == CLOSED).sum()),
            released_before=int((self._present & released).sum()),
            leavers=int((~self._present & (self._of_ledger("state") == State.LIVE)).sum()),
            released=int(released.sum()),
            alone=int((of_rows == 1).sum()),
        )


def match_range(work: Work) -> int:
    night, _ = load_night(work)
    columns = [(RECORD, pa.int64()), ("u0", pa.uint64()), ("u1", pa.uint64()), ("half", pa.uint32())]
    columns += [("more", pa.uint8()), *((f"d{j}", pa.uint32()) for j in range(len(night.columns)))]
    came = gather(work, IDENTIFIED, columns, pa.field("part", pa.int32()))
    meeting = _Meeting(night, came, night.read_units(work.number))
    work.send(MARKS_OF_RANGE, *meeting.marks())
    for output, table in ((ABSENT, meeting.absent()), (ALTERED, meeting.altered_survivors())):
        work.send(output, table, range_of_atoms(np.asarray(table[ATOM]), night.n_atom_ranges))
    work.write(MET, meeting.met())
    work.write(MATCHED, meeting.counts())
    if night.state is not None:
        work.write(WORDS, meeting.words())
    return len(meeting.units)


def mark_part(work: Work) -> int:
    night, _ = load_night(work)
    columns = [(RECORD, pa.int64()), (CODE, pa.uint8()), (ATOM, pa.uint64())]
    marks = gather(work, MARKS_OF_RANGE, columns, pa.field(UNIT_RANGE, pa.uint16()))
    marks = marks.take(pa.array(np.argsort(np.asarray(marks[RECORD]), kind="stable")))
    if night.hides:
        work.write(MARKS, marks_of(np.asarray(marks[CODE])))
    if night.n_carried:
        atoms = np.asarray(marks[ATOM])
        work.write(ATOMS, pa.table({ATOM: atoms.astype(np.min_scalar_type(int(atoms.max(initial=0))))}))
    work.write(UNIT_RANGES, marks.select([UNIT_RANGE]))
    return int(marks.num_rows)


def marks_of(codes: NDArray[Any]) -> pa.Table:
    """Say of each record of a part whether it takes part and has waited, by what it is."""
    return pa.table({CODE: codes, TAKES_PART: take_part(codes), HAS_WAITED: codes == WAITED})


MARK = Step(
    name="mark",
    stage="survey",
    per="part",
    does=mark_part,
    knows=(NIGHT, NIGHT_KEY),
    receives=(MARKS_OF_RANGE,),
    writes=(MARKS, ATOMS, UNIT_RANGES),
)


MATCHED = JsonOutput("matched", MatchCounts)
MATCH = Step(
    name="match",
    stage="survey",
    per="range of units",
    does=match_range,
    knows=(NIGHT, NIGHT_KEY),
    receives=(IDENTIFIED,),
    writes=(MET, MATCHED, WORDS),
    sends=(MARKS_OF_RANGE, ABSENT, ALTERED),
)


#: Of all ranges together so many words, the least ones, of each kind are looked at: 32 MiB where the process decides.
_MOST_WORDS = 4 * MOST_UNITS
_LEAST_WORDS = 4096
#: Arrivals are refused where this share of them, or of those who left, has the other's values.
_MOSTLY = 0.5
#: However many values there are, at most this share meets just one of the others by chance: x exp(-x) at x = 1.
_MOST_BY_CHANCE = 0.37
#: How far from what is expected chance may come, in standard deviations.
_SPREAD = 4.0


@dataclass(frozen=True)
class Likeness:
    """Counts of units whose confidential values nobody else of their kind has."""

    #: Who was released before and is not in tonight's input; who is in it, and was in no night's before.
    left: int
    arrived: int
    #: How many of one kind have the values of one of the other.
    alike: int
    #: How likely the fewer of both kinds are to meet one of the others by chance, each.
    chance: float

    @property
    def is_mostly(self) -> bool:
        """Most of those who left, or of those who arrived, are alike, beyond chance."""
        return self.alike >= _MOSTLY * min(self.left, self.arrived) and not self._is_expected(_SPREAD)

    @property
    def is_told(self) -> bool:
        return not self._is_expected(1.0)

    def _is_expected(self, spread: float) -> bool:
        expected = self.chance * min(self.left, self.arrived)
        return bool(self.alike <= expected + spread * expected**0.5)

    def sentence(self) -> str:
        return (
            f"{self.alike} of {self.arrived} arrivals have just the confidential values of one of {self.left} units "
            "that left (of those whose values nobody else has): if ids were changed, the same people are released "
            "again as others, against which a series does not protect"
        )


def words_of_range(released: UInt64s, is_gone: Bools, arrived: UInt64s, n_ranges: int) -> pa.Table:
    """Select the least words of who is gone and of who arrived in one range of units, and where they end."""
    most = max(_LEAST_WORDS, _MOST_WORDS // n_ranges)
    values, first, n = np.unique(released, return_index=True, return_counts=True)
    gone, come = values[(n == 1) & is_gone[first]], np.sort(arrived)
    cut = [words[most] for words in (gone, come) if len(words) > most]
    limit = min(cut, default=np.iinfo(np.uint64).max)
    words = np.concatenate([gone[gone < limit], come[come < limit]])
    left = np.arange(len(words)) < int((gone < limit).sum())
    return pa.table({"word": words, "left": left, "limit": np.full(len(words), limit, dtype=np.uint64)})


def likeness_of(ranges: Sequence[pa.Table], released: int, alone: int, greatest: int) -> Likeness:
    """Compare who is gone with who arrived, over all ranges; estimates where there are too many to look at all."""
    table = pa.concat_tables(ranges)
    word, is_left, limits = (np.asarray(table[name]) for name in ("word", "left", "limit"))
    limit = int(limits.min(initial=np.iinfo(np.uint64).max))
    kinds = [np.unique(word[(word < limit) & which], return_counts=True) for which in (is_left, ~is_left)]
    left, arrived = (words[n == 1] for words, n in kinds)
    share = min(1.0, limit / greatest)
    alike = np.intersect1d(left, arrived, assume_unique=True)
    n_left, n_arrived, n_alike = (round(len(words) / share) for words in (left, arrived, alike))
    # Of n values out of V a share of exp(-n / V) comes once; and one more is a certain one with 1 / V.
    per_unit = -np.log(alone / (released + 1)) * len(ranges) / released if alone else np.inf
    others = max(n_left * released / alone if alone else 0.0, int(kinds[1][1].sum()) / share)
    return Likeness(n_left, n_arrived, n_alike, float(min(_MOST_BY_CHANCE, others * per_unit)))


def refuse_renamed(spec: ReleaseSpec, likeness: Likeness) -> str:
    """Stop where most arrivals, and k at least, look like people under other ids; warn where more do than by chance."""
    is_meant = bool(spec.unit_columns) and set(spec.acknowledge.equal_arrivals).issuperset(spec.unit_columns)
    if is_meant or not likeness.is_told:
        return ""
    if likeness.alike < spec.k or not likeness.is_mostly:
        return likeness.sentence()
    raise GateError(
        f"{likeness.sentence()}; bring every unit under the id that it had, or, if these are others, list "
        f"{', '.join(spec.unit_columns)} under acknowledge.equal_arrivals"
    )
