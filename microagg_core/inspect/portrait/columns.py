"""Quasi-identifiers as numbers in the unit in which they are shown, before and after, and such numbers in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Floats
from microagg_core.data.kinds.contract import Kind
from microagg_core.group.metrics.statistics import readable

#: Units in which a picture has numbers, while a person reads a calendar.
_CALENDAR = ("days", "seconds")
#: Significant digits of a number in words: as few of these as tell all numbers apart.
_DIGITS = (6, 10, 13, 17)


@dataclass(frozen=True)
class ShownColumn:
    """One quasi-identifier, in its unit.

    >>> import pyarrow as pa
    >>> from microagg_core.data.kinds.registry import kind_of
    >>> born = ShownColumn(kind_of("born", pa.date32()))
    >>> born.unit, born.words([-365.0]), ShownColumn(kind_of("income", pa.float64())).words([12000.0, 0.5])
    ('days', ('1969-01-01',), ('12,000', '0.5'))
    >>> ShownColumn(kind_of("year", pa.int16())).words([1945.0, 1960.0])
    ('1945', '1960')
    """

    kind: Kind

    @property
    def unit(self) -> str | None:
        """Days or seconds since 1970; None for the column's own."""
        name = self.kind.unit.name
        return name if name in _CALENDAR else None

    @property
    def ticks_before(self) -> float:
        """How many ticks of the input make a unit; those of a release may be others."""
        return type(self.kind)(self.kind.name, self.kind.source_type).unit.ticks

    def before(self, column: pa.ChunkedArray | pa.Array) -> Floats:
        """The input's values; NaN where one is missing."""
        ticks, missing = self.kind.ticks(column)
        return np.where(missing, np.nan, ticks.astype(np.float64) / self.ticks_before)

    def after(self, column: pa.ChunkedArray | pa.Array) -> Floats:
        """The released values; NaN where one is missing."""
        ticks, missing = self.kind.reader.ticks(column)
        return np.where(missing, np.nan, ticks.astype(np.float64) / self.kind.unit.ticks)

    def words(self, numbers: Sequence[float]) -> tuple[str, ...]:
        """What a person reads, a different text for each number; of a part of a day, the day that begins next."""
        if pa.types.is_boolean(self.kind.source_type) and {*numbers} <= {0.0, 1.0}:
            return tuple("true" if number else "false" for number in numbers)
        if self.unit is None:
            apart = any(abs(number) >= 10_000 for number in numbers)  # years have no commas
            forms = [[readable(number, digits, apart=apart) for number in numbers] for digits in _DIGITS]
            return tuple(next((words for words in forms if len({*words}) == len({*numbers})), forms[-1]))
        words = [self._moment(number) for number in numbers]
        midnight = f"T00:00:00{'Z' if words and words[0].endswith('Z') else ''}"
        at_midnight = all(word.endswith(midnight) for word in words)
        return tuple(word.removesuffix(midnight) if at_midnight else word for word in words)

    def _moment(self, number: float) -> str:
        if self.unit == "seconds" and number != math.floor(number):
            seconds, micros = divmod(round(number * 10**6), 10**6)  # as one number it may need more than 64 bits
            return f"{np.datetime64(seconds, 's')}.{micros:06d}"
        return str(self.kind.shown(math.ceil(number) * self.kind.unit.ticks))


@dataclass(frozen=True)
class DrawnColumn:
    """One quasi-identifier of the drawn records, before and after; NaN where a value is missing."""

    shown: ShownColumn
    before: Floats
    after: Floats

    @property
    def there(self) -> Bools:
        """Which records have a value; infinite ones are in no release."""
        return np.isfinite(self.before) & np.isfinite(self.after)
