"""Quasi-identifiers: Arrow columns to numbers and back.

A column becomes *ticks*: whole numbers, booleans, dates, timestamps and decimals as exact integers (of 64 bits; of
any size for decimals of more than 18 digits), floats as float64. Ticks are standardized with the moments of the whole
file; group means are taken of the ticks themselves, and rounded to the released type.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from microagg_core.errors import DataError, SpecError
from microagg_core.metrics.means import Groups, float_means, whole_means
from microagg_core.metrics.moments import Moments, Origin, middle, offsets_from, standardized, steadied
from microagg_core.tables.hashing import one_array

Floats = NDArray[np.float64]
_INT64_RANGE = (-(2**63), 2**63 - 1)
_MAX_NARROW_DECIMAL = 18  # digits that always fit 64 bits
_DAY_OF_DATE64 = 86_400_000
#: The rule where a spec has none: one decimal more than the input needs for floats, else the column's own type.
DEFAULT_ROUNDING = "default"


@dataclass(frozen=True)
class QuasiType:
    """How one quasi-identifier is read and released.

    ``step`` is the rounding step in ticks (0: not rounded); ``scale`` the power of ten of a decimal's tick; ``rule``
    the rounding as the spec asks for it; ``decimals`` how many decimals the means of floats are rounded to where that
    follows from the input.
    """

    name: str
    source_type: pa.DataType
    released_type: pa.DataType
    kind: Literal["int", "float"]
    step: float
    scale: int = 0
    rule: str | float = "type"
    decimals: int | None = None

    @property
    def applied_rule(self) -> str | float:
        """The rounding rule that is carried out, as a spec may have it: where it has none, what follows instead."""
        if self.decimals is not None:
            return float(f"1e-{self.decimals}")
        return "type" if self.rule == DEFAULT_ROUNDING else self.rule

    @property
    def is_single(self) -> bool:
        """Whether values come in single precision."""
        return bool(pa.types.is_float32(self.source_type))

    @property
    def range(self) -> tuple[int, int]:
        """Least and greatest tick of the source type, where ticks are whole numbers."""
        return _range_of(self.source_type)

    def for_input(self, decimals: int | None) -> QuasiType:
        """The same, once it is known how many decimals the column's floats need (None: more than are counted).

        >>> quasi_type("income", pa.float64(), DEFAULT_ROUNDING).for_input(2).applied_rule
        0.001
        """
        if self.kind != "float" or self.rule != DEFAULT_ROUNDING or decimals is None:
            return self
        return replace(self, decimals=decimals + 1)

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
        width = int(array.type.bit_width)
        whole = np.frombuffer(array.buffers()[1], dtype=np.int32 if width == 32 else np.int64)
        words = whole.reshape(-1, max(1, width // 64))[array.offset : array.offset + len(array)]
        words = np.where(np.asarray(pc.is_null(array))[:, None], 0, words)
        if array.type.precision <= _MAX_NARROW_DECIMAL:
            return words[:, 0].astype(np.int64)
        ticks = words[:, -1].astype(object)
        for lower in reversed(words.T[:-1]):
            ticks = (ticks << 64) + lower.astype(np.uint64)
        return np.asarray(ticks)

    def means(self, ticks: NDArray[Any], groups: Groups) -> NDArray[Any]:
        """Each group's released tick: a whole number, or float64 where so released.

        A group's mean lies within the group's range, and rounding keeps it there, but for a step that the spec asks
        for.
        """
        if self.kind == "float":
            return self._float_means(ticks, groups)
        exact = whole_means(ticks, groups)
        return exact.rounded(int(self.step), *self.range) if self.step else exact.as_floats(10**self.scale)

    def _float_means(self, values: Floats, groups: Groups) -> Floats:
        if self.decimals is not None:
            # Values of few decimals are whole numbers of their last one, and have exact means.
            tenths = np.rint(values * float(10 ** (self.decimals - 1))).astype(np.int64) * 10
            means = whole_means(tenths, groups).rounded(1, *_INT64_RANGE) / float(10**self.decimals)
        else:
            means = float_means(values, groups)
            if self.step:
                means = _to_steps(means, self.step)
        if self.released_type == pa.float32():
            means = means.astype(np.float32).astype(np.float64)
        return means + 0.0  # -0.0 and 0.0 are one value to a reader, so they are one combination

    def released_offsets(self, ticks: NDArray[Any], origin: Origin) -> Floats:
        """What :meth:`rounded` released, as offsets from the origin again."""
        if self.kind == "int" and not self.step:
            nearest = float(origin)
            return (ticks * 10.0**self.scale - nearest) - float(origin - int(nearest))
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
        words = np.empty((len(ticks), 2), dtype=np.int64)
        words[:, 1] = ticks >> 63 if ticks.dtype != object else ticks >> 64
        words[:, 0] = ticks if ticks.dtype != object else (ticks & (2**64 - 1)).astype(np.uint64).view(np.int64)
        validity = None if mask is None else pa.array(~mask).buffers()[1]
        return pa.Array.from_buffers(self.released_type, len(ticks), [validity, pa.py_buffer(words)])


def _to_steps(values: Floats, step: float) -> Floats:
    """Rounded to multiples of a step: to 0.3 where the step is 0.1, and not to 3 * 0.1, which is another float.

    Floats so large that the step is below their last place stay as they are.
    """
    in_one = round(1.0 / step) if step < 1.0 else 0
    with np.errstate(over="ignore"):
        if in_one and 1.0 / in_one == step:
            steps = values * in_one
            rounded = np.rint(steps) / in_one
        else:
            steps = values / step
            rounded = np.rint(steps) * step
    return np.where(np.abs(steps) < 2.0**53, rounded, values)


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

    ``rounding`` is the spec's rule for the column, or :data:`DEFAULT_ROUNDING` where it has none.

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
    is_float = pa.types.is_floating(kind)
    scale = int(kind.scale) if pa.types.is_decimal(kind) else 0
    if rounding == "none":
        if temporal or pa.types.is_boolean(kind):
            raise SpecError(
                f"rounding.{name}: a column of type {kind} is always released in its own type; leave it at 'type'"
            )
        return QuasiType(name, kind, pa.float64(), "float" if is_float else "int", 0.0, scale, rounding)
    if is_float:
        step = 0.0 if isinstance(rounding, str) else float(rounding)
        return QuasiType(name, kind, kind, "float", step, scale, rounding)
    return QuasiType(name, kind, kind, "int", _whole_step(name, kind, rounding, scale), scale, rounding)


def _whole_step(name: str, kind: pa.DataType, rounding: str | float, scale: int) -> float:
    """The rounding step in ticks of a type of whole numbers."""
    if isinstance(rounding, str):
        # A day is what a date has; its milliseconds are how it is written.
        return float(_DAY_OF_DATE64) if pa.types.is_date64(kind) else 1.0
    # In decimal arithmetic, in which 0.29 is 29 hundredths.
    step = float(decimal.Decimal(repr(float(rounding))).scaleb(scale))
    if step != int(step):
        unit = "days" if pa.types.is_date32(kind) else f"steps of {kind}"
        raise SpecError(f"rounding.{name}: must be a whole number of {unit} for a column of type {kind}, or 'none'")
    if step > _range_of(kind)[1]:
        raise SpecError(f"rounding.{name}: a step beyond the greatest {kind} leaves nothing but 0; take a smaller one")
    return step


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

    def ticks(self, columns: list[pa.ChunkedArray | pa.Array]) -> tuple[list[NDArray[Any]], NDArray[np.bool_]]:
        """Exact ticks of each quasi-identifier, and which values are missing (n x p)."""
        ticks = []
        missing = np.zeros((len(columns[0]), len(self.types)), dtype=np.bool_)
        for j, kind in enumerate(self.types):
            values, missing[:, j] = kind.ticks(columns[j])
            ticks.append(values)
        return ticks, missing

    def offsets_of(self, ticks: list[NDArray[Any]]) -> Floats:
        """Ticks as offsets from the origins (n x p)."""
        offsets = np.empty((len(ticks[0]), len(self.types)))
        for j, (values, origin) in enumerate(zip(ticks, self.origins, strict=True)):
            offsets[:, j] = offsets_from(values, origin)
        return offsets

    def offsets(self, columns: list[pa.ChunkedArray | pa.Array]) -> tuple[Floats, NDArray[np.bool_]]:
        """Offsets from the origins (n x p) and which values are missing."""
        ticks, missing = self.ticks(columns)
        return self.offsets_of(ticks), missing

    def standardize(self, offsets: Floats, missing: NDArray[np.bool_] | None = None) -> Floats:
        """Offsets to standardized values; missing values become 0 and take no part in anything."""
        z = standardized(offsets, np.array(self.means), np.array(self.deviations))
        if missing is not None and missing.any():
            z[missing] = 0.0
        return z
