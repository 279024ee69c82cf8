"""Publications of a series: attempts noted before their first upload, what they left behind, what readers can read.

A record of an attempt is in the ledger before the first object lies at the output, and stays until that is gone. So
whoever comes next knows what a run that died may have left for readers, and removes it before anybody is grouped or
erased.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from microagg_core.errors import StorageError
from microagg_core.plain import from_json, to_plain
from microagg_core.release.cleaning import is_under_way
from microagg_core.release.context import work_store
from microagg_core.release.manifest import Manifest
from microagg_core.release.revisions import (
    Tombstone,
    committed_revisions_in,
    put_up,
    read_manifest,
    unnamed_files,
    withdraw,
)
from microagg_core.release.step import Run
from microagg_core.series.atoms import FIRST_NUMBER, no_atoms
from microagg_core.series.generations import Frozen, FrozenColumn, Generation, RangeFile, UnitCounts, parts_digest
from microagg_core.series.invariants import require
from microagg_core.series.keys import key_of, unit_form_of
from microagg_core.series.ledger import Ledger, ledger_of
from microagg_core.series.units import empty_range
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import ATTEMPTS, ReleaseLayout, attempt_of, digits, is_release_id
from microagg_core.store.objects import Store, canonical_json
from microagg_core.store.urls import shown

#: As long as a run counts as alive without a sign.
_ALIVE_SECONDS = 3600.0


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Attempt:
    """One try to publish the release of a night."""

    #: The digits in the name of each of its objects.
    name: str
    release_id: str
    revision: str
    #: The URL of the output.
    output: str
    #: Of the run in whose folder of the work area its signs of life are.
    run_key: str


def note_attempt(ledger: Store, attempt: Attempt) -> None:
    ledger.put(_record_name(attempt.name), canonical_json(to_plain(attempt)), durable=True)


def noted_attempts(ledger: Store) -> list[Attempt]:
    attempts = []
    for name in ledger.list(ATTEMPTS):
        try:
            attempts.append(from_json(Attempt, ledger.read(name)))
        except ValueError:
            raise StorageError(
                f"{shown(ledger.url_of(name))} is damaged, so nobody knows what its run left at the output; remove "
                "it, then have microagg clean look for files that no manifest names"
            ) from None
    return attempts


def _record_name(attempt: str) -> str:
    return f"{ATTEMPTS}/{attempt}.json"


def erasure_key(night: int) -> str:
    """Name the run under which an erasure stages files and gives signs of life in the work area."""
    return f"erasure-{digits(night)}"


def sweep_output(ledger: Ledger, output: Store, work: Store, own_run: str = "") -> int:
    """Remove what attempts that died left where readers could find it, and their records.

    What an earlier try of ``own_run`` left is of the same groups, and stays until that publishes.
    """
    dead = [attempt for attempt in noted_attempts(ledger.store) if not own_run or attempt.run_key != own_run]
    for attempt in dead:
        if is_under_way(Run(work, attempt.run_key)):
            raise StorageError(
                f"another run of the series {ledger.series} is publishing release {attempt.release_id} in "
                f"{shown(attempt.output)}; run again when it is done, or an hour after it died"
            )
    return _remove(ledger, output, dead)


def sweep_published(ledger: Ledger, output: Store, work: Store, manifest: Manifest) -> None:
    """After a publication, remove what earlier tries left, but for runs under way, which remove their own."""
    own = {_attempt_in(name) for name in manifest.part_names()}
    attempts = noted_attempts(ledger.store)
    alive = [a for a in attempts if a.name not in own and is_under_way(Run(work, a.run_key))]
    _remove(ledger, output, [attempt for attempt in attempts if attempt not in alive])
    kept = {attempt.name for attempt in alive}
    unnamed = unnamed_files(output, manifest.id)
    names = [name for name in unnamed if _attempt_in(name) not in kept and not (kept and _is_unfinished(name))]
    require("output-named", [f"{len(names)} files of release {manifest.id} are named by no manifest"] if names else [])


def sweep_unknown(output: Store, *, at_once: bool = False, is_all_wanted: bool = True) -> int:
    """Remove files without a record, as runs of earlier versions leave them, and unfinished ones; count them."""
    n_abandoned = output.remove_abandoned(everything=at_once)
    names = [name for name in unnamed_files(output) if _attempt_in(name) or _is_unfinished(name)]
    changes = {folder: output.last_change(folder) or 0.0 for folder in {name.rsplit("/", 1)[0] for name in names}}
    due = time.time() - (0.0 if at_once else _ALIVE_SECONDS)
    old = [name for name in names if changes[name.rsplit("/", 1)[0]] <= due]
    if is_all_wanted and len(old) < len(names):
        raise StorageError(
            f"{len(names) - len(old)} files of {shown(output.url)} are named by no manifest, and are not an hour old; "
            "stop whatever publishes there, then have microagg clean --all remove them"
        )
    output.delete_many(old)
    return len(old) + n_abandoned


def clean_output(spec: ReleaseSpec, everything: bool) -> int:
    """Remove from a spec's output what runs that died left there; returns how many files."""
    output = Store(spec.output.url, dict(spec.output.storage_options))
    removed = sweep_output(ledger_of(spec), output, work_store(spec))
    return removed + sweep_unknown(output, at_once=everything, is_all_wanted=False)


