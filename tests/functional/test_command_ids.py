"""Nights whose ids come in another form: the same people, found again, forgotten, and never released in two groups."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command_line import Project

from covering import share
from microagg_core.series.digests import units_of
from microagg_core.store.layout import LedgerLayout
from releasing.small_series import ROLES, people

N = 60
SERIES: dict[str, Any] = {"mode": "atoms", "key_file": "key"}
#: How the ids of night 0 and those of night 1 are made of numbers.
FORMS: dict[str, tuple[Callable[[int], Any], Callable[[int], Any]]] = {
    "float64 from 10^10 on": (lambda i: 10**10 + i, lambda i: float(10**10 + i)),
    "text of a number": (lambda i: 10**10 + i, lambda i: f"{10**10 + i}.0"),
    "case": (lambda i: f"P{i}", lambda i: f"p{i}"),
    "space": (lambda i: f"P{i}", lambda i: f"P{i} "),
    "leading zero": (lambda i: f"{i}", lambda i: f"0{i}"),
    "characters that nobody sees": (lambda i: f"P{i}", lambda i: f"P\u200b{i}\ufe0f\x00"),
    "bytes": (lambda i: f"P{i}", lambda i: f"P{i}".encode()),
}


def night(project: Project, ids: range, form: Callable[[int], Any], number: int) -> dict[str, Any]:
    """Release these people, whose ids have a form."""
    write(project, ids, form)
    return project.release("--id", f"night-{number}")


def write(project: Project, ids: range, form: Callable[[int], Any]) -> None:
    project.write(people(ids).set_column(0, "id", pa.array([form(i) for i in ids])))


def a_series(folder: Path, **changes: Any) -> Project:
    project = Project(folder, "none")
    (folder / "key").write_text("a key of the series for tests")
    (folder / "key").chmod(0o600)
    spec = {"unit": "id", "refine": "off", "series": SERIES, "blocks": {"undersized": "merge"}, **changes}
    project.write_spec(ROLES, **{"acknowledge": {"nearly_unique": ["tag"]}, **spec})
    return project


def groups(project: Project) -> dict[str, tuple[float, ...]]:
    rows = project.released().to_pandas()
    return {row.tag: (row.x, row.y, row.town) for row in rows.itertuples()}


@pytest.mark.parametrize("name", share(FORMS, 2))
def test_the_same_people_under_ids_of_another_form(name: str, tmp_path: Path) -> None:
    before, after = FORMS[name]
    project = a_series(tmp_path)
    night(project, range(N), before, 0)
    first = groups(project)
    night(project, range(N + 9), after, 1)
    second = groups(project)
    assert len(first) == N and {tag: second.get(tag) for tag in first} == first, "survivors stay in their groups"
    status = project.call("series", "status", "release.yaml", "--json").document()
    assert (status["live"], status["smallest_trace"]) == (N + 9, 3)
    assert project.call("series", "verify", "release.yaml").code == 0
    # Night 0 knew the person whom the file lists by an id of the other form.
    pa.parquet.write_table(pa.table({"id": pa.array([after(3)])}), tmp_path / "units.parquet")
    ended = project.call("forget", "release.yaml", "--units", "units.parquet", "--yes", "--json")
    assert ended.code == 0 and ended.document()["forgotten"] == 1
    assert "tag3" not in groups(project) and "tag5" in second


def test_a_ledger_from_before_the_form_goes_on_by_text(tmp_path: Path) -> None:
    """Everybody of it is found, as ids come as they did; and a run refuses to tell them apart by spelling later."""
    project = a_series(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("microagg_core.series.match.units_of", lambda ids, key, _: units_of(ids, key, "text"))
        night(project, range(N), lambda i: f"P{i}", 0)
    document = project.work / "series" / "people" / LedgerLayout(0).generation()
    content = json.loads(document.read_text())
    assert content["frozen"].pop("unit_form") == "normal"
    document.write_text(json.dumps(content))
    first = groups(project)
    night(project, range(N), lambda i: f"P{i}", 1)
    assert groups(project) == first
    assert project.call("series", "status", "release.yaml", "--json").document()["live"] == N


def test_spelling_that_tells_people_apart(tmp_path: Path) -> None:
    """It is said before the first night, or never."""
    meant = {"acknowledge": {"nearly_unique": ["tag"], "spelling_of_units": ["id"]}}
    project = a_series(tmp_path, **meant)
    night(project, range(N), lambda i: f"p{i // 2}" if i % 2 else f"P{i // 2}", 0)
    assert len(groups(project)) == N
    (tmp_path / "late").mkdir()
    late = a_series(tmp_path / "late")
    night(late, range(N), lambda i: f"P{i}", 0)
    late.write_spec(ROLES, **{**{k: late.spec[k] for k in ("unit", "refine", "series", "blocks")}, **meant})
    ended = late.call("run", "release.yaml", "--direct", "-q", "--id", "night-1")
    ended.assert_refused(2, "acknowledge.spelling_of_units: was not there when 'people' began")


#: How a spec may go on after a night whose ids nobody can take for those of the night before.
OTHERS: dict[str, dict[str, Any]] = {
    "atoms": {},
    "disjoint": {"series": {"mode": "disjoint", "key_file": "key"}},
    "independent": {"series": {"mode": "independent", "key_file": "key", "acknowledge": "overlapping_releases"}},
    "no series": {"series": None},
}


@pytest.mark.parametrize("name", share(OTHERS, 2))
def test_the_same_people_under_other_ids(name: str, tmp_path: Path) -> None:
    project = a_series(tmp_path, **OTHERS[name])
    night(project, range(N), lambda i: f"P{i}", 0)
    write(project, range(10, N + 30), lambda i: f"Q{7 * i}")
    ended = project.call("run", "release.yaml", "--direct", "-q", "--id", "night-1")
    ended.assert_refused(4, f"{N - 10} of {N + 20} arrivals have just the confidential values of one of {N} units")
    ended.assert_refused(4, "list id under acknowledge.equal_arrivals")
    assert sorted(path.name for path in project.output.glob("night-*")) == ["night-0"]
    meant = {**project.spec["acknowledge"], "equal_arrivals": ["id"]}
    project.write_spec(**{**project.spec, "acknowledge": meant})
    assert night(project, range(10, N + 30), lambda i: f"Q{7 * i}", 1)["records"] == N + 20


def test_other_people_with_values_that_many_have_are_no_reason(tmp_path: Path) -> None:
    project = a_series(tmp_path, acknowledge={})
    for number, ids in enumerate((range(N), range(30, N + 30))):
        tag = pa.array([f"tag{i % 7}" for i in ids])
        project.write(people(ids).set_column(4, "tag", tag))
        assert project.release("--id", f"night-{number}")["id"] == f"night-{number}"
