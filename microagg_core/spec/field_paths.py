"""Where something stands in a spec, and how that is written in a message."""

from __future__ import annotations

#: The way to a field: keys, and numbers for the items of lists.
Loc = tuple[str | int, ...]
_LONGEST = 80


def dotted(loc: Loc) -> str:
    """The way to a field as one line of text.

    >>> dotted(("roles", "confidential", 2))
    'roles.confidential[2]'
    """
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + _one_line(part)
    return text


def _one_line(key: str) -> str:
    if not key:
        return "''"
    shown = key if key.isprintable() else repr(key)[1:-1]
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "..."
