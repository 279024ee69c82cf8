"""Find what confidential columns would disclose, from sketches of their values and draws of records.

Each column alone first: unique values, values that tie a few records, how far it explains a quasi-identifier by its
values, their order or their order within blocks, and how far it completes released means. Then all together, where no
column alone says it already: unique and tied combinations, and the linear combinations of numbers that explain a
quasi-identifier, or a combination of these.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.inspect.disclosures import Disclosure, What
from microagg_core.inspect.explanations import (
    Completion,
    DrawnMeans,
    Explained,
    Normal,
    completed_means,
    explained_by_levels,
    squared_correlation,
)
from microagg_core.inspect.samples import Draw, Sketch

#: Who knows a value finds more than half of the people who have one.
NEARLY_UNIQUE = 0.5
#: Several columns together tell most people apart in nearly every real file; what lets two releases be matched row by
#: row is that they do so for nearly all.
JOINTLY_UNIQUE = 0.9
TOLD_JOINTLY_UNIQUE = 0.75
#: Larger households than this are rare, and their members are hidden in a value that so many share.
FEW = 8
#: Most records can be put together with those that they belong to: household incomes tie 85 to 93 percent. Days of
#: follow-up in a study of thousands are shared by few as often as not, by chance.
TIES_FEW_RECORDS = 0.6
TOLD_TIES = 0.5
#: Fewer values may be categories of a small file.
_LEAST_TIES = 50
#: Categories that divide a file into cells of a few do so unevenly; households do it evenly.
TIES_TOGETHER = 0.8
#: Members of a household agree many times as often as others; columns that go together, such as job and trade, less so.
_BEYOND_CHANCE = 5.0
#: Where fewer than this share of the possible numbers are there, records that share one do so for a reason: drawn at
#: random, it would be a fifth of them.
DENSE = 0.3
#: A group's means leave 5 to 20 percent of the variance on real files: what explains more than the rest tells more than
#: the release does, and what explains nearly as much is told.
EXPLAINS = 0.95
TOLD_EXPLAINS = 0.8
#: Several columns together are worth a sentence where they leave less than this share of what one of them leaves.
_LEFT_OVER = 0.25
#: Texts of more characters on average are sentences rather than names of categories, where many of them differ.
LONG_TEXT = 30
LONG_TEXTS_DIFFER = 0.1
#: Fewer records say nothing of all the rest: chance, and a share of so few would show single ones.
_LEAST_RECORDS = 12
#: Records of a block that have an order to speak of.
_LEAST_OF_A_BLOCK = 10
#: Records that are farther from the middle than so many times nearly all others are not looked at.
_USUAL, _FAR = 0.98, 10.0
#: A column is missing in so much of the file that it is looked at alone, and not with others.
_MOSTLY_MISSING = 0.5
#: Records that have everything are looked at for themselves where they are at least this share of all.
_LEAST_WHOLE = 0.05


@dataclass(frozen=True)
class DrawnRecords:
    """A draw's records as matrices: quasi-identifiers, numbers of confidential columns (NaN: none), their hashes."""

    Z: Floats
    V: Floats
    levels: Ints

    @classmethod
    def of(cls, draw: Draw, n_quasi: int, n_columns: int) -> DrawnRecords:
        def columns(letter: str, n: int) -> list[NDArray[Any]]:
            return [draw.table[f"{letter}{i}"].to_numpy() for i in range(n)]

        return cls(
            _without_far(np.column_stack(columns("z", n_quasi))),
            _scaled(np.column_stack(columns("v", n_columns))),
            np.column_stack(columns("h", n_columns)),
        )

    @cached_property
    def z_ranks(self) -> Floats:
        return pd.DataFrame(self.Z).rank().to_numpy()

    @cached_property
    def v_ranks(self) -> Floats:
        return pd.DataFrame(self.V).rank().to_numpy()


