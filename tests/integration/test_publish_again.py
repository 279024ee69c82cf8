"""A release that is there already: recognised, mended, or refused for what it was made from; and runs that end late."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from inputs.people import people
from microagg_core.errors import GateError, InterruptionError, SpecError, StorageError, TransientStorageError
from microagg_core.pages.release_report import release_document, summary_rows
from microagg_core.release.pieces import sealed, unsealed
from microagg_core.release.revisions import read_manifest
from microagg_core.release.step import runs_in
from microagg_core.release.verify import verify
from microagg_core.software import software
from microagg_core.store.layout import ReleaseLayout
from microagg_core.store.objects import Store, sha256_hex
from microagg_flows.executors import InProcess
from microagg_flows.progress import Silence
from microagg_flows.record import RunRecord
from microagg_flows.release import Release
from microagg_flows.stages import STAGES, Stage, run_stage, run_until
from releasing.runs import AGAIN, ROLES, data_digests, run_stages, start, write_release, write_series
from trouble.meddled import Meddled

OTHER_SOFTWARE = {**software(), "numpy": "1.0.0", "sources": "0123456789abcdef"}


@pytest.fixture
def released(tmp_path: Path) -> Path:
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


def assert_already(run: tuple[Release, list[str]], *asked: str) -> None:
    """Find the release published already, and that workers were asked for these steps, among others."""
    release, steps = run
    assert release.published is not None and release.published.already
    assert set(asked) <= set(steps)


def run_again(path: Path, **how: Any) -> tuple[Release, list[str]]:
    release = start(path, **how)
    release.workers = workers = Watched()
    run_stages(release)
    return release, workers.asked


def other_software(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package had been changed and its libraries too."""
    for user in ("audit", "facts"):
        monkeypatch.setattr(f"microagg_core.release.{user}.software", lambda: OTHER_SOFTWARE)


def test_unchanged_files_are_recognised_without_reading_a_row(released: Path, tmp_path: Path) -> None:
    """Leftovers and latest.json are put right all the same; other files with the same rows need the survey."""
    (part,) = parts(tmp_path)
    part.with_name("part-00000-0000000000000000-000000000000.parquet").write_bytes(b"an upload that came late")
    (tmp_path / "output" / "latest.json").unlink()
    again, asked = run_again(released)
    assert_already((again, asked))
    assert asked == ["look"]
    assert again.outcomes[0].says == "400 records; this release is published already"
    assert parts(tmp_path) == [part]
    assert verify(str(tmp_path / "output")).passed
    pq.write_table(people(400), tmp_path / "input" / "part-0.parquet", row_group_size=17)
    again, asked = run_again(released)
    assert_already((again, asked), "survey")
    assert "anonymize" not in asked


def test_what_is_missing_or_damaged_is_made_again(released: Path, tmp_path: Path) -> None:
    (part,) = parts(tmp_path)
    whole = part.read_bytes()
    for left in (None, whole[:-1], whole[:99] + b"x" + whole[100:]):
        part.unlink()
        if left is not None:
            part.write_bytes(left)
        assert not verify(str(tmp_path / "output")).passed
        assert_already(run_again(released), "anonymize")
        assert parts(tmp_path) == [part] and part.read_bytes() == whole
        assert verify(str(tmp_path / "output")).passed


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


def test_other_software_is_named_with_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = write_release(tmp_path, [people(400)], **AGAIN)
    run_stages(start(released))
    other_software(monkeypatch)
    sentence = r"was made from other software \(numpy, sources\) \(data and spec are the same\); use --replace"
    with pytest.raises(StorageError, match=sentence):
        run_again(released)
    assert_already(run_again(released, replace=True))  # the bytes are the same


def test_work_done_by_other_software_is_not_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_release(tmp_path, [people(400)])
    with monkeypatch.context() as patch:
        other_software(patch)
        run_until("anonymize", start(path))
    release, asked = run_again(path)
    assert "anonymize" in asked and release.published is not None
    assert release.published.manifest.software == software()
    assert len({run.key for run in runs_in(release.work)} | {release.key}) == 2


def test_an_audit_that_does_not_say_leaves_it_to_the_bytes(released: Path, tmp_path: Path) -> None:
    (audit,) = (tmp_path / "work" / "audit").rglob("digests.json")
    for digests in (b'{"format_version": 1, "digest": "ab"}', b"{", b"[]"):
        audit.write_bytes(digests)
        assert_already(run_again(released), "anonymize")
        assert json.loads(audit.read_bytes())["format_version"] == 2
    assert run_again(released)[1] == ["look"]


