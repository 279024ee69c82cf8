"""Forgetting: which units are to be erased, what vanishes with them, and the ledger as an erasure leaves it.

An erasure is one more night. Where the newest release holds somebody who is forgotten, the night publishes it again
without these units and without those whose history would be shared by fewer than k; all others are released as they
were. Nothing is decided by what anybody was called: units are digests here, as everywhere in a ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Ints, Pairs, UInt64s
from microagg_core.errors import StorageError
from microagg_core.series.atoms import atoms_table, counts_of, places_of_atoms, range_of_atoms, traces_of
from microagg_core.series.digests import as_columns, numbered_pairs, pairs_of, positions_in
from microagg_core.series.fates import Fate, Policy, decide, drawn_decoys
from microagg_core.series.generations import Generation, RangeFile, UnitCounts
from microagg_core.series.ledger import Ledger
from microagg_core.series.publications import is_published, unknown_in_words, unknown_releases
from microagg_core.series.units import NO_ATOM, WITH_ATOM, State
from microagg_core.series.verification import TraceCounter
from microagg_core.store.objects import Store

_NO_PAIRS: Pairs = np.zeros((0, 2), dtype=np.uint64)


@dataclass(frozen=True)
class ReleaseCount:
    """A release, and how many of the units that are forgotten it may hold."""

    release: Generation
    units: int


@dataclass(frozen=True)
class Erasure:
    """What is to become of whom, before anything of it is written.

    Attributes:
        ledger: of the series.
        before: the generation that it goes on from.
        newest: the newest release, by its generation.
        listed: the units that were asked for.
        named: how many of them the ledger knows.
        forgotten: those of them that are not forgotten yet.
        vanishing: the units that vanish with them from the newest release.
        closed: of these and of those in no release now, who may never be released again.
        holding: the releases that may hold somebody who is forgotten, old to new.
    """

    ledger: Ledger
    before: Generation
    newest: Generation | None
    listed: int
    named: int
    forgotten: Pairs
    vanishing: Pairs
    closed: Pairs
    holding: tuple[ReleaseCount, ...]

    @property
    def night(self) -> int:
        """The number of the night that the erasure is."""
        return self.before.night + 1

    @property
    def newest_night(self) -> int:
        """The night of the newest release; -1 where there is none."""
        return self.newest.night if self.newest is not None else -1

    @property
    def republishes(self) -> bool:
        """Whether the newest release holds somebody who is forgotten, and so is published again."""
        return self.newest is not None and any(one.release.night == self.newest.night for one in self.holding)

    @property
    def n_with_them(self) -> int:
        """How many others vanish from the newest release, or may not return to the next."""
        return int((positions_in(_joined(self.vanishing, self.closed), self.forgotten) < 0).sum())

    def ranges(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Every range of the ledger as it is, and as the erasure leaves it, with what atoms say."""
        for table in self.ledger.units_with_atoms(self.before):
            yield table, self._following(table)

    def _following(self, table: pa.Table) -> pa.Table:
        unit, state = pairs_of(table, "u"), np.asarray(table["state"]).copy()
        state[_among(unit, self.closed) & (state == State.LIVE)] = State.GONE
        state[_among(unit, self.forgotten)] = State.FORGOTTEN
        last = np.asarray(table["last"]).copy()
        if self.republishes and self.newest is not None:
            out = (last == self.newest.night) & ~_among(unit, _joined(self.vanishing, self.forgotten))
            last[out] = self.night
        trace = traces_of(np.asarray(table["atom"]), state.astype(np.int64), last)
        columns = {"state": pa.array(state), "last": pa.array(last), **as_columns(trace, "t")}
        return pa.table({name: columns.get(name, table[name]) for name in table.column_names}, schema=table.schema)

    def write(self, date: str, revision: str | None) -> tuple[Generation, TraceCounter]:
        """Write the units of the night; its document, which is not committed yet, and the traces in it.

        Args:
            date: the day.
            revision: the one in which the newest release is published again; None where it is not.
        """
        files: list[tuple[RangeFile, ...]] = []
        counts, traces = UnitCounts(), TraceCounter()
        live: list[tuple[UInt64s, Ints]] = []
        for number, (table, following) in enumerate(self.ranges()):
            units = self.ledger.read_range(self.before, number, self.before.n_ranges)
            changes = self._changes(units, table, following)
            files.append(self.ledger.write_changes(self.before, self.night, number, self.before.n_ranges, changes))
            counts += counts_of(following, self.night if self.republishes else self.newest_night)
            traces.add(following)
            live.append(self._counted(following))
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
            atoms=self._write_atoms(live),
            counts=counts,
            smallest_trace=traces.smallest(),
        )
        return generation, traces

    def unlike(self, after: Generation) -> list[str]:
        """Compare what was announced with the ledger's rows before and after; a clause for each difference."""
        newly = with_them = others = 0
        for table, following in zip(
            self.ledger.units_with_atoms(self.before), self.ledger.units_with_atoms(after), strict=True
        ):
            was, now = np.asarray(table["state"]), np.asarray(following["state"])
            is_new = (now == State.FORGOTTEN) & (was != State.FORGOTTEN)
            was_out = np.asarray(table["last"]) == self.newest_night
            is_out = np.asarray(following["last"]) == (self.night if self.republishes else self.newest_night)
            goes = ((was == State.LIVE) & (now == State.GONE)) | (was_out & ~is_out & (self.newest_night >= 0))
            newly, with_them = newly + int(is_new.sum()), with_them + int((goes & ~is_new).sum())
            others += int(((was != now) & ~is_new & ~goes).sum())
        counts = (("are erased", newly, len(self.forgotten)), ("vanish with them", with_them, self.n_with_them))
        wrong = [f"{n} units {what}, and {of} were announced" for what, n, of in counts if n != of]
        return wrong + ([f"{others} other units change their state"] if others else [])

    def _changes(self, units: pa.Table, table: pa.Table, following: pa.Table) -> pa.Table:
        """The units that are not as they were, as rows of a range."""
        state, last = np.asarray(following["state"]), np.asarray(following["last"])
        last = np.where(state == State.LIVE, WITH_ATOM, last).astype(np.int32)
        differs = (state != np.asarray(units["state"])) | (last != np.asarray(units["last"]))
        columns = {"state": pa.array(state), "last": pa.array(last)}
        changed = pa.table({name: columns.get(name, units[name]) for name in units.column_names}, schema=units.schema)
        return changed.filter(pa.array(differs))

    def _counted(self, following: pa.Table) -> tuple[UInt64s, Ints]:
        """The atoms of a range's units that count for their atoms, and how many units of each are released again."""
        state, atom = np.asarray(following["state"]), np.asarray(following["atom"])
        stays = (state == State.LIVE) | ((self.before.frozen.mode == "disjoint") & (atom != NO_ATOM))
        return atom[stays], (np.asarray(following["last"])[stays] == self.night).astype(np.int64)

    def _write_atoms(self, live: Sequence[tuple[UInt64s, Ints]]) -> tuple[RangeFile, ...]:
        """The atoms as the erasure leaves them."""
        atom, out = (np.concatenate(column) for column in zip(*live, strict=True))
        files, n_ranges = [], len(self.before.atoms)
        for number in range(n_ranges):
            before = self.ledger.read_atoms(self.before, number, n_ranges)
            mine = range_of_atoms(atom, n_ranges) == number
            place = places_of_atoms(atom[mine], before)
            n = np.bincount(place, minlength=before.num_rows).astype(np.int64)
            is_out = np.bincount(place, out[mine], before.num_rows) > 0
            last = np.where(is_out, self.night, np.asarray(before["last"])).astype(np.int32)
            since = np.asarray(before["since"])
            table = atoms_table(np.asarray(before["atom"]), pairs_of(before, "k"), n, since, last)
            files.append(self.ledger.write_atoms(self.night, number, table.filter(pa.array(n > 0))))
        return tuple(files)


