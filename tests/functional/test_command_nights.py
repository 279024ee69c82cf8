"""Nights by the command: inputs named after their day, fields that are set for once, and days that were missed."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from command_line import Project

from microagg_core.storage.layout import LedgerLayout
from releasing.small_series import ROLES, people

DAYS = [f"2026-11-{day:02d}" for day in range(1, 5)]


@pytest.fixture
def nights(tmp_path: Path) -> Project:
    """A series whose input has a folder for each day, of which the first four are there."""
    project = Project(tmp_path, "none")
    for n, day in enumerate(DAYS):
        project.write(people(range(40 + 10 * n)), f"in/{day}/people.parquet")
    (tmp_path / "key").write_text("a key of the series for tests")
    (tmp_path / "key").chmod(0o600)
    project.write_spec(
        ROLES,
        id="date",
        input={"url": "in/{date}/*.parquet"},
        unit="id",
        refine="off",
        series={"mode": "atoms", "key_file": "key"},
        acknowledge={"nearly_unique": ["tag"]},
    )
    return project


def published(project: Project) -> list[str]:
    """The ids that are there for readers."""
    return sorted(path.parent.parent.name for path in project.output.glob("*/*/manifest.json"))


# --- {id} and {date} -----------------------------------------------------------------------------------------


def test_each_day_has_its_own_input(nights: Project) -> None:
    assert nights.release("--id", DAYS[0])["records"] == 40
    assert nights.release("--id", DAYS[1])["records"] == 50
    planned = nights.call("plan", "release.yaml", "-q", "--json", "--id", DAYS[2])
    assert planned.code == 0 and planned.document()["records"] == 10, "the arrivals of that day"
    today = nights.call("run", "release.yaml", "--direct", "-q")
    today.assert_refused(5, f"in/{datetime.datetime.now(datetime.UTC).date()}/*.parquet: no file matches")


def test_a_ledger_is_made_again_from_the_input_of_each_day(nights: Project) -> None:
    for day in DAYS[:3]:
        nights.release("--id", day)
    ledger = nights.work / "series" / "people"
    (ledger / LedgerLayout(1).generation()).unlink()
    ended = nights.call("series", "rebuild", "release.yaml", "-q")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("0 nights were sound, 3 were made again")


def test_steps_find_the_input_of_their_run(nights: Project) -> None:
    for _ in range(40):
        ended = nights.call("step", "report", "-q", "--id", DAYS[0], "release.yaml")
        assert ended.code == 0, ended.err
        if ended.out == "done\n":
            break
        step, numbers, run = ended.out.split()
        first, _, last = numbers.partition("-")
        for number in range(int(first), int(last or first) + 1):
            done = nights.call("step", step, "-q", "--number", str(number), "--run", run, "release.yaml")
            assert done.code == 0, done.err
    assert published(nights) == [DAYS[0]]


def test_an_unknown_name_is_refused_before_anything_is_done(nights: Project) -> None:
    nights.write_spec(ROLES, input={"url": "in/{day}/*.parquet"})
    for command in ("run", "plan"):
        nights.call(command, "release.yaml").assert_refused(2, "input.url: has a name in braces")
    assert not nights.work.exists()
