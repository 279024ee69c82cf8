"""Protection beyond k: whatever the data, every group of every way holds what is demanded, refined or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.arrays import Floats, Ints
from microagg_core.group.metrics.losses import sse_of_labels
from microagg_core.group.refine.neighbours import Records
from microagg_core.inspect.demand import Demand
from microagg_core.inspect.distributions import Distribution, codes_of, distinct_values
from microagg_core.inspect.protect.groups import (
    BlockDemands,
    block_demands,
    broken_by_groups,
    groups_across_strata,
    joined,
    least_strata,
    protected_groups,
    ways,
)
from twins.naive_distances import naive_distances


def demands_on(columns: dict[str, pa.Array], *demands: Demand) -> BlockDemands:
    """Demands on the records of a block that is the whole release."""
    wholes = [Distribution.of(columns[demand.column]) for demand in demands]
    codes = [whole.codes(columns[demand.column]) for demand, whole in zip(demands, wholes, strict=True)]
    return block_demands(demands, codes, wholes)


def near_of(X: Floats, count: int = 12) -> Any:
    """For each record, some near it."""
    records = Records.of(X, count)
    near = np.empty((len(X), count), dtype=np.int32)
    near[records.order] = records.order[records.near(count)]
    return near


def grouped(n: int, k: int) -> Ints:
    """Groups of k records as they come."""
    return np.minimum(np.arange(n) // k, n // k - 1)


@given(st.integers(0, 2**32), st.integers(20, 90), st.integers(1, 40), st.integers(1, 20), st.booleans())
@examples(80)
def test_kernels_break_rules_by_as_much_as_the_definition(
    seed: int, n: int, n_values: int, n_groups: int, is_text: bool
) -> None:
    draw = np.random.default_rng(seed)
    values = draw.integers(0, n_values, n)
    missing = draw.random(n) < draw.choice([0.0, 0.2, 0.8])
    column = pa.array(values.astype(str) if is_text else values, mask=missing)
    labels = draw.permutation(np.arange(n) % n_groups)
    demands = demands_on({"x": column}, Demand("x", 3, 0.05))
    (whole,), (codes,) = demands.wholes, demands.codes
    assert whole is not None
    far = [max(0.0, float(d) - 0.05) for d in naive_distances(whole.counts, codes, labels, whole.is_ordered)]
    few = [max(0, 3 - len(set(codes[labels == g].tolist()) - {0})) / 3 for g in range(n_groups)]
    assert np.allclose(broken_by_groups(demands.rules(), labels), np.add(far, few), atol=2e-12)


@given(st.data(), st.integers(0, 2**32), st.sampled_from(["off", "fast"]))
@examples(60)
def test_all_groups_hold_what_is_demanded(data: Any, seed: int, effort: str) -> None:
    """With ties in every column, several demands, and demands that are hard to hold."""
    draw = np.random.default_rng(seed)
    k = data.draw(st.integers(2, 6))
    n = data.draw(st.integers(2 * k, 150))
    X = draw.integers(0, data.draw(st.integers(2, 40)), (n, 2)).astype(np.float64)
    illness = draw.choice(["no", "flu", "hiv"], n, p=[0.9, 0.08, 0.02])
    illness[:2] = "no", "flu"
    income = (3 * X[:, 0] + draw.integers(0, 9, n)).astype(np.int64) // data.draw(st.integers(1, 9))
    missing = draw.random(n) < data.draw(st.sampled_from([0.0, 0.1, 0.6]))
    missing[:2] = False
    columns = {"illness": pa.array(illness), "income": pa.array(income, mask=missing)}
    t, spread = data.draw(st.floats(0.02, 0.6)), data.draw(st.floats(0.05, 0.6))
    asked = [Demand("income", t=t), Demand("illness", 2, spread), Demand("illness", 2), Demand("income", 0, t)]
    chosen = asked[data.draw(st.integers(0, 3)) :][: data.draw(st.integers(1, 2))]
    demands = demands_on(columns, *chosen)
    plain, refined = protected_groups(X, grouped(n, k), k, demands, effort, 7)
    for labels in (plain, refined):
        assert np.bincount(labels).min() >= k
        assert not demands.broken(labels).any()
    assert sse_of_labels(X, refined) <= sse_of_labels(X, plain) * (1 + 1e-12)
    again = protected_groups(X, grouped(n, k), k, demands, effort, 7)
    assert np.array_equal(again[1], refined)


def test_each_way_holds_and_the_best_is_kept() -> None:
    draw = np.random.default_rng(3)
    X = draw.normal(size=(400, 2))
    income = np.rint(20 * (X[:, 0] + draw.normal(size=400))).astype(np.int64)
    demands = demands_on({"income": pa.array(income)}, Demand("income", t=0.12))
    start, near = grouped(400, 5), near_of(X)
    made = ways(X, start, 5, demands, near)
    assert set(made) == {"mend", "merge", "k-first", "t-first income"}
    for labels in made.values():
        assert not demands.broken(labels).any() and np.bincount(labels).min() >= 5
    _, refined = protected_groups(X, start, 5, demands, "fast", 0)
    assert sse_of_labels(X, refined) <= min(sse_of_labels(X, labels) for labels in made.values())


@pytest.mark.parametrize("t", [0.03, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("share_of_ties", [0.0, 0.5, 0.99])
def test_t_first_is_within_its_bound_with_ties_too(t: float, share_of_ties: float) -> None:
    """Without ties by the bound itself, with them after more strata: no group has to join another."""
    draw = np.random.default_rng(11)
    n = 600
    X, values = draw.normal(size=(n, 2)), np.arange(n)
    values[draw.random(n) < share_of_ties] //= 100
    demands = demands_on({"x": pa.array(values)}, Demand("x", t=t))
    labels = groups_across_strata(X, 3, demands.codes[0], least_strata(n, t), demands.rules())
    assert labels is not None and not demands.broken(labels).any()
    if share_of_ties == 0.0:
        strata, share = least_strata(n, t), -(-3 // least_strata(n, t))
        assert np.bincount(labels).max() <= strata * share + n % (strata * share)


def test_joining_ends_with_one_group_where_nothing_else_holds() -> None:
    X = np.arange(20.0)[:, None]
    demands = demands_on({"x": pa.array(np.arange(20))}, Demand("x", t=0.001))
    assert joined(X, grouped(20, 2), demands.rules()).max() == 0


def test_what_a_block_cannot_hold_is_told() -> None:
    values = pa.array([1, 1, 1, 2, 2, 2])
    whole = Distribution.of(values)
    first = block_demands([Demand("x", 2)], [codes_of(values)[:3]], [None])
    assert first.impossible() == Demand("x", 2)
    assert block_demands([Demand("x", 2)], [codes_of(values)], [None]).impossible() is None
    far = block_demands([Demand("x", t=0.4)], [whole.codes(values)[:3]], [whole])
    assert far.impossible() == Demand("x", t=0.4)


def test_protection_costs_nothing_where_it_is_there_already() -> None:
    X = np.repeat(np.arange(10.0), 4)[:, None]
    demands = demands_on({"x": pa.array(np.tile(["a", "b"], 20))}, Demand("x", 2))
    labels = protected_groups(X, grouped(40, 4), 4, demands, "off", 0)[0]
    assert np.array_equal(labels, grouped(40, 4))
    assert distinct_values(demands.codes[0], labels).min() == 2
