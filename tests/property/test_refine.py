"""Refinement makes any partition no worse and never smaller than k, whatever the records."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import cover, each, examples, is_whole
from inputs.strategies import matrices
from microagg_core import algorithms, microaggregate, partition
from microagg_core.group.bounds import UNPROVED
from microagg_core.group.costs import starts_from_slabs
from microagg_core.group.metrics.losses import losses, standardize
from microagg_core.group.points import Points
from microagg_core.group.refine.bounds import refine_with_bound
from microagg_core.group.refine.refinement import cut_large, refine
from twins import naive


def exact_loss(X: np.ndarray, labels: np.ndarray) -> Fraction:
    groups = [np.flatnonzero(labels == label).tolist() for label in range(labels.max() + 1)]
    return naive.sum_of_squares(X.tolist(), groups)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Records of any kind in groups of at least k, some far larger, drawn at random."""
    k = draw(st.integers(2, 5))
    n = draw(st.one_of(st.sampled_from([k, 2 * k - 1, 2 * k]), st.integers(k, 8 * k)))
    X = draw(matrices(n, draw(st.integers(1, 5))))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    n_groups = draw(st.integers(1, n // k))
    labels = np.concatenate([np.repeat(np.arange(n_groups), k), rng.integers(0, n_groups, n - k * n_groups)])
    return X, rng.permutation(labels), k


@given(partitions(), st.sampled_from(["fast", "fast", "thorough"]))
@examples(250)
def test_never_below_k_and_never_worse(case: tuple[np.ndarray, np.ndarray, int], effort: str) -> None:
    X, labels, k = case
    before = X.copy(), labels.copy()
    refined = refine(X, labels, k, effort=effort, seed=3)
    assert refined.dtype == np.int64 and refined.shape == labels.shape
    groups, first, sizes = np.unique(refined, return_index=True, return_counts=True)
    assert groups.tolist() == list(range(len(groups))) and (np.diff(first) > 0).all()
    assert sizes.min() >= k
    given_loss = exact_loss(X, np.unique(labels, return_inverse=True)[1])
    assert exact_loss(X, refined) <= given_loss * (1 + Fraction(1, 10**13))
    assert np.array_equal(X, before[0]) and np.array_equal(labels, before[1]), "arguments are left as they are"


@each("algorithm, effort", cover(list(algorithms()), ["fast", "thorough"]))
def test_every_algorithm_can_be_refined(algorithm: str, effort: str) -> None:
    info = algorithms()[algorithm]
    k = min(3, info.max_k or 3)
    X = np.random.default_rng(2).standard_normal(
        (min(150, info.max_records or 150) - 4, min(3, info.max_attributes or 3))
    )
    plain, refined = partition(X, k, algorithm), partition(X, k, algorithm, refine=effort)
    before, after = losses(X, plain).sse, losses(X, refined).sse
    assert np.bincount(refined).min() >= k
    assert after <= before * (1 + 1e-14)
    if algorithm in ("mdav", "mdav_plus", "v_mdav", "mdav_star", "md", "mst", "mu_approx"):
        assert after < 0.97 * before, "there is much to gain"


def test_thorough_is_better_than_fast_where_there_is_more_to_gain() -> None:
    X = np.random.default_rng(4).standard_normal((600, 5))
    plain, fast, thorough = (losses(X, partition(X, 4, refine=effort)).sse for effort in ("off", "fast", "thorough"))
    assert thorough < 0.995 * fast < 0.95 * plain


@each("seed", range(5 if is_whole() else 2))
def test_thorough_is_never_worse_than_fast_among_many_zeros(seed: int) -> None:
    """Of a file with 60 % zeros: neighbours are equal records, and a longer annealing alone may end higher."""
    rng = np.random.default_rng(seed)
    X = rng.lognormal(0.0, 1.0, size=(600, 3))
    X[rng.random((600, 3)) < 0.6] = 0.0
    X = standardize(X)
    lost = {effort: losses(X, partition(X, 3, refine=effort)).sse for effort in ("fast", "thorough")}
    assert lost["thorough"] <= lost["fast"]


def test_refinement_starts_from_slabs_where_mdav_would_take_long() -> None:
    X = standardize(np.random.default_rng(2).lognormal(size=(2500, 30)))
    assert starts_from_slabs(2500, 30, 3) and not starts_from_slabs(1000, 30, 3)
    from_slabs = partition(X, 3, "slabs", refine="fast")
    assert np.array_equal(partition(X, 3, refine="fast"), from_slabs)
    assert not np.array_equal(partition(X, 3), partition(X, 3, "slabs")), "what is not refined is MDAV's"
    by_mdav = losses(X, refine(X, partition(X, 3), 3)).sse
    assert losses(X, from_slabs).sse < 1.01 * by_mdav


def test_groups_of_equal_records_are_left_as_they_are() -> None:
    X = np.random.default_rng(3).integers(0, 2, (4000, 5)).astype(np.float64)
    labels = partition(X, 3, "slabs")
    assert losses(X, labels).sse == 0
    refined, bound = refine_with_bound(X, labels, 3, "fast", 0)
    assert refined is labels and bound.sse == 0


@each("effort", ["off", "fast"])
def test_nothing_is_proved_where_that_is_not_wanted(effort: str) -> None:
    X = np.random.default_rng(4).standard_normal((300, 3))
    labels = partition(X, 2)
    refined, bound = refine_with_bound(X, labels, 2, effort, 0, UNPROVED)
    assert math.isnan(bound.sse)
    assert np.array_equal(refined, refine_with_bound(X, labels, 2, effort, 0)[0])


def test_the_best_groups_are_found_from_the_worst() -> None:
    """Ten heaps of four, dealt out like cards."""
    X = np.repeat(np.arange(10.0) * 100, 4)[:, None] + np.tile([0.0, 1.0, 2.0, 4.0], 10)[:, None]
    assert refine(X, np.tile(np.arange(4), 10) + 7, 4, effort="thorough").tolist() == np.repeat(range(10), 4).tolist()


@each("k", [3, 30])
def test_the_same_input_gives_the_same_groups(k: int) -> None:
    X = np.random.default_rng(1).standard_normal((500, 3))
    labels = partition(X, k)
    expected = refine(X, labels, k).tolist()
    with ThreadPoolExecutor(4) as threads:
        assert all(found.tolist() == expected for found in threads.map(lambda _: refine(X, labels, k), range(4)))
    assert refine(np.asfortranarray(X), labels, k).tolist() == expected
    assert refine(X, 5 * labels + 3, k).tolist() == expected, "what groups are called does not matter"
    assert refine(np.ldexp(X, -900), labels, k).tolist() == expected
    assert refine(np.ldexp(X, 900), labels, k).tolist() == expected
    others = [refine(X, labels, k, seed=seed).tolist() for seed in range(1, 4)]
    assert expected not in others, "another seed takes other ways"


def test_the_order_of_records_does_not_matter_where_none_are_equal() -> None:
    rng = np.random.default_rng(6)
    X, order = rng.standard_normal((300, 3)), rng.permutation(300)
    labels = partition(X, 3)
    straight, shuffled = refine(X, labels, 3), refine(X[order], labels[order], 3)
    assert np.unique(np.stack([straight[order], shuffled]), axis=1).shape[1] == straight.max() + 1


def test_large_groups_are_cut() -> None:
    X = np.random.default_rng(0).random((1000, 3))
    sizes = np.bincount(refine(X, np.zeros(1000, dtype=np.int64), 4))
    assert sizes.min() >= 4 and sizes.max() < 8
    halves = np.bincount(cut_large(Points.of(X), np.zeros(1000, dtype=np.int64), 4))
    assert halves.min() >= 4 and halves.max() < 8


@each("labels", [[0, 0, 1], [0, 0, 0, 1], [0, 1, 2, 3]])
def test_a_partition_that_is_none_is_refused(labels: list[int]) -> None:
    with pytest.raises(ValueError, match="each record a group, and no group fewer than k"):
        refine(np.zeros((4, 1)), np.array(labels), 2)


def test_a_table_is_refined() -> None:
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"age": rng.integers(18, 90, 300), "pay": rng.lognormal(8, 1, 300), "name": "x"})
    plain = microaggregate(people, ["age", "pay"], 4)
    refined = microaggregate(people, ["age", "pay"], 4, refine="fast")
    assert refined.losses.sse < 0.95 * plain.losses.sse
    Z = standardize(people[["age", "pay"]].to_numpy(np.float64))
    # Groups are made on a scale of 24 bits, and losses measured with all digits.
    assert refined.losses.sse == pytest.approx(losses(Z, refined.groups).sse, rel=2**-22)
    each = microaggregate(people, ["age", "pay"], 4, "individual_ranking", refine="fast")
    assert each.groups.shape == (300, 2)
