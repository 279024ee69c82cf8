"""The normal form of ids: one text for ``P1``, ``p1`` and ``P1 ``, and for ``7``, ``07`` and ``7.0``.

Texts, and bytes that are UTF-8, are compared after Unicode's compatibility normal form, without regard to case, without
characters that nobody sees, with no outer space and one space for any inner one; numbers by their value, whatever their
type, and as text without leading zeros, plus sign or zeros behind the point.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bytes, Ints
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.types import is_text_or_bytes

_NUMBER = r"^\+?(-?)0*(\d+)(?:\.0*|(\.\d*?[1-9])0*)?$"
#: Characters that nobody sees: of the categories Cc, but for those that are spaces, and Cf, and Default_Ignorable.
_UNSEEN = (
    r"[\x00-\x08\x0e-\x1f\x7f-\x{84}\x{86}-\x{9f}\p{Cf}\x{34f}\x{115f}\x{1160}\x{17b4}\x{17b5}\x{180b}-\x{180f}\x{2065}"
    r"\x{3164}\x{fe00}-\x{fe0f}\x{ffa0}\x{fff0}-\x{fff8}\x{e0000}-\x{e0fff}]"
)
_SPACES = r"[\s\x0b\x{85}\p{Z}]+"
#: Of texts that are in compatibility form: more than single spaces. To look first halves the time of names.
_ODD_SPACES = r"[\t-\r\x{85}\x{1680}\x{2028}\x{2029}]|  "
#: What lower case leaves that case folding does not.
_FOLDED = {"ß": "ss", "ς": "σ", "i̇": "i"}
#: The first byte that tells of more than letters and signs of ASCII: that of DEL.
_FIRST_BEYOND_ASCII = 127
_BEYOND_INT64 = 2.0**63


def in_normal_form(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Write texts, bytes and numbers with fractions in normal form; whole numbers and other types stay.

    Bytes that are no UTF-8 stay as they are, and NaN is null.

    >>> in_normal_form(pa.array(["P1", "p1 ", " Ｐ1", "7", "07", "+7.0", "-0.50"])).to_pylist()
    ['p1', 'p1', 'p1', '7', '7', '7', '-0.5']
    >>> in_normal_form(pa.array(["Straße  1", "STRASSE 1"])).to_pylist()
    ['strasse 1', 'strasse 1']
    >>> in_normal_form(pa.array([1e10, 0.5, float("nan")])).to_pylist()
    ['10000000000', '0.5', None]
    """
    array = one_array(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_floating(array.type) or pa.types.is_decimal(array.type):
        array = _number_texts(array)
    return _text_in_normal_form(array) if is_text_or_bytes(array.type) else array


def _text_in_normal_form(array: pa.Array) -> pa.Array:
    texts = pc.cast(array, pa.large_binary()).view(pa.large_string())
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if offsets[0] == offsets[-1]:
        return texts
    letters = np.frombuffer(texts.buffers()[2], dtype=np.uint8)
    used = letters[offsets[0] : offsets[-1]]
    is_wide = bool((used >= _FIRST_BEYOND_ASCII).any())
    try:
        folded = _folded(texts) if is_wide else pc.ascii_lower(texts)
    except pa.ArrowInvalid:
        return _of_utf8_alone(texts)
    spaced = _one_spaced(folded) if is_wide or (used <= ord(" ")).any() else folded
    return _plain_numbers(spaced, letters, offsets)


def _number_texts(array: pa.Array) -> pa.Array:
    """Write numbers with all their digits: 10000000000 where Arrow writes 1e+10."""
    if pa.types.is_floating(array.type):
        array = pc.cast(array, pa.float32()) if pa.types.is_float16(array.type) else array
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
        is_whole = pc.and_(pc.equal(pc.floor(array), array), pc.less(pc.abs(array), _BEYOND_INT64))
        whole = pc.cast(pc.if_else(is_whole, array, pa.scalar(0, array.type)), pa.int64())
        texts = pc.if_else(is_whole, pc.cast(whole, pa.large_string()), pc.cast(array, pa.large_string()))
    else:
        texts = pc.cast(array, pa.large_string())
    is_short = pc.match_substring_regex(texts, r"[eE][-+]?\d")
    if not pc.any(is_short).as_py():
        return texts
    digits = [format(Decimal(text), "f") for text in texts.filter(is_short).to_pylist()]
    if pa.types.is_floating(array.type):  # of which the digits that Arrow writes are not all
        digits = [str(int(float(text))) if abs(float(text)) >= _BEYOND_INT64 else text for text in digits]
    return pc.replace_with_mask(texts, pc.fill_null(is_short, False), pa.array(digits, texts.type))


def _of_utf8_alone(texts: pa.Array) -> pa.Array:
    """Keep the values that are UTF-8 in normal form, as bytes: what a batch holds besides must not matter."""
    whole = pc.cast(texts, pa.large_binary())
    is_text = pa.array([value is not None and _is_utf8(value) for value in whole.to_pylist()], pa.bool_())
    normal = _text_in_normal_form(whole.filter(is_text))
    return pc.replace_with_mask(whole, is_text, pc.cast(normal, pa.large_binary()))


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _folded(texts: pa.Array) -> pa.Array:
    texts.validate(full=True)
    folded = pc.utf8_lower(pc.utf8_normalize(texts, form="NFKC"))
    for letter, instead in _FOLDED.items():
        folded = pc.replace_substring(folded, letter, instead)
    return folded


def _one_spaced(texts: pa.Array) -> pa.Array:
    seen = pc.replace_substring_regex(texts, _UNSEEN, "")
    seen = texts if seen.equals(texts) else pc.utf8_normalize(seen, form="NFKC")
    if pc.any(pc.match_substring_regex(seen, _ODD_SPACES)).as_py():
        seen = pc.replace_substring_regex(seen, _SPACES, " ")
    return pc.utf8_trim(seen, characters=" ")


def _plain_numbers(texts: pa.Array, letters: Bytes, offsets: Ints) -> pa.Array:
    """Spell numbers in one way; ``letters`` and ``offsets`` tell cheaply that there is none in another."""
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
    is_other = pc.fill_null(pc.and_(pc.invert(whole), pc.match_substring_regex(texts, r"^[+-]?\d+(\.\d*)?$")), False)
    others = pc.replace_substring_regex(plain.filter(is_other), _NUMBER, r"\1\2\3")
    return pc.replace_with_mask(plain, is_other, others)
