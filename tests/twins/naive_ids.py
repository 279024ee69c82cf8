"""The slow, readable twin of the normal form of ids, value by value, with Python's own knowledge of Unicode."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

#: What Unicode lists as Default_Ignorable_Code_Point beyond the categories Cf and Cc.
IGNORABLE = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff"
)
SPACES = "\t\n\x0b\x0c\r\x85"


def is_seen(letter: str) -> bool:
    is_control = unicodedata.category(letter) in ("Cf", "Cc") and letter not in SPACES
    return not is_control and not re.match(f"[{IGNORABLE}]", letter)


def normal_form(value: object) -> str | bytes | None:
    """The text that all forms of one id have in common; None for what names nobody, bytes for what is no text."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return value
    if value is None or value != value:
        return None
    if isinstance(value, float):
        value = int(value) if value == int(value) else format(Decimal(repr(value)), "f")
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", str(value)).casefold())
    seen = unicodedata.normalize("NFKC", "".join(filter(is_seen, folded)))
    spaced = " ".join(seen.split())
    number = re.fullmatch(r"(?:\+|(-?))0*([0-9]+)(?:\.([0-9]*?)0*)?", spaced)
    if number is None:
        return spaced
    sign, whole, fraction = number.groups()
    return (sign or "") + whole + (f".{fraction}" if fraction else "")
