"""Group means of every type of column: within their group's range, and what all have where all have the same.

A slow twin in fractions says what they should be.
"""

from __future__ import annotations

import decimal
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core import microaggregate
from microagg_core.data.kinds.contract import DEFAULT_ROUNDING, Kind
from microagg_core.data.kinds.exact import ExactKind
from microagg_core.data.kinds.floats import FloatKind
from microagg_core.data.kinds.registry import kind_of
from microagg_core.group.metrics.decimals import decimals_needed, most_decimals
from microagg_core.group.metrics.moments import Groups, float_means, whole_means
from microagg_core.inspect.checks.groups import Sharing, outside_ranges

DAY = 86_400_000


def whole(bits: int, signed: bool = True) -> st.SearchStrategy[int]:
    least, greatest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    edges = st.sampled_from([least, least + 1, greatest - 1, greatest])
    return st.one_of(st.integers(least, greatest), edges, st.integers(max(least, -9), 9))


def decimals(digits: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(1 - 10**digits, 10**digits - 1), st.integers(-9, 9))


def prices(width: int) -> st.SearchStrategy[float]:
    most = 10**6 if width == 64 else 10**4
    return st.builds(lambda units, d: units / 10**d, st.integers(-most, most), st.integers(0, 4))


def floats(width: int) -> st.SearchStrategy[float]:
    greatest = float(np.finfo(np.float64 if width == 64 else np.float32).max)
    tiny = 5e-324 if width == 64 else 2.0**-149
    edges = st.sampled_from([0.0, -0.0, greatest, -greatest, tiny, -tiny, 2.0**-126])
    anything = st.floats(allow_nan=False, allow_infinity=False, width=width)  # type: ignore[call-overload]
    return st.one_of(prices(width), anything, edges)


def as_array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """Whole numbers as whatever the type makes of them, to the last digit."""
    if pa.types.is_decimal(kind):
        context = decimal.Context(prec=76)
        return pa.array([decimal.Decimal(v).scaleb(-kind.scale, context) for v in values], kind)
    if pa.types.is_boolean(kind):
        return pa.array([v % 2 == 1 for v in values], kind)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return pa.array(values, kind)


TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.integers(0, 1),
    **{getattr(pa, f"int{bits}")(): whole(bits) for bits in (8, 16, 32, 64)},
    **{getattr(pa, f"uint{bits}")(): whole(bits, signed=False) for bits in (8, 16, 32, 64)},
    pa.decimal128(5, 2): decimals(5),
    pa.decimal128(18, 4): decimals(18),
    pa.decimal128(19, 0): decimals(19),
    pa.decimal128(38, 9): decimals(38),
    pa.date32(): whole(32),
    pa.date64(): st.integers(-(10**6), 10**6).map(lambda day: day * DAY),
    **{pa.timestamp(unit): whole(64) for unit in ("s", "ms", "us", "ns")},
    pa.timestamp("us", "Europe/Rome"): whole(64),
    pa.float32(): floats(32),
    pa.float64(): floats(64),
}


@st.composite
def grouped(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> tuple[list[Any], np.ndarray]:
    """Values in groups, some of them of one value alone."""
    column: list[Any] = []
    labels: list[int] = []
    for label in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 9))
        equal = draw(st.booleans())
        column += [draw(values)] * size if equal else draw(st.lists(values, min_size=size, max_size=size))
        labels += [label] * size
    order = draw(st.permutations(range(len(column))))
    return [column[i] for i in order], np.array(labels)[list(order)]


