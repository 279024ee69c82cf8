"""The ledger of a series made again: its nights once more, from their inputs, up to the gate; nothing is published.

The same spec, data, key and seed give the same bytes. So where the files that a night makes again are those that it
published, the state that the gate makes of them is the one that was lost.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from microagg_core.errors import MicroaggError, SpecError, StorageError
from microagg_core.release.latest import committed_revisions_in
from microagg_core.release.manifest import Manifest
from microagg_core.release.publish import read_manifest
from microagg_core.release.steps.cleaning import clean_due
from microagg_core.release.steps.publishing import meant_moment, settled_spec, staged_parts
from microagg_core.release.withdrawal import Tombstone, read_tombstone
from microagg_core.series.generations import Generation
from microagg_core.series.ledger import Ledger, last_sound, ledger_of, move_aside
from microagg_core.series.voids import fill_nights
from microagg_core.software import software
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import ReleaseLayout, is_release_id
from microagg_core.store.objects import Store
from microagg_core.store.patience import impatient
from microagg_core.store.urls import resolve
from microagg_flows import nights
from microagg_flows.clusters import executor_for
from microagg_flows.executors import Executor
from microagg_flows.progress import Progress
from microagg_flows.release import Release, new_release
from microagg_flows.stages import run_until


@dataclass(frozen=True)
class Rebuilt:
    """What was done to a ledger.

    Attributes:
        kept: nights that were sound and stayed.
        moved: objects that were moved to its folder ``damaged``.
        again: nights that were made again.
    """

    kept: int
    moved: int
    again: int


@dataclass(frozen=True)
class PublishedNight:
    """A published release of a series, and the number of its night."""

    night: int
    manifest: Manifest

    @property
    def in_words(self) -> str:
        """What it is called."""
        return f"night {self.night}, release {self.manifest.id} {self.manifest.revision}"


@dataclass
class _Published:
    """What an output holds of a series."""

    releases: list[Manifest] = field(default_factory=list)
    tombstones: dict[str, Tombstone] = field(default_factory=dict)

    @classmethod
    def of(cls, output: Store, name: str) -> _Published:
        there = cls()
        for release_id in filter(is_release_id, output.folders()):
            for revision in committed_revisions_in(output, release_id):
                layout = ReleaseLayout(release_id, revision)
                manifest = read_manifest(output, layout)
                if manifest.name != name:
                    continue
                there.releases.append(manifest)
                if tombstone := read_tombstone(output, layout.folder):
                    there.tombstones[layout.folder] = tombstone
        there.releases.sort(key=lambda m: (m.series.night if m.series else 0, m.created, m.layout.folder))
        return there

    def nights(self, chain: Sequence[Generation]) -> list[PublishedNight]:
        """The releases that a chain of generations does not know yet, with their nights."""
        in_chain = {(one.release_id, one.revision) for one in chain if one.kind != "void"}
        late = [m for m in self.releases if (m.id, m.revision) not in in_chain]
        return [
            PublishedNight(m.series.night if m.series else len(chain) + i, m)
            for i, m in enumerate(late)
            if m.series is None or m.series.night >= len(chain)
        ]

    def refuse_withdrawn(self, one: PublishedNight) -> None:
        """Stop where a night cannot be made again.

        Raises:
            StorageError: its release was withdrawn.
        """
        if one.manifest.layout.folder in self.tombstones:
            raise StorageError(
                f"{one.in_words} was withdrawn, as units in it were erased, so the nights up to that cannot be made "
                "again; restore the ledger from a copy"
            )

    def refuse_erasures(self, first: int, last: int) -> None:
        """Stop where one of these nights was an erasure, and none that a run makes.

        Raises:
            StorageError: it was.
        """
        erased = sorted(t.night for t in self.tombstones.values() if first <= t.night <= last)
        if erased:
            raise StorageError(
                f"night {erased[0]} was an erasure, and who was erased is known to the lost ledger alone; run microagg "
                "forget with the same units again, then rebuild the rest"
            )


def rebuild_ledger(
    spec_path: str, inputs: Mapping[str, str], progress: Progress, settings: Sequence[str] = ()
) -> Rebuilt:
    """Make the ledger of a spec's series again, from where it is sound.

    Args:
        spec_path: path or URL of the release spec.
        inputs: by a release's id, or ``<id>/<revision>``: its input, where that is not the spec's.
        progress: where the user looks.
        settings: fields of the spec that are set for once.

    Raises:
        SpecError: an input is given for a release that there is none of.
        StorageError: a night comes out otherwise than it was published, or cannot be made again.
    """
    spec, ledger, output = _places(spec_path, settings)
    published = _Published.of(output, spec.name)
    _refuse_unknown(inputs, published)
    sound = last_sound(ledger)
    n_sound = sound.night + 1 if sound else 0
    late = published.nights([ledger.generation(night) for night in range(n_sound)])
    for one in late[:1]:
        published.refuse_withdrawn(one)
    moved = move_aside(ledger, n_sound)
    if moved:
        progress.say(f"moved {moved} objects of the ledger aside, to damaged")
    if late:
        with executor_for(_as_then(spec, late[-1].manifest, inputs), progress) as workers:
            for one in late:
                head = ledger.head()
                published.refuse_withdrawn(one)
                published.refuse_erasures(head.night + 1 if head else 0, one.night)
                fill_nights(ledger, spec, output, one.manifest, one.night)
                _replay(spec, one, inputs, workers)
                progress.say(f"{one.in_words}: made again, and the same")
    clean_due(spec, progress.say)  # of a rebuilding that was killed when its last night was there
    return Rebuilt(n_sound, moved, len(late))


def _places(spec_path: str, settings: Sequence[str]) -> tuple[ReleaseSpec, Ledger, Store]:
    spec = load_spec(spec_path, settings)
    return spec, ledger_of(spec), Store(spec.output.url, dict(spec.output.storage_options))


def _refuse_unknown(inputs: Mapping[str, str], published: _Published) -> None:
    names = {name for m in published.releases for name in (m.id, m.layout.folder)}
    unknown = sorted(set(inputs) - names)
    if unknown:
        raise SpecError(f"--night: the output has no release {unknown[0]!r} of this series; name one that it has")


def _replay(spec: ReleaseSpec, one: PublishedNight, inputs: Mapping[str, str], workers: Executor) -> None:
    """Make one night again, compare it, and have the ledger remember it."""
    manifest = one.manifest
    moment = meant_moment(spec, manifest.id, _made(manifest))
    release = new_release(_as_then(spec, manifest, inputs), workers, manifest.id, True, moment)
    release.ignore_published = release.rebuilding = True
    try:
        _make_again(release, one)
        release.running.begin(release.run)  # the stages have ended, and what follows may be killed too
        nights.commit(release, manifest)
        nights.settle(release, manifest)
    except BaseException:  # these rows are never published, and nobody would look for them
        with suppress(MicroaggError), impatient():
            if release.key:
                release.work.delete_all(release.layout.folder)
        raise
    release.work.delete_all(release.layout.folder)


def _make_again(release: Release, one: PublishedNight) -> None:
    try:
        run_until("validate", release)
    except MicroaggError as error:
        raise type(error)(f"{one.in_words}: {error.message}") from None
    _refuse_other(release, one)


def _as_then(spec: ReleaseSpec, manifest: Manifest, inputs: Mapping[str, str]) -> ReleaseSpec:
    """The spec as the manifest has it, with the input of that night, or another where one is given."""
    then = settled_spec(spec, manifest.id, _made(manifest))
    changes: dict[str, object] = {"k": manifest.k, "seed": manifest.seed}
    url = inputs.get(manifest.layout.folder, inputs.get(manifest.id))
    if url is not None:
        changes["input"] = then.input.model_copy(update={"url": resolve(url, str(Path.cwd()))})
    return then.model_copy(update=changes)


def _made(manifest: Manifest) -> datetime.datetime:
    return datetime.datetime.fromisoformat(manifest.created)


def _refuse_other(release: Release, one: PublishedNight) -> None:
    """Stop where the night's files are not those that were published.

    Raises:
        StorageError: what may be the cause.
    """
    again = [part.sha256 for part in staged_parts(release.work, release.checked)]
    then = [part.sha256 for part in one.manifest.parts]
    if again == then and release.tonight.night.number == one.night:
        return
    ours, theirs = software(), one.manifest.software
    others = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    causes = ["its input is another (name it with --night)", "the spec", "the key of the series"]
    if not one.manifest.reproducible:
        causes.insert(0, "it was refined for as long as time allowed, which is never the same twice")
    if others:
        causes.insert(0, f"the software is another ({', '.join(others)})")
    n = sum(sha256 not in then for sha256 in again)
    raise StorageError(
        f"{one.in_words} comes out otherwise than it was published ({n} of {len(again)} files differ), so the ledger "
        f"ends before it; perhaps {', or '.join(causes)}"
    )
