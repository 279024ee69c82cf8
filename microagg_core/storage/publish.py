"""Publishing: parts first, under names made of their content; the manifest last, created once; then latest.json.

What a reader can rely on: a manifest that exists names parts that were all there, with their sizes, when it was
created. What runs that race for one id can rely on: the store grants the creation of one manifest only, the
others learn that they lost, and remove nothing that a committed manifest names.

Identical content has identical names, so a run that gives up could take a part which an identical rival is about
to commit. Each side looks after itself: parts are checked before the manifest is created and again after it, and
who removed parts looks afterwards whether a manifest names them by now; both put back what is missing. Once a
revision is committed nobody else can publish under it, so its writer removes whatever else lies in its folder:
what killed or beaten runs left there was never released and must not be found beside what was.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from microagg_core.errors import MicroaggError, StorageError
from microagg_core.storage.latest import committed_revisions_in, update_latest
from microagg_core.storage.layout import ReleaseLayout, revision_name, revision_number
from microagg_core.storage.manifest import Manifest, PartEntry, ReleaseFacts, same_release
from microagg_core.storage.objects import Store
from microagg_core.storage.urls import shown


@dataclass(frozen=True)
class StagedPart:
    """A part that the gate let pass: where it lies, and what it must hold."""

    source: Store
    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Upload:
    """One part on its way to the output; small, so that it can be sent to a worker."""

    part: StagedPart
    target: str
    entry: PartEntry


@dataclass(frozen=True)
class Published:
    """How publishing ended: the committed manifest, and whether it had been there before."""

    manifest: Manifest
    manifest_url: str
    already: bool
    latest: str | None


UploadAll = Callable[[Store, Sequence[Upload]], None]


def probe_conditional_create(output: Store) -> None:
    """Find out whether the store keeps its word: an object that exists is not created again.

    Raises:
        StorageError: it granted the same creation twice, so two runs could both publish.

    >>> probe_conditional_create(Store("memory://probe"))
    """
    name = f".microagg-probe-{uuid.uuid4().hex}"
    try:
        output.create(name, b"first\n")
        granted_twice = output.create(name, b"second\n")
    except BaseException:
        with contextlib.suppress(MicroaggError):
            output.delete(name)
        raise
    output.delete(name)
    if granted_twice:
        raise StorageError(
            f"{shown(output.url)}: this store does not honour conditional creation (If-None-Match), so two runs could "
            "both publish; use a store that does, or a local disk"
        )


def existing(output: Store, release_id: str) -> list[tuple[str, Manifest]]:
    """The committed revisions of an id with their manifests, oldest first.

    Raises:
        StorageError: a manifest is damaged.

    >>> existing(Store("memory://nothing-here"), "2026")
    []
    """
    revisions = reversed(committed_revisions_in(output, release_id))
    return [(revision, read_manifest(output, ReleaseLayout(release_id, revision))) for revision in revisions]


def read_manifest(output: Store, layout: ReleaseLayout) -> Manifest:
    """The manifest of a revision.

    Raises:
        StorageError: there is none, it is damaged, or it is that of another release.
    """
    url = shown(output.url_of(layout.manifest()))
    manifest = Manifest.from_bytes(output.read(layout.manifest()), url)
    if manifest.layout != layout:
        raise StorageError(f"{url} is the manifest of another release or revision; restore the one that belongs there")
    return manifest


def _committed(output: Store, layout: ReleaseLayout) -> Manifest | None:
    return read_manifest(output, layout) if output.exists(layout.manifest()) else None


def plan_uploads(layout: ReleaseLayout, facts: ReleaseFacts, parts: Sequence[StagedPart]) -> tuple[Upload, ...]:
    """Where each part goes, in the order given."""
    uploads = []
    for number, part in enumerate(parts):
        target = layout.part(number, part.sha256, facts.format)
        entry = PartEntry(name=layout.relative(target), rows=part.rows, bytes=part.bytes, sha256=part.sha256)
        uploads.append(Upload(part, target, entry))
    return tuple(uploads)


def upload_part(output: Store, upload: Upload) -> None:
    """Copy one part to the output, unless its content is not what the gate checked. May be repeated at will.

    Raises:
        StorageError: the content changed, or a store failed.
    """
    part = upload.part
    if not output.put_checked(upload.target, part.source.chunks(part.name), part.sha256, part.bytes):
        raise StorageError(
            f"{shown(part.source.url_of(part.name))} is not what the gate checked (its checksum differs); "
            "run the release again"
        )


def upload_in_turn(output: Store, uploads: Sequence[Upload]) -> None:
    """Copy all parts, one after the other."""
    for upload in uploads:
        upload_part(output, upload)


def _restore(output: Store, uploads: Sequence[Upload]) -> None:
    """Put back parts that are missing or of the wrong size."""
    for upload in uploads:
        if output.size(upload.target) != upload.entry.bytes:
            upload_part(output, upload)


def _finish(output: Store, manifest: Manifest, uploads: Sequence[Upload], already: bool) -> Published:
    """What follows a committed manifest; every step may be repeated, by anybody with the same parts."""
    _restore(output, uploads)
    layout = manifest.layout
    for name in output.list(layout.folder, unfinished=True):
        if name not in manifest.part_names() and name != layout.manifest():
            output.delete(name)
    latest = update_latest(output)
    return Published(
        manifest, output.url_of(layout.manifest()), already, latest.manifest() if latest is not None else None
    )


def withdraw(output: Store, layout: ReleaseLayout, uploads: Sequence[Upload]) -> bool:
    """Remove uploaded parts that no committed manifest names; True if the revision was committed after all.

    For a publication that failed, lost, or was interrupted. On a disk no empty folder stays behind.

    Raises:
        StorageError: the store cannot be reached, or holds a damaged manifest, and then nothing is removed.

    >>> withdraw(Store("memory://nothing-here"), ReleaseLayout("2026", "r0001"), [])
    False
    """
    manifest = _committed(output, layout)
    kept = manifest.part_names() if manifest else set()
    removed = [upload for upload in uploads if upload.target not in kept]
    for upload in removed:
        output.delete(upload.target)
    manifest = manifest or _committed(output, layout)
    if manifest:
        names = manifest.part_names()
        _restore(output, [upload for upload in removed if upload.target in names])
    return manifest is not None


def _choose(
    output: Store, facts: ReleaseFacts, parts: Sequence[StagedPart], replace: bool
) -> tuple[ReleaseLayout, Manifest | None]:
    """The revision to publish, and its manifest if exactly this is published already."""
    committed = existing(output, facts.id)
    if not committed:
        return ReleaseLayout(facts.id, revision_name(1)), None
    revision, newest = committed[-1]
    layout = ReleaseLayout(facts.id, revision)
    if same_release(_completed(layout, facts, plan_uploads(layout, facts, parts)), newest):
        return layout, newest
    if not replace:
        raise StorageError(
            f"release {facts.id} is already published in {shown(output.url)} with other content; "
            "use --replace to publish a new revision, or choose another id"
        )
    return ReleaseLayout(facts.id, revision_name((revision_number(revision) or 0) + 1)), None


def _completed(layout: ReleaseLayout, facts: ReleaseFacts, uploads: Sequence[Upload]) -> Manifest:
    return Manifest.of(facts, layout.revision, tuple(upload.entry for upload in uploads))


def publish(
    output: Store,
    facts: ReleaseFacts,
    parts: Sequence[StagedPart],
    *,
    replace: bool = False,
    upload_all: UploadAll = upload_in_turn,
) -> Published:
    """Publish a release, or find that exactly this one is published already.

    The first release of an id is revision r0001. Where the newest revision of the id is the same release, nothing
    is written but what is missing of it; where it is another, ``replace`` makes the next revision.

    Args:
        output: the root of the output.
        facts: what the manifest is to say.
        parts: the parts in their order, as the gate checked them.
        replace: whether an id that is published with other content may get a new revision.
        upload_all: copies the parts, for instance by workers; must raise when one of them failed.

    Raises:
        StorageError: the id is taken, a rival won, the store cannot publish safely, or it failed. Then nothing of
            this publication is left at the output.
    """
    layout, found = _choose(output, facts, parts, replace)
    uploads = plan_uploads(layout, facts, parts)
    if found is not None:
        return _finish(output, found, uploads, already=True)
    probe_conditional_create(output)
    manifest = _completed(layout, facts, uploads)
    try:
        upload_all(output, uploads)
        _restore(output, uploads)
        ours = _create(output, manifest)
    except BaseException as error:
        committed = _withdraw_after(error, output, layout, uploads)
        # A winner clears its folder, rivals' uploads included: to fail there means to have lost.
        if not committed or not isinstance(error, StorageError):
            raise
        ours = output.read(layout.manifest()) == manifest.to_bytes()
    if ours:
        return _finish(output, manifest, uploads, already=False)
    return _after_losing(output, manifest, uploads)


def _create(output: Store, manifest: Manifest) -> bool:
    """Commit; whether the manifest that is there now is ours."""
    name, data = manifest.layout.manifest(), manifest.to_bytes()
    # Not granted may mean granted before, with the answer lost: the content tells.
    return output.create(name, data) or output.read(name) == data


def _withdraw_after(error: BaseException, output: Store, layout: ReleaseLayout, uploads: Sequence[Upload]) -> bool:
    """Clean up after a failure without losing sight of it."""
    try:
        return withdraw(output, layout, uploads)
    except MicroaggError:
        if not isinstance(error, MicroaggError):
            return False
        raise type(error)(
            f"{error.message}; what was uploaded could not be removed either: "
            f"unless it holds a manifest by now, remove {shown(output.url_of(layout.folder))}"
        ) from None


def _after_losing(output: Store, manifest: Manifest, uploads: Sequence[Upload]) -> Published:
    """Another run committed the revision: the same release is fine, another one is an error."""
    winner = read_manifest(output, manifest.layout)
    if same_release(manifest, winner):
        return _finish(output, winner, uploads, already=True)
    withdraw(output, manifest.layout, uploads)
    raise StorageError(
        f"another run published revision {winner.revision} of release {winner.id} in {shown(output.url)} meanwhile; "
        "nothing of this run was left there: use --replace to publish it as a new revision, or choose another id"
    )
