"""The search and its programme: the best partition is found where it is known, and none is ever lost on the way."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from test_lower_bounds import least_loss
from test_refine import exact_loss

from covering import each, is_whole
from microagg_core import algorithms, lower_bound, microaggregate, partition
from microagg_core.group.algorithms.best import best, suitable
from microagg_core.group.metrics.losses import losses, standardize
from microagg_core.group.points import Points
from microagg_core.group.refine.search import CandidateGroups, best_partition, search


@each("seed", range(12 if is_whole() else 6))
def test_the_least_loss_of_few_records_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = 2 + seed % 3
    n = int(rng.integers(2 * k, 11))
    X = rng.integers(0, 6, (n, 2)).astype(np.float64) if seed % 2 else rng.standard_normal((n, 2))
    for labels in (search(X, k, steps=300), best(X, k)[0]):
        assert exact_loss(X, labels) <= least_loss(X, k) * (1 + Fraction(1, 10**12))


def test_a_search_is_better_than_refinement_and_above_the_bound() -> None:
    X = np.random.default_rng(0).standard_normal((200, 4))
    refined, found = partition(X, 3, refine="thorough"), partition(X, 3, "search", steps=1500)
    assert lower_bound(X, 3).sse < losses(X, found).sse < 0.997 * losses(X, refined).sse
    assert set(np.bincount(found)) <= {3, 4, 5}


@each("n, k", [(200, 3), (60, 25), (6100, 2)])
def test_the_same_steps_give_the_same_groups(n: int, k: int) -> None:
    X = np.random.default_rng(1).standard_normal((n, 3))
    found = [search(X, k, steps=60 if n < 1000 else 10, seed=seed).tolist() for seed in (0, 0, 1)]
    assert found[0] == found[1]
    assert n == 60 or found[2] != found[0], "another seed takes other ways; two groups are soon the best"


def test_a_partition_that_is_given_is_never_made_worse() -> None:
    X = np.random.default_rng(3).standard_normal((60, 2))
    good = search(X, 3, steps=2000)
    again = search(X, 3, steps=1, start=good)
    assert losses(X, again).sse <= losses(X, good).sse * (1 + 1e-14)


def test_seconds_bound_the_time() -> None:
    X = np.random.default_rng(0).standard_normal((400, 4))
    search(X, 3, seconds=0.1)
    start = time.monotonic()
    labels = search(X, 3, seconds=1.0)
    assert time.monotonic() - start < 60, "far more than a second, but the machine may be busy"
    assert losses(X, labels).sse < 0.9 * losses(X, partition(X, 3)).sse


def test_the_programme_takes_the_best_of_all_partitions_met() -> None:
    """Two heaps, each well grouped in one of two partitions and badly in the other."""
    X = np.array([0, 1, 5, 6, 100, 101, 105, 106.0])[:, None]
    one, other = np.array([0, 0, 1, 1, 2, 3, 2, 3]), np.array([0, 1, 0, 1, 2, 2, 3, 3])
    candidates = CandidateGroups(Points.of(X))
    candidates.add_partition(one)
    assert best_partition(candidates, other).tolist() in ([0, 0, 1, 1, 2, 2, 3, 3], [1, 1, 0, 0, 2, 2, 3, 3])
    assert exact_loss(X, np.unique(best_partition(candidates, other), return_inverse=True)[1]) == 2


def test_the_programme_leaves_what_it_cannot_improve() -> None:
    X = np.array([0, 1, 5, 6.0])[:, None]
    labels = np.array([0, 0, 1, 1])
    candidates = CandidateGroups(Points.of(X))
    candidates.add_partition(np.array([0, 1, 0, 1]))
    assert best_partition(candidates, labels) is labels
    assert best_partition(CandidateGroups(Points.of(np.zeros((4, 1)))), labels) is labels, "no loss can be made less"


def test_the_best_says_what_it_tried() -> None:
    X = np.random.default_rng(0).standard_normal((120, 3))
    labels, tried = best(X, 3)
    names = [run.algorithm for run in tried]
    assert {info.name for info in suitable(120, 3, 3)} == set(names)
    assert not {"search", "best", "univariate", "two_mu_approx", "exhaustive", "individual_ranking"} & set(names)
    least = min(run.refined_sse for run in tried)
    assert losses(X, labels).sse == pytest.approx(least, rel=1e-9)
    for run in tried:
        assert run.refined_sse <= run.sse
        assert losses(X, partition(X, 3, run.algorithm, **run.parameters)).sse == pytest.approx(run.sse, rel=1e-9)


def test_the_best_takes_what_fits_the_data() -> None:
    assert [info.name for info in suitable(12, 1, 3)].count("univariate") == 1
    assert "exhaustive" in {info.name for info in suitable(10, 2, 3)}
    assert "two_mu_approx" in {info.name for info in suitable(500, 3, 2)}
    many = suitable(10_000_000, 4, 5)
    assert many and max(info.cost_seconds(10**7, 4, 5) for info in many) <= 5 * min(
        info.cost_seconds(10**7, 4, 5)
        for name, info in algorithms().items()
        if info.refuses(5, 4) is None and name != "slabs"
    )


def test_a_table_is_told_what_was_tried() -> None:
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"age": rng.integers(18, 90, 100), "pay": rng.lognormal(8, 1, 100)})
    found = microaggregate(people, ["age", "pay"], 3, "best", refine="thorough")
    assert len(found.tried) > 5 and microaggregate(people, ["age", "pay"], 3).tried == ()
    Z = standardize(people.to_numpy(np.float64))
    assert losses(Z, found.groups).sse <= min(tried.refined_sse for tried in found.tried) * (1 + 1e-9)
