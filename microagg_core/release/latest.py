"""``latest.json``: which release is the newest, for readers who want no other.

It is derived, never decided: the writer takes the greatest id (digits read as numbers) and revision among the
manifests that a fresh listing shows, writes that, and looks again until what is written and what is listed
agree. It never moves backwards, because

- a writer replaces only the very version that it read (a conditional request; a lock on a disk), so one that was
  held up between listing and writing finds its version gone and starts over, with a newer listing;
- a manifest is there before its writer comes here, so of two writers the later one sees both releases;
- where a store cannot replace conditionally, a late writer may put the older release there for a moment, and its
  own second look repairs that; whoever publishes after a crash repairs what the crash left.

Two ways lead back, both an operator's: a release whose manifest was taken away is not the latest any more, and neither
is one that was withdrawn.
"""

from __future__ import annotations

import json
import time
from typing import Any

from microagg_core.errors import TransientStorageError
from microagg_core.release.withdrawal import is_withdrawn
from microagg_core.store.layout import (
    LATEST,
    MANIFEST,
    OrderKey,
    ReleaseLayout,
    is_release_id,
    release_order,
    revision_number,
)
from microagg_core.store.objects import Store, canonical_json
from microagg_core.store.urls import shown

_ATTEMPTS = 60


def committed_revisions_in(store: Store, folder: str) -> list[str]:
    """The names of the revisions below a folder that are committed, newest first, from a fresh listing.

    >>> committed_revisions_in(Store("memory://nothing-here"), "2026")
    []
    """
    names = [name for name in store.folders(folder) if revision_number(name) is not None]
    names.sort(key=lambda name: revision_number(name) or 0, reverse=True)
    prefix = f"{folder}/" if folder else ""
    return [name for name in names if store.exists(f"{prefix}{name}/{MANIFEST}")]


def readable_revisions_in(store: Store, folder: str) -> list[str]:
    """Those of them that were not withdrawn, newest first.

    >>> readable_revisions_in(Store("memory://nothing-here"), "2026")
    []
    """
    prefix = f"{folder}/" if folder else ""
    return [name for name in committed_revisions_in(store, folder) if not is_withdrawn(store, f"{prefix}{name}")]


def newest(output: Store) -> ReleaseLayout | None:
    """The greatest release of the output that can be read, from a fresh listing; None where there is none.

    >>> newest(Store("memory://nothing-here")) is None
    True
    """
    ids = [name for name in output.folders() if is_release_id(name)]
    for release_id in sorted(ids, key=lambda name: release_order(name, ""), reverse=True):
        revisions = readable_revisions_in(output, release_id)
        if revisions:
            return ReleaseLayout(release_id, revisions[0])
    return None


def parse_latest(data: bytes | None) -> ReleaseLayout | None:
    """The release that ``latest.json`` names, or None where it is missing or makes no sense.

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


def _key(layout: ReleaseLayout) -> OrderKey:
    return release_order(layout.id, layout.revision)


def _is_readable(output: Store, layout: ReleaseLayout) -> bool:
    return output.exists(layout.manifest()) and not is_withdrawn(output, layout.folder)


def update_latest(output: Store) -> ReleaseLayout | None:
    """Make ``latest.json`` name the newest committed release; returns what it names in the end.

    Raises:
        StorageError: the store cannot be read or written.

    >>> update_latest(Store("memory://nothing-here")) is None
    True
    """
    for attempt in range(_ATTEMPTS):
        # Version first, listing second: what others commit in between makes the listing newer, never older.
        data, version = output.versioned(LATEST)
        named, best = parse_latest(data), newest(output)
        if best is None:
            return named
        if named == best or (named is not None and _key(named) > _key(best) and _is_readable(output, named)):
            return named
        entry = {"id": best.id, "revision": best.revision, "manifest": best.manifest()}
        if not output.put_if(LATEST, canonical_json(entry), version):
            time.sleep(min(0.02 * 2**attempt, 1.0))
    raise TransientStorageError(
        f"{shown(output.url_of(LATEST))} keeps changing under this run; run again to bring it up to date"
    )
