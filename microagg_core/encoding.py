"""Quasi-identifiers: Arrow columns to numbers and back.

A column becomes *ticks*: whole numbers, booleans, dates, timestamps and decimals of up to 18 digits as exact
64-bit integers, everything else as float64. Ticks are standardized with the moments of the whole file; group
means are taken of the ticks' offsets from the file's origin, and rounded back to the released type.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from microagg_core.errors import DataError, SpecError
from microagg_core.metrics.moments import Moments, Origin, middle, offsets_from, standardized, steadied
from microagg_core.tables.hashing import one_array

Floats = NDArray[np.float64]
_MAX_EXACT_DECIMAL = 18  # digits that always fit 64 bits


@dataclass(frozen=True)
class QuasiType:
    """How one quasi-identifier is read and released.

    ``step`` is the rounding step in ticks (0: not rounded); ``scale`` the power of ten of a decimal's tick.
    """

    name: str
    source_type: pa.DataType
    released_type: pa.DataType
    kind: Literal["int", "float"]
    step: float
    scale: int = 0

    def ticks(self, column: pa.ChunkedArray | pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The column's ticks, and which of them are missing (null or NaN); ticks under a missing value are 0."""
        array = one_array(column)
        missing = np.asarray(pc.is_null(array, nan_is_null=True))
        kind = array.type
        if pa.types.is_boolean(kind):
            values = np.asarray(pc.fill_null(array, False)).astype(np.int64)
        elif pa.types.is_floating(kind):
            values = np.asarray(pc.fill_null(array, 0.0)).astype(np.float64)
        elif pa.types.is_decimal(kind):
            values = self._decimal_ticks(array)
        elif pa.types.is_unsigned_integer(kind):
            values = np.asarray(pc.fill_null(array, 0)).astype(np.uint64)
        else:
            width = pa.int32() if kind.bit_width == 32 else pa.int64()
            whole = array if pa.types.is_integer(kind) else array.view(width)
            values = np.asarray(pc.fill_null(whole, 0)).astype(np.int64)
        if missing.any():
            values = np.where(missing, values.dtype.type(0), values)
        return values, missing

    def _decimal_ticks(self, array: pa.Array) -> NDArray[Any]:
        if self.kind == "float":
            return np.asarray(pc.fill_null(pc.cast(array, pa.float64()), 0.0))
        words = np.frombuffer(array.buffers()[1], dtype=np.int64).reshape(-1, 2)
        low = words[array.offset : array.offset + len(array), 0]
        return np.where(np.asarray(pc.is_null(array)), 0, low)

    def rounded(self, offsets: Floats, origin: Origin) -> NDArray[Any]:
        """Released ticks for means given as offsets from ``origin``: int64/uint64, or float64 where so released."""
        if self.kind == "int" and self.step:
            return self._rounded_whole(offsets, int(origin))
        values = offsets + float(origin)
        if self.kind == "int":
            values = offsets / 10.0**self.scale + float(origin) / 10.0**self.scale
        elif self.step:
            values = _to_steps(values, self.step)
        if self.released_type == pa.float32():
            values = values.astype(np.float32).astype(np.float64)
        return values + 0.0  # -0.0 and 0.0 are one value to a reader, so they are one combination

    def _rounded_whole(self, offsets: Floats, origin: int) -> NDArray[Any]:
        step = int(self.step)
        rest = origin % step
        # Only the small offset is rounded in floating point; the origin is added in integers.
        # Halves go to the even neighbour, counted from zero and not from wherever the origin lies.
        odd = (origin - rest) // step % 2
        steps = _to_int64(np.rint((offsets + rest) / step + odd) - odd)
        low, high = _range_of(self.source_type)
        least = -((origin - rest - low) // step)
        greatest = (high - (origin - rest)) // step
        steps = np.clip(steps, max(least, -(2**63)), min(greatest, 2**63 - 1))
        base = np.uint64((origin - rest) % 2**64)
        ticks = base + (steps * step).view(np.uint64)
        return ticks if pa.types.is_unsigned_integer(self.source_type) else ticks.view(np.int64)

    def released_offsets(self, ticks: NDArray[Any], origin: Origin) -> Floats:
        """What :meth:`rounded` released, as offsets from the origin again."""
        if self.kind == "int" and not self.step:
            return ticks * 10.0**self.scale - float(origin)
        return offsets_from(ticks, origin)

    def to_arrow(self, ticks: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Array:
        """Released ticks as a column of the released type."""
        mask = None if missing is None or not missing.any() else missing
        target = self.released_type
        if pa.types.is_decimal(target):
            return self._decimals(ticks, mask)
        if np.issubdtype(ticks.dtype, np.floating):
            return pa.array(ticks, type=pa.float64(), mask=mask, from_pandas=False).cast(target)
        whole = pa.array(ticks, mask=mask)
        if pa.types.is_boolean(target) or pa.types.is_integer(target):
            return whole.cast(target)
        return whole.cast(pa.int32() if target.bit_width == 32 else pa.int64()).view(target)

    def _decimals(self, ticks: NDArray[Any], mask: NDArray[np.bool_] | None) -> pa.Array:
        target = self.released_type
        if self.kind == "int":
            words = np.empty((len(ticks), 2), dtype=np.int64)
            words[:, 0], words[:, 1] = ticks, ticks >> 63
            validity = None if mask is None else pa.array(~mask).buffers()[1]
            return pa.Array.from_buffers(target, len(ticks), [validity, pa.py_buffer(words)])
        context = decimal.Context(prec=76)
        quantum = decimal.Decimal(1).scaleb(-target.scale)
        # As a float, the greatest value of 30 digits is one that needs 31.
        greatest = decimal.Decimal(10**target.precision - 1).scaleb(-target.scale, context=context)
        exact = (decimal.Decimal(repr(float(t))).quantize(quantum, context=context) for t in ticks)
        return pa.array([max(-greatest, min(value, greatest)) for value in exact], type=target, mask=mask)


def _to_steps(values: Floats, step: float) -> Floats:
    """Rounded to multiples of a step: to 0.3 where the step is 0.1, and not to 3 * 0.1, which is another float."""
    in_one = round(1.0 / step) if step < 1.0 else 0
    if in_one and 1.0 / in_one == step:
        return np.asarray(np.rint(values * in_one) / in_one)
    return np.asarray(np.rint(values / step) * step)


def _to_int64(values: Floats) -> NDArray[np.int64]:
    """Whole floats as integers; 2**63, which the greatest integers become as floats, is taken for the greatest."""
    too_large = values >= 2.0**63
    return np.where(too_large, np.int64(2**63 - 1), np.where(too_large, 0.0, values).astype(np.int64))


def _range_of(kind: pa.DataType) -> tuple[int, int]:
    """Least and greatest tick of a type."""
    if pa.types.is_boolean(kind):
        return 0, 1
    if pa.types.is_decimal(kind):
        return -(10**kind.precision) + 1, 10**kind.precision - 1
    bits = int(kind.bit_width)
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def quasi_type(name: str, kind: pa.DataType, rounding: str | float) -> QuasiType:
    """How the column ``name`` of type ``kind`` is encoded and released.

    Raises:
        DataError: a type that has no mean (text, bytes, times of day, durations are refused too).
        SpecError: a rounding that does not fit the type.

    >>> quasi_type("age", pa.int16(), 5.0).step
    5.0
    """
    temporal = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    if not (
        temporal
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        raise DataError(
            f"quasi-identifier {name!r} has the type {kind}, which has no mean; it must be numeric, a date or a "
            "timestamp (for CSV declare its type under input.csv.types, else make it blocking or confidential)"
        )
    is_float = pa.types.is_floating(kind) or (pa.types.is_decimal(kind) and kind.precision > _MAX_EXACT_DECIMAL)
    scale = int(kind.scale) if pa.types.is_decimal(kind) else 0
    if rounding == "none":
        if temporal or pa.types.is_boolean(kind):
            raise SpecError(
                f"rounding.{name}: a column of type {kind} is always released in its own type; leave it at 'type'"
            )
        return QuasiType(name, kind, pa.float64(), "float" if is_float else "int", 0.0, scale)
    if is_float:
        step = 0.0 if rounding == "type" else float(rounding)
        return QuasiType(name, kind, kind, "float", step, scale)
    # In decimal arithmetic, in which 0.29 is 29 hundredths.
    step = 1.0 if rounding == "type" else float(decimal.Decimal(repr(float(rounding))).scaleb(scale))
    if step != int(step):
        unit = "days" if pa.types.is_date32(kind) else f"steps of {kind}"
        raise SpecError(f"rounding.{name}: must be a whole number of {unit} for a column of type {kind}, or 'none'")
    return QuasiType(name, kind, kind, "int", step, scale)


@dataclass(frozen=True)
class Encoding:
    """The whole file's standardization: per quasi-identifier its type, origin, mean and deviation."""

    types: tuple[QuasiType, ...]
    origins: tuple[Origin, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]

    @classmethod
    def from_moments(cls, types: tuple[QuasiType, ...], moments: tuple[Moments, ...]) -> Encoding:
        """Standardize with these moments: mean 0, population variance 1; a constant attribute becomes 0."""
        origins = tuple(middle(m.least, m.greatest) for m in moments)
        means = tuple(m.mean_from(origin) for m, origin in zip(moments, origins, strict=True))
        return cls(types, origins, means, tuple(m.deviation for m in moments))

    @classmethod
    def steady(cls, types: tuple[QuasiType, ...], moments: tuple[Moments, ...]) -> Encoding:
        """The same to 24 bits, for moments that were merged from parts.

        >>> kind = quasi_type("x", pa.float64(), "type")
        >>> Encoding.steady((kind,), (Moments(10, 2.0, 0.1, 10.0, 0, 0.0, 4.0),)).deviations
        (1.0,)
        """
        return cls.from_moments(types, moments).steadied()

    def steadied(self) -> Encoding:
        """Means and deviations to 24 bits: the scale on which groups are made."""
        pairs = [steadied(*of) for of in zip(self.origins, self.means, self.deviations, strict=True)]
        return Encoding(self.types, self.origins, tuple(m for m, _ in pairs), tuple(d for _, d in pairs))

    def least_stretch(self, other: Encoding) -> float:
        """At least so many times a squared distance on this scale is that on another of the same attributes.

        >>> kind = quasi_type("x", pa.float64(), "type")
        >>> Encoding((kind,), (0.0,), (0.0,), (2.0,)).least_stretch(Encoding((kind,), (0.0,), (0.0,), (4.0,)))
        0.2499999999999991
        """
        pairs = zip(self.deviations, other.deviations, strict=True)
        return min(((mine / its) ** 2 for mine, its in pairs if its > 0), default=1.0) * (1.0 - 2.0**-48)

    def offsets(self, columns: list[pa.ChunkedArray | pa.Array]) -> tuple[Floats, NDArray[np.bool_]]:
        """Offsets from the origins (n x p) and which values are missing."""
        n = len(columns[0])
        offsets = np.empty((n, len(self.types)))
        missing = np.zeros((n, len(self.types)), dtype=np.bool_)
        for j, (kind, origin) in enumerate(zip(self.types, self.origins, strict=True)):
            ticks, missing[:, j] = kind.ticks(columns[j])
            offsets[:, j] = offsets_from(ticks, origin)
        return offsets, missing

    def standardize(self, offsets: Floats, missing: NDArray[np.bool_] | None = None) -> Floats:
        """Offsets to standardized values; missing values become 0 and take no part in anything."""
        z = standardized(offsets, np.array(self.means), np.array(self.deviations))
        if missing is not None and missing.any():
            z[missing] = 0.0
        return z
