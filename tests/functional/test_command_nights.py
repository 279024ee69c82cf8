"""Nights by the command: inputs named after their day, fields that are set for once, and days that were missed."""

from __future__ import annotations

import datetime
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Ended, Project

from covering import share
from microagg_core.store.layout import LedgerLayout
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
    return sorted(path.parent.parent.name for path in project.output.glob("*/*/manifest.json"))


def test_each_day_has_its_own_input(nights: Project) -> None:
    assert nights.release("--id", DAYS[0])["records"] == 40
    assert nights.release("--id", DAYS[1])["records"] == 50
    planned = nights.call("plan", "release.yaml", "-q", "--json", "--id", DAYS[2])
    assert planned.code == 0 and planned.document()["records"] == 10, "the arrivals of that day"
    today = nights.call("run", "release.yaml", "--direct", "-q")
    today.assert_refused(7, f"in/{datetime.datetime.now(datetime.UTC).date()}/*.parquet: no file matches")


def test_an_unknown_name_is_refused_before_anything_is_done(nights: Project) -> None:
    nights.write_spec(ROLES, input={"url": "in/{day}/*.parquet"})
    for command in ("run", "plan"):
        nights.call(command, "release.yaml").assert_refused(2, "input.url: has a name in braces")
    assert not nights.work.exists()


def test_what_is_set_holds_for_the_call(nights: Project) -> None:
    dev = ("--set", "output.url=dev/release", "--set", "work.url=dev/work", "--set", "k=5")
    assert nights.release("--id", DAYS[0], *dev)["k"] == 5
    nights.assert_nothing_published()
    planned = nights.call("plan", "release.yaml", "-q", "--json", "--id", DAYS[1], *dev)
    assert planned.document()["records"] == 10, "the series goes on where its work area is"
    assert "1" in nights.call("series", "status", "release.yaml", *dev).out
    assert "no night yet" in nights.call("series", "status", "release.yaml").out
    assert nights.call("clean", "release.yaml", *dev).code == 0
    (nights.folder / "units.csv").write_text("id\n7\n")
    told = nights.call("forget", "release.yaml", "--units", "units.csv", *dev)
    assert "1 of 1 units are known to the series people" in told.out


def test_a_field_that_there_is_not_cannot_be_set(nights: Project) -> None:
    for command in (("run",), ("plan",), ("step", "report"), ("series", "status"), ("series", "rebuild"), ("clean",)):
        ended = nights.call(*command, "release.yaml", "--set", "output.ulr=dev")
        ended.assert_refused(2, "--set output.ulr: is not a key the spec knows; did you mean url?")
        assert len(ended.sentences()) == 1


def backfill(project: Project, last: str, *options: str) -> Ended:
    return project.call("backfill", "release.yaml", "-q", "--direct", "--from", DAYS[0], "--to", last, *options)


def test_missing_days_are_released_in_order(nights: Project) -> None:
    nights.release("--id", DAYS[1])
    told = backfill(nights, DAYS[2], "--dry-run")
    missing = [f"{DAYS[0]} is missing", f"{DAYS[1]} is published already", f"{DAYS[2]} is missing"]
    assert (told.code, told.out.splitlines()) == (0, missing)
    assert published(nights) == [DAYS[1]]
    done = backfill(nights, DAYS[2])
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        missing[1].replace(DAYS[1], day) if day == DAYS[1] else f"{day} is published" for day in DAYS[:3]
    ]
    assert published(nights) == DAYS[:3]
    assert [nights.call("verify", f"release/{day}").code for day in DAYS[:3]] == [0, 0, 0]
    assert backfill(nights, DAYS[2]).out.count("is published already") == 3


def test_the_first_day_that_fails_ends_it_and_the_same_command_goes_on(nights: Project) -> None:
    aside = nights.folder / "aside"
    shutil.move(nights.folder / "in" / DAYS[1], aside)
    stopped = backfill(nights, DAYS[3])
    stopped.assert_refused(7, f"{DAYS[1]}: ", "no file matches")
    assert stopped.out == f"{DAYS[0]} is published\n" and published(nights) == DAYS[:1]
    shutil.move(aside, nights.folder / "in" / DAYS[1])
    assert backfill(nights, DAYS[3]).code == 0
    assert published(nights) == DAYS
    assert nights.call("series", "verify", "release.yaml").code == 0