def fractions(kind: pa.DataType, array: pa.Array) -> list[Fraction]:
    """Values as exact numbers: decimals and temporal values in units of their last place, floats as printed."""
    if pa.types.is_decimal(kind):
        return [Fraction(value) * 10**kind.scale for value in array.to_pylist()]
    if pa.types.is_temporal(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return [Fraction(value) for value in array.to_pylist()]


def as_printed(kind: pa.DataType, value: float) -> str:
    """The shortest text that reads back as the same float."""
    return str(np.float32(value)) if pa.types.is_float32(kind) else repr(value)


def nearest(value: Fraction, step: Fraction) -> Fraction:
    """The nearest multiple of a step; halves to the even one, as Python rounds fractions."""
    return round(value / step) * step


def for_column(kind: pa.DataType, array: pa.Array, rule: str | float = DEFAULT_ROUNDING) -> Kind:
    """How a whole column of these values is released."""
    quasi = kind_of("q", kind, rule)
    ticks, _ = quasi.ticks(array)
    return quasi.for_input(quasi.more_traits(quasi.NO_TRAITS, array, ticks), quasi.moments(ticks))


def exact_kind(kind: pa.DataType, rule: str | float) -> ExactKind:
    """A column of whole numbers of this type."""
    quasi = kind_of("q", kind, rule)
    assert isinstance(quasi, ExactKind)
    return quasi


def assert_is_mean(quasi: Kind, before: list[Fraction], mean: Fraction) -> None:
    """Against the exact mean: rounded once, to the nearest, where that is promised, else to some last places."""
    true = sum(before, Fraction(0)) / len(before)
    if not isinstance(quasi, FloatKind):
        assert mean == nearest(true, Fraction(DAY if pa.types.is_date64(quasi.source_type) else 1))
    elif quasi.decimals is not None:
        printed = [Fraction(as_printed(quasi.source_type, float(value))) for value in before]
        short = nearest(sum(printed, Fraction(0)) / len(printed), Fraction(1, 10**quasi.decimals))
        expected = float(short)  # to the nearest
        assert mean == Fraction(float(np.float32(expected)) if quasi.is_single else expected)
    else:
        last = max(abs(mean) / 2 ** (22 if quasi.is_single else 51), Fraction(2.0**-149 if quasi.is_single else 5e-324))
        assert abs(mean - true) <= (max(before) - min(before)) / 2**50 + last


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_mean_is_its_groups_mean_within_its_range(kind: pa.DataType) -> None:
    @examples(25)
    @given(grouped(TYPES[kind]), st.sampled_from([DEFAULT_ROUNDING, "type"]))
    def check(drawn: tuple[list[Any], np.ndarray], rule: str) -> None:
        values, labels = drawn
        array = as_array(kind, values)
        quasi = for_column(kind, array, rule)
        ticks, _ = quasi.ticks(array)
        released = quasi.to_arrow(quasi.representatives(ticks, Groups.of(labels))[labels])
        assert released.type == kind
        before, after = fractions(kind, array), fractions(kind, released)
        for label in range(labels.max() + 1):
            rows = np.flatnonzero(labels == label).tolist()
            members, mean = [before[i] for i in rows], after[rows[0]]
            assert min(members) <= mean <= max(members)
            assert_is_mean(quasi, members, mean)
        one, other = pa.chunked_array([array]), pa.chunked_array([released])
        assert outside_ranges(quasi, one, other, Sharing(labels.astype(np.uint64))) == 0
        if isinstance(quasi, FloatKind):
            assert not any(math.copysign(1.0, value) < 0 for value in released.to_pylist() if value == 0)

    check()


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint64(), pa.decimal128(38, 0), pa.date32()], ids=str)
def test_a_rounding_step_takes_the_nearest_multiple_that_the_type_has(kind: pa.DataType) -> None:
    @examples(50)
    @given(grouped(TYPES.get(kind, decimals(38))), st.data())
    def check(drawn: tuple[list[Any], np.ndarray], data: st.DataObject) -> None:
        values, labels = drawn
        least, greatest = exact_kind(kind, "type").range
        step = int(float(data.draw(st.integers(1, min(greatest, 2**53)))))
        quasi, array = exact_kind(kind, float(step)), as_array(kind, values)
        ticks, _ = quasi.ticks(array)
        means = quasi.representatives(ticks, Groups.of(labels))
        released = pa.chunked_array([quasi.to_arrow(means[labels])])
        for label, mean in enumerate(means.tolist()):
            members = [values[i] for i in np.flatnonzero(labels == label).tolist()]
            expected = int(nearest(Fraction(sum(members), len(members)), Fraction(step)))
            if expected > greatest:
                expected -= step
            assert mean == (expected + step if expected < least else expected)
        assert outside_ranges(quasi, pa.chunked_array([array]), released, Sharing(labels.astype(np.uint64))) == 0

    check()


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint64()], ids=str)
def test_a_step_between_whole_numbers_takes_the_nearest_multiple_as_a_float(kind: pa.DataType) -> None:
    @examples(50)
    @given(grouped(TYPES[kind]), st.sampled_from(["0.1", "0.5", "0.25", "0.3", "2.5", "1e-9"]))
    def check(drawn: tuple[list[int], np.ndarray], step: str) -> None:
        values, labels = drawn
        quasi, array = exact_kind(kind, float(step)), as_array(kind, values)
        means = quasi.representatives(quasi.ticks(array)[0], Groups.of(labels))
        released = quasi.to_arrow(means[labels])
        assert released.type == quasi.released_type == pa.float64()
        for label, mean in enumerate(means.tolist()):
            members = [values[i] for i in np.flatnonzero(labels == label).tolist()]
            assert mean == float(nearest(Fraction(sum(members), len(members)), Fraction(step)))
        sharing, one = Sharing(labels.astype(np.uint64)), pa.chunked_array([array])
        assert outside_ranges(quasi, one, pa.chunked_array([released]), sharing) == 0
        beyond = float(max(values)) + float(step) + 4 * np.spacing(float(max(map(abs, values))))
        far = pa.chunked_array([pa.array(np.full(len(labels), beyond))])
        assert outside_ranges(quasi, one, far, sharing) == len(labels)
        before, (after, _) = quasi.moments(quasi.ticks(array)[0]), quasi.reader.ticks(released)
        assert quasi.keeps_mean(before, quasi.moments(after))

    check()


