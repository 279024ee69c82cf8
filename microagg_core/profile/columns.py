"""What a column holds, in figures that tell no single record's value: counts, shares, rounded quantiles."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Floats
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.types import is_nested, is_text
from microagg_core.profile.notations import NULL_WORDS, null_words_in

#: A range leaves out this share of the values on both sides, and no fewer than so many values.
_OUTSIDE = 0.01
_LEAST_OUTSIDE = 5
#: A range is rounded to a power of ten that goes into it at least so often.
_STEPS_OF_A_RANGE = 10
#: Numbers by which files tell missing values from others.
_CODES = (-1, -6, -7, -8, -9, -66, -77, -88, -98, -99, -888, -998, -999, -8888, -9998, -9999, -99999, 99, 777, 888, 998,
          999, 7777, 8888, 9998, 9999, 88888, 99999, 999999, 9999999, 99999999)  # fmt: skip
#: As many records have a code before it is told: what a single record has is no code.
_LEAST_CODED = 5
#: A code above all other values is at least so many times the greatest of them.
_CODE_ABOVE = 2.0
#: From here on thousands are set apart.
_LONG_NUMBER = 10_000
#: A range with more decimals is written with an exponent.
_MOST_DECIMALS = 6
#: A range of days that is longer is told in years, else in months.
_DAYS_OF_YEARS = 3 * 365
_MICROSECONDS_OF_A_DAY = 86_400_000_000
_MONTH = "%Y-%m"
#: Words that say of a column of few texts that it is the sex, in some languages.
_SEX_WORDS = (
    "m f w h male female man woman men women boy girl homme femme mann frau männlich weiblich hombre mujer uomo donna "
    "divers diverse other unknown x u"
)
_SEXES = frozenset(_SEX_WORDS.split())
_MOST_SEXES = 4

#: Arrow counts the values of decimals from so many bits on.
_COUNTED_BITS = 128


@dataclass(frozen=True)
class ColumnProfile:
    name: str
    #: As a spec declares it, or as the file has it.
    type: str
    #: Rows that were looked at, and those without a value.
    records: int
    missing: int
    #: Words that stand for a missing value, and numbers that probably do.
    null_words: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()
    distinct: int = 0
    #: Of the records with a value: whose value no other has, and whose is zero.
    unique: float = 0.0
    zeros: float | None = None
    #: Between which values all but the outermost lie, rounded; none where too few values are there.
    low: str | None = None
    high: str | None = None
    #: The third standardized moment of the values within that range.
    skew: float | None = None
    #: Characters of the longest text, and its lines.
    longest: int | None = None
    lines: int | None = None
    #: Whether the texts are words for women and men.
    tells_sex: bool = False
    #: Whether values never fall in the order of the file.
    ascends: bool = False
    #: Whether it can have a mean, and whether it is of truth values; whether no release can hold it.
    is_numeric: bool = False
    is_nested: bool = False
    #: Whether all are whole numbers, whatever their type.
    is_whole: bool = False
    #: Whether the file says in which order the texts stand.
    is_ordered: bool = False
    #: Why a text is none of numbers or days, where it looks as if it were meant to be.
    remark: str = ""

    @property
    def valid(self) -> int:
        return self.records - self.missing


def profiled(name: str, type_name: str, column: pa.ChunkedArray, remark: str = "") -> ColumnProfile:
    """The profile of a column in plain types.

    >>> ages = pa.chunked_array([[18, 25, 25, None] * 25])
    >>> profile = profiled("age", "int64", ages)
    >>> profile.distinct, profile.missing, profile.low, profile.high, profile.unique
    (2, 25, '18', '25', 0.0)
    """
    held = column.type
    if is_nested(held):
        return ColumnProfile(name, type_name, len(column), column.null_count, is_nested=True)
    if pa.types.is_decimal(held) and held.bit_width < _COUNTED_BITS:
        column = column.cast(pa.decimal128(held.precision, held.scale))
    array = one_array(column)
    words = null_words_in(array) if is_text(held) else ()
    values = array.drop_null()
    if words:
        values = values.filter(pc.invert(pc.is_in(values, pa.array(NULL_WORDS, values.type))))
    counted = pc.value_counts(values)
    counts = counted.field("counts").to_numpy(zero_copy_only=False)
    profile = ColumnProfile(
        name,
        type_name,
        len(column),
        len(column) - len(values),
        words,
        distinct=len(counts),
        unique=float((counts == 1).sum() / max(1, len(values))),
        remark=remark,
    )
    return replace(profile, **(_of_texts(values) if is_text(held) else _of_numbers(values, counted)))


def _of_texts(values: pa.Array) -> dict[str, Any]:
    if not len(values):
        return {}
    lines = pc.max(pc.count_substring(values, "\n")).as_py()
    return {
        "longest": pc.max(pc.utf8_length(values)).as_py(),
        "lines": lines + 1,
        "ascends": _ascends(values),
        "tells_sex": _tell_sex(pc.unique(values)),
    }


def _tell_sex(texts: pa.Array) -> bool:
    """Whether some different texts are words for women and men, as far as they are known here.

    >>> _tell_sex(pa.array(["F", "M"])), _tell_sex(pa.array(["F"])), _tell_sex(pa.array(["f", "g"]))
    (True, False, False)
    """
    return 1 < len(texts) <= _MOST_SEXES and {text.strip().lower() for text in texts.to_pylist()} <= _SEXES


def _ascends(values: pa.Array) -> bool:
    return len(values) > 1 and bool(pc.all(pc.less_equal(values[:-1], values[1:])).as_py())


def _of_numbers(values: pa.Array, counted: pa.Array) -> dict[str, Any]:
    """Profile numbers, truth values, days and moments; nothing of what has no order, such as bytes."""
    numbers = _as_floats(values)
    if numbers is None:
        return {}
    is_time = pa.types.is_temporal(values.type)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return {"is_numeric": True}
    is_float = pa.types.is_floating(values.type)
    figures: dict[str, Any] = {
        "is_numeric": True,
        "is_whole": pa.types.is_integer(values.type) or (is_float and bool((numbers == np.rint(numbers)).all())),
        "ascends": len(numbers) > 1 and bool((np.diff(numbers) >= 0).all()),
        "zeros": None if is_time or pa.types.is_boolean(values.type) else float((numbers == 0).mean()),
    }
    n_outside = max(_LEAST_OUTSIDE, round(_OUTSIDE * len(numbers)))
    if len(numbers) > 4 * n_outside and not pa.types.is_boolean(values.type):
        inner = np.sort(numbers)[n_outside - 1 : -n_outside + 1 or None]
        words = _days(inner, values.type) if is_time else _rounded(inner, pa.types.is_integer(values.type))
        figures |= {"low": words[0], "high": words[1], "skew": _skew(inner)}
    if pa.types.is_integer(values.type) or is_float:
        figures["codes"] = _codes(counted)
    return figures


def _as_floats(values: pa.Array) -> Floats | None:
    held = values.type
    if pa.types.is_date(held):
        values = values.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_timestamp(held):
        values = values.cast(pa.timestamp("us", held.tz), safe=False).cast(pa.int64())
    elif not (pa.types.is_integer(held) or pa.types.is_floating(held) or pa.types.is_decimal(held)
              or pa.types.is_boolean(held)):  # fmt: skip
        return None
    floats: Floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return floats


def _rounded(inner: Floats, is_whole: bool) -> tuple[str, str]:
    """The ends of some sorted values, rounded to a step that says little of any of them.

    >>> _rounded(np.array([18.0, 30.0, 90.0]), True), _rounded(np.array([1013.25, 1800.0, 99871.0]), False)
    (('18', '90'), ('1,000', '100,000'))
    """
    low, high = float(inner[0]), float(inner[-1])
    if not high - low:
        return f"{low:.2g}", f"{high:.2g}"
    exponent = math.floor(math.log10((high - low) / _STEPS_OF_A_RANGE))
    if is_whole:
        exponent = max(exponent, 0)
    decimals = max(0, -exponent)
    ends = (round(end / 10.0**exponent) * 10.0**exponent for end in (low, high))
    comma = "," if high >= _LONG_NUMBER or low <= -_LONG_NUMBER else ""  # years have none
    first, last = (f"{end + 0.0:{comma}.{decimals}f}" if decimals < _MOST_DECIMALS else f"{end:.2g}" for end in ends)
    return first, last


def _days(inner: Floats, held: pa.DataType) -> tuple[str, str]:
    """Write the ends of some sorted days or moments as years or months."""
    days = inner / _MICROSECONDS_OF_A_DAY if pa.types.is_timestamp(held) else inner
    form = "%Y" if days[-1] - days[0] > _DAYS_OF_YEARS else _MONTH
    ends = [np.datetime64(int(day), "D").astype(datetime.date) for day in (days[0], days[-1])]
    first, last = (end.strftime(form) if isinstance(end, datetime.date) else "?" for end in ends)
    return first, last


def _skew(inner: Floats) -> float | None:
    deviation = float(inner.std())
    if deviation == 0 or not math.isfinite(deviation):
        return None
    skew = float((((inner - inner.mean()) / deviation) ** 3).mean())
    return round(skew, 1) + 0.0 if math.isfinite(skew) else None


def _codes(counted: pa.Array) -> tuple[int, ...]:
    """Find numbers such as -9 or 999 that several records have, and that lie apart from all others."""
    numbers = counted.field("values").to_numpy(zero_copy_only=False).astype(np.float64)
    counts = counted.field("counts").to_numpy(zero_copy_only=False)
    coded = np.isin(numbers, _CODES)
    others = numbers[~coded & np.isfinite(numbers)]
    if len(others) < 2:
        return ()
    apart = np.where(numbers < 0, others.min() >= 0, numbers >= _CODE_ABOVE * others.max())
    return tuple(sorted(int(number) for number in numbers[coded & apart & (counts >= _LEAST_CODED)]))
