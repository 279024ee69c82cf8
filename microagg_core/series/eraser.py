"""Carrying an erasure out: the newest release again without some rows, and the releases that are withdrawn.

The order of writes: the units of the ledger, the new revision's files, the ledger's generation, the manifest,
``latest.json``, the tombstones and removals, and last the mark that all of it is done. A run that dies between two of
them is finished by the same command, from the two generations around the erasure alone.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Pairs, UInt64s
from microagg_core.data.formats.reading import read_unit_list
from microagg_core.data.formats.writing import released_format
from microagg_core.errors import InternalError, SpecError, StorageError
from microagg_core.group.metrics.figures import Figures
from microagg_core.inspect.check import Check
from microagg_core.inspect.gate import refuse_failed
from microagg_core.inspect.kanonymity import CombinationCounter
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.release.cleaning import Running, is_under_way
from microagg_core.release.context import work_store
from microagg_core.release.manifest import Manifest, PartEntry, ReleaseFacts
from microagg_core.release.page_files import bring_pages
from microagg_core.release.pages.pages import public_pages
from microagg_core.release.publish import StagedPart, is_whole, publish
from microagg_core.release.revisions import (
    Tombstone,
    committed_revisions_in,
    is_withdrawn,
    part_batches,
    read_manifest,
    update_latest,
    withdraw,
)
from microagg_core.release.signature import read_signing_key
from microagg_core.release.step import Run
from microagg_core.release.steps.candidate import CANDIDATE
from microagg_core.series.atoms import TraceCounter
from microagg_core.series.digests import SeriesKey, classes_of, pairs_of, rows_of, units_of
from microagg_core.series.erasure import Erasure, decide_erasure, refuse_unknown_releases, resumed_erasure
from microagg_core.series.generations import Generation
from microagg_core.series.invariants import require
from microagg_core.series.keys import key_of, refuse_other_key
from microagg_core.series.ledger import clear_unnamed, ledger_of
from microagg_core.series.publications import (
    Attempt,
    erasure_key,
    is_published,
    manifest_of,
    manifests_of,
    note_attempt,
    sweep_output,
    sweep_published,
    sweep_unknown,
    taken_back,
)
from microagg_core.software import software
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import ReleaseLayout, revision_name, revision_number
from microagg_core.store.objects import Store
from microagg_core.store.urls import shown


@dataclass(frozen=True)
class ErasureReport:
    """The effect of an erasure, done or not: counts and names of releases, never a unit."""

    series: str
    listed: int
    named: int = 0
    forgotten: int = 0
    with_them: int = 0
    #: By folder of the release: how many of the units it may hold, and whether it is published again without them.
    releases: tuple[tuple[str, int, bool], ...] = ()
    done: bool = False
    #: An erasure that was stopped before was finished, or is to be.
    resumed: bool = False
    removed_files: int = 0
    #: Whether what is counted is records of units of several, but for ``listed``.
    several: bool = False

    def document(self) -> dict[str, Any]:
        releases = [
            {"release": folder, "units": units, "published_again": again} for folder, units, again in self.releases
        ]
        names = ("series", "listed", "named", "forgotten", "with_them", "done", "resumed", "removed_files")
        return {**{name: getattr(self, name) for name in names}, "releases": releases}

    def sentences(self) -> list[str]:
        lines = []
        if self.resumed:
            word = "was finished" if self.done else "is not finished; --yes finishes it first"
            lines.append(f"an erasure of the series {self.series} that was begun before {word}")
        before = self.named - self.forgotten
        already = f", {before} of them forgotten already" if before else ""
        if self.several:
            lines.append(f"{self.named} records of {self.listed} units are known to the series {self.series}{already}")
        else:
            lines.append(f"{self.named} of {self.listed} units are known to the series {self.series}{already}")
        if not self.forgotten and self.removed_files:
            lines.append(f"{self.removed_files} files that no release holds any more were removed")
        if not self.forgotten:
            return [*lines, "nothing else is to be done"] if self.resumed else [*lines, "nothing is to be done"]
        for folder, units, again in self.releases:
            effect = "withdrawn, and published again without them" if again else "withdrawn"
            lines.append(f"{folder} may hold {units} of them: {effect}")
        others = "records of other units" if self.several else "other units"
        lines.append(f"{self.with_them} {others} vanish with them, and are never released again")
        lines += ["what was read of these releases before cannot be unread"] if self.releases else []
        if self.done:
            return [*lines, f"done; {self.removed_files} files removed"]
        return [*lines, "nothing was changed; the same command with --yes does it"]


def forget(
    spec_path: str, units_path: str, yes: bool, now: datetime.datetime, settings: Sequence[str] = ()
) -> ErasureReport:
    """Report what it takes to erase units from a series, and with ``yes`` do it."""
    spec = load_spec(spec_path, settings)
    if spec.unit == "row":
        raise SpecError(
            "unit: no columns name a unit, so nobody can be found in the releases; a row cannot be forgotten"
        )
    ledger, output = ledger_of(spec), Store(spec.output.url, dict(spec.output.storage_options))
    table = read_unit_list(units_path, spec.unit_columns)
    head, work = ledger.head(), work_store(spec)
    pending = head is not None and head.kind == "erasure" and not ledger.is_published(head.night)
    if head is not None and pending and is_under_way(Run(work, erasure_key(head.night))):
        raise StorageError(f"another erasure of the series {spec.name} is under way; run again when it is done")
    refuse_unknown_releases(ledger, output, head)
    # Also where no night was committed yet: the first may have died.
    removed = sweep_output(ledger, output, work) + sweep_unknown(output) if yes and not pending else 0
    if head is not None:
        key = key_of(spec, ledger)
        refuse_other_key(head, key, ledger)
        if pending and yes:
            removed += Eraser(spec, key, output, resumed_erasure(ledger, output, head), now).go_on(head)
        if head.kind == "night" and not is_published(ledger, output, head):
            # What its run may hold of them goes: the night is taken back, unless its run is alive.
            head = taken_back(ledger, output, head, work, only_tell=not yes)
    if head is None:
        return ErasureReport(spec.name, table.num_rows, removed_files=removed)
    listed = units_of([table[name] for name in spec.unit_columns], key, head.frozen.unit_form)
    decoys = spec.series is not None and spec.series.leavers == "decoys"
    erasure = decide_erasure(ledger, output, head, listed, decoys)
    is_done = yes and len(erasure.forgotten) > 0
    if is_done:
        removed += Eraser(spec, key, output, erasure, now).carry_out()
    return ErasureReport(
        spec.name,
        erasure.listed,
        erasure.named,
        len(erasure.forgotten),
        erasure.n_with_them,
        tuple((of.layout.folder, units, of.night == erasure.newest_night) for of, units in erasure.holding),
        is_done or (yes and pending),
        pending,
        removed,
        spec.several is not None,
    )


@dataclass(frozen=True)
class Eraser:
    spec: ReleaseSpec
    key: SeriesKey
    output: Store
    erasure: Erasure
    now: datetime.datetime

    @property
    def run(self) -> Run:
        """The run under which files are staged, and which gives signs of life."""
        return Run(work_store(self.spec), erasure_key(self.erasure.night))

    def carry_out(self) -> int:
        """Write, publish and withdraw; returns how many files were removed."""
        erasure = self.erasure
        revision = self._next_revision() if erasure.republishes else None
        with Running() as running:
            running.begin(self.run)
            after, traces = erasure.write(self.now.date().isoformat(), revision)
            refuse_failed([self._trace_check(traces)])
            require("erasure-effect", erasure.unlike(after))
            if revision is None:
                erasure.ledger.commit(after)
            else:
                self._publish(after, traces)
            return self._finish(after, running)

    def go_on(self, after: Generation) -> int:
        """Finish an erasure whose generation is committed; returns how many files were removed."""
        with Running() as running:
            running.begin(self.run)
            if self.erasure.republishes and not self.output.exists(after.layout.manifest()):
                traces = TraceCounter(after.frozen.rows is not None)
                for units in self.erasure.ledger.units_with_atoms(after):
                    traces.add(units)
                self._publish(after, traces)
            return self._finish(after, running)

    def _finish(self, after: Generation, running: Running) -> int:
        """Withdraw releases once the ledger and the readers have the new revision, and mark the end."""
        erasure, output, run, again = self.erasure, self.output, self.run, after.layout
        if erasure.republishes:
            bring_pages(output, read_manifest(output, again), public_pages)
        update_latest(output)
        removed = 0
        for release, _ in erasure.holding:
            replaced_by = again.folder if release.night == erasure.newest_night else None
            tombstone = Tombstone("erasure", _timestamp(self.now), after.night, replaced_by)
            removed += withdraw(output, release.layout, tombstone)
        update_latest(output)
        removed += sweep_output(erasure.ledger, output, run.work, run.key) + sweep_unknown(output)
        if erasure.republishes:
            sweep_published(erasure.ledger, output, run.work, read_manifest(output, again))
        require("erasure-effect", self._still_readable())
        erasure.ledger.note_published(after.night)
        clear_unnamed(erasure.ledger)
        running.end()
        run.remove()
        return removed

    def _still_readable(self) -> list[str]:
        """Look at the output for releases that hold somebody who is forgotten, whatever was inferred of them."""
        held = {release.layout for release, _ in self.erasure.holding}
        layouts = (manifest.layout for manifest in manifests_of(self.output, self.erasure.ledger.series))
        folders = [layout.folder for layout in layouts if layout in held]
        return [f"{folder} is still readable" for folder in folders if not is_withdrawn(self.output, folder)]

    @property
    def _newest(self) -> Generation:
        if self.erasure.newest is None:
            raise InternalError("a bug: nothing was published that could be published again; please report it")
        return self.erasure.newest

    def _next_revision(self) -> str:
        release_id = self._newest.release_id
        revisions = committed_revisions_in(self.output, release_id)
        if not revisions:
            return revision_name(1)
        series = read_manifest(self.output, ReleaseLayout(release_id, revisions[0])).series
        if series is not None and series.night == self.erasure.night:
            return revisions[0]  # only the ledger has lost what was published then
        return revision_name((revision_number(revisions[0]) or 0) + 1)

    def _publish(self, after: Generation, traces: TraceCounter) -> None:
        """Publish the newest release again, the ledger first."""
        ledger, output = self.erasure.ledger, self.output
        leaving, staying = _leaving_and_staying(self.erasure)
        if output.exists(after.layout.manifest()):
            # It was published, and only the ledger lost it: its files have to prove to be the very ones.
            refuse_failed(_Remains(self, read_manifest(output, after.layout), Counter()).checks(staying))
            ledger.commit(after)
            return
        manifest = manifest_of(output, self._newest)
        remains = _Remains(self, manifest, leaving)
        if left := leaving.total():
            raise StorageError(
                f"{manifest.layout.folder} lacks {left} rows that the ledger says it holds; restore its "
                "files, or make the ledger again with microagg series rebuild"
            )
        checks = [*remains.checks(staying), *self._profile_checks(manifest.k), self._trace_check(traces)]
        refuse_failed(checks)

        def commit(asked: Manifest) -> None:
            if asked.revision != after.revision:
                raise StorageError(
                    f"release {asked.id} got another revision in {shown(output.url)} meanwhile; run again"
                )
            ledger.commit(after)

        def note(layout: ReleaseLayout, attempt: str) -> None:
            note_attempt(ledger.store, Attempt(attempt, layout.id, layout.revision, output.url, self.run.key))

        sign = self.spec.output.sign
        publish(
            output,
            _facts(manifest, remains, checks, after, self.now),
            remains.parts,
            replace=True,
            before_upload=note,
            before_commit=commit,
            signing_key=None if sign is None else read_signing_key(sign),
            pages_of=public_pages,
        )

    def _profile_checks(self, k: int) -> list[Check]:
        """Check that k units share each profile of those who stay, where units have several rows."""
        if self.erasure.before.frozen.rows is None:
            return []
        least = self.erasure.least_profile()
        passed = least is None or least >= k
        right = f"every profile, a unit's number of rows and their released combinations, is that of {k} units"
        return [Check("profiles", passed, right if passed else f"profiles of units have fewer than k={k} units")]

    def _trace_check(self, traces: TraceCounter) -> Check:
        before, smallest = self.erasure.before, traces.smallest_of_units()
        if before.frozen.mode == "independent":
            return Check("trace-k", True, "nothing is promised for several releases together")
        # Where k rose, atoms that are too small for it are withheld: they have what was promised first.
        past = self.erasure.ledger.past_of(before)
        least = past.least_k if past is not None else before.frozen.k
        passed = smallest is None or smallest >= least
        right = f"every history of releases is shared by at least {least} units"
        return Check("trace-k", passed, right if passed else f"histories are shared by fewer than {least} units")


def _timestamp(now: datetime.datetime) -> str:
    return now.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _facts(
    manifest: Manifest, remains: _Remains, checks: list[Check], after: Generation, now: datetime.datetime
) -> ReleaseFacts:
    """Describe the revision for its manifest; figures of the whole file would reveal those who are not in it."""
    series = manifest.series.model_copy(update={"night": after.night}) if manifest.series else None
    if series is not None and series.ghosts is not None:
        series = series.model_copy(update={"ghosts": "not told"})
    if series is not None and series.mode == "independent":
        series = series.model_copy(update={"smallest_trace": after.smallest_trace})
    new: dict[str, Any] = {
        "created": _timestamp(now),
        "rows": sum(part.rows for part in remains.parts),
        "suppressed": None,
        "losses": Figures(),
        "checks": tuple(checks),
        "series": series,
        "software": software(),
    }
    return ReleaseFacts(**{name: new.get(name, getattr(manifest, name)) for name in ReleaseFacts.model_fields})


def _leaving_and_staying(erasure: Erasure) -> tuple[Counter[int], tuple[int, int]]:
    """Count the newest release's rows that go, by digest; sum the digests of those that stay, and count these.

    Equal rows are as good as each other.
    """
    leaving: Counter[int] = Counter()
    total, n = 0, 0
    for units, following in erasure.ranges():
        digests = _row_digests(pairs_of(units, "k"), np.asarray(units["row"]))
        was_out = np.asarray(units["last"]) == erasure.newest_night
        stays = was_out & (np.asarray(following["last"]) == erasure.night)
        leaving.update(digests[was_out & ~stays].tolist())
        total, n = (total + _sum(digests[stays])) % 2**64, n + int(stays.sum())
    return leaving, (total, n)


def _take(leaving: Counter[int], digests: UInt64s) -> Bools:
    """Mark the rows of a file that go; they are not looked for again."""
    goes = np.zeros(len(digests), dtype=np.bool_)
    wanted = np.fromiter(leaving, dtype=np.uint64, count=len(leaving))
    for place in np.flatnonzero(np.isin(digests, wanted)).tolist():
        digest = int(digests[place])
        if leaving[digest]:
            leaving[digest] -= 1
            goes[place] = True
    return goes


def _row_digests(classes: Pairs, rows: UInt64s) -> UInt64s:
    return mix_words(classes[:, 0] ^ mix_words(classes[:, 1] ^ mix_words(rows)))


def _sum(digests: UInt64s) -> int:
    return int(np.add.reduce(mix_words(digests + np.uint64(1)), dtype=np.uint64)) if len(digests) else 0


class _Remains:
    """The files of the new revision, and what is counted of them when they are read again."""

    def __init__(self, eraser: Eraser, manifest: Manifest, leaving: Counter[int]) -> None:
        """Make each file without the rows that go: a new one, or the old one where nobody in it goes."""
        self._eraser, self._manifest = eraser, manifest
        self._counter = CombinationCounter(manifest.key_columns, manifest.k)
        self.parts: list[StagedPart] = []
        self._total = self._rows = 0
        for number, part in enumerate(manifest.parts):
            self._add(number, part, leaving)

    def _add(self, number: int, part: PartEntry, leaving: Counter[int]) -> None:
        output, name = self._eraser.output, self._manifest.layout.absolute(part.name)
        if not is_whole(output, name, part):
            raise StorageError(
                f"{shown(output.url_of(name))} is missing or damaged, so nobody can be taken out of it; restore it"
            )
        staged = StagedPart(output, name, part.rows, part.bytes, part.sha256)
        table = self._read(staged)
        goes = _take(leaving, self._digests(table))
        if goes.any():
            staged = self._write(number, table.filter(pa.array(~goes)))
        if staged.rows or len(self._manifest.parts) == 1:
            self._count(self._read(staged))
            self.parts.append(staged)

    def _read(self, staged: StagedPart) -> pa.Table:
        with staged.source.local_copy(staged.name) as path:
            schema, batches = part_batches(path, self._manifest)
            return pa.concat_tables([schema.empty_table(), *batches])

    def _digests(self, table: pa.Table) -> UInt64s:
        columns, key = self._manifest.columns, self._eraser.key
        quasi = [c.name for c in columns if c.role in ("quasi_identifier", "weight")]
        classes = classes_of(table, [*self._eraser.spec.roles.blocking, *quasi], key)
        return _row_digests(classes, rows_of(table, [c.name for c in columns if c.role == "confidential"], key))

    def _write(self, number: int, table: pa.Table) -> StagedPart:
        form, run = released_format(self._manifest), self._eraser.run
        data = form.to_bytes(table.combine_chunks(), list(self._eraser.spec.roles.blocking))
        piece = run.put(CANDIDATE, data, "erase", number)
        return StagedPart(run.work, piece.name, table.num_rows, piece.bytes, piece.sha256)

    def _count(self, table: pa.Table) -> None:
        self._counter.add_batches(iter([table]))
        self._total = (self._total + _sum(self._digests(table))) % 2**64
        self._rows += table.num_rows

    def checks(self, staying: tuple[int, int]) -> list[Check]:
        """Check from the files that no class has fewer than k, and that they hold the rows of those who stay alone.

        ``staying`` is the sum of the digests of these rows, and their number.
        """
        failing = self._counter.failing()
        if failing:
            recount = self._counter.recount()
            recount.add_batches(self._tables())
            failing = recount.failing()
        k = self._manifest.k
        right = f"every combination of quasi-identifiers and blocking values has at least {k} units"
        wrong = f"{failing} combinations have fewer than k={k} units"
        is_same = (self._total, self._rows) == staying
        same = "the rows of those who stay, as they were released, and no others"
        return [
            Check("k-anonymity", not failing, wrong if failing else right),
            Check("ledger", is_same, same if is_same else "the rows are not those of the units that stay"),
        ]

    def _tables(self) -> Iterator[pa.Table]:
        return (self._read(staged) for staged in self.parts)
