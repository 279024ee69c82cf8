"""Columns to ticks and back: nothing is lost before a mean is taken, and the released type is kept."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from covering import each
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.kinds.exact import ExactKind
from microagg_core.data.kinds.floats import FloatKind
from microagg_core.data.kinds.registry import kind_of, unrounded_kind
from microagg_core.errors import DataError, SpecError
from microagg_core.group.metrics.moments import Groups, moments_of, offsets_from

D = decimal.Decimal


def mean_released(array: pa.Array, rounding: str | float = "type") -> Any:
    """The mean of the whole column as one group, as it would be released."""
    kind = kind_of("q", array.type, rounding)
    assert isinstance(kind, ExactKind | FloatKind)
    ticks, missing = kind.ticks(array)
    origin = Encoding.from_moments((kind,), (moments_of(ticks[~missing]),)).origins[0]
    released = kind.representatives(ticks[~missing], Groups.of(np.zeros(int(np.sum(~missing)), dtype=np.int64)))
    out = kind.to_arrow(released)
    assert out.type == kind.released_type
    again, _ = kind.reader.ticks(out)
    mean = float(np.mean(offsets_from(ticks[~missing], origin)))
    tolerance = max(kind.step, 1e-6, float(np.spacing(abs(float(origin)))))
    assert kind.released_offsets(released, origin)[0] == pytest.approx(mean, abs=tolerance)
    assert again[0] == released[0]
    return out[0].as_py()


CASES: list[tuple[pa.Array, str | float, Any]] = [
    (pa.array([1, 2], pa.int64()), "type", 2),  # halves go to the even neighbour
    (pa.array([2, 3], pa.int64()), "type", 2),
    (pa.array([2**64 - 1, 2**64 - 5], pa.uint64()), "type", 2**64 - 3),
    (pa.array([-(2**63), 2**63 - 1, 2**63 - 1], pa.int64()), "type", 3074457345618258602),
    (pa.array([126, 127], pa.int8()), 50, 100),  # 150 does not fit the type
    (pa.array([D(10**38 - 1), D(10**38 - 2)], pa.decimal128(38, 0)), "type", D(10**38 - 2)),
    (pa.array([D(1 - 10**38), D(1 - 10**38)], pa.decimal128(38, 0)), "type", D(1 - 10**38)),
    (pa.array([0, 2**64 - 1], pa.uint64()), 2**63, 2**63),
    (pa.array([2**63 - 1, 2**63 - 1], pa.int64()), 2**62, 2**62),
    (pa.array([1.7976931348623157e308, 1.7976931348623155e308]), "type", 1.7976931348623155e308),
    (pa.array([5e-324, 5e-324]), "type", 5e-324),
    (pa.array([1e308, 1e308]), 0.1, 1e308),
    (pa.array([datetime.date(2000, 1, 1), datetime.date(2000, 1, 2)], pa.date64()), "type", datetime.date(2000, 1, 2)),
    (pa.array([86_400 * 10, 86_400 * 11 - 5], pa.timestamp("s")), 86_400, datetime.datetime(1970, 1, 11)),
]


@each("array, rounding, expected", CASES)
def test_a_group_mean_is_released_in_its_type(array: pa.Array, rounding: str | float, expected: Any) -> None:
    found = mean_released(array, rounding)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("refuse", [kind_of, unrounded_kind])
def test_types_without_a_mean_are_refused(refuse: Callable[..., object]) -> None:
    """And no cure leaves the column as it is, which would publish what others know."""
    for kind in (pa.binary(), pa.time32("s"), pa.duration("s")):
        with pytest.raises(DataError, match=r"quasi-identifier 'q' has the type .* or drop it") as refused:
            refuse("q", kind)
        assert "confidential" not in refused.value.message and "leave it out" not in refused.value.message


@pytest.mark.parametrize(
    ("kind", "rounding"),
    [(pa.date32(), "none"), (pa.bool_(), "none"), (pa.date32(), 0.5), (pa.decimal128(9, 1), 0.25), (pa.int8(), 128)],
)
def test_roundings_that_do_not_fit_are_refused(kind: pa.DataType, rounding: str | float) -> None:
    with pytest.raises(SpecError, match=r"rounding\.q"):
        kind_of("q", kind, rounding)


@each(
    "array",
    [
        pa.array([1.5, None, float("nan")]),
        pa.array([1, None, None], pa.uint64()),
        pa.array([D("1.5"), None, None], pa.decimal128(5, 1)),
        pa.array([datetime.date(2000, 1, 1), None, None]),
        pa.array([True, None, None]),
    ],
)
def test_missing_values_come_and_go(array: pa.Array) -> None:
    kind = kind_of("q", array.type, "type")
    ticks, missing = kind.ticks(array)
    assert missing.tolist() == [False, True, True]
    assert kind.to_arrow(ticks, missing).to_pylist() == [array[0].as_py(), None, None]


def test_slices_are_read_from_their_offset() -> None:
    for array in (pa.array([D("9.9"), D("1.5")]), pa.array([False, True]), pa.array([7, 8], pa.int16())):
        ticks, _ = kind_of("q", array.type, "type").ticks(array.slice(1))
        whole, _ = kind_of("q", array.type, "type").ticks(array)
        assert ticks.tolist() == whole[1:].tolist()


@pytest.mark.parametrize(("scale", "shift"), [(1e-290, 1e9), (1e290, 0.0)])
def test_standardized_values_have_mean_0_and_variance_1(scale: float, shift: float) -> None:
    values = (np.random.default_rng(0).normal(size=500) + shift) * scale
    kind = kind_of("q", pa.float64(), "type")
    encoding = Encoding.from_moments((kind,), (moments_of(values),))
    ticks, missing = encoding.ticks([pa.array(values)])
    z = encoding.standardize(encoding.offsets_of(ticks), missing)[:, 0]
    assert abs(z.mean()) < 1e-9
    assert z.std() == pytest.approx(1.0, rel=1e-9)


def test_a_constant_attribute_becomes_zero() -> None:
    array = pa.array([5, 5, 5])
    kind = kind_of("q", array.type, "type")
    encoding = Encoding.from_moments((kind,), (moments_of(kind.ticks(array)[0]),))
    ticks, missing = encoding.ticks([array])
    assert encoding.standardize(encoding.offsets_of(ticks), missing).tolist() == [[0.0], [0.0], [0.0]]
