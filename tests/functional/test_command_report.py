"""``microagg report`` and the page that a run leaves: where it is, who may read it, what is not on it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from command_line import Project

from inputs.operator_pages import inputs
from microagg_core.pages.operator.page import operator_page

RUN = ("run", "release.yaml", "--direct")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("MICROAGG_REPORT", "on")
    made = Project(tmp_path, "none")
    n = 200
    made.write(pa.table({"x": [float(i * i % 97) for i in range(n)], "y": [float(i % 13) for i in range(n)],
                         "note": ["a" if i % 3 else "b" for i in range(n)]}))  # fmt: skip
    made.write_spec({"quasi_identifiers": ["x", "y"], "confidential": ["note"]}, k=5)
    return made


def page_of(project: Project) -> Path:
    return project.work / "audit" / "one" / "r0001" / "report.html"


def test_a_run_says_where_its_page_is(project: Project) -> None:
    ended = project.call(*RUN, "--results", "told.json")
    assert ended.code == 0, ended.err
    page = page_of(project)
    (line,) = [line for line in ended.out.splitlines() if line.startswith("operator report")]
    assert line.split()[-1] == str(page)
    assert json.loads((project.folder / "told.json").read_text())["report"] == str(page)
    assert page.stat().st_mode & 0o777 == 0o600
    text = page.read_text().replace("\u00a0", " ")
    assert "Published with k = 5" in text and "k = 10 would lose" in text and "right record for" in text
    # The same from the audit alone.
    before = page.read_bytes()
    page.unlink()
    again = project.call("report", "release.yaml", "-q", "--output", "mine.html")
    assert (again.code, again.out) == (0, "mine.html\n"), again.err
    assert page.read_bytes() == before == (project.folder / "mine.html").read_bytes()
    assert (project.folder / "mine.html").stat().st_mode & 0o777 == 0o600


def test_what_the_audit_lacks_is_measured_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROAGG_REPORT", "off")
    document = project.release()
    assert document["report"] is None and not page_of(project).exists()
    for name in ("risk.json", "portrait.json"):
        (page_of(project).parent / name).unlink()
    ended = project.call("report", "release.yaml", "-q")
    assert (ended.code, ended.out) == (0, f"{page_of(project)}\n"), ended.err
    text = page_of(project).read_text().replace("\u00a0", " ")
    assert "k = 10 would lose" in text and "Not measured" not in text
    assert {path.name for path in project.work.iterdir()} <= {"audit", "series", "runs"}
    assert not [path for path in (project.work / "runs").rglob("*") if path.is_file()]


def test_a_draft_publishes_nothing(project: Project) -> None:
    ended = project.call("report", "release.yaml", "--draft", "-q", "--output", "draft.html")
    assert ended.code == 0, ended.err
    project.assert_nothing_published()
    assert "Draft, not published" in (project.folder / "draft.html").read_text()
    assert not page_of(project).exists()


def test_calls_without_a_page_get_a_sentence(project: Project) -> None:
    project.call("report", "release.yaml").assert_refused(5, "there is no release")
    draft = ("report", "release.yaml", "--draft")
    project.call(*draft).assert_refused(2, "name a file with --output")
    project.call(*draft, "--output", "x.html", "--release", "release").assert_refused(2, "leave one of them out")
    project.call("report", "release.yaml", "--id", "two").assert_refused(2, "--id: is for --draft")


def test_trouble_with_the_page_stops_no_release(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("918273645546")

    monkeypatch.setattr("microagg_flows.pages.put_page", broken)
    document = project.call(*RUN, "--json", "-q").document()
    assert document["status"] == "released" and document["report"] is None
    (warning,) = [one for one in document["warnings"] if "page" in one]
    assert "was not written" in warning and "918273645546" not in warning


@pytest.mark.server
def test_a_browser_likes_it(tmp_path: Path) -> None:
    """The smoke of report_pages.py: a phone and a laptop, on a page with everything and one with nothing."""
    if shutil.which("chromium") is None:
        pytest.skip("the system has no Chromium")
    from prefect_pages import browser
    from report_pages import look_at, print_page

    page = tmp_path / "report.html"
    page.write_bytes(operator_page(inputs()))
    with TemporaryDirectory() as own, browser(Path(own)) as chromium:
        for width in (360, 1440):
            assert look_at(chromium, page, width).troubles == []
        print_page(chromium, page, tmp_path / "report.pdf")
        page.write_text("<h1>x</h1><p style='width: 9999px'>wide</p><script src='https://example.org/x.js'></script>")
        troubles = " ".join(look_at(chromium, page, 360).troubles)
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert "is wider" in troubles and "has a script" in troubles and "asks for https://example.org" in troubles
