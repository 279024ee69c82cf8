"""What is cleaned, when, and what never is."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from inputs.people import people
from microagg_core.errors import TransientStorageError
from microagg_core.release import cleaning
from microagg_core.release.audit import prune_audit
from microagg_core.release.cleaning import Running, clean_due, clean_work
from microagg_core.release.context import work_store
from microagg_core.release.pieces import read_sealed
from microagg_core.release.step import Run
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import RunLayout
from microagg_core.store.objects import Store
from microagg_flows.pages import put_page
from microagg_flows.stages import run_until
from releasing.runs import run_stages, start, write_release

DAY, MINUTE = datetime.timedelta(days=1), datetime.timedelta(minutes=1)


def now() -> datetime.datetime:
    """This moment: a file made by a test is as old as it is."""
    return datetime.datetime.now(datetime.UTC)


def spec_of(folder: Path, failed_days: float) -> ReleaseSpec:
    work = {"url": "work", "keep": {"failed_days": failed_days}}
    return load_spec(str(write_release(folder, [people(120)], work=work)))


def failed(spec: ReleaseSpec, key: str = "failed") -> RunLayout:
    run = Run(work_store(spec), key)
    with Running() as running:
        running.begin(run)
        run.work.put(run.layout.object("scatter", "scattered", 0, 0, "slices"), b"rows")
    return run.layout


def test_what_failed_goes_when_its_time_is_up(tmp_path: Path) -> None:
    """And a run that does it says so."""
    spec, said = spec_of(tmp_path, 7), []
    failed(spec)
    clean_due(spec.model_copy(update={"work": spec_of(tmp_path, 0).work}), said.append)
    clean_due(spec, said.append)
    assert said == ["removed 1 failed runs from the work area, as their time was up"]
    failed(spec)
    assert clean_work(spec, False, now() + 6 * DAY) == (0, 1)
    assert clean_work(spec, False, now() + 7 * DAY + MINUTE) == (1, 0)
    assert list((tmp_path / "work").rglob("*")) == []


def test_a_run_that_says_nothing_counts_as_alive_for_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(tmp_path, 0)
    Running().begin(Run(work_store(spec), "killed"))
    assert clean_work(spec, False, now() + 50 * MINUTE) == (0, 1)

    def of_somebody_else(*_: object) -> None:
        raise PermissionError

    with monkeypatch.context() as others:
        others.setattr("os.kill", of_somebody_else)
        assert clean_work(spec, False, now() + 50 * MINUTE) == (0, 1)
    failed(spec)
    assert clean_work(spec, False, now() + 50 * MINUTE) == (1, 1)
    assert clean_work(spec, False, now() + 70 * MINUTE) == (1, 0)


def test_a_run_under_way_gives_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "_SIGN_EVERY_SECONDS", 0.01)
    spec = spec_of(tmp_path, 0)
    run = Run(work_store(spec), "alive")
    with Running() as running:
        running.begin(run)
        first = read_sealed(run.work, run.layout.sign_of_life())
        while read_sealed(run.work, run.layout.sign_of_life()) == first:
            pass
    last = json.loads(read_sealed(run.work, run.layout.sign_of_life()) or b"{}")
    assert last["ended"] is True


def test_the_last_sign_is_not_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "_SIGN_EVERY_SECONDS", 0.0)
    spec = spec_of(tmp_path, 0)
    for number in range(10):
        layout = failed(spec, f"run-{number}")
        assert json.loads(read_sealed(work_store(spec), layout.sign_of_life()) or b"{}")["ended"] is True


@pytest.mark.parametrize("left", [b"", b"{}", None])
def test_a_run_with_a_damaged_sign_is_as_old_as_its_files(left: bytes | None, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, 7)
    work, layout = work_store(spec), failed(spec)
    work.delete(layout.sign_of_life()) if left is None else work.put(layout.sign_of_life(), left)
    assert clean_work(spec, False, now() + 6 * DAY) == (0, 1)
    assert clean_work(spec, False, now() + 8 * DAY) == (1, 0)


def test_rows_without_a_word_of_their_run_go(tmp_path: Path) -> None:
    """A worker that nobody heard of any more wrote them when the run's rows had gone, or went."""
    spec = spec_of(tmp_path, 0)
    work, layout = work_store(spec), RunLayout("late")
    for number in range(100):
        work.put(layout.object("scatter", "scattered", number, 0, "slices"), b"rows")
    assert clean_work(spec, False, now() + 50 * MINUTE) == (0, 1)
    assert clean_work(spec, False, now() + 70 * MINUTE) == (1, 0)
    assert list((tmp_path / "work").rglob("*")) == []


