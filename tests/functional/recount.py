"""A release held against its input, record by record, by a program that shares nothing with the product.

Every input of these tests has a column ``tag`` of distinct whole numbers, released as it is, so that each released
record is known to be the one it came from. Everything is counted with plain Python numbers: whole numbers, decimals
and fractions are exact, and floats are compared by their bits.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

Key = tuple[Any, ...]
_VIEWS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def without_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def exact(column: pa.ChunkedArray) -> list[Any]:
    """Values as Python has them; floats as the whole numbers that their bits make, so that NaN equals NaN."""
    column = without_dictionary(column)
    kind = column.type
    if kind in _VIEWS:
        return [value for chunk in column.chunks for value in chunk.view(_VIEWS[kind]).to_pylist()]
    return list(_whole(column).to_pylist())


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates, times and timestamps as whole numbers."""
    kind = column.type
    if pa.types.is_temporal(kind):
        return column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    return column


def numbers(column: pa.ChunkedArray) -> list[Fraction | None]:
    """Values as exact numbers; a missing one (null or NaN) is None."""
    values = _whole(without_dictionary(column)).to_pylist()
    return [None if v is None or v != v else Fraction(v) for v in values]


def parse_label(label: str | None) -> frozenset[str | None]:
    r"""The values that a merged blocking label stands for: parts between ``|``, a backslash before \ and |."""
    if label is None:
        return frozenset([None])
    parts, text, position = [], "", 0
    while position < len(label):
        here = label[position]
        if here == "\\":
            position += 1
            text += "\0N" if label[position] == "N" else label[position]
        elif here == "|":
            parts.append(text)
            text = ""
        else:
            text += here
        position += 1
    return frozenset(None if part == "\0N" else part for part in [*parts, text])


@dataclass
class Expected:
    """What the spec promised: its roles and the rounding step of each quasi-identifier, in the column's unit."""

    k: int
    quasi_identifiers: Sequence[str]
    blocking: Sequence[str] = ()
    confidential: Sequence[str] = ("tag",)
    steps: dict[str, Fraction] = field(default_factory=dict)
    #: Attributes whose mean may be off by this much beside the rounding (floating point).
    slack: dict[str, float] = field(default_factory=dict)
    merged: bool = True
    suppressed: int = 0
    #: Cells of each quasi-identifier that had a value and are released without one.
    blanked: dict[str, int] = field(default_factory=dict)


def check_release(before: pa.Table, after: pa.Table, expected: Expected) -> None:
    """Everything that a release promises, of which its own files and the input are proof enough."""
    assert after.num_rows == before.num_rows - expected.suppressed
    released = {*expected.quasi_identifiers, *expected.blocking, *expected.confidential}
    assert after.column_names == [name for name in before.column_names if name in released]
    _check_types(before, after, expected)
    place = {tag: row for row, tag in enumerate(before["tag"].to_pylist())}
    rows = [place.pop(tag) for tag in after["tag"].to_pylist()]
    assert len(place) == expected.suppressed
    came = before.take(pa.array(rows, pa.int64()))
    for name in expected.confidential:
        assert exact(came[name]) == exact(after[name]), f"confidential {name!r}"
    _check_blocking(came, after, expected)
    _check_k(after, expected)
    _check_groups(came, after, expected)


def _check_types(before: pa.Table, after: pa.Table, expected: Expected) -> None:
    for name in after.column_names:
        kind = without_dictionary(before[name]).type
        if name in expected.blocking and expected.merged:
            kind = pa.string()
        if expected.steps.get(name) == 0:  # 'none': the mean as it is
            kind = pa.float64()
        assert after[name].type == kind, name