@examples(50)
@given(grouped(floats(64)), st.sampled_from([0.1, 0.5, 0.7, 10.0, 1e-300, 1e300]))
def test_a_rounding_step_of_floats_leaves_the_range_by_half_of_it_at_most(
    drawn: tuple[list[float], np.ndarray], step: float
) -> None:
    array, labels = pa.array(drawn[0]), drawn[1]
    quasi = kind_of("q", pa.float64(), step)
    released = quasi.to_arrow(quasi.representatives(quasi.ticks(array)[0], Groups.of(labels))[labels])
    assert all(map(math.isfinite, released.to_pylist()))
    found = outside_ranges(
        quasi, pa.chunked_array([array]), pa.chunked_array([released]), Sharing(labels.astype(np.uint64))
    )
    assert found == 0


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind != pa.bool_() and not pa.types.is_date(kind)], ids=str)
def test_the_python_function_keeps_equal_values_to_the_bit(kind: pa.DataType) -> None:
    """Numbers come out as float64: the nearest to the exact mean where they were whole numbers."""

    # The times of 64 bits that pandas knows are fewer, and the least of them stands for none.
    drawn_from = st.integers(-(10**9), 10**9) if pa.types.is_timestamp(kind) else TYPES[kind]

    @examples(10)
    @given(grouped(drawn_from))
    def check(drawn: tuple[list[Any], np.ndarray]) -> None:
        values = drawn[0] + [drawn[0][0]] * 3
        array = as_array(kind, values)
        frame = pd.DataFrame({"q": array.to_pandas(types_mapper=pd.ArrowDtype)})
        result = microaggregate(frame, ["q"], 2, algorithm="mdav")
        scale = 10**kind.scale if pa.types.is_decimal(kind) else 1
        before = fractions(kind, array)
        is_time = pa.types.is_timestamp(kind)
        after = fractions(kind, pa.Array.from_pandas(result.data["q"])) if is_time else result.data["q"].tolist()
        for label in range(result.groups.max() + 1):
            rows = np.flatnonzero(result.groups == label).tolist()
            members = [before[i] for i in rows]
            mean = after[rows[0]]
            if is_time:
                assert min(members) <= mean <= max(members)
                continue
            assert float(min(members) / scale) <= mean <= float(max(members) / scale)
            if not pa.types.is_floating(kind):
                assert mean == float(sum(members, Fraction(0)) / len(members) / scale)

    check()


