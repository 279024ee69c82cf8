"""The other commands: demo, init, schema, algorithms, plan, verify, clean; and what programs read of them."""

from __future__ import annotations

import io
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from command_line import Project, after_stage, call_command, run_command

CLUSTER = "none"  # releases are made by the process that is called
ROLES = {"quasi_identifiers": ["x"], "blocking": ["place"], "confidential": ["code"]}
N = 2000


def people(n: int = 300) -> pa.Table:
    return pa.table(
        {
            "x": [i * 7 % 50 for i in range(n)],
            "place": [("north", "south", "east")[i % 3] for i in range(n - 1)] + ["west"],
            "code": [f"{i % 9:02d}" for i in range(n)],
        }
    )


@pytest.mark.soak("makes the demo, on a cluster of its own")
def test_the_demo_and_a_spec_of_ones_own_for_its_file(tmp_path: Path) -> None:
    """demo makes a release on a cluster of its own; init starts a spec, which says what is still to be decided."""
    made = run_command("demo", "--direct", "--people", "3000", "--folder", "demo", cwd=tmp_path)
    assert made.code == 0, made.err
    assert "released" in made.out and "microagg verify" in made.out
    assert run_command("verify", "demo/release", cwd=tmp_path).code == 0
    people = tmp_path / "demo" / "input" / "people-0.parquet"
    started = run_command("init", str(people), "-o", "mine.yaml", cwd=tmp_path)
    assert started.code == 0, started.err
    assert "mine.yaml" in started.out
    spec = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    assert set(spec["roles"]["to_decide"]) == set(pq.read_schema(people).names)
    stopped = run_command("plan", "mine.yaml", cwd=tmp_path)
    stopped.assert_refused(2, "columns without a role yet: 'person_id'")
    again = run_command("init", str(people), "-o", "mine.yaml", cwd=tmp_path)
    again.assert_refused(2, "mine.yaml exists already")
    run_command("init", "nowhere.parquet", "-o", "other.yaml", cwd=tmp_path).assert_refused(7, "nowhere.parquet")
    assert not (tmp_path / "other.yaml").exists()


def test_a_starter_that_is_completed_makes_a_release(project: Project) -> None:
    project.write(people())
    assert project.call("init", "people.parquet").code == 0
    spec = yaml.safe_load((project.folder / "release.yaml").read_text())
    spec |= {"roles": ROLES, "cluster": project.cluster}
    (project.folder / "release.yaml").write_text(yaml.safe_dump(spec))
    project.release()


def test_schemas_and_algorithms_are_told_to_programs(tmp_path: Path) -> None:
    manifest = call_command("schema", "--manifest", cwd=tmp_path).document()
    assert {"id", "revision", "k", "columns", "parts"} <= set(manifest["required"])
    assert manifest["additionalProperties"] is False and "sse" in manifest["$defs"]["Figures"]["properties"]
    spec = call_command("schema", cwd=tmp_path).document()
    assert {"name", "k", "input", "output", "work", "roles"} <= set(spec["required"])
    assert spec["additionalProperties"] is False and spec["properties"]["k"]["minimum"] == 2
    infos = {info["name"]: info for info in json.loads(call_command("algorithms", "--json", cwd=tmp_path).out)}
    shown, names = call_command("algorithms", cwd=tmp_path), infos.keys()
    assert {name for name in names if infos[name]["sorts"]} == {"univariate", "individual_ranking"}
    assert shown.out.count("takes: numbers and ordinal quasi-identifiers") == 2
    assert {"mdav", "mdav_plus", "v_mdav"} <= names and all(f"{name}: " in shown.out for name in names)


def test_plan_releases_nothing_and_shows_no_value(project: Project) -> None:
    project.write(people())
    project.write_spec(ROLES, blocks={"max_records": 40})
    ended = project.call("plan", "release.yaml", "--json")
    plan = ended.document()
    assert plan["records"] == 300
    assert (plan["keys"], plan["undersized_keys"], plan["merged_blocks"]) == (4, 1, 1)
    assert plan["split_blocks"] > 0
    assert plan["refused"] is None
    assert sum(line["records"] for line in plan["largest"]) <= 300
    shown = project.call("plan", "release.yaml")
    assert shown.code == 0
    assert "max_records=40" in shown.out and "fewer than k=3" in shown.out
    for place in ("north", "south", "east", "west"):
        assert place not in ended.out + ended.err + shown.out + shown.err
    project.assert_nothing_published()


def test_plan_of_what_would_be_refused(project: Project) -> None:
    project.write(people().set_column(2, "code", pa.array([f"code-{i}" for i in range(300)])))
    project.write_spec(ROLES)
    ended = project.call("plan", "release.yaml", "--json", "--quiet")
    plan = ended.document()
    assert "nearly unique" in plan["refused"]
    assert any("'code' is nearly unique" in line for line in plan["unwise"])
    ended.assert_refused(3, "nearly unique")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, dict[str, Any]]:
    """A release of many blocks by the real command, and the document with which that ended."""
    project = Project(tmp_path_factory.mktemp("released"), "none")
    project.write(people(N))
    project.write_spec(ROLES, blocks={"max_records": 30})
    ended = project.command("run", "release.yaml", "--direct", "--json")
    lines = [line.split()[0] for line in ended.err.splitlines() if " s  " in line]
    assert lines == [stage["name"] for stage in ended.document()["stages"]]
    return project, ended.document()


