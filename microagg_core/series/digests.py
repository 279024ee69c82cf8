"""Keyed digests: a series remembers units, classes and values by these alone, never by what they are.

Units are digested with HMAC-SHA256, as an id can be guessed and tried; classes, rows and values with hashes whose
seeds come from the key. A digest of more than 64 bits is a row of two words, called a pair."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from microagg_core.arrays import Ints, Pairs, UInt64s
from microagg_core.data.tables.hashing import hash_rows, one_array
from microagg_core.data.tables.spelling import in_normal_form
from microagg_core.data.tables.types import is_text, is_text_or_bytes
from microagg_core.errors import DataError

#: How ids are compared: in normal form; where their spelling is acknowledged to tell units apart, numbers alone so; or
#: as their text, which is how ledgers began before there was a normal form.
UnitForm: TypeAlias = Literal["normal", "spelled", "text"]
_TEXT = pa.large_string()
#: Bits of the second word of a unit's digest. With 80 bits two of 100 million units meet in one of 240 million series,
#: and every bit is written, read and carried between tasks for every unit, every night.
_UNIT_BITS = 16
#: The same of a class, of which there are fewer: what is grouped alike must never be taken for one.
_CLASS_BITS = 32


@dataclass(frozen=True)
class SeriesKey:
    """The secret of a series; it shows in no repr and no message.

    >>> key = SeriesKey(b"sixteen bytes or more")
    >>> key, key.fingerprint, key.seed("row") == key.seed("row"), key.seed("row") == key.seed("value")
    (SeriesKey(), '103df0172b62fe2d', True, False)
    """

    secret: bytes = field(repr=False)

    def seed(self, purpose: str) -> int:
        return int.from_bytes(self.derived(f"seed {purpose}")[:8], "big") >> 2

    def derived(self, purpose: str) -> bytes:
        """Derive a key for one purpose, from which neither the secret nor another purpose's key can be computed."""
        return hmac.digest(self.secret, f"microagg series: {purpose}".encode(), "sha256")

    @property
    def fingerprint(self) -> str:
        """16 hex digits that tell two keys apart and reveal nothing of them."""
        return self.derived("fingerprint")[:8].hex()


def units_of(
    columns: Sequence[pa.ChunkedArray | pa.Array], key: SeriesKey, form: UnitForm = "normal", of: str = "unit"
) -> Pairs:
    """Digest every row's unit, which the columns name together: in normal form 12, 12.0 and "012" are one unit.

    >>> units_of([pa.array([12, 13])], key := SeriesKey(b"0123456789abcdef")).shape
    (2, 2)
    >>> bool((units_of([pa.array([12])], key) == units_of([pa.array(["012"])], key)).all())
    True
    """
    texts = [_text(one_array(column), form) for column in columns]
    nameless = reduce(pc.or_, map(_is_nothing, texts))
    if n_nameless := pc.sum(nameless).as_py():
        raise DataError(f"{n_nameless} record(s) name no {of}; fill in the column(s) that name it, or leave them out")
    parts = [pc.cast(text, pa.large_binary()).to_pylist() for text in texts]
    messages = (b"".join([b"%d:%b" % (len(part), part) for part in unit]) for unit in zip(*parts, strict=True))
    digests = b"".join(_authenticated(messages, key.derived(of)))
    units = np.frombuffer(digests, dtype=">u8").reshape(-1, 4)[:, :2].astype(np.uint64)
    units[:, 1] >>= np.uint64(64 - _UNIT_BITS)
    return units


#: Bits of a row within the digest of a row of a unit of several; before them stand the unit's.
_ROW_BITS = np.uint64(48)


def rows_of_units(units: Pairs, rows: UInt64s) -> Pairs:
    """Digest rows of units of several, by the digest of the unit and a word of the row's own.

    >>> units_alone(rows_of_units(np.array([[7, 3]], np.uint64), np.array([2**63], np.uint64))).tolist()
    [[7, 3]]
    """
    return np.column_stack([units[:, 0], units[:, 1] << _ROW_BITS | rows >> np.uint64(64) - _ROW_BITS])


def units_alone(rows: Pairs) -> Pairs:
    """Find the unit of each row that :func:`rows_of_units` digested."""
    return np.column_stack([rows[:, 0], rows[:, 1] >> _ROW_BITS])


def places_of_units(ids: Sequence[pa.Array], n_places: int, form: UnitForm) -> Ints:
    """Assign units to places by their ids alone: the same ones in every run, whatever its key."""
    hashes = hash_rows([_text(column, form) for column in ids], len(ids[0]), seed=0)
    return (hashes % np.uint64(n_places)).astype(np.int64)


