"""The risk of a release on its operator's terminal, and nowhere that others read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command_line import Project
from planted import ROLES as PLANTED_ROLES
from planted import assert_clean, canaries, files_below

ROLES = {"quasi_identifiers": ["x", "y"], "confidential": ["note", "ill"]}
RUN = ("run", "release.yaml", "--direct")
#: What any text on risk has: keys of figures, words of sentences.
WORDS = ("own_nearest", "expected_correct", "records_certain", "by_chance", "inferred with certainty", "stood alone")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose releases this process makes: of each five neighbours, four are ill alike."""
    made = Project(tmp_path, "none")
    n = 200
    near = [i // 5 for i in range(n)]
    made.write(
        pa.table(
            {
                "x": [float(10 * g + i % 5) for i, g in enumerate(near)],
                "y": [float(g % 7 + 0.1 * (i % 5)) for i, g in enumerate(near)],
                "note": ["a" if g % 2 else "b" for g in near],
                "ill": ["rarely" if i % 5 == 0 else "no" for i in range(n)],
            }
        )
    )
    made.write_spec(ROLES, k=5)
    return made


def risk_of(project: Project) -> dict[str, Any]:
    (path,) = (project.work / "audit").glob("*/*/risk.json")
    figures: dict[str, Any] = json.loads(path.read_text())
    return figures


def test_a_run_ends_with_what_the_release_gives_away(project: Project) -> None:
    ended = project.call(*RUN)
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    start = lines.index("risk of 200 records; for you alone")
    told = lines[start + 1 :]
    assert len(told) == 5 and all(line.startswith("  ") for line in told)
    note = risk_of(project)["inference"]["note"]
    assert note["records_certain"] > 0.9 > 0.1 > note["by_chance"]
    certain = f"for {100 * note['records_certain']:.3g} % of records the value of 'note' can be inferred with certainty"
    assert told[0].strip().startswith((certain, "every quasi-identifier"))
    assert any(certain in line for line in told)
    assert any("who knows 'x' and 'y' exactly picks the right record for" in line for line in told)


def test_nothing_of_it_goes_where_others_read(project: Project) -> None:
    """Manifest and data, outcomes, log, lineage, the document on standard output; looks ahead leave nothing at all."""
    told = ("--results", "told.json", "--log-file", "told.log", "--log-format", "json")
    compared = project.call("compare", "release.yaml", "--json", "--algorithms", "mdav", "--refine", "off", *told)
    assert compared.code == 0 and files_below(project.work) == [], compared.err
    planned = project.call("plan", "release.yaml", "--json", *told)
    assert planned.code == 0, planned.err
    looked = [*compared.document()["cells"], *planned.document()["expected"]["expected"]]
    ended = project.call(*RUN, "--json", *told)
    assert ended.code == 0, ended.err
    figures = risk_of(project)
    shares = {str(of[name]) for of in (*looked, figures["linkage"]) for name in ("own_nearest", "expected_correct")}
    shares |= {str(of["l_sse"]) for of in looked if of["k"] != 5}
    shares |= {str(figures["intervals"]["rank"]["mean"]), str(figures["inference"]["note"]["by_chance"])}
    words = [*WORDS, *(share for share in shares if len(share) > 4)]
    assert len(words) > len(WORDS) + 4
    places = [path for path in files_below(project.folder) if path.name not in ("risk.json", "people.parquet")]
    texts = {path.name: path.read_bytes() for path in places if path.suffix != ".parquet"}
    assert len(texts) > 8 and {"told.json", "told.log", "manifest.json", "plan.json"} <= set(texts)
    texts |= {"stdout": ended.out.encode(), "stderr": (compared.err + planned.err + ended.err).encode()}
    for name, text in texts.items():
        assert [word for word in words if word.encode() in text] == [], name


def test_no_value_of_a_record_is_in_what_only_the_operator_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MICROAGG_REPORT", "on")
    made = Project(tmp_path, "none")
    made.write(canaries())
    made.write_spec(PLANTED_ROLES, analyses=["x ~ y"])  # levels of categories are values of many
    files = ("--html", "page.html", "--table", "table.csv")
    compare = ("compare", "release.yaml", "--algorithms", "mdav", "--seeds", "1", *files)
    plan = ("plan", "release.yaml")
    for call in (compare, (*compare, "--json"), plan, (*plan, "--json"), RUN, ("risk", "release.yaml")):
        ended = made.call(*call)
        assert ended.code == 0, ended.err
        assert_clean(" ".join(call), ended.out + ended.err)
        if "--json" in call:
            document = ended.document()
            assert document["cells"] if call[0] == "compare" else document["expected"]["expected"]
    (folder,) = (made.work / "audit").glob("*/r0001")
    kept = [folder / name for name in ("risk.json", "risk-labels.parquet", "report.html", "expected.json", "run.json")]
    for path in (*kept, *(tmp_path / name for name in files[1::2])):
        assert_clean(path.name, path.read_bytes())


def test_the_command_shows_all_of_it(project: Project) -> None:
    project.call("risk", "release.yaml").assert_refused(5, "there is no release")
    assert project.call(*RUN, "-q").code == 0
    ended = project.call("risk", "release.yaml", "-q")
    assert ended.code == 0, ended.err
    for words in ("40 groups of 5 to 5 records", "confidential column", "who knows", "within so many deviations"):
        assert words in ended.out
    document = project.call("risk", "release.yaml", "--json", "-q").document()
    assert document == {"id": document["id"], "revision": "r0001", **risk_of(project)}
    assert document["linkage"]["own_nearest"] > 0.5 and document["inference"]["ill"]["records_certain"] == 0
    assert document["sizes"]["histogram"] == {"5": 40}
    project.call("risk", "release.yaml", "--release", "elsewhere").assert_refused(5, "there is no release")
