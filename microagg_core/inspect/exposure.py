"""What the rows of a release expose: their released combinations, beside what is true of the records that are asked.

From tables to arrays, for limits of the gate and for measures of risk. Which records are asked, and what an intruder
errs by, is drawn from record numbers: the same whoever does the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints, UInt64s
from microagg_core.data.kinds.contract import Claim
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.tables.hashing import hash_rows, one_array
from microagg_core.data.tables.ordering import as_key, combinations
from microagg_core.data.trees import CodedTree
from microagg_core.inspect.candidates import Candidates
from microagg_core.inspect.distributions import Distribution, GroupValues, codes_of
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.spec.release import RiskEffort

#: Records that are asked of a sampled release: a share of them is off by half a percent at most, mostly.
ASKED = 10_000
#: And never fewer than these, ...
LEAST_ASKED = 2_000
#: ... however many quasi-identifiers there are: a question costs what they are many.
_ASKED_VALUES = 80_000
#: Words that tell the draws of samples and of noise from each other, and from others of the same seed.
_SAMPLE, _NOISE = 0x5A3D, 0x7015E
_BITS = 53


@dataclass(frozen=True)
class ConfidentialValues:
    """A confidential column of some rows: equal codes are equal values, and 0 is none.

    Where the distribution over the whole release is there, codes are places in it; else it has too many values.
    """

    name: str
    codes: Ints
    distribution: Distribution | None


@dataclass(frozen=True)
class Cells:
    """Rows among which the values of one hide: those of its combination, in units of the same profile.

    The profile of a unit is all combinations that are released of its rows. Where each unit has one row, cells are
    combinations.
    """

    of_rows: Ints
    #: Of each cell, its combination, rows and units; each of these has equally many rows in it.
    groups: Ints
    rows: Ints
    units: Ints

    @classmethod
    def of(cls, groups: Ints, units: Ints) -> Cells:
        unit = np.unique(units, return_inverse=True)[1]
        profiles = np.zeros(int(unit.max(initial=-1)) + 1, dtype=np.uint64)
        np.add.at(profiles, unit, mix_words(groups.astype(np.uint64) + np.uint64(1)))  # 0 is mixed to 0
        whole = np.unique(profiles, return_inverse=True)[1][unit]
        keys = whole * (int(groups.max(initial=-1)) + 1) + groups
        _, first, of_rows, rows = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        of_units = np.unique(of_rows * len(profiles) + unit) // max(len(profiles), 1)
        return cls(of_rows, groups[first], rows, np.bincount(of_units))

    def share_a_value(self, codes: Ints, units: Ints) -> Bools:
        """Tell the cells of which all units that have any value have one in common, each in whichever row."""
        there, n = codes > 0, int(units.max(initial=0)) + 1
        cell, code, unit, base = self.of_rows[there], codes[there], units[there], int(codes.max(initial=0)) + 1
        values, which = np.unique(cell * base + code, return_inverse=True)
        having = np.bincount(np.unique(which * n + unit) // n)
        valued = np.bincount(np.unique(cell * n + unit) // n, minlength=len(self.rows))
        shared = valued == 0
        shared[values[having == valued[values // base]] // base] = True
        return np.asarray(shared)


@dataclass(frozen=True)
class ValuesShown:
    """Values of a confidential column that cells show."""

    #: How many distinct values each has.
    distinct: Ints
    #: The largest distance of one from the whole release; None where the column has too many values.
    distance: float | None


@dataclass(frozen=True)
class AskedRecords:
    """The records of which linkage and intervals are asked: their rows, and what the input has of them."""

    rows: Ints
    #: Private record numbers.
    records: Ints
    #: The input's quasi-identifiers on the scale of distances (asked x p); 0 where missing.
    values: Floats
    #: How wide a rank interval around each released value would have to be, see :func:`interval_widths`; NaN where the
    #: column's kind does not claim that order is kept.
    widths: Floats

    @classmethod
    def nobody(cls, p: int) -> AskedRecords:
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros((0, p)), np.zeros((0, p)))


@dataclass(frozen=True)
class Exposure:
    """The rows of a file by released combination and label, and what is true of them."""

    #: Quasi-identifiers by name.
    names: tuple[str, ...]
    #: The released combination of each row: 0, 1, ...
    groups: Ints
    #: The released blocking values of each combination: 0, 1, ..., in the order of their first rows.
    labels: Ints
    #: What is released of the quasi-identifiers, combination by combination, on the scale of distances.
    means: Floats
    missing: Bools
    confidential: tuple[ConfidentialValues, ...]
    asked: AskedRecords
    #: For each quasi-identifier, hashes of the input's values, row by row; None where these are not at hand and nobody
    #: is asked: survivors of a series keep what was released of them.
    originals: tuple[UInt64s, ...] | None = None
    seed: int = 0
    #: What a mismatch costs on the scale of distances, squared, where a quasi-identifier holds codes; None: none does.
    costs: Floats | None = None
    #: And the parents of codes that may be released, by quasi-identifier; empty: there are none.
    trees: tuple[CodedTree | None, ...] = ()
    #: The unit of each row, where units have several; None where they have one, and of survivors.
    units: Ints | None = None

    @cached_property
    def sizes(self) -> Ints:
        """Rows of each combination."""
        return np.bincount(self.groups)

    @cached_property
    def cells(self) -> Cells:
        if self.units is None:
            return Cells(self.groups, np.arange(len(self.sizes)), self.sizes, self.sizes)
        return Cells.of(self.groups, self.units)

    @cached_property
    def n_labels(self) -> int:
        return int(self.labels.max(initial=-1)) + 1

    @cached_property
    def rows_of_labels(self) -> Ints:
        return self.sum_by_label(self.sizes)

    @cached_property
    def shown(self) -> dict[str, ValuesShown]:
        """Find the values that cells show, by confidential column."""
        shown, cells = {}, self.cells
        for column in self.confidential:
            values, distance = GroupValues.of(column.codes, cells.of_rows, cells.rows), None
            if column.distribution is not None and len(cells.rows):
                distance = float(column.distribution.distances_of(values).max())
            shown[column.name] = ValuesShown(values.distinct, distance)
        return shown

    @cached_property
    def _sought(self) -> tuple[Ints, Ints]:
        """Find combinations of labels in which somebody is asked for, and the place among these of each who is."""
        own = self.groups[self.asked.rows]
        asked = np.bincount(self.labels[own], minlength=self.n_labels) > 0
        sought = np.flatnonzero(asked[self.labels])
        return sought, np.searchsorted(sought, own)

    @property
    def own(self) -> Ints:
        """The place of each asked record's combination among :meth:`candidates`."""
        return self._sought[1]

    def candidates(self, attributes: Sequence[int], sizes: Ints | None = None) -> Candidates:
        """Find those whom somebody may take for who is asked, if he knows these quasi-identifiers.

        ``sizes`` are of all combinations; without them they are counted in rows.
        """
        sought, columns = self._sought[0], list(attributes)
        means, missing = self.means[sought][:, columns], self.missing[sought][:, columns]
        costs = None if self.costs is None else self.costs[columns]
        trees = [self.trees[j] for j in columns] if self.trees else ()
        sizes = self.sizes if sizes is None else sizes
        return Candidates(means, missing, self.labels[sought], sizes[sought], costs, trees)

    @cached_property
    def all_candidates(self) -> Candidates:
        return self.candidates(range(len(self.names)))

    def sum_by_label(self, of_groups: NDArray[Any]) -> NDArray[Any]:
        sums = np.bincount(self.labels, weights=of_groups, minlength=self.n_labels)
        return sums.astype(np.int64) if of_groups.dtype.kind in "iub" else sums


