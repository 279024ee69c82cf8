"""Withdrawal: a revision whose data are taken back, as somebody in them has to be forgotten, or its run died half-way.

Its manifest stays, as publishing relies on that; a tombstone beside it tells readers. It is there before the first file
goes, so whoever finds a file missing finds the reason too, and a withdrawal that was stopped is finished by doing it
again. What was read before cannot be taken back.

Where a page of the release stood, a notice says the same. Pages are replaced, not removed, so that a copy of one that
was on its way finds another version than it looked at, and is refused.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from typing import Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from microagg_core.errors import StorageError, TransientStorageError
from microagg_core.plain import from_json, to_plain
from microagg_core.release.manifest import Manifest
from microagg_core.store.layout import WITHDRAWN, ReleaseLayout
from microagg_core.store.objects import Store, canonical_json
from microagg_core.store.page_layout import PAGES
from microagg_core.store.urls import shown

#: How often a notice is put in the place of a page that changes meanwhile; each copy of a page changes it once.
_ATTEMPTS = 20


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Tombstone:
    """Why and when a revision was withdrawn, and what stands in its place."""

    reason: Literal["erasure", "never published"]
    #: When, in UTC.
    withdrawn: str
    #: The night of the series in which it was.
    night: int
    #: The folder of the revision in its place; null where there is none.
    replaced_by: str | None = None
    format: Literal[1] = 1

    def in_words(self, layout_folder: str) -> str:
        """What a reader is told.

        >>> Tombstone("erasure", "2026-11-19T02:00:00Z", 4, "day/r0002").in_words("day/r0001")
        'day/r0001 was withdrawn on 2026-11-19 (erasure), and its data are gone; read day/r0002 instead'
        """
        instead = f"read {self.replaced_by} instead" if self.replaced_by else "read a later release"
        return (
            f"{layout_folder} was withdrawn on {self.withdrawn[:10]} ({self.reason}), and its data are gone; {instead}"
        )


def is_withdrawn(output: Store, folder: str) -> bool:
    """Whether a revision, given by its folder ('' for the root), was withdrawn.

    >>> is_withdrawn(Store("memory://nothing-here"), "2026/r0001")
    False
    """
    return output.exists(_name(folder))


def read_tombstone(output: Store, folder: str) -> Tombstone | None:
    """The tombstone of a revision, given by its folder ('' for the root); None where it was not withdrawn.

    Raises:
        StorageError: it is damaged.
    """
    data = output.read_if_there(_name(folder))
    if data is None:
        return None
    try:
        return from_json(Tombstone, data)
    except ValueError:
        raise StorageError(
            f"{shown(output.url_of(_name(folder)))} is damaged: the release was withdrawn, and why cannot be read; "
            "read a later release"
        ) from None


def put_up(output: Store, layout: ReleaseLayout, tombstone: Tombstone) -> None:
    """Tell readers of a withdrawal. Where another tombstone is there, that is what they were told; it stays."""
    output.create(layout.withdrawn(), canonical_json(to_plain(tombstone)))


def withdraw(output: Store, layout: ReleaseLayout, tombstone: Tombstone) -> int:
    """Put up the tombstone, then remove all data of a revision, and replace its pages; may be repeated.

    Returns:
        How many files were removed.

    Raises:
        StorageError: something cannot be written, listed or removed.
    """
    put_up(output, layout, tombstone)
    names = [name for of in (layout.data(), layout.absolute(PAGES)) for name in output.list(of, unfinished=True)]
    output.delete_many(names)
    pages = _pages(output, layout)
    sentence = _told(output, layout, tombstone).in_words(layout.folder) if pages else ""
    for name in pages:
        _put_notice(output, layout.absolute(name), sentence)
    return len(names)


def _pages(output: Store, layout: ReleaseLayout) -> list[str]:
    """The names of a revision's pages; none where there is no manifest, or none that can be read."""
    data = output.read_if_there(layout.manifest())
    try:
        return [] if data is None else [page.name for page in Manifest.from_bytes(data, layout.manifest()).pages]
    except StorageError:  # its data are gone all the same
        return []


def _told(output: Store, layout: ReleaseLayout, tombstone: Tombstone) -> Tombstone:
    """What readers were told first, if that can be read."""
    try:
        return read_tombstone(output, layout.folder) or tombstone
    except StorageError:
        return tombstone


def _put_notice(output: Store, name: str, sentence: str) -> None:
    notice = notice_of(name, sentence)
    for _ in range(_ATTEMPTS):
        there, version = output.versioned(name)
        if there == notice or output.put_if(name, notice, version):
            return
    raise TransientStorageError(f"{shown(output.url_of(name))} keeps changing while it is taken back; do it again")


_NOTICES: dict[str, Callable[[str], str]] = {
    "html": lambda s: f'<!DOCTYPE html>\n<html lang="en"><title>Withdrawn</title><p>{html.escape(s)}</p></html>',
    "xml": lambda s: f'<?xml version="1.0" encoding="UTF-8"?>\n<withdrawn>{html.escape(s)}</withdrawn>',
    "json": lambda s: json.dumps({"withdrawn": s}),
    "sql": lambda s: f"-- {s}",
}


def notice_of(name: str, sentence: str) -> bytes:
    """What stands in the place of a page of a release that was withdrawn, in the page's format.

    >>> notice_of("README.md", "It is gone"), notice_of("views.sql", "It is gone")
    (b'It is gone\\n', b'-- It is gone\\n')
    """
    written = _NOTICES.get(name.rpartition(".")[2], str)(sentence)
    return f"{written}\n".encode()


def _name(folder: str) -> str:
    return f"{folder}/{WITHDRAWN}" if folder else WITHDRAWN
