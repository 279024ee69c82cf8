"""``microagg series``: what an operator sees of a ledger, and the exit codes that programs read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from command_line import Project, call_command, run_command

from microagg_core.series.ledger import Ledger, ledger_of
from microagg_core.spec.loading import load_spec
from microagg_core.store.layout import LedgerLayout
from releasing.nights import make_night, units

ROLES = {"identifiers": ["person"], "quasi_identifiers": ["age"]}


@pytest.fixture
def with_spec(tmp_path: Path) -> Project:
    """A folder with a spec, whose ledger lies where it does by default."""
    project = Project(tmp_path, "none")
    project.write(pa.table({"person": ["a"], "age": [1]}))
    project.write_spec(ROLES, unit="person")
    return project


@pytest.fixture
def ledger(with_spec: Project) -> Ledger:
    ledger = ledger_of(load_spec(str(with_spec.folder / "release.yaml")))
    for night in range(2):
        make_night(ledger, units(60, night=night, seed=night, n_held=6), n_ranges=2)
        ledger.note_published(night)
    return ledger


def test_before_the_first_night(with_spec: Project) -> None:
    for command in ("status", "verify"):
        ended = with_spec.call("series", command, "release.yaml")
        assert ended.code == 0 and "the series people has no night yet" in ended.out
    assert with_spec.call("series", "status", "release.yaml", "--json").out.strip() == "null"
    document = with_spec.call("series", "verify", "release.yaml", "--json").document()
    assert document == {"series": "people", "checks": [], "passed": True}
    assert not with_spec.work.exists(), "who only looks makes nothing"


def test_status(with_spec: Project, ledger: Ledger) -> None:
    shown = with_spec.command("series", "status", "release.yaml")
    assert shown.code == 0 and shown.err == ""
    assert "54 live, 0 gone, 6 held, 0 forgotten" in shown.out and "day-1 r0001 of 2026-11-18 (night)" in shown.out
    document = with_spec.call("series", "status", "release.yaml", "--json").document()
    assert (document["nights"], document["live"], document["held"], document["smallest_trace"]) == (2, 54, 6, 3)
    assert (
        Path(document["url"]) == with_spec.work / "series" / "people"
        and document["key_fingerprint"] == "0123456789abcdef"
    )


def test_verify_of_a_sound_ledger(with_spec: Project, ledger: Ledger) -> None:
    ended = with_spec.call("series", "verify", "release.yaml")
    assert ended.code == 0 and ended.out.count("ok  ") == 11 and "FAIL" not in ended.out
    document = with_spec.call("series", "verify", "release.yaml", "--json").document()
    assert document["passed"] and len(document["checks"]) == 11


def test_verify_tells_damage_from_a_broken_promise(with_spec: Project, ledger: Ledger) -> None:
    make_night(ledger, units(60, night=2), n_ranges=2, smallest_trace=5)
    promise = with_spec.call("series", "verify", "release.yaml")
    assert promise.code == 4 and "FAIL traces: the document says 5, the ranges say 3" in promise.out
    head = ledger.head()
    assert head is not None
    ledger.store.put(head.ranges[1][0].name, b"x")
    damage = with_spec.command("series", "verify", "release.yaml", "--json")
    assert damage.code == 5 and damage.document()["passed"] is False
    ledger.store.delete(LedgerLayout(1).generation())
    broken = with_spec.call("series", "verify", "release.yaml", "--json")
    assert broken.code == 5 and [check["name"] for check in broken.document()["checks"]] == ["chain"]
    with_spec.command("series", "status", "release.yaml").assert_refused(5, "00001.json is missing")


def test_help_and_wrong_calls(with_spec: Project) -> None:
    assert "status" in run_command("series", "--help").out
    assert call_command("series", "forgot", "release.yaml", cwd=with_spec.folder).code == 2
    with_spec.command("series", "status", "nowhere.yaml").assert_refused(2, "nowhere.yaml: there is no such file")
