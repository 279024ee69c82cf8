"""In which encoding a file of text is: UTF-8 is proved by decoding it, anything else is judged and said to be."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from charset_normalizer import from_bytes

from microagg_core.errors import DataError

#: Of a larger file so much is decoded: an hour at a slow store would tell little more.
CHECKED_BYTES = 256 * 2**20
_BLOCK_BYTES = 4 * 2**20
#: Marks that some write first; UTF-32's begins like UTF-16's. The reader takes UTF-8 with its mark and without.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
#: A text of western languages in UTF-16 has a zero in nearly every second byte.
_ZEROS_OF_UTF16 = 0.4
#: What is not ASCII in western Europe's texts: where it makes up nearly all, cp1252 was right.
_WESTERN = frozenset(
    "äöüÄÖÜßéèêëÉÈÊËàáâãåæÀÁÂÃÅÆçÇíìîïÍÌÎÏñÑóòôõøÓÒÔÕØúùûÚÙÛýÿœŒžŽšŠ€£°§²³µ·«»’‘“”„–…¡¿ªº\xa0´`¨ðÐþÞ®©½¼¾"
)
_NEARLY_ALL = 0.95
#: Bytes of lines with other characters than ASCII that are enough to judge an encoding by.
_TELLING_BYTES = 2**16
_JUDGED = "it is not UTF-8, and its characters are those of {name}: see whether names and accents look right"


@dataclass(frozen=True)
class TextEncoding:
    """The name of an encoding, and why it was chosen where that is a judgement."""

    name: str
    reason: str = ""


def encoding_of(text: BinaryIO, place: str) -> TextEncoding:
    """The encoding of an unpacked file, read from its start.

    Raises:
        DataError: the file is binary, UTF-8 but for some lines, or in no encoding that can be told.
    """
    first = text.read(_BLOCK_BYTES)
    for mark, name in _BYTE_ORDER_MARKS.items():
        if first.startswith(mark):
            _refuse_undecodable(_blocks(first, text), name, place)
            return TextEncoding(name)
    if unmarked := _utf_16_without_mark(first):
        _refuse_undecodable(_blocks(first, text), unmarked, place)
        return TextEncoding(unmarked, "it has no mark of its encoding, and every second byte is zero")
    if b"\0" in first:
        raise DataError(f"{place} holds bytes that no text has, so it is no CSV; check what kind of file it is")
    errors = _errors_as_utf_8(_blocks(first, text))
    if not errors.n_bad:
        return TextEncoding("utf-8")
    if errors.n_other > errors.n_bad:
        raise DataError(
            f"{place}:{errors.first_line}: the text is UTF-8 elsewhere and not in this line; correct it, or say "
            "--encoding"
        )
    return _judged(errors.telling, place)


def _utf_16_without_mark(first: bytes) -> str | None:
    half = max(1, len(first) // 2)
    even, odd = first[::2].count(0) / half, first[1::2].count(0) / half
    if max(even, odd) > _ZEROS_OF_UTF16 > 10 * min(even, odd):
        return "utf-16-le" if odd > even else "utf-16-be"
    return None


def _blocks(first: bytes, text: BinaryIO) -> Iterator[bytes]:
    n = 0
    while first and n < CHECKED_BYTES:
        yield first
        n += len(first)
        first = text.read(_BLOCK_BYTES)


def _refuse_undecodable(blocks: Iterator[bytes], name: str, place: str) -> None:
    decoder, line, n = codecs.getincrementaldecoder(name)(), 1, 0
    try:
        for block in blocks:
            line, n = line + decoder.decode(block).count("\n"), n + len(block)
        decoder.decode(b"", final=n < CHECKED_BYTES)
    except UnicodeError:
        raise DataError(
            f"{place}: its first bytes say {name}, which it is not from about line {line} on; write it again as UTF-8"
        ) from None


@dataclass
class _Errors:
    """Bytes that keep a file from being UTF-8."""

    n_bad: int = 0
    #: Characters beside ASCII that are right.
    n_other: int = 0
    first_line: int = 0
    #: Lines that hold bytes beside ASCII, as they are.
    telling: bytes = b""


def _errors_as_utf_8(blocks: Iterator[bytes]) -> _Errors:
    errors, line = _Errors(), 1
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for block in blocks:
        text = decoder.decode(block)
        n_bad = text.count("\ufffd")
        if n_bad and not errors.n_bad:
            errors.first_line = line + text[: text.index("\ufffd")].count("\n")
        errors.n_bad += n_bad
        errors.n_other += len(text) - len(text.encode("ascii", "ignore")) - n_bad
        if not block.isascii() and len(errors.telling) < _TELLING_BYTES:
            errors.telling += b"\n".join(one for one in block.split(b"\n") if not one.isascii())[:_TELLING_BYTES]
        line += text.count("\n")
    return errors


def _judged(telling: bytes, place: str) -> TextEncoding:
    western = telling.decode("cp1252", "replace")
    others = [character for character in western if not character.isascii()]
    if sum(character in _WESTERN for character in others) >= _NEARLY_ALL * len(others):
        return TextEncoding("cp1252", _JUDGED.format(name="cp1252"))
    best = from_bytes(telling).best()
    if best is None or best.coherence == 0:
        raise DataError(f"{place} is not UTF-8, and its encoding cannot be told; say --encoding, or write it as UTF-8")
    return TextEncoding(best.encoding, _JUDGED.format(name=best.encoding))
