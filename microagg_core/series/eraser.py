"""Erasing: the newest release again without some rows, the gate that checks it, and the releases that are withdrawn.

The order of writes: the units of the ledger, the new revision's files, the ledger's generation, the manifest,
``latest.json``, the tombstones and removals, and last the mark that all of it is done. A run that dies between two of
them is finished by the same command, from the two generations around the erasure alone.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Pairs, UInt64s
from microagg_core.data.formats.writing import released_format
from microagg_core.errors import InternalError, StorageError
from microagg_core.group.metrics.figures import Figures
from microagg_core.inspect.check import Check
from microagg_core.inspect.gate import refuse_failed
from microagg_core.inspect.kanonymity import CombinationCounter
from microagg_core.kernels.tools.hashing import mix_words
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
from microagg_core.release.steps.cleaning import Running
from microagg_core.release.steps.work import Run, work_store
from microagg_core.series.digests import SeriesKey, classes_of, pairs_of, rows_of
from microagg_core.series.erasure import Erasure
from microagg_core.series.generations import Generation
from microagg_core.series.invariants import require
from microagg_core.series.ledger import clear_unnamed
from microagg_core.series.publications import (
    Attempt,
    erasure_key,
    manifest_of,
    manifests_of,
    note_attempt,
    sweep_output,
    sweep_published,
    sweep_unknown,
)
from microagg_core.series.verification import TraceCounter
from microagg_core.software import software
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import ReleaseLayout, revision_name, revision_number
from microagg_core.store.objects import Store, sha256_hex
from microagg_core.store.urls import shown


@dataclass(frozen=True)
class Eraser:
    """Who carries out erasures of a series."""

    spec: ReleaseSpec
    key: SeriesKey
    output: Store

    def carry_out(self, erasure: Erasure, now: datetime.datetime) -> int:
        """Do all of it; returns how many files were removed.

        Raises:
            GateError: what would be published breaks a promise; nothing is published then, and nothing withdrawn.
            StorageError: something cannot be read, written or removed.
        """
        revision = self._next_revision(erasure) if erasure.republishes else None
        with Running() as running:
            running.begin(self._run(erasure.night))
            after, traces = erasure.write(now.date().isoformat(), revision)
            refuse_failed([_trace_check(erasure, traces)])
            require("erasure-effect", erasure.unlike(after))
            if revision is None:
                erasure.ledger.commit(after)
            else:
                self._publish(erasure, after, traces, now)
            return self.finish(erasure, after, now, running)

    def go_on(self, erasure: Erasure, after: Generation, now: datetime.datetime) -> int:
        """The same for an erasure whose generation is committed."""
        layout = ReleaseLayout(after.release_id, after.revision)
        with Running() as running:
            running.begin(self._run(after.night))
            if erasure.republishes and not self.output.exists(layout.manifest()):
                traces = TraceCounter()
                for table in erasure.ledger.told_ranges(after):
                    traces.add(table)
                self._publish(erasure, after, traces, now)
            return self.finish(erasure, after, now, running)

    def _run(self, night: int) -> Run:
        return Run(work_store(self.spec), erasure_key(night))

    def finish(self, erasure: Erasure, after: Generation, now: datetime.datetime, running: Running) -> int:
        """What follows once the ledger and the readers have the new revision: withdrawing, and the mark of the end."""
        again = ReleaseLayout(after.release_id, after.revision)
        if erasure.republishes:
            bring_pages(self.output, read_manifest(self.output, again), public_pages)
        update_latest(self.output)
        removed = 0
        for one in erasure.holding:
            is_newest = erasure.newest is not None and one.release.night == erasure.newest.night
            at = now.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            tombstone = Tombstone("erasure", at, after.night, again.folder if is_newest else None)
            layout = ReleaseLayout(one.release.release_id, one.release.revision)
            removed += withdraw(self.output, layout, tombstone)
        update_latest(self.output)
        run = self._run(after.night)
        removed += sweep_output(erasure.ledger, self.output, run.work, run.key) + sweep_unknown(self.output)
        if erasure.republishes:
            sweep_published(erasure.ledger, self.output, run.work, read_manifest(self.output, again))
        require("erasure-effect", self._still_readable(erasure))
        erasure.ledger.note_published(after.night)
        clear_unnamed(erasure.ledger)
        running.end()
        run.work.delete_all(run.layout.folder)
        return removed

    def _still_readable(self, erasure: Erasure) -> list[str]:
        """Look at the output for releases that hold somebody who is forgotten, whatever was inferred of them."""
        held = {one.release.release_name for one in erasure.holding}
        readable = [
            manifest.layout.folder
            for manifest in manifests_of(self.output, erasure.ledger.series)
            if (manifest.id, manifest.revision) in held and not is_withdrawn(self.output, manifest.layout.folder)
        ]
        return [f"{folder} is still readable" for folder in readable]

    def _next_revision(self, erasure: Erasure) -> str:
        if erasure.newest is None:
            raise InternalError("a bug: nothing was published that could be published again; please report it")
        release_id = erasure.newest.release_id
        revisions = committed_revisions_in(self.output, release_id)
        if not revisions:
            return revision_name(1)
        series = read_manifest(self.output, ReleaseLayout(release_id, revisions[0])).series
        if series is not None and series.night == erasure.night:
            return revisions[0]  # only the ledger has lost what was published then
        return revision_name((revision_number(revisions[0]) or 0) + 1)

    def _publish(self, erasure: Erasure, after: Generation, traces: TraceCounter, now: datetime.datetime) -> None:
        """Publish the newest release again, the ledger first."""
        if erasure.newest is None:
            raise InternalError("a bug: nothing was published that could be published again; please report it")
        if self.output.exists(ReleaseLayout(after.release_id, after.revision).manifest()):
            self._adopt(erasure, after)
            return
        manifest = manifest_of(self.output, erasure.newest)
        remains = self._remains(erasure, manifest)
        checks = [*remains.checks(), _trace_check(erasure, traces)]
        refuse_failed(checks)

        def commit(asked: Manifest) -> None:
            if asked.revision != after.revision:
                raise StorageError(
                    f"release {asked.id} got another revision in {shown(self.output.url)} meanwhile; run again"
                )
            erasure.ledger.commit(after)

        def note(layout: ReleaseLayout, attempt: str) -> None:
            key = erasure_key(after.night)
            note_attempt(erasure.ledger.store, Attempt(attempt, layout.id, layout.revision, self.output.url, key))

        facts = _facts(manifest, remains, checks, after, now)
        sign = self.spec.output.sign
        key = None if sign is None else read_signing_key(sign)
        publish(
            self.output, facts, remains.parts, replace=True, before_upload=note, before_commit=commit,
            signing_key=key, pages_of=public_pages,
        )  # fmt: skip

    def _adopt(self, erasure: Erasure, after: Generation) -> None:
        """Have the ledger remember an erasure that was published, once its files say that it is the very one."""
        manifest = read_manifest(self.output, ReleaseLayout(after.release_id, after.revision))
        remains = _Remains(self, manifest, self._run(erasure.night), _Leaving.of(erasure).staying)
        for number, part in enumerate(manifest.parts):
            remains.add(number, part, _Leaving({}, (0, 0)))
        refuse_failed(remains.checks())
        erasure.ledger.commit(after)

    def _remains(self, erasure: Erasure, manifest: Manifest) -> _Remains:
        leaving = _Leaving.of(erasure)
        remains = _Remains(self, manifest, self._run(erasure.night), leaving.staying)
        for number, part in enumerate(manifest.parts):
            remains.add(number, part, leaving)
        if leaving.left:
            raise StorageError(
                f"{manifest.layout.folder} lacks {leaving.left} rows that the ledger says it holds; restore its "
                "files, or make the ledger again with microagg series rebuild"
            )
        return remains


def _trace_check(erasure: Erasure, traces: TraceCounter) -> Check:
    """Every history is shared by k, as the ledger would have it after the erasure."""
    past, smallest = erasure.ledger.past_of(erasure.before), traces.smallest()
    if erasure.before.frozen.mode == "independent":
        return Check("trace-k", True, "nothing is promised for several releases together")
    # Where k rose, atoms that are too small for it are withheld: they have what was promised first.
    least = past.least_k if past is not None else erasure.before.frozen.k
    passed = smallest is None or smallest >= least
    right = f"every history of releases is shared by at least {least} units"
    return Check("trace-k", passed, right if passed else f"histories are shared by fewer than {least} units")


def _facts(
    manifest: Manifest, remains: _Remains, checks: list[Check], after: Generation, now: datetime.datetime
) -> ReleaseFacts:
    """What the manifest says of the revision; figures of the whole file would tell of those who are not in it."""
    facts = {name: getattr(manifest, name) for name in ReleaseFacts.model_fields}
    series = manifest.series.model_copy(update={"night": after.night}) if manifest.series else None
    if series is not None and series.ghosts is not None:
        series = series.model_copy(update={"ghosts": "not told"})
    if series is not None and series.mode == "independent":
        series = series.model_copy(update={"smallest_trace": after.smallest_trace})
    created = now.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    rows = sum(part.rows for part in remains.parts)
    return ReleaseFacts(
        **{
            **facts,
            "created": created,
            "rows": rows,
            "suppressed": None,
            "losses": Figures(),
            "checks": tuple(checks),
            "series": series,
            "software": software(),
        }
    )


def _row_digests(classes: Pairs, rows: UInt64s) -> UInt64s:
    """One word for class and confidential values together."""
    return mix_words(classes[:, 0] ^ mix_words(classes[:, 1] ^ mix_words(rows)))


@dataclass
class _Leaving:
    """The rows that are to go, by digest, with how many of each; equal rows are as good as each other."""

    rows: dict[int, int]
    #: A sum over the digests of the rows that stay, and how many there are.
    staying: tuple[int, int]

    @classmethod
    def of(cls, erasure: Erasure) -> _Leaving:
        """As the ledger has them, before and after."""
        going: dict[int, int] = {}
        total, n = 0, 0
        night = erasure.newest.night if erasure.newest is not None else -1
        for table, following in erasure.ranges():
            digests = _row_digests(pairs_of(table, "k"), np.asarray(table["row"]))
            was_out = np.asarray(table["last"]) == night
            stays = was_out & (np.asarray(following["last"]) == erasure.night)
            for digest in digests[was_out & ~stays].tolist():
                going[digest] = going.get(digest, 0) + 1
            total, n = (total + _sum(digests[stays])) % 2**64, n + int(stays.sum())
        return cls(going, (total, n))

    @property
    def left(self) -> int:
        """How many were not met yet."""
        return sum(self.rows.values())

    def take(self, digests: UInt64s) -> Bools:
        """Which rows of a file go; they are not looked for again."""
        goes = np.zeros(len(digests), dtype=np.bool_)
        wanted = np.fromiter(self.rows, dtype=np.uint64, count=len(self.rows))
        for place in np.flatnonzero(np.isin(digests, wanted)).tolist():
            digest = int(digests[place])
            if self.rows.get(digest):
                self.rows[digest] -= 1
                goes[place] = True
        return goes


def _sum(digests: UInt64s) -> int:
    return int(np.add.reduce(mix_words(digests + np.uint64(1)), dtype=np.uint64)) if len(digests) else 0


@dataclass
class _Remains:
    """The files of the new revision, and what their reader counts in them."""

    eraser: Eraser
    manifest: Manifest
    run: Run
    expected: tuple[int, int]
    parts: list[StagedPart] = field(default_factory=list)
    total: int = 0
    rows: int = 0

    def __post_init__(self) -> None:
        self.counter = CombinationCounter(self.manifest.key_columns, self.manifest.k)

    def add(self, number: int, part: PartEntry, leaving: _Leaving) -> None:
        """Make one file: a new one, or the old one where nobody in it goes."""
        output, layout = self.eraser.output, self.manifest.layout
        name = layout.absolute(part.name)
        if not is_whole(output, name, part):
            raise StorageError(
                f"{shown(output.url_of(name))} is missing or damaged, so nobody can be taken out of it; restore it"
            )
        with output.local_copy(name) as path:
            table = self._read(path)
        goes = leaving.take(self._digests(table))
        staged = StagedPart(output, name, part.rows, part.bytes, part.sha256)
        if goes.any():
            staged = self._write(number, table.filter(pa.array(~goes)))
        if staged.rows or len(self.manifest.parts) == 1:
            self._count(staged)
            self.parts.append(staged)

    def _read(self, path: Path) -> pa.Table:
        schema, batches = part_batches(path, self.manifest)
        return pa.concat_tables([schema.empty_table(), *batches])

    def _digests(self, table: pa.Table) -> UInt64s:
        columns, key = self.manifest.columns, self.eraser.key
        quasi = [c.name for c in columns if c.role == "quasi_identifier"]
        classes = classes_of(table, [*self.eraser.spec.roles.blocking, *quasi], key)
        return _row_digests(classes, rows_of(table, [c.name for c in columns if c.role == "confidential"], key))

    def _write(self, number: int, table: pa.Table) -> StagedPart:
        form, work = released_format(self.manifest), self.run.work
        data = form.to_bytes(table.combine_chunks(), list(self.eraser.spec.roles.blocking))
        name = self.run.layout.candidate(number, form.name)
        work.put(name, data)
        return StagedPart(work, name, table.num_rows, len(data), sha256_hex(data))

    def _count(self, staged: StagedPart) -> None:
        """Read what would be published again."""
        with staged.source.local_copy(staged.name) as path:
            table = self._read(path)
        self.counter.add_batches(iter([table]))
        self.total = (self.total + _sum(self._digests(table))) % 2**64
        self.rows += table.num_rows

    def _again(self) -> Iterator[pa.Table]:
        for staged in self.parts:
            with staged.source.local_copy(staged.name) as path:
                yield self._read(path)

    def checks(self) -> list[Check]:
        """What the files say: no class of fewer than k, and the rows of those who stay, and no others."""
        failing = self.counter.failing()
        if failing:
            recount = self.counter.recount()
            recount.add_batches(self._again())
            failing = recount.failing()
        k = self.manifest.k
        detail = f"every combination of quasi-identifiers and blocking values has at least {k} units"
        wrong = f"{failing} combinations have fewer than k={k} units"
        is_right = (self.total, self.rows) == self.expected
        right = "the rows of those who stay, as they were released, and no others"
        return [
            Check("k-anonymity", not failing, wrong if failing else detail),
            Check("ledger", is_right, right if is_right else "the rows are not those of the units that stay"),
        ]
