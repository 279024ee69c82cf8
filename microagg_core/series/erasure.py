"""An erasure: which units are erased, what vanishes with them, and the ledger as it leaves it.

An erasure is one more night. Where the newest release holds somebody who is forgotten, the night publishes it again
without these units and without those whose history would be shared by fewer than k; all others are released as they
were. Nothing is decided by what anybody was called: units are digests here, as everywhere in a ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Pairs, UInt64s
from microagg_core.errors import StorageError
from microagg_core.series.atoms import TraceCounter, atoms_table, counts_of, places_of_atoms, range_of_atoms, traces_of
from microagg_core.series.digests import as_columns, numbered_rows, pairs_of, positions_in, units_alone
from microagg_core.series.fates import Fate, decide, drawn_decoys
from microagg_core.series.generations import Generation, RangeFile, UnitCounts
from microagg_core.series.invariants import counts_for_its_atom
from microagg_core.series.ledger import Ledger
from microagg_core.series.publications import is_published, unknown_in_words, unknown_releases
from microagg_core.series.units import WITH_ATOM, State
from microagg_core.store.objects import Store

_NO_PAIRS: Pairs = np.zeros((0, 2), dtype=np.uint64)


@dataclass(frozen=True)
class Erasure:
    """What is to become of whom, before anything of it is written."""

    ledger: Ledger
    #: The generation that it goes on from, and that of the newest release.
    before: Generation
    newest: Generation | None
    #: How many units were asked for, and how many of them the ledger knows.
    listed: int
    named: int
    #: Those of them that are not forgotten yet.
    forgotten: Pairs
    #: The units that vanish with them from the newest release.
    vanishing: Pairs
    #: Of these and of those in no release now, who may never be released again.
    closed: Pairs
    #: The releases that may hold somebody who is forgotten, old to new, and how many of them each may hold.
    holding: tuple[tuple[Generation, int], ...]

    @property
    def night(self) -> int:
        return self.before.night + 1

    @property
    def newest_night(self) -> int:
        return self.newest.night if self.newest is not None else -1

    @property
    def republishes(self) -> bool:
        """The newest release holds somebody who is forgotten, and so is published again."""
        return any(release.night == self.newest_night for release, _ in self.holding)

    @property
    def n_with_them(self) -> int:
        """Others that vanish from the newest release, or may not return to the next."""
        return int((positions_in(_joined(self.vanishing, self.closed), self.forgotten) < 0).sum())

    def ranges(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Read every range of the ledger, with what atoms say, as it is and as the erasure leaves it."""
        for units in self.ledger.units_with_atoms(self.before):
            yield units, self._following(units)

    def _following(self, units: pa.Table) -> pa.Table:
        unit, state = pairs_of(units, "u"), np.asarray(units["state"]).copy()
        state[_among(unit, self.closed) & (state == State.LIVE)] = State.GONE
        state[_among(unit, self.forgotten)] = State.FORGOTTEN
        last = np.asarray(units["last"]).copy()
        if self.republishes:
            out = (last == self.newest_night) & ~_among(unit, _joined(self.vanishing, self.forgotten))
            last[out] = self.night
        trace = traces_of(np.asarray(units["atom"]), state.astype(np.int64), last)
        return _with_columns(units, {"state": pa.array(state), "last": pa.array(last), **as_columns(trace, "t")})

    def write(self, date: str, revision: str | None) -> tuple[Generation, TraceCounter]:
        """Write the units and atoms of the night; its document is not committed yet."""
        files: list[tuple[RangeFile, ...]] = []
        counts, traces = UnitCounts(), TraceCounter(self.before.frozen.rows is not None)
        atoms, released = [], []
        for number, (_, following) in enumerate(self.ranges()):
            files.append(self._write_changes(number, following))
            counts += counts_of(following, self.night if self.republishes else self.newest_night)
            traces.add(following)
            counted = counts_for_its_atom(following, self.before.frozen.mode)
            atoms.append(np.asarray(following["atom"])[counted])
            released.append(np.asarray(following["last"])[counted] == self.night)
        of_release = self.newest or self.before
        generation = replace(
            self.before,
            night=self.night,
            kind="erasure",
            release_id=of_release.release_id,
            revision=revision or of_release.revision,
            output=of_release.output,
            manifest_sha256=of_release.manifest_sha256,
            date=date,
            run_key="",
            parent=self.ledger.parent_of(self.night),
            ranges=tuple(files),
            atoms=self._write_atoms(np.concatenate(atoms), np.concatenate(released)),
            counts=counts,
            smallest_trace=traces.smallest(),
        )
        return generation, traces

    def _write_changes(self, number: int, following: pa.Table) -> tuple[RangeFile, ...]:
        n_ranges = self.before.n_ranges
        units = self.ledger.read_range(self.before, number, n_ranges)
        state, last = np.asarray(following["state"]), np.asarray(following["last"])
        last = np.where(state == State.LIVE, WITH_ATOM, last).astype(np.int32)
        differs = (state != np.asarray(units["state"])) | (last != np.asarray(units["last"]))
        changes = _with_columns(units, {"state": pa.array(state), "last": pa.array(last)}).filter(pa.array(differs))
        return self.ledger.write_changes(self.before, self.night, number, n_ranges, changes)

    def _write_atoms(self, atom: UInt64s, is_out: Bools) -> tuple[RangeFile, ...]:
        """Write the atoms that units still have; those of released units were released last in this night."""
        files, n_ranges = [], len(self.before.atoms)
        for number in range(n_ranges):
            before = self.ledger.read_atoms(self.before, number, n_ranges)
            is_own = range_of_atoms(atom, n_ranges) == number
            place = places_of_atoms(atom[is_own], before)
            n = np.bincount(place, minlength=before.num_rows).astype(np.int64)
            released = np.bincount(place, is_out[is_own], before.num_rows) > 0
            last = np.where(released, self.night, np.asarray(before["last"])).astype(np.int32)
            since = np.asarray(before["since"])
            table = atoms_table(np.asarray(before["atom"]), pairs_of(before, "k"), n, since, last)
            files.append(self.ledger.write_atoms(self.night, number, table.filter(pa.array(n > 0))))
        return tuple(files)

    def least_profile(self) -> int | None:
        """Count the units of several rows that share the rarest profile of the release as it is published again."""
        profiles = TraceCounter(several=True)
        for _, following in self.ranges():
            out = following.filter(pa.array(np.asarray(following["last"]) == self.night))
            profiles.add(_with_columns(out, as_columns(pairs_of(out, "k"), "t")))
        return profiles.smallest_of_units()

    def unlike(self, after: Generation) -> list[str]:
        """Compare what was announced with the ledger's rows before and after; a clause for each difference."""
        newly = with_them = others = 0
        for units, following in _both(self.ledger, self.before, after):
            was, now = np.asarray(units["state"]), np.asarray(following["state"])
            is_new = (now == State.FORGOTTEN) & (was != State.FORGOTTEN)
            was_out = np.asarray(units["last"]) == self.newest_night
            is_out = np.asarray(following["last"]) == (self.night if self.republishes else self.newest_night)
            goes = ((was == State.LIVE) & (now == State.GONE)) | (was_out & ~is_out & (self.newest_night >= 0))
            newly, with_them = newly + int(is_new.sum()), with_them + int((goes & ~is_new).sum())
            others += int(((was != now) & ~is_new & ~goes).sum())
        counts = (("are erased", newly, len(self.forgotten)), ("vanish with them", with_them, self.n_with_them))
        wrong = [f"{n} units {verb}, and {of} were announced" for verb, n, of in counts if n != of]
        return wrong + ([f"{others} other units change their state"] if others else [])


