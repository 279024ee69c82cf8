r"""Released blocking values under ``merge``: text, with a list, or a star, where values were merged.

A value is written as its text with ``\`` and ``|`` escaped by a backslash; a list is the values joined by ``|``; a
missing value is a null on its own and ``\N`` in a list. So a list never looks like a value, ``\N`` never like a
text, and both can be read back: see :func:`parse_label`. Where stars stand for merged values, a value that is one
itself is escaped too.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

_NULL = "\\N"
#: Stands for any value, where labels do not list those that were merged.
ANY = "*"


def escape(value: str) -> str:
    r"""One value's text as it stands in a label.

    >>> escape("a|b"), escape("north")
    ('a\\|b', 'north')
    """
    return value.replace("\\", "\\\\").replace("|", "\\|")


def label_of(values: Sequence[str | None]) -> str | None:
    r"""The label of the values that a stratum holds, given in their sorted order.

    >>> label_of(["east", "west", None]), label_of(["east"]), label_of([None])
    ('east|west|\\N', 'east', None)
    """
    if len(values) == 1:
        return None if values[0] is None else escape(values[0])
    return "|".join(_NULL if value is None else escape(value) for value in values)


def labels_of_values(texts: pa.Array, escape_any: bool = False) -> pa.Array:
    r"""The labels of strata that hold one value each: :func:`label_of` for all values at once.

    ``escape_any``: whether stars stand for other values, so that a value ``*`` has to be told from them.

    >>> labels_of_values(pa.array(["a|b", "north", None, "*"])).to_pylist()
    ['a\\|b', 'north', None, '*']
    >>> labels_of_values(pa.array(["*", "**"]), escape_any=True).to_pylist()
    ['\\*', '**']
    """
    labels = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), "|", "\\|")
    return pc.if_else(pc.equal(labels, ANY), "\\" + ANY, labels) if escape_any else labels


def parse_label(label: str | None) -> list[str | None]:
    r"""The values that a label stands for.

    >>> parse_label("a\\|b|\\N"), parse_label(None), parse_label("")
    (['a|b', None], [None], [''])
    """
    if label is None:
        return [None]
    values: list[str | None] = []
    text: list[str] = []
    is_null = False
    characters = iter(label)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped == "N":
                is_null = True
            else:
                text.append(escaped)
        elif character == "|":
            values.append(None if is_null else "".join(text))
            text, is_null = [], False
        else:
            text.append(character)
    values.append(None if is_null else "".join(text))
    return values