def published_nights(ledger: Ledger, output: Store, last: int) -> list[Generation]:
    """The generations up to a night that published a release, or published one again; old to new.

    Raises:
        StorageError: a document or manifest is damaged, or the output has releases that the ledger does not know.
    """
    nights: list[Generation] = []
    for night in range(last + 1):
        generation = ledger.generation(night)
        # An erasure that had nothing to publish has the names of the release before it.
        is_new = generation.kind == "night" or all(generation.release_name != of.release_name for of in nights[-1:])
        # Marks may be lost when a ledger is copied: the manifest is asked where there is none.
        if generation.kind != "void" and is_new and is_published(ledger, output, generation):
            nights.append(generation)
    return nights


def refuse_unknown_releases(ledger: Ledger, output: Store, head: Generation | None) -> None:
    """Stop where the output has releases that the ledger does not know, which may hold anybody.

    Where an erasure left one of them after the newest night, it is made again, and its files are compared.

    Raises:
        StorageError: it has.
    """
    strange = unknown_releases(ledger, output)
    newest, night = ledger.newest_release(head), head.night + 1 if head is not None else 0
    again = [manifest.id for manifest in strange if manifest.series is not None and manifest.series.night == night]
    if strange and (newest is None or newest.release_id not in again):
        raise StorageError(unknown_in_words(output, strange))


