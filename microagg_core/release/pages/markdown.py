"""A document as markdown, which reads as well where nothing renders it."""

from __future__ import annotations

from microagg_core.release.pages.document import (
    Block,
    Bullets,
    Document,
    Link,
    Name,
    Paragraph,
    Rows,
    Share,
    Snippet,
    Strong,
    Text,
    Word,
)
from microagg_core.release.pages.escaping import markdown_code, markdown_text


def markdown_page(document: Document) -> bytes:
    """The whole page."""
    lines = [f"# {markdown_text(document.title)}", "", f"**{markdown_text(document.subtitle)}**", ""]
    for part in document.description:
        lines += [markdown_text(part, starts=True), ""]
    lines += [f"- **{markdown_text(fact.figure)}** {markdown_text(fact.meaning)}" for fact in document.facts]
    lines += ["", *(f"- {markdown_text(word)}: {_text(text)}" for word, text in document.imprint)]
    for section in document.sections:
        lines += ["", f"## {markdown_text(section.title)}"]
        for block in section.blocks:
            lines += ["", *_block(block)]
    return ("\n".join([*lines, "", "---", "", _text(document.footer)]) + "\n").encode()


def _block(block: Block) -> list[str]:
    if isinstance(block, Paragraph):
        return [_text(block.text)]
    if isinstance(block, Bullets):
        return [f"- {_text(item)}" for item in block.items]
    if isinstance(block, Rows):
        return _table(block)
    return _snippet(block)


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
