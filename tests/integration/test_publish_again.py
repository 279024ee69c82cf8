"""A release that is there already: recognised, mended, or refused for what it was made from; and runs that end late."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from inputs.people import people
from microagg_core.errors import InterruptionError, StorageError, TransientStorageError
from microagg_core.releases.verify import verify
from microagg_core.reporting.release_report import release_document, summary_rows
from microagg_core.software import software
from microagg_core.storage.objects import Store, sha256_hex
from microagg_flows.executors import InProcess
from microagg_flows.outcome import telling_if_published
from microagg_flows.progress import Silence
from microagg_flows.release import Release
from microagg_flows.stages import STAGES, Stage, run_stage, run_until
from releasing.runs import run_stages, start, write_release
from trouble.meddled import Meddled

OTHER_SOFTWARE = {**software(), "numpy": "1.0.0", "sources": "0123456789abcdef"}


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """The spec of a release that is published."""
    path = write_release(tmp_path, [people(400)])
    run_stages(start(path))
    return path


def parts(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "output").rglob("*.parquet"))


class Watched(InProcess):
    """Workers that note what they are asked for."""

    def __init__(self) -> None:
        super().__init__(Silence())
        self.asked: list[str] = []

    def map(self, function: Any, items: Any, what: str) -> list[Any]:
        self.asked.append(what)
        return super().map(function, items, what)


def run_again(path: Path, **how: Any) -> tuple[Release, list[str]]:
    release = start(path, **how)
    release.workers = workers = Watched()
    run_stages(release)
    return release, workers.asked


def other_software(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package had been changed and its libraries too."""
    for user in ("audit", "publishing"):
        monkeypatch.setattr(f"microagg_core.steps.{user}.software", lambda: OTHER_SOFTWARE)


# --- recognised and mended -------------------------------------------------------------------------------------


def test_unchanged_files_are_recognised_without_reading_a_row(released: Path) -> None:
    again, asked = run_again(released)
    assert again.published is not None and again.published.already
    assert asked == ["look"]
    assert again.outcomes[0].says == "400 records; this release is published already"


def test_the_same_rows_in_other_files_are_recognised_by_the_survey(released: Path, tmp_path: Path) -> None:
    pq.write_table(people(400), tmp_path / "input" / "part-0.parquet", row_group_size=17)
    again, asked = run_again(released)
    assert again.published is not None and again.published.already
    assert "survey" in asked and "anonymize" not in asked


@pytest.mark.parametrize("damage", ["missing", "cut short", "changed"])
def test_what_is_missing_or_damaged_is_made_again(damage: str, released: Path, tmp_path: Path) -> None:
    (part,) = parts(tmp_path)
    whole = part.read_bytes()
    part.unlink()
    if damage != "missing":
        part.write_bytes(whole[:-1] if damage == "cut short" else whole[:99] + b"x" + whole[100:])
    assert not verify(str(tmp_path / "output")).passed
    again, asked = run_again(released)
    assert again.published is not None and again.published.already
    assert "anonymize" in asked
    assert parts(tmp_path) == [part] and part.read_bytes() == whole
    assert verify(str(tmp_path / "output")).passed


def test_leftovers_and_latest_are_put_right_by_a_run_that_makes_nothing(released: Path, tmp_path: Path) -> None:
    (part,) = parts(tmp_path)
    part.with_name("part-00000-0000000000000000-000000000000.parquet").write_bytes(b"an upload that came late")
    (tmp_path / "output" / "latest.json").unlink()
    run_again(released)
    assert parts(tmp_path) == [part]
    assert verify(str(tmp_path / "output")).passed


# --- refused, and why ------------------------------------------------------------------------------------------


def test_other_data_is_named(released: Path, tmp_path: Path) -> None:
    write_release(tmp_path, [people(390)])
    with pytest.raises(
        StorageError, match=r"was made from other data \(spec and software are the same\); use --replace"
    ):
        run_again(released)


def test_another_spec_is_named_before_a_row_is_read(released: Path, tmp_path: Path) -> None:
    write_release(tmp_path, [people(400)], k=4)
    release = start(released)
    release.workers = workers = Watched()
    with pytest.raises(StorageError, match=r"was made from another spec \(software is the same\); use --replace"):
        run_stages(release)
    assert workers.asked == []


