"""A document as it is before it is HTML or markdown: sections of paragraphs, lists, tables and pieces of code.

A text is a tuple of words; plain ones are shown as they are, whatever stands in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Name:
    """A column's name, a file's or a type's: shown letter by letter."""

    text: str


@dataclass(frozen=True)
class Strong:
    """What catches the eye."""

    text: str


@dataclass(frozen=True)
class Link:
    """A text that leads to an address on the web."""

    text: str
    url: str


@dataclass(frozen=True)
class Share:
    """A percentage, as the text says it, with a bar of its length."""

    percent: float
    text: str


Word: TypeAlias = "str | Name | Strong | Link | Share"
Text: TypeAlias = "tuple[Word, ...]"


@dataclass(frozen=True)
class Paragraph:
    """Sentences."""

    text: Text


@dataclass(frozen=True)
class Bullets:
    """A list without numbers."""

    items: tuple[Text, ...]


@dataclass(frozen=True)
class Rows:
    """Rows under a head; the first cell of each is the row's own name, and ``numeric`` columns stand to the right."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    numeric: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Snippet:
    """Code to copy, and the language it is in."""

    language: str
    title: str
    code: str


Block: TypeAlias = "Paragraph | Bullets | Rows | Snippet"


@dataclass(frozen=True)
class Section:
    """A part of a document, with the name by which links lead to it."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Fact:
    """One of the few things that are read first."""

    figure: str
    meaning: str


@dataclass(frozen=True)
class Document:
    """A whole page."""

    title: str
    subtitle: str
    description: tuple[str, ...]
    facts: tuple[Fact, ...]
    #: Who, when, where: a word and a text each.
    imprint: tuple[tuple[str, Text], ...]
    sections: tuple[Section, ...]
    footer: Text


def paragraph(*words: Word) -> Paragraph:
    """A paragraph of these words."""
    return Paragraph(words)


def bullets(*items: Text | str) -> Bullets:
    """A list of these texts."""
    return Bullets(tuple((item,) if isinstance(item, str) else item for item in items))


def listed(words: Iterable[Word], last: str = "and") -> Text:
    """Words with commas between them.

    >>> listed(["a", "b", "c"])
    ('a', ', ', 'b', ' and ', 'c')
    """
    parts = tuple(words)
    separators = [", "] * (len(parts) - 2) + [f" {last} "] * (len(parts) > 1)
    text: list[Word] = list(parts[:1])
    for separator, word in zip(separators, parts[1:], strict=True):
        text += [separator, word]
    return tuple(text)
