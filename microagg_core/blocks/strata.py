"""Strata: what blocking keys become after merging or suppression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Ints, UInt64s
from microagg_core.blocks.blanking import Move, ReleasedPatterns, blank_few
from microagg_core.blocks.labels import LabelForm, label_strata
from microagg_core.blocks.merging import Sizes, merge_some
from microagg_core.blocks.routes import SUPPRESSED, hash_keys
from microagg_core.blocks.withholding import CountedKeys, keys_that_go, number_cells, withhold_enough
from microagg_core.data.hierarchies import Hierarchy
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.ordering import distinct_in_order
from microagg_core.data.trees import CodedTree
from microagg_core.errors import DataError, InternalError

#: The column in which keys have their numbers of records; with survey weights, those of their weight in all and of
#: their heaviest record's; and where a unit may have records in several keys, the numbers of units whose first record
#: is there, and of all units that have one there.
ROWS, WEIGHT, HEAVIEST, FIRSTS, UNITS = "rows", "weight", "heaviest", "firsts", "units"
#: A blocking column in which more records than this share have a value of their own makes no blocks.
IDENTIFYING = 0.5
#: A handful of firms may well lie in a place each.
LEAST_LABELLED = 50


@dataclass(frozen=True)
class Strata:
    """Keys and what they became."""

    #: The hash of each key, ascending, by which a record finds its stratum; and that, or ``SUPPRESSED``.
    key_hashes: UInt64s
    stratum_of_hash: Ints
    #: Under which no two keys share a hash.
    hash_seed: int
    #: Of each stratum, before records move; a pattern has a bit for each quasi-identifier that is released as missing.
    units: Ints
    pattern: UInt64s
    label: Ints
    depth: Ints
    n_keys: Ints
    #: Released blocking values, one row a label.
    labels: pa.Table
    #: What is withheld for good.
    suppressed_keys: int
    suppressed_rows: int
    #: Keys that had fewer than k records.
    undersized_keys: int
    #: What is withheld only so that the rest of it cannot be computed from totals.
    added_rows: int = 0
    #: Patterns of missing values with fewer than k records in some key, and those records.
    withheld_patterns: tuple[tuple[int, int], ...] = ()
    #: What waits for a later night of a series.
    held_rows: int = 0
    #: Where cells may be blanked: the nearest records of a stratum that move to another, which comes soon after theirs;
    #: and by quasi-identifier, up to the last that is missing, how many are missing and how many are blanked.
    moves: tuple[Move, ...] = ()
    missing_cells: tuple[int, ...] | None = None
    blanked_cells: tuple[int, ...] | None = None
    #: The rows of each unit of each stratum; None where every unit has one.
    sizes: Ints | None = None

    @property
    def rows(self) -> Ints:
        return self.units if self.sizes is None else self.units * self.sizes

    def rows_of_units(self, stratum: int | Ints) -> Any:
        """Count the rows of each unit of a stratum."""
        return np.ones_like(stratum) if self.sizes is None else self.sizes[stratum]

    @property
    def withheld_rows(self) -> int:
        return self.suppressed_rows + self.held_rows

    def holding(self) -> Strata:
        """Hold, in a night of a series, what would be withheld: it comes again."""
        return replace(self, held_rows=self.suppressed_rows, suppressed_keys=0, suppressed_rows=0, withheld_patterns=())

    def rows_of_labels(self) -> Ints:
        return np.bincount(self.label, weights=self.rows, minlength=self.labels.num_rows).astype(np.int64)


@dataclass(frozen=True)
class StrataRules:
    """Rules of a spec for blocking keys: its ``k``, and its ``blocks`` without their cuts."""

    k: int
    undersized: str = "merge"
    labels: Literal["list", "parent", "star"] = "list"
    totals_known: Literal["labels", "file"] = "labels"
    #: Whether patterns of missing values that too few have lose more cells; else each makes strata of its own.
    blanks: bool = False
    #: Of each blocking column, where it has one; empty: none has.
    hierarchies: tuple[Hierarchy | None, ...] = ()
    #: Whether units of several rows are wholes: then a key's pattern is how many its units have, and what is counted is
    #: units.
    several: bool = False


def plan_strata(
    keys: pa.Table, rules: StrataRules, released_types: list[pa.DataType], hold_until: int | None = None
) -> Strata:
    """Turn counted keys into strata.

    The table of keys has columns ``pattern``, ``b0`` .. (blocking values, typed) and ``rows``, one row a key. With
    survey weights it has ``weight`` and ``heaviest``; a key of whose weight one record has most is as one below k.
    Where units have rows in several keys it has ``firsts`` and ``units``, and a key needs k units. In a night of a
    series it has ``waited``; it may have no stratum at all, and its keys wait for ``hold_until`` records.
    """
    k = rules.k
    blocking = [one_array(c) for name, c in zip(keys.column_names, keys.columns, strict=True) if name.startswith("b")]
    shape = np.asarray(keys["pattern"]).astype(np.uint64)
    sizes = sizes_of(keys)
    codes, places, values = _codes(shape, blocking, rules.hierarchies)
    order = np.lexsort(codes.T[::-1])
    codes, sizes, shape, rows = codes[order], sizes[order], shape[order], sizes.rows[order]
    pattern, unit_rows = np.zeros_like(shape) if rules.several else shape, shape.astype(np.int64)
    is_night = "waited" in keys.column_names
    waited = np.asarray(keys["waited"])[order] if is_night else np.zeros_like(rows)
    if rules.blanks:  # what lacks the same is not kept apart: keys are blocking values alone
        number = number_cells(codes[:, 1:])
        key_codes = np.column_stack([np.zeros_like(rows), codes[:, 1:]])[np.unique(number, return_index=True)[1]]
    else:
        number, key_codes = np.arange(len(rows)), codes
    key_sizes = sizes.of_strata(number, len(key_codes))
    key_waited = np.bincount(number, weights=waited).astype(np.int64)
    by_itself, merging = keys_that_go(key_sizes.counting(k), key_waited, k, hold_until)
    _refuse_undersized(key_sizes, rules)
    if rules.undersized == "merge":
        merged, depth = merge_some(key_codes, key_sizes, k, merging, fixed=1)
    else:
        merged, depth = np.arange(len(key_codes)), np.full(len(key_codes), codes.shape[1])
    merged_sizes = key_sizes.of_strata(merged, len(depth))
    goes = np.bincount(merged, weights=by_itself | merging, minlength=len(depth)) > 0
    reaches = keep = goes & ~merged_sizes.too_small(k)
    counted = CountedKeys(codes, pattern, rows, merged[number], depth, number, sizes)
    levels = range(codes.shape[1]) if rules.totals_known == "labels" else range(1)
    if not is_night:
        keep = withhold_enough(counted, reaches, k, levels)
    if not is_night and not keep.any():
        raise _no_block(rules, sizes, len(key_codes))
    form: LabelForm = rules.labels if rules.undersized == "merge" else "exact"
    told = (np.searchsorted(places, depth), keep, form, released_types, rules.hierarchies)
    label_ids, labels = label_strata(key_codes[:, places], values, merged, *told)
    blanked = blank_few(counted, keep, k, () if is_night else levels) if rules.blanks else None
    made = blanked or ReleasedPatterns.as_they_are(counted)
    keyed = [b.take(pa.array(order)) for b in blocking], shape
    strata = _ordered(keyed, counted, made, keep, label_ids, labels, unit_rows if rules.several else None)
    lost = ~reaches[counted.stratum]
    strata = replace(
        strata,
        depth=np.searchsorted(places, strata.depth + 1) - 1,
        n_keys=np.bincount(merged, minlength=len(depth))[strata.n_keys],
        undersized_keys=int(np.sum(key_sizes.too_small(k))),
        added_rows=int((merged_sizes.rows * (unit_rows[counted.first] if rules.several else 1))[reaches & ~keep].sum()),
        withheld_patterns=() if rules.blanks else _patterns(shape[lost], rows[lost]),
    )
    return strata.holding() if is_night else strata


def _no_block(rules: StrataRules, sizes: Sizes, n_keys: int) -> DataError:
    units = "units of equally many rows" if rules.several else _counted_in(sizes)
    weighed = " of which none has more than half of the weight" if sizes.weight.any() else ""
    return DataError(
        f"no block reaches k={rules.k} {units}{weighed} ({int(sizes.firsts.sum())} {units} in {n_keys} blocking keys); "
        "use a smaller k, fewer blocking columns, or undersized: merge"
    )


def sizes_of(keys: pa.Table) -> Sizes:
    names = (WEIGHT, HEAVIEST, FIRSTS, UNITS)
    others = (np.asarray(keys[name]) if name in keys.column_names else None for name in names)
    return Sizes.of(np.asarray(keys[ROWS]), *others)


def _refuse_undersized(sizes: Sizes, rules: StrataRules) -> None:
    n_undersized = int(np.sum(sizes.too_small(rules.k)))
    if rules.undersized == "error" and n_undersized:
        weighed = ", or one with more than half of their weight" if sizes.weight.any() else ""
        raise DataError(
            f"{n_undersized} of {len(sizes.rows)} blocking keys have fewer than k={rules.k} {_counted_in(sizes)}"
            f"{weighed} and blocks.undersized is 'error'; use merge or suppress, or coarser blocking columns"
        )


def _counted_in(sizes: Sizes) -> str:
    return "units" if (sizes.firsts < sizes.rows).any() else "records"


def _patterns(pattern: UInt64s, rows: Ints) -> tuple[tuple[int, int], ...]:
    """Find the patterns in which something is missing, and their records."""
    patterns, which = np.unique(pattern, return_inverse=True)
    of_each = np.bincount(which.reshape(-1), weights=rows, minlength=len(patterns)).astype(int)
    return tuple((p, n) for p, n in zip(patterns.tolist(), of_each.tolist(), strict=True) if p)


def _codes(
    pattern: UInt64s, blocking: list[pa.Array], hierarchies: tuple[Hierarchy | None, ...]
) -> tuple[Ints, Ints, list[pa.Array]]:
    """Codes of pattern and blocking values in the order of the values, nulls last; their places; what they stand for.

    Before the code of a value that has a hierarchy stand its parents, from the most general on: so whoever is merged
    joins the nearest, and totals of parents count as known.
    """
    patterns, first = np.unique(pattern, return_inverse=True)
    columns, places, values = [first.reshape(-1)], [0], [pa.array(patterns)]
    for array, hierarchy in zip_longest(blocking, hierarchies):
        distinct = distinct_in_order(array)
        codes = np.asarray(pc.index_in(array, value_set=distinct)).astype(np.int64)
        if hierarchy is not None:
            tree = CodedTree.of(hierarchy, distinct.cast(pa.string()).to_pylist())
            columns += list(tree.ancestors[codes, 1:-1].T)
        places.append(len(columns))
        columns.append(codes)
        values.append(distinct)
    return np.column_stack(columns).astype(np.int64), np.array(places), values


def _ordered(
    keyed: tuple[list[pa.Array], UInt64s],
    keys: CountedKeys,
    made: ReleasedPatterns,
    keep: Bools,
    label_ids: Ints,
    labels: pa.Table,
    unit_rows: Ints | None,
) -> Strata:
    """Number the kept strata by label and pattern, and index the keys by their hash.

    ``unit_rows`` are the rows of each key's units, where they have several. What comes out as ``n_keys`` is the number
    of each stratum before patterns were told apart.
    """
    kept = np.flatnonzero(keep[made.stratum])
    place = made.place if unit_rows is None else unit_rows[keys.first]
    kept = kept[np.lexsort((place[kept], label_ids[made.stratum[kept]]))]
    new_number = np.full(len(made.stratum), SUPPRESSED, dtype=np.int64)
    new_number[kept] = np.arange(len(kept))
    stratum_of_key = new_number[made.of_key]
    seed, hashes = _hashes_without_collision(*keyed)
    by_hash = np.argsort(hashes, kind="stable")
    withheld = stratum_of_key == SUPPRESSED
    return Strata(
        key_hashes=hashes[by_hash],
        stratum_of_hash=stratum_of_key[by_hash],
        hash_seed=seed,
        units=np.bincount(made.of_key, weights=keys.rows, minlength=len(new_number)).astype(np.int64)[kept],
        pattern=made.pattern[kept],
        label=label_ids[made.stratum[kept]],
        depth=keys.depth[made.stratum[kept]] - 1,
        n_keys=made.stratum[kept],
        labels=labels,
        suppressed_keys=int(withheld.sum()),
        suppressed_rows=int((keys.rows * (1 if unit_rows is None else unit_rows))[withheld].sum()),
        undersized_keys=0,
        # In the order of their targets, as whoever works on blocks finds them.
        moves=tuple(
            Move(int(new_number[source]), target, n)
            for target, source, n in sorted(
                (int(new_number[move.target]), move.source, move.rows) for move in made.moves
            )
        ),
        missing_cells=made.missing_cells,
        blanked_cells=made.blanked_cells,
        sizes=None if unit_rows is None else unit_rows[keys.first][made.stratum[kept]],
    )


def _hashes_without_collision(blocking: list[pa.Array], pattern: UInt64s) -> tuple[int, UInt64s]:
    for seed in range(100):
        hashes = hash_keys(blocking, pattern, seed)
        ordered = np.sort(hashes)  # 30 ms for 3 million; np.unique takes 1 s
        if (ordered[1:] != ordered[:-1]).all():
            return seed, hashes
    raise InternalError("a bug: blocking keys collide under every hash seed; please report it")
