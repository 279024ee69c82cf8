"""Finding a release, and reading its parts as somebody does who has nothing but its files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from microagg_core.errors import StorageError, TransientStorageError
from microagg_core.formats.released.registry import released_format
from microagg_core.releases.latest import committed_revisions_in, parse_latest, readable_revisions_in
from microagg_core.releases.manifest import Manifest
from microagg_core.releases.withdrawal import Tombstone, is_withdrawn, read_tombstone
from microagg_core.storage.layout import LATEST, MANIFEST
from microagg_core.storage.objects import Store
from microagg_core.storage.urls import basename, join_url, shown


def find_release(url: str, storage_options: dict[str, Any] | None = None) -> tuple[Store, Manifest]:
    """The release at a URL: its folder and its manifest.

    The URL may be a manifest, the folder of a revision, the folder of a release id (its newest revision is
    taken), or the root of an output (what ``latest.json`` names is taken).

    Raises:
        StorageError: there is no release, it was withdrawn, or its manifest is damaged.

    >>> find_release("memory://nothing-here")
    Traceback (most recent call last):
    ...
    microagg_core.errors.StorageError: memory://nothing-here: there is no release; give the URL of an output, of a \
release in it, or of a manifest
    """
    options = storage_options or {}
    if basename(url) in (MANIFEST, LATEST):
        url = url.rstrip("/")[: -len(basename(url))]
    url = url.rstrip("/") if url.strip("/") else url
    place = _folder_of_release(Store(url, options, follow_links=True))
    folder = Store(join_url(url, place), options, follow_links=True)
    if tombstone := _tombstone(folder):
        raise StorageError(tombstone.in_words(shown(folder.url)))
    return folder, Manifest.from_bytes(folder.read(MANIFEST), shown(folder.url_of(MANIFEST)))


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