@pytest.mark.parametrize("values", [floats(64), prices(64)])
def test_a_mean_depends_on_its_group_alone(values: st.SearchStrategy[float]) -> None:
    """Neither on the order of records, nor on the groups beside it."""

    @examples(50)
    @given(st.lists(values, min_size=1, max_size=30), st.lists(values, min_size=1, max_size=9), st.randoms())
    def check(group: list[float], others: list[float], random: Any) -> None:
        alone = float_means(np.array(group), Groups.of(np.zeros(len(group), dtype=np.int64)))
        rows = [(value, 1) for value in group] + [(value, 0) for value in others]
        random.shuffle(rows)
        column, labels = np.array([value for value, _ in rows]), np.array([label for _, label in rows])
        assert float_means(column, Groups.of(labels))[1] == alone[0]

    check()


@examples(50)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40), st.integers(1, 10**6))
def test_split_sums_are_those_of_whole_numbers_of_any_size(values: list[int], unit: int) -> None:
    groups = Groups.of(np.zeros(len(values), dtype=np.int64))
    found, twin = (whole_means(np.array(values, dtype=kind), groups) for kind in (np.int64, object))
    assert (found.floor.tolist(), found.rest.tolist()) == (twin.floor.tolist(), twin.rest.tolist())
    assert found.as_floats(unit).tolist() == [float(Fraction(sum(values), len(values) * unit))]


def decimals_of(text: str, limit: float = 1e14) -> int | None:
    """Decimals in a float's shortest text; None for those of more digits in all, or 21 decimals."""
    digits = decimal.Decimal(text).normalize().as_tuple()
    decimals = max(0, -int(digits.exponent))
    short = abs(decimal.Decimal(text).scaleb(decimals)) < limit and decimals <= 21
    return decimals if short else None


@examples(50)
@given(st.lists(st.one_of(floats(64), prices(64)), min_size=1, max_size=6))
def test_decimals_are_those_of_the_shortest_texts(values: list[float]) -> None:
    expected = most_decimals(decimals_of(repr(value)) for value in values)
    assert decimals_needed(np.array(values)) == expected
    assert most_decimals(decimals_needed(np.array([value])) for value in values) == expected, "in whatever parts"


@examples(50)
@given(st.lists(st.one_of(floats(32), prices(32)), min_size=1, max_size=6))
def test_decimals_of_single_precision_are_those_of_its_shortest_texts(values: list[float]) -> None:
    singles = np.array(values, dtype=np.float32)
    expected = most_decimals(decimals_of(str(value), 2.0**23) for value in singles)
    assert decimals_needed(singles.astype(np.float64), single=True) == expected


@examples(50)
@given(st.lists(prices(64), min_size=1, max_size=12))
def test_means_of_short_decimals_print_short(values: list[float]) -> None:
    quasi = for_column(pa.float64(), pa.array(values))
    (mean,) = quasi.representatives(np.array(values), Groups.of(np.zeros(len(values), dtype=np.int64))).tolist()
    assert isinstance(quasi, FloatKind) and quasi.decimals is not None
    needed = decimals_of(repr(mean))
    assert needed is not None and needed <= quasi.decimals
    assert mean == round(mean, quasi.decimals)
