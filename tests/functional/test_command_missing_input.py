"""An input that is not there yet: an exit code of its own, by which a schedule knows that it can wait."""

from __future__ import annotations

import json
from pathlib import Path

from functional.command_line import call_command
from microagg_core.errors import InputMissingError, TransientStorageError, of_code, of_kind
from microagg_core.software import software
from microagg_core.spec.loading import load_spec
from microagg_flows.clusters.handshake import _unfit
from microagg_flows.prefect_side.flow import failure_of

SPEC = """\
name: companies
id: {id}
k: 2
input: {{url: {url}, format: csv, csv: {{types: {{x: float64}}}}}}
output: {{url: release, format: csv}}
work: {{url: work}}
roles: {{quasi_identifiers: [x], blocking: [place]}}
"""


COMMANDS = (
    ("run", "s.yaml", "--direct"),
    ("plan", "s.yaml"),
    ("doctor", "s.yaml"),
    ("step", "report", "s.yaml"),
    ("compare", "s.yaml"),
    ("backfill", "d.yaml", "--from", "2026-11-01", "--to", "2026-11-02", "--direct"),
    ("init", "in/*.csv"),
    ("compare", "in/*.csv"),
    ("init", "nowhere.csv"),
)


def test_a_missing_input_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SPEC.format(id="one", url="in/*.csv"))
    (tmp_path / "d.yaml").write_text(SPEC.format(id="date", url="in/*.csv"))
    for command in COMMANDS:
        ended = call_command(*command, cwd=tmp_path)
        assert ended.code == 7, (command, ended)
        assert "csv: no file matches" in ended.out + ended.err
    assert not (tmp_path / "release").exists() and not (tmp_path / "release.yaml").exists()


def test_the_outcome_and_a_state_of_prefect_keep_its_kind(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SPEC.format(id="one", url="in/*.csv"))
    ended = call_command("run", "s.yaml", "--direct", "-q", "--results", "r.json", cwd=tmp_path)
    results = json.loads((tmp_path / "r.json").read_text())
    assert (ended.code, results["exit_code"], results["kind"], results["outcome"]) == (7, 7, "missing", "failed")
    assert type(failure_of(f"exit 7 (missing): {results['sentence']}")) is InputMissingError
    assert type(of_code(7, "a")) is type(of_kind("missing", "a")) is InputMissingError
    for error in (TransientStorageError("a"), of_code(5, "a")):
        assert error is not None and (of_kind(error.kind, "a").exit_code, type(error).exit_code) == (5, 5)


def test_an_input_that_only_a_worker_lacks_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SPEC.format(id="one", url="in/*.csv"))
    spec = load_spec(str(tmp_path / "s.yaml"))
    answer = {"software": software(), "access": ("missing", "in: no file matches"), "kernels": None}
    assert getattr(_unfit(answer, spec), "exit_code", None) == 7
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("x,place\n1,a\n")
    assert getattr(_unfit(answer, spec), "exit_code", None) == 5
