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
from functools import cached_property

from microagg_core.errors import InternalError, MicroaggError
from microagg_core.release.manifest import Manifest, PageEntry
from microagg_core.release.revisions import is_withdrawn
from microagg_core.store.objects import Store, sha256_hex
from microagg_core.store.page_layout import is_page_name, written_page

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

    Raises:
        InternalError: one of them is empty, or has a name that no page may have.
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
    """Put every page of a published release where readers find it; for anybody to do at any time.

    Returns:
        What there is to say about it, a sentence each.

    Raises:
        StorageError: a page cannot be read or written.
    """
    return tuple(_Bringing(output, manifest, pages_of).lost()) if manifest.pages else ()


@dataclass(frozen=True)
class _Look:
    """State of a page: at its place for readers, with a version, and where it was written."""

    page: PageEntry
    there: bytes | None
    version: str
    written: bytes | None

    @property
    def is_whole(self) -> bool:
        return _is(self.page, self.there) and _is(self.page, self.written)


@dataclass(frozen=True)
class _Bringing:
    output: Store
    manifest: Manifest
    pages_of: PagesOf

    @cached_property
    def _again(self) -> Mapping[str, bytes | MicroaggError]:
        """Pages as this version of the software makes them."""
        return self.pages_of(self.manifest.model_copy(update={"pages": ()}))

    def _look(self, page: PageEntry) -> _Look:
        layout = self.manifest.layout
        there, version = self.output.versioned(layout.absolute(page.name))
        return _Look(page, there, version, self.output.read_if_there(layout.absolute(page.written)))

    def lost(self) -> Iterator[str]:
        """Put back what is missing; yields a sentence for each page that cannot be found or made again."""
        lacking = [look for look in map(self._look, self.manifest.pages) if not look.is_whole]
        # Asked after all versions were: a notice that was put up since has another.
        if not lacking or is_withdrawn(self.output, self.manifest.layout.folder):
            return
        for look in lacking:
            data = next((one for one in self._sources(look) if _is(look.page, one)), None)
            if data is not None:
                self._bring(look, data)
                continue
            yield (
                f"the page {self.manifest.layout.absolute(look.page.name)} is missing or damaged, and this version of "
                "microagg makes another: restore it, or publish the release again with --replace"
            )

    def _sources(self, look: _Look) -> Iterator[bytes | None]:
        yield look.written
        yield look.there
        again = self._again.get(look.page.name)
        yield again if isinstance(again, bytes) else None

    def _bring(self, look: _Look, data: bytes) -> None:
        layout = self.manifest.layout
        if not _is(look.page, look.written):
            self.output.put(layout.absolute(look.page.written), data, durable=True)
        if not _is(look.page, look.there):
            # Where it is not granted, somebody else brought it, or withdrew the release.
            self.output.put_if(layout.absolute(look.page.name), data, look.version)


def _is(page: PageEntry, data: bytes | None) -> bool:
    return data is not None and len(data) == page.bytes and sha256_hex(data) == page.sha256
