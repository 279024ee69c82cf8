"""Arrivals that look like people who are gone: their confidential values are those of one who was released before.

Values that two released units have, or two arrivals, say nothing, so who has them is left out; so many may have zeros.
How many would meet by chance, the values of all who were released tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, UInt64s
from microagg_core.errors import GateError
from microagg_core.series.ranges import MOST_UNITS
from microagg_core.spec.release import ReleaseSpec

#: Of all ranges together so many words, the least ones, of each kind are looked at: 32 MiB where the process decides.
_MOST_WORDS = 4 * MOST_UNITS
_LEAST_WORDS = 4096
#: Arrivals are refused where this share of them, or of those who left, has the other's values.
_MOSTLY = 0.5
#: However many values there are, at most this share meets just one of the others by chance: x exp(-x) at x = 1.
_MOST_BY_CHANCE = 0.37
#: How far from what is expected chance may come, in standard deviations.
_SPREAD = 4.0


@dataclass(frozen=True)
class Likeness:
    """Counts of units whose confidential values nobody else of their kind has.

    Attributes:
        left: who was released before and is not in tonight's input.
        arrived: who is in it, and was in no night's before.
        alike: how many of one kind have the values of one of the other.
        chance: how likely the fewer of both kinds are to meet one of the others by chance, each.
    """

    left: int
    arrived: int
    alike: int
    chance: float

    @property
    def is_mostly(self) -> bool:
        """Whether most of those who left, or of those who arrived, are alike."""
        return self.alike >= _MOSTLY * min(self.left, self.arrived) and not self._is_expected(_SPREAD)

    @property
    def is_told(self) -> bool:
        """Whether more are alike than chance makes, as a rule."""
        return not self._is_expected(1.0)

    def _is_expected(self, spread: float) -> bool:
        expected = self.chance * min(self.left, self.arrived)
        return bool(self.alike <= expected + spread * expected**0.5)

    def sentence(self) -> str:
        """What to tell the operator."""
        return (
            f"{self.alike} of {self.arrived} arrivals have just the confidential values of one of {self.left} units "
            "that left (of those whose values nobody else has): if ids were changed, the same people are released "
            "again as others, against which a series does not protect"
        )


def words_of_range(released: UInt64s, is_gone: Bools, arrived: UInt64s, n_ranges: int) -> pa.Table:
    """Words of one range of units: the least ones of who is gone, and of who arrived, with a mark of where they end.

    Args:
        released: a word of the last released row of each unit that was released before.
        is_gone: which of them are not in tonight's input.
        arrived: words of the rows of units that no night has seen before.
        n_ranges: how many ranges there are.
    """
    most = max(_LEAST_WORDS, _MOST_WORDS // n_ranges)
    values, first, n = np.unique(released, return_index=True, return_counts=True)
    gone, come = values[(n == 1) & is_gone[first]], np.sort(arrived)
    cut = [words[most] for words in (gone, come) if len(words) > most]
    limit = min(cut, default=np.iinfo(np.uint64).max)
    words = np.concatenate([gone[gone < limit], come[come < limit]])
    left = np.arange(len(words)) < int((gone < limit).sum())
    return pa.table({"word": words, "left": left, "limit": np.full(len(words), limit, dtype=np.uint64)})


def likeness_of(ranges: Sequence[pa.Table], released: int, alone: int, greatest: int) -> Likeness:
    """Compare who is gone with who arrived, over all ranges; estimates where there are too many to look at all.

    Args:
        ranges: words of each range.
        released: how many units were released before.
        alone: of how many of them nobody else in their range had the values.
        greatest: the greatest word that there may be.
    """
    table = pa.concat_tables(ranges)
    word, is_left, limits = (np.asarray(table[name]) for name in ("word", "left", "limit"))
    limit = int(limits.min(initial=np.iinfo(np.uint64).max))
    kinds = [np.unique(word[(word < limit) & which], return_counts=True) for which in (is_left, ~is_left)]
    left, arrived = (words[n == 1] for words, n in kinds)
    share = min(1.0, limit / greatest)
    alike = np.intersect1d(left, arrived, assume_unique=True)
    n_left, n_arrived, n_alike = (round(len(words) / share) for words in (left, arrived, alike))
    # Of n values out of V a share of exp(-n / V) comes once; and one more is a certain one with 1 / V.
    per_unit = -np.log(alone / (released + 1)) * len(ranges) / released if alone else np.inf
    others = max(n_left * released / alone if alone else 0.0, int(kinds[1][1].sum()) / share)
    return Likeness(n_left, n_arrived, n_alike, float(min(_MOST_BY_CHANCE, others * per_unit)))


def refuse_renamed(spec: ReleaseSpec, likeness: Likeness) -> str:
    """Stop where most arrivals look like people under other ids; a warning where more do than by chance, or nothing.

    Raises:
        GateError: they do, at least k of them, and the spec does not say that they are others.
    """
    is_meant = spec.unit != "row" and set(spec.acknowledge.equal_arrivals).issuperset(spec.unit)
    if is_meant or not likeness.is_told:
        return ""
    if likeness.alike < spec.k or not likeness.is_mostly:
        return likeness.sentence()
    raise GateError(
        f"{likeness.sentence()}; bring every unit under the id that it had, or, if these are others, list "
        f"{', '.join(spec.unit)} under acknowledge.equal_arrivals"
    )