def classes_of(table: pa.Table, names: Sequence[str], key: SeriesKey) -> Pairs:
    """Digest every row's class: its values in the named columns, as a released file is read back."""
    columns = [table[name] for name in names]
    classes = np.column_stack([hash_rows(columns, table.num_rows, key.seed(f"class {half}")) for half in range(2)])
    classes[:, 1] >>= np.uint64(64 - _CLASS_BITS)
    return classes


def rows_of(table: pa.Table, names: Sequence[str], key: SeriesKey) -> UInt64s:
    return hash_rows([table[name] for name in names], table.num_rows, key.seed("row"))


def values_of(column: pa.ChunkedArray | pa.Array, key: SeriesKey) -> NDArray[np.uint32]:
    """Digest a column's values in 32 bits: one change in four thousand million goes unseen."""
    return (hash_rows([column], len(column), key.seed("value")) >> np.uint64(32)).astype(np.uint32)


def numbered_rows(rows: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """Number each row of whole numbers among the distinct ones, which are returned in ascending order.

    >>> numbers, distinct = numbered_rows(np.array([[7, 1], [5, 2], [7, 1]], dtype=np.uint64))
    >>> numbers.tolist(), distinct.tolist()
    ([1, 0, 1], [[5, 2], [7, 1]])
    """
    order = np.lexsort(rows.T[::-1])
    in_order = rows[order]
    first = np.ones(len(rows), dtype=np.bool_)
    first[1:] = (in_order[1:] != in_order[:-1]).any(axis=1)
    numbers = np.empty(len(rows), dtype=np.int64)
    numbers[order] = np.cumsum(first) - 1
    return numbers, in_order[first]


def _text(array: pa.Array, form: UnitForm) -> pa.Array:
    """Cast a column to text: one value has one text, whatever the width of its type; NaN is no value."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if form == "normal" or (form == "spelled" and not is_text_or_bytes(array.type)):
        array = in_normal_form(array)
    kind = array.type
    if pa.types.is_decimal(kind) and kind.scale > 0:
        return pc.utf8_rtrim(pc.utf8_rtrim(pc.cast(array, _TEXT), characters="0"), characters=".")
    if pa.types.is_floating(kind):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, kind), array)
    return array if is_text_or_bytes(kind) else pc.cast(array, _TEXT)


def _is_nothing(texts: pa.Array) -> pa.Array:
    """Mark missing ids and those of spaces alone: in CSV two missing ids would else be one unit that repeats."""
    trimmed = pc.ascii_trim_whitespace(texts) if is_text(texts.type) else texts
    return pc.fill_null(pc.equal(pc.binary_length(trimmed), 0), True)


def _authenticated(messages: Iterable[bytes], key: bytes) -> Iterator[bytes]:
    """Compute HMAC-SHA256 of each message; the two states that depend on the key alone are made once."""
    padded = key.ljust(hashlib.sha256().block_size, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded))
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in padded))
    for message in messages:
        inside = inner.copy()
        inside.update(message)
        around = outer.copy()
        around.update(inside.digest())
        yield around.digest()


def positions_in(wanted: Pairs, among: Pairs) -> Ints:
    """Find each wanted pair's row among distinct others; -1 where it has none.

    >>> among = np.array([[5, 1], [2, 7]], dtype=np.uint64)
    >>> positions_in(np.array([[2, 7], [5, 2], [2, 7]], dtype=np.uint64), among).tolist()
    [1, -1, 1]
    """
    n = len(among)
    both = np.concatenate([among, wanted])
    order = np.lexsort((np.arange(len(both)) >= n, both[:, 1], both[:, 0]))
    ordered = both[order]
    starts = np.ones(len(both), dtype=np.bool_)
    starts[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    first = order[np.maximum.accumulate(np.where(starts, np.arange(len(both)), 0))] if len(both) else order
    position = np.empty(len(both), dtype=np.int64)
    position[order] = np.where(first < n, first, -1)
    return position[n:]


def positions_of_numbers(wanted: NDArray[Any], among: NDArray[Any]) -> Ints:
    """Find each wanted number's place among distinct others; -1 where it has none.

    >>> positions_of_numbers(np.array([7, 2]), np.array([5, 2])).tolist()
    [-1, 1]
    """
    wide, other = (np.column_stack([numbers, np.zeros_like(numbers)]).astype(np.uint64) for numbers in (wanted, among))
    return positions_in(wide, other)


def pairs_of(table: pa.Table, name: str) -> Pairs:
    return np.column_stack([np.asarray(table[f"{name}0"]), np.asarray(table[f"{name}1"])])


def as_columns(pairs: Pairs, name: str) -> dict[str, pa.Array]:
    return {f"{name}{i}": pa.array(np.ascontiguousarray(pairs[:, i])) for i in range(2)}


#: The class of who is not released.
ABSENT: Pairs = np.zeros((1, 2), dtype=np.uint64)
