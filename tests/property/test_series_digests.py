"""Digests and the pairwise test equal their slow twins, and are blind to what must not matter."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.arrays import Pairs
from microagg_core.errors import DataError
from microagg_core.series.digests import (
    ABSENT,
    SeriesKey,
    UnitForm,
    classes_of,
    numbered_rows,
    rows_of,
    units_of,
    values_of,
)
from microagg_core.series.verdict import weakest_cut
from twins import naive_series
from twins.naive_ids import normal_form

KEY, OTHER_KEY = SeriesKey(b"sixteen bytes or more"), SeriesKey(b"sixteen bytes or less")
ids = st.text(alphabet="aBé０79.+ \t\u200b\x00\ufe0f", max_size=8).filter(normal_form)
few_pairs = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=30)


def pairs_of(rows: list[tuple[int, int]]) -> Pairs:
    return np.array(rows, dtype=np.uint64).reshape(-1, 2)


def class_pairs(classes: list[int]) -> Pairs:
    """Small numbers as classes, 0 for absent."""
    return np.column_stack([np.array(classes, dtype=np.uint64), np.array(classes, dtype=np.uint64) * np.uint64(7)])


@given(few_pairs)
@examples(100)
def test_equal_pairs_have_one_number(rows: list[tuple[int, int]]) -> None:
    numbers, distinct = numbered_rows(pairs_of(rows))
    assert [tuple(row) for row in distinct.tolist()] == sorted(set(rows))
    assert [tuple(row) for row in distinct[numbers].tolist()] == rows


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), ids), max_size=12))
@examples(100)
def test_units_equal_their_twin(rows: list[tuple[int, str]]) -> None:
    columns = [pa.array([row[0] for row in rows], pa.int64()), pa.array([row[1] for row in rows], pa.string())]
    expected = [naive_series.unit_digest(row, KEY.secret) for row in rows]
    units = units_of(columns, KEY)
    assert [tuple(row) for row in units.tolist()] == expected and (units[:, 1] < 2**16).all()


TWELVES = [
    pa.array([12], pa.int8()),
    pa.array([12], pa.uint64()),
    pa.array(["12"]),
    pa.array(["12"], pa.large_string()),
    pa.array(["12"]).dictionary_encode(),
    pa.chunked_array([pa.array([], pa.int64()), pa.array([12])]),
    pa.array([b"12"]),
    pa.array([12.0]),
    pa.array([12], pa.decimal128(10, 0)),
    pa.array([12], pa.decimal128(10, 2)),
    pa.array(["\u200b012.0 "]),
]


@pytest.mark.parametrize("column", TWELVES, ids=lambda column: str(column.type))
def test_one_unit_is_one_unit_whatever_its_type(column: pa.Array) -> None:
    assert units_of([column], KEY).tolist() == units_of([TWELVES[0]], KEY).tolist()


def digest(value: object, form: UnitForm, kind: pa.DataType | None = None) -> list[list[int]]:
    return units_of([pa.array([value], kind)], KEY, form).tolist()


def test_a_ledger_keeps_the_form_that_it_began_with() -> None:
    """Where spelling tells units apart, numbers alone go by value; ledgers from before any form go by Arrow's text."""
    assert digest("P1", "normal") == digest("p1 ", "normal") and digest("P1", "spelled") != digest("p1", "spelled")
    assert digest(1e10, "spelled") == digest(10**10, "spelled") == digest("10000000000", "text")
    assert digest(1e10, "text") == digest("1e+10", "text") and digest("P1", "text") == digest("P1", "spelled")


def test_units_are_told_apart() -> None:
    ids = [("12", "3"), ("1", "23"), ("120", "3"), ("12.5", "3"), ("p12", "3")]
    units = units_of([pa.array([one for one, _ in ids]), pa.array([two for _, two in ids])], KEY)
    assert len(numbered_rows(units)[1]) == len(ids)
    assert not (
        units == units_of([pa.array([one for one, _ in ids]), pa.array([two for _, two in ids])], OTHER_KEY)
    ).any()


def test_a_record_without_its_unit_is_counted_and_not_shown() -> None:
    columns = [pa.array(["canary", None, "b", None]), pa.array([1.0, 2.0, float("nan"), None])]
    with pytest.raises(DataError, match=r"^3 record\(s\) name no unit; ") as caught:
        units_of(columns, KEY)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("nothing", ["", "  ", b"", "\u200b"])
