"""One text for all spellings of an id, compared with Python's own way to it."""

from __future__ import annotations

import re
import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microagg_core.tables.spelling import in_normal_form


def slowly(text: str) -> str:
    """The normal form, a text at a time."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    seen = re.sub("[\u00ad\u200b-\u200d\u2060\ufeff]", "", folded)
    spaced = " ".join(seen.split())
    number = re.fullmatch(r"\+?(-?)0*([0-9]+)(?:\.([0-9]*?)0*)?", spaced)
    if number is None:
        return spaced
    sign, whole, fraction = number.groups()
    return sign + whole + (f".{fraction}" if fraction else "")


ALIKE = [
    ["P1", "p1", "P1 ", " P1", "\tP1\n", "Ｐ1", "P\u200b1", "\u00a0P1"],
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
    assert set(forms) == {slowly(alike[0])}
    # One by one too: what a batch holds besides must not matter.
    assert [in_normal_form(pa.array([text])).to_pylist()[0] for text in alike] == forms


def test_other_ids_stay_apart() -> None:
    ids = ["P1", "P01", "P10", "7", "70", "7.5", "-7", "7e0", "0x7", "a b", "ab", "", "1.2.3", "٧"]
    assert len(set(in_normal_form(pa.array(ids)).to_pylist())) == len(ids)


@given(st.lists(st.text(alphabet="aBß0179.+- \té ７", max_size=6), min_size=1, max_size=8))
def test_the_normal_form_is_that_of_python(texts: list[str]) -> None:
    assert in_normal_form(pa.array(texts)).to_pylist() == [slowly(text) for text in texts]


def test_nulls_slices_and_texts_that_are_none_stay() -> None:
    array = pa.array(["x", "P1 ", None, "07"])
    assert in_normal_form(array.slice(1)).to_pylist() == ["p1", None, "7"]
    assert in_normal_form(pa.chunked_array([array, array])).to_pylist() == ["x", "p1", None, "7"] * 2
    broken = pa.array([b"P\xff1 "]).view(pa.string())
    assert in_normal_form(broken).cast(pa.large_binary()).to_pylist() == [b"P\xff1 "]
    assert in_normal_form(pa.array([7, None])).to_pylist() == [7, None]
    assert in_normal_form(pa.array([], pa.string())).to_pylist() == []
