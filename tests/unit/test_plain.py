"""Results as plain values and back: exact, and one error for whatever is damaged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from microagg_core.group.metrics.moments import Moments, moments_of
from microagg_core.plain import PlainHashes, from_json, to_json, to_plain


@dataclass(frozen=True)
class Result:
    name: str
    sums: PlainHashes
    moments: tuple[Moments, ...]
    counts: dict[str, int | None]


RESULT = Result(
    "µ",
    np.array([[2**64 - 1, 0]], dtype=np.uint64),
    (moments_of(np.array([2**62, 5])), moments_of(np.array([0.1, 1 / 3])), moments_of(np.array([], dtype=object))),
    {"a": None, "b": 3},
)


def test_results_survive_their_json_to_the_last_bit() -> None:
    again = from_json(Result, to_json(RESULT))
    assert again.sums.dtype == np.uint64 and again.sums.tolist() == RESULT.sums.tolist()
    assert (again.name, again.moments, again.counts) == (RESULT.name, RESULT.moments, RESULT.counts)
    assert [type(m.origin) for m in again.moments] == [int, float, int]


def test_lists_and_mappings_of_results_are_plain_too() -> None:
    assert to_plain({"moments": [RESULT.moments[0]]})["moments"][0]["n"] == 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"name": "x"}',
        to_json(RESULT).replace(b"18446744073709551615", b'"many"'),
        to_json(RESULT).replace(b"18446744073709551615", b"18446744073709551616"),
        to_json(RESULT).replace(b'"b": 3', b'"b": []'),
    ],
)
def test_whatever_else_is_one_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        from_json(Result, data)