def expose(
    encoding: Encoding,
    table: pa.Table,
    blocking: Sequence[str],
    confidential: Mapping[str, Distribution | None],
    records: Ints,
    origins: Sequence[pa.ChunkedArray | pa.Array] | None,
    *,
    asking: float = 1.0,
    seed: int = 0,
    grouped: tuple[Ints, Ints] | None = None,
    units: Ints | None = None,
) -> Exposure:
    """Look at a released table.

    Args:
        encoding: the kinds of the quasi-identifiers, which are columns of the table, and the scale of distances.
        table: the rows as they are released.
        blocking: columns of the table.
        confidential: columns of the table, and their distributions over the release, where they are known.
        records: the rows' private numbers, from which is drawn, with the seed.
        origins: row by row, the quasi-identifiers of the input; None where they are not at hand.
        asking: the share of records of which linkage and intervals are asked.
        grouped: the combination of each row and the first row of each, where they are known.
        units: the unit of each row, where units have several; all rows of a unit are asked, or none.
    """
    encoding = encoding.of_values
    names = tuple(kind.name for kind in encoding.kinds)
    groups, first = grouped or combinations([table[name] for name in (*blocking, *names)], table.num_rows)
    shown = table.select([*blocking, *names]).take(pa.array(first))
    labels = combinations([shown[name] for name in blocking], len(first))[0]
    offsets, missing = _released_offsets(encoding, shown)
    means = encoding.standardize(offsets, missing)
    values = tuple(_confidential(table, name, distribution) for name, distribution in confidential.items())
    nobody, costs = AskedRecords.nobody(len(names)), encoding.costs
    trees = tuple(kind.tree for kind in encoding.kinds)
    exposure = Exposure(
        names, groups, labels, means, missing, values, nobody, seed=seed, costs=costs, trees=trees, units=units
    )
    if origins is None:
        return exposure
    drawn = records if units is None else units
    rows = np.flatnonzero(is_asked(drawn, asking, seed)) if asking < 1.0 else np.arange(len(records))
    asked = _asked(encoding, offsets[groups[rows]], rows, records[rows], origins)
    hashes = tuple(hash_rows([as_key(one_array(column))], len(records), seed=j) for j, column in enumerate(origins))
    return replace(exposure, asked=asked, originals=hashes)


