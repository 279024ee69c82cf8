"""Strata of any keys: as the twin makes them one at a time, however the counts were cut and merged."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from covering import each, examples
from microagg_core.blocks.labels import LabelForm, label_strata
from microagg_core.blocks.merging import Sizes, merge_undersized
from microagg_core.blocks.packing import assign_files, pack_blocks
from microagg_core.blocks.strata import StrataRules, plan_strata
from microagg_core.blocks.withholding import CountedKeys, withhold_enough
from microagg_core.errors import DataError
from microagg_core.release.step import Pieces, Receipt, Run, Step, Task, Work
from microagg_core.release.steps.keys import MERGE_KEYS, counted_keys, merge_range, write_keys
from microagg_core.release.steps.survey import SURVEY_PARTS
from microagg_core.release.wiring import StepsDone
from microagg_core.store.objects import Store
from twins import naive_strata

VALUES = ["a", "b", "a|b", "\\", "\\N", "é", "", "|", None]
KEYS = st.lists(st.tuples(*(st.integers(0, 3) for _ in range(3))), min_size=1, max_size=25, unique=True)


@examples(200)
@given(KEYS, st.integers(2, 9), st.integers(0, 2), st.data())
def test_merging_is_that_of_the_twin(keys: list[tuple[int, ...]], k: int, fixed: int, data: st.DataObject) -> None:
    keys = sorted(keys)
    rows = data.draw(st.lists(st.integers(1, 9), min_size=len(keys), max_size=len(keys)))
    stratum, depth = merge_undersized(np.array(keys), Sizes.of(np.array(rows)), k, fixed)
    expected = naive_strata.merged(keys, rows, k, fixed)
    assert [np.flatnonzero(stratum == s).tolist() for s in range(len(depth))] == [places for places, _, _ in expected]
    assert depth.tolist() == [exact for _, _, exact in expected]


def keys_table(keys: list[tuple[str | None, str | None]], rows: list[int]) -> pa.Table:
    columns = [pa.array([key[j] for key in keys], pa.string()) for j in range(2)]
    zeros = np.zeros(len(keys), dtype=np.uint64)
    return pa.table([pa.array(zeros), *columns, pa.array(rows, pa.int64())], names=["pattern", "b0", "b1", "rows"])


@examples(200)
@given(
    st.lists(st.tuples(st.sampled_from(VALUES), st.sampled_from(VALUES)), min_size=1, max_size=25, unique=True),
    st.integers(2, 9),
    st.data(),
)
def test_labels_are_those_of_the_twin(keys: list[tuple[str | None, str | None]], k: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(1, 9), min_size=len(keys), max_size=len(keys)))
    order = [sorted({key[j] for key in keys}, key=lambda v: (v is None, v or "")) for j in range(2)]
    sorted_keys = sorted(zip(keys, rows, strict=True), key=lambda pair: [order[j].index(pair[0][j]) for j in range(2)])
    codes = [tuple(order[j].index(key[j]) for j in range(2)) for key, _ in sorted_keys]
    strata = naive_strata.merged([(0, *code) for code in codes], [n for _, n in sorted_keys], k, 1)
    expected = {
        naive_strata.label([sorted_keys[place][0] for place in places], order): size
        for places, size, _ in strata
        if size >= k
    }
    try:
        made = plan_strata(keys_table(keys, rows), StrataRules(k, "merge"), [pa.string(), pa.string()])
    except DataError:
        assert not expected
        return
    labels = list(zip(*(made.labels[f"b{j}"].to_pylist() for j in range(2)), strict=True))
    assert dict(zip(labels, made.rows_of_labels().tolist(), strict=True)) == expected
    assert labels == sorted(labels, key=lambda label: [(text is None, text or "") for text in label])


def merged_codes(keys: list[tuple[int, ...]], rows: list[int], k: int, merges: bool) -> CountedKeys:
    codes = np.array(keys)
    stratum, depth = np.arange(len(keys)), np.full(len(keys), codes.shape[1])
    if merges:
        stratum, depth = merge_undersized(codes, Sizes.of(np.array(rows)), k, fixed=1)
    patterns = np.array([PATTERNS[key[0]] for key in keys], dtype=np.uint64)
    return CountedKeys(codes, patterns, np.array(rows), stratum, depth)


#: What is missing of three quasi-identifiers.
PATTERNS = [0b000, 0b001, 0b011, 0b100]


@examples(300)
@given(KEYS, st.integers(2, 9), st.booleans(), st.data())
def test_what_is_withheld_is_what_the_twin_withholds(
    keys: list[tuple[int, ...]], k: int, merges: bool, data: st.DataObject
) -> None:
    keys = sorted(keys)
    rows = data.draw(st.lists(st.integers(1, 12), min_size=len(keys), max_size=len(keys)))
    counted = merged_codes(keys, rows, k, merges)
    strata = [
        (np.flatnonzero(counted.stratum == s).tolist(), sum(np.array(rows)[counted.stratum == s].tolist()), depth)
        for s, depth in enumerate(counted.depth.tolist())
    ]
    patterns = [PATTERNS[key[0]] for key in keys]
    keep = np.array([size >= k for _, size, _ in strata])
    with patch("microagg_core.blocks.withholding.MOST_ADDED", 1.0):
        kept = withhold_enough(counted, keep, k, range(3))
    expected = naive_strata.withheld(keys, patterns, rows, strata, k)
    assert np.flatnonzero(~kept).tolist() == sorted(expected)


@examples(200)
@given(KEYS, st.integers(2, 9), st.booleans(), st.sampled_from([range(3), range(1)]), st.data())
def test_no_total_less_that_of_the_release_tells_of_few(
    keys: list[tuple[int, ...]], k: int, merges: bool, levels: range, data: st.DataObject
) -> None:
    """Of each cell and quasi-identifier: nothing is released of it alone, nothing withheld, or k of two keys.

    Unless all whose strata are below k lack the quasi-identifier: then its totals do not tell of them.
    """
    keys = sorted(keys)
    rows = data.draw(st.lists(st.integers(1, 12), min_size=len(keys), max_size=len(keys)))
    counted = merged_codes(keys, rows, k, merges)
    keep = np.bincount(counted.stratum, weights=rows) >= k
    with patch("microagg_core.blocks.withholding.MOST_ADDED", 1.0):
        kept = withhold_enough(counted, keep, k, levels)
    assert not (kept & ~keep).any()
    for level in levels:
        for bit in range(3):
            cells: dict[tuple[int, ...], list[int]] = {}
            few = np.flatnonzero(~keep[counted.stratum]).tolist()
            bit_of_few = [not PATTERNS[keys[place][0]] >> bit & 1 for place in few]
            for place, key in enumerate(keys):
                if not PATTERNS[key[0]] >> bit & 1:
                    cells.setdefault(key[1 : 1 + level], []).append(place)
            for places in cells.values():
                lost = [place for place in places if not kept[counted.stratum[place]]]
                out = [p for p in places if kept[counted.stratum[p]] and counted.depth[counted.stratum[p]] > level]
                enough = len(lost) >= 2 and sum(rows[place] for place in lost) >= k
                assert not lost or not out or enough or not any(bit_of_few)


@examples(200)
@given(KEYS, st.integers(2, 9), st.sampled_from(["parent", "star"]), st.data())
def test_labels_with_stars_are_those_of_the_twin(
    keys: list[tuple[int, ...]], k: int, form: LabelForm, data: st.DataObject
) -> None:
    keys = sorted(keys)
    rows = data.draw(st.lists(st.integers(1, 9), min_size=len(keys), max_size=len(keys)))
    counted = merged_codes(keys, rows, k, merges=True)
    order: list[list[str | None]] = [["*", "a", "a|b", None], ["", "**", "\\*", "z"]]
    values = [pa.array(PATTERNS), *(pa.array(column, pa.string()) for column in order)]
    every = np.ones(len(counted.depth), dtype=np.bool_)
    ids, labels = label_strata(counted.codes, values, counted.stratum, counted.depth, every, form, [pa.string()] * 2)
    said = list(zip(*(labels[f"b{j}"].to_pylist() for j in range(2)), strict=True))
    strata = naive_strata.merged(keys, rows, k, 1)
    for stratum in range(len(strata)):
        expected = naive_strata.label_with_stars(keys, stratum, strata, order, form == "star")
        assert said[ids[stratum]] == expected


@examples(100)
@given(st.lists(st.integers(1, 40), max_size=60), st.integers(1, 40))
def test_files_are_filled_one_label_after_the_other(rows: list[int], limit: int) -> None:
    first, count = assign_files(np.array(rows, dtype=np.int64), limit)
    number = held = 0
    for label, n in enumerate(rows):
        if held and held + n > limit:
            number, held = number + 1, 0
        assert (first[label], count[label]) == (number, max(1, -(-n // limit)))
        held += n
        if n > limit:
            number, held = number + int(count[label]), 0


@examples(100)
@given(st.lists(st.tuples(st.integers(1, 160), st.integers(0, 4 * 2**20)), max_size=60))
def test_partitions_are_filled_one_block_after_the_other(blocks: list[tuple[int, int]]) -> None:
    seconds, n_bytes = np.array([b[0] / 4 for b in blocks]), np.array([b[1] for b in blocks], dtype=np.int64)
    target = min(max(seconds.sum() / 48, 0.2), 30.0)
    limit = min(max(n_bytes.sum() // 48, 4 * 2**20), 48 * 2**20)
    expected, number, cost, size = [], 0, 0.0, 0
    for second, some in zip(seconds.tolist(), n_bytes.tolist(), strict=True):
        if expected and number == expected[-1] and (cost + second > target or size + some > limit):
            number, cost, size = number + 1, 0.0, 0
        expected.append(number)
        cost, size = cost + second, size + some
    assert pack_blocks(seconds, n_bytes).tolist() == expected


@examples(10)
@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from([0, 3, 900, 6000]), min_size=1, max_size=4))
def test_keys_come_to_the_same_counts_however_they_are_cut(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    parts = []
    for size in sizes:
        numbers = rng.choice(30_000, size, replace=False)
        rows = rng.integers(1, 5, size)
        table = {"pattern": numbers.astype(np.uint64) % 3, "b0": np.char.mod("v%d", numbers), "rows": rows}
        parts.append(pa.table(table))
    store = Store(f"memory://keys-{seed}-{len(sizes)}", private=True)
    run, receipts = Run(store, "key"), []
    for number, table in enumerate(parts):
        work = Work(Task("survey", number, run))
        write_keys(work, table)
        receipts.append(work.receipt(0))
    for most in (1_000_000, 2000, 300):
        counted = _merged(receipts, run, most)
        expected = pa.concat_tables(parts).group_by(["pattern", "b0"]).aggregate([("rows", "sum")])
        assert _as_dict(counted) == _as_dict(expected.rename_columns(["pattern", "b0", "rows"]))
    store.delete_all("")


def _merged(receipts: list[Receipt], run: Run, most: int) -> pa.Table:
    with patch("microagg_core.release.steps.keys.TASK_KEYS", most):
        works = [Work(task) for task in key_tasks(receipts, run)]
    for work in works:
        merge_range(work)
    assert [work.number for work in works] == list(range(len(works)))
    return counted_keys(Pieces(run, (piece for work in works for piece in work.written)))


class Wiring(StepsDone):
    def do(self, step: Step, **_: object) -> list[Receipt]:
        raise AssertionError("only the tasks are wired here")


def key_tasks(receipts: list[Receipt], run: Run) -> list[Task]:
    done = Wiring(work=run.work, key=run.key)
    done.note(SURVEY_PARTS, receipts)
    return done.tasks(MERGE_KEYS)


def _as_dict(table: pa.Table) -> dict[tuple[int, str], int]:
    found = {}
    for pattern, value, rows in zip(*(table[name].to_pylist() for name in ("pattern", "b0", "rows")), strict=True):
        assert (pattern, value) not in found
        found[pattern, value] = rows
    return found


def test_a_task_takes_a_bounded_number_of_keys(tmp_path: Path) -> None:
    run = Run(Store(str(tmp_path / "work"), private=True), "key")
    table = pa.table(
        {"pattern": np.zeros(50_000, dtype=np.uint64), "b0": np.arange(50_000), "rows": np.ones(50_000, int)}
    )
    receipts = []
    for number in range(3):
        work = Work(Task("survey", number, run))
        write_keys(work, table)
        receipts.append(work.receipt(0))
    with patch("microagg_core.release.steps.keys.TASK_KEYS", 20_000):
        tasks = key_tasks(receipts, run)
    assert len(tasks) == 8
    assert all(10_000 < int(task.sent[0].slices.array["rows"].sum()) < 30_000 for task in tasks)


def parted_units(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Sizes]:
    """Units with rows in several keys: the unit and key of each row, the codes of keys, and what is counted."""
    draw = np.random.default_rng(seed)
    codes = np.unique(draw.integers(0, 4, (int(draw.integers(3, 30)), 2)), axis=0)
    units, keys = np.array([(u, key) for u in range(40) for key in draw.integers(0, len(codes), draw.integers(1, 7))]).T
    first = np.diff(units, prepend=-1) != 0
    counts, firsts = (np.bincount(keys[of], minlength=len(codes)) for of in (first | True, first))
    there = np.array([len(set(units[keys == key].tolist())) for key in range(len(codes))])
    return units, keys, codes, Sizes.of(counts, firsts=firsts, most=there)


@each("seed", range(50))
def test_merged_keys_have_as_many_units_as_is_said_at_least(seed: int) -> None:
    units, keys, codes, sizes = parted_units(seed)
    k = 3 + seed % 6
    stratum, depth = merge_undersized(codes, sizes, k)
    there = np.array([len(set(units[stratum[keys] == s].tolist())) for s in range(len(depth))])
    assert (sizes.of_strata(stratum, len(depth)).units <= there).all() and (there >= k).all()


def test_what_is_withheld_of_parted_units_is_of_k_of_them() -> None:
    n_withheld = 0
    for seed in range(60):
        units, keys, codes, sizes = parted_units(seed)
        k, names = 3 + seed % 9, np.array([*"abcd"])
        table = pa.table({"pattern": np.zeros(len(codes), dtype=np.uint64), "b0": names[codes[:, 0]]})
        table = table.append_column("b1", pa.array(names[codes[:, 1]]))
        for name, column in {"rows": sizes.rows, "firsts": sizes.firsts, "units": sizes.most}.items():
            table = table.append_column(name, pa.array(column))
        try:
            with patch("microagg_core.blocks.withholding.MOST_ADDED", 1.0):
                made = plan_strata(table, StrataRules(k, "suppress"), [pa.string(), pa.string()])
        except DataError:
            continue
        kept = set(zip(made.labels["b0"].to_pylist(), made.labels["b1"].to_pylist(), strict=True))
        is_kept = np.array([tuple(names[code]) in kept for code in codes])
        for cell in (codes[:, 0] >= 0, *(codes[:, 0] == value for value in range(4))):
            gone, all_gone = cell & ~is_kept, not (cell & is_kept).any()
            whose = set(units[gone[keys]].tolist())
            assert not gone.any() or all_gone or (len(whose) >= k and gone.sum() >= 2)
            n_withheld += gone.any() and not all_gone
    assert n_withheld > 20