def test_a_text_of_nothing_names_no_unit(nothing: str | bytes) -> None:
    """A missing id of CSV is one: two of them are not a unit that repeats."""
    with pytest.raises(DataError, match=r"^2 record\(s\) name no unit; "):
        units_of([pa.array([nothing, "a" if isinstance(nothing, str) else b"a", nothing])], KEY)


def test_units_and_classes_spread_over_all_their_bits() -> None:
    n = 20_000
    table = pa.table({"a": range(n)})
    for digests, n_bits in ((units_of([table["a"]], KEY), 16), (classes_of(table, ["a"], KEY), 32)):
        for half, wide in ((0, 64), (1, n_bits)):
            bits = np.unpackbits(np.ascontiguousarray(digests[:, half]).astype(">u8").view(np.uint8)).reshape(n, 64)
            assert np.abs(bits[:, 64 - wide :].mean(axis=0) - 0.5).max() < 0.03 and not bits[:, : 64 - wide].any()
        assert len(numbered_rows(digests)[1]) == n


def test_classes_rows_and_values_are_keyed_and_see_every_column() -> None:
    table = pa.table({"a": [1.5, 1.5, 2.5], "b": ["x", "y", "x"], "c": [7, 7, None]})
    classes = classes_of(table, ["a", "b"], KEY)
    assert len(numbered_rows(classes)[1]) == 3 and len(numbered_rows(classes_of(table, ["a"], KEY))[1]) == 2
    assert not (classes == classes_of(table, ["a", "b"], OTHER_KEY)).any()
    assert not (classes[:, 0] == classes[:, 1]).any()
    assert rows_of(table, ["a", "c"], KEY)[0] == rows_of(table, ["a", "c"], KEY)[1]
    assert len(set(values_of(table["b"], KEY).tolist())) == 2 and values_of(table["c"], KEY).dtype == np.uint32
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert classes_of(chunked, ["a", "b"], KEY).tolist() == classes.tolist()


def test_nothing_of_no_rows() -> None:
    assert units_of([pa.array([], pa.string())], KEY).shape == (0, 2)
    numbers, distinct = numbered_rows(pairs_of([]))
    assert numbers.tolist() == [] and distinct.shape == (0, 2)
    assert weakest_cut(pairs_of([]), pairs_of([]), 3) is None


def test_absent_is_the_class_of_nobody() -> None:
    table = pa.table({"a": [None, 0.0, 1.0], "b": [None, "", "x"]})
    assert ABSENT.tolist() == [[0, 0]] and not (classes_of(table, ["a", "b"], KEY) == ABSENT).all(axis=1).any()
    assert (class_pairs([0, 1]) == ABSENT).all(axis=1).tolist() == [True, False]


two_nights = st.integers(1, 4).flatmap(
    lambda top: st.lists(st.tuples(st.integers(0, top), st.integers(0, top)), max_size=10)
)


@given(two_nights, st.integers(2, 4))
@examples(400)
def test_the_weakest_cut_is_the_fewest_units_of_any_combination(nights: list[tuple[int, int]], k: int) -> None:
    before, after = [night for night, _ in nights], [night for _, night in nights]
    released = [{unit: klass for unit, klass in enumerate(classes) if klass} for classes in (before, after)]
    sums = [units for night in released for units in naive_series.sums_of(night)]
    expected = naive_series.smallest_support(sums, range(len(nights)), below=k)
    assert weakest_cut(class_pairs(before), class_pairs(after), k) == expected


@given(st.integers(2, 6), st.integers(0, 2**32), st.integers(3, 40), st.integers(1, 5))
@examples(150)
def test_the_weakest_cut_agrees_with_another_search(k: int, seed: int, n_classes: int, per_class: int) -> None:
    """Larger graphs, which all but hang together, by networkx."""
    import networkx

    draws = np.random.default_rng(seed)
    n = n_classes * per_class * 2
    before, after = (draws.integers(0, n_classes, n).tolist() for _ in range(2))
    graph = networkx.Graph()
    for one, two in zip(before, after, strict=True):
        ends = ((0, one) if one else "absent", (1, two) if two else "absent")
        if ends[0] != ends[1]:
            weight = graph.get_edge_data(*ends, {"weight": 0})["weight"]
            graph.add_edge(*ends, weight=weight + 1)
    parts = [graph.subgraph(part) for part in networkx.connected_components(graph)]
    smallest = min((networkx.stoer_wagner(part)[0] for part in parts if len(part) > 1), default=k)
    assert weakest_cut(class_pairs(before), class_pairs(after), k) == (smallest if smallest < k else None)