def _remove(ledger: Ledger, output: Store, attempts: Iterable[Attempt]) -> int:
    """Remove the files of attempts, but for those that a manifest names, then their records."""
    n = 0
    for attempt in (attempts := list(attempts)):
        place = Store(attempt.output, output.storage_options)
        unnamed = unnamed_files(place, f"{attempt.release_id}/{attempt.revision}")
        names = [name for name in unnamed if _attempt_in(name) == attempt.name]
        place.delete_many(names)
        n += len(names)
    ledger.store.delete_many([_record_name(attempt.name) for attempt in attempts])
    return n


def _is_unfinished(name: str) -> bool:
    return name.endswith(".unfinished")


def _attempt_in(name: str) -> str | None:
    return attempt_of(name.split("/", 2)[-1])


def is_published(ledger: Ledger, output: Store, generation: Generation) -> bool:
    if ledger.is_published(generation.night):
        return True
    manifest = manifest_at(output, generation)
    # The revision of an erasure was drawn for it; another release may have the name of a night's.
    is_same = manifest is not None and (
        generation.kind == "erasure"
        or parts_digest(part.sha256 for part in manifest.parts) == generation.manifest_sha256
    )
    if is_same:
        ledger.note_published(generation.night)
    return is_same


def manifest_at(output: Store, generation: Generation) -> Manifest | None:
    """Read the manifest under the name of a generation's release, which may be another release's."""
    return read_manifest(output, generation.layout) if output.exists(generation.layout.manifest()) else None


def manifest_of(output: Store, generation: Generation) -> Manifest:
    """Read the manifest of a release that the ledger says was published."""
    manifest = manifest_at(output, generation)
    if manifest is None:
        raise StorageError(
            f"{shown(output.url)} has lost release {generation.release_id} {generation.revision}, which was published "
            "there and whose values are needed again; put the output back from a copy"
        )
    return manifest


def manifests_of(output: Store, series: str) -> Iterator[Manifest]:
    for release_id in filter(is_release_id, output.folders()):
        for revision in committed_revisions_in(output, release_id):
            manifest = read_manifest(output, ReleaseLayout(release_id, revision))
            if manifest.name == series:
                yield manifest


def unknown_releases(ledger: Ledger, output: Store) -> list[Manifest]:
    """List the releases of the series at the output that the ledger does not know."""
    layouts = {generation.layout for generation in ledger.generations() if generation.kind != "void"}
    return [manifest for manifest in manifests_of(output, ledger.series) if manifest.layout not in layouts]


def unknown_in_words(output: Store, unknown: list[Manifest]) -> str:
    return (
        f"the ledger knows nothing of {len(unknown)} releases of {shown(output.url)}, such as "
        f"{unknown[0].layout.folder}: it is an old copy, or its newest nights are gone; restore it, or make it again "
        "with microagg series rebuild"
    )