def test_run_ends_with_one_json_document(released: tuple[Project, dict[str, Any]]) -> None:
    project, document = released
    assert document["status"] == "released"
    assert (document["records"], document["withheld"], document["k"]) == (N, 0, 3)
    assert [stage["name"] for stage in document["stages"]] == [
        "survey", "plan", "scatter", "anonymize", "validate", "measure", "publish", "report",
    ]  # fmt: skip
    assert all(check["passed"] for check in document["checks"])
    assert Path(document["manifest"]).is_file()
    again = project.command("run", "release.yaml", "--direct", "--quiet")
    assert (again.code, again.err) == (0, "")
    assert "already released" in again.out


def test_a_release_read_by_pandas_has_the_figures_that_were_published(
    released: tuple[Project, dict[str, Any]],
) -> None:
    """Combined from many blocks, losses equal what pandas computes on the file."""
    project, document = released
    before, frame = people(N).to_pandas(), pd.concat([pd.read_parquet(part) for part in project.parts()])
    assert list(frame.columns) == list(before.columns) and sorted(frame["code"]) == sorted(before["code"])
    assert frame.groupby(["x", "place"]).size().min() >= 3
    losses, after = document["losses"], frame["x"]
    attribute = losses["attributes"]["x"]
    kept = after.var(ddof=0) / before["x"].var(ddof=0)
    assert attribute["variance_kept"] == pytest.approx(100 * kept, rel=1e-5)
    assert attribute["mean"] == pytest.approx(after.mean(), rel=1e-5)
    assert attribute["variance"] == pytest.approx(after.var(ddof=0), rel=1e-5)
    assert losses["sst"] == pytest.approx(N, rel=1e-5)
    assert losses["l_sse"] == pytest.approx(100 * losses["sse"] / losses["sst"], rel=1e-4)


def test_verify_sees_what_is_wrong(released: tuple[Project, dict[str, Any]]) -> None:
    project, _ = released
    part = project.parts()[0]
    right = part.read_bytes()
    good = project.command("verify", "release", "--json")
    assert good.code == 0
    assert good.document()["passed"] is True
    part.unlink()
    missing = project.call("verify", "release")
    assert missing.code == 5
    assert "FAIL parts" in missing.out
    part.write_bytes(right[:-100])
    assert project.call("verify", "release").code == 5
    table = pq.read_table(io.BytesIO(right))
    alone = [v + 1000 if i == 0 else v for i, v in enumerate(table["x"].to_pylist())]
    pq.write_table(table.set_column(0, "x", pa.array(alone)), part)
    changed = project.command("verify", "release", "--json")
    assert changed.code == 5
    failed = {check["name"] for check in changed.document()["checks"] if not check["passed"]}
    assert {"checksums", "k-anonymity"} <= failed
    assert "Traceback" not in changed.err
    part.write_bytes(right)


def test_clean_removes_what_failed_runs_left_when_their_time_is_up(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(people())

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    after_stage(monkeypatch, "scatter", stop)
    for days in (7, 6):
        project.write_spec(ROLES, work={"url": "work", "keep": {"failed_days": days}}, seed=days)
        assert project.call("run", "release.yaml", "--direct", "--quiet").code == 130
    assert len(list((project.work / "runs").glob("*/sign-of-life"))) == 2
    project.write_spec(ROLES, work={"url": "work", "keep": {"failed_days": 7}})
    assert "removed 0 failed runs, kept 2" in project.call("clean", "release.yaml").out
    project.write_spec(ROLES, work={"url": "work", "keep": {"failed_days": 0}})
    assert "removed 2 failed runs, kept 0" in project.call("clean", "release.yaml").out
    monkeypatch.undo()
    project.release()
    audit = {path.name for path in project.work.rglob("*.json")}
    assert "removed 0 failed runs, kept 0" in project.call("clean", "release.yaml", "--all").out
    assert {path.name for path in project.work.rglob("*.json")} == audit != set()


def test_a_wrong_call_says_how_it_is_used(tmp_path: Path) -> None:
    for arguments in (["run"], ["run", "a.yaml", "--nonsense"], ["nonsense"], ["demo", "--people", "5"]):
        ended = call_command(*arguments, cwd=tmp_path)
        assert ended.code == 2 and "Usage: " in ended.err and "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


def test_help_names_every_command_and_the_exit_codes_and_the_version_is_told(tmp_path: Path) -> None:
    shown = call_command("--help", cwd=tmp_path)
    assert shown.code == 0
    for word in ("run", "plan", "verify", "init", "schema", "algorithms", "demo", "clean", "130"):
        assert word in shown.out
    told = call_command("--version", cwd=tmp_path)
    assert (told.code, told.out, told.err) == (0, f"microagg {version('microagg')}\n", "")
