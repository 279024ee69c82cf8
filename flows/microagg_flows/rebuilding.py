"""Rebuilding a series' ledger: its nights once more, from their inputs, up to the gate; nothing is published.

The same spec, data, key and seed give the same bytes. So where the files that a night makes again are those that it
published, the state that the gate makes of them is the one that was lost.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from microagg_core.errors import MicroaggError, SpecError, StorageError
from microagg_core.release.cleaning import clean_due
from microagg_core.release.facts import meant_moment, settled_spec, staged_parts
from microagg_core.release.manifest import Manifest
from microagg_core.release.revisions import Tombstone, read_tombstone
from microagg_core.series.ledger import last_sound, ledger_of, move_aside
from microagg_core.series.publications import fill_nights, manifests_of
from microagg_core.software import software
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.failures import impatient
from microagg_core.store.layout import ReleaseLayout
from microagg_core.store.objects import Store
from microagg_core.store.urls import resolve
from microagg_flows import nights
from microagg_flows.clusters import executor_for
from microagg_flows.executors import Executor
from microagg_flows.progress import Progress
from microagg_flows.release import Release, new_release
from microagg_flows.stages import run_until


@dataclass(frozen=True)
class Rebuilt:
    """Nights that were sound and stayed, objects that were moved to ``damaged``, nights that were made again."""

    kept: int
    moved: int
    again: int


@dataclass(frozen=True)
class _PublishedNight:
    night: int
    manifest: Manifest

    @property
    def in_words(self) -> str:
        return f"night {self.night}, release {self.manifest.id} {self.manifest.revision}"

    @property
    def created(self) -> datetime.datetime:
        return datetime.datetime.fromisoformat(self.manifest.created)


def rebuild_ledger(spec: ReleaseSpec, inputs: Mapping[str, str], progress: Progress) -> Rebuilt:
    """Make the ledger of a spec's series again, from where it is sound.

    ``inputs`` has, by a release's id or ``<id>/<revision>``, its input where that is not the spec's.
    """
    ledger, output = ledger_of(spec), Store(spec.output.url, dict(spec.output.storage_options))
    releases = list(manifests_of(output, spec.name))
    known = {name for m in releases for name in (m.id, m.layout.folder)}
    if unknown := sorted(set(inputs) - known):
        raise SpecError(f"--night: the output has no release {unknown[0]!r} of this series; name one that it has")
    found = {m.layout.folder: read_tombstone(output, m.layout.folder) for m in releases}
    tombstones = {folder: tombstone for folder, tombstone in found.items() if tombstone is not None}
    sound = last_sound(ledger)
    n_sound = sound.night + 1 if sound else 0
    kept = [ledger.generation(night) for night in range(n_sound)]
    late = _late_nights(releases, {generation.layout for generation in kept if generation.kind != "void"}, n_sound)
    for published in late[:1]:
        _refuse_withdrawn(published, tombstones)
    moved = move_aside(ledger, n_sound)
    if moved:
        progress.say(f"moved {moved} objects of the ledger aside, to damaged")
    if late:
        with executor_for(_spec_of_night(spec, late[-1], inputs), progress) as workers:
            for published in late:
                head = ledger.head()
                _refuse_withdrawn(published, tombstones)
                _refuse_erasures(tombstones.values(), head.night + 1 if head else 0, published.night)
                fill_nights(ledger, spec, output, published.manifest, published.night)
                _replay(spec, published, inputs, workers)
                progress.say(f"{published.in_words}: made again, and the same")
    clean_due(spec, progress.say)  # of a rebuilding that was killed when its last night was there
    return Rebuilt(n_sound, moved, len(late))


def _late_nights(releases: Sequence[Manifest], kept: Collection[ReleaseLayout], n_kept: int) -> list[_PublishedNight]:
    """Number the releases that the sound part of a ledger does not know yet; those without a number follow it."""
    in_order = sorted(releases, key=lambda m: (m.series.night if m.series else 0, m.created, m.layout.folder))
    late = [m for m in in_order if m.layout not in kept]
    return [
        _PublishedNight(m.series.night if m.series else n_kept + i, m)
        for i, m in enumerate(late)
        if m.series is None or m.series.night >= n_kept
    ]


def _refuse_withdrawn(published: _PublishedNight, tombstones: Mapping[str, Tombstone]) -> None:
    if published.manifest.layout.folder in tombstones:
        raise StorageError(
            f"{published.in_words} was withdrawn, as units in it were erased, so the nights up to that cannot be made "
            "again; restore the ledger from a copy"
        )


def _refuse_erasures(tombstones: Collection[Tombstone], first: int, last: int) -> None:
    """Stop where one of these nights was an erasure, and none that a run makes."""
    erased = sorted(tombstone.night for tombstone in tombstones if first <= tombstone.night <= last)
    if erased:
        raise StorageError(
            f"night {erased[0]} was an erasure, and who was erased is known to the lost ledger alone; run microagg "
            "forget with the same units again, then rebuild the rest"
        )


def _replay(spec: ReleaseSpec, published: _PublishedNight, inputs: Mapping[str, str], workers: Executor) -> None:
    manifest = published.manifest
    moment = meant_moment(spec, manifest.id, published.created)
    release = new_release(_spec_of_night(spec, published, inputs), workers, manifest.id, True, moment)
    release.ignore_published = release.rebuilding = True
    try:
        try:
            run_until("validate", release)
        except MicroaggError as error:
            raise type(error)(f"{published.in_words}: {error.message}") from None
        _refuse_other(release, published)
        release.running.begin(release.run)  # the stages have ended, and what follows may be killed too
        nights.commit(release, manifest)
        nights.settle(release, manifest)
    except BaseException:  # these rows are never published, and nobody would look for them
        with suppress(MicroaggError), impatient():
            if release.key:
                release.run.remove()
        raise
    release.run.remove()


def _spec_of_night(spec: ReleaseSpec, published: _PublishedNight, inputs: Mapping[str, str]) -> ReleaseSpec:
    """Set the spec to k, seed and id of the manifest, with the input of that night, or another where one is given."""
    manifest = published.manifest
    then = settled_spec(spec, manifest.id, published.created)
    changes: dict[str, object] = {"k": manifest.k, "seed": manifest.seed}
    url = inputs.get(manifest.layout.folder, inputs.get(manifest.id))
    if url is not None:
        changes["input"] = then.input.model_copy(update={"url": resolve(url, str(Path.cwd()))})
    return then.model_copy(update=changes)


def _refuse_other(release: Release, published: _PublishedNight) -> None:
    """Stop where the night's files are not those that were published, and say what may be the cause."""
    again = [part.sha256 for part in staged_parts(release.work, release.checked)]
    then = [part.sha256 for part in published.manifest.parts]
    if again == then and release.tonight.night.number == published.night:
        return
    ours, theirs = software(), published.manifest.software
    others = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    causes = ["its input is another (name it with --night)", "the spec", "the key of the series"]
    if not published.manifest.reproducible:
        causes.insert(0, "it was refined for as long as time allowed, which is never the same twice")
    if others:
        causes.insert(0, f"the software is another ({', '.join(others)})")
    n = sum(sha256 not in then for sha256 in again)
    raise StorageError(
        f"{published.in_words} comes out otherwise than it was published ({n} of {len(again)} files differ), so the "
        f"ledger ends before it; perhaps {', or '.join(causes)}"
    )
