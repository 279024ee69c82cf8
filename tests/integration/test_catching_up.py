"""Which nights a scheduled run makes before its own, and when it has nothing to do any more."""

from __future__ import annotations

import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inputs.people import people
from microagg_core.errors import DataError, InterruptionError
from microagg_core.release.context import work_store
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.prefect_side.missed_nights import catch_up, due, missed_days, reason_to_leave_out
from microagg_flows.releasing import Order
from releasing.runs import AGAIN, run_stages, start, write_release

NIGHT = datetime.datetime(2026, 11, 10, 2, 30, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


def spec_at(folder: Path, *released: int, **schedule: Any) -> ReleaseSpec:
    changes: dict[str, Any] = {"schedule": {"cron": "30 2 * * *", **schedule}, "cluster": "none", "refine": "off"}
    path = write_release(folder, [people(40)], **AGAIN, **changes)
    for day in released:
        run_stages(start(path, identity=f"2026-11-{day:02d}"))
    return load_spec(str(path))


def run_of(**others: Any) -> Any:
    return SimpleNamespace(**{"deployment_id": "a deployment", "run_count": 1, **others})


def why_not(spec: ReleaseSpec, late: datetime.timedelta, order: Order | None = None, **run: Any) -> str:
    return reason_to_leave_out(spec, run_of(**run), order or Order("release.yaml"), NIGHT, NIGHT + late)


def test_when_runs_are_due(tmp_path: Path) -> None:
    schedule = spec_at(tmp_path, cron="30 0 * * mon-fri", timezone="Europe/Zurich").schedule
    assert schedule is not None
    found = due(schedule, NIGHT, NIGHT + 7 * DAY)
    assert [f"{time:%d %H:%M}" for time in found] == ["10 23:30", "11 23:30", "12 23:30", "15 23:30", "16 23:30"]


def test_missed_days_lie_between_the_newest_release_and_the_night(tmp_path: Path) -> None:
    spec = spec_at(tmp_path, 4, 6, catch_up="all")
    assert [day.day for day in missed_days(spec, NIGHT)] == [7, 8, 9]
    assert missed_days(spec, NIGHT - 3 * DAY) == []
    assert [day.day for day in missed_days(spec, NIGHT - 5 * DAY)] == [], "nothing after the night is looked at"


@pytest.mark.parametrize("cron", ["0 0 * * *", "59 23 * * *"])
def test_a_night_at_the_edge_of_its_day_counts(tmp_path: Path, cron: str) -> None:
    spec = spec_at(tmp_path, 7, cron=cron, catch_up="all")
    assert [day.day for day in missed_days(spec, NIGHT)] == [8, 9]


def test_a_night_that_failed_is_tried_for_a_week(tmp_path: Path) -> None:
    """Others have been released since; what was never tried, or is older than the first release, stays away."""
    spec = spec_at(tmp_path, 1, 9, catch_up="all")
    for call in ("test-2026-11-04", "test-2026-11-02", "others-2026-11-05", "test-plan"):
        work_store(spec).put_json(f"audit/runs/{call}-20261104T023000Z-0123456789ab.json", {})
    assert [day.day for day in missed_days(spec, NIGHT)] == [4]
    assert [day.day for day in missed_days(spec, NIGHT + DAY)] == [4, 10]
    assert [day.day for day in missed_days(spec, NIGHT + 2 * DAY)] == [10, 11], "a week is over"


def test_a_night_that_fails_holds_up_no_other(tmp_path: Path) -> None:
    path = tmp_path / "release.yaml"
    spec_at(tmp_path, catch_up="all")
    made, said = [], []

    def make(order: Order) -> None:
        made.append(order.id)
        if order.id == "2026-11-08":
            raise DataError("the input has no records; look at it")

    days = [datetime.date(2026, 11, day) for day in (7, 8, 9)]
    (failed,) = catch_up(Order(str(path)), days, make, said.append)
    assert made == ["2026-11-07", "2026-11-08", "2026-11-09"]
    assert failed.startswith("2026-11-08: the input has no records; look at it (")
    assert "up to that of 2026-11-15" in failed
    assert said == ["3 nights are missing; they are made first", *(f"2026-11-0{n} is published" for n in (7, 9))]


def test_an_interruption_stops_all_of_it(tmp_path: Path) -> None:
    spec_at(tmp_path, catch_up="all")

    def make(_: Order) -> None:
        raise InterruptionError("interrupted")

    with pytest.raises(InterruptionError):
        catch_up(Order(str(tmp_path / "release.yaml")), [NIGHT.date(), NIGHT.date()], make, str)


def test_nobody_missed_a_day_on_which_nothing_was_due(tmp_path: Path) -> None:
    spec = spec_at(tmp_path, 5, cron="30 2 * * tue,sat", catch_up="all")
    assert [day.day for day in missed_days(spec, NIGHT)] == [7]


def test_nothing_is_missed_before_the_first_release_or_where_the_spec_wants_none(tmp_path: Path) -> None:
    assert missed_days(spec_at(tmp_path / "first", catch_up="all"), NIGHT) == []
    assert missed_days(spec_at(tmp_path / "none", 6), NIGHT) == []


def test_a_run_that_was_overtaken_is_left_out_where_nothing_is_caught_up(tmp_path: Path) -> None:
    spec = spec_at(tmp_path)
    assert why_not(spec, datetime.timedelta(hours=23)) == ""
    assert why_not(spec, DAY) == (
        "the night of 2026-11-10 was missed: the next is due, and the spec says catch_up: none"
    )
    for order in (Order("release.yaml", "2026-11-10"), Order("release.yaml", replace=True)):
        assert why_not(spec, DAY, order) == "", "somebody wants that very release"
    assert why_not(spec, DAY, run_count=2) == "", "somebody has it made again"
    assert why_not(spec, DAY, deployment_id=None) == "", "it was not scheduled"


@pytest.mark.parametrize(("released", "says"), [((10,), "2026-11-10 was released by a later run"), ((9,), "")])
def test_a_night_that_another_run_caught_up_with_is_left_out(
    tmp_path: Path, released: tuple[int, ...], says: str
) -> None:
    assert why_not(spec_at(tmp_path, *released, catch_up="all"), DAY) == says