@dataclass(frozen=True)
class Confidential:
    """Sketches and draws of the confidential columns of an input, and of the quasi-identifiers beside them."""

    names: tuple[str, ...]
    quasi_identifiers: tuple[str, ...]
    sketches: tuple[Sketch, ...]
    #: Mean characters of each column's texts; 0 for what is no text.
    lengths: tuple[float, ...]
    #: Of all columns together, where there are several.
    together: Sketch | None
    records: Draw
    keys: Draw
    #: Of the release, and records in all.
    k: int
    n_records: int

    def disclosures(self) -> tuple[Disclosure, ...]:
        """Find all that is to be refused or told."""
        if not (self.names and len(self.records.table)):
            return ()
        explained = _Explanations(self)
        return (*self._unique(), *self._tied(), *self._texts(), *explained.all())

    def _unique(self) -> Iterator[Disclosure]:
        shares = [sketch.share_shared_by(1, 1) if sketch.rows > 1 else 0.0 for sketch in self.sketches]
        for name, share in zip(self.names, shares, strict=True):
            if share >= NEARLY_UNIQUE:
                yield Disclosure("nearly_unique", (name,), share, True)
        yield from self._jointly("jointly_unique", 1, shares, JOINTLY_UNIQUE, TOLD_JOINTLY_UNIQUE)

    def _tied(self) -> Iterator[Disclosure]:
        shares = [_tied_share(sketch) for sketch in self.sketches]
        for c, (name, share) in enumerate(zip(self.names, shares, strict=True)):
            if share >= (TIES_FEW_RECORDS if (by_chance := self._is_dense(c)) else TOLD_TIES):
                yield Disclosure("ties_few_records", (name,), share, share >= TIES_FEW_RECORDS and not by_chance)
        if self.together is not None and self._agree_by_chance(self.together):
            return
        yield from self._jointly("ties_few_records", FEW, shares, TIES_TOGETHER, TIES_FEW_RECORDS)

    def _agree_by_chance(self, together: Sketch) -> bool:
        """Tell whether unrelated columns would let as many pairs of records agree in all."""
        chance = 1.0
        for sketch in self.sketches:
            there = sketch.rows / max(1, together.rows)
            chance *= sketch.agreement() * there**2 + (1 - there) ** 2
        return together.agreement() - 1 / max(1, together.rows) < _BEYOND_CHANCE * chance

    def _is_dense(self, c: int) -> bool:
        """Tell whether a column has so many of the numbers that it could have that people share some by chance.

        The numbers are as far apart as the nearest two; how many are there is looked at between the quartiles.
        """
        values = _scaled(self.records.table[f"v{c}"].to_numpy()[:, None])[:, 0]
        values = np.unique(values[~np.isnan(values)])
        if len(values) < _LEAST_RECORDS:
            return False
        lower, upper = np.quantile(values, [0.25, 0.75])
        return bool(self.sketches[c].distinct() / 2 * np.diff(values).min() >= DENSE * (upper - lower))

    def _jointly(
        self, what: What, most: int, alone: Sequence[float], refused: float, told: float
    ) -> Iterator[Disclosure]:
        """Find what all columns disclose together, unless a column alone does so for as many of all records."""
        if self.together is None or not self.together.rows:
            return
        share = self.together.share_shared_by(1, 1) if most == 1 else _tied_share(self.together)
        rows = self.together.rows
        already = max(a * s.rows / rows for a, s in zip(alone, self.sketches, strict=True))
        for level in (refused, told):
            if already >= level:
                return
            if share >= level:
                yield Disclosure(what, self.names, share, level == refused)
                return

    def _texts(self) -> Iterator[Disclosure]:
        for name, sketch, length in zip(self.names, self.sketches, self.lengths, strict=True):
            if length > LONG_TEXT and sketch.rows >= _LEAST_RECORDS:
                share = sketch.distinct() / sketch.rows
                if share >= LONG_TEXTS_DIFFER:
                    yield Disclosure("free_text", (name,), share, True)