# --- a second release of the same people -------------------------------------------------------------------------

ADVICE = r"write series: \{mode: atoms\} .* or series: \{mode: independent, acknowledge: overlapping_releases\}"
UNITS: dict[str, Any] = {"unit": ["id"]}


@pytest.mark.parametrize(
    ("spec", "how", "sentence"),
    [
        ({}, {"identity": "another"},
         r"release 2026-11-18 of 'test' was made before, and as no stable unit is named \(unit: row\).*"),
        (UNITS, {"replace": True}, r"390 of 390 units were released before in the series 'test'.*"),
    ],
)  # fmt: skip
def test_a_second_release_is_refused(spec: dict[str, Any], sentence: str, how: dict[str, Any], tmp_path: Path) -> None:
    run_stages(start(write_release(tmp_path, [people(400)], **spec)))
    before = data_digests(tmp_path / "output")
    write_release(tmp_path, [people(400).slice(10)], **spec)
    with pytest.raises(GateError, match=sentence + ADVICE) as refused:
        run_again(tmp_path / "release.yaml", **how)
    assert refused.value.exit_code == 4
    assert data_digests(tmp_path / "output") == before
    write_release(tmp_path, [people(400).slice(10)], **spec, **AGAIN)
    again, _ = run_again(tmp_path / "release.yaml", **how)
    assert again.published is not None and not again.published.already
    entry = again.published.manifest.series
    assert entry is not None and (entry.mode, entry.night) == ("independent", 1)
    assert (entry.smallest_trace is None) == (not spec) and entry.smallest_trace in (None, 1, 2, 3)


def test_other_people_are_released_without_a_word(tmp_path: Path) -> None:
    run_stages(start(write_release(tmp_path, [people(400).slice(0, 200)], **UNITS)))
    write_release(tmp_path, [people(400).slice(200)], **UNITS)
    again, _ = run_again(tmp_path / "release.yaml", identity="others")
    assert again.published is not None and again.published.manifest.series is None


@pytest.mark.parametrize(("first", "then"), [("row", ["id"]), (["id"], "row"), (["id"], ["id", "note"])])
def test_units_under_other_names_are_refused(first: Any, then: Any, tmp_path: Path) -> None:
    """Nobody can know then whether they are the same people, not even where no name is met again."""
    roles = {**ROLES, "identifiers": ["id", "note"], "confidential": ["amount"]}
    run_stages(start(write_release(tmp_path, [people(400)], unit=first)))
    more = {"roles": roles, "acknowledge": {"part_of_unit": ["note"]}} if "note" in then else {}
    write_release(tmp_path, [people(400).slice(10)], unit=then, **more)
    with pytest.raises(GateError, match="nobody can know whether it holds the same people.*" + ADVICE):
        run_again(tmp_path / "release.yaml", identity="another")


@pytest.mark.parametrize(("lost", "spec"), [("audit", {}), ("work area", UNITS)])
def test_a_release_whose_memory_is_lost(lost: str, spec: dict[str, Any], tmp_path: Path) -> None:
    """The ledger alone tells the very same run; where it is lost too, nobody knows who is in what is there."""
    path = write_release(tmp_path, [people(400)], **spec)
    run_stages(start(path))
    before = data_digests(tmp_path / "output")
    shutil.rmtree(tmp_path / "work" / "audit")
    if lost == "audit":
        assert_already(run_again(path), "anonymize")
    else:
        shutil.rmtree(tmp_path / "work")
        with pytest.raises(GateError, match="holds releases that the ledger of 'test' knows nothing of.*" + ADVICE):
            run_again(path)
        assert not list((tmp_path / "work").glob("series/*/generations/*"))
        assert_already(run_again(write_release(tmp_path, [people(400)], **spec, **AGAIN)))  # recognised by its bytes
    assert data_digests(tmp_path / "output") == before


def test_two_series_in_one_output_are_refused(released: Path, tmp_path: Path) -> None:
    write_release(tmp_path, [people(400)], name="other")
    with pytest.raises(GateError, match="holds releases that the ledger of 'other' knows nothing of"):
        run_again(released, identity="another")


