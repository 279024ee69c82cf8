"""Withheld records: never so few, nor so alone, that totals known elsewhere less those of the release give them away.

Who knows the totals of a whole file, or of a region, takes the release's from them: what is left are the sums of the
records that are withheld there. So in every *cell*, the keys that share their first blocking values, either nothing
is withheld, or everything, or at least k records of at least two keys; and the same of those records alone that have a
quasi-identifier, as its total is known apart. Where it is not so, the cell's smallest stratum is withheld too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from microagg_core.arrays import Bools, Ints, UInt64s
from microagg_core.blocks.merging import Sizes, prefix_groups
from microagg_core.errors import DataError

#: What is withheld beside the keys below k may be a tenth of the records: beyond it coarser blocks lose less than that.
MOST_ADDED = 0.1


@dataclass(frozen=True)
class CountedKeys:
    """Blocking keys and the strata that they became.

    Of each key: ``codes`` (of its pattern of missing values, then of its blocking values), in ascending order;
    ``pattern``, ``rows`` and ``stratum``. Of each stratum: ``depth`` leading codes are exact. Where keys of a stratum
    may have several patterns, ``blocking`` numbers their blocking values.
    """

    codes: Ints
    pattern: UInt64s
    rows: Ints
    stratum: Ints
    depth: Ints
    blocking: Ints | None = None
    #: What else is known of the keys; None where each unit has one row.
    sizes: Sizes | None = None

    @cached_property
    def first(self) -> Ints:
        return np.unique(self.stratum, return_index=True)[1]

    def units(self, chosen: Bools, number: Ints, n: int) -> Ints:
        """Count the units of chosen keys by the number that each key has, of those in several keys perhaps too few."""
        sizes = Sizes.of(self.rows) if self.sizes is None else self.sizes
        return sizes[chosen].of_strata(number[chosen], n).units


def withhold_enough(keys: CountedKeys, keep: Bools, k: int, levels: Iterable[int]) -> Bools:
    """Find the strata that are still released, once what is withheld tells of nobody.

    ``keep`` says which have k records. A cell is what shares as many leading blocking values as one of the ``levels``
    says; 0 is the whole file.

    >>> codes = np.array([[0, 0], [0, 1], [0, 2], [0, 3]])
    >>> keys = CountedKeys(codes, np.zeros(4, np.uint64), np.array([1, 9, 5, 85]), np.arange(4), np.full(4, 2))
    >>> withhold_enough(keys, np.array([False, True, True, True]), 3, [0]).tolist()
    [False, True, False, True]
    """
    if keep.all() or not keep.any():
        return keep
    cells = [(level, number_cells(keys.codes[:, 1 : 1 + level])) for level in sorted(levels, reverse=True)]
    rows = np.bincount(keys.stratum, weights=keys.rows, minlength=len(keep)).astype(np.int64)
    few, less, before = ~keep[keys.stratum], keep, None
    while before is None or (less != before).any():
        before = less
        for level, cell in cells:
            for has in _havers(keys.pattern, few, ~less[keys.stratum]):
                less = less & ~_lacking(keys, less, rows, cell, level, has, k)
    _refuse_too_much(rows, keep, less, k, are_labels_known=len(cells) > 1)
    return less


def number_cells(values: Ints) -> Ints:
    """Number each key's cell: keys with the same values, of whatever pattern, share one."""
    order = np.lexsort(values.T[::-1]) if values.shape[1] else np.arange(len(values))
    numbers = np.empty(len(values), dtype=np.int64)
    numbers[order] = prefix_groups(values[order])
    return numbers


def _havers(pattern: UInt64s, few: Bools, withheld: Bools) -> Iterator[Bools]:
    """All keys, and those whose records have a quasi-identifier, for each that some withheld record lacks.

    Where all of the ``few`` lack it, its totals tell nothing of them.
    """
    yield np.ones(len(pattern), dtype=np.bool_)
    lacked = int(np.bitwise_or.reduce(pattern[withheld], initial=np.uint64(0)))
    for bit in range(lacked.bit_length()):
        has = (pattern >> np.uint64(bit)) & np.uint64(1) == 0
        if lacked >> bit & 1 and (few & has).any():
            yield has


def _lacking(keys: CountedKeys, keep: Bools, rows: Ints, cell: Ints, level: int, has: Bools, k: int) -> Bools:
    """The strata to be withheld too: the smallest of each cell of which too little is withheld.

    One is enough, since it has k records, and another key than the withheld ones. A stratum that reaches beyond its
    cell is not the cell's, and a cell that releases nothing of its own tells nothing.
    """
    withheld, n_cells = has & ~keep[keys.stratum], int(cell.max()) + 1
    n_units = keys.units(withheld, cell, n_cells)
    n_keys = np.bincount(cell[withheld], minlength=n_cells)
    too_few = (n_keys > 0) & ((n_units < k) | (n_keys < 2))
    added = np.zeros(len(keep), dtype=np.bool_)
    if too_few.any():
        of_stratum = cell[keys.first]
        has_enough = keys.units(has, keys.stratum, len(keep)) >= k
        candidates = np.flatnonzero(keep & (keys.depth > level) & has_enough & too_few[of_stratum])
        ordered = candidates[np.lexsort((candidates, rows[candidates], of_stratum[candidates]))]
        added[ordered[np.unique(of_stratum[ordered], return_index=True)[1]]] = True
    return added


def _refuse_too_much(rows: Ints, keep: Bools, less: Bools, k: int, are_labels_known: bool) -> None:
    few, more, n_rows = int(rows[~keep].sum()), int(rows[keep & ~less].sum()), int(rows.sum())
    if more > MOST_ADDED * n_rows:
        file = ", or say blocks.totals_known: file if no totals of blocking values are known"
        raise DataError(
            f"{few} records are of blocking keys or patterns of missing values with fewer than k={k}, and to withhold "
            f"them {more} more of {n_rows} would have to be withheld, as totals that are known elsewhere would tell of "
            "them; use blocks.undersized: merge or coarser blocking columns, fill in missing values or leave out such "
            f"records{file if are_labels_known else ''}"
        )


def keys_that_go(rows: Ints, waited: Ints, k: int, hold_until: int | None) -> tuple[Bools, Bools]:
    """Find the keys that are released by themselves tonight, and those that may be merged; the rest waits.

    With ``hold_until`` records a key is released by itself; ``waited`` is how many of its records have waited long
    enough. None where no key waits: then all may be merged.

    >>> rows, waited = np.array([60, 2, 9, 4]), np.array([0, 1, 0, 2])
    >>> by_itself, merging = keys_that_go(rows, waited, 3, 60)
    >>> by_itself.tolist(), merging.tolist()
    ([True, False, False, False], [False, True, False, True])
    """
    if hold_until is None:
        return np.zeros(len(rows), dtype=np.bool_), np.ones(len(rows), dtype=np.bool_)
    by_itself = rows >= max(hold_until, k)
    return by_itself, ~by_itself & (waited > 0)
