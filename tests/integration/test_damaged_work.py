"""A damaged work area heals: what is damaged is made again, in the same run, and the release is the undisturbed one.

All cases: python tests/soak/damage.py
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from inputs.people import people
from microagg_core.data.tables.slices import Slice, Slices
from microagg_core.errors import StorageError, TransientClusterError
from microagg_core.release.pieces import sealed, unsealed
from microagg_core.release.planned import PLAN
from microagg_core.release.step import Pieces, Receipt, Run, Sent, Task, load_receipt
from microagg_core.release.steps.anonymize import ANONYMIZE
from microagg_core.release.steps.candidate import CANDIDATE
from microagg_core.release.steps.scatter import SCATTERED
from microagg_core.release.steps.survey import STATISTICS
from microagg_core.runner import Damage, run_task
from microagg_core.store.objects import Store
from microagg_flows import stages
from microagg_flows.executors import InProcess
from microagg_flows.release import Release
from microagg_flows.stages import Stage, run_stage, run_until
from releasing.runs import data_digests, run_stages, start, write_release, write_series
from trouble.damage import DAMAGES, FORMATS, MOMENTS, STAGES, DamagedRelease

SAMPLE = 6


@pytest.mark.parametrize("form", FORMATS)
def test_whatever_is_damaged_the_release_is_the_same(form: str, tmp_path: Path) -> None:
    release = DamagedRelease(tmp_path, form)
    cases = release.cases()
    assert {(c.moment, c.stage, c.damage) for c in cases} == {
        (moment, stage, damage) for moment in MOMENTS for stage in STAGES for damage in DAMAGES
    }
    sample = random.Random(form).sample(cases, SAMPLE)
    assert {case: outcome for case in sample if (outcome := release.outcome(case)) != "right"} == {}


def test_everything_damaged_at_once_is_made_again(tmp_path: Path) -> None:
    path = write_release(tmp_path, [people(200), people(150, first=200)])
    run_until("report", start(path))
    expected = data_digests(tmp_path / "output")
    for stage in STAGES:
        (tmp_path / "output").rename(tmp_path / f"before-{stage}")
        run_until(stage, start(path))
        files = [p for p in (tmp_path / "work" / "runs").rglob("*") if p.is_file()]
        for file in files:
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
        run_until("report", start(path))
        assert data_digests(tmp_path / "output") == expected


def test_a_later_night_of_a_series_goes_back_as_the_same_run(tmp_path: Path) -> None:
    path = write_series(tmp_path, [people(200)])
    run_until("report", start(path, identity="first"))
    release = start(path, identity="second")
    keys = []

    def damaging(stage: Stage, release: Release) -> None:
        run_stage(stage, release)
        keys.append(release.key)
        if stage.name == "measure" and keys.count(release.key) == STAGES.index("measure") + 1:
            candidate = next((tmp_path / "work" / "runs").rglob("candidate-*"))
            candidate.write_bytes(candidate.read_bytes()[:-1])

    run_until("report", release, damaging)
    assert len(keys) > len(STAGES) + 2 and len(set(keys)) == 1
    again = start(path, identity="second")
    run_until("report", again)
    assert again.published and again.published.already


def test_a_survey_that_is_tried_again_knows_nothing_of_the_input_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_release(tmp_path, [people(200), people(150, first=200), people(90, first=350)], unit=["id"])
    release, said = start(path), list[str]()
    monkeypatch.setattr(release.workers.progress, "say", said.append)
    survey, given = stages.STAGES[0], release.workers

    class Lost(InProcess):
        def map(self, function: Callable[[Any], Any], items: Sequence[Any], what: str) -> list[Any]:
            if what == "units":
                raise TransientClusterError("the workers went away")
            return super().map(function, items, what)

    release.workers = Lost(given.progress)
    with pytest.raises(TransientClusterError):
        run_stage(survey, release)
    release.workers = given
    (tmp_path / "input" / "part-2.parquet").unlink()
    run_until("report", release)
    assert release.published and release.published.manifest.rows == 350
    assert not [line for line in said if "damaged or gone" in line]


@dataclass(frozen=True)
class Forgetful(Store):
    """A work area that does not keep what it is given."""

    def put(self, name: str, data: bytes, *, durable: bool = False) -> None:
        super().put(name, data[:-1] + b"?" if "/candidate-" in name else data, durable=durable)


def test_a_work_area_that_keeps_nothing_right_is_given_up(tmp_path: Path) -> None:
    release = start(write_release(tmp_path, [people(200)]))
    release.work = Forgetful(release.work.url, private=True)
    with pytest.raises(StorageError, match="does not stay as it was written; check its disk") as given_up:
        run_until("report", release)
    assert given_up.value.exit_code == 5
    assert not list((tmp_path / "output").rglob("*.parquet"))


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task("scatter", 3, Run(Store(str(tmp_path / "work"), private=True), "key"))


def test_a_receipt_is_that_of_one_task_alone(task: Task) -> None:
    told = task.run.put(PLAN, b"one plan", "plan")
    first = replace(task, reads=(told,))
    Receipt("scatter", 3, 7, (told,), task=first.digest()).save(first.run)
    assert load_receipt(first) is not None
    other = task.run.put(PLAN, b"another!", "plan")
    assert load_receipt(replace(task, reads=(other,))) is None
    sent = Sent("scatter", "scattered", Slices.of([Slice(0, 0, 3, 0, 9, 1, 7)]))
    assert load_receipt(replace(first, sent=(sent,))) is None


@pytest.mark.parametrize("damage", [d for name, d in DAMAGES.items() if name != "exchanged"])
def test_a_damaged_receipt_means_not_done(task: Task, damage: Callable[[bytes, bytes], bytes | None]) -> None:
    Receipt("scatter", 3, 7, (), task=task.digest()).save(task.run)
    name = task.run.layout.receipt("scatter", 3)
    work = task.run.work
    left = damage(work.read(name), b"")
    work.delete(name) if left is None else work.put(name, left)
    assert load_receipt(task) is None


def test_damage_is_an_answer_that_names_all_makers_and_discards_their_receipts(tmp_path: Path) -> None:
    path = write_release(tmp_path, [people(200), people(150, first=200)])
    release = run_stages(start(path), "survey", "plan", "scatter")
    for piece in release.written(SCATTERED).pieces:
        release.work.put(piece.name, b"x" * piece.bytes)
    task, *_ = release.tasks(ANONYMIZE)
    assert run_task(task) == Damage((("scatter", 0), ("scatter", 1)))
    assert not [name for name in release.work.list("runs") if "/receipts/scatter/" in name]
    surveyed = release.written(STATISTICS)
    for piece in surveyed.pieces:
        release.work.delete(piece.name)
    with pytest.raises(StorageError) as raised:
        surveyed.read_all(STATISTICS)
    for error in (raised.value, pickle.loads(pickle.dumps(raised.value))):
        assert error.places == (("survey", 0), ("survey", 1))


def test_pieces_are_there_before_a_receipt_names_them(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """For good: the disk is asked for the file's content and for its folder's entry."""
    synced: list[bool] = []
    monkeypatch.setattr("os.fsync", lambda handle: synced.append(True))
    piece = task.run.put(CANDIDATE, b"rows", "scatter", 3)
    assert len(synced) == 2
    assert Pieces(task.run, [piece]).read(CANDIDATE) == b"rows"


def test_another_cluster_uses_what_was_done(tmp_path: Path) -> None:
    path = write_release(tmp_path, [people(300)])
    run_until("anonymize", start(path))
    receipts = sorted((tmp_path / "work").rglob("*.receipt"))
    before = {p: p.stat().st_mtime_ns for p in receipts}
    spec: dict[str, Any] = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**spec, "cluster": {"local": {"workers": 1}}}))
    run_until("anonymize", start(path))
    assert {p: p.stat().st_mtime_ns for p in receipts} == before


def test_a_seal_is_broken_by_any_change() -> None:
    whole = sealed(b'{"a": 1}')
    assert unsealed(whole) == b'{"a": 1}'
    for place in range(len(whole)):
        assert unsealed(whole[:place]) is None
        assert unsealed(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]) is None
