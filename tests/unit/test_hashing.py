"""Hashes of rows: equal for equal rows whatever their encoding, different otherwise."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from covering import each
from microagg_core.data.tables.hashing import hash_rows, missing_in, nulls_of, sum_of
from microagg_core.kernels.tools.hashing import mix

MASK = 2**64 - 1
K1, K2, K3, NULL = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93


def naive_mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * K2) & MASK
    x = ((x ^ (x >> 27)) * K3) & MASK
    return x ^ (x >> 31)


def naive_text_hash(seed: int, salt: int, text: str | None) -> int:
    """The slow twin of the kernel for text columns."""
    if text is None:
        return naive_mix(naive_mix((seed + salt + 2 * K1) & MASK) ^ naive_mix((NULL + K1) & MASK))
    data = text.encode()
    h = naive_mix((seed + salt + K1) & MASK) ^ len(data)
    whole = len(data) // 8 * 8
    for i in range(0, whole, 8):
        h = (naive_mix(h ^ naive_mix((int.from_bytes(data[i : i + 8], "little") + K1) & MASK)) + K3) & MASK
    return naive_mix(h ^ naive_mix((int.from_bytes(data[whole:], "little") + K2) & MASK))


def test_mix_is_its_twin() -> None:
    for x in [0, 1, 2**63, MASK, 12345678901234567890]:
        assert int(mix(np.uint64(x))) == naive_mix(x)


def test_text_is_hashed_as_its_twin_does() -> None:
    texts = [None, "", "a", "01", "1", "12345678", "123456789", "ü" * 20, "a\x00", "a"]
    found = hash_rows([pa.array(texts)], len(texts), seed=3)
    assert [int(h) for h in found] == [naive_text_hash(3, 0xA24BAED4963EE407, t) for t in texts]


COLUMNS = {
    "int8": pa.array([1, -1, None, 5, 127], pa.int8()),
    "int64": pa.array([2**53, 2**53 + 1, None, -1, 0], pa.int64()),
    "uint64": pa.array([2**64 - 1, 0, None, 1, 2], pa.uint64()),
    "bool": pa.array([True, False, None, True, False]),
    "float": pa.array([0.0, -0.0, None, float("nan"), 1e300]),
    "float32": pa.array([0.5, 1.5, None, 2.5, -1], pa.float32()),
    "text": pa.array(["", "a", None, "01", "1"]),
    "large text": pa.array(["", "a", None, "01", "1"], pa.large_string()),
    "bytes": pa.array([b"", b"\xff", None, b"\x00", b"x"]),
    "date": pa.array([datetime.date(1970, 1, 1), datetime.date(2000, 1, 1), None, None, datetime.date(1, 1, 1)]),
    "timestamp": pa.array([1, 2, None, 3, -9], pa.timestamp("ns", "UTC")),
    "time": pa.array([1, 2, None, 3, 4], pa.time32("s")),
    "decimal": pa.array([decimal.Decimal("1.10"), decimal.Decimal("-1.10"), None, decimal.Decimal(10) ** 20, 0]),
    "fixed": pa.array([b"ab", b"cd", None, b"ef", b"\x00\x00"], pa.binary(2)),
}


@each("column", COLUMNS.values())
def test_equal_rows_have_equal_hashes_however_they_are_held_and_others_do_not(column: pa.Array) -> None:
    whole = hash_rows([column], 5, seed=1)
    for start in range(6):
        assert hash_rows([column.slice(start)], 5 - start, seed=1).tolist() == whole[start:].tolist()
    chunked = pa.chunked_array([column.slice(0, 2), column.slice(2)])
    assert hash_rows([chunked], 5, seed=1).tolist() == whole.tolist()
    assert hash_rows([pa.array([], column.type)], 0, seed=1).tolist() == []
    valid = np.asarray(column.is_valid())
    assert hash_rows([column.drop_null()], int(valid.sum()), seed=1).tolist() == whole[valid].tolist()
    assert len(set(whole.tolist())) == len({repr(value) for value in column.to_pylist()})


@each("column", COLUMNS.values())
def test_what_is_missing_is_what_arrow_says(column: pa.Array) -> None:
    repeated = pa.concat_arrays([column] * 5)
    nothing, full = pa.nulls(3, repeated.type), repeated.drop_null()
    for some in (*(repeated.slice(start) for start in range(18)), repeated.slice(3, 7), repeated[:0], nothing, full):
        assert nulls_of(some).tolist() == pc.is_null(some).to_pylist()
        assert missing_in(some).tolist() == pc.is_null(some, nan_is_null=True).to_pylist()


def test_columns_are_told_apart() -> None:
    one, two = pa.array(["ab"]), pa.array(["c"])
    assert hash_rows([one, two], 1, 0)[0] != hash_rows([two, one], 1, 0)[0]
    assert hash_rows([pa.array(["a"]), pa.array(["bc"])], 1, 0)[0] != hash_rows([one, two], 1, 0)[0]
    assert hash_rows([pa.array([None], pa.string())], 1, 0)[0] != hash_rows([pa.array([""])], 1, 0)[0]


def test_sum_wraps_and_knows_no_order() -> None:
    words = np.array([MASK, MASK, 5], dtype=np.uint64)
    assert sum_of(words) == sum_of(words[::-1]) == (2 * MASK + 5) % 2**64
    assert sum_of(words[:0]) == 0


def test_collisions_are_as_rare_as_chance() -> None:
    numbers = hash_rows([pa.array(np.arange(300_000))], 300_000, seed=0)
    assert len(np.unique(numbers)) == 300_000
    bits = np.unpackbits(numbers[:4096].view(np.uint8)).reshape(4096, 64).mean(axis=0)
    assert np.all(np.abs(bits - 0.5) < 0.05)
