"""Verification of a ledger: its state in a few numbers, and whether all of it is what its nights left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from microagg_core.arrays import ShortInts
from microagg_core.errors import EXIT_DONE, GateError, StorageError, TransientStorageError
from microagg_core.inspect.check import Check
from microagg_core.release.revisions import unnamed_files
from microagg_core.series.atoms import (
    TraceCounter,
    counts_of,
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
from microagg_core.series.units import NO_ATOM, WITH_ATOM, State, is_increasing, range_of
from microagg_core.store.objects import Store
from microagg_core.store.urls import shown

#: Checks of what is stored; the others are of what it says.
_OF_STORAGE = ("chain", "ranges", "marks", "releases", "files")
#: Without a promise about traces.
_UNPROTECTED = "independent"
_NOT_COUNTED = "not counted, as ranges could not be read"


@dataclass(frozen=True)
class LedgerStatus:
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
    #: Whether units have several rows: then what is counted are rows.
    several: bool = False


def status_of(ledger: Ledger) -> LedgerStatus | None:
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
        several=frozen.rows is not None,
    )


def verify_series(ledger: Ledger, output: Store) -> list[Check]:
    """Verify the ledger and hold the output against it; nothing to check before the first night."""
    checks = verify_ledger(ledger)
    if not checks or not checks[0].passed:  # without its chain nobody knows what the ledger knows
        return checks
    names, unknown = list(unnamed_files(output)), unknown_releases(ledger, output)
    files = f"{len(names)} files of {shown(output.url)} are named by no manifest; microagg clean removes what runs left"
    return [
        *checks,
        _marks_check(ledger),
        _check(
            "releases",
            [unknown_in_words(output, unknown)] if unknown else [],
            f"all releases of {shown(output.url)} are known",
        ),
        _check("files", [files] if names else [], "manifests name every file of the output"),
    ]


def verify_ledger(ledger: Ledger) -> list[Check]:
    """Read the whole chain and all units of its newest night again; nothing to check before the first night."""
    try:
        generations = [ledger.linked(night) for night in ledger.nights()]
    except TransientStorageError:
        raise
    except StorageError as error:
        return [Check("chain", False, error.message)]
    if not generations:
        return []
    head = generations[-1]
    contents = _Contents(ledger, head)
    return [
        _chain_check(generations),
        _check("ranges", contents.unreadable, f"{sum(1 for _ in head.files)} files as they were written"),
        _check("units", contents.unordered, "sorted, each once, and in its range"),
        _check("states", contents.wrong_units, "each with the nights and the atom that belong to it"),
        _check("atoms", contents.wrong_atoms(), "each with as many units as it says"),
        _counts_check(head, contents),
        _traces_check(head, contents, min(generation.frozen.k for generation in generations)),
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


class _Contents:
    """The rows of a generation, read and counted, and what is wrong with them, a sentence each."""

    def __init__(self, ledger: Ledger, head: Generation) -> None:
        self._ledger, self._head = ledger, head
        newest = ledger.newest_release(head)
        self._newest = newest.night if newest is not None else -1
        self.counts, self.traces = UnitCounts(), TraceCounter(head.frozen.rows is not None)
        self.unreadable: list[str] = []
        self.unordered: list[str] = []
        self.wrong_units: list[str] = []
        self._names: list[str] = []
        tables = [self._read_atoms(number) for number in range(len(head.atoms))]
        readable = [table for table in tables if table is not None]
        #: All atoms, and how many units the ranges have of each; None: they cannot be read.
        self._atoms = pa.concat_tables(readable).combine_chunks() if len(readable) == len(tables) else None
        self._n_units = np.zeros(self._atoms.num_rows if self._atoms is not None else 0, dtype=np.int64)
        for number in range(head.n_ranges):
            self._read_units(number)

    def _read_atoms(self, number: int) -> pa.Table | None:
        n_ranges = len(self._head.atoms)
        table = self._read(self._ledger.read_atoms, number, n_ranges)
        atom = np.asarray(table["atom"]) if table is not None else np.zeros(0, dtype=np.uint64)
        if (atom[1:] <= atom[:-1]).any() or (range_of_atoms(atom, n_ranges) != number).any():
            self.unordered.append(f"atoms {number} are not sorted, or one is there twice or of another range")
        return table

    def _read(self, read: Callable[[Generation, int, int], pa.Table], number: int, n_ranges: int) -> pa.Table | None:
        """Read a range; None where it cannot be read, which is noted."""
        try:
            return read(self._head, number, n_ranges)
        except TransientStorageError:
            raise
        except StorageError as error:
            self.unreadable.append(error.message)
            return None

    def wrong_atoms(self) -> list[str]:
        if self._atoms is None or self.unreadable:
            return [_NOT_COUNTED]
        atom, since, last = (np.asarray(self._atoms[name]) for name in ("atom", "since", "last"))
        n_miscounted = int((self._n_units != np.asarray(self._atoms["n"])).sum())
        wrong = [f"{n_miscounted:,} atoms have not as many units as they say"] if n_miscounted else []
        n_ranges = len(self._head.atoms)
        misplaced = (since > last) | (last > self._head.night) | (since < 0)
        misplaced |= range_of_atoms(atom, n_ranges) != range_of_classes(pairs_of(self._atoms, "k"), n_ranges)
        return wrong + ([f"{int(misplaced.sum()):,} atoms have no right nights or range"] if misplaced.any() else [])

    def _read_units(self, number: int) -> None:
        units = self._read(self._ledger.read_range, number, self._head.n_ranges)
        if units is None or self._atoms is None:
            return
        self._count_for_atoms(units)
        table = with_atoms(units, self._atoms)
        self.counts += counts_of(table, self._newest)
        self.traces.add(table)
        u0, u1 = (table[name].to_numpy() for name in ("u0", "u1"))
        if not is_increasing(u0, u1) or (range_of(u0, self._head.n_ranges) != number).any():
            self.unordered.append(f"range {number} is not sorted, has a unit twice, or one of another range")
        self._names = self._names or units.column_names
        if units.column_names != self._names:
            self.wrong_units.append(f"range {number} has digests of other columns than the ranges before it")
        if n_wrong := _n_wrong(table, np.asarray(units["last"]), self._head.night):
            self.wrong_units.append(f"{n_wrong:,} units of range {number} have no right state, nights or trace")

    def _count_for_atoms(self, units: pa.Table) -> None:
        atom = np.asarray(units["atom"])
        counted = counts_for_its_atom(units, self._head.frozen.mode) & (atom != NO_ATOM)
        place = places_of_atoms(atom[counted], self._atoms)
        np.add.at(self._n_units, place[place >= 0], 1)
        if (place < 0).any():
            self.wrong_units.append(f"{int((place < 0).sum()):,} units are of atoms that are not there")


def _n_wrong(table: pa.Table, stored_last: ShortInts, night: int) -> int:
    state, since, last = (table[name].to_numpy() for name in ("state", "since", "last"))
    # Who waits, or was erased while he did.
    is_waiting = (state == State.HELD) | ((state == State.FORGOTTEN) & (last == -1))
    is_never = np.asarray(table["atom"]) == NO_ATOM
    # Who is removed is among changes alone, and who is not live any more goes nowhere with an atom.
    is_right = (state < State.REMOVED) & ((state == State.LIVE) | (stored_last != WITH_ATOM))
    is_right &= (since >= 0) & (since <= night)
    is_right &= np.where(is_waiting, last == -1, (last >= since) & (last <= night))
    # Who waits was never released, and who was released once is told apart from that for ever.
    is_right &= is_waiting == is_never
    return int((~is_right).sum())


def _check(name: str, wrong: list[str], right: str) -> Check:
    more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return Check(name, not wrong, "; ".join(wrong[:3]) + more if wrong else right)


def _marks_check(ledger: Ledger) -> Check:
    """Check that every night that others go on from has the mark that it was published."""
    nights = ledger.generations()
    void = {number for n in nights if n.kind == "void" for number in range(n.goes_on_from + 1, n.night + 1)}
    expected = [generation.night for generation in nights[:-1] if generation.night not in void]
    missing = [night for night in expected if not ledger.is_published(night)]
    wrong = f"{len(missing)} of {len(expected)} marks in published/ are missing; the next run or microagg forget, "
    wrong += "which ask the manifests, writes them again"
    return _check("marks", [wrong] if missing else [], f"{len(expected)} nights are marked as published")


def _chain_check(generations: list[Generation]) -> Check:
    wrong = []
    for before, after in pairwise(generations):
        if after.key_fingerprint != before.key_fingerprint:
            wrong.append(f"night {after.night} was made under another key than the night before it")
        if after.frozen.k < before.frozen.k:
            wrong.append(f"night {after.night} has a smaller k than the night before it")
    return _check("chain", wrong, f"{len(generations)} nights, each after the one before it")


def _counts_check(head: Generation, contents: _Contents) -> Check:
    if contents.unreadable:
        return Check("counts", False, _NOT_COUNTED)
    document, ranges = counts_in_words(head.counts), counts_in_words(contents.counts)
    wrong = [f"the document says {document}; the ranges hold {ranges}"] if head.counts != contents.counts else []
    return _check("counts", wrong, ranges)


def _past_check(ledger: Ledger, generations: list[Generation]) -> Check:
    """Check that each document sums up all nights before as these do themselves."""
    wrong = [
        f"night {generation.night} says otherwise what the nights before it were"
        for generation in generations
        if generation.past is not None and generation.past != ledger.past_of(replace(generation, past=None))
    ]
    return _check("past", wrong, "every document says of the nights before it what they say of themselves")


def _traces_check(head: Generation, contents: _Contents, k: int) -> Check:
    """Check that k units share every trace of a live unit, where the series promises that.

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
