"""Figures and texts as a person reads them: seconds, bytes, cells of a table."""

from __future__ import annotations

from collections.abc import Sequence

#: Stands where there is no figure. A hyphen alone is a list's bullet where a cell is read as markdown.
NONE = "–"
#: Cells of a page's table do not break lines, so a longer text would be cut off in a narrow window.
_CELL = 72


def duration(seconds: float) -> str:
    """Seconds in words, with as many digits as mean something.

    >>> duration(0.043), duration(7.46), duration(72.6), duration(4000)
    ('0.04 s', '7.5 s', '1 min 13 s', '1 h 6 min')
    """
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def size_in_words(n_bytes: float) -> str:
    """Bytes in the unit that suits.

    >>> size_in_words(2048), size_in_words(123_456_789)
    ('2.0 KiB', '117.7 MiB')
    """
    return f"{n_bytes / 2**20:,.1f} MiB" if n_bytes >= 2**20 else f"{n_bytes / 2**10:.1f} KiB"


def markdown_cell(text: str) -> str:
    """A text that stays in its cell of a table in markdown.

    >>> markdown_cell("a|b")
    'a\\\\|b'
    """
    return _plain(text.replace("|", "\\|").replace("\n", " "))


def _plain(text: str) -> str:
    """A text in which nothing is taken for emphasis or a tag, such as the stars of ``a/*/*.parquet``."""
    return text.replace("*", "\\*").replace("<", "\\<")


def markdown_pairs(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Names and texts in markdown: a table of those that fit into a cell, and a paragraph for each of the others.

    The first pair is the table's head, as a table must have one.

    >>> markdown_pairs([("outcome", "released"), ("stage", "report"), ("note", "a sentence; " * 10)])[:5]
    ['| outcome | released |', '| --- | --- |', '| stage | report |', '', '**note**']
    """
    short = [pair for pair in rows if len(pair[1]) <= _CELL]
    lines = [f"| {markdown_cell(name)} | {markdown_cell(text)} |" for name, text in short]
    lines[1:1] = ["| --- | --- |"] if lines else []
    for name, text in rows:
        if len(text) > _CELL:
            lines += markdown_paragraph(name, text)
    return lines


def markdown_paragraph(name: str, text: str) -> list[str]:
    """A name and a text of any length, as the lines of a paragraph in markdown.

    >>> markdown_paragraph("what to do", "correct a/*.csv")
    ['', '**what to do**', 'correct a/\\\\*.csv']
    """
    return ["", f"**{name}**", _plain(" ".join(text.split()))]