def decide_erasure(ledger: Ledger, output: Store, before: Generation, listed: Pairs, decoys: bool) -> Erasure:
    """What has to vanish so that the listed units can be forgotten.

    Args:
        ledger: of the series.
        output: where it is published.
        before: its newest generation.
        listed: the units.
        decoys: whether others of an atom may vanish in place of the whole atom.
    """
    releases = published_nights(ledger, output, before.night)
    newest = releases[-1] if releases else None
    distinct = numbered_pairs(listed)[1]
    forgotten = _gathered(ledger, before, lambda table: _among(pairs_of(table, "u"), distinct))
    named = forgotten.num_rows
    forgotten = forgotten.filter(pa.array(np.asarray(forgotten["state"]) != State.FORGOTTEN))
    holding = _holding(forgotten, releases)
    vanishing = _vanishing(ledger, before, newest, forgotten, decoys)
    closed = _closed(ledger, before, newest, holding)
    return Erasure(
        ledger,
        before,
        newest,
        len(distinct),
        named,
        pairs_of(forgotten, "u"),
        vanishing,
        _joined(vanishing, closed),
        holding,
    )


def resumed_erasure(ledger: Ledger, output: Store, after: Generation) -> Erasure:
    """An erasure whose generation is committed, from the two states around it."""
    before = ledger.linked(after.night - 1)
    releases = published_nights(ledger, output, before.night)
    forgotten, vanishing = [], []
    for table, following in zip(ledger.units_with_atoms(before), ledger.units_with_atoms(after), strict=True):
        state = np.asarray(table["state"])
        newly = (np.asarray(following["state"]) == State.FORGOTTEN) & (state != State.FORGOTTEN)
        forgotten.append(table.filter(pa.array(newly)))
        if releases:
            was_out = np.asarray(table["last"]) == releases[-1].night
            out = was_out & (np.asarray(following["last"]) != after.night)
            vanishing.append(pairs_of(table.filter(pa.array(out)), "u"))
    units = pa.concat_tables(forgotten)
    newest, holding = releases[-1] if releases else None, _holding(units, releases)
    digests = pairs_of(units, "u")
    erasure = Erasure(ledger, before, newest, len(digests), len(digests), digests, _NO_PAIRS, _NO_PAIRS, holding)
    return replace(erasure, vanishing=_joined(*vanishing)) if erasure.republishes else erasure


