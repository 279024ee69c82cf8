"""Make everything that stands beside a release for its users, of its manifest and of nothing else.

What a manifest says has passed the rules for published figures, so no page can tell more than these allow.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from microagg_core.data.formats.writing import released_format
from microagg_core.errors import MicroaggError, sanitized
from microagg_core.release.manifest import Manifest
from microagg_core.release.pages.catalogues import croissant, data_package, ddi_codebook
from microagg_core.release.pages.document import (
    Document,
    Link,
    Name,
    Rows,
    Section,
    Strong,
    Text,
    bullets,
    html_page,
    markdown_page,
    paragraph,
)
from microagg_core.release.pages.escaping import paragraphs, visible
from microagg_core.release.pages.method import losses_section, method_section, uses_section
from microagg_core.release.pages.promises import cite_section, licence_word, promises_section, verify_section
from microagg_core.release.pages.reading import reading_snippets, views_sql
from microagg_core.release.pages.words import (
    TEXT_TYPES,
    about,
    address,
    column_type,
    role_words,
    said_of,
    size_words,
    summary,
    title,
    units_word,
    variation_word,
)
from microagg_core.spec.about import ColumnAbout

_MAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+")


def contents(manifest: Manifest) -> Document:
    said = about(manifest)
    return Document(
        title=title(manifest),
        subtitle=f"Release {manifest.id}, revision {manifest.revision}",
        description=paragraphs(said.description) if said.description else (summary(manifest),),
        facts=_facts(manifest),
        imprint=_imprint(manifest),
        sections=(
            method_section(manifest),
            uses_section(manifest),
            _columns_section(manifest),
            losses_section(manifest),
            promises_section(manifest),
            _reading_section(manifest),
            verify_section(manifest),
            cite_section(manifest),
            _files_section(manifest),
        ),
        footer=_footer(manifest),
    )


def _facts(manifest: Manifest) -> tuple[tuple[str, str], ...]:
    return (
        (f"{manifest.rows:,}", "records"),
        (str(len(manifest.columns)), "columns"),
        (f"{manifest.k} or more", f"{units_word(manifest)} {_share(manifest)} (k\u00a0=\u00a0{manifest.k})"),
        _lost(manifest),
    )


def _share(manifest: Manifest) -> str:
    return "fit whatever is known of one" if manifest.has_whole_units else "share every combination"


def _lost(manifest: Manifest) -> tuple[str, str]:
    losses, what = manifest.losses, variation_word(manifest)
    if losses.l_sse is None:
        return "not published", f"how much of the {what} is lost"
    return f"{losses.l_sse:.3g} %", f"of the {what} is lost"


def _imprint(manifest: Manifest) -> tuple[tuple[str, Text], ...]:
    said, url = about(manifest), address(manifest)
    entries: list[tuple[str, Text]] = [("Published", (manifest.created[:10],))]
    if said.publisher:
        entries.append(("Publisher", (said.publisher,)))
    if said.contact:
        entries.append(("Contact", (_contact(said.contact),)))
    if said.licence:
        entries.append(("Licence", (licence_word(said.licence),)))
    if url:
        is_web = url.startswith(("http://", "https://"))
        entries.append(("Address", (Link(url, url) if is_web else Name(url),)))
    for word, text in (("Period", said.period), ("Geography", said.geography), ("Keywords", ", ".join(said.keywords))):
        if text:
            entries.append((word, (text,)))
    return tuple(entries)


def _contact(text: str) -> str | Link:
    if _MAIL.fullmatch(text):
        return Link(text, f"mailto:{text}")
    return Link(text, text) if re.fullmatch(r"https?://[^\s\"'<>\\]+", text) else text


def _columns_section(manifest: Manifest) -> Section:
    said = [said_of(manifest, column) for column in manifest.columns]
    has_words, has_units = any(one.label or one.description for one in said), any(one.unit for one in said)
    head = ("column", *(["what it is"] * has_words), *(["unit"] * has_units), "type", "released as")
    rows: list[tuple[Text, ...]] = []
    for column, one in zip(manifest.columns, said, strict=True):
        cells: list[Text] = [
            (Name(column.name),),
            *([_what_it_is(one)] * has_words),
            *([(one.unit or "",)] * has_units),
        ]
        rows.append((*cells, (column_type(column.type).words,), (role_words(manifest, column),)))
    return Section("columns", "Columns", (Rows("Columns of the release", head, tuple(rows)),))


def _what_it_is(said: ColumnAbout) -> Text:
    described = " ".join(paragraphs(said.description or ""))
    if said.label is None:
        return (described,)
    return (Strong(said.label), f": {described}") if described else (Strong(said.label),)


_BEFORE_READING: Text = (
    *("Each piece of code ends with the whole release in ", Name("data"), ". ", Name("release")),
    " may be this folder or its URL; an https URL needs the packages fsspec and aiohttp, s3 needs s3fs.",
)

_FORMULA = "Text cells that begin like a formula, with = + - @, a tab or a carriage return, "
_FORMULAS = {
    "keep": f"{_FORMULA}are as they came: a spreadsheet may run them, so import those columns as text.",
    "escape": f"{_FORMULA}have an apostrophe before them, and no spreadsheet runs them; it is no part of the value.",
}


def _reading_section(manifest: Manifest) -> Section:
    before = [paragraph(*_BEFORE_READING)]
    if manifest.csv is not None and any(column.type in TEXT_TYPES for column in manifest.columns):
        before.append(paragraph(_FORMULAS[manifest.csv.formulas]))
    return Section("reading", "How to read it", (*before, *reading_snippets(manifest)))


_BESIDE: tuple[Text, ...] = (
    (Name("manifest.json"), ": the names of all of them with their SHA-256, and all that this page says."),
    (Name("README.html"), ", ", Name("README.md"), ": this page."),
    (Name("datapackage.json"), ": the same for programs and catalogues that know Data Package,"),
    (Name("croissant.json"), ": for those that know Croissant,"),
    (Name("ddi.xml"), ": and for those that know DDI-Codebook."),
    (Name("views.sql"), ": a view for DuckDB, with labels and units as comments of its columns."),
)


def _files_section(manifest: Manifest) -> Section:
    size, n = size_words(sum(part.bytes for part in manifest.parts)), len(manifest.parts)
    form = released_format(manifest).title
    data: Text = (Name("data/"), f": {n:,} {'file' if n == 1 else 'files'} of {form}, {size} in all.")
    return Section("files", "Files", (bullets(data, *_BESIDE),))


def _footer(manifest: Manifest) -> Text:
    version = manifest.software.get("microagg", "")
    return (f"Made by microagg{f' {visible(version)}' if version else ''} from the release's manifest alone.",)


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