def _asked(
    encoding: Encoding,
    released: Floats,
    rows: Ints,
    records: Ints,
    origins: Sequence[pa.ChunkedArray | pa.Array],
) -> AskedRecords:
    """Gather what is true of some rows; by column, as the input's values of a file weigh as much as the file."""
    values, widths = np.zeros((len(rows), len(origins))), np.zeros((len(rows), len(origins)))
    missing = np.zeros(values.shape, dtype=np.bool_)
    for j, (kind, origin) in enumerate(zip(encoding.kinds, encoding.origins, strict=True)):
        ticks, none = kind.ticks(origins[j])
        offsets = kind.offsets(ticks, origin)
        values[:, j], missing[:, j] = offsets[rows], none[rows]
        there = ~missing[:, j]
        ascending = np.sort(offsets[~none] if none.any() else offsets)
        widths[there, j] = interval_widths(ascending, values[there, j], released[there, j])
        if Claim.ORDER_KEPT not in kind.claims:
            widths[:, j] = np.nan
    return AskedRecords(rows, records, encoding.standardize(values, missing), widths)


def interval_widths(ascending: Floats, values: Floats, released: Floats) -> Floats:
    """Measure how wide a rank interval around each released value must be to hold the true one, in percent of records.

    ``ascending`` are the column's values of all records, ``values`` and ``released`` of some.

    >>> interval_widths(np.arange(200.0), np.array([10.0, 12.0, 8.0]), np.array([10.4, 10.4, 10.4])).tolist()
    [0.0, 1.5, 1.5]
    """
    place = np.maximum(np.searchsorted(ascending, released, side="right") - 1, 0)
    first, last = (np.searchsorted(ascending, values, side) for side in ("left", "right"))
    ranks = np.maximum(np.maximum(first - place, place - (last - 1)), 0)
    # An interval reaches over whole records: its half is rounded, and so is a half record too little.
    return np.maximum(ranks - 0.5, 0.0) * (200.0 / max(len(ascending), 1))


def _released_offsets(encoding: Encoding, shown: pa.Table) -> tuple[Floats, Bools]:
    offsets = np.empty((shown.num_rows, len(encoding.kinds)))
    missing = np.zeros(offsets.shape, dtype=np.bool_)
    for j, (kind, origin) in enumerate(zip(encoding.kinds, encoding.origins, strict=True)):
        ticks, missing[:, j] = kind.reader.ticks(shown[kind.name])
        offsets[:, j] = kind.released_offsets(ticks, origin)
    # No release has such values, but a file that the gate is about to stop may.
    broken = ~np.isfinite(offsets)
    offsets[broken] = 0.0
    return offsets, missing | broken


def _confidential(table: pa.Table, name: str, distribution: Distribution | None) -> ConfidentialValues:
    """Code a column's values: places in its distribution, or where there is none, in the order as they come."""
    if distribution is not None:
        codes = distribution.codes(table[name])
        if codes.min(initial=0) >= 0:
            return ConfidentialValues(name, codes, distribution)
    return ConfidentialValues(name, codes_of(table[name]), None)


def asking_share(effort: RiskEffort, records: int, p: int) -> float:
    """Share of the records that are asked.

    >>> asking_share("full", 10**9, 4), asking_share("sampled", 5_000, 4), asking_share("sampled", 10**6, 4)
    (1.0, 1.0, 0.01)
    """
    if effort == "full" or not records:
        return 1.0
    return min(1.0, max(LEAST_ASKED, min(ASKED, _ASKED_VALUES // max(p, 1))) / records)


def is_asked(records: Ints, asking: float, seed: int) -> Bools:
    """Draw records by their numbers, about this share of all.

    >>> int(is_asked(np.arange(10_000), 0.25, 7).sum())
    2419
    """
    return np.asarray(uniform(records, seed, _SAMPLE) < asking, dtype=np.bool_)


def noise(records: Ints, p: int, seed: int) -> Floats:
    """Draw an intruder's errors: for each record and attribute a normal number of mean 0 and deviation 1.

    >>> errors = noise(np.arange(20_000), 2, 0)
    >>> errors.shape, abs(float(errors.mean())) < 0.01, round(float(errors.std()), 2)
    ((20000, 2), True, 1.0)
    """
    from scipy.special import ndtri

    columns = [ndtri(uniform(records, seed, _NOISE + j)) for j in range(p)]
    return np.column_stack(columns) if columns else np.zeros((len(records), 0))


def uniform(records: Ints, seed: int, word: int) -> Floats:
    """Draw a number between 0 and 1, neither of them, for each record."""
    start: UInt64s = mix_words(np.array([seed % 2**64, word], dtype=np.uint64))
    words = mix_words(mix_words(records.astype(np.uint64) ^ start[0]) ^ start[1])
    return ((words >> np.uint64(64 - _BITS)).astype(np.float64) + 0.5) * 2.0**-_BITS
