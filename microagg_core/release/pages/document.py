"""Documents of sections, paragraphs, lists, tables and code, and how they become HTML and markdown.

A text is a tuple of words; plain ones are shown as they are, whatever stands in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from microagg_core.release.pages.escaping import markdown_code, markdown_text, visible


@dataclass(frozen=True)
class Name:
    text: str


@dataclass(frozen=True)
class Strong:
    text: str


@dataclass(frozen=True)
class Link:
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
class Rows:
    """Rows under a head; the first cell of each is the row's own name, and ``numeric`` columns stand to the right."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    numeric: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Snippet:
    language: str
    title: str
    code: str


#: A paragraph, a list without numbers, a table, or code.
Block: TypeAlias = "Text | list[Text] | Rows | Snippet"


@dataclass(frozen=True)
class Section:
    anchor: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    title: str
    subtitle: str
    description: tuple[str, ...]
    #: The few things that are read first: a figure, and what it means.
    facts: tuple[tuple[str, str], ...]
    #: Who, when, where: a word and a text each.
    imprint: tuple[tuple[str, Text], ...]
    sections: tuple[Section, ...]
    footer: Text


def paragraph(*words: Word) -> Text:
    return words


def bullets(*items: Text | str) -> list[Text]:
    return [(item,) if isinstance(item, str) else item for item in items]


def listed(words: Iterable[Word]) -> Text:
    """Put commas between words.

    >>> listed(["a", "b", "c"])
    ('a', ', ', 'b', ' and ', 'c')
    """
    parts = tuple(words)
    separators = [", "] * (len(parts) - 2) + [" and "] * (len(parts) > 1)
    text: list[Word] = list(parts[:1])
    for separator, word in zip(separators, parts[1:], strict=True):
        text += [separator, word]
    return tuple(text)


def html_page(document: Document) -> bytes:
    template = page_template("microagg_core.release.pages", "readme.html")
    return template.render(page=document).encode()


@cache
def page_template(package: str, name: str) -> Template:
    """Load a template of a package, in which all is escaped that is not said to be safe."""
    environment = Environment(
        loader=PackageLoader(package), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["visible"] = visible
    environment.filters["kind"] = lambda part: type(part).__name__ if not isinstance(part, str) else "Plain"
    environment.filters["bar"] = _bar
    return environment.get_template(name)


def _bar(percent: float) -> str:
    """Length of a bar, of a hundred.

    >>> _bar(12.345), _bar(-1.0), _bar(1e9)
    ('12.3', '0.0', '100.0')
    """
    return f"{min(max(percent, 0.0), 100.0):.1f}"


def markdown_page(document: Document) -> bytes:
    lines = [f"# {markdown_text(document.title)}", "", f"**{markdown_text(document.subtitle)}**", ""]
    for part in document.description:
        lines += [markdown_text(part, starts=True), ""]
    lines += [f"- **{markdown_text(figure)}** {markdown_text(meaning)}" for figure, meaning in document.facts]
    lines += ["", *(f"- {markdown_text(word)}: {_text(text)}" for word, text in document.imprint)]
    for section in document.sections:
        lines += ["", f"## {markdown_text(section.title)}"]
        for block in section.blocks:
            lines += ["", *_block(block)]
    return ("\n".join([*lines, "", "---", "", _text(document.footer)]) + "\n").encode()


def _block(block: Block) -> list[str]:
    if isinstance(block, tuple):
        return [_text(block)]
    if isinstance(block, list):
        return [f"- {_text(item)}" for item in block]
    return _table(block) if isinstance(block, Rows) else _snippet(block)


def _snippet(snippet: Snippet) -> list[str]:
    # Four backticks at the least; a line of code that begins with as many would end it.
    fence = "````"
    while fence in snippet.code:
        fence += "`"
    return [f"**{markdown_text(snippet.title)}**", "", f"{fence}{snippet.language}", snippet.code.rstrip("\n"), fence]


def _table(table: Rows) -> list[str]:
    marks = ["---:" if place in table.numeric else "---" for place in range(len(table.head))]
    lines = [_row([markdown_text(cell) for cell in table.head]), _row(marks)]
    lines = [f"{markdown_text(table.caption)}:", "", *lines]
    return [*lines, *(_row([_text(cell, in_table=True) for cell in row]) for row in table.rows)]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: Text, *, in_table: bool = False) -> str:
    return "".join(_word(word, in_table, starts=not place) for place, word in enumerate(text))


def _word(word: Word, in_table: bool, *, starts: bool) -> str:
    if isinstance(word, Name):
        return markdown_code(word.text, in_table=in_table)
    if isinstance(word, Strong):
        return f"**{markdown_text(word.text.strip())}**"
    if isinstance(word, Link):
        # An address has none of the letters that would end it here, but brackets.
        target = word.url.replace("(", "%28").replace(")", "%29").replace("|", "%7C")
        return f"[{markdown_text(word.text)}]({target})"
    return markdown_text(word.text if isinstance(word, Share) else word, starts=starts and not in_table)
