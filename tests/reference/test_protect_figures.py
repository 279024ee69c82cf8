"""Figures of t-closeness on Census: no more is lost than other methods lose, and others' programs count the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from microagg_core import partition
from microagg_core.arrays import Floats
from microagg_core.group.metrics.losses import group_means, losses, standardize
from microagg_core.group.refine.neighbours import Records
from microagg_core.inspect.demand import Demand
from microagg_core.inspect.distributions import Distribution, distinct_values
from microagg_core.inspect.protect.groups import (
    BlockDemands,
    block_demands,
    groups_across_strata,
    least_strata,
    protected_groups,
    ways,
)

CENSUS = Path(__file__).parent / "data" / "census.csv"
#: Confidential column, k, t, and the loss in percent that is to be reached without refinement: for t-first with
#: several records of each stratum, or for k-first, whichever is less.
FIGURES = [("FICA", 10, 0.25, 28.18), ("FICA", 10, 0.13, 36.57), ("FICA", 5, 0.25, 10.27)]


@pytest.fixture(scope="module")
def census() -> pd.DataFrame:
    return pd.read_csv(CENSUS)


@pytest.fixture(scope="module")
def quasi(census: pd.DataFrame) -> Floats:
    return standardize(census[["TAXINC", "POTHVAL"]].to_numpy(np.float64))


def close(census: pd.DataFrame, column: str, t: float) -> BlockDemands:
    values = pa.array(census[column])
    whole = Distribution.of(values)
    return block_demands([Demand(column, t=t)], [whole.codes(values)], [whole])


@pytest.mark.parametrize(("column", "k", "t", "most"), FIGURES)
def test_no_more_is_lost_than_the_best_method_known(
    census: pd.DataFrame, quasi: Floats, column: str, k: int, t: float, most: float
) -> None:
    demands = close(census, column, t)
    plain, refined = protected_groups(quasi, partition(quasi, k), k, demands, "fast", 0)
    for labels in (plain, refined):
        assert np.bincount(labels).min() >= k and not demands.broken(labels).any()
    assert losses(quasi, plain).l_sse <= most
    # Exchanges take another 2 to 6 percent at least.
    assert losses(quasi, refined).l_sse <= 0.94 * losses(quasi, plain).l_sse


@pytest.mark.parametrize(("k", "t", "most"), [(10, 0.25, 28.18), (10, 0.13, 36.57)])
def test_t_first_alone_loses_no_more_than_it_should(
    census: pd.DataFrame, quasi: Floats, k: int, t: float, most: float
) -> None:
    demands = close(census, "FICA", t)
    labels = groups_across_strata(quasi, k, demands.codes[0], least_strata(len(quasi), t), demands.rules())
    assert labels is not None and losses(quasi, labels).l_sse <= most


@pytest.mark.parametrize(("column", "k", "t"), [("FICA", 5, 0.25), ("FEDTAX", 10, 0.25), ("FEDTAX", 2, 0.13)])
def test_refined_groups_lose_less_than_those_of_every_way(
    census: pd.DataFrame, quasi: Floats, column: str, k: int, t: float
) -> None:
    demands, start = close(census, column, t), partition(quasi, k)
    records = Records.of(quasi, 24)
    near = np.empty((len(quasi), 24), dtype=np.int32)
    near[records.order] = records.order[records.near(24)]
    plain = [losses(quasi, labels).l_sse for labels in ways(quasi, start, k, demands, near).values()]
    refined = protected_groups(quasi, start, k, demands, "fast", 0)[1]
    assert losses(quasi, refined).l_sse <= min(plain)


@pytest.mark.parametrize("column", ["FICA", "FEDTAX"])
def test_ties_break_the_bound_and_are_seen_and_mended(census: pd.DataFrame, quasi: Floats, column: str) -> None:
    """FICA has 375 distinct values: of two strata, with one record each, some groups are farther than 0.25."""
    demands = close(census, column, 0.25)
    labels = groups_across_strata(quasi, 2, demands.codes[0], 2, demands.rules())
    assert labels is not None and not demands.broken(labels).any()


def test_distances_and_distinct_values_are_those_that_others_count(census: pd.DataFrame, quasi: Floats) -> None:
    anonymity = pytest.importorskip("pycanon.anonymity", reason="counts as others do")
    census, quasi = census[:150].reset_index(drop=True), quasi[:150]  # others' programs take the square of it
    for column, k, t in (("FICA", 10, 0.25), ("FEDTAX", 5, 0.2)):
        demands = close(census, column, t)
        labels = protected_groups(quasi, partition(quasi, k), k, demands, "fast", 0)[1]
        means = group_means(quasi, labels)[labels]
        frame = pd.DataFrame({"a": means[:, 0], "b": means[:, 1], "own": census[column], "text": labels.astype(str)})
        frame["text"] = (census[column] // 2000).astype(str)
        for name in ("own", "text"):
            values = pa.array(frame[name].to_list())
            whole = Distribution.of(values)
            ours = float(whole.distances(whole.codes(values), labels).max())
            assert ours == pytest.approx(anonymity.t_closeness(frame, ["a", "b"], [name]), rel=1e-12)
            assert distinct_values(whole.codes(values), labels).min() == anonymity.l_diversity(
                frame, ["a", "b"], [name]
            )
        assert float(demands.wholes[0].distances(demands.codes[0], labels).max()) <= t + 1e-12  # type: ignore[union-attr]
        assert anonymity.k_anonymity(frame, ["a", "b"]) >= k


def test_others_judge_the_same_of_a_column_with_missing_values(census: pd.DataFrame, quasi: Floats) -> None:
    """They are given the records that have a value, and beside that who has one."""
    anonymity = pytest.importorskip("pycanon.anonymity", reason="counts as others do")
    draw, census, quasi = np.random.default_rng(4), census[:300].reset_index(drop=True), quasi[:300]
    # Rather the low ones are missing, as incomes are, so that groups differ in how many are.
    missing = draw.random(len(census)) < 0.6 * census["FICA"].rank(pct=True, ascending=False).to_numpy()
    for name, values in (("own", census["FICA"]), ("text", (census["FICA"] // 2000).astype(str))):
        column = pa.array(values.to_numpy(), mask=missing)
        whole = Distribution.of(column)
        demands = block_demands([Demand("FICA", 2, 0.2)], [whole.codes(column)], [whole])
        for labels in (
            partition(quasi, 10),
            protected_groups(quasi, partition(quasi, 10), 10, demands, "fast", 0)[1],
        ):
            frame = pd.DataFrame({"a": labels, "b": labels % 2, "has": np.where(missing, "no", "yes"), name: values})
            there = frame[~missing].reset_index(drop=True)
            theirs = [anonymity.t_closeness(of, ["a", "b"], [c]) for of, c in ((there, name), (frame, "has"))]
            ours = float(whole.distances(whole.codes(column), labels).max())
            assert ours == pytest.approx(max(theirs), rel=1e-12)
            distinct = distinct_values(whole.codes(column), labels)
            some = np.unique(labels[~missing])
            assert distinct[some].min() == anonymity.l_diversity(there, ["a", "b"], [name])
            assert not distinct[np.setdiff1d(labels, some)].any()
        assert max(theirs) <= 0.2 and distinct.min() >= 2
