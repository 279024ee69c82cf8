"""Revisions of releases at an output: find, read, name the latest, withdraw.

Withdrawal: the data of a revision are taken back, as somebody in them has to be forgotten, or its run died half-way.
Its manifest stays, as publishing relies on that; a tombstone beside it tells readers. It is there before the first file
goes, so whoever finds a file missing finds the reason too, and a withdrawal that was stopped is finished by doing it
again. What was read before cannot be taken back.

Where a page of the release stood, a notice says the same. Pages are replaced, not removed, so that a copy of one that
was on its way finds another version than it looked at, and is refused.
"""

from __future__ import annotations

import html
import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import ConfigDict
from pydantic import dataclasses as pydantic

from microagg_core.data.formats.writing import released_format
from microagg_core.errors import StorageError, TransientStorageError
from microagg_core.plain import from_json, to_plain
from microagg_core.release.manifest import Manifest
from microagg_core.store.layout import (
    LATEST,
    MANIFEST,
    PAGES,
    WITHDRAWN,
    OrderKey,
    ReleaseLayout,
    is_release_id,
    release_order,
    revision_number,
)
from microagg_core.store.objects import Store, canonical_json, sha256_hex
from microagg_core.store.urls import basename, join_url, shown

#: How often a notice is put in the place of a page that changes meanwhile; each copy of a page changes it once.
_ATTEMPTS = 20


@pydantic.dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Tombstone:
    """Reason and date of a withdrawal, and the revision in its place."""

    reason: Literal["erasure", "never published"]
    #: When, in UTC.
    withdrawn: str
    #: The night of the series in which it was.
    night: int
    #: The folder of the revision in its place; null where there is none.
    replaced_by: str | None = None
    format: Literal[1] = 1

    def in_words(self, layout_folder: str) -> str:
        """Write the sentence for readers.

        >>> Tombstone("erasure", "2026-11-19T02:00:00Z", 4, "day/r0002").in_words("day/r0001")
        'day/r0001 was withdrawn on 2026-11-19 (erasure), and its data are gone; read day/r0002 instead'
        """
        instead = f"read {self.replaced_by} instead" if self.replaced_by else "read a later release"
        return (
            f"{layout_folder} was withdrawn on {self.withdrawn[:10]} ({self.reason}), and its data are gone; {instead}"
        )


def is_withdrawn(output: Store, folder: str) -> bool:
    """Say whether a revision, given by its folder ('' for the root), was withdrawn."""
    return output.exists(_tombstone_at(folder))


def read_tombstone(output: Store, folder: str) -> Tombstone | None:
    """Read the tombstone of a revision, given by its folder ('' for the root); None where there is none."""
    name = _tombstone_at(folder)
    data = output.read_if_there(name)
    if data is None:
        return None
    try:
        return from_json(Tombstone, data)
    except ValueError:
        raise StorageError(
            f"{shown(output.url_of(name))} is damaged: the release was withdrawn, and why cannot be read; "
            "read a later release"
        ) from None


def put_up(output: Store, layout: ReleaseLayout, tombstone: Tombstone) -> None:
    """Put up a tombstone. Where another is there, readers have seen that one, and it stays."""
    output.create(layout.withdrawn(), canonical_json(to_plain(tombstone)))


def withdraw(output: Store, layout: ReleaseLayout, tombstone: Tombstone) -> int:
    """Put up the tombstone, remove a revision's data and replace its pages; may be repeated; counts removed files."""
    put_up(output, layout, tombstone)
    names = [name for of in (layout.data(), layout.absolute(PAGES)) for name in output.list(of, unfinished=True)]
    output.delete_many(names)
    pages = _pages(output, layout)
    sentence = _first_tombstone(output, layout, tombstone).in_words(layout.folder) if pages else ""
    for name in pages:
        _put_notice(output, layout.absolute(name), sentence)
    return len(names)


def _pages(output: Store, layout: ReleaseLayout) -> list[str]:
    data = output.read_if_there(layout.manifest())
    try:
        return [] if data is None else [page.name for page in Manifest.from_bytes(data, layout.manifest()).pages]
    except StorageError:  # its data are gone all the same
        return []


def _first_tombstone(output: Store, layout: ReleaseLayout, tombstone: Tombstone) -> Tombstone:
    """Read the tombstone that readers saw first, if it can be read."""
    try:
        return read_tombstone(output, layout.folder) or tombstone
    except StorageError:
        return tombstone


def _put_notice(output: Store, name: str, sentence: str) -> None:
    notice = notice_of(name, sentence)
    for _ in range(_ATTEMPTS):
        present, version = output.versioned(name)
        if present == notice or output.put_if(name, notice, version):
            return
    raise TransientStorageError(f"{shown(output.url_of(name))} keeps changing while it is taken back; do it again")