def taken_back(
    ledger: Ledger, output: Store, head: Generation, work: Store, *, only_tell: bool = False
) -> Generation | None:
    """Take back a night that was committed and never published, once its run cannot go on any more.

    ``only_tell`` changes nothing, and gives the generation before it; None: there is none.
    """
    if is_under_way(Run(work, head.run_key)):
        raise StorageError(
            f"another run of the series {ledger.series} is about to publish release {head.release_id} in "
            f"{shown(output.url)}; run again when it is done, or an hour after it died"
        )
    if only_tell:
        return _before(ledger, head)
    if manifest_at(output, head) is not None:  # another release has that name, so this one never can
        return _void(ledger, head)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    tombstone = Tombstone("never published", now, head.night)
    # First of all, so that this run cannot publish any more, should it only have stood still.
    put_up(output, head.layout, tombstone)
    if is_published(ledger, output, head):  # it went on at this very moment
        return head
    withdraw(output, head.layout, tombstone)
    return _void(ledger, head)


def _before(ledger: Ledger, head: Generation) -> Generation | None:
    return ledger.linked(head.night - 1) if head.night else None


def _void(ledger: Ledger, head: Generation) -> Generation:
    """Commit the generation that goes on from before a night which nobody ever saw."""
    night, base = head.night + 1, _before(ledger, head)
    ranges, atoms = (base.ranges, base.atoms) if base else _empty_files(ledger, night, head.frozen)
    void = replace(
        head,
        night=night,
        kind="void",
        run_key="",
        parent=ledger.parent_of(night),
        n_ranges=len(ranges),
        ranges=ranges,
        atoms=atoms,
        next_number=base.next_number if base else FIRST_NUMBER,
        counts=base.counts if base else UnitCounts(),
        frozen=base.frozen if base else head.frozen,
        smallest_trace=base.smallest_trace if base else None,
        past=ledger.past_of(base),
    )
    ledger.commit(void)
    return void


def _empty_files(
    ledger: Ledger, night: int, frozen: Frozen
) -> tuple[tuple[tuple[RangeFile, ...], ...], tuple[RangeFile, ...]]:
    watched = sum(c.role == "confidential" for c in frozen.columns) if frozen.guarantee != "trace" else 0
    return ((ledger.write_range(night, 0, empty_range(watched)),),), (ledger.write_atoms(night, 0, no_atoms()),)


def fill_nights(ledger: Ledger, spec: ReleaseSpec, output: Store, manifest: Manifest, night: int) -> None:
    """Commit nights without a release until the next one is ``night``."""
    while (number := len(ledger.nights())) < night:
        head = ledger.head()
        if head is not None and head.kind == "night" and not is_published(ledger, output, head):
            head = _before(ledger, head)
        if head is None:
            void = _first_void(ledger, spec, output, manifest, number)
        else:
            # Without a digest it takes no release back: the number alone was used.
            parent = ledger.parent_of(number)
            void = replace(head, night=number, kind="void", run_key="", manifest_sha256="", parent=parent)
        ledger.commit(void)


def _first_void(ledger: Ledger, spec: ReleaseSpec, output: Store, manifest: Manifest, number: int) -> Generation:
    """Describe a night before the first release, whose manifest says what it froze."""
    series, roles = manifest.series, {"quasi_identifier": "quasi_identifiers"}
    frozen = Frozen(
        k=manifest.k,
        unit=spec.unit_columns,
        columns=tuple(FrozenColumn(c.name, c.type, roles.get(c.role, c.role)) for c in manifest.columns),
        rounding=dict(manifest.rounding),
        traits={},
        missing=manifest.missing,
        mode=series.mode if series else "independent",
        guarantee=(series.guarantee if series else None) or "trace",
        unit_form=unit_form_of(spec),
        rows=spec.several.row if spec.several else None,
    )
    ranges, atoms = _empty_files(ledger, number, frozen)
    return Generation(
        night=number,
        kind="void",
        release_id=manifest.id,
        revision=manifest.revision,
        output=output.url,
        manifest_sha256="",
        date=manifest.created[:10],
        run_key="",
        parent=ledger.parent_of(number),
        key_fingerprint=key_of(spec, ledger).fingerprint,
        n_ranges=1,
        ranges=ranges,
        atoms=atoms,
        next_number=FIRST_NUMBER,
        frozen=frozen,
        counts=UnitCounts(),
        smallest_trace=None,
    )