def _check_blocking(came: pa.Table, after: pa.Table, expected: Expected) -> None:
    keys = {name: _as_key(without_dictionary(came[name])) for name in expected.blocking}
    if not expected.merged:
        for name in expected.blocking:
            assert exact(keys[name]) == exact(after[name]), f"blocking {name!r}"
        return
    texts = {name: key.cast(pa.string()).to_pylist() for name, key in keys.items()}
    labels = {name: after[name].to_pylist() for name in expected.blocking}
    for name in expected.blocking:
        for text, label in zip(texts[name], labels[name], strict=True):
            assert text in parse_label(label), f"blocking {name!r}"
    # Where nothing was merged under a label, all its records share their values; a merged list says just what is there.
    held: dict[Key, list[set[Any]]] = defaultdict(lambda: [set() for _ in expected.blocking])
    for row, key in enumerate(zip(*labels.values(), strict=True)):
        for j, name in enumerate(expected.blocking):
            held[key][j].add(texts[name][row])
    for key, found in held.items():
        assert [parse_label(label) for label in key] == found


def _as_key(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_floating(column.type):
        return column
    values = [None if v is None or v != v else v + 0.0 for v in column.to_pylist()]
    return pa.chunked_array([pa.array(values, column.type)])


def combinations(after: pa.Table, expected: Expected) -> dict[Key, list[int]]:
    """Row numbers of each combination of blocking values and released quasi-identifiers, nulls as values."""
    columns = [exact(after[name]) for name in (*expected.blocking, *expected.quasi_identifiers)]
    found: dict[Key, list[int]] = defaultdict(list)
    for row, key in enumerate(zip(*columns, strict=True)):
        found[key].append(row)
    return found


def _check_k(after: pa.Table, expected: Expected) -> None:
    sizes = Counter(map(len, combinations(after, expected).values()))
    assert min(sizes) >= expected.k, sizes


def _check_groups(came: pa.Table, after: pa.Table, expected: Expected) -> None:
    """A released value is the mean of the records that share it, rounded; so means are kept, group by group."""
    groups = combinations(after, expected).values()
    for name in expected.quasi_identifiers:
        original, masked = numbers(came[name]), numbers(after[name])
        nulls = [(v is None, w is None) for v, w in zip(original, masked, strict=True)]
        assert (True, False) not in nulls, f"{name} has a value that nobody gave"
        assert nulls.count((False, True)) == expected.blanked.get(name, 0), name
        by_rule = name in expected.steps
        half = (expected.steps[name] if by_rule else _step(came[name])) / 2
        error = _rounding_error(after[name].type, original)
        for rows in groups:
            if masked[rows[0]] is None:
                continue
            values = [original[row] for row in rows]
            mean = sum(values, Fraction(0)) / len(values)  # type: ignore[arg-type]
            allowed = half + Fraction(expected.slack.get(name, 0.0)) + error
            assert abs(masked[rows[0]] - mean) <= allowed, name  # type: ignore[operator]
            if not by_rule:  # without a rule of the spec rounding keeps a mean in the range of its group
                assert min(values) <= masked[rows[0]] <= max(values), name  # type: ignore[operator, type-var]


def _step(column: pa.ChunkedArray) -> Fraction:
    """The step to which means are rounded by default, in the column's own unit.

    For floats a tenth of the last decimal in any of their shortest texts, if these are short; else none.
    """
    kind = without_dictionary(column).type
    if pa.types.is_decimal(kind):
        return Fraction(1, 10**kind.scale)
    if not pa.types.is_floating(kind):
        return Fraction(1)
    single = pa.types.is_float32(kind)
    there = [v for v in column.to_pylist() if v is not None and v == v]
    texts = [Decimal(str(np.float32(v)) if single else repr(v)).normalize() for v in there]
    decimals = max((max(0, -int(text.as_tuple().exponent)) for text in texts), default=0)
    short = all(abs(text.scaleb(decimals)) < (2**23 if single else 10**14) for text in texts) and decimals <= 21
    return Fraction(1, 10 ** (decimals + 1)) if short else Fraction(0)


def _rounding_error(kind: pa.DataType, values: Sequence[Fraction | None]) -> Fraction:
    """Four units in the last place of the column's largest magnitude: that is what means in float64 can promise."""
    largest = max((abs(v) for v in values if v is not None), default=Fraction(0))
    return largest * Fraction(4, 2 ** (23 if kind == pa.float32() else 52))


def mean_of(column: pa.ChunkedArray) -> float:
    there = [value for value in numbers(column) if value is not None]
    return float(sum(there, Fraction(0)) / len(there)) if there else math.nan