def test_a_day_that_was_published_and_not_finished_is_finished(nights: Project) -> None:
    backfill(nights, DAYS[1])
    shutil.rmtree(nights.work / "audit" / DAYS[1])
    (nights.output / "latest.json").unlink()
    assert f"{DAYS[1]} is missing" in backfill(nights, DAYS[1], "--dry-run").out
    done = backfill(nights, DAYS[1])
    assert (done.code, published(nights)) == (0, DAYS[:2]), done.err
    assert (nights.output / "latest.json").exists()
    assert backfill(nights, DAYS[1]).out.count("is published already") == 2


def test_wrong_days(nights: Project) -> None:
    def refused(first: str, last: str, says: str) -> None:
        nights.call("backfill", "release.yaml", "--from", first, "--to", last).assert_refused(2, says)

    refused("2026-11-31", DAYS[0], "--from: must be a day such as 2026-11-01 (got '2026-11-31')")
    refused(DAYS[0], "20261102", "--to: must be a day such as 2026-11-01")
    refused(DAYS[1], DAYS[0], f"--from: {DAYS[1]} is after {DAYS[0]}")
    refused(DAYS[0], "2999-01-01", "--to: 2999-01-01 is a day to come")
    refused_ids = nights.call("backfill", "release.yaml", "--from", DAYS[0], "--to", DAYS[1], "--set", "id=one")
    refused_ids.assert_refused(2, "id: is 'one', so no day can be missing")


def test_the_specs_of_a_folder(nights: Project) -> None:
    """Each in a file of its own, or in a folder of its own; what else lies there is none."""
    one = nights.folder / "release.yaml"
    specs = nights.folder / "specs"
    (specs / "firms").mkdir(parents=True)
    shutil.copy(one, specs / "people.yaml")
    scheduled = one.read_text().replace("name: people", "name: firms") + "schedule: {cron: 30 2 * * *, catch_up: all}\n"
    (specs / "firms" / "release.yaml").write_text(scheduled)
    (specs / "firms" / "firms.yaml").write_text("no: spec")
    told = nights.call("deploy", "specs", "--dry-run", "--as", "s3://specs")
    assert (told.code, told.err) == (0, "")
    assert told.out.splitlines() == [
        "firms: 30 2 * * * UTC, catch_up all, s3://specs/firms/release.yaml",
        "people: no schedule, s3://specs/people.yaml",
    ]
    here = nights.call("deploy", "specs", "--dry-run", "--set", "schedule.cron=0 4 * * *")
    assert here.out.splitlines()[1] == f"people: 0 4 * * * UTC, catch_up none, {specs / 'people.yaml'}"
    shutil.copy(one, specs / "again.yml")
    twice = nights.call("deploy", "specs", "--dry-run")
    twice.assert_refused(2, "again.yml and ", "people.yaml are both of the series people")
    (specs / "wrong.yaml").write_text(one.read_text().replace("k: 3", "k: 1"))
    nights.call("deploy", "specs").assert_refused(2, "wrong.yaml:3: k: must be at least 2 (got 1)")


def test_what_cannot_be_deployed(nights: Project) -> None:
    nights.call("deploy", "nowhere").assert_refused(2, "nowhere is not a directory")
    (nights.folder / "empty").mkdir()
    nights.call("deploy", "empty").assert_refused(2, "empty: holds no spec")
    specs = nights.folder / "specs"
    specs.mkdir()
    shutil.copy(nights.folder / "release.yaml", specs)
    env = {"PREFECT_HOME": str(nights.folder / "prefect")}
    nights.command("deploy", "specs", env=env).assert_refused(2, "PREFECT_API_URL: names no Prefect server")


#: The command, in a process that is killed when it is about to put a file of this name into its place.
KILLED_AT_A_FILE = """
import os, signal, sys
place = {name: getattr(os, name) for name in ("replace", "link")}
def dying(name):
    def put(source, target, **folders):
        if str(target) == {target!r}:
            os.kill(os.getpid(), signal.SIGKILL)
        return place[name](source, target, **folders)
    return put
for name in place:
    setattr(os, name, dying(name))
"""
#: The command, in a process that is killed when it is about to remove the rows of a run.
KILLED_AT_ITS_ROWS = """
import os, signal
from microagg_core.store.objects import Store
delete_all = Store.delete_all
def dying(store, prefix):
    return os.kill(os.getpid(), signal.SIGKILL) if prefix.startswith("runs/") else delete_all(store, prefix)
Store.delete_all = dying
"""