def _both(ledger: Ledger, before: Generation, after: Generation) -> Iterator[tuple[pa.Table, pa.Table]]:
    return zip(ledger.units_with_atoms(before), ledger.units_with_atoms(after), strict=True)


def _with_columns(table: pa.Table, columns: dict[str, pa.Array]) -> pa.Table:
    return pa.table({name: columns.get(name, table[name]) for name in table.column_names}, schema=table.schema)


def published_nights(ledger: Ledger, output: Store, last: int) -> list[Generation]:
    """List the generations up to a night that published a release, or published one again; old to new."""
    nights: list[Generation] = []
    for night in range(last + 1):
        generation = ledger.generation(night)
        # An erasure that had nothing to publish has the names of the release before it.
        is_new = generation.kind == "night" or not nights or generation.layout != nights[-1].layout
        # Marks may be lost when a ledger is copied: the manifest is asked where there is none.
        if generation.kind != "void" and is_new and is_published(ledger, output, generation):
            nights.append(generation)
    return nights


def refuse_unknown_releases(ledger: Ledger, output: Store, head: Generation | None) -> None:
    """Stop where the output has releases that the ledger does not know, which may hold anybody.

    Where an erasure left one of them after the newest night, it is made again, and its files are compared.
    """
    unknown = unknown_releases(ledger, output)
    newest, night = ledger.newest_release(head), head.night + 1 if head is not None else 0
    again = [manifest.id for manifest in unknown if manifest.series is not None and manifest.series.night == night]
    if unknown and (newest is None or newest.release_id not in again):
        raise StorageError(unknown_in_words(output, unknown))


def decide_erasure(ledger: Ledger, output: Store, before: Generation, listed: Pairs, decoys: bool) -> Erasure:
    """Decide what has to vanish so that the listed units can be forgotten; ``decoys`` may spare the rest of an atom."""
    releases = published_nights(ledger, output, before.night)
    newest = releases[-1] if releases else None
    distinct = numbered_rows(listed)[1]
    several = before.frozen.rows is not None

    def is_listed(units: pa.Table) -> Bools:
        rows = pairs_of(units, "u")
        return _among(units_alone(rows) if several else rows, distinct)

    named = _gathered(ledger, before, is_listed)
    forgotten = named.filter(pa.array(np.asarray(named["state"]) != State.FORGOTTEN))
    holding = _holding(forgotten, releases)
    vanishing = _vanishing(ledger, before, newest, forgotten, decoys)
    closed = _joined(vanishing, _stranded(ledger, before, newest, holding))
    digests = pairs_of(forgotten, "u")
    return Erasure(ledger, before, newest, len(distinct), named.num_rows, digests, vanishing, closed, holding)