@pytest.mark.parametrize("mode", ["atoms", "disjoint"])
def test_a_first_release_without_a_series_becomes_its_first_night(mode: str, tmp_path: Path) -> None:
    """Under the key that was drawn for it, which the spec may name later."""
    run_again(write_release(tmp_path, [people(300)], **UNITS), identity="first")
    first = read_manifest(Store(str(tmp_path / "output")), ReleaseLayout("first", "r0001"))
    path = write_release(tmp_path, [people(400)], **UNITS, series={"mode": mode, "key_file": "work/series/test/key"})
    again, _ = run_again(path, identity="second")
    assert again.published is not None and again.published.manifest.series is not None
    assert (first.series, again.published.manifest.series.night) == (None, 1)
    assert again.published.manifest.rows <= (400 if mode == "atoms" else 100)
    with pytest.raises(SpecError, match="begun with another key"):
        run_again(write_series(tmp_path, [people(400)]), identity="third")


def test_a_ledger_that_was_put_back_too_old_is_refused(tmp_path: Path) -> None:
    ledger, copy = tmp_path / "work" / "series" / "test", tmp_path / "copy"
    path = write_series(tmp_path, [people(400)])
    for night in range(3):
        run_again(path, identity=f"night{night}")
        if night == 1:
            shutil.copytree(ledger, copy)
    shutil.rmtree(ledger)
    copy.rename(ledger)
    with pytest.raises(GateError, match=r"knows nothing of.* restore the ledger as the last release left it"):
        run_again(path, identity="night3")


def test_a_night_without_arrivals_is_not_taken_for_another(tmp_path: Path) -> None:
    """What tells two such nights of one id apart is not in what the survey sees."""
    for gone in (0, 1):
        run_again(write_series(tmp_path, [people(400).slice(gone)]), identity=f"night{gone}")
    write_series(tmp_path, [people(400).slice(2)])
    with pytest.raises(StorageError, match="use --replace"):
        run_again(tmp_path / "release.yaml", identity="night1")
    again, _ = run_again(tmp_path / "release.yaml", identity="night1", replace=True)
    assert again.published is not None and not again.published.already
    assert again.published.manifest.revision == "r0002"
    document = release_document(again.published, [])
    assert document["withheld"] is None, "a number that could tell of single people"
    assert dict(summary_rows(document))["series"] == "atoms, night 2 (trace-k)"


def test_only_what_the_gate_read_is_published_whatever_the_work_area_says_later(tmp_path: Path) -> None:
    release = start(write_release(tmp_path, [people(400)]))
    run_stages(release, "survey", "plan", "scatter", "anonymize", "validate", "measure")
    work, layout = tmp_path / "work", release.layout
    candidate = work / layout.object("assemble", "candidate", 0, 0, "bytes")
    notes = work / layout.receipt("check-files", 0)
    forged = candidate.read_bytes()[:-1] + b"x"
    right = sha256_hex(candidate.read_bytes()).encode()
    candidate.write_bytes(forged)
    notes.write_bytes(sealed((unsealed(notes.read_bytes()) or b"").replace(right, sha256_hex(forged).encode())))
    with pytest.raises(StorageError, match="is not what was written; run again"):
        run_stages(release, "publish")
    assert list((tmp_path / "output").iterdir()) == []


def until_publish(path: Path) -> Release:
    return run_stages(start(path), "survey", "plan", "scatter", "anonymize", "validate", "measure")


def test_an_interrupt_after_the_commit_says_that_it_is_published(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    path = write_release(tmp_path, [people(400)])
    release = until_publish(path)
    release.output = Meddled(release.output.url, after_create=interrupt)
    sentence = r"interrupted, but release 2026-11-18 is published in .*/r0001; run the same command again"
    with pytest.raises(InterruptionError, match=sentence) as told, RunRecord(release=release).publishing():
        run_stages(release, "publish", "report")
    assert told.value.exit_code == 130
    assert verify(str(tmp_path / "output" / "2026-11-18")).passed
    assert run_again(path)[0].published is not None
    assert verify(str(tmp_path / "output")).passed


def test_an_interrupt_before_the_commit_is_left_as_it_is(tmp_path: Path) -> None:
    release = start(write_release(tmp_path, [people(400)]))
    with pytest.raises(KeyboardInterrupt), RunRecord(release=release).publishing():
        raise KeyboardInterrupt


def test_a_latest_that_cannot_be_written_is_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = until_publish(write_release(tmp_path, [people(400)]))

    def busy(output: Store) -> None:
        raise TransientStorageError("the store is busy")

    with monkeypatch.context() as patch:
        patch.setattr("microagg_core.release.publish.update_latest", busy)
        sentence = r"is published in .* \(latest.json was not brought up to date"
        with pytest.raises(TransientStorageError, match=sentence), RunRecord(release=release).publishing():
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
