"""Write figures and texts as a person reads them: seconds, bytes, shares, cells of a table."""

from __future__ import annotations

from collections.abc import Sequence

#: Stands where there is no figure. A hyphen alone is a list's bullet where a cell is read as markdown.
NONE = "–"
#: Cells of a page's table do not break lines, so a longer text would be cut off in a narrow window.
_CELL = 72


def duration(seconds: float) -> str:
    """Write seconds in words, with as many digits as mean something.

    >>> duration(0.043), duration(7.46), duration(72.6), duration(4000)
    ('0.04 s', '7.5 s', '1 min 13 s', '1 h 6 min')
    """
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def percent_in_words(part: float | None) -> str:
    """Write a share in percent, as a person reads it.

    >>> percent_in_words(0.31649), percent_in_words(0.0), percent_in_words(0.00000123), percent_in_words(1.0)
    ('31.6 %', '0 %', 'less than 0.001 %', '100 %')
    """
    if part is None:
        return NONE
    if 0 < part < 1e-5:
        return "less than 0.001 %"
    percent = 100 * part
    digits = f"{percent:.1f}" if percent >= 1 else f"{percent:.2g}"
    whole, _, rest = digits.partition(".")
    return f"{whole} %" if not rest.strip("0") else f"{digits} %"


def size_in_words(n_bytes: float) -> str:
    """Write bytes in the unit that suits.

    >>> size_in_words(2048), size_in_words(123_456_789), size_in_words(4e11)
    ('2.0 KiB', '117.7 MiB', '372.5 GiB')
    """
    units = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20))
    unit, size = next(((unit, size) for unit, size in units if n_bytes >= size), ("KiB", 2**10))
    return f"{n_bytes / size:,.1f} {unit}"


def capital(text: str) -> str:
    """Begin a sentence with a capital letter, and leave the rest as it is."""
    return text[:1].upper() + text[1:]


def markdown_cell(text: str) -> str:
    """Escape a text so that it stays in its cell of a markdown table.

    >>> markdown_cell("a|b")
    'a\\\\|b'
    """
    return _plain(text.replace("|", "\\|").replace("\n", " "))


def _plain(text: str) -> str:
    """Escape what markdown takes for emphasis or a tag, such as the stars of ``a/*/*.parquet``."""
    return text.replace("*", "\\*").replace("<", "\\<")


def markdown_pairs(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Write names and texts in markdown: a table of those that fit into a cell, and a paragraph for each other.

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


def markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Write a table of figures in markdown, its header first, after a blank line; none where there is but the header.

    >>> markdown_table([("x", "L_SSE"), ("a|b", "1 %")])
    ['', '| x | L_SSE |', '| --- | ---: |', '| a\\\\|b | 1 % |']
    """
    if len(rows) < 2:
        return []
    header, *others = ("|" + "".join(f" {markdown_cell(cell)} |".replace("  ", " ") for cell in row) for row in rows)
    return ["", header, "| --- |" + " ---: |" * (len(rows[0]) - 1), *others]


def markdown_paragraph(name: str, text: str) -> list[str]:
    """Write a name and a text of any length as a markdown paragraph, line by line.

    >>> markdown_paragraph("what to do", "correct a/*.csv")
    ['', '**what to do**', 'correct a/\\\\*.csv']
    """
    return ["", f"**{name}**", _plain(" ".join(text.split()))]
