"""Blanked cells: of any few records as safe as the twin demands and seldom more, of any keys nothing told by totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from covering import examples
from microagg_core.blocks.blanking import Move, blank_patterns, missing_of, move_records
from microagg_core.blocks.plan import plan_blocks
from microagg_core.blocks.routes import SUPPRESSED, hash_keys
from microagg_core.blocks.strata import Strata, StrataRules, plan_strata
from microagg_core.errors import DataError
from microagg_core.group.algorithms import algorithms
from microagg_core.group.points import Points
from twins import naive_blanking

COUNTS = st.dictionaries(st.integers(0, 7), st.integers(1, 12), min_size=1, max_size=8)


@examples(300)
@given(COUNTS, st.integers(2, 6), st.sets(st.integers(0, 2)))
def test_every_pattern_is_shared_by_k_and_no_few_cells_are_blanked(
    counts: dict[int, int], k: int, forced: set[int]
) -> None:
    assume(sum(counts.values()) >= k)
    made = blank_patterns(counts, k, 3, forced)
    # As a way of the twin's: who moves is of whichever patterns came to the source, so of its smallest.
    way, sizes = Counter[tuple[int, int]](), Counter[int]()
    for pattern, n in counts.items():
        grown = made.patterns[made.released[pattern]]
        assert grown & pattern == pattern
        way[pattern, grown] += n
        sizes[made.released[pattern]] += n
    for source, target, n in made.moves:
        came = [pattern for pattern, place in made.released.items() if place == source]
        assert all(made.patterns[target] & pattern == pattern for pattern in came)
        sizes[source] -= n
        sizes[target] += n
        for _ in range(n):
            pattern = max(came, key=lambda one: way[one, made.patterns[source]])
            way[pattern, made.patterns[source]] -= 1
            way[pattern, made.patterns[target]] += 1
    assert len(sizes) == len(made.patterns) and min(sizes.values()) >= k
    assert not {move.target for move in made.moves} & {move.source for move in made.moves}
    way = Counter({change: n for change, n in way.items() if n})
    assert naive_blanking.is_safe(way, counts, k, 3)
    assert naive_blanking.blanked(way, 3) == made.cells.tolist()
    has = [sum(n for pattern, n in counts.items() if not pattern >> j & 1) for j in range(3)]
    assert all(made.cells[j] >= min(k, has[j]) for j in forced)


def test_seldom_more_cells_are_blanked_than_any_way_has_to() -> None:
    """Of all cases of up to four patterns of two quasi-identifiers; where k share each, nothing is blanked."""
    made = least = best = cases = 0
    sizes = (0, 1, 2, 3, 5)
    for rows in np.stack(np.meshgrid(*[sizes] * 4), axis=-1).reshape(-1, 4).tolist():
        counts = {pattern: n for pattern, n in enumerate(rows) if n}
        if 3 <= sum(rows) <= 11:
            cells = int(blank_patterns(counts, 3, 2).cells.sum())
            optimum = naive_blanking.least_cells(counts, 3, 2)
            assert cells >= optimum
            assert cells == 0 or min(counts.values()) < 3
            made, least, best, cases = made + cells, least + optimum, best + (cells == optimum), cases + 1
    assert cases > 300
    assert best > 0.87 * cases and made < 1.07 * least


@pytest.mark.parametrize(
    ("counts", "cells"),
    [
        ({0b00: 90, 0b01: 1}, [5, 0]),  # k near records lose the cell beside the only one that lacks it
        ({0b00: 90, 0b01: 3, 0b11: 40, 0b10: 4}, [0, 5]),  # three lose what forty lack, and two more beside four
        ({0b00: 90, 0b01: 5, 0b11: 40}, [0, 0]),
        ({0b00: 4, 0b01: 3}, [4, 0]),  # there are no five: all lose it
    ],
)
def test_what_costs_fewest_cells_is_done(counts: dict[int, int], cells: list[int]) -> None:
    assert blank_patterns(counts, 5, 2).cells.tolist() == cells
    assert blank_patterns(dict(reversed(counts.items())), 5, 2).cells.tolist() == cells


@examples(200)
@given(
    st.lists(st.tuples(*(st.integers(-3, 3),) * 3, st.integers(0, 2)), min_size=4, max_size=20),
    st.integers(0, 7),
    st.data(),
)
def test_who_moves_is_who_moves_for_the_twin(records: list[tuple[int, ...]], pattern: int, data: st.DataObject) -> None:
    X, stratum = np.array(records, dtype=np.float64)[:, :3], np.array([record[3] for record in records])
    n = int(np.sum(stratum == 0))
    moves = [Move(0, target, data.draw(st.integers(0, n // 2))) for target in (1, 2)]
    lacks = [0, pattern, 7 & ~pattern]
    costs = np.array([0.0, data.draw(st.sampled_from([0.0, 2.5])), 0.0])
    moved = move_records(Points(X, costs), stratum, moves, missing_of(lacks, 3))
    assert moved.tolist() == naive_blanking.moved(X.tolist(), costs.tolist(), stratum.tolist(), moves, lacks)


KEYS = st.dictionaries(
    st.tuples(st.integers(0, 7), st.sampled_from("abc"), st.sampled_from("xyz")), st.integers(1, 12), min_size=1
)


def planned(keys: dict[tuple[int, str, str], int], rules: StrataRules) -> tuple[Strata, list[int]]:
    """Strata, and that of each key."""
    columns = list(zip(*keys, strict=True))
    arrays = [pa.array(columns[0], pa.uint64()), pa.array(columns[1]), pa.array(columns[2])]
    table = pa.table([*arrays, pa.array(keys.values(), pa.int64())], names=["pattern", "b0", "b1", "rows"])
    strata = plan_strata(table, rules, [pa.string()] * 2)
    hashes = hash_keys(arrays[1:], np.array(columns[0], dtype=np.uint64), strata.hash_seed)
    return strata, strata.stratum_of_hash[np.searchsorted(strata.key_hashes, hashes)].tolist()


def after(strata: Strata) -> list[int]:
    rows = strata.rows.tolist()
    for move in strata.moves:
        rows[move.source] -= move.rows
        rows[move.target] += move.rows
    return rows


@examples(300)
@given(KEYS, st.integers(2, 6), st.sampled_from(["merge", "suppress"]), st.sampled_from(["labels", "file"]))
def test_no_total_tells_of_few_blanked_cells(
    keys: dict[tuple[int, str, str], int], k: int, undersized: str, totals: str
) -> None:
    """In every cell whose totals are known: of a quasi-identifier nothing is blanked, or k cells, or all are."""
    rules = StrataRules(k, undersized, totals_known=totals, blanks=True)  # type: ignore[arg-type]
    try:
        strata, of_key = planned(keys, rules)
    except DataError:
        assume(False)
    if undersized == "merge":
        assert sum(after(strata)) == sum(keys.values())
    assert min(after(strata)) >= k
    p = max(pattern for pattern, *_ in keys).bit_length()
    of_stratum = cells_of_strata(keys, strata, of_key, p)
    for level in range(3) if totals == "labels" else range(1):
        of_cell: dict[tuple[str, ...], np.ndarray] = {}
        for cell, depth, figures in of_stratum:
            if depth >= level:
                of_cell[cell[:level]] = of_cell.get(cell[:level], 0) + figures
        for kept, blanked in (figures.T.tolist() for cell in of_cell.values() for figures in cell):
            assert blanked == 0 or blanked >= k or kept == 0
    total = sum((figures[:, 1] for _, _, figures in of_stratum), np.zeros(p, dtype=np.int64))
    assert total.tolist() == list(strata.blanked_cells or ())


def cells_of_strata(
    keys: dict[tuple[int, str, str], int], strata: Strata, of_key: Sequence[int], p: int
) -> list[tuple[tuple[str, ...], int, np.ndarray]]:
    """For each released label: its first key's values, how many of them are exact, and cells kept and blanked."""
    lacks, found = missing_of(strata.pattern, p), {}
    came = np.zeros((len(strata.rows), p), dtype=np.int64)
    for ((pattern, *values), n), stratum in zip(keys.items(), of_key, strict=True):
        if stratum != SUPPRESSED:
            came[stratum] += n * ~missing_of([pattern], p)[0]
            found.setdefault(int(strata.label[stratum]), tuple(values))
    kept = np.array(after(strata))[:, None] * ~lacks
    of_labels = []
    for label, values in found.items():
        own = strata.label == label
        depth = int(strata.depth[own][0])
        of_labels.append((values, depth, np.stack([kept[own].sum(0), came[own].sum(0) - kept[own].sum(0)], axis=1)))
    return of_labels


@examples(100)
@given(KEYS, st.integers(2, 5))
def test_records_move_within_a_partition(keys: dict[tuple[int, str, str], int], k: int) -> None:
    assume(sum(keys.values()) >= k)
    strata, _ = planned(keys, StrataRules(k, blanks=True))
    released = pa.schema([("x", pa.float64())])
    plan = plan_blocks(strata, {}, {}, algorithms()["mdav"], 3, k, 3e6, 1000, released)
    assert plan.block_rows.tolist() == after(strata)
    for move in plan.moves:
        assert move.source < move.target
        assert plan.block_partition[move.source] == plan.block_partition[move.target]
    assert (np.diff(plan.block_partition) >= 0).all()
