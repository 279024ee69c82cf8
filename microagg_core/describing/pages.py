"""Everything that stands beside a release for its users, made of its manifest and of nothing else.

What a manifest says has passed the rules for published figures, so no page can tell more than these allow.
"""

from __future__ import annotations

from microagg_core.describing.contents import contents
from microagg_core.describing.croissant import croissant
from microagg_core.describing.datapackage import data_package
from microagg_core.describing.ddi import ddi_codebook
from microagg_core.describing.html import html_page
from microagg_core.describing.markdown import markdown_page
from microagg_core.describing.views import views_sql
from microagg_core.releases.manifest import Manifest


def public_pages(manifest: Manifest) -> dict[str, bytes]:
    """The pages by their names in the release's folder; the same manifest gives the same bytes."""
    document = contents(manifest)
    return {
        "README.html": html_page(document),
        "README.md": markdown_page(document),
        "croissant.json": croissant(manifest),
        "datapackage.json": data_package(manifest),
        "ddi.xml": ddi_codebook(manifest),
        "views.sql": views_sql(manifest),
    }
