"""Refinement in regions: proper groups, no worse, and the same in any number of threads."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core import microaggregate, partition
from microagg_core.group import costs
from microagg_core.group.metrics.losses import losses, sse_of_labels
from microagg_core.group.refine.annealing import RegionalAnnealing, Regions, Spread
from microagg_core.group.refine.refinement import refine
from microagg_core.kernels.tools.threads import Threads


@pytest.fixture
def small_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some hundred records are enough for several regions."""
    monkeypatch.setattr(costs, "_RECORDS_OF_REGION", 50)
    monkeypatch.setattr(costs, "_RECORDS_FOR_K", 8)


def groups_of(X: np.ndarray, labels: np.ndarray, spare: int) -> Spread:
    """Groups with their centres; some numbers between them are unused."""
    size = np.zeros(labels.max() + 1 + spare, dtype=np.int64)
    centre = np.zeros((len(size), X.shape[1]))
    for a in np.unique(labels):
        size[a + spare], centre[a + spare] = (labels == a).sum(), X[labels == a].mean(axis=0)
    return Spread(labels + spare, size, centre, np.zeros((len(size), 0)))


@given(st.integers(200, 900), st.integers(1, 4), st.integers(1, 50), st.integers(1, 7), st.integers(0, 9))
@examples(60)
def test_regions_are_of_whole_groups(n: int, p: int, values: int, count: int, turn: int) -> None:
    X = np.random.default_rng(n).integers(0, values, (n, p)).astype(np.float64) ** (1 + 4 * (n % 2))
    labels = np.random.default_rng(turn).permutation(np.arange(n) % (n // 5))
    groups = groups_of(X, labels, spare=3)
    regions = Regions.of(groups, count, 5, turn)
    assert sorted(regions.records.tolist()) == list(range(n))
    assert (regions.records[regions.position] == np.arange(n)).all()
    region = np.empty(n, dtype=np.int64)
    for i in range(count):
        records = regions.records[regions.starts[i] : regions.starts[i + 1]]
        assert (np.diff(records) > 0).all()
        region[records] = i
        names = np.unique(regions.number[groups.label[records]])
        assert names.tolist() == list(range(len(names))), "its groups have the first numbers"
        assert len(names) + 2 <= regions.slots[i + 1] - regions.slots[i] or len(names) <= len(records) // 5
        assert 0.6 * n / count - 10 < len(records) < 1.5 * n / count + 10
    for a in np.unique(labels):
        assert len(set(region[labels == a])) == 1


def test_borders_move_from_turn_to_turn() -> None:
    X = np.random.default_rng(0).random((3000, 3))
    groups = groups_of(X, np.arange(3000) // 5, spare=0)
    drawn = [tuple(np.sort(Regions.of(groups, 2, 5, turn).records[:1200])) for turn in range(6)]
    assert len(set(drawn)) == 6
    line = groups_of(np.sort(X[:, :1], axis=0), np.arange(3000) // 5, spare=0)
    assert {int(Regions.of(line, 2, 5, turn).starts[1]) for turn in range(3)} == {1350, 1500, 1650}


def test_long_tails_are_not_always_cut_into() -> None:
    X = np.exp(2 * np.random.default_rng(0).standard_normal((3000, 3)))
    groups = groups_of(X, np.arange(3000), spare=0)
    inner = Regions.of(groups, 2, 1, 1).records[:1500]
    away = ((X - np.median(X, axis=0)) ** 2).sum(axis=1)
    assert np.median(away[inner]) < 0.2 * np.median(away)


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize(("k", "values"), [(2, 10**6), (3, 4), (12, 30), (30, 10**6)])
def test_the_same_groups_in_any_number_of_threads(k: int, values: int) -> None:
    for n in (399, 2500):
        X = np.random.default_rng(n).integers(0, values, (n, 3)).astype(np.float64)
        labels = partition(X, k)
        alone = refine(X, labels, k)
        assert np.bincount(alone).min() >= k and sse_of_labels(X, alone) <= sse_of_labels(X, labels)
        for total in (2, 4) if n == 399 else (3,):
            with Threads(total).running():
                assert refine(X, labels, k).tolist() == alone.tolist()


@pytest.mark.usefixtures("small_regions")
def test_the_same_bytes_by_the_public_functions() -> None:
    X = np.random.default_rng(3).random((300, 3))
    expected = partition(X, 4, refine="thorough").tolist()
    assert partition(X, 4, refine="thorough", threads=3).tolist() == expected
    table = pd.DataFrame(X, columns=list("abc"))
    alone, shared = (microaggregate(table, list("abc"), 4, refine="fast", threads=n) for n in (1, 3))
    pd.testing.assert_frame_equal(alone.data, shared.data)


@pytest.mark.usefixtures("small_regions")
def test_regions_are_improved_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads meet in two regions; alone, nobody would come."""
    meeting, inner = threading.Barrier(2), RegionalAnnealing._anneal_region

    def meet(*arguments: object) -> None:
        meeting.wait(20.0)
        inner(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(RegionalAnnealing, "_anneal_region", meet)
    X = np.random.default_rng(3).random((250, 2))
    assert costs.region_count(250, 3) == 2
    with Threads(2).running():
        refine(X, partition(X, 3), 3)


@pytest.mark.slow(reason="refines 100,000 records twice")
def test_regions_lose_no_more_than_one() -> None:
    X = np.random.default_rng(1).random((100_000, 4))
    labels = partition(X, 5)
    assert costs.region_count(len(X), 5) == 2
    assert losses(X, refine(X, labels, 5)).l_sse <= 0.4215