def _tied_share(sketch: Sketch) -> float:
    """Estimate the share of records that are tied to few others; of a handful of values nobody can tell."""
    return sketch.share_shared_by(2, FEW) if sketch.distinct() >= _LEAST_TIES else 0.0


class _Explanations:
    def __init__(self, of: Confidential) -> None:
        self.of = of
        self.p, self.m = len(of.quasi_identifiers), len(of.names)
        self.drawn = DrawnRecords.of(of.records, self.p, self.m)
        self.blocks = _ranked_within(of.keys, self.p, self.m) if len(of.keys.table) else None
        #: How much of each quasi-identifier is explained, at most, by what was looked at.
        self.explained = np.zeros(self.p)

    def all(self) -> Iterator[Disclosure]:
        """Look at one column alone or with the means, at several, and at either for a combination."""
        yield from self._alone()
        yield from self._together()
        yield from self._combinations()

    def _disclosure(self, columns: Sequence[int], quasi: Sequence[int], share: float) -> Disclosure:
        names = tuple(self.of.names[c] for c in columns)
        quasi_names = tuple(self.of.quasi_identifiers[j] for j in quasi)
        return Disclosure("fixes_quasi_identifier", names, share, share >= EXPLAINS, quasi_names)

    def _alone(self) -> Iterator[Disclosure]:
        means = DrawnMeans(self.drawn.Z, self.of.k, self.of.n_records)
        for c, name in enumerate(self.of.names):
            shares = np.array(
                [max(self.of.sketches[c].explains(j), self._by_levels(c, j), self._by_numbers(c, j))
                 for j in range(self.p)]
            )  # fmt: skip
            self.explained = np.maximum(self.explained, shares)
            yield from self._of_levels(c, shares, False)
            # Of what values say already the order says nothing more.
            ranks = np.array([self._within_blocks(c, j) if shares[j] < EXPLAINS else 0.0 for j in range(self.p)])
            yield from self._of_levels(c, np.where(_level(ranks) > _level(shares), ranks, 0.0), True)
            completions = means.completions(self.drawn.V[:, c], self.drawn.levels[:, c])
            fixed = np.maximum(shares, ranks) >= EXPLAINS  # without any mean
            completions = [Completion() if fixed[j] else completions[j] for j in range(self.p)]
            yield from completed_means(name, self.of.quasi_identifiers, completions)

    def _of_levels(self, c: int, shares: Floats, is_rank: bool) -> Iterator[Disclosure]:
        for level in (EXPLAINS, TOLD_EXPLAINS):
            quasi = np.flatnonzero(_level(shares) == level).tolist()
            if quasi:
                share = float(shares[quasi].max())
                yield replace(self._disclosure([c], quasi, share), is_rank=is_rank)

    def _by_levels(self, c: int, j: int) -> float:
        drawn = self.drawn
        there = ~np.isnan(drawn.Z[:, j])
        if there.sum() < _LEAST_RECORDS:
            return 0.0
        both = np.column_stack([drawn.Z[there, j], drawn.z_ranks[there, j]])
        explained = explained_by_levels(drawn.levels[there, c], both)
        return max(explained.share_of(0), explained.share_of(1))

    def _by_numbers(self, c: int, j: int) -> float:
        drawn = self.drawn
        rows = _with_both(drawn, c, j)
        if rows.sum() < _LEAST_RECORDS:
            return 0.0
        pairs = ((drawn.V[rows, c], drawn.Z[rows, j]), (drawn.v_ranks[rows, c], drawn.z_ranks[rows, j]))
        return max(squared_correlation(x, y) for x, y in pairs)

    def _within_blocks(self, c: int, j: int) -> float:
        if self.blocks is None:
            return 0.0
        blocks, drawn = self.blocks
        rows = _with_both(drawn, c, j)
        if rows.sum() < _LEAST_RECORDS:
            return 0.0
        return squared_correlation(drawn.V[rows, c], drawn.Z[rows, j], len(np.unique(blocks[rows])) - 1)

    @cached_property
    def _numeric(self) -> list[int]:
        V = self.drawn.V
        most = np.isnan(V).mean(axis=0) < _MOSTLY_MISSING
        return [c for c in range(self.m) if most[c] and np.nanmin(V[:, c]) < np.nanmax(V[:, c])]

    def _together(self) -> Iterator[Disclosure]:
        for j in range(self.p):
            least = 1 - (1 - self.explained[j]) * _LEFT_OVER
            for columns, explained in self._fewest_columns([j], least):
                share = explained.share_of(0)
                self.explained[j] = max(self.explained[j], share)
                if len(columns) > 1:
                    yield self._disclosure(columns, [j], share)

    def _combinations(self) -> Iterator[Disclosure]:
        quasi = np.flatnonzero(self.explained < EXPLAINS).tolist()
        complete = ~np.isnan(self.drawn.Z[:, quasi]).any(axis=1)
        if len(quasi) < 2 or complete.sum() < _LEAST_RECORDS:
            return
        Y = self.drawn.Z[complete][:, quasi]
        of_levels = (([c], explained_by_levels(self.drawn.levels[complete, c], Y)) for c in range(self.m))
        least = 1 - (1 - self.explained[quasi].max()) * _LEFT_OVER
        listed: list[list[int]] = []
        for columns, explained in (*of_levels, *self._fewest_columns(quasi, least)):
            level = _level([explained.best()])[0]
            mixed = _fewest(len(quasi), lambda some: explained.of(some).best() >= level) if level else []  # noqa: B023
            if len(mixed) > 1 and columns not in listed:
                listed.append(columns)
                share = explained.of(mixed).best()
                yield replace(self._disclosure(columns, [quasi[i] for i in mixed], share), is_combination=True)

    def _fewest_columns(self, quasi: list[int], least: float) -> Iterator[tuple[list[int], Explained]]:
        """Find the fewest columns that explain so much of a combination, then the fewest of the others, ..."""
        columns = list(self._numeric)
        while columns:
            regression = _Regression.of(self.drawn, columns, quasi)
            level = max(least, _level([regression.explained(columns).best()])[0] or TOLD_EXPLAINS)
            if regression.explained(columns).best() < level:
                return
            fewest = regression.fewest(columns, level)
            yield fewest, regression.explained(fewest)
            columns = [c for c in columns if c not in fewest]