def killed(project: Project, how: str, *arguments: str) -> None:
    code = f"{how}\nfrom microagg_flows.command.cli import main\nmain()"
    ended = subprocess.run([sys.executable, "-c", code, *arguments], cwd=project.folder, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def unfinished(project: Project) -> list[str]:
    return sorted(str(path.relative_to(project.folder)) for path in project.folder.rglob(".*.unfinished"))


@pytest.mark.parametrize(
    ("target", "place", "then"),
    [
        ("manifest.json", f"release/{DAYS[0]}/r0001", "clean"),
        *(
            pytest.param(*case, marks=pytest.mark.soak("other files, written in the same way"))
            for case in (
                ("00000", "work/series/people/published", "run"),
                ("latest.json", "release", "run"),
                ("00000.json", "work/series/people/generations", "clean"),
                ("plan.json", f"work/audit/{DAYS[0]}/r0001", "clean"),
            )
        ),
    ],
)
def test_what_a_killed_writer_never_completed_goes(nights: Project, target: str, place: str, then: str) -> None:
    call = ("run", "release.yaml", "--direct", "-q", "--id", DAYS[0])
    killed(nights, KILLED_AT_A_FILE.replace("{target!r}", repr(target)), *call)
    (left,) = [name for name in unfinished(nights) if not name.startswith("work/runs/")]
    assert str(Path(left).parent) == place
    (nights.folder / place / f".{'0' * 12}-1-{'a' * 32}.unfinished").write_bytes(b"of another machine, a moment ago")
    (nights.folder / place / ".a user's.unfinished").write_bytes(b"of a user")
    assert nights.call(*(call if then == "run" else ("clean", "release.yaml"))).code == 0
    kept = [Path(name).name for name in unfinished(nights) if Path(name).parent == Path(place)]
    if then == "clean":  # where it is published again, files that are not the release's go from its folder
        assert kept == [".000000000000-1-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.unfinished", ".a user's.unfinished"]
    assert left not in unfinished(nights)


def rows_of_runs(project: Project) -> list[str]:
    return sorted(str(path) for path in (project.work / "runs").rglob("*") if path.is_file())


BACKFILL = ("backfill", "release.yaml", "-q", "--direct", "--from", DAYS[1], "--to", DAYS[1])
REBUILD = ("series", "rebuild", "release.yaml", "-q")
RUN, CLEAN = ("run", "release.yaml", "--direct", "-q", "--id", DAYS[2]), ("clean", "release.yaml")


@pytest.mark.parametrize(
    ("dies", "then"),
    share([(BACKFILL, BACKFILL), (BACKFILL, RUN), (BACKFILL, CLEAN), (REBUILD, REBUILD), (REBUILD, CLEAN)], 2),
    ids=lambda command: "-".join(command[:2]),
)
def test_rows_of_what_was_killed_at_its_end_go(dies: tuple[str, ...], then: tuple[str, ...], nights: Project) -> None:
    nights.release("--id", DAYS[0])
    if dies == REBUILD:
        (nights.work / "series" / "people" / LedgerLayout(0).generation()).unlink()
    killed(nights, KILLED_AT_ITS_ROWS, *dies)
    assert published(nights) == DAYS[: 2 if dies == BACKFILL else 1] and rows_of_runs(nights) != []
    ended = nights.call(*then)
    assert ended.code == 0, ended.err
    assert rows_of_runs(nights) == []


def test_a_rebuilding_that_comes_out_otherwise_leaves_no_rows(nights: Project) -> None:
    nights.release("--id", DAYS[0])
    (nights.work / "series" / "people" / LedgerLayout(0).generation()).unlink()
    nights.write(people(range(41)), f"in/{DAYS[0]}/people.parquet")
    nights.call("series", "rebuild", "release.yaml", "-q").assert_refused(5, "comes out otherwise")
    assert rows_of_runs(nights) == []
