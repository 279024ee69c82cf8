"""``microagg init`` as its user meets it: a real file in many dialects, 80 columns, no spec where there is doubt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from command_line import Ended, Project
from planted import assert_clean, canaries

from microagg_core.spec.loading import load_spec
from microagg_core.store.objects import Store
from servers.s3_server import Place

CLUSTER = "none"  # releases are made by the process that is called
REFERENCE = Path(__file__).resolve().parents[1] / "reference" / "data"
ROLES = ("identifiers", "quasi_identifiers", "blocking", "confidential", "drop")


def eia(project: Project, name: str, **options: object) -> pd.DataFrame:
    """A real file, written again in some dialect; of each firm its first record, with a name and a state."""
    table = pd.read_csv(REFERENCE / "eia.csv", dtype=str, keep_default_na=False).drop_duplicates("UTILITYID")
    table.insert(1, "Société", [f"Électricité {number}" for number in range(len(table))])
    table.insert(2, "STATE", [("NORD", "SUD")[number % 2] for number in range(len(table))])
    table["PRICE"] = (table["RESREVENUE"].astype(float) / 8).astype(str)
    written = table.copy()
    if options.pop("comma", False):
        written["PRICE"] = written["PRICE"].str.replace(".", ",")
    written.to_csv(project.folder / name, index=False, **options)  # type: ignore[call-overload]
    return table


def started(project: Project, *arguments: str) -> Ended:
    ended = project.call("init", *arguments)
    assert (ended.code, ended.err) == (0, ""), ended.err
    return ended


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("eia.csv", {"sep": ";", "comma": True, "encoding": "latin-1", "quoting": 1, "lineterminator": "\r\n"}),
        ("eia.tsv.gz", {"sep": "\t", "encoding": "utf-16", "compression": "gzip"}),
    ],
)
def test_a_real_file_in_any_dialect_gets_as_far_as_its_plan(
    project: Project, name: str, options: dict[str, object]
) -> None:
    """Init, accept, plan: the plan sees every record, and refuses only what nobody acknowledged."""
    table = eia(project, name, **options)
    shown = started(project, name, "--accept-proposals").out
    assert max(map(len, shown.splitlines())) <= 80
    spec = yaml.safe_load((project.folder / "release.yaml").read_text(encoding="utf-8"))
    listed = [one["name"] if isinstance(one, dict) else one for role in ROLES for one in spec["roles"][role]]
    assert sorted(listed) == sorted(table.columns) and all(f"\n{column}" in shown for column in table.columns)
    assert spec["roles"]["identifiers"] == ["UTILITYID", "Société"] and spec["unit"] == ["UTILITYID"]
    assert "PRICE" in spec["roles"]["quasi_identifiers"] + spec["roles"]["confidential"]
    ended = project.call("plan", "release.yaml")
    assert f"records                {len(table):,}" in ended.out
    assert ended.code == 0 or all("acknowledge" in sentence for sentence in ended.sentences())


def test_a_plan_refuses_nothing_that_init_proposed(project: Project) -> None:
    """Each kind of column made the plan refuse the proposals: unique, tied, explaining, unique together."""
    rng, n = np.random.default_rng(3), 2000
    age, household = rng.integers(18, 90, n), np.repeat(np.arange(n), 3)[:n]
    frame = pd.DataFrame({"age": age, "distance": (rng.lognormal(3, 1, n) * 100).round() / 100})
    frame["income"] = rng.lognormal(10, 0.5, n)
    frame["household_rent"] = rng.integers(0, n, n)[household]
    frame["cohort"] = [f"before {value // 10 * 10}" for value in age]
    frame["last_digit"] = age % 10
    for i in range(6):
        frame[f"answer_{i}"] = rng.integers(0, 7, n)
    frame.to_csv(project.folder / "people.csv", index=False)
    shown = started(project, "people.csv", "--accept-proposals").out
    assert "averaged; coarsen it" in " ".join(shown.split()) and max(map(len, shown.splitlines())) <= 80
    roles = yaml.safe_load((project.folder / "release.yaml").read_text(encoding="utf-8"))["roles"]
    kinds = {one["name"]: one["kind"] for one in roles["quasi_identifiers"] if isinstance(one, dict)}
    quasi = [one["name"] if isinstance(one, dict) else one for one in roles["quasi_identifiers"]]
    assert {"age", "income", "household_rent", "last_digit"} <= set(quasi)
    assert kinds == dict.fromkeys(["cohort", "last_digit", *(f"answer_{i}" for i in range(6))], "nominal")
    others = [name for role, names in roles.items() if role != "quasi_identifiers" for name in names]
    assert sorted([*quasi, *others]) == sorted(frame)
    ended = project.call("plan", "release.yaml", "--no-expected")
    assert ended.code == 0, ended.err


def test_init_tells_of_units_that_repeat(project: Project) -> None:
    """With a tail of few who have many visits; what is proposed is released as it stands."""
    rng = np.random.default_rng(2)
    visits = np.concatenate([np.tile([1, 2, 3], 100), [9, 11, 30]])
    person = np.repeat(np.arange(len(visits)) + 700, visits)
    frame = pd.DataFrame({"person_id": person, "sex": np.array(["f", "m"])[person % 2], "age": person % 71})
    frame["ward"] = rng.choice(["A", "B"], len(person))
    frame["admission"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, len(person)), "D")
    frame.sample(frac=1, random_state=1).to_csv(project.folder / "visits.csv", index=False)
    shown = " ".join(started(project, "visits.csv", "--accept-proposals").out.split())
    assert "unit: person_id has 303 values, 1 to 30 rows each, within which sex, age are constant: so k" in shown
    assert "unit: 3 of them have more than 3 rows, and 41 of 650 rows beyond that are left out" in shown
    spec = yaml.safe_load((project.folder / "release.yaml").read_text(encoding="utf-8"))
    rows = {"at_most": 3, "keep": "newest", "by": "admission"}
    assert spec["unit"] == {"id": ["person_id"], "rows": rows, "per_unit": ["age"]}
    assert spec["roles"]["blocking"] == ["sex"]  # and by no ward, which differs within persons
    project.release("--set", "cluster=none")
    with (project.parts()[0]).open() as released:
        assert sum(1 for _ in released) == 1 + 650 - 41


def test_the_document_has_what_the_terminal_shows(project: Project) -> None:
    table = eia(project, "eia.csv", sep=";")
    document = started(project, "eia.csv", "--json").document()
    assert (document["rows"], document["rows_are_counted"], document["spec"]) == (len(table), True, "release.yaml")
    assert document["input"]["csv"]["delimiter"] == ";"
    columns = {column["name"]: column for column in document["columns"]}
    assert list(columns) == list(table.columns)
    assert columns["STATE"]["distinct"] == table["STATE"].nunique() and columns["STATE"]["type"] == "text"
    assert columns["UTILITYID"]["proposed"] == "identifiers" and columns["UTILITYID"]["reason"]


def test_no_spec_is_written_for_a_file_that_is_not_understood(project: Project) -> None:
    (project.folder / "data.csv").write_text("a,b\n1,2\n3\n")
    refused = project.call("init", "data.csv", "--accept-proposals")
    refused.assert_refused(3, "data.csv:3: the line has 1 cells instead of 2")
    assert [path.name for path in project.folder.iterdir()] == ["data.csv"]


def test_what_the_user_says_decides(project: Project) -> None:
    (project.folder / "data.csv").write_text("a;b,c\n" + 9 * "1;2,3\n")
    project.call("init", "data.csv").assert_refused(3, "say --delimiter")
    started(project, "data.csv", "--delimiter", ";")
    spec = yaml.safe_load((project.folder / "release.yaml").read_text())
    assert spec["input"]["csv"]["types"] == {"a": "int64", "b,c": "float64"}
    project.call("init", "data.csv").assert_refused(2, "release.yaml exists already")
    for command in (["plan"], ["run", "--direct"]):
        project.call(*command, "release.yaml").assert_refused(2, "columns without a role yet: 'a', 'b,c'")
    project.assert_nothing_published()


@pytest.mark.server
def test_files_in_a_bucket(project: Project, s3_bucket: Place) -> None:
    table = eia(project, "eia.csv", sep=";")
    store = Store(s3_bucket.url, s3_bucket.storage_options)
    lines = (project.folder / "eia.csv").read_bytes().splitlines(keepends=True)
    for number in range(2):
        store.put(f"{number}.csv", b"".join([lines[0], *lines[1 + number :: 2]]))
    endpoint = s3_bucket.storage_options["client_kwargs"]["endpoint_url"]
    shown = started(project, f"{s3_bucket.url}/*.csv", "--accept-proposals", "--endpoint", endpoint).out
    assert f"{len(table)} rows" in shown
    spec = load_spec(str(project.folder / "release.yaml"))
    assert (spec.input.url, spec.input.csv.delimiter) == (f"{s3_bucket.url}/*.csv", ";")
    assert f"records                {len(table)}" in project.call("plan", "release.yaml").out


def test_no_value_of_a_record_is_in_a_profile_or_a_spec(project: Project) -> None:
    for form in ("parquet", "csv"):
        path = project.write(canaries()) if form == "parquet" else project.folder / "people.csv"
        if form == "csv":
            canaries().to_pandas().to_csv(path, index=False)
        for extra in (["--json"], ["--accept-proposals"]):
            (project.folder / "release.yaml").unlink(missing_ok=True)
            ended = started(project, path.name, *extra)
            assert_clean("what is shown", ended.out)
            assert_clean("the spec", (project.folder / "release.yaml").read_text())
