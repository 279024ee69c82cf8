"""Files at an output that no manifest names: what readers could read although nothing says that it is a release."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from microagg_core.release.publish import read_manifest
from microagg_core.store.layout import ReleaseLayout, is_release_id, revision_number
from microagg_core.store.objects import Store


def unnamed_files(output: Store, place: str = "") -> Iterator[str]:
    """List the files in folders of releases, or of one release or revision, that no manifest names.

    ``.unfinished`` ones too.

    Raises:
        StorageError: a manifest is damaged, or the output cannot be listed.

    >>> list(unnamed_files(Store("memory://nothing-here")))
    []
    """
    folders: dict[str, list[str]] = defaultdict(list)
    for name in output.list(place, unfinished=True):
        folder, _, _ = name.rpartition("/")
        if folder and is_release_id(name.partition("/")[0]):
            folders["/".join(name.split("/")[:2])].append(name)
    for folder, names in sorted(folders.items()):
        head, _, revision = folder.partition("/")
        named = set() if revision_number(revision) is None else _named(output, ReleaseLayout(head, revision), names)
        yield from (name for name in names if name not in named)


def _named(output: Store, layout: ReleaseLayout, names: list[str]) -> set[str]:
    """The names that may be in a revision's folder, which has these."""
    if layout.manifest() not in names:
        return {layout.withdrawn()}
    manifest = read_manifest(output, layout)
    named = {layout.manifest(), layout.signature(), layout.withdrawn()} | manifest.page_names()
    return named if layout.withdrawn() in names else named | manifest.part_names() | manifest.written_page_names()
