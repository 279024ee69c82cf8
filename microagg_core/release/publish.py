"""Publishing: parts and pages under names of this attempt's own; the manifest, created once; then latest.json.

What a reader can rely on: a manifest that exists names parts that are all there, whatever else goes on. What runs that
race for one id can rely on: the store grants the creation of one manifest a revision, the others learn that they lost.

Why this holds however the requests of several runs interleave, wherever one of them dies, and whenever a request that
was given up arrives after all:

1. Every attempt draws twelve digits that are in the name of each object it writes before its manifest, so no two
   attempts share one, not even where their content is the same. The manifest is the only object they compete for, and
   it is created conditionally, never replaced, never removed. (A signature stands beside it: see :mod:`.signature`.)
2. An attempt asks for its manifest once, and only when all of its parts and pages are there.
3. An object of an attempt is removed only when its manifest cannot come to be any more: by the attempt itself, before
   it has asked for it; or by anybody who has read the manifest that was committed in its place. Both are for good, so a
   removal is as right when it arrives late, after its sender has ended. Where the attempt has asked and cannot learn
   the answer, nothing is removed: the request may be on its way.
4. So nothing that a manifest names, or may come to name, is ever removed; and what arrives late is either a part or
   page that no manifest names, which nobody reads and the next run of the id clears, or the same bytes once more, or a
   manifest that comes first, with all its parts there, or that is refused.
5. Pages have a second name each, where readers find them. Nothing is written there before somebody has read the
   committed manifest; from then on everybody brings the same bytes, those that it names and that lie beside it since
   before the commit, in the place of nothing or of the very version that he found wrong. So it does not matter who
   brings them, how often, or when, and who dies before he has is made good by the next run of the id. Pages are made
   before the first object of an attempt is written: where that fails, there is nothing to give up.

Names are addresses: they differ from run to run, as the manifest's time does. What is the same for the same spec, data
and seed is the content of the files and so their checksums, which the names begin with. Pages are the same wherever
their manifests are: two runs differ in them only so far as a page says the moment or the name of a file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from microagg_core.errors import MicroaggError, StorageError
from microagg_core.release.manifest import Manifest, PageEntry, PartEntry, ReleaseFacts, same_release
from microagg_core.release.minisign import SecretKey
from microagg_core.release.page_files import Page, PagesOf, bring_pages, no_pages, pages_for
from microagg_core.release.revisions import (
    committed_manifests,
    is_withdrawn,
    named_objects,
    read_manifest,
    read_tombstone,
    update_latest,
)
from microagg_core.release.signature import sign_before, sign_published
from microagg_core.store.layout import ATTEMPT_DIGITS, ReleaseLayout, revision_name, revision_number
from microagg_core.store.objects import Store
from microagg_core.store.urls import is_local, shown


@dataclass(frozen=True)
class StagedPart:
    """Part that the gate let pass: where it lies, and what it must hold."""

    source: Store
    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Upload:
    """Part on its way to the output; small, so that it can be sent to a worker."""

    part: StagedPart
    target: str
    entry: PartEntry


UploadAll = Callable[[Store, Sequence[Upload]], None]


def plan_uploads(
    layout: ReleaseLayout, extension: str, parts: Sequence[StagedPart], attempt: str
) -> tuple[Upload, ...]:
    uploads = []
    for number, part in enumerate(parts):
        target = layout.part(number, part.sha256, attempt, extension)
        entry = PartEntry(name=layout.relative(target), rows=part.rows, bytes=part.bytes, sha256=part.sha256)
        uploads.append(Upload(part, target, entry))
    return tuple(uploads)


def plan_repairs(manifest: Manifest, parts: Sequence[StagedPart]) -> tuple[Upload, ...]:
    """Plan to put back those parts of a committed release whose content is among these."""
    staged = {part.sha256: part for part in parts}
    layout = manifest.layout
    return tuple(
        Upload(staged[entry.sha256], layout.absolute(entry.name), entry)
        for entry in manifest.parts
        if entry.sha256 in staged
    )


def is_whole(output: Store, name: str, entry: PartEntry | PageEntry) -> bool:
    """Say whether an object holds what the manifest says; it is read unless its size differs."""
    if output.size(name) != entry.bytes:
        return False
    digest = hashlib.sha256()
    for chunk in output.chunks(name):
        digest.update(chunk)
    return digest.hexdigest() == entry.sha256


def upload_part(output: Store, upload: Upload) -> None:
    """Copy one part to the output, unless it is there. May be repeated at will."""
    if is_whole(output, upload.target, upload.entry):
        return
    part = upload.part
    if not output.put_checked(upload.target, part.source.chunks(part.name), part.sha256, part.bytes):
        raise StorageError(
            f"{shown(part.source.url_of(part.name))} is not what the gate checked (its checksum differs); "
            "run the release again"
        )


def upload_in_turn(output: Store, uploads: Sequence[Upload]) -> None:
    for upload in uploads:
        upload_part(output, upload)


@dataclass(frozen=True)
class Published:
    """Result of publishing: the committed manifest, and whether it had been there before."""

    manifest: Manifest
    manifest_url: str
    already: bool
    latest: str | None
    #: What could not be cleared away, a sentence each; the release is whole all the same.
    warnings: tuple[str, ...] = ()


#: Called with the committed manifest, and whether it is this publication's own.
OnCommit = Callable[[Manifest, bool], None]
#: Called with an attempt's revision and name before its first object is written.
BeforeUpload = Callable[[ReleaseLayout, str], None]
#: Called with the manifest that is about to be asked for, when its parts are there, or with that of the very release,
#: where it is published already; what it raises stops the publication.
BeforeCommit = Callable[[Manifest], None]


def new_attempt() -> str:
    """Draw a name for one attempt at publishing, unlike any other."""
    return secrets.token_hex(ATTEMPT_DIGITS // 2)


def probe_conditional_create(output: Store, name: str) -> None:
    """Make sure that the store keeps its word: an object that exists is not created again.

    Raises:
        StorageError: it granted the same creation twice, so two runs could both publish. The object is still there.
    """
    output.create(name, b"first\n")
    if output.create(name, b"second\n"):
        raise StorageError(
            f"{shown(output.url)}: this store does not honour conditional creation (If-None-Match), so two runs could "
            "both publish; use a store that does, or a local disk"
        )
    output.delete(name)


def publish(
    output: Store,
    facts: ReleaseFacts,
    parts: Sequence[StagedPart],
    *,
    replace: bool = False,
    upload_all: UploadAll = upload_in_turn,
    before_upload: BeforeUpload = lambda layout, attempt: None,
    before_commit: BeforeCommit = lambda manifest: None,
    on_commit: OnCommit = lambda manifest, ours: None,
    attempt: str | None = None,
    signing_key: SecretKey | None = None,
    pages_of: PagesOf = no_pages,
) -> Published:
    """Publish a release, or find that exactly this one is published already.

    The first release of an id is revision r0001. Where the newest revision of the id is the same release, nothing
    is written but what is missing or damaged of it; where it is another, ``replace`` makes the next revision.

    Args:
        parts: the parts in their order, as the gate checked them.
        upload_all: copies the parts, for instance by workers; must raise when one of them failed.
        before_upload, before_commit, on_commit: see their types.
        attempt: what names this attempt's objects; drawn unless given, and never to be given twice.
        pages_of: makes the pages that describe the release; those that cannot be made are left out, with a warning.

    Raises:
        StorageError: the id is taken, a rival won, the store cannot publish safely, or it failed. Then nothing of
            this publication is left at the output, or the message says what is.
    """
    committed = committed_manifests(output, facts.id)
    newest = committed[-1] if committed else None
    number = _free_number(output, facts.id, (revision_number(newest.revision) or 0) + 1 if newest else 1)
    layout = ReleaseLayout(facts.id, revision_name(number))
    ours = _Attempt.plan(output, facts, layout, parts, attempt or new_attempt(), signing_key, pages_of)
    withdrawn = newest is not None and is_withdrawn(output, newest.layout.folder)
    if newest is not None and not withdrawn and same_release(ours.manifest, newest):
        before_commit(newest)
        return _repair(output, newest, parts, upload_all, on_commit, signing_key, pages_of)
    if newest is not None and not replace:
        raise _id_taken(output, newest, parts, upload_all)
    before_upload(layout, ours.name)
    winner = ours.carry_out(upload_all, before_commit, on_commit)
    if winner == ours.manifest:
        if is_withdrawn(output, winner.layout.folder):
            raise StorageError(
                f"release {winner.id} was taken back while this run stood still, and its data are gone; run again"
            )
        published = finish(output, winner, already=False, signing_key=signing_key, pages_of=pages_of)
        return dataclasses.replace(published, warnings=(*ours.left_out, *published.warnings))
    if same_release(ours.manifest, winner):
        return _repair(output, winner, parts, upload_all, on_commit, signing_key, pages_of)
    raise StorageError(
        f"another run published revision {winner.revision} of release {winner.id} in {shown(output.url)} meanwhile; "
        "nothing of this run was left there: use --replace to publish it as a new revision, or choose another id"
    )


def _free_number(output: Store, release_id: str, number: int) -> int:
    while is_withdrawn(output, ReleaseLayout(release_id, revision_name(number)).folder):
        number += 1
    return number


def finish(
    output: Store, manifest: Manifest, *, already: bool, signing_key: SecretKey | None = None,
    pages_of: PagesOf = no_pages,
) -> Published:  # fmt: skip
    """Do what follows a commit, as anybody may at any time: signature, pages, latest.json, clearing unnamed files."""
    layout = manifest.layout
    warnings: list[str] = []
    if signing_key is not None:
        with _saying(f"the signature of {layout.folder} was not written"):
            warnings += sign_published(output, manifest, signing_key, keeps_others=already)
    with _saying(f"the pages of {layout.folder} were not brought up to date"):
        warnings += bring_pages(output, manifest, pages_of)
    with _saying("latest.json was not brought up to date"):
        latest = update_latest(output)
    warnings += _clear(output, manifest.id)
    url = output.url_of(layout.manifest())
    return Published(manifest, url, already, latest.manifest() if latest else None, tuple(warnings))


@contextmanager
def _saying(failure: str) -> Iterator[None]:
    try:
        yield
    except MicroaggError as error:
        raise type(error)(f"{failure}: {error.message}") from None


def _clear(output: Store, release_id: str) -> tuple[str, ...]:
    """Remove what killed, beaten and late attempts left in the folders of committed revisions."""
    try:
        for manifest in committed_manifests(output, release_id):
            listed = output.list(manifest.layout.folder, unfinished=True)
            kept = named_objects(manifest, listed)
            output.delete_many([name for name in listed if name not in kept])
    except MicroaggError as error:
        return (f"files that belong to no release could not be cleared away: {error.message}",)
    return ()


def _repair(
    output: Store, manifest: Manifest, parts: Sequence[StagedPart], upload_all: UploadAll, on_commit: OnCommit,
    signing_key: SecretKey | None, pages_of: PagesOf,
) -> Published:  # fmt: skip
    """Put back what is missing or damaged of the very release, which is published already."""
    upload_all(output, plan_repairs(manifest, parts))
    on_commit(manifest, False)
    return finish(output, manifest, already=True, signing_key=signing_key, pages_of=pages_of)


def _id_taken(output: Store, manifest: Manifest, parts: Sequence[StagedPart], upload_all: UploadAll) -> StorageError:
    """Explain why the id cannot be used; parts of the published release that this run happens to make are put back."""
    layout = manifest.layout
    if tombstone := read_tombstone(output, layout.folder):
        words = tombstone.in_words(layout.folder)
        return StorageError(f"{words}, use --replace to publish a new revision, or choose another id")
    upload_all(output, plan_repairs(manifest, parts))
    damaged = sum(output.size(layout.absolute(part.name)) != part.bytes for part in manifest.parts)
    lost = f", {damaged} of its {len(manifest.parts)} files are missing or cut short, and this run makes others"
    return StorageError(
        f"release {manifest.id} is already published in {shown(output.url)} with other content"
        f"{lost if damaged else ''}; use --replace to publish a new revision, or choose another id"
    )


@dataclass
class _Attempt:
    """One try to publish a revision."""

    output: Store
    name: str
    manifest: Manifest
    uploads: tuple[Upload, ...]
    pages: tuple[Page, ...] = ()
    #: A sentence on each page that could not be made.
    left_out: tuple[str, ...] = ()
    signing_key: SecretKey | None = None
    #: Whether the manifest was asked for; from then on it may come to be at any time.
    asked: bool = False

    @classmethod
    def plan(
        cls, output: Store, facts: ReleaseFacts, layout: ReleaseLayout, parts: Sequence[StagedPart], name: str,
        signing_key: SecretKey | None, pages_of: PagesOf,
    ) -> _Attempt:  # fmt: skip
        """Settle every name and the manifest; nothing is written yet."""
        uploads = plan_uploads(layout, facts.format, parts, name)
        entries = tuple(upload.entry for upload in uploads)
        pages, left_out = pages_for(Manifest.of(facts, layout.revision, entries), pages_of, name)
        manifest = Manifest.of(facts, layout.revision, entries, tuple(page.entry for page in pages))
        return cls(output, name, manifest, uploads, pages, left_out, signing_key)

    def carry_out(self, upload_all: UploadAll, before_commit: BeforeCommit, on_commit: OnCommit) -> Manifest:
        """Bring the parts, then create the manifest; returns the manifest that is there in the end, ours or not."""
        layout = self.manifest.layout
        try:
            probe_conditional_create(self.output, layout.probe(self.name))
            upload_all(self.output, self.uploads)
            sizes = self.output.sizes(layout.data())
            for upload in self.uploads:
                if sizes.get(upload.target) != upload.entry.bytes:
                    upload_part(self.output, upload)
            for page in self.pages:
                self.output.put(layout.absolute(page.entry.written), page.data, durable=True)
            before_commit(self.manifest)
            if self.signing_key is not None:
                sign_before(self.output, self.manifest, self.signing_key)
            self.asked = True
            granted = self.output.create(layout.manifest(), self.manifest.to_bytes())
            # Not granted may mean granted before, with the answer lost: what is there tells.
            winner = self.manifest if granted else read_manifest(self.output, layout)
            if winner == self.manifest:
                self._announce(on_commit)
            else:
                self.remove()
            return winner
        except BaseException as error:
            committed = self._give_up(error)
            if committed is not None and committed == self.manifest:
                self._announce(on_commit)
            # A winner clears its folder, rivals' uploads included: to fail there means to have lost.
            if committed is None or not isinstance(error, StorageError):
                raise
            return committed

    def _announce(self, on_commit: OnCommit) -> None:
        """Announce the release, unless it was taken back while this attempt stood still."""
        if not is_withdrawn(self.output, self.manifest.layout.folder):
            on_commit(self.manifest, True)

    def remove(self) -> None:
        """Remove the objects of this attempt; only right where its manifest cannot come to be any more."""
        targets = {upload.target for upload in self.uploads} | self.manifest.written_page_names()
        self.output.delete_many([*sorted(targets), self.manifest.layout.probe(self.name)])

    def _give_up(self, error: BaseException) -> Manifest | None:
        """After a failure, return the manifest that is there all the same; parts go unless it may name them."""
        is_certain = False
        try:
            committed = self._committed()
            # A request to a disk is over when it fails; one that went through a network may arrive later.
            is_certain = committed is not None or not self.asked or is_local(self.output.url)
            if is_certain and committed != self.manifest:
                self.remove()
        except MicroaggError:
            if not isinstance(error, MicroaggError):
                return None
            raise self._explained(error, is_certain or not self.asked) from None
        if not is_certain and isinstance(error, MicroaggError):
            raise self._explained(error, is_certain) from None
        return committed

    def _committed(self) -> Manifest | None:
        layout = self.manifest.layout
        return read_manifest(self.output, layout) if self.output.exists(layout.manifest()) else None

    def _explained(self, error: MicroaggError, is_certain: bool) -> MicroaggError:
        folder = shown(self.output.url_of(self.manifest.layout.folder))
        if is_certain:
            left = f"what was uploaded to {folder} could not be removed either: no manifest names it, and the next "
            left += "publication of this revision clears it"
        else:
            left = f"whether {folder} is published could not be learned, so what was uploaded stays there: "
            left += "run the same command again, which settles it"
        return type(error)(f"{error.message}; {left}")