def resumed_erasure(ledger: Ledger, output: Store, after: Generation) -> Erasure:
    """Reconstruct an erasure whose generation is committed, from the two states around it."""
    before = ledger.linked(after.night - 1)
    releases = published_nights(ledger, output, before.night)
    newest = releases[-1] if releases else None
    forgotten, vanishing = [], []
    for units, following in _both(ledger, before, after):
        is_forgotten = np.asarray(following["state"]) == State.FORGOTTEN
        forgotten.append(units.filter(pa.array(is_forgotten & (np.asarray(units["state"]) != State.FORGOTTEN))))
        if newest is not None:
            was_out = np.asarray(units["last"]) == newest.night
            goes = was_out & (np.asarray(following["last"]) != after.night)
            vanishing.append(pairs_of(units.filter(pa.array(goes)), "u"))
    newly = pa.concat_tables(forgotten)
    digests, holding = pairs_of(newly, "u"), _holding(newly, releases)
    erasure = Erasure(ledger, before, newest, len(digests), len(digests), digests, _NO_PAIRS, _NO_PAIRS, holding)
    return replace(erasure, vanishing=_joined(*vanishing)) if erasure.republishes else erasure


def _gathered(ledger: Ledger, generation: Generation, are_wanted: Callable[[pa.Table], Bools]) -> pa.Table:
    tables = [units.filter(pa.array(are_wanted(units))) for units in ledger.units_with_atoms(generation)]
    return pa.concat_tables(tables).combine_chunks()


def _holding(forgotten: pa.Table, releases: Sequence[Generation]) -> tuple[tuple[Generation, int], ...]:
    """Count the units that each release may hold: those between whose first and last release it is."""
    since, last = np.asarray(forgotten["since"]), np.asarray(forgotten["last"])
    counts = [(release, int(((since <= release.night) & (release.night <= last)).sum())) for release in releases]
    return tuple((release, n) for release, n in counts if n)


def _vanishing(
    ledger: Ledger, before: Generation, newest: Generation | None, forgotten: pa.Table, decoys: bool
) -> Pairs:
    """Find who vanishes with the units, of those in the newest release, and of atoms that are withheld."""
    night, is_independent = newest.night if newest is not None else -1, before.frozen.mode == "independent"
    # Where nothing is promised for histories, the rows of a release still have to be k to a class.
    shared = "k" if is_independent else "t"

    def may_vanish(units: pa.Table) -> Bools:
        state, last = np.asarray(units["state"]), np.asarray(units["last"])
        is_out = (last == night) | ((state == State.LIVE) & (not is_independent))
        return np.asarray(is_out & (last >= 0) & (state != State.FORGOTTEN))

    affected = numbered_rows(pairs_of(forgotten.filter(pa.array(may_vanish(forgotten))), shared))[1]
    members = _gathered(ledger, before, lambda units: may_vanish(units) & _among(pairs_of(units, shared), affected))
    if decoys and before.frozen.mode in ("atoms", "rotation"):
        present = ~_among(pairs_of(members, "u"), pairs_of(forgotten, "u"))
        members = members.filter(pa.array(_vanishes_with_decoys(members, present, before)))
    return pairs_of(members, "u")


def _vanishes_with_decoys(members: pa.Table, present: Bools, before: Generation) -> Bools:
    """Mark who vanishes of atoms of which some are forgotten and others are ``present``."""
    atom, distinct = numbered_rows(pairs_of(members, "t"))
    n = np.bincount(atom, minlength=len(distinct))
    left = n - np.bincount(atom[present], minlength=len(distinct))
    fates = decide(n, left, np.zeros(len(n), dtype=np.bool_), "decoys", before.frozen.k)
    vanishes = (fates.code[atom] == Fate.CLOSED) | ~present
    stayers, unit = np.flatnonzero(present), pairs_of(members, "u")[present]
    vanishes[stayers[drawn_decoys(atom[stayers], fates.decoys, unit[:, 0] ^ unit[:, 1], before.night + 1)]] = True
    return np.asarray(vanishes)


def _stranded(
    ledger: Ledger, before: Generation, newest: Generation | None, holding: Sequence[tuple[Generation, int]]
) -> Pairs:
    """Find withheld units whose values are in a release alone that is withdrawn: they cannot return."""
    if before.frozen.mode == "independent":
        return _NO_PAIRS
    withdrawn = [release.night for release, _ in holding if newest is None or release.night != newest.night]

    def is_stranded(units: pa.Table) -> Bools:
        is_live = np.asarray(units["state"]) == State.LIVE
        return np.asarray(np.isin(np.asarray(units["last"]), withdrawn) & is_live)

    return pairs_of(_gathered(ledger, before, is_stranded), "u")


def _among(units: Pairs, distinct: Pairs) -> Bools:
    among: Bools = positions_in(units, distinct) >= 0
    return among


def _joined(*pairs: Pairs) -> Pairs:
    return numbered_rows(np.concatenate([_NO_PAIRS, *pairs]))[1]
