"""What releases take: descriptions, drawn plans, tasks, and forecasts made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from microagg_core.errors import SpecError
from microagg_core.release.sizing.description import Description, draw_plan, read_description, sizes_of_keys
from microagg_core.release.sizing.forecast import forecast, forecast_at, place_of
from microagg_core.release.sizing.tasks import UPLOAD, Workload, measured_figures, measured_steps

CENSUS = Description(rows=3_000_000, keys=3_000, workers=4)


def work_of(description: Description) -> Workload:
    return Workload(description, measured_figures())


# --- Descriptions --------------------------------------------------------------------------------------------


def test_a_description_is_read_with_the_units_that_people_write() -> None:
    one = read_description("rows=1e9, keys=3M,memory=2GiB,algorithm=v_mdav,refine=off,core_hour=0.05")
    assert (one.rows, one.keys, one.memory) == (10**9, 3 * 10**6, 2 * 2**30)
    assert (one.algorithm, one.refine, one.core_hour) == ("v_mdav", "off", 0.05)
    assert read_description("") == Description()
    assert read_description("k=7", {"k": 3, "columns": 9}) == Description(k=7, columns=9)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rows", "'rows' is not known"),
        ("lines=3", "'lines' is not known"),
        ("rows=many", "rows is a number"),
        ("rows=nan", "rows is a number"),
        ("rows=1e9e9", "rows is a number"),
        ("rows=2.5", "rows is a whole number"),
        ("rows=0", "rows must be above 0"),
        ("rows=1e400", "rows is a number"),
        ("workers=0", "workers must be above 0"),
        ("algorithm=best_of_all", "is no algorithm"),
        ("algorithm=univariate", "univariate"),
        ("refine=some", "refine is one of off, fast, thorough"),
        ("format=xml", "format is one of parquet, csv, arrow"),
        ("columns=2", "fewer than quasi_identifiers=4"),
        ("rows=3", "fewer than k=5"),
        ("rows=100,keys=200", "more than rows=100"),
        ("max_records=9", "below twice k=5"),
        ("k=1", "k of at least 2"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(SpecError) as refusal:
        read_description(text)
    assert words in refusal.value.message
    assert "\n" not in refusal.value.message


# --- Plans ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", ["zipf", "equal"])
@pytest.mark.parametrize(("rows", "keys"), [(1000, 1), (1000, 7), (100_000, 1_000), (20_000, 15_000)])
def test_a_drawn_plan_has_every_row_once_and_no_block_below_k(sizes: str, rows: int, keys: int) -> None:
    one = Description().changed({"rows": rows, "keys": keys, "sizes": sizes})
    assert sizes_of_keys(one).sum() == rows
    plan = draw_plan(one)
    assert plan.block_rows.sum() == rows
    assert plan.block_rows.min() >= one.k
    assert plan.rows_of_partitions().sum() == rows


def test_large_keys_are_cut_and_all_are_the_same_release() -> None:
    plan = draw_plan(Description(rows=100_000, keys=3, max_records=5_000))
    assert plan.block_rows.max() <= 5_000
    assert plan.block_rows.sum() == 100_000


# --- Tasks ---------------------------------------------------------------------------------------------------


def test_every_step_works_on_all_rows() -> None:
    steps = work_of(CENSUS).steps
    assert list(steps) == [*measured_steps(), UPLOAD]
    for step in ("survey", "scatter", "anonymize", "assemble", "check-files", "upload"):
        assert steps[step].sizes["row"].sum() == pytest.approx(CENSUS.rows)


def test_what_is_sent_is_received() -> None:
    steps = work_of(CENSUS).steps
    sent, received = steps["scatter"].sizes, steps["anonymize"].sizes
    assert sent["slice_written"].sum() == pytest.approx(received["slice_read"].sum(), rel=0.02)
    assert sent["stream_written"].sum() == pytest.approx(received["stream_read"].sum(), rel=0.02)
    assert steps["anonymize"].sizes["slice_written"].sum() == steps["assemble"].sizes["slice_read"].sum()
    assert steps["anonymize"].bytes_read.sum() == pytest.approx(steps["scatter"].bytes_written.sum())


def test_the_largest_partitions_are_handed_out_first() -> None:
    tasks = work_of(CENSUS).steps["anonymize"]
    assert np.all(np.diff(tasks.sizes["refined_kernel"][tasks.order]) <= 0)


def test_a_sorted_input_is_cut_into_fewer_slices() -> None:
    mixed, ordered = (work_of(replace(CENSUS, rows=10**8, keys=10**5, order=order)) for order in ("mixed", "sorted"))
    assert ordered.counts["slice_scatter"] < mixed.counts["slice_scatter"] / 3
    assert ordered.own_keys < mixed.own_keys


def test_requests_grow_as_rows_do_and_not_as_their_square() -> None:
    small, large = (work_of(Description(rows=rows, keys=10**5, refine="off")) for rows in (6 * 10**8, 24 * 10**8))
    asked = [work.steps["anonymize"].reads.sum() for work in (small, large)]
    assert 3 < asked[1] / asked[0] < 6
    assert large.plan.rows_of_partitions().max() > 1.8 * small.plan.rows_of_partitions().max()
    usual = work_of(Description(rows=10**8, keys=10**5, refine="off")).plan
    assert usual.rows_of_partitions().max() * 52 <= 24 * 2**20, "up to 8 GiB of rows nothing grows"


@pytest.mark.parametrize(
    "more",
    [
        {"rows": 6_000_000},
        {"keys": 30_000},
        {"columns": 12},
        {"quasi_identifiers": 6},
        {"identifiers": 2},
        {"refine": "thorough"},
        {"store": "s3"},
    ],
)
def test_more_of_anything_takes_more(more: dict[str, object]) -> None:
    base = replace(CENSUS, store="disk", refine="fast")
    little, much = forecast(base), forecast(base.changed(more))
    assert much.all_cpu_seconds > little.all_cpu_seconds
    assert much.seconds > little.seconds


# --- Forecasts -----------------------------------------------------------------------------------------------


def test_shares_of_the_workers_time_add_up() -> None:
    one = forecast(CENSUS)
    assert sum(one.losses.values()) == pytest.approx(1.0, abs=1e-6)
    assert min(one.losses.values()) >= 0
    assert one.seconds == pytest.approx(sum(stage.seconds for stage in one.stages))
    assert one.losses["computing"] * one.seconds * 4 == pytest.approx(one.all_cpu_seconds, rel=1e-6)


def test_costs_are_prices_times_what_is_used() -> None:
    one = forecast(CENSUS.changed({"core_hour": 0.1, "put": 1e-5, "get": 1e-6}))
    assert one.costs["cores"] == pytest.approx(5 * one.seconds / 3600 * 0.1)
    assert one.costs["puts"] == pytest.approx(one.traffic["puts"] * 1e-5)
    assert one.costs["gets"] == pytest.approx(one.traffic["gets"] * 1e-6)
    assert one.output_month == pytest.approx(one.traffic["output_bytes"] / 1e9 * 0.023)


def test_units_of_the_census_of_a_billion_are_what_they_should_be() -> None:
    """Rough bounds, which a slip of a thousand would break."""
    one = forecast(Description(rows=10**9, keys=3 * 10**6, workers=100, refine="off"))
    assert 1e-6 < one.all_cpu_seconds / 10**9 < 50e-6
    assert 5e9 < one.traffic["output_bytes"] < 200e9
    assert 10e9 < one.traffic["work_bytes"] < 500e9
    assert 100 < one.parts < 3_000
    assert 2**28 < one.worker_bytes < 4 * 2**30
    assert 1_000 < one.traffic["objects"] < 100_000


def test_workers_do_not_change_the_work() -> None:
    work = work_of(CENSUS)
    few, many = (forecast_at(work, place_of(CENSUS, work.figures, workers=n)) for n in (1, 50))
    assert few.cpu_seconds == many.cpu_seconds
    assert few.traffic == many.traffic
    assert many.seconds < few.seconds
    assert many.losses["computing"] < few.losses["computing"]
