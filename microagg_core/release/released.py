"""Finding a release, and reading its parts as somebody does who has nothing but its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from microagg_core.data.formats.writing import released_format
from microagg_core.errors import StorageError, TransientStorageError
from microagg_core.release.latest import committed_revisions_in, parse_latest, readable_revisions_in
from microagg_core.release.manifest import Manifest
from microagg_core.release.withdrawal import Tombstone, is_withdrawn, read_tombstone
from microagg_core.store.layout import LATEST, MANIFEST
from microagg_core.store.objects import Store, sha256_hex
from microagg_core.store.urls import basename, join_url, shown


@dataclass(frozen=True)
class ReleaseAtHand:
    """A release as it was found: its folder, and its manifest as read and as the bytes that it is."""

    folder: Store
    manifest: Manifest
    data: bytes

    @property
    def sha256(self) -> str:
        """The digest of the manifest, which names the digests of all else."""
        return sha256_hex(self.data)


def find_release(url: str, storage_options: dict[str, Any] | None = None) -> tuple[Store, Manifest]:
    """The release at a URL: its folder and its manifest; see :func:`read_release`.

    >>> find_release("memory://nothing-here")
    Traceback (most recent call last):
    ...
    microagg_core.errors.StorageError: memory://nothing-here: there is no release; give the URL of an output, of a \
release in it, or of a manifest
    """
    release = read_release(url, storage_options)
    return release.folder, release.manifest


def read_release(
    url: str, storage_options: dict[str, Any] | None = None, *, follow_links: bool = True
) -> ReleaseAtHand:
    """The release at a URL.

    The URL may be a manifest, the folder of a revision, the folder of a release id (its newest revision is
    taken), or the root of an output (what ``latest.json`` names is taken).

    Raises:
        StorageError: there is no release, it was withdrawn, its manifest is damaged or that of another release; or,
            unless links are followed, there is one on the way from the URL to the manifest.
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
    """What tells that the release was withdrawn, if anything does."""
    try:
        withdrawn = is_withdrawn(folder, "")
    except TransientStorageError:
        raise
    except StorageError:  # a bucket tells nobody who may not list it that something is not there
        return None
    return read_tombstone(folder, "") if withdrawn else None


def _folder_of_release(store: Store) -> str:
    """Where the release lies below the store: '' where the store is its folder."""
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
    """The schema of one part, and its rows as tables of bounded size.

    Reading the batches checks every value of a CSV part against its column's type.

    Raises:
        pyarrow.ArrowException, OSError: the file is damaged; the message may quote a value.
        ValueError: the manifest names a type that there is none of.
    """
    return released_format(manifest).batches(path, {column.name: column.type for column in manifest.columns})
