"""The ledger of a series: a chain of generations, one a night, each with its files of units.

What can be relied upon, on a disk and in a bucket:

- the files of a night are there for good before its document is;
- a document is created once and never replaced or removed, and has the digest of the one before it: of two racing
  nights one wins, and nobody can fork the chain or take a link out of it unseen;
- a run that dies leaves files that no document names, and started again it makes the same files and document.

Documents stay for ever, as they are small. Of the units the ledger keeps the last two generations: the newest, and the
one that a newer would go back to if the newest was never published. A generation names files of earlier nights too,
where its own did not change them; so its size is bounded, and what a night writes grows with what happened in it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from microagg_core.errors import DamagedWorkError, StorageError, TransientStorageError
from microagg_core.series.atoms import atoms_bytes, atoms_from, range_of_atoms, with_atoms
from microagg_core.series.generations import Generation, Past, RangeFile, broken
from microagg_core.series.invariants import Census, census_of_atoms, census_of_units, require
from microagg_core.series.units import latest_of, range_bytes, range_from, range_of
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import DAMAGED, GENERATIONS, LEDGER_DATA, PUBLISHED, SERIES, LedgerLayout, night_of
from microagg_core.store.objects import Store, canonical_json, sha256_hex
from microagg_core.store.urls import join_url, shown

T = TypeVar("T")

#: Of how many generations the units are kept.
_KEPT = 2
#: A range is written anew where more than this share of it changed since it was, or in so many nights.
_MOST_CHANGED = 0.25
_MOST_LATER = 30
_ASIDE_BYTES = 6


@dataclass(frozen=True)
class Ledger:
    """The private memory of a series; cheap to make, and to send to a worker.

    All that reads raises StorageError where a document or file is missing or not what its night wrote.
    """

    store: Store
    series: str

    def nights(self) -> list[int]:
        """List the committed nights afresh; stop where one is missing between others."""
        listed = (night_of(name) for name in self.store.list(GENERATIONS))
        nights = sorted(night for night in listed if night is not None)
        missing = next((i for i, night in enumerate(nights) if i != night), None)
        if missing is not None:
            raise broken(f"{self._url(missing)} is missing, and later nights are there")
        return nights

    def head(self) -> Generation | None:
        nights = self.nights()
        return self.linked(nights[-1]) if nights else None

    def generation(self, night: int) -> Generation:
        """Read a night's generation, without a look at the one before it."""
        return Generation.from_bytes(self._document(night), night, self._url(night))

    def generations(self) -> list[Generation]:
        """Read all generations, without a look at how they follow each other."""
        return [self.generation(night) for night in self.nights()]

    def linked(self, night: int) -> Generation:
        """Read a night's generation, which must follow the one before it."""
        generation = self.generation(night)
        if generation.parent != self.parent_of(night):
            raise broken(f"{self._url(night)} does not follow the document of the night before it")
        return generation

    def parent_of(self, night: int) -> str:
        """Digest the document of the night before; "" for the first night."""
        return sha256_hex(self._document(night - 1)) if night else ""

    def read_range(self, generation: Generation, number: int, n_ranges: int) -> pa.Table:
        """Read the units of one of ``n_ranges`` ranges, which may be more than the generation has."""
        ratio = _ratio(number, n_ranges, generation.n_ranges)
        table = self.read_files(generation.ranges[number // ratio], generation.night)
        return table if ratio == 1 else table.filter(pa.array(range_of(table["u0"].to_numpy(), n_ranges) == number))

    def read_files(self, files: Sequence[RangeFile], night: int) -> pa.Table:
        """Read a range's units from its files, of a night that may not be committed yet."""
        return latest_of([self._read_file(file, night, range_from) for file in files])

    def read_atoms_file(self, file: RangeFile, night: int) -> pa.Table:
        return self._read_file(file, night, atoms_from)

    def read_atoms(self, generation: Generation, number: int, n_ranges: int) -> pa.Table:
        """Read the atoms of one of ``n_ranges`` ranges, which may be more than the generation has."""
        ratio = _ratio(number, n_ranges, len(generation.atoms))
        table = self.read_atoms_file(generation.atoms[number // ratio], generation.night)
        is_own = range_of_atoms(np.asarray(table["atom"]), n_ranges) == number
        return table if ratio == 1 else table.filter(pa.array(is_own))

    def ranges_of_units(self, generation: Generation) -> Iterator[pa.Table]:
        return (self.read_range(generation, i, generation.n_ranges) for i in range(generation.n_ranges))

    def ranges_of_atoms(self, generation: Generation) -> Iterator[pa.Table]:
        return (self.read_atoms(generation, i, len(generation.atoms)) for i in range(len(generation.atoms)))

    def units_with_atoms(self, generation: Generation) -> Iterator[pa.Table]:
        """Read all units, range by range, with the columns of :func:`with_atoms`."""
        atoms = pa.concat_tables(self.ranges_of_atoms(generation)).combine_chunks()
        return (with_atoms(units, atoms) for units in self.ranges_of_units(generation))

    def write_range(self, night: int, number: int, table: pa.Table) -> RangeFile:
        """Write units of one range, for good; the same units are always the same file."""
        return self._write_file(LedgerLayout(night).range, number, range_bytes(table), table.num_rows)

    def write_atoms(self, night: int, number: int, table: pa.Table) -> RangeFile:
        return self._write_file(LedgerLayout(night).atoms, number, atoms_bytes(table), table.num_rows)

    def write_changes(
        self, before: Generation | None, night: int, number: int, n_ranges: int, changes: pa.Table
    ) -> tuple[RangeFile, ...]:
        """Write a night's changes of one range after its files, or all of it anew where these became too many."""
        if before is not None and before.n_ranges == n_ranges:
            first, *later = files = before.ranges[number]
            if not changes.num_rows:
                return files
            if len(later) < _MOST_LATER and changes.num_rows + sum(f.rows for f in later) <= first.rows * _MOST_CHANGED:
                return (*files, self.write_range(night, number, changes))
        tables = [self.read_range(before, number, n_ranges)] if before is not None else []
        return (self.write_range(night, number, latest_of([*tables, changes])),)

    def _write_file(self, name: Callable[[int, str], str], number: int, data: bytes, rows: int) -> RangeFile:
        file = RangeFile(name(number, sha256 := sha256_hex(data)), len(data), sha256, rows)
        self.store.put(file.name, data, durable=True)
        return file

    def _read_file(self, file: RangeFile, night: int, table_of: Callable[[bytes], pa.Table | None]) -> pa.Table:
        data = self.store.read_if_there(file.name)
        if data is None and self.store.exists(LedgerLayout(night + _KEPT).generation()):
            raise StorageError(
                f"later nights of the series {self.series} were committed in {self.store} meanwhile, and the units of "
                f"night {night} are not kept any more; run again"
            )
        url = shown(self.store.url_of(file.name))
        if data is None:
            raise broken(f"{url} is missing from the ledger")
        table = table_of(data) if sha256_hex(data) == file.sha256 else None
        if table is None or table.num_rows != file.rows:
            raise broken(f"{url} is damaged: it is not what the ledger says it holds")
        return table

    def newest_release(self, generation: Generation | None) -> Generation | None:
        """Find the generation that published the release which a generation, or one before it, left as the newest."""
        while generation is not None and generation.kind != "night":
            before = generation.goes_on_from
            earlier = self.newest_release(self.generation(before)) if before >= 0 else None
            is_other = earlier is None or generation.layout != earlier.layout
            if generation.kind == "erasure" and is_other:
                return generation
            generation = earlier
        return generation

    def past_of(self, generation: Generation | None) -> Past | None:
        if generation is None or generation.past is not None:
            return None if generation is None else generation.past
        before = generation.goes_on_from
        earlier = self.past_of(self.generation(before)) if before >= 0 else None
        if generation.kind == "void":
            return earlier
        return generation.own_past if earlier is None else earlier + generation.own_past

    def census(self, generation: Generation) -> Census:
        newest, mode = self.newest_release(generation), generation.frozen.mode
        total = sum((census_of_units(units, mode) for units in self.ranges_of_units(generation)), Census())
        night = newest.night if newest else -1
        return sum((census_of_atoms(atoms, night) for atoms in self.ranges_of_atoms(generation)), total)

    def commit(self, generation: Generation, census: Census | None = None) -> bool:
        """Make a night a part of the series: True if this call did, False where the very same one was there.

        The census of its units and atoms is counted here, where workers have not counted it.
        """
        night, document = generation.night, generation.to_bytes()
        if generation.parent != self.parent_of(night):
            raise broken(f"{self._url(night)} would not follow the document of the night before it")
        self._refuse_missing(generation)
        require("ledger-counts", (census or self.census(generation)).wrong(generation))
        require("promise-history", self._broken_promises(generation))
        if night:
            self._refuse_second_creation(night - 1)
        if self.store.create(LedgerLayout(night).generation(), document):
            if not night:
                self._refuse_second_creation(night)
            return True
        # Not granted may mean granted before, with the answer lost: what is there tells.
        if self._document(night) != document:
            raise StorageError(
                f"another night of the series {self.series} was committed meanwhile in {self.store}; nothing of this "
                "run was published: run again"
            )
        return False

    def _broken_promises(self, generation: Generation) -> list[str]:
        past, mode = self.past_of(generation), generation.frozen.mode
        if past is None or mode == "independent":
            return []
        wrong = []
        if mode == "disjoint" and past.repeating > 1:
            wrong.append("units may have been in several of the releases before")
        if generation.smallest_trace is not None and generation.smallest_trace < past.least_k:
            wrong.append(f"{generation.smallest_trace} units share the rarest history, fewer than k={past.least_k}")
        return wrong

    def _refuse_missing(self, generation: Generation) -> None:
        """Stop where a document would name what is not there: it could never be taken back.

        What earlier nights wrote was read tonight; what tonight wrote is made again by tracing anew.
        """
        for file in generation.files:
            if night_of(file.name) == generation.night and self.store.size(file.name) != file.bytes:
                url = shown(self.store.url_of(file.name))
                raise DamagedWorkError(f"{url} is missing or cut short, so its night was not committed; run again")

    def _refuse_second_creation(self, night: int) -> None:
        """Stop where the store creates a document twice; it is the one that is there, so that no harm is done."""
        if self.store.create(LedgerLayout(night).generation(), self._document(night)):
            raise StorageError(
                f"{self.store}: this store does not honour conditional creation (If-None-Match), so two nights could "
                "both be committed; keep the ledger in a store that does, or on a local disk"
            )

    def is_published(self, night: int) -> bool:
        """Look for the mark that readers had the release of a night, wherever it is now."""
        return self.store.exists(LedgerLayout(night).published())

    def note_published(self, night: int) -> None:
        # Not empty: tools that copy folders leave empty objects out.
        self.store.put(LedgerLayout(night).published(), canonical_json({"night": night}))

    def _document(self, night: int) -> bytes:
        document = self.store.read_if_there(LedgerLayout(night).generation())
        if document is None:
            raise broken(f"{self._url(night)} is missing")
        return document

    def _url(self, night: int) -> str:
        return shown(self.store.url_of(LedgerLayout(night).generation()))


def _ratio(number: int, n_ranges: int, stored: int) -> int:
    """Count how many of ``n_ranges`` ranges one stored range holds."""
    ratio, rest = divmod(n_ranges, stored)
    if rest or ratio & (ratio - 1) or not 0 <= number < n_ranges:
        raise ValueError("ranges are only ever halved, and their numbers start at 0")
    return ratio


def ledger_of(spec: ReleaseSpec) -> Ledger:
    """Name the ledger of a spec's series: where the spec says, or else in its work area."""
    place = spec.series.ledger if spec.series is not None else None
    if place is None:
        url, options = join_url(spec.work.url, SERIES, spec.name), spec.work.storage_options
    else:
        url, options = place.url, place.storage_options
    return Ledger(Store(url, dict(options), private=True), spec.name)


def clear_unnamed(ledger: Ledger) -> int:
    """Remove the units that nobody needs any more: of nights before the last two, and of runs that lost or died.

    Files of nights that are not committed yet stay, since a run may be about to commit them. What is needed stays
    even where this stops with a StorageError. Counts the files.
    """
    head = ledger.head()
    if head is None:
        return 0
    kept = [head, *(ledger.generation(night) for night in range(max(head.night - _KEPT + 1, 0), head.night))]
    named = {file.name for generation in kept for file in generation.files}
    listed = set(ledger.store.list(LEDGER_DATA, unfinished=True)) - named
    unneeded = [name for name in sorted(listed) if (night := night_of(name)) is not None and night <= head.night]
    ledger.store.delete_many(unneeded)
    return len(unneeded)


def last_sound(ledger: Ledger) -> Generation | None:
    """Find the newest generation with a whole chain and whole units, which a series can go on from."""
    chain: list[Generation] = []
    while (generation := _unless_damaged(partial(ledger.linked, len(chain)))) is not None:
        chain.append(generation)
    for generation in reversed(chain):
        if _unless_damaged(partial(_is_read, ledger, generation)):
            return generation
    return None


def _is_read(ledger: Ledger, generation: Generation) -> bool:
    for _ in ledger.units_with_atoms(generation):
        pass
    return True


def _unless_damaged(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except TransientStorageError:
        raise
    except StorageError:
        return None


def move_aside(ledger: Ledger, first: int) -> int:
    """Move all that is kept of nights from ``first`` on to a folder of this attempt's own below ``damaged``.

    The newest night goes first, so that whenever this is stopped the rest is a chain, and the same call goes on.
    """
    store, attempt = ledger.store, secrets.token_hex(_ASIDE_BYTES)
    listed = [name for place in (GENERATIONS, PUBLISHED, LEDGER_DATA) for name in store.list(place)]
    nights = {name: night_of(name) for name in listed}
    # A file that is no night's by its name is in the way of nobody.
    late = [name for name in listed if (night := nights[name]) is not None and night >= first]
    for name in sorted(late, key=lambda name: -(nights[name] or 0)):
        store.copy_from(store, name, f"{DAMAGED}/{attempt}/{name}")
        store.delete(name)
    return len(late)