@dataclass(frozen=True)
class _Regression:
    """Quasi-identifiers on numbers: with the features of each column."""

    normal: Normal
    features: dict[int, list[int]]

    @classmethod
    def of(cls, drawn: DrawnRecords, columns: list[int], quasi: list[int]) -> _Regression:
        """On the records that have everything, or on all that have the quasi-identifiers, whichever explains more.

        A missing number is then the column's mean, with a feature of its own that says that it is missing.
        """
        there = ~np.isnan(drawn.Z[:, quasi]).any(axis=1)
        V, Y = drawn.V[there][:, columns], drawn.Z[there][:, quasi]
        missing = np.isnan(V)
        if len(Y) < _LEAST_RECORDS or not missing.any():
            return cls._of_records(V, Y, columns)
        filled = cls._of_records(V, Y, columns)
        whole = ~missing.any(axis=1)
        if whole.sum() < max(_LEAST_RECORDS, _LEAST_WHOLE * len(Y)):
            return filled
        complete = cls._of_records(V[whole], Y[whole], columns)
        return max(filled, complete, key=lambda regression: regression.explained(columns).best())

    @classmethod
    def _of_records(cls, V: Floats, Y: Floats, columns: list[int]) -> _Regression:
        missing = np.isnan(V)
        counts = np.maximum(1, (~missing).sum(axis=0))
        means = np.where(missing, 0.0, V).sum(axis=0) / counts
        lacking = np.flatnonzero(missing.any(axis=0))
        X = np.column_stack([np.where(missing, means, V), missing[:, lacking].astype(np.float64)])
        features = {c: [i] for i, c in enumerate(columns)}
        for extra, i in enumerate(lacking.tolist()):
            features[columns[i]].append(len(columns) + extra)
        return cls(Normal.of(X, Y), features)

    def explained(self, columns: list[int]) -> Explained:
        return self.normal.explained([f for c in columns for f in self.features[c]])

    def fewest(self, columns: list[int], level: float) -> list[int]:
        """Columns none of which can be left out, if so much is to be explained; the strongest are tried first."""
        total = np.maximum(np.diag(self.normal.total), np.finfo(float).tiny)
        alone = (np.square(self.normal.across) / total).max(axis=1)
        strongest = sorted(columns, key=lambda c: (-alone[self.features[c][0]], c))

        def suffice(some: list[int]) -> bool:
            return self.explained(some).best() >= level

        n = bisect_left(range(1, len(columns)), True, key=lambda first: suffice(strongest[:first])) + 1
        places = _fewest(n, lambda some: suffice([strongest[i] for i in some]))
        return sorted(strongest[i] for i in places)


