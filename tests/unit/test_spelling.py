"""One text for all spellings of an id, compared with Python's own way to it."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from covering import examples
from microagg_core.data.tables.spelling import in_normal_form
from twins.naive_ids import normal_form

ALIKE = [
    ["P1", "p1", "P1 ", " P1", "\tP1\n", "Ｐ1", "P\u200b1", "\u00a0P1", "P\x001\x7f", "\ufe0fP1\u034f"],
    ["7", "07", "7.0", "+7", "007.", "7.00", " 7", "７"],
    ["0", "000", "0.0", "+0"],
    ["12.5", "012.50", "+12.500"],
    ["-3", "-03", "-3.0"],
    ["a b", "A  B", "a\u00a0b", "a\tb"],
    ["straße", "STRASSE", "Strasse"],
    ["e\u0301va", "Éva", "ÉVA"],
]


@pytest.mark.parametrize("alike", ALIKE, ids=lambda alike: alike[0])
def test_spellings_of_one_id_have_one_normal_form(alike: list[str]) -> None:
    forms = in_normal_form(pa.array(alike)).to_pylist()
    assert set(forms) == {normal_form(alike[0])}
    # One by one too: what a batch holds besides must not matter.
    assert [in_normal_form(pa.array([text])).to_pylist()[0] for text in alike] == forms


def test_other_ids_stay_apart() -> None:
    ids = ["P1", "P01", "P10", "7", "70", "7.5", "-7", "7e0", "0x7", "a b", "ab", "", "1.2.3", "٧"]
    assert len(set(in_normal_form(pa.array(ids)).to_pylist())) == len(ids)


@examples(100)
@given(st.lists(st.text(alphabet="aBß0179.+- \té ７", max_size=6), min_size=1, max_size=8))
@example(["+-0", "+0", "-0"])
def test_the_normal_form_is_that_of_python(texts: list[str]) -> None:
    assert in_normal_form(pa.array(texts)).to_pylist() == [normal_form(text) for text in texts]


def test_nulls_slices_and_texts_that_are_none_stay() -> None:
    array = pa.array(["x", "P1 ", None, "07"])
    assert in_normal_form(array.slice(1)).to_pylist() == ["p1", None, "7"]
    assert in_normal_form(pa.chunked_array([array, array])).to_pylist() == ["x", "p1", None, "7"] * 2
    broken = pa.array([b"P\xff1 ", b"P1 ", None]).view(pa.string())
    assert in_normal_form(broken).cast(pa.large_binary()).to_pylist() == [b"P\xff1 ", b"p1", None]
    assert in_normal_form(pa.array([7, None])).to_pylist() == [7, None]
    assert in_normal_form(pa.array([], pa.string())).to_pylist() == []


def test_characters_that_nobody_sees() -> None:
    """All of them, as far as the Python at hand knows Unicode: those of a newer one may be dropped besides."""
    # Of blocks that hold letters of Chinese and Korean, private ones or nothing, every hundredth: all took 17 s.
    crowded = {*range(0x4E00, 0x9FFF), *range(0xAC00, 0xF8FF), *range(0x17000, 0x18AFF), *range(0x20000, 0xE0000)}
    letters = [chr(code) for code in range(0xE1000) if code not in crowded or code % 101 == 0]
    letters = [letter for letter in letters if not 0xD800 <= ord(letter) < 0xE000]
    forms = in_normal_form(pa.array([f"q{letter}r" for letter in letters])).to_pylist()
    unseen = [letter for letter in letters if normal_form(f"q{letter}r") == "qr"]
    dropped = {letter for letter, form in zip(letters, forms, strict=True) if form == "qr"}
    assert len(unseen) > 4_000 and dropped >= set(unseen) and len(dropped) < len(unseen) + 100


NUMBERS = [10**10, 7, 0, -3, 2**53]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_have_the_form_of_their_value_whatever_their_type(number: int) -> None:
    arrays = [
        pa.array([number], pa.float64()),
        pa.array([Decimal(number)], pa.decimal128(20, 2)),
        pa.array([f"{number}"]),
        pa.array([f"{number}.0 ".encode()]),
        pa.array([f"{number}"]).dictionary_encode(),
    ]
    assert [in_normal_form(array).to_pylist() for array in arrays] == [[str(number)]] * len(arrays)


@examples(100)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=False), min_size=1, max_size=8))
def test_floats_have_the_form_of_their_value(values: list[float]) -> None:
    assert in_normal_form(pa.array(values, pa.float64())).to_pylist() == [normal_form(value) for value in values]
