"""Everything that stands beside a release for its users, made of its manifest and of nothing else.

What a manifest says has passed the rules for published figures, so no page can tell more than these allow.
"""

from __future__ import annotations

from collections.abc import Callable

from microagg_core.errors import MicroaggError, sanitized
from microagg_core.release.manifest import Manifest
from microagg_core.release.pages.catalogues import croissant, data_package, ddi_codebook
from microagg_core.release.pages.contents import contents
from microagg_core.release.pages.document import html_page, markdown_page
from microagg_core.release.pages.reading import views_sql

_MAKERS: dict[str, Callable[[Manifest], bytes]] = {
    "README.html": lambda manifest: html_page(contents(manifest)),
    "README.md": lambda manifest: markdown_page(contents(manifest)),
    "croissant.json": croissant,
    "datapackage.json": data_package,
    "ddi.xml": ddi_codebook,
    "views.sql": views_sql,
}


def public_pages(manifest: Manifest) -> dict[str, bytes | MicroaggError]:
    """Make the pages by their names in the release's folder; the same manifest gives the same bytes.

    In the place of a page that cannot be made is the error: data and checks are as good without it.
    """
    return {name: _attempt(make, manifest) for name, make in _MAKERS.items()}


def _attempt(make: Callable[[Manifest], bytes], manifest: Manifest) -> bytes | MicroaggError:
    try:
        return make(manifest)
    except Exception as error:
        return sanitized(error, "making it")
