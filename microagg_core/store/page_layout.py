"""Names of a release's pages, relative to its folder.

    README.html                                       where a reader finds a page, once the manifest is there
    pages/README-<sha256 prefix>-<attempt>.html       where an attempt at publishing writes it, before that

Names of pages are our own words, never something that was read from the data.
"""

from __future__ import annotations

import re

from microagg_core.store.layout import ATTEMPT_DIGITS, LATEST, MANIFEST, SHA256_DIGITS, WITHDRAWN

PAGES = "pages"

#: One dot, so that the name falls into a stem and an ending; short enough for every store and disk.
PAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\.([a-z0-9]{1,8})")
WRITTEN_PAGE = re.compile(
    rf"{PAGES}/[A-Za-z0-9][A-Za-z0-9_-]{{0,63}}"
    rf"-[0-9a-f]{{{SHA256_DIGITS}}}-([0-9a-f]{{{ATTEMPT_DIGITS}}})\.[a-z0-9]{{1,8}}"
)
_OF_ATTEMPT = re.compile(rf"(?:data|pages)/.*-([0-9a-f]{{{ATTEMPT_DIGITS}}})(?:\.[A-Za-z0-9.]+)?")
#: What is read as a release's data, or as the word that it is one, is no page.
_NO_ENDINGS = ("parquet", "csv", "arrow")
_NO_NAMES = (MANIFEST, LATEST, WITHDRAWN)


def is_page_name(name: str) -> bool:
    """Whether a page may be called so.

    >>> is_page_name("README.html"), is_page_name("Manifest.json"), is_page_name("../x.md"), is_page_name("more.csv")
    (True, False, False, False)
    """
    match = PAGE_NAME.fullmatch(name)
    # Some disks take capitals and small letters for the same.
    return match is not None and match[1] not in _NO_ENDINGS and name.lower() not in _NO_NAMES


def written_page(name: str, sha256: str, attempt: str) -> str:
    """Where an attempt at publishing writes a page.

    >>> written_page("README.html", "ab" * 32, "0123456789ab")
    'pages/README-abababababababab-0123456789ab.html'
    """
    stem, _, ending = name.partition(".")
    return f"{PAGES}/{stem}-{sha256[:SHA256_DIGITS]}-{attempt}.{ending}"


def is_written_page(written: str, name: str, sha256: str) -> bool:
    """Whether a name is one under which some attempt may have written a page.

    >>> is_written_page("pages/README-abababababababab-0123456789ab.html", "README.html", "ab" * 32)
    True
    """
    match = WRITTEN_PAGE.fullmatch(written)
    return match is not None and written == written_page(name, sha256, match[1])


def attempt_of(name: str) -> str | None:
    """The attempt at publishing that wrote an object of a revision, by its name there; None where none did.

    >>> attempt_of("data/part-00003-abababababababab-0123456789ab.csv"), attempt_of("data/probe-0123456789ab")
    ('0123456789ab', '0123456789ab')
    >>> attempt_of("README.html") is None
    True
    """
    match = _OF_ATTEMPT.fullmatch(name)
    return match[1] if match else None
