"""``microagg compare release.yaml``: beside what runs with the same settings then measure; for its operator alone."""

from __future__ import annotations

import csv
import json
import re
import signal
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import AGAIN, Project, start_command
from planted import files_below
from test_command_expected import DEVIATIONS, ROLES, people

from microagg_core.compare import choice, drawing

CENSUS = Path(__file__).resolve().parents[1] / "reference" / "data" / "census.csv"
QUICK = ("--algorithms", "mdav,mu_approx")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, "none")


def compared(project: Project, *arguments: str) -> dict[str, Any]:
    ended = project.call("compare", "release.yaml", "--json", "-q", *arguments)
    assert ended.code == 0, ended.err
    assert ended.err == ""
    return ended.document()


def released(project: Project, cell: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    name = f"{cell['algorithm']}-{cell['refine']}-{cell['k']}".replace("_", "-")
    settings = [f"algorithm={cell['algorithm']}", f"refine={cell['refine']}", f"k={cell['k']}"]
    document = project.release("--id", name, *(word for setting in settings for word in ("--set", setting)))
    (path,) = (project.work / "audit").glob(f"{name}/{document['revision']}/risk.json")
    return document["losses"], json.loads(path.read_text())


def assert_digit_for_digit(project: Project, document: dict[str, Any]) -> None:
    """Every cell is what a run then publishes and measures."""
    assert document["cells"]
    for cell in document["cells"]:
        losses, risk = released(project, cell)
        assert cell["is_whole"] and cell["l_sse_error"] is None
        assert cell["l_sse"] == losses["l_sse"]
        if cell["gap"] is not None:
            assert (cell["lower_bound"], cell["gap"]) == (losses["lower_bound"], losses["gap"])
        assert (cell["groups"], cell["smallest"], cell["largest"]) == tuple(
            risk["sizes"][name] for name in ("groups", "smallest", "largest")
        )
        for name in ("own_nearest", "expected_correct", "by_chance"):
            assert cell[name] == risk["linkage"][name], name
        assert cell["unique_before"] == pytest.approx(risk["uniqueness"]["before"], abs=1e-6)
        for name, column in cell["certain"].items():
            of_run = risk["inference"][name]
            assert (column["records_certain"], column["by_chance"]) == (of_run["records_certain"], of_run["by_chance"])


WITHHELD = {"missing": "separate", "blocks": {"undersized": "suppress", "totals_known": "file"}}
PROTECTED = {
    "blocks": {"max_records": 300},
    "protect": {"diagnosis": {"distinct": 2}, "education": {"t": 0.45}},
    "output": {"url": "release", "format": "csv"},
    "rounding": {"commute_km": 5},
    "risk": "full",
}


@pytest.mark.parametrize(
    ("others", "options", "cells"),
    [(WITHHELD, ("--k", "7", "--algorithms", "mdav"), 4), (PROTECTED, ("--k", "4", *QUICK), 4)],
    ids=["withheld", "cut, protected and rounded"],
)
def test_a_small_file_is_compared_as_runs_release_it(
    project: Project, others: dict[str, Any], options: tuple[str, ...], cells: int
) -> None:
    project.write(people(900, missing="missing" in others))
    project.write_spec(ROLES, k=4, **AGAIN, **others)
    document = compared(project, *options, "--refine", "off,fast", "--seeds", "2")
    assert len(document["cells"]) == cells and document["left_out"] == []
    assert_digit_for_digit(project, document)


@pytest.mark.soak("makes a release by every algorithm; tests/reference has their losses")
def test_the_reference_file_is_compared_as_runs_release_it(project: Project) -> None:
    """All algorithms: what would be refused is left out, with what the run would say."""
    columns = CENSUS.read_text().splitlines()[0].split(",")
    types = dict.fromkeys(columns[:4], "int64")
    (project.folder / "census.csv").write_bytes(CENSUS.read_bytes())
    source = {"url": "census.csv", "format": "csv", "csv": {"types": types}}
    roles = {"quasi_identifiers": columns[:4], "confidential": [], "drop": columns[4:]}
    project.write_spec(roles, k=3, input=source, **AGAIN)
    document = compared(project, "--k", "3", "--refine", "off", "--seeds", "1")
    assert len(document["cells"]) >= 8
    assert_digit_for_digit(project, document)
    left_out = "\n".join(document["left_out"])
    for words in ("univariate takes at most", "two_mu_approx needs a k of at most", "name it under --algorithms"):
        assert words in left_out


def test_the_release_draws_what_the_comparison_drew_by_each_seed(project: Project) -> None:
    project.write(people(1500))
    project.write_spec(ROLES, k=3, **AGAIN)
    (off, fast) = compared(project, "--k", "3", "--algorithms", "mdav", "--refine", "off,fast")["cells"]
    assert off["l_sse_of_seeds"] == [] and off["l_sse_spread"] is None
    assert len(fast["l_sse_of_seeds"]) == 2 and fast["l_sse_spread"] > 0
    for seed, loss in enumerate(fast["l_sse_of_seeds"], 1):
        document = project.release("--id", f"s{seed}", "--set", f"seed={seed}", "--set", "algorithm=mdav")
        assert document["losses"]["l_sse"] == loss


@pytest.mark.soak("releases 20,000 people four times")
def test_of_a_large_file_blocks_are_drawn_and_the_errors_hold(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "_PIECE_ROWS", 300)
    project.write(people(20_000))
    project.write_spec(ROLES, k=4, **AGAIN)
    document = compared(project, "--k", "4", *QUICK, "--refine", "off,fast", "--records", "5000")
    for cell in document["cells"]:
        assert not cell["is_whole"] and 2_500 < cell["drawn_records"] <= 5_500 and cell["records"] == 20_000
        losses, risk = released(project, cell)
        assert abs(cell["l_sse"] - losses["l_sse"]) < DEVIATIONS * cell["l_sse_error"] < losses["l_sse"]
        assert cell["expected_correct"] == pytest.approx(risk["linkage"]["expected_correct"], abs=0.02)
        # Blocks of all, and more time than was taken for some of them.
        assert cell["whole_seconds"] > 1.5 * cell["seconds"]
    assert "blocks or pieces of blocks" in document["in_words"][0]


def test_what_the_spec_demands_is_honoured_or_said(project: Project) -> None:
    project.write(people(2_000))
    project.write_spec(ROLES, k=3, protect={"diagnosis": {"distinct": 3, "inference": 0.5}, "linkage": 0.01})
    document = compared(project, "--k", "3", "--algorithms", "mdav", "--refine", "off")
    (cell,) = document["cells"]
    assert cell["certain"]["diagnosis"]["records_certain"] == 0.0
    assert len(cell["broken"]) == 1 and "0.01" in cell["broken"][0]
    assert document["choices"] == {}
    assert any(line.startswith("would be refused: mdav, refine off, at k=3") for line in document["in_words"])
    refused = project.call("run", "release.yaml", "--direct", "-q", "--set", "refine=off")
    assert refused.code == 4
    impossible = {"sex": {"t": 0.01}}
    roles = {**ROLES, "blocking": ["region"], "confidential": ["sex"]}
    project.write_spec({**roles, "drop": [*ROLES["drop"], "education", "diagnosis"]}, k=3, protect=impossible)
    ended = project.call("compare", "release.yaml", "-q", "--k", "3", "--algorithms", "mdav", "--refine", "off")
    ended.assert_refused(3, "nothing of what was asked for suits: protect.sex.t")


def test_everything_is_shown_on_80_columns_and_can_be_pasted_and_kept_in_files(project: Project) -> None:
    project.write(people(300))
    project.write_spec(ROLES, k=4)
    files = ("--table", "table.csv", "--plot", "risk.svg", "--html", "page.html")
    options = ("--algorithms", "mdav_generic,two_mu_approx", "--refine", "off,fast", "--seeds", "2")
    shown = project.call("compare", "release.yaml", "-q", *options, *files)
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert max(map(len, lines)) <= 80 and "\x1b" not in shown.out
    assert lines[0] == "all 300 records, grouped as a release would group them; for you alone"
    for k in (2, 4, 8):
        tables = [i for i, line in enumerate(lines) if line.startswith(f"k={k}") and "what is" in line]
        assert len(tables) == 2
        assert lines[tables[0] + 1].split()[:2] == ["algorithm", "refine"]
    words = " ".join(shown.out.split())
    for said in (
        "the rule: least loss",
        "k=8 (",
        "right records instead of",
        "left out: two_mu_approx, refine off, fast",
    ):
        assert said in words
    start = lines.index("for k=4, as the spec asks, write into it")
    pasted = yaml.safe_load("\n".join(line for line in lines[start + 1 : start + 6] if line.startswith("    ")))
    assert pasted["k"] == 4
    with (project.folder / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # two_mu_approx takes a k of two alone.
    assert [(int(row["k"]), row["refine"]) for row in rows if row["algorithm"] == "mdav_generic"] == [
        (k, refine) for k in (2, 4, 8) for refine in ("off", "fast")
    ]
    assert all(f"{float(row['l_sse']):.5g} %" in shown.out for row in rows) and len(rows) == 8
    assert {"certain of diagnosis", "whole_seconds", "expected_correct"} <= rows[0].keys()
    ElementTree.parse(project.folder / "risk.svg")
    assert {oct((project.folder / name).stat().st_mode & 0o777) for name in files[1::2]} == {"0o600"}
    page = (project.folder / "page.html").read_text()
    assert page.count("<table>") == 6 and "<svg" in page and "for the operator alone" in page
    # Nothing is fetched from anywhere, and nothing is run.
    assert not re.search(r"<script|<link|src=|url\((?!#)|@import", page)
    project.write_spec(ROLES, **pasted)
    assert project.call("plan", "release.yaml", "-q", "--no-expected").code == 0


SURVEYED = ("release.yaml", "--algorithms", "univariate")
WRONG_CALLS = [
    (("release.yaml", "--algorithms", "magic"), 2, "--algorithms: must be among"),
    (("release.yaml", "--refine", "slow"), 2, "--refine: must be among off, fast, thorough (got 'slow')"),
    (("release.yaml", "--k", "1"), 2, "--k: must be at least 2"),
    (("release.yaml", "--records", "10"), 2, "--records: must be at least"),
    (("release.yaml", "--plot", "x.docx"), 2, "--plot: must end in"),
    (("release.yaml", "--seed", "3"), 2, "--seed: release.yaml is a release spec"),
    (("people.parquet", "--seeds", "3"), 2, "--seeds: people.parquet is a file of data"),
    (("nowhere.yaml",), 2, "nowhere.yaml: there is no such file"),
    (SURVEYED, 3, "nothing of what was asked for suits: univariate takes at most"),
    (("release.yaml", "--set", "series={mode: disjoint}", "--set", "unit=person_id"), 2, "--set series=null"),
]


def test_wrong_calls_get_a_sentence(project: Project) -> None:
    project.write(people(1_200))
    roles = {**ROLES, "identifiers": ["person_id"], "drop": [name for name in ROLES["drop"] if name != "person_id"]}
    project.write_spec(roles, k=4)
    for arguments, code, says in WRONG_CALLS:
        project.call("compare", *arguments, "-q").assert_refused(code, says)
        assert files_below(project.work) == [] and not project.output.exists()


def test_a_series_is_compared_as_its_first_night_would_be(project: Project) -> None:
    project.write(people(1_200))
    roles = {**ROLES, "identifiers": ["person_id"], "drop": [name for name in ROLES["drop"] if name != "person_id"]}
    project.write_spec(roles, k=4, unit="person_id", series={"mode": "disjoint"})
    (cell,) = compared(project, "--set", "series=null", "--k", "4", "--algorithms", "mdav", "--refine", "off")["cells"]
    assert cell["is_whole"] and files_below(project.work) == []


@pytest.mark.soak("compares 20,000 people")
def test_interrupted_it_leaves_nothing(project: Project) -> None:
    project.write(people(20_000))
    project.write_spec(ROLES, k=4)
    process = start_command("compare", "release.yaml", "--algorithms", "search", "--k", "4", cwd=project.folder)
    deadline = time.monotonic() + 120
    while not list(project.work.glob("runs/compare-*/runs/*/*/draw-rows/drawn-rows-*")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=90)
    assert process.returncode == 130, err
    assert "interrupted" in err and files_below(project.work) == []


@pytest.mark.soak("starts a cluster")
def test_workers_of_this_machine_find_the_same(project: Project) -> None:
    project.write(people(2_000))
    project.write_spec(ROLES, k=4)
    arguments = (*QUICK, "--k", "4", "--refine", "off,fast", "--seeds", "2")
    alone, together = (
        compared(project, *arguments),
        compared(project, *arguments, "--set", "cluster={local: {workers: 2}}"),
    )
    for one in (*alone["cells"], *together["cells"]):
        for name in ("seconds", "whole_seconds", "pace"):
            del one[name]
    assert alone["cells"] == together["cells"]
    assert files_below(project.work) == []


def test_a_name_tells_a_spec_from_data(tmp_path: Path) -> None:
    from microagg_flows.command.commands.studies import is_spec

    (tmp_path / "night").write_text("name: x\nroles: {quasi_identifiers: [a]}\n")
    (tmp_path / "data").write_text("roles,input\n1,2\n")
    assert [is_spec(str(tmp_path / name)) for name in ("night", "data", "none")] == [True, False, False]
    assert is_spec("s3://specs/release.yml") and not is_spec("s3://data/part") and not is_spec("roles: x*.csv")


def test_the_rule_is_kept(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Least loss of what is quick; of what the figures cannot tell apart the cheapest."""
    project.write(people(2_000))
    project.write_spec(ROLES, k=4)
    arguments = ("--k", "4", "--algorithms", "mdav,v_mdav,md", "--refine", "off")
    cells = compared(project, *arguments)["cells"]
    least = min(cells, key=lambda cell: (cell["l_sse"], cell["algorithm"]))
    assert compared(project, *arguments)["choices"]["4"]["spec"]["algorithm"] == least["algorithm"]
    monkeypatch.setattr(choice, "_error", lambda one, other: 1e9)
    cheapest = compared(project, *arguments)
    chosen = cheapest["choices"]["4"]["spec"]["algorithm"]
    fast = min(cell["whole_seconds"] for cell in cheapest["cells"])
    assert next(c for c in cheapest["cells"] if c["algorithm"] == chosen)["whole_seconds"] <= 1.25 * fast
