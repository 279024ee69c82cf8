"""Schedules in a spec: cron lines, timezones, and that they decide nothing of a release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from microagg_core.errors import SpecError
from microagg_core.spec.json_schema import spec_schema
from microagg_core.spec.loading import canonical, load_spec
from microagg_core.spec.schedule import cron_problem

TEXT = """\
name: people
k: 3
input: {url: in.parquet}
output: {url: out}
work: {url: work}
roles: {quasi_identifiers: [age]}
"""


def refused(folder: Path, more: str) -> str:
    path = folder / "release.yaml"
    path.write_text(TEXT + more, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_spec(str(path))
    (sentence,) = str(caught.value).splitlines()
    return sentence.removeprefix(f"{path}:")


@pytest.mark.parametrize(
    "cron", ["30 2 * * *", "0 0 1 jan *", "*/15 8-18/2 1,15 * mon-fri", "59 23 31 12 7", "0 5 * * SUN"]
)
def test_cron_lines(cron: str) -> None:
    assert cron_problem(cron) == ""


@pytest.mark.parametrize(
    ("cron", "says"),
    [
        ("30 2 * *", "must have five fields"),
        ("@daily", "must have five fields"),
        ("60 2 * * *", "its minute must be *, or numbers from 0 to 59"),
        ("30 2 0 * *", "its day of the month"),
        ("30 2 * mon *", "its month"),
        ("30 2 * * fri-mon", "its weekday"),
        ("30 2-* * * *", "its hour"),
        ("*/0 2 * * *", "its minute"),
        ("30 2,, * * *", "its hour"),
        ("h 2 * * *", "its minute"),
    ],
)
def test_what_is_no_cron_line(cron: str, says: str) -> None:
    assert cron_problem(cron).startswith(says)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("schedule: {cron: 30 2 * *}", "7: schedule.cron: must have five fields"),
        ("schedule: {cron: 30 2 * * *, timezone: Europe/Atlantis}", "7: schedule.timezone: must be the name of a"),
        ("schedule: {cron: 30 2 * * *, timezone: ../x}", "7: schedule.timezone: must be the name of a timezone"),
        ("schedule: {timezone: UTC}", "7: schedule.cron: is missing: minute, hour"),
        ("schedule: {cron: 30 2 * * *, catchup: all}", "7: schedule.catchup: is not a key the spec knows; did you"),
        ("id: one\nschedule: {cron: 30 2 * * *, catch_up: all}", "8: schedule.catch_up: all is for id: date"),
    ],
)
def test_what_is_no_schedule(tmp_path: Path, more: str, says: str) -> None:
    assert refused(tmp_path, more).startswith(says)


def test_a_schedule_decides_nothing_of_a_release(tmp_path: Path) -> None:
    path = tmp_path / "release.yaml"
    path.write_text(TEXT, encoding="utf-8")
    with_schedule = ["schedule.cron=30 2 * * *", "schedule.timezone=Europe/Zurich", "schedule.catch_up=all"]
    spec = load_spec(str(path), with_schedule)
    assert spec.schedule is not None and spec.schedule.timezone == "Europe/Zurich"
    assert canonical(spec) == canonical(load_spec(str(path)))


def test_the_schema_knows_schedules() -> None:
    spec: dict[str, Any] = {
        "name": "people",
        "k": 3,
        "input": {"url": "in"},
        "output": {"url": "out"},
        "work": {"url": "work"},
        "roles": {"quasi_identifiers": ["age"]},
        "schedule": {"cron": "30 2 * * *", "catch_up": "all"},
    }
    jsonschema.validate(spec, spec_schema())