_NOTICES: dict[str, Callable[[str], str]] = {
    "html": lambda s: f'<!DOCTYPE html>\n<html lang="en"><title>Withdrawn</title><p>{html.escape(s)}</p></html>',
    "xml": lambda s: f'<?xml version="1.0" encoding="UTF-8"?>\n<withdrawn>{html.escape(s)}</withdrawn>',
    "json": lambda s: json.dumps({"withdrawn": s}),
    "sql": lambda s: f"-- {s}",
}


def notice_of(name: str, sentence: str) -> bytes:
    """Write the notice that replaces a page of a withdrawn release, in the page's format.

    >>> notice_of("README.md", "It is gone"), notice_of("views.sql", "It is gone")
    (b'It is gone\\n', b'-- It is gone\\n')
    """
    written = _NOTICES.get(name.rpartition(".")[2], str)(sentence)
    return f"{written}\n".encode()


def _tombstone_at(folder: str) -> str:
    return f"{folder}/{WITHDRAWN}" if folder else WITHDRAWN


_ATTEMPTS_AT_LATEST = 60


def committed_revisions_in(store: Store, folder: str) -> list[str]:
    """List the committed revisions below a folder, newest first, from a fresh listing."""
    names = [name for name in store.folders(folder) if revision_number(name) is not None]
    names.sort(key=lambda name: revision_number(name) or 0, reverse=True)
    prefix = f"{folder}/" if folder else ""
    return [name for name in names if store.exists(f"{prefix}{name}/{MANIFEST}")]


def readable_revisions_in(store: Store, folder: str) -> list[str]:
    """List the committed revisions that were not withdrawn, newest first."""
    prefix = f"{folder}/" if folder else ""
    return [name for name in committed_revisions_in(store, folder) if not is_withdrawn(store, f"{prefix}{name}")]


def newest(output: Store) -> ReleaseLayout | None:
    """Find the greatest release of the output that can be read, from a fresh listing; None where there is none."""
    ids = [name for name in output.folders() if is_release_id(name)]
    for release_id in sorted(ids, key=lambda name: release_order(name, ""), reverse=True):
        revisions = readable_revisions_in(output, release_id)
        if revisions:
            return ReleaseLayout(release_id, revisions[0])
    return None


def parse_latest(data: bytes | None) -> ReleaseLayout | None:
    """Read which release ``latest.json`` names; None where it is missing or makes no sense.

    >>> parse_latest(b'{"id": "2026", "revision": "r0002", "manifest": "2026/r0002/manifest.json"}')
    ReleaseLayout(id='2026', revision='r0002')
    """
    try:
        value: Any = json.loads(data or b"")
        release_id, revision, manifest = (value[key] for key in ("id", "revision", "manifest"))
    except (ValueError, TypeError, KeyError):
        return None
    texts = isinstance(release_id, str) and isinstance(revision, str)
    if not texts or not is_release_id(release_id) or revision_number(revision) is None:
        return None
    layout = ReleaseLayout(release_id, revision)
    return layout if manifest == layout.manifest() else None


def _order_of(layout: ReleaseLayout) -> OrderKey:
    return release_order(layout.id, layout.revision)


def _is_readable(output: Store, layout: ReleaseLayout) -> bool:
    return output.exists(layout.manifest()) and not is_withdrawn(output, layout.folder)


def update_latest(output: Store) -> ReleaseLayout | None:
    """Make ``latest.json`` name the newest committed release; returns what it names in the end.

    It is derived, never decided: the writer takes the greatest id (digits read as numbers) and revision among the
    manifests that a fresh listing shows, writes that, and looks again until what is written and what is listed
    agree. It never moves backwards, because

    - a writer replaces only the very version that it read (a conditional request; a lock on a disk), so one that was
      held up between listing and writing finds its version gone and starts over, with a newer listing;
    - a manifest is there before its writer comes here, so of two writers the later one sees both releases;
    - where a store cannot replace conditionally, a late writer may put the older release there for a moment, and its
      own second look repairs that; whoever publishes after a crash repairs what the crash left.

    Two ways lead back, both an operator's: a release whose manifest was taken away is not the latest any more, and
    neither is one that was withdrawn.
    """
    for attempt in range(_ATTEMPTS_AT_LATEST):
        # Version first, listing second: what others commit in between makes the listing newer, never older.
        data, version = output.versioned(LATEST)
        named, best = parse_latest(data), newest(output)
        if best is None:
            return named
        if named == best or (named is not None and _order_of(named) > _order_of(best) and _is_readable(output, named)):
            return named
        entry = {"id": best.id, "revision": best.revision, "manifest": best.manifest()}
        if not output.put_if(LATEST, canonical_json(entry), version):
            time.sleep(min(0.02 * 2**attempt, 1.0))
    raise TransientStorageError(
        f"{shown(output.url_of(LATEST))} keeps changing under this run; run again to bring it up to date"
    )


