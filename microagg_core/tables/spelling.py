"""The normal form of ids: one text for ``P1``, ``p1`` and ``P1 ``, and for ``7``, ``07`` and ``7.0``.

Texts are compared after Unicode's compatibility normal form, without regard to case, with no outer space and one space
for any inner one; numbers without leading zeros, plus sign or zeros behind the point.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bytes, Ints
from microagg_core.tables.hashing import one_array

_NUMBER = r"^\+?(-?)0*(\d+)(?:\.0*|(\.\d*?[1-9])0*)?$"
#: Characters that nobody sees.
_UNSEEN = "[\u00ad\u200b-\u200d\u2060\ufeff]"
_SPACES = r"[\s\p{Z}]+"
#: What lower case leaves that case folding does not.
_FOLDED = {"ß": "ss", "ς": "σ", "i̇": "i"}
_FIRST_BEYOND_ASCII = 128


def has_spellings(kind: pa.DataType) -> bool:
    """Whether values of this type may be one id in several spellings; numbers have one each.

    >>> has_spellings(pa.string()), has_spellings(pa.int64())
    (True, False)
    """
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def in_normal_form(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Texts in normal form; values of other types, and texts that are not UTF-8, as they are.

    >>> in_normal_form(pa.array(["P1", "p1 ", " Ｐ1", "7", "07", "+7.0", "-0.50"])).to_pylist()
    ['p1', 'p1', 'p1', '7', '7', '7', '-0.5']
    >>> in_normal_form(pa.array(["Straße  1", "STRASSE 1"])).to_pylist()
    ['strasse 1', 'strasse 1']
    """
    array = one_array(column)
    if not has_spellings(array.type):
        return array
    texts = pc.cast(array, pa.large_string())
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if offsets[0] == offsets[-1]:
        return texts
    letters = np.frombuffer(texts.buffers()[2], dtype=np.uint8)
    used = letters[offsets[0] : offsets[-1]]
    is_wide = bool((used >= _FIRST_BEYOND_ASCII).any())
    try:
        folded = _folded(texts) if is_wide else pc.ascii_lower(texts)
        spaced = _one_spaced(folded) if is_wide or (used <= ord(" ")).any() else folded
        return _plain_numbers(spaced, letters, offsets)
    except pa.ArrowInvalid:  # not UTF-8
        return texts


def _folded(texts: pa.Array) -> pa.Array:
    texts.validate(full=True)
    folded = pc.utf8_lower(pc.utf8_normalize(texts, form="NFKC"))
    for letter, instead in _FOLDED.items():
        folded = pc.replace_substring(folded, letter, instead)
    return pc.utf8_normalize(pc.replace_substring_regex(folded, _UNSEEN, ""), form="NFKC")


def _one_spaced(texts: pa.Array) -> pa.Array:
    return pc.utf8_trim(pc.replace_substring_regex(texts, _SPACES, " "), characters=" ")


def _plain_numbers(texts: pa.Array, letters: Bytes, offsets: Ints) -> pa.Array:
    """Numbers in one spelling; ``letters`` and ``offsets`` tell cheaply that there is none with another."""
    first = letters[np.minimum(offsets[:-1], len(letters) - 1)]
    used = letters[offsets[0] : offsets[-1]]
    if (
        not ((first == ord("0")) | (first == ord("+")) | (first == ord("-"))).any()
        and not ((used == ord(".")) | (used <= ord(" ")) | (used >= _FIRST_BEYOND_ASCII)).any()
    ):
        return texts
    whole = pc.ascii_is_decimal(texts)
    trimmed = pc.ascii_ltrim(texts, characters="0")
    trimmed = pc.if_else(pc.equal(pc.binary_length(trimmed), 0), pa.scalar("0", texts.type), trimmed)
    plain = pc.if_else(whole, trimmed, texts)
    others = pc.invert(whole)
    if not pc.any(pc.and_(others, pc.match_substring_regex(texts, r"^[+-]?\d"))).as_py():
        return plain
    return pc.if_else(whole, plain, pc.replace_substring_regex(plain, _NUMBER, r"\1\2\3"))