def test_other_software_is_named_with_what_changed(released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other_software(monkeypatch)
    sentence = r"was made from other software \(numpy, sources\) \(data and spec are the same\); use --replace"
    with pytest.raises(StorageError, match=sentence):
        run_again(released)
    again, _ = run_again(released, replace=True)
    assert again.published is not None and again.published.already  # the bytes are the same


def test_work_done_by_other_software_is_not_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_release(tmp_path, [people(400)])
    with monkeypatch.context() as patch:
        other_software(patch)
        run_until("anonymize", start(path))
    release, asked = run_again(path)
    assert "anonymize" in asked and release.published is not None
    assert release.published.manifest.software == software()
    assert len({folder.name for folder in (tmp_path / "work" / "runs").iterdir()} | {release.key}) == 2


@pytest.mark.parametrize("digests", [b'{"format_version": 1, "digest": "ab"}', b"{", b"[]", b'{"spec": 1}'])
def test_an_audit_that_does_not_say_leaves_it_to_the_bytes(digests: bytes, released: Path, tmp_path: Path) -> None:
    (audit,) = (tmp_path / "work" / "audit").rglob("digests.json")
    audit.write_bytes(digests)
    again, asked = run_again(released)
    assert again.published is not None and again.published.already and "anonymize" in asked
    assert json.loads(audit.read_bytes())["format_version"] == 2
    assert run_again(released)[1] == ["look"]


# --- what may be published -------------------------------------------------------------------------------------


def test_only_what_the_gate_read_is_published_whatever_the_work_area_says_later(tmp_path: Path) -> None:
    release = start(write_release(tmp_path, [people(400)]))
    run_stages(release, "survey", "plan", "scatter", "anonymize", "validate", "measure")
    run = tmp_path / "work" / release.layout.folder
    candidate, notes = run / "candidate" / "part-00000.parquet", run / "checks" / "part-00000.json"
    forged = candidate.read_bytes()[:-1] + b"x"
    candidate.write_bytes(forged)
    notes.write_text(json.dumps({**json.loads(notes.read_text()), "sha256": sha256_hex(forged), "bytes": len(forged)}))
    with pytest.raises(StorageError, match="is not what was written; run again"):
        run_stages(release, "publish")
    assert list((tmp_path / "output").iterdir()) == []


# --- published, and something fails afterwards -----------------------------------------------------------------


def until_publish(path: Path) -> Release:
    return run_stages(start(path), "survey", "plan", "scatter", "anonymize", "validate", "measure")


def test_an_interrupt_after_the_commit_says_that_it_is_published(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    path = write_release(tmp_path, [people(400)])
    release = until_publish(path)
    release.output = Meddled(release.output.url, after_create=interrupt)
    sentence = r"interrupted, but release 2026-11-18 is published in .*/r0001; run the same command again"
    with pytest.raises(InterruptionError, match=sentence) as told, telling_if_published() as outcome:
        outcome.release = release
        run_stages(release, "publish", "report")
    assert told.value.exit_code == 130
    assert verify(str(tmp_path / "output" / "2026-11-18")).passed
    assert run_again(path)[0].published is not None
    assert verify(str(tmp_path / "output")).passed


def test_an_interrupt_before_the_commit_is_left_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), telling_if_published() as outcome:
        outcome.release = start(write_release(tmp_path, [people(400)]))
        raise KeyboardInterrupt


def test_a_latest_that_cannot_be_written_is_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = until_publish(write_release(tmp_path, [people(400)]))

    def busy(output: Store) -> None:
        raise TransientStorageError("the store is busy")

    with monkeypatch.context() as patch:
        patch.setattr("microagg_core.releases.publish.update_latest", busy)
        sentence = r"is published in .* \(latest.json was not brought up to date"
        with pytest.raises(TransientStorageError, match=sentence), telling_if_published() as outcome:
            outcome.release = release
            run_stages(release, "publish")
    run_stages(release, "publish", "report")  # the same run tries again, and does not take its own for a rival's
    assert release.published is not None and not release.published.already
    assert run_again(tmp_path / "release.yaml")[1] == ["look"]


def test_an_audit_that_cannot_be_written_is_written_when_the_stage_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = until_publish(write_release(tmp_path, [people(400)]))

    def full(*_: Any, **__: Any) -> None:
        raise StorageError("no space is left")

    publish = next(stage for stage in STAGES if stage.name == "publish")
    with monkeypatch.context() as patch:
        patch.setattr("microagg_flows.stages.write_audit", full)
        with pytest.raises(StorageError, match="no space is left"):
            run_stage(publish, release)
    assert run_stage(publish, release) is not None
    assert list((tmp_path / "work" / "audit").rglob("digests.json"))


def test_what_cannot_be_cleared_is_a_note_and_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = until_publish(write_release(tmp_path, [people(400)]))

    def refuse(self: Store, prefix: str) -> None:
        raise StorageError("access was denied")

    monkeypatch.setattr(Store, "delete_all", refuse)
    run_stages(release, "publish", "report")
    assert release.published is not None
    document = release_document(release.published, [])
    assert document["status"] == "released"
    (note,) = document["warnings"]
    assert "staged rows are left in the work area: access was denied" in note
    assert ("note", note) in summary_rows(document)


def test_a_stage_whose_store_does_not_answer_does_not_ask_it_for_another_runs_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = start(write_release(tmp_path, [people(100)]))
    run_stages(release, "survey")
    monkeypatch.setattr(Store, "folders", lambda *_: pytest.fail("the output was asked"))

    def no_answer(_: Release) -> str:
        raise TransientStorageError("the store did not answer")

    with pytest.raises(TransientStorageError, match="did not answer"):
        run_stage(Stage("plan", no_answer), release)
