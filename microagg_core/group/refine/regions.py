"""Regions of records: groups near each other, whole, and their records, so that each can be improved on its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts

#: An attribute may be cut across whose middle half of groups is so wide, beside that of the widest; so many tell.
_WIDE, _SAMPLE = 0.5, 500
#: By which part of the groups a border is moved when the same attribute comes again.
_SHIFTS = (0.0, -0.05, 0.05)
#: Beside its middle half, an attribute is so wide in all only where tails are long. The few groups there lose much, and
#: a cut across any other attribute parts them: so every other time the outer groups are cut off from the inner ones.
_LONG_TAILS = 8.0


@dataclass(frozen=True)
class Spread:
    """Groups of records: who is in which, and of each group its size, 0 where a number is unused, and its centre."""

    label: Ints
    size: Ints
    centre: Floats

    @classmethod
    def empty(cls, n: int, slots: int, width: int) -> Spread:
        """Room for the groups of n records."""
        return cls(np.empty(n, dtype=np.int64), np.zeros(slots, dtype=np.int64), np.zeros((slots, width)))


@dataclass(frozen=True)
class Regions:
    """Records by region.

    Of each group, ``number`` is what it is called within its region. ``records`` has those of the regions one after the
    other, in their order within each, ``position`` says where each record stands there. Region i's are those from
    ``starts[i]`` to ``starts[i + 1]``, and its groups get numbers from ``slots[i]`` to ``slots[i + 1]``.
    """

    number: Ints
    records: Ints
    position: ShortInts
    starts: Ints
    slots: Ints

    @classmethod
    def of(cls, groups: Spread, count: int, k: int, turn: int) -> Regions:
        """So many regions, drawn otherwise at each turn."""
        number, region = np.zeros(len(groups.size), dtype=np.int64), np.zeros(len(groups.size), dtype=np.int16)
        for i, rows in enumerate(_drawn(groups.centre, np.flatnonzero(groups.size), count, turn)):
            number[rows], region[rows] = np.arange(len(rows)), i
        of_records = region[groups.label]
        records = np.argsort(of_records, kind="stable")
        position = np.empty(len(records), dtype=np.int32)
        position[records] = np.arange(len(records), dtype=np.int32)
        sizes = np.bincount(of_records, minlength=count)
        return cls(number, records, position, _from_0(sizes), _from_0(slot_count(sizes, k)))

    @property
    def count(self) -> int:
        """How many regions there are."""
        return len(self.starts) - 1


def slot_count(n: Ints, k: int) -> Ints:
    """How many numbers groups of so many records need: one more while records are on their way, and one to spare."""
    return n // k + 2


def _from_0(sizes: Ints) -> Ints:
    """Where each of such sizes starts, and where the last ends."""
    return np.concatenate([[0], np.cumsum(sizes)])


def _drawn(centre: Floats, rows: Ints, count: int, turn: int) -> list[Ints]:
    """Rows of centres in so many regions of about as many rows each."""
    if count == 1:
        return [rows]
    n = count // 2
    first, others = _parts(centre, rows, n / count, turn)
    return [*_drawn(centre, first, n, turn + 1), *_drawn(centre, others, count - n, turn + 1)]


def _parts(centre: Floats, rows: Ints, share: float, turn: int) -> tuple[Ints, Ints]:
    """About the share of rows that comes first along an attribute or outwards, and the others; cut elsewhere each turn.

    Values are only compared, and of equal ones the first rows come first: every machine cuts alike.
    """
    sample = np.sort(centre[rows[:: 1 + len(rows) // _SAMPLE]], axis=0)
    width = sample[3 * len(sample) // 4] - sample[len(sample) // 4]
    wide = [int(j) for j in np.argsort(-width, kind="stable") if width[j] >= _WIDE * width.max()]
    if turn % 2 and (sample[-1] - sample[0] > _LONG_TAILS * width).any():
        values = _squared_distances(centre[rows], sample[len(sample) // 2])
    else:
        values = centre[rows, wide[turn % len(wide)]]
    n_first = int((share + _SHIFTS[turn // len(wide) % len(_SHIFTS)]) * len(rows))
    border = np.partition(values, n_first)[n_first]
    is_first = values < border
    is_first[np.flatnonzero(values == border)[: n_first - np.count_nonzero(is_first)]] = True
    return rows[is_first], rows[~is_first]


def _squared_distances(points: Floats, centre: Floats) -> Floats:
    """Added up attribute by attribute, in one order on all machines."""
    total = np.zeros(len(points))
    for j in range(points.shape[1]):
        total += (points[:, j] - centre[j]) ** 2
    return total
