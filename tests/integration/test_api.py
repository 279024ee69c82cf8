"""What the public functions give."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest

from microagg_core import Microaggregated, microaggregate, partition
from microagg_core.group.factor import minimum_factor, optimal_two
from microagg_core.group.metrics.losses import group_means, losses, standardize


@pytest.fixture
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 40
    start = pd.date_range("2001-03-04 05:06:07", periods=n, freq="37h")
    return pd.DataFrame(
        {
            "town/ü": list("abcdefgh") * 5,
            "pay": rng.integers(0, 100, n),
            "share": rng.random(n).astype(np.float32),
            "seen": start,
            "seen in Rome": start.tz_localize("UTC").tz_convert("Europe/Rome"),
            "second": start.astype("datetime64[s]"),
            "born": [datetime.date(1970, 1, 1) + datetime.timedelta(days=int(d)) for d in rng.integers(0, 9999, n)],
            "price": [decimal.Decimal(int(c)) / 4 for c in rng.integers(0, 99, n)],
            "member": rng.random(n) < 0.5,
            "children": pd.array(rng.integers(0, 5, n), dtype="Int64"),
            "id": np.arange(n, dtype=np.uint64) + 2**63,
            "stamp": pd.Series(start).astype("timestamp[us][pyarrow]").array,
        },
        index=[f"row {i}" for i in range(n)],
    )


NUMBERS = ["pay", "share", "price", "member", "children", "id"]
TIMES = ["seen", "seen in Rome", "second", "born", "stamp"]


def test_partition_takes_lists_whole_numbers_and_tables(people: pd.DataFrame) -> None:
    X = people[["pay", "share"]].to_numpy(np.float64)
    expected = partition(X, 3).tolist()
    assert partition(X.tolist(), 3).tolist() == expected
    assert partition(people[["pay", "share"]], np.int64(3), seed=np.int8(1)).tolist() == expected
    assert partition(people[["pay"]].to_numpy(), 3).tolist() == partition(people[["pay"]] * 1.0, 3).tolist()


def test_masking_keeps_the_table_and_replaces_the_quasi_identifiers(people: pd.DataFrame) -> None:
    before = people.copy(deep=True)
    result = microaggregate(people, NUMBERS + TIMES, 4)
    assert isinstance(result, Microaggregated)
    pd.testing.assert_frame_equal(people, before)
    assert result.data.index.equals(people.index)
    assert result.data.columns.equals(people.columns)
    pd.testing.assert_series_equal(result.data["town/ü"], people["town/ü"])
    assert np.bincount(result.groups).min() >= 4
    combinations = result.data.groupby(NUMBERS + TIMES, dropna=False).size()
    assert combinations.min() >= 4
    for name in NUMBERS:
        assert result.data[name].dtype == np.float64
        expected = people[name].astype(np.float64).groupby(result.groups).transform("mean")
        assert result.data[name].to_numpy() == pytest.approx(expected.to_numpy(), rel=1e-12)


def test_dates_and_timestamps_stay_what_they_are(people: pd.DataFrame) -> None:
    result = microaggregate(people, TIMES, 4)
    for name in TIMES:
        assert result.data[name].dtype == people[name].dtype
    for name, unit in (("seen", "us"), ("seen in Rome", "us"), ("second", "s"), ("stamp", "us")):
        ticks = people[name].astype(f"datetime64[{unit}, UTC]" if "Rome" in name else f"datetime64[{unit}]")
        mean = ticks.astype(np.int64).groupby(result.groups).transform("mean")
        masked = result.data[name].astype(ticks.dtype).astype(np.int64)
        assert (masked - mean).abs().max() <= 0.5, name
    days = pd.to_datetime(people["born"]).astype("datetime64[s]").astype(np.int64) // 86400
    masked_days = pd.to_datetime(result.data["born"]).astype("datetime64[s]").astype(np.int64) // 86400
    assert (masked_days - days.groupby(result.groups).transform("mean")).abs().max() <= 0.5


def test_losses_are_those_of_the_standardized_attributes(people: pd.DataFrame) -> None:
    names = ["pay", "share", "seen"]
    raw = people[names].assign(seen=people["seen"].astype(np.int64)).to_numpy(np.float64)
    offsets = raw - raw[0]
    Z = (offsets - offsets.mean(axis=0)) / offsets.std(axis=0)
    for standardized in (True, False):
        result = microaggregate(people, names, 3, "v_mdav", standardize=standardized, gamma=0.5)
        expected = losses(Z, result.groups)
        assert result.losses.document() == pytest.approx(expected.document(), rel=1e-9)
        assert (result.losses.l_sse, result.losses.l_e) == pytest.approx((expected.l_sse, expected.l_e))
    assert result.losses.sst == pytest.approx(len(people) * 3)


def test_groups_are_those_of_partition(people: pd.DataFrame) -> None:
    names = ["pay", "share", "price"]
    raw = people[names].astype(np.float64).to_numpy()
    assert microaggregate(people, names, 3).groups.tolist() == partition(standardize(raw), 3).tolist()
    assert microaggregate(people, names, 3, standardize=False).groups.tolist() == partition(raw, 3).tolist()


def test_a_constant_attribute_and_a_repeated_index_do_no_harm() -> None:
    table = pd.DataFrame({"x": [1.0, 2.0, 8.0, 9.0], "flat": -999}, index=[0, 0, 1, 1])
    result = microaggregate(table, ["x", "flat"], 2)
    assert result.data.to_numpy().tolist() == [[1.5, -999], [1.5, -999], [8.5, -999], [8.5, -999]]
    assert microaggregate(table, ["flat"], 2).losses.l_sse == 0


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_extreme_magnitudes_are_masked_right(scale: float) -> None:
    table = pd.DataFrame({"x": np.array([1.0, 1.5, 8.0, 8.5]) * scale, "y": 1.0})
    result = microaggregate(table, ["x", "y"], 2)
    expected = group_means(table.to_numpy(), np.array([0, 0, 1, 1]))[[0, 0, 1, 1], 0]
    assert result.data["x"].to_numpy() == pytest.approx(expected, rel=1e-12)
    assert result.losses.l_sse == pytest.approx(100 * 0.25 / 49.25)


def test_a_column_that_is_no_quasi_identifier_may_hold_anything() -> None:
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0], "note": ["=1+1", None, "\n"], "n": [np.nan, np.inf, 2]})
    result = microaggregate(table, ["x"], 3)
    pd.testing.assert_frame_equal(result.data[["note", "n"]], table[["note", "n"]])


def test_individual_ranking_masks_each_column_in_groups_of_its_own(people: pd.DataFrame) -> None:
    names = ["pay", "seen", "share"]
    result = microaggregate(people, names, 4, "individual_ranking")
    assert result.groups.shape == (len(people), 3)
    for j, name in enumerate(names):
        alone = microaggregate(people, [name], 4, "univariate")
        assert result.groups[:, j].tolist() == alone.groups.tolist()
        pd.testing.assert_series_equal(result.data[name], alone.data[name])
        assert result.data[name].value_counts().min() >= 4
    single = microaggregate(people, ["pay"], 4, "individual_ranking")
    assert single.groups.shape == (len(people), 1)
    assert single.losses == microaggregate(people, ["pay"], 4, "univariate").losses
    # Losses are of what it masks.
    names = ["pay", "share"]
    result = microaggregate(people, names, 3, "individual_ranking")
    before = people[names].to_numpy(np.float64)
    moved = (result.data[names].to_numpy() - before) / before.std(axis=0)
    assert result.losses.sse == pytest.approx((moved**2).sum(), rel=1e-9)
    assert result.losses.sde == pytest.approx(np.sqrt((moved**2).sum(axis=1)).sum(), rel=1e-9)
    assert result.losses.sst == pytest.approx(2 * len(people))
    assert result.losses.l_sse < microaggregate(people, names, 3).losses.l_sse


@pytest.mark.parametrize("standardized", [True, False])
def test_a_proved_method_certifies_the_loss_that_is_reported(people: pd.DataFrame, standardized: bool) -> None:
    names = ["pay", "share"]
    result = microaggregate(people, names, 2, "two_mu_approx", standardize=standardized)
    Z = standardize(people[names].to_numpy(np.float64))
    certificate = result.losses.certificate
    assert certificate is not None
    assert certificate.sse == result.losses.sse == pytest.approx(losses(Z, result.groups).sse)
    assert certificate.bound == pytest.approx(minimum_factor(Z).certificate.bound)
    assert certificate.optimum_at_least <= losses(Z, optimal_two(Z).labels).sse <= result.losses.sse * (1 + 1e-12)
    assert result.losses.document()["certificate"]["ratio"] == pytest.approx(2 * certificate.sse / certificate.bound)
    assert microaggregate(people, names, 2).losses.certificate is None
