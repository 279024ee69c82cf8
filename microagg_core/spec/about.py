"""What the publisher says of a release: its title, where it is, whose it is, and what its columns are.

It is published as it stands, in the manifest and on the pages beside it, and decides nothing of the data.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer

from microagg_core.model import ColumnName, Model, Problem
from microagg_core.store.urls import holds_credentials

#: A title or a unit is read at a glance; a description is a page at most, so that pages stay small with 200 columns.
_LINE, _PAGE, _NOTE = 300, 10_000, 2_000
#: Catalogues show some; more than these nobody reads.
_MOST_KEYWORDS = 50
#: Marks that turn the direction of what follows, by which a text can be made to read as another.
_TURNS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_LINE_ENDS = {0x2028, 0x2029}
#: Letters of an address that mean nothing to a shell, to HTML, or within quotes of any language.
_ADDRESS = r"[A-Za-z0-9._~:/?#@!$&()*+,;=%\[\]-]+"
#: A name of the SPDX list has no blanks.
LICENCE_PATTERN = rf"^([A-Za-z0-9][A-Za-z0-9.+-]*|https?://{_ADDRESS})$"
ADDRESS_PATTERN = rf"^[a-z][a-z0-9+.-]*://{_ADDRESS}$"


def _speakable(text: str, allowed: str = "") -> str:
    """Refuse a text that no page could show as it is."""
    if not text.strip():
        raise ValueError("must not be empty")
    for mark in text:
        is_control = unicodedata.category(mark) in ("Cc", "Cs") and mark not in allowed
        if is_control or ord(mark) in _TURNS | _LINE_ENDS or ord(mark) & 0xFFFE == 0xFFFE:
            raise ValueError(f"must not hold the invisible character U+{ord(mark):04X}")
    return text


def _of_lines(text: str) -> str:
    return _speakable(text, "\n\t")


def _year(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _address(url: str) -> str:
    if holds_credentials(url):
        raise ValueError("must not hold a user or password")
    return url.rstrip("/")


Line = Annotated[str, Field(min_length=1, max_length=_LINE), AfterValidator(_speakable)]
Note = Annotated[str, Field(min_length=1, max_length=_NOTE), AfterValidator(_of_lines)]
Address = Annotated[str, Field(pattern=ADDRESS_PATTERN, max_length=_LINE), AfterValidator(_address)]
Page = Annotated[str, Field(min_length=1, max_length=_PAGE), AfterValidator(_of_lines)]


class _Said(Model):
    """Only what is said is there when it is written."""

    @model_serializer(mode="wrap")
    def _only_said(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in plain(self).items() if value not in (None, (), [], {})}


class ColumnAbout(_Said):
    """What a released column is.

    >>> ColumnAbout(label="Yearly income", unit="EUR").model_dump()
    {'label': 'Yearly income', 'unit': 'EUR'}
    """

    label: Line | None = Field(default=None, description="its name for people")
    unit: Line | None = Field(default=None, description="what its numbers count, such as EUR or years")
    description: Note | None = Field(default=None, description="how it was asked or measured, and what its codes mean")


class About(_Said):
    """What is said of a release; all of it is published."""

    title: Line | None = Field(default=None, description="what the release is called; default: its name")
    description: Page | None = Field(default=None, description="what the data are; blank lines part paragraphs")
    publisher: Line | None = Field(default=None, description="who publishes it")
    contact: Line | None = Field(default=None, description="whom to ask: an address, an e-mail address or a URL")
    licence: str | None = Field(
        default=None,
        pattern=LICENCE_PATTERN,
        max_length=_LINE,
        description="the SPDX name of the licence, such as CC-BY-4.0, or its URL",
    )
    url: Address | None = Field(
        default=None, description="the output's folder as receivers see it; a release is in <id>/<revision> below it"
    )
    citation: Note | None = Field(default=None, description="how to cite it; default: put together from the rest")
    keywords: tuple[Line, ...] = Field(default=(), max_length=_MOST_KEYWORDS, description="words to find it by")
    period: Annotated[Line, BeforeValidator(_year)] | None = Field(
        default=None, description="the time that the data are about, such as 2024 or 2024-01-01/2024-12-31"
    )
    geography: Line | None = Field(default=None, description="the place that the data are about")
    columns: dict[ColumnName, ColumnAbout] = Field(
        default={}, description="released column -> its label, unit and description"
    )


def about_problems(parts: Mapping[str, Any]) -> Iterator[Problem]:
    """Find columns that are described and not released."""
    if parts.get("about") is None or "roles" not in parts:
        return
    role = parts["roles"].role_of()
    for name in parts["about"].columns:
        if role.get(name) in (None, "identifiers", "drop"):
            yield ("about", "columns", name), "is not a released column, and what is said of it would be published"


#: Of which an address on the web is made.
_NAMED_LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")


def licence_url(licence: str) -> str:
    """Find where a licence can be read.

    >>> licence_url("CC-BY-4.0")
    'https://spdx.org/licenses/CC-BY-4.0.html'
    """
    return f"https://spdx.org/licenses/{licence}.html" if _NAMED_LICENCE.fullmatch(licence) else licence