def test_folders_that_are_not_runs_stay(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, 0)
    (tmp_path / "work" / "runs" / ".snapshot").mkdir(parents=True)
    (tmp_path / "work" / "audit").mkdir(parents=True)
    assert clean_work(spec, True) == (0, 0)
    assert (tmp_path / "work" / "runs" / ".snapshot").exists()


def test_every_run_cleans_what_is_due_but_not_what_it_goes_on_from(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, 0)
    failed(spec)
    path = tmp_path / "release.yaml"
    run_until("scatter", start(path))
    (own,) = (tmp_path / "work" / "runs").glob("*/*/receipts/scatter/00000.receipt")
    before = own.stat().st_mtime_ns
    run_until("scatter", start(path))
    assert own.stat().st_mtime_ns == before
    run_until("report", start(path))
    assert list((tmp_path / "work" / "runs").glob("*")) == []


def test_a_store_that_does_not_answer_is_not_asked_to_keep_a_last_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(tmp_path, 0)
    run = Run(work_store(spec), "silent")
    with pytest.raises(TransientStorageError), Running() as running:
        running.begin(run)
        monkeypatch.setattr(Store, "put", lambda *_, **__: pytest.fail("asked again"))
        raise TransientStorageError("the store did not answer")
    assert json.loads(read_sealed(run.work, run.layout.sign_of_life()) or b"{}")["ended"] is False


@pytest.mark.parametrize(("goes_on", "after"), [(False, datetime.timedelta(hours=1)), (True, 7 * DAY)])
def test_when_rows_of_a_run_go_whose_process_this_machine_cannot_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes_on: bool, after: datetime.timedelta
) -> None:
    """Job arrays go on with a run that no process keeps alive: their rows stay as those of failed runs do."""
    spec = spec_of(tmp_path, 7)
    monkeypatch.setattr(cleaning, "this_process", lambda: "000000000000-1")
    Running(goes_on).begin(Run(work_store(spec), "elsewhere"))
    assert clean_work(spec, False, now() + after - MINUTE) == (0, 1)
    assert clean_work(spec, False, now() + after + MINUTE) == (1, 0)


def test_the_audit_is_pruned_but_for_what_releases_need(tmp_path: Path) -> None:
    path = write_release(tmp_path, [people(120)], work={"url": "work", "keep": {"audit_days": 30}})
    published = run_stages(start(path)).published
    assert published is not None
    spec, audit = load_spec(str(path)), tmp_path / "work" / "audit"
    put_page(work_store(spec), published.manifest)
    calls = [f"test-one-2026{month:02d}01T023000123Z-00000000000{month}" for month in range(1, 10)]
    for name in calls:
        Store(str(audit)).put(f"runs/{name}.json", b"{}")
        Store(str(audit)).put(f"lineage/{name}-start.json", b"{}")
    release = audit / published.manifest.layout.folder
    kept, later = {one.name for one in release.iterdir()}, now() + 31 * DAY
    assert prune_audit(load_spec(str(path), ["work.keep.audit_days=null"]), later) == 0
    assert prune_audit(spec, now() + 29 * DAY) >= 9, "calls were made long ago, the release was not"
    assert {one.name for one in release.iterdir()} == kept
    assert sorted(one.name for one in (audit / "runs").iterdir()) == [f"{name}.json" for name in calls[1:]]
    assert prune_audit(spec, later) == 1
    assert {one.name for one in release.iterdir()} == kept - {"report.html"}
    # The same command finds the release, and the page is made again of what is left.
    assert find_published_again(path)
    put_page(work_store(spec), published.manifest)
    assert (release / "report.html").stat().st_size > 10_000
    Store(spec.output.url).put(published.manifest.layout.withdrawn(), b"{}")
    assert prune_audit(spec, later) == len(kept) - 1
    assert [one.name for one in release.iterdir()] == ["digests.json"]


def find_published_again(path: Path) -> bool:
    """Whether a run with the same spec, but for what is kept, takes the release for its own."""
    again = start(path)
    again.spec = load_spec(str(path), ["work.keep.audit_days=null"])
    run_until("survey", again)
    return again.published is not None and again.published.already
