"""Survey weights: means, modes and medians as twins in fractions have them; nobody has most of a group's weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.blocks.merging import Sizes, merge_undersized
from microagg_core.blocks.strata import StrataRules, plan_strata
from microagg_core.data.kinds.nominal import NominalKind
from microagg_core.data.kinds.registry import broken_claim, completed, kind_of
from microagg_core.errors import DataError
from microagg_core.group.algorithms import algorithms
from microagg_core.group.metrics.moments import MOST_OF_WEIGHT, Groups, float_means, whole_means
from microagg_core.group.points import Points
from microagg_core.inspect.demand import Demand
from microagg_core.inspect.distributions import Distribution, codes_of
from microagg_core.inspect.protect import rules
from microagg_core.inspect.protect.groups import BlockDemands, block_demands, mended_groups, protected_groups
from twins.naive import weighted_means, weighted_median, weighted_mode

WEIGHTS = st.one_of(st.floats(1e-6, 1e6), st.sampled_from([1.0, 1.0, 2.0, 1e-12, 1e12]))
FLOATS = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.1, -0.0, 1e300, -1e300, 1.7e308, 5e-324]))
LARGE = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-9, 9))


def grouped(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, float, int]]]:
    rows = st.lists(st.tuples(values, WEIGHTS, st.integers(0, 3)), min_size=1, max_size=40)
    return rows.map(lambda drawn: [(*row[:2], sorted({r[2] for r in drawn}).index(row[2])) for row in drawn])


def arrays(rows: list[tuple[Any, float, int]], kind: type) -> tuple[Any, Any, Any]:
    values, weights, labels = zip(*rows, strict=True)
    return np.array(values, dtype=kind), np.array(weights), np.array(labels)


@given(grouped(FLOATS), st.randoms())
@examples(200)
def test_weighted_means_of_floats(rows: list[tuple[float, float, int]], random: Any) -> None:
    values, weights, labels = arrays(rows, float)
    means = float_means(values, Groups.of(labels, weights))
    for label, (mean, true) in enumerate(zip(means.tolist(), weighted_means(*zip(*rows, strict=True)), strict=True)):
        own = values[labels == label]
        assert own.min() <= mean <= own.max()
        assert abs(Fraction(mean) - true) <= 8 * Fraction(float(np.spacing(np.abs(own).max())))
    order = list(range(len(rows)))
    random.shuffle(order)
    again = float_means(values[order], Groups.of(labels[order], weights[order]))
    assert again.tobytes() == means.tobytes(), "the order of records shows"


@given(grouped(LARGE))
@examples(200)
def test_weighted_means_of_whole_numbers(rows: list[tuple[int, float, int]]) -> None:
    values, weights, labels = arrays(rows, np.int64)
    made = whole_means(values, Groups.of(labels, weights))
    rounded = made.rounded(1, -(2**63), 2**63 - 1)
    for label, true in enumerate(weighted_means(*zip(*rows, strict=True))):
        own = [int(x) for x in values[labels == label]]
        error = Fraction(1, 2**50) * (max(own) - min(own) + 1)
        assert min(own) <= int(rounded[label]) <= max(own)
        assert abs(Fraction(int(rounded[label])) - true) <= Fraction(1, 2) + error
        assert abs(made.floor[label] + Fraction(int(made.rest[label]), int(made.sizes[label])) - true) <= error


def test_equal_weights_give_plain_means() -> None:
    values, labels = np.array([1, 2, 4, 9]), np.array([0, 0, 1, 1])
    assert whole_means(values, Groups.of(labels, np.full(4, 7.0))).as_floats(1).tolist() == [1.5, 6.5]


LETTERS, LEVELS = list("abcd"), ("none", "some", "more", "most")
DECIMALS = st.sampled_from([0.1, 0.1, 0.2, 0.3, 0.7, 1.4, 350.25, 12.5])


def of_categories(letters: Any) -> st.SearchStrategy[list[tuple[Any, float, int]]]:
    rows = st.lists(st.tuples(st.sampled_from(letters), DECIMALS, st.integers(0, 4)), min_size=1, max_size=30)
    return rows.map(lambda drawn: [(*row[:2], sorted({r[2] for r in drawn}).index(row[2])) for row in drawn])


@given(of_categories(LETTERS), of_categories(LEVELS))
@examples(100)
def test_groups_get_their_weighted_mode_or_median_and_the_gate_asks_for_it(texts: Any, sizes: Any) -> None:
    """Of a group, and of the class of all groups that were released alike, whose order of records is another."""
    modes = kind_of("job", pa.string()), texts, lambda *own: weighted_mode(*own, [row[0] for row in texts])
    medians = (
        kind_of("size", pa.string(), kind="ordinal", levels=LEVELS),
        sizes,
        lambda *of: weighted_median(*of, LEVELS),
    )
    for rough, rows, twin in (modes, medians):
        values, drawn, labels = zip(*rows, strict=True)
        column, weights, groups = pa.array(values), np.array(drawn), np.array(labels)
        kind = completed(rough, column)
        ticks = kind.ticks(column)[0]
        released = kind.representatives(ticks, Groups.of(groups, weights))
        for label, value in enumerate(kind.to_arrow(released).to_pylist()):
            own = [i for i, group in enumerate(labels) if group == label]
            assert value == twin([values[i] for i in own], [drawn[i] for i in own])
        turned = np.arange(len(ticks))[::-1]
        shown = released[groups][turned]
        classes = Groups.of(np.unique(shown, return_inverse=True)[1], weights[turned])
        assert kind.fits(ticks[turned], shown, classes).all()
        for other in range(len(LEVELS if kind.is_ranked else set(values))):
            fits = kind.fits(ticks, np.full(len(ticks), other), Groups.of(0 * groups, weights))
            assert fits.all() == _may_stand(kind.is_ranked, other, ticks.tolist(), drawn)


def _may_stand(is_ranked: bool, value: int, ticks: list[int], weights: Sequence[float]) -> bool:
    """Tell whether no other has more weight; or whether half of the weight is reached here, and not below."""
    below, own, whole = (
        sum(Fraction(repr(w)) for tick, w in zip(ticks, weights, strict=True) if is_it(tick))
        for is_it in (lambda tick: tick < value, lambda tick: tick == value, lambda tick: True)
    )
    if is_ranked:
        return 2 * below < whole <= 2 * (below + own)
    each = [sum(Fraction(repr(w)) for tick, w in zip(ticks, weights, strict=True) if tick == of) for of in set(ticks)]
    return own == max(each)


class Blind(NominalKind):
    def representatives(self, ticks: Any, groups: Groups) -> Any:
        return super().representatives(ticks, replace(groups, weights=None))


def test_a_kind_that_does_not_weigh_is_not_used() -> None:
    assert broken_claim(NominalKind("x", pa.string())) == ""
    assert broken_claim(Blind("x", pa.string())) == "refuses in the gate what it released"


def dominated(weights: Any, labels: Any) -> Any:
    """Tell which groups have a record with more than half of their weight, one by one."""
    return [max(weights[labels == g]) > sum(weights[labels == g]) / 2 * (1 + 1e-9) for g in range(labels.max() + 1)]


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("spread", [0.8, 1.5, 3.0])
def test_groups_are_mended_and_others_stay(k: int, spread: float) -> None:
    rng = np.random.default_rng([k, int(spread * 10)])
    X, weights = Points.of(rng.normal(size=(400, 3))), rng.lognormal(0, spread, 400)
    weights[:10] = weights[10:20]  # ties, which hold the rule
    if weights.max() > weights.sum() / 2:
        weights[weights.argmax()] = 1.0
    labels = algorithms()["mdav"].run(X, k, seed=0)
    demands = BlockDemands((), (), (), weights)
    mended = mended_groups(X, labels, k, demands)
    assert not any(dominated(weights, mended)) and np.bincount(mended).min() >= k
    assert any(dominated(weights, labels))
    before = {frozenset(np.flatnonzero(labels == g).tolist()) for g in range(labels.max() + 1)}
    after = {frozenset(np.flatnonzero(mended == g).tolist()) for g in range(mended.max() + 1)}
    if k == 5 and spread == 0.8:
        assert len(before & after) > 0.5 * len(before)
    assert mended_groups(X, mended, k, demands) is mended


def test_groups_hold_weights_and_other_demands_together() -> None:
    rng = np.random.default_rng(8)
    X, weights = Points.of(rng.normal(size=(300, 2))), rng.lognormal(0, 1.2, 300)
    values = pa.array(rng.choice(["a", "b", "c"], 300))
    demands = block_demands([Demand("x", 2)], [codes_of(values)], [Distribution.of(values)], weights)
    labels = algorithms()["mdav"].run(X, 3, seed=0)
    plain, refined = protected_groups(X, labels, 3, demands, "fast", 0)
    for made in (plain, refined):
        assert not any(dominated(weights, made)) and np.bincount(made).min() >= 3
        assert min(len(set(np.asarray(values)[made == g])) for g in range(made.max() + 1)) >= 2


def test_a_dominated_block_is_refused() -> None:
    with pytest.raises(DataError, match="weight 'w': in a block one record has more than half"):
        BlockDemands((), (), (), np.array([1.0, 1.0, 3.0])).refuse_dominated("w", "cure")
    BlockDemands((), (), (), np.array([1.0, 1.0, 2.0])).refuse_dominated("w", "cure")


KEYS = [("n", "a", 5, 10.0, 9.0), ("n", "b", 9, 30.0, 4.0), ("s", "a", 7, 9.0, 2.0), ("s", "b", 4, 8.0, 2.0)]


def keys(rows: list[tuple[str, str, int, float, float]]) -> pa.Table:
    columns = dict(zip(("b0", "b1", "rows", "weight", "heaviest"), map(list, zip(*rows, strict=True)), strict=True))
    return pa.table({"pattern": pa.array([0] * len(rows), pa.uint64()), **columns})


def test_a_dominated_key_is_as_one_below_k() -> None:
    """It joins a sibling, or is withheld with another, as its total would tell of it."""
    types = [pa.string(), pa.string()]
    merged = plan_strata(keys(KEYS), StrataRules(3), types)
    assert sorted(zip(*(merged.labels[b].to_pylist() for b in ("b0", "b1")), strict=True)) == [
        ("n", "a|b"), ("s", "a"), ("s", "b")]  # fmt: skip
    assert merged.undersized_keys == 1
    withheld = plan_strata(
        keys([*KEYS, ("s", "c", 90, 90.0, 1.0)]), StrataRules(3, "suppress", totals_known="file"), types
    )
    assert withheld.suppressed_rows == 5 + 4 and withheld.undersized_keys == 1
    with pytest.raises(DataError, match="1 of 4 blocking keys have fewer than k=3 records, or one with more than half"):
        plan_strata(keys(KEYS), StrataRules(3, "error"), types)
    with pytest.raises(DataError, match="no block reaches k=3 records of which none has more than half of the weight"):
        plan_strata(keys([("n", "a", 9, 10.0, 9.0)]), StrataRules(3), types)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(1, 9), st.floats(0.1, 9)), max_size=12))
@examples(100)
def test_what_reaches_k_is_not_dominated(drawn: list[tuple[int, int, int, float]]) -> None:
    """Of merged strata those that are large enough hold the rule, or there is no sibling left."""
    sizes = {row[:2]: row[2:] for row in drawn}
    codes = np.array(sorted(sizes), dtype=np.int64).reshape(-1, 2)
    rows, heaviest = (np.array([sizes[tuple(code)][i] for code in codes.tolist()], dtype=float) for i in (0, 1))
    of_keys = Sizes.of(rows.astype(np.int64), heaviest + (rows - 1) * 0.5, heaviest)
    if not len(codes):
        return
    stratum, depth = merge_undersized(codes, of_keys, 3)
    merged = of_keys.of_strata(stratum, len(depth))
    assert merged.rows.sum() == rows.sum()
    assert not merged.too_small(3).any() or len(depth) == 1


def test_kernels_know_the_same_limit() -> None:
    assert rules.MOST_OF_WEIGHT == MOST_OF_WEIGHT
