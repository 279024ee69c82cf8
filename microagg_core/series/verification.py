"""How many units share each trace, counted range by range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Ints, ShortInts, UInt64s
from microagg_core.errors import EXIT_DONE, GateError, StorageError, TransientStorageError
from microagg_core.inspect.check import Check
from microagg_core.plain import to_plain
from microagg_core.release.revisions import unnamed_files
from microagg_core.series.atoms import (
    counts_of,
    no_atoms,
    places_of_atoms,
    range_of_atoms,
    range_of_classes,
    with_atoms,
)
from microagg_core.series.digests import pairs_of
from microagg_core.series.generations import Generation, UnitCounts
from microagg_core.series.invariants import counts_for_its_atom, counts_in_words
from microagg_core.series.ledger import Ledger
from microagg_core.series.publications import unknown_in_words, unknown_releases
from microagg_core.series.units import NO_ATOM, WITH_ATOM, State, empty_range, is_increasing, range_of
from microagg_core.store.objects import Store
from microagg_core.store.urls import shown


def output_checks(ledger: Ledger, output: Store) -> list[Check]:
    """Hold the ledger against the output: marks, releases, files that no manifest names."""
    nights = [ledger.generation(night) for night in ledger.nights()]
    if not nights:
        return []
    return [_marks_check(ledger, nights), _releases_check(ledger, output), _files_check(output)]


def _marks_check(ledger: Ledger, nights: list[Generation]) -> Check:
    """Every night that others go on from has the mark that it was published."""
    void = {number for n in nights if n.kind == "void" for number in range(n.goes_on_from + 1, n.night + 1)}
    expected = [night.night for night in nights[:-1] if night.night not in void]
    missing = [night for night in expected if not ledger.is_published(night)]
    wrong = f"{len(missing)} of {len(expected)} marks in published/ are missing; the next run or microagg forget, "
    wrong += "which ask the manifests, writes them again"
    return Check("marks", not missing, wrong if missing else f"{len(expected)} nights are marked as published")


def _releases_check(ledger: Ledger, output: Store) -> Check:
    unknown = unknown_releases(ledger, output)
    right = f"all releases of {shown(output.url)} are known"
    return Check("releases", not unknown, unknown_in_words(output, unknown) if unknown else right)


def _files_check(output: Store) -> Check:
    """No file lies in a folder of releases that no manifest names."""
    names = list(unnamed_files(output))
    wrong = f"{len(names)} files of {shown(output.url)} are named by no manifest; microagg clean removes what runs left"
    return Check("files", not names, wrong if names else "manifests name every file of the output")


#: Traces, how many units have each, and whether a live one has.
_Counts = tuple[UInt64s, UInt64s, Ints, Bools]


def _no_counts() -> _Counts:
    none = np.empty(0, dtype=np.uint64)
    return none, none, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)


@dataclass
class TraceCounter:
    """The traces of all units that were ever released, with how many units have each, and whether a live one has.

    Units that wait were never released, and are not counted. Those that are gone, or were erased, are in the files of
    the nights before, and hide the others there as ever.

    >>> TraceCounter().smallest() is None
    True
    """

    _counts: _Counts = field(default_factory=_no_counts)
    #: What was counted since, range by range; put together when it is as much as what there is, so that few sorts do.
    _ranges: list[_Counts] = field(default_factory=list)

    def add(self, table: pa.Table) -> None:
        """Count the units of one more range."""
        state = table["state"].to_numpy()
        is_released = table["last"].to_numpy() >= 0
        t0, t1 = (table[name].to_numpy()[is_released] for name in ("t0", "t1"))
        units = np.ones(len(t0), dtype=np.int64)
        self._ranges.append(_merged(t0, t1, units, state[is_released] == State.LIVE))
        if sum(len(counts[0]) for counts in self._ranges) >= len(self._counts[0]):
            self._all()

    def smallest(self) -> int | None:
        """How many units share the rarest trace; None if no unit was ever released."""
        _, _, units, _ = self._all()
        return int(units.min()) if len(units) else None

    def rarer_than(self, k: int) -> int:
        """How many units have a trace that a live unit has and fewer than k units share."""
        _, _, units, live = self._all()
        return int(units[live & (units < k)].sum())

    def _all(self) -> _Counts:
        if self._ranges:
            pieces = [self._counts, *self._ranges]
            self._counts, self._ranges = _merged(*map(np.concatenate, zip(*pieces, strict=True))), []
        return self._counts


def _merged(t0: UInt64s, t1: UInt64s, units: Ints, live: Bools) -> _Counts:
    """The same with every trace once."""
    if not len(t0):
        return t0, t1, units, live
    order = np.lexsort((t1, t0))
    t0, t1 = t0[order], t1[order]
    is_new = np.concatenate(([True], (t0[1:] != t0[:-1]) | (t1[1:] != t1[:-1])))
    first = np.flatnonzero(is_new)
    return t0[first], t1[first], np.add.reduceat(units[order], first), np.logical_or.reduceat(live[order], first)


#: Checks of what is stored; the others are of what it says.
_OF_STORAGE = ("chain", "ranges", "marks", "releases", "files")
#: Without a promise about traces.
_UNPROTECTED = "independent"
_NOT_COUNTED = "not counted, as ranges could not be read"


@dataclass(frozen=True)
class LedgerStatus:
    """A ledger in a few numbers, from its newest document alone."""

    series: str
    url: str
    #: How many nights are committed; the last one's number is one less.
    nights: int
    kind: str
    release_id: str
    revision: str
    date: str
    mode: str
    guarantee: str
    k: int
    live: int
    gone: int
    held: int
    forgotten: int
    smallest_trace: int | None
    files: int
    bytes: int
    bytes_per_unit: float
    key_fingerprint: str

    def document(self) -> dict[str, Any]:
        """As plain values, for programs."""
        plain: dict[str, Any] = to_plain(self)
        return plain


def status_of(ledger: Ledger) -> LedgerStatus | None:
    """The state of a ledger; None before the first night.

    Raises:
        StorageError: the chain is broken at its end, or the store cannot be read.
    """
    head = ledger.head()
    if head is None:
        return None
    counts, frozen = head.counts, head.frozen
    return LedgerStatus(
        series=ledger.series,
        url=shown(ledger.store.url),
        nights=head.night + 1,
        kind=head.kind,
        release_id=head.release_id,
        revision=head.revision,
        date=head.date,
        mode=frozen.mode,
        guarantee=frozen.guarantee,
        k=frozen.k,
        live=counts.live,
        gone=counts.vanished,
        held=counts.held,
        forgotten=counts.forgotten,
        smallest_trace=head.smallest_trace,
        files=sum(1 for _ in head.files),
        bytes=head.n_bytes,
        bytes_per_unit=round(head.n_bytes / max(counts.units, 1), 1),
        key_fingerprint=head.key_fingerprint,
    )


def verify_ledger(ledger: Ledger) -> list[Check]:
    """Read the whole chain and all units of its newest night again; nothing to check before the first night.

    Raises:
        TransientStorageError: the store does not answer.
    """
    try:
        nights = ledger.nights()
        generations = [ledger.linked(night) for night in nights]
    except TransientStorageError:
        raise
    except StorageError as error:
        return [Check("chain", False, error.message)]
    if not generations:
        return []
    head = generations[-1]
    newest = ledger.newest_release(head)
    contents = _Contents(newest.night if newest is not None else -1)
    contents.read_atoms(ledger, head)
    for number in range(head.n_ranges):
        contents.read(ledger, head, number)
    return [
        _chain_check(generations),
        _told("ranges", contents.unreadable, f"{sum(1 for _ in head.files)} files as they were written"),
        _told("units", contents.unordered, "sorted, each once, and in its range"),
        _told("states", contents.strange, "each with the nights and the atom that belong to it"),
        _told("atoms", contents.wrong_atoms(head), "each with as many units as it says"),
        _counts_check(head, contents),
        _traces_check(head, contents, min(one.frozen.k for one in generations)),
        _past_check(ledger, generations),
    ]


def exit_code_of(checks: list[Check]) -> int:
    """0, or 5 where files are missing or damaged, or 4 where a ledger says what is not so.

    >>> exit_code_of([Check("chain", True), Check("traces", False)])
    4
    """
    failed = (check.name for check in checks if not check.passed)
    codes = (StorageError.exit_code if name in _OF_STORAGE else GateError.exit_code for name in failed)
    return max(codes, default=EXIT_DONE)


@dataclass
class _Contents:
    """What the ranges of a generation hold, and what is wrong with them, a sentence each."""

    #: The night of the newest release.
    newest: int
    counts: UnitCounts = field(default_factory=UnitCounts)
    traces: TraceCounter = field(default_factory=TraceCounter)
    unreadable: list[str] = field(default_factory=list)
    unordered: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    n_columns: int | None = None
    #: All atoms, and how many units the ranges have of each; None: they cannot be read.
    atoms: pa.Table | None = None
    n_units: Ints | None = None

    def read_atoms(self, ledger: Ledger, head: Generation) -> None:
        """Read the atoms, which the units refer to."""
        tables, n_ranges = [], len(head.atoms)
        for number in range(n_ranges):
            table = self._readable(ledger.read_atoms, head, number, n_ranges)
            if table is None:
                continue
            atom = np.asarray(table["atom"])
            if (atom[1:] <= atom[:-1]).any() or (range_of_atoms(atom, n_ranges) != number).any():
                self.unordered.append(f"atoms {number} are not sorted, or one is there twice or of another range")
            tables.append(table)
        if len(tables) == n_ranges:
            self.atoms = pa.concat_tables(tables).combine_chunks()
            self.n_units = np.zeros(self.atoms.num_rows, dtype=np.int64)

    def _readable(
        self, read: Callable[[Generation, int, int], pa.Table], head: Generation, number: int, n_ranges: int
    ) -> pa.Table | None:
        """What a range holds; None where it cannot be read, which is noted."""
        try:
            return read(head, number, n_ranges)
        except TransientStorageError:
            raise
        except StorageError as error:
            self.unreadable.append(error.message)
            return None

    def wrong_atoms(self, head: Generation) -> list[str]:
        """What is wrong with the atoms."""
        if self.atoms is None or self.n_units is None or self.unreadable:
            return [_NOT_COUNTED]
        atom, last = np.asarray(self.atoms["atom"]), np.asarray(self.atoms["last"])
        since = np.asarray(self.atoms["since"])
        wrong = int((self.n_units != np.asarray(self.atoms["n"])).sum())
        told = [f"{wrong:,} atoms have not as many units as they say"] if wrong else []
        unlike = (since > last) | (last > head.night) | (since < 0)
        unlike |= range_of_atoms(atom, len(head.atoms)) != range_of_classes(pairs_of(self.atoms, "k"), len(head.atoms))
        return told + ([f"{int(unlike.sum()):,} atoms have no right nights or range"] if unlike.any() else [])

    def read(self, ledger: Ledger, head: Generation, number: int) -> None:
        """Look at one range."""
        units = self._readable(ledger.read_range, head, number, head.n_ranges)
        if units is None or self.atoms is None:
            return
        self._count_units(units, head)
        table = with_atoms(units, self.atoms)
        self.counts += counts_of(table, self.newest)
        self.traces.add(table)
        u0, u1 = (table[name].to_numpy() for name in ("u0", "u1"))
        if not is_increasing(u0, u1) or (range_of(u0, head.n_ranges) != number).any():
            self.unordered.append(f"range {number} is not sorted, has a unit twice, or one of another range")
        if not self._has_same_columns(table):
            self.strange.append(f"range {number} has digests of other columns than the ranges before it")
        if wrong := _n_strange(table, np.asarray(units["last"]), head):
            self.strange.append(f"{wrong:,} units of range {number} have no right state, nights or trace")

    def _count_units(self, table: pa.Table, head: Generation) -> None:
        """Count the live units of each atom; where units are released once, all that it has."""
        mine = counts_for_its_atom(table, head.frozen.mode) & (np.asarray(table["atom"]) != NO_ATOM)
        place = places_of_atoms(np.asarray(table["atom"])[mine], self.atoms)
        if self.n_units is not None:
            np.add.at(self.n_units, place[place >= 0], 1)
        if (place < 0).any():
            self.strange.append(f"{int((place < 0).sum()):,} units are of atoms that are not there")

    def _has_same_columns(self, table: pa.Table) -> bool:
        n_columns = len(table.schema) - len(with_atoms(empty_range(0), no_atoms()).schema)
        if self.n_columns is None:
            self.n_columns = n_columns
        return n_columns == self.n_columns


def _n_strange(table: pa.Table, kept: ShortInts, head: Generation) -> int:
    """How many units say of themselves what cannot be; ``kept`` is their last night as the ledger keeps it."""
    state, since, last = (table[name].to_numpy() for name in ("state", "since", "last"))
    # Who waits, or was erased while he did.
    is_waiting = (state == State.HELD) | ((state == State.FORGOTTEN) & (last == -1))
    is_never = np.asarray(table["atom"]) == NO_ATOM
    # Who is removed is among changes alone, and who is not live any more goes nowhere with an atom.
    is_right = (state < State.REMOVED) & ((state == State.LIVE) | (kept != WITH_ATOM))
    is_right &= (since >= 0) & (since <= head.night)
    is_right &= np.where(is_waiting, last == -1, (last >= since) & (last <= head.night))
    # Who waits was never released, and who was released once is told apart from that for ever.
    is_right &= is_waiting == is_never
    return int((~is_right).sum())


def _told(name: str, wrong: list[str], right: str) -> Check:
    more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return Check(name, not wrong, "; ".join(wrong[:3]) + more if wrong else right)


def _chain_check(generations: list[Generation]) -> Check:
    """Documents follow each other (which reading them told); they are of one series, whose k and ranges never fell."""
    wrong = []
    for before, after in pairwise(generations):
        if after.key_fingerprint != before.key_fingerprint:
            wrong.append(f"night {after.night} was made under another key than the night before it")
        if after.frozen.k < before.frozen.k:
            wrong.append(f"night {after.night} has a smaller k than the night before it")
    return _told("chain", wrong, f"{len(generations)} nights, each after the one before it")


def _counts_check(head: Generation, contents: _Contents) -> Check:
    """The document counts what the ranges hold."""
    if contents.unreadable:
        return Check("counts", False, _NOT_COUNTED)
    said, there = head.counts, contents.counts
    if said != there:
        return Check(
            "counts", False, f"the document says {counts_in_words(said)}; the ranges hold {counts_in_words(there)}"
        )
    return Check("counts", True, counts_in_words(there))


def _past_check(ledger: Ledger, generations: list[Generation]) -> Check:
    """What each document says of all nights before is what these say of themselves."""
    wrong = [
        f"night {one.night} says otherwise what the nights before it were"
        for one in generations
        if one.past is not None and one.past != ledger.past_of(replace(one, past=None))
    ]
    return _told("past", wrong, "every document says of the nights before it what they say of themselves")


def _traces_check(head: Generation, contents: _Contents, k: int) -> Check:
    """Every trace of a live unit belongs to k units, where the series promises that.

    Where k rose, atoms that are too small for the greater one are withheld: they have what was promised first.
    """
    if contents.unreadable:
        return Check("traces", False, _NOT_COUNTED)
    smallest = contents.traces.smallest()
    if head.smallest_trace is not None and head.smallest_trace != smallest:
        return Check("traces", False, f"the document says {head.smallest_trace}, the ranges say {smallest}")
    k = 1 if head.frozen.mode == _UNPROTECTED else k
    if rare := contents.traces.rarer_than(k):
        return Check("traces", False, f"{rare:,} units have a trace that fewer than k={k} units share")
    return Check("traces", True, f"the smallest is shared by {smallest} units" if smallest else "none yet")
