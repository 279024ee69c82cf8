"""Nights of a series: which blocking keys go, which are held, and plans without a block."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.blocks.plan import Outline, plan_blocks
from microagg_core.blocks.routes import SUPPRESSED, Routes, hash_keys
from microagg_core.blocks.strata import Strata, StrataRules, plan_strata
from microagg_core.errors import DataError
from microagg_core.group.algorithms import algorithms
from microagg_core.plain import from_json, to_json
from microagg_core.release.planning import task_bytes

K = 3
TEXTS = [pa.string(), pa.string()]
#: Records of a blocking key, and how many of them have waited.
Counted = dict[tuple[str, str], tuple[int, int]]


def keys_table(counted: Counted, is_night: bool = True) -> pa.Table:
    keys = list(counted)
    counts = np.array(list(counted.values()), dtype=np.int64).reshape(-1, 2)
    columns = {
        "pattern": pa.array(np.zeros(len(keys), dtype=np.uint64)),
        **{f"b{j}": pa.array([key[j] for key in keys], pa.string()) for j in range(2)},
        "rows": pa.array(counts[:, 0]),
    }
    return pa.table({**columns, "waited": pa.array(counts[:, 1])} if is_night else columns)


def strata_of(strata: Strata, counted: Counted) -> dict[tuple[str, str], int]:
    keys = list(counted)
    columns = [pa.array([key[j] for key in keys], pa.string()) for j in range(2)]
    place = np.searchsorted(
        strata.key_hashes, hash_keys(columns, np.zeros(len(keys), dtype=np.uint64), strata.hash_seed)
    )
    return dict(zip(keys, strata.stratum_of_hash[place].tolist(), strict=True))


def test_large_keys_go_by_themselves_and_waiting_ones_together() -> None:
    counted = {("n", "a"): (20, 0), ("n", "b"): (2, 1), ("n", "c"): (9, 0), ("n", "d"): (2, 2), ("s", "a"): (1, 0)}
    strata = plan_strata(keys_table(counted), StrataRules(K, "merge"), TEXTS, 20)
    labels = list(zip(*(strata.labels[f"b{j}"].to_pylist() for j in range(2)), strict=True))
    assert labels == [("n", "a"), ("n", "b|d")] and strata.rows.tolist() == [20, 4]
    found = strata_of(strata, counted)
    assert found["n", "c"] == found["s", "a"] == SUPPRESSED
    assert (strata.held_rows, strata.suppressed_keys, strata.suppressed_rows) == (10, 0, 0)
    assert strata.withheld_rows == 10


def test_a_key_that_has_waited_goes_if_it_has_k_and_is_held_if_not() -> None:
    counted = {("n", "a"): (5, 1), ("n", "b"): (5, 0), ("s", "a"): (2, 2)}
    strata = plan_strata(keys_table(counted), StrataRules(K, "suppress"), TEXTS, 20)
    assert (strata.rows.tolist(), strata.held_rows) == ([5], 7)


def test_no_key_goes_by_itself_with_fewer_than_k() -> None:
    strata = plan_strata(keys_table({("n", "a"): (2, 0)}), StrataRules(K, "merge"), TEXTS, 1)
    assert (len(strata.rows), strata.held_rows) == (0, 2)


def test_a_night_without_hold_holds_what_is_below_k_or_stops() -> None:
    counted = {("n", "a"): (5, 0), ("s", "a"): (1, 0), ("s", "b"): (1, 0)}
    for undersized, rows, held in (("merge", 7, 0), ("suppress", 5, 2)):
        night = plan_strata(keys_table(counted), StrataRules(K, undersized), TEXTS)
        assert (int(night.rows.sum()), night.held_rows, night.suppressed_rows) == (rows, held, 0)
    with pytest.raises(DataError, match="1 of 2 blocking keys have fewer than k=3"):
        plan_strata(keys_table({("n", "a"): (5, 0), ("s", "a"): (1, 0)}), StrataRules(K, "error"), TEXTS)


COUNTED = st.dictionaries(
    st.tuples(st.sampled_from("nse"), st.sampled_from("abcd")),
    st.integers(1, 12).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(0, rows))),
    max_size=10,
)


@given(COUNTED, st.sampled_from(["merge", "suppress"]), st.one_of(st.none(), st.integers(1, 12)))
@examples(200)
def test_who_goes_has_enough_or_has_waited_and_nobody_is_lost(
    counted: Counted, undersized: str, until: int | None
) -> None:
    strata = plan_strata(keys_table(counted), StrataRules(K, undersized), TEXTS, until)
    assert int(strata.rows.sum()) + strata.held_rows == sum(rows for rows, _ in counted.values())
    assert strata.suppressed_rows == 0 and np.all(strata.rows >= K)
    members: dict[int, list[tuple[int, int]]] = {}
    for key, stratum in strata_of(strata, counted).items():
        members.setdefault(stratum, []).append(counted[key])
    for stratum, keys in members.items():
        if stratum == SUPPRESSED or until is None:
            continue
        assert (len(keys) == 1 and keys[0][0] >= until) or all(waited for _, waited in keys)


@given(COUNTED.filter(lambda counted: any(rows >= K for rows, _ in counted.values())))
@examples(100)
def test_a_night_without_hold_makes_the_strata_of_any_release(counted: Counted) -> None:
    night = plan_strata(keys_table(counted), StrataRules(K, "merge"), TEXTS)
    release = plan_strata(keys_table(counted, is_night=False), StrataRules(K, "merge"), TEXTS)
    assert night.labels == release.labels and night.rows.tolist() == release.rows.tolist()
    assert strata_of(night, counted) == strata_of(release, counted)
    assert night.held_rows == release.suppressed_rows


@pytest.mark.parametrize("undersized", ["merge", "suppress"])
@pytest.mark.parametrize("counted", [{}, {("n", "a"): (2, 0)}], ids=["no arrival", "all held"])
def test_a_plan_without_a_block(counted: Counted, undersized: str) -> None:
    strata = plan_strata(keys_table(counted), StrataRules(K, undersized), TEXTS)
    info, released = algorithms()["mdav"], pa.schema([pa.field("b", pa.string()), pa.field("x", pa.int64())])
    plan = plan_blocks(strata, {}, {}, info, 1, K, 0.0, 1000, released)
    assert (plan.n_blocks, plan.n_partitions, plan.n_files) == (0, 0, 0)
    assert plan.rows_of_partitions().tolist() == [] and plan.strata.held_rows == sum(
        rows for rows, _ in counted.values()
    )
    assert plan.strata.labels.num_rows == 0
    outline = from_json(Outline, to_json(plan.outline()))
    assert (outline.n_blocks, outline.n_partitions, outline.rows.tolist()) == (0, 0, [])
    routes = Routes.from_table(plan.routes().to_table())
    nobody = routes.places_of(np.empty(0, dtype=np.uint64))
    assert routes.blocks_of(nobody, outline.trees, np.empty((0, 1)), nobody).tolist() == []
    assert (routes.stratum == SUPPRESSED).all() and plan.blocks().num_rows == 0
    assert task_bytes(plan, info, 1, K, 0.0) == plan.route_bytes()
