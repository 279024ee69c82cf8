"""Hashes of the rows of Arrow tables: equal rows give equal hashes, whatever the chunking or the encoding.

Three things stand on them: routing (a blocking key is found by its hash, so labels need not travel), change
detection (the sum over the rows of a part tells whether it is what it was), and the gate's comparison of what
came in with what goes out. All arithmetic is modulo 2^64; a null differs from every value, and a text from the
same bytes split otherwise over two columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Bytes, UInt64s
from microagg_core.data.tables.types import is_text_or_bytes
from microagg_core.kernels.tools.hashing import fold_bytes, fold_words

#: Where a column has no null, nobody needs to be told value by value.
_NO_NULLS = np.empty(0, dtype=np.bool_)
_SALT = 0xA24BAED4963EE407  # odd, so that multiples tell columns apart
_VIEW_OF_WIDTH = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


def hash_rows(columns: Iterable[pa.ChunkedArray | pa.Array], n_rows: int, seed: int) -> UInt64s:
    """Hash each row to 64 bits over the given columns, in their order.

    >>> t = pa.table({"a": ["x", None], "b": [1, 2]})
    >>> h = hash_rows(t.columns, 2, seed=7)
    >>> bool(h[0] == hash_rows(t.slice(0, 1).columns, 1, seed=7)[0]), bool(h[0] == h[1])
    (True, False)
    """
    hashes = np.full(n_rows, np.uint64(seed), dtype=np.uint64)
    for position, column in enumerate(columns):
        _fold(hashes, one_array(column), (position + 1) * _SALT)
    return hashes


def sum_of(hashes: UInt64s) -> int:
    """Add modulo 2^64: the same for the same rows in any order."""
    return int(np.add.reduce(hashes, dtype=np.uint64)) if len(hashes) else 0


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Join a column's chunks into one array."""
    if isinstance(column, pa.ChunkedArray):
        return (
            column.chunk(0)
            if column.num_chunks == 1
            else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
        )
    return column


def nulls_of(array: pa.Array) -> Bools:
    """Find nulls.

    >>> nulls_of(pa.array([1, None, 3])[1:]).tolist()
    [True, False]
    """
    if array.null_count == 0:
        return np.zeros(len(array), dtype=np.bool_)
    bits = array.buffers()[0]
    if bits is None:  # a type that keeps no bits, such as that of nothing but nulls
        return np.asarray(pc.is_null(array))
    nulls: Bools = bits_of(array, 0) == 0
    return nulls


def missing_in(array: pa.Array) -> Bools:
    """Find nulls and NaN.

    >>> missing_in(pa.array([1.5, None, float("nan")])).tolist()
    [False, True, True]
    """
    if not pa.types.is_floating(array.type):
        return nulls_of(array)
    values = _buffer(array, 1, array.type.to_pandas_dtype())[array.offset : array.offset + len(array)]
    missing: Bools = np.isnan(values)
    return missing | nulls_of(array) if array.null_count else missing


def _fold(hashes: UInt64s, array: pa.Array, salt_of_column: int) -> None:
    salt = np.uint64(salt_of_column % 2**64)
    valid = _NO_NULLS if array.null_count == 0 else ~nulls_of(array)
    kind = array.type
    if not len(array):  # nor need it have buffers
        return
    if pa.types.is_null(kind):
        fold_words(hashes, np.zeros(len(array), dtype=np.uint64), valid, salt)
    elif pa.types.is_decimal128(kind):
        halves = _buffer(array, 1, np.uint64).reshape(-1, 2)[array.offset : array.offset + len(array)]
        for half in range(2):
            fold_words(hashes, np.ascontiguousarray(halves[:, half]), valid, np.uint64(salt_of_column % 2**63 + half))
    elif pa.types.is_boolean(kind):
        fold_words(hashes, bits_of(array, 1).astype(np.uint64), valid, salt)
    elif is_text_or_bytes(kind):
        wide = pc.cast(array, pa.large_binary())
        offsets = _buffer(wide, 1, np.int64)[wide.offset : wide.offset + len(wide) + 1]
        fold_bytes(hashes, offsets, _buffer(wide, 2, np.uint8), valid, salt)
    else:
        fold_words(hashes, fixed_width_words(array), valid, salt)


def fixed_width_words(array: pa.Array) -> UInt64s:
    """The bits of a fixed-width column as 64-bit words; whatever lies under a null is left as it is."""
    view = _VIEW_OF_WIDTH[array.type.bit_width]
    words = _buffer(array, 1, np.dtype(view.to_pandas_dtype()))[array.offset : array.offset + len(array)]
    return words.astype(np.uint64)


def bits_of(array: pa.Array, index: int) -> Bytes:
    """Unpack Arrow's bits at once; NumPy alone would make booleans one by one."""
    first = array.offset % 8
    of_bytes = _buffer(array, index, np.uint8)[array.offset // 8 :]
    return np.unpackbits(of_bytes, count=first + len(array), bitorder="little")[first:]


def _buffer(array: pa.Array, index: int, dtype: Any) -> NDArray[Any]:
    buffer = array.buffers()[index]
    if buffer is None or buffer.size == 0:
        # An empty column may have no buffer; offsets of nothing are a single zero.
        return np.zeros(1 if index == 1 else 0, dtype=dtype)
    width = np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype=dtype, count=buffer.size // width)
