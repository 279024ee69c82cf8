"""The pages of a release: written before its manifest as its parts are, and copied to where readers find them after it.

A page is made from the manifest alone, before that names its pages. So it says nothing that the manifest does not say,
and whoever has the manifest can make the page again, if the software still makes the same of it.

Where a reader finds a page, nothing stands before the manifest is there. From then on everybody brings the same bytes
there, those that the manifest names, in the place of nothing or of the very version that was looked at and found
wrong. Whoever withdraws the release puts up its tombstone, then a notice in the place of each page: a copy that comes
later finds the notice, not what it looked at, and is refused by the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from microagg_core.errors import InternalError, MicroaggError
from microagg_core.release.manifest import Manifest, PageEntry
from microagg_core.release.revisions import is_withdrawn
from microagg_core.store.layout import ReleaseLayout, is_page_name, written_page
from microagg_core.store.objects import Store, sha256_hex

#: Makes the pages of a release by name, from its manifest without them; the same for the same manifest. In the place of
#: a page that cannot be made is the error.
PagesOf = Callable[[Manifest], Mapping[str, bytes | MicroaggError]]


def no_pages(manifest: Manifest) -> Mapping[str, bytes]:
    return {}


@dataclass(frozen=True)
class Page:
    entry: PageEntry
    data: bytes


def pages_for(manifest: Manifest, pages_of: PagesOf, attempt: str) -> tuple[tuple[Page, ...], tuple[str, ...]]:
    """Make the pages of a release that is about to be published, and a sentence on each that cannot be made.

    Nothing is written yet.
    """
    pages = sorted(pages_of(manifest).items())
    left_out = [
        f"the release has no page {name}: {data.message}" for name, data in pages if isinstance(data, MicroaggError)
    ]
    return tuple(_page(name, data, attempt) for name, data in pages if isinstance(data, bytes)), tuple(left_out)


def _page(name: str, data: bytes, attempt: str) -> Page:
    if not data or not is_page_name(name):
        raise InternalError(f"a bug: {name!r} is empty, or no name of a page; please report it")
    sha256 = sha256_hex(data)
    entry = PageEntry(name=name, written=written_page(name, sha256, attempt), bytes=len(data), sha256=sha256)
    return Page(entry, data)


def bring_pages(output: Store, manifest: Manifest, pages_of: PagesOf) -> tuple[str, ...]:
    """Put every page of a published release where readers find it, as anybody may at any time; returns warnings."""
    layout = manifest.layout
    copies = [_copies_of(output, layout, page) for page in manifest.pages]
    damaged = [copy for copy in copies if not (_is(copy.page, copy.public) and _is(copy.page, copy.written))]
    # Asked after all versions were: a notice that was put up since has another.
    if not damaged or is_withdrawn(output, layout.folder):
        return ()
    remade = cache(lambda: pages_of(manifest.model_copy(update={"pages": ()})))
    return tuple(sentence for copy in damaged if (sentence := _mend(output, layout, copy, remade)))


class _Copies(NamedTuple):
    """Both copies of a page: the readers', with its version, and the one that was written before the manifest."""

    page: PageEntry
    public: bytes | None
    version: str
    written: bytes | None


def _copies_of(output: Store, layout: ReleaseLayout, page: PageEntry) -> _Copies:
    public, version = output.versioned(layout.absolute(page.name))
    return _Copies(page, public, version, output.read_if_there(layout.absolute(page.written)))


def _mend(
    output: Store, layout: ReleaseLayout, copies: _Copies, remade: Callable[[], Mapping[str, bytes | MicroaggError]]
) -> str | None:
    """Put back what is missing of a page; a sentence where it can neither be found nor made again."""
    page = copies.page
    data = next((data for data in _sources(copies, remade) if _is(page, data)), None)
    if data is None:
        return (
            f"the page {layout.absolute(page.name)} is missing or damaged, and this version of microagg makes another: "
            "restore it, or publish the release again with --replace"
        )
    if not _is(page, copies.written):
        output.put(layout.absolute(page.written), data, durable=True)
    if not _is(page, copies.public):
        # Where it is not granted, somebody else brought it, or withdrew the release.
        output.put_if(layout.absolute(page.name), data, copies.version)
    return None


def _sources(copies: _Copies, remade: Callable[[], Mapping[str, bytes | MicroaggError]]) -> Iterator[bytes | None]:
    yield copies.written
    yield copies.public
    again = remade().get(copies.page.name)
    yield again if isinstance(again, bytes) else None


def _is(page: PageEntry, data: bytes | None) -> bool:
    return data is not None and len(data) == page.bytes and sha256_hex(data) == page.sha256