@dataclass(frozen=True)
class ReleaseAtHand:
    """Release as it was found: its folder, and its manifest as read and as bytes."""

    folder: Store
    manifest: Manifest
    data: bytes

    @property
    def sha256(self) -> str:
        return sha256_hex(self.data)


def read_release(
    url: str, storage_options: dict[str, Any] | None = None, *, follow_links: bool = True
) -> ReleaseAtHand:
    """Find and read the release at a URL.

    The URL may be a manifest, the folder of a revision, the folder of a release id (its newest revision is
    taken), or the root of an output (what ``latest.json`` names is taken).
    """
    options = storage_options or {}
    if basename(url) in (MANIFEST, LATEST):
        url = url.rstrip("/")[: -len(basename(url))]
    url = url.rstrip("/") if url.strip("/") else url
    store = Store(url, options, follow_links=follow_links)
    place = _folder_of_release(store)
    folder = Store(join_url(url, place), options, follow_links=follow_links)
    if tombstone := _tombstone(folder):
        raise StorageError(tombstone.in_words(shown(folder.url)))
    data = store.read(f"{place}/{MANIFEST}" if place else MANIFEST)
    manifest = Manifest.from_bytes(data, shown(folder.url_of(MANIFEST)))
    if place and not f"/{manifest.layout.folder}".endswith(f"/{place}"):
        raise StorageError(
            f"{shown(folder.url_of(MANIFEST))} is the manifest of another release or revision; restore the one that "
            "belongs there"
        )
    return ReleaseAtHand(folder, manifest, data)


def _tombstone(folder: Store) -> Tombstone | None:
    try:
        withdrawn = is_withdrawn(folder, "")
    except TransientStorageError:
        raise
    except StorageError:  # a bucket tells nobody who may not list it that something is not there
        return None
    return read_tombstone(folder, "") if withdrawn else None


def _folder_of_release(store: Store) -> str:
    if store.exists(MANIFEST):
        return ""
    if store.exists(LATEST):
        latest = parse_latest(store.read(LATEST))
        if latest is None:
            raise StorageError(
                f"{shown(store.url_of(LATEST))} is damaged; name a release's folder, and publish again to repair it"
            )
        return latest.folder
    # Where all were withdrawn, the newest says so.
    revisions = readable_revisions_in(store, "") or committed_revisions_in(store, "")
    if not revisions:
        raise StorageError(
            f"{shown(store.url)}: there is no release; give the URL of an output, of a release in it, or of a manifest"
        )
    return revisions[0]


def part_batches(path: Path, manifest: Manifest) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """Read the schema of one part, and its rows as tables of bounded size.

    Reading the batches checks every value of a CSV part against its column's type.

    Raises:
        pyarrow.ArrowException, OSError: the file is damaged; the message may quote a value.
        ValueError: the manifest names a type that there is none of.
    """
    return released_format(manifest).batches(path, {column.name: column.type for column in manifest.columns})


def unnamed_files(output: Store, place: str = "") -> Iterator[str]:
    """List the files in folders of releases, or of one release or revision, that no manifest names.

    ``.unfinished`` ones too.
    """
    folders: dict[str, list[str]] = defaultdict(list)
    for name in output.list(place, unfinished=True):
        folder, _, _ = name.rpartition("/")
        if folder and is_release_id(name.partition("/")[0]):
            folders["/".join(name.split("/")[:2])].append(name)
    for folder, names in sorted(folders.items()):
        head, _, revision = folder.partition("/")
        named = set() if revision_number(revision) is None else _names_of(output, ReleaseLayout(head, revision), names)
        yield from (name for name in names if name not in named)


def _names_of(output: Store, layout: ReleaseLayout, listed: list[str]) -> set[str]:
    return named_objects(read_manifest(output, layout), listed) if layout.manifest() in listed else {layout.withdrawn()}


def named_objects(manifest: Manifest, listed: Collection[str]) -> set[str]:
    """Name the objects that belong to a revision whose folder holds those that are listed."""
    layout = manifest.layout
    named = {layout.manifest(), layout.signature(), layout.withdrawn()} | manifest.page_names()
    if layout.withdrawn() in listed:  # what is there of parts came late
        return named
    return named | manifest.part_names() | manifest.written_page_names()


def committed_manifests(output: Store, release_id: str) -> list[Manifest]:
    """Read the manifests of an id's committed revisions, oldest first."""
    revisions = reversed(committed_revisions_in(output, release_id))
    return [read_manifest(output, ReleaseLayout(release_id, revision)) for revision in revisions]


def read_manifest(output: Store, layout: ReleaseLayout) -> Manifest:
    """Read the manifest of a revision."""
    url = shown(output.url_of(layout.manifest()))
    manifest = Manifest.from_bytes(output.read(layout.manifest()), url)
    if manifest.layout != layout:
        raise StorageError(f"{url} is the manifest of another release or revision; restore the one that belongs there")
    return manifest
