"""Texts of others, made harmless where they are going: names of columns may hold anything."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

#: Marks that turn the direction of what follows: in the middle of a name they make a line read as another.
_TURNS = {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)}
_LINE_ENDS = {"\u2028", "\u2029", "\u0085"}
#: Of ASCII, what markdown takes for more than a letter, within a line.
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&#$!^])")
#: And at the beginning of one: a list, or a line under a heading.
_MARKDOWN_START = re.compile(r"^\s*(?:[-+=]|\d{1,9}[.)](?=\s|$))")


def _is_seen(mark: str) -> bool:
    if mark in _TURNS or mark in _LINE_ENDS or ord(mark) & 0xFFFE == 0xFFFE:
        return False
    return unicodedata.category(mark) not in ("Cc", "Cs")


def visible(text: str) -> str:
    r"""Put a text on one line, with its invisible characters written out; XML can hold every other.

    >>> visible("a\nb\u202ec"), visible("naïve 😀")
    ('a\\nb\\u202ec', 'naïve 😀')
    """
    return "".join(mark if _is_seen(mark) else _written_out(mark) for mark in text)


def _written_out(mark: str) -> str:
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(mark)
    return named or (f"\\u{ord(mark):04x}" if ord(mark) < 0x10000 else f"\\U{ord(mark):08x}")


def paragraphs(text: str) -> tuple[str, ...]:
    r"""Split a text at blank lines, each paragraph on one line.

    >>> paragraphs("one\nline\n\nand another")
    ('one line', 'and another')
    """
    return tuple(visible(" ".join(part.split())) for part in re.split(r"\n\s*\n", text) if part.strip())


def markdown_text(text: str, *, starts: bool = False) -> str:
    r"""Escape a text for markdown, within a table or outside; one that ``starts`` a line makes no list of it.

    >>> print(markdown_text("<b> a|b *c*"), markdown_text("- 1", starts=True), markdown_text("1. a", starts=True))
    \<b\> a\|b \*c\* \- 1 1\. a
    """
    shown = visible(text)
    escaped = _MARKDOWN.sub(r"\\\1", shown)
    if starts and (start := _MARKDOWN_START.match(shown)):
        # None of these marks is one that is escaped everywhere, so both texts begin alike.
        return f"{escaped[: start.end() - 1]}\\{escaped[start.end() - 1 :]}"
    return escaped


def markdown_code(text: str, *, in_table: bool) -> str:
    """Quote a text letter by letter, in more backticks than it has.

    >>> print(markdown_code("a`b", in_table=False), markdown_code("a|b", in_table=True))
    `` a`b `` `a\\|b`
    """
    shown = visible(text)
    if in_table:
        # A table takes the bar for its own, code or not; and one backslash from before it.
        shown = shown.replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    pad = " " if "`" in shown or shown[:1] + shown[-1:] == "  " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def sql_text(text: str) -> str:
    """Quote a text for SQL.

    >>> print(sql_text("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """Quote a name for SQL, to the letter.

    >>> print(sql_name('a "b"'))
    "a ""b\"""
    """
    return '"' + name.replace('"', '""') + '"'


def json_bytes(value: Any) -> bytes:
    r"""Write JSON that people may read: in the order given, letters as they are, nothing invisible.

    >>> json_bytes({"b": "naïve", "a": "\u202e"}).decode()
    '{\n "b": "naïve",\n "a": "\\u202e"\n}\n'
    """
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    # Whatever is invisible stands within a text, where JSON may have it written out; line ends of its own stay.
    return ("".join(mark if mark == "\n" or _is_seen(mark) else f"\\u{ord(mark):04x}" for mark in text) + "\n").encode()