def _with_both(drawn: DrawnRecords, c: int, j: int) -> Bools:
    return ~np.isnan(drawn.Z[:, j]) & ~np.isnan(drawn.V[:, c])


def _scaled(V: Floats) -> Floats:
    """Each column by its greatest number: those near the end of floats could not be squared."""
    greatest = np.abs(np.where(np.isnan(V), 0.0, V)).max(axis=0, initial=0.0)
    return np.asarray(V / np.where(greatest > 0, greatest, 1.0))


def _without_far(Z: Floats) -> Floats:
    """Leave out values so far off that one of them would be all the variance there is; they become NaN."""
    with np.errstate(invalid="ignore"):
        distances = np.abs(Z - np.nanmedian(np.where(np.isnan(Z).all(axis=0), 0.0, Z), axis=0))
    usual = np.nanquantile(np.where(np.isnan(distances).all(axis=0), 0.0, distances), _USUAL, axis=0)
    return np.where((usual > 0) & (distances > _FAR * usual), np.nan, Z)


def _level(shares: Sequence[float] | Floats) -> Floats:
    """Level that each share is above: the one that is refused, the one that is told, or 0."""
    return np.select(
        [np.asarray(shares) >= EXPLAINS, np.asarray(shares) >= TOLD_EXPLAINS], [EXPLAINS, TOLD_EXPLAINS], 0.0
    )


def _fewest(n: int, suffice: Callable[[list[int]], bool]) -> list[int]:
    """Choose some of n things, none of which can be left out.

    >>> _fewest(4, lambda some: {1, 3} <= set(some))
    [1, 3]
    """
    fewest = list(range(n))
    for i in range(n):
        others = [other for other in fewest if other != i]
        if others and suffice(others):
            fewest = others
    return fewest


def _ranked_within(keys: Draw, n_quasi: int, n_columns: int) -> tuple[Ints, DrawnRecords] | None:
    """Rank quasi-identifiers and numbers within their blocks, of blocks that are large enough."""
    _, blocks, counts = np.unique(keys.table["key"].to_numpy(), return_inverse=True, return_counts=True)
    large = counts[blocks] >= _LEAST_OF_A_BLOCK
    if not large.any():
        return None
    drawn, blocks = DrawnRecords.of(Draw(keys.table[large], None), n_quasi, n_columns), blocks[large]

    def ranked(values: Floats) -> Floats:
        of_blocks = pd.DataFrame(values).groupby(blocks)
        return np.asarray((of_blocks.rank() - 0.5) / of_blocks.transform("count") - 0.5)

    return blocks, DrawnRecords(ranked(drawn.Z), ranked(drawn.V), drawn.levels)