def _gathered(ledger: Ledger, generation: Generation, which: Callable[[pa.Table], Bools]) -> pa.Table:
    """Some units of all ranges; ``which`` tells them from a range."""
    tables = [table.filter(pa.array(which(table))) for table in ledger.units_with_atoms(generation)]
    return pa.concat_tables(tables).combine_chunks()


def _holding(forgotten: pa.Table, releases: Sequence[Generation]) -> tuple[ReleaseCount, ...]:
    """The releases between the first and the last that held each unit."""
    since, last = np.asarray(forgotten["since"]), np.asarray(forgotten["last"])
    counts = [ReleaseCount(one, int(((since <= one.night) & (one.night <= last)).sum())) for one in releases]
    return tuple(one for one in counts if one.units)


def _vanishing(
    ledger: Ledger, before: Generation, newest: Generation | None, forgotten: pa.Table, decoys: bool
) -> Pairs:
    """Who vanishes with the units, of those in the newest release, and of atoms that are withheld."""
    night = newest.night if newest is not None else -1
    # Where nothing is promised for histories, the rows of a release still have to be k to a class.
    name = "k" if before.frozen.mode == "independent" else "t"

    def counts_for(table: pa.Table) -> Bools:
        is_out: Bools = np.asarray(table["last"]) == night
        if before.frozen.mode != "independent":
            is_out |= np.asarray(table["state"]) == State.LIVE
        is_out &= (np.asarray(table["last"]) >= 0) & (np.asarray(table["state"]) != State.FORGOTTEN)
        return is_out

    affected = numbered_pairs(pairs_of(forgotten.filter(pa.array(counts_for(forgotten))), name))[1]
    members = _gathered(ledger, before, lambda table: counts_for(table) & _among(pairs_of(table, name), affected))
    present = ~_among(pairs_of(members, "u"), pairs_of(forgotten, "u"))
    return pairs_of(members.filter(pa.array(_vanishes(members, present, before, decoys))), "u")


def _vanishes(members: pa.Table, present: Bools, before: Generation, decoys: bool) -> Bools:
    """Who vanishes of atoms of which some are forgotten."""
    vanishes = np.ones(members.num_rows, dtype=np.bool_)
    if not decoys or before.frozen.mode not in ("atoms", "rotation"):
        return vanishes
    policy = Policy("atoms", "trace", "decoys", before.frozen.k, None, before.night + 1)
    atom, distinct = numbered_pairs(pairs_of(members, "t"))
    n = np.bincount(atom, minlength=len(distinct))
    left = n - np.bincount(atom[present], minlength=len(distinct))
    fates = decide(n, left, np.zeros(len(n), dtype=np.int32), policy)
    vanishes = (fates.code[atom] == Fate.CLOSED) | ~present
    stayers, unit = np.flatnonzero(present), pairs_of(members, "u")[present]
    vanishes[stayers[drawn_decoys(atom[stayers], fates.decoys, unit[:, 0] ^ unit[:, 1], policy.night)]] = True
    return np.asarray(vanishes)


def _closed(ledger: Ledger, before: Generation, newest: Generation | None, holding: Sequence[ReleaseCount]) -> Pairs:
    """Units that are withheld, and whose values are in a release that is withdrawn alone: they cannot return."""
    withdrawn = [one.release.night for one in holding if newest is None or one.release.night != newest.night]

    def is_stranded(table: pa.Table) -> Bools:
        stranded: Bools = np.isin(np.asarray(table["last"]), withdrawn)
        stranded &= np.asarray(table["state"]) == State.LIVE
        return stranded

    if before.frozen.mode == "independent":
        return _NO_PAIRS
    return pairs_of(_gathered(ledger, before, is_stranded), "u")


def _among(units: Pairs, some: Pairs) -> Bools:
    """Whether each digest is one of some, none of which repeats."""
    among: Bools = positions_in(units, some) >= 0
    return among


def _joined(*pairs: Pairs) -> Pairs:
    """All of them, each once."""
    return numbered_pairs(np.concatenate([_NO_PAIRS, *pairs]))[1]
