"""The work area is for its owner alone, whatever the umask; nothing is done through links in it or in the output."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from inputs.people import people
from microagg_core.errors import StorageError
from microagg_core.release.cleaning import clean_due, clean_work
from microagg_core.spec.loading import load_spec
from microagg_core.store.objects import Store
from microagg_flows.stages import run_until
from releasing.runs import run_stages, start, write_release

RELEASE = "one"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_release(tmp_path, [people(200)], id=RELEASE)


@pytest.fixture(params=[0o000, 0o277])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def rights(folder: Path) -> dict[str, set[int]]:
    paths = [folder, *folder.rglob("*")]
    kinds = {"folders": filter(Path.is_dir, paths), "files": filter(Path.is_file, paths)}
    return {kind: {path.stat().st_mode & 0o777 for path in of_kind} for kind, of_kind in kinds.items()}


def test_the_work_area_is_private_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    work = Store(str(tmp_path / "work"), private=True)
    work.put("runs/key/scatter/rows", b"1")
    work.create("runs/key/salt", b"1")
    work.put_if("audit/id", b"1", "")
    assert work.put_checked("runs/copied", [], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 0)
    assert rights(tmp_path / "work") == {"folders": {0o700}, "files": {0o600}}


def test_a_release_leaves_a_private_work_area_and_an_output_of_the_umask(spec: Path, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        (tmp_path / "work").mkdir()  # by the operator, with rights for all
        run_until("anonymize", start(spec))
        assert rights(tmp_path / "work") == {"folders": {0o700}, "files": {0o600}}
        run_until("report", start(spec))
    finally:
        os.umask(before)
    assert rights(tmp_path / "work") == {"folders": {0o700}, "files": {0o600}}
    assert rights(tmp_path / "output") == {"folders": {0o755}, "files": {0o644}}


def test_rights_that_an_older_version_gave_are_taken_back(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "work" / "runs" / "old").mkdir(parents=True)
    (tmp_path / "work" / "notes-of-others").mkdir()
    for folder in ("work", "work/runs"):
        (tmp_path / folder).chmod(0o755)
    run_until("survey", start(spec))
    assert (tmp_path / "work" / "runs").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "work").stat().st_mode & 0o777 == 0o755  # what is not ours alone stays as it is


def test_a_folder_that_stays_open_to_others_is_refused(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work" / "runs").mkdir(parents=True)
    (tmp_path / "work" / "runs").chmod(0o755)

    def not_ours(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("os.fchmod", not_ours)
    with pytest.raises(StorageError, match="work/runs holds private rows but is open to others"):
        run_until("survey", start(spec))


def precious(tmp_path: Path) -> Path:
    folder = tmp_path / "precious"
    (folder / "sub").mkdir(parents=True)
    (folder / "file").write_text("keep")
    (folder / "sub" / "file").write_text("keep")
    return folder


def is_whole(folder: Path) -> bool:
    return {str(p.relative_to(folder)) for p in folder.rglob("*")} == {"file", "sub", "sub/file"}


@pytest.mark.parametrize("place", [RELEASE, f"{RELEASE}/r0001/data"])
def test_nothing_is_published_through_a_link(place: str, spec: Path, tmp_path: Path) -> None:
    folder = precious(tmp_path)
    link = tmp_path / "output" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(folder)
    with pytest.raises(StorageError, match=f"output/{place} is a link, and none is followed") as refused:
        run_until("report", start(spec))
    assert "\n" not in refused.value.message
    assert is_whole(folder) and link.is_symlink()
    link.unlink()
    run_until("report", start(spec))


@pytest.mark.parametrize("place", ["runs/{key}", "runs/n/{key}/scatter/scattered-00000.slices"])
def test_nothing_is_written_or_read_through_a_link_in_the_work_area(place: str, spec: Path, tmp_path: Path) -> None:
    folder = precious(tmp_path)
    release = start(spec)
    run_until("scatter", release)
    link = tmp_path / "work" / place.format(key=release.key)
    link.rename(tmp_path / "away")
    link.symlink_to(folder / "file" if link.suffix else folder)
    with pytest.raises(StorageError, match="is a link, and none is followed"):
        run_until("report", start(spec))
    assert is_whole(folder) and (folder / "file").read_text() == "keep"


def test_clean_empties_no_target_of_a_link(spec: Path, tmp_path: Path) -> None:
    folder = precious(tmp_path)
    run_until("scatter", start(spec))
    (tmp_path / "work" / "runs" / "0-linked").symlink_to(folder)
    with pytest.raises(StorageError, match="work/runs/0-linked is a link"):
        clean_work(load_spec(str(spec)), everything=True)
    assert is_whole(folder)
    (tmp_path / "work" / "runs" / "0-linked").unlink()
    (scattered,) = (tmp_path / "work" / "runs").glob("*/*/scatter/scattered-00000.slices")
    (scattered.parent / "deep").symlink_to(folder)
    before = sorted(scattered.parent.rglob("*"))
    with pytest.raises(StorageError, match=r"below .*work/runs/[0-9a-v]/[0-9a-f]{20} there is a link"):
        clean_work(load_spec(str(spec)), everything=True)
    assert is_whole(folder) and sorted(scattered.parent.rglob("*")) == before  # not even what is no link is removed


def test_a_run_tells_of_a_link_that_keeps_it_from_cleaning_and_goes_on(spec: Path, tmp_path: Path) -> None:
    """And a link beside the releases does no harm."""
    folder, said = precious(tmp_path), []
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "newest").symlink_to(tmp_path / "output" / RELEASE)
    (tmp_path / "work" / "runs").mkdir(parents=True)
    (tmp_path / "work" / "runs" / "linked").symlink_to(folder)
    clean_due(load_spec(str(spec)), said.append)
    assert len(said) == 1 and "was not cleaned of failed runs" in said[0] and "runs/linked is a link" in said[0]
    run_stages(start(spec))
    assert is_whole(folder) and '"id": "one"' in (tmp_path / "output" / "latest.json").read_text()


def test_a_folder_swapped_for_a_link_under_a_removal_leads_nowhere(tmp_path: Path) -> None:
    """The look for links comes first; a link that appears after it is removed itself, or stays, but is not followed."""
    folder, store = precious(tmp_path), Store(str(tmp_path / "work"), private=True)
    store.put("runs/key/a/1", b"1")
    walked = os.fwalk
    looked: list[int] = []

    def walk(*arguments: object, **options: object) -> Iterator[object]:
        looked.append(1)
        if len(looked) == 2:
            (tmp_path / "work" / "runs" / "key" / "a").rename(tmp_path / "a")
            (tmp_path / "work" / "runs" / "key" / "a").symlink_to(folder)
        return walked(*arguments, **options)  # type: ignore[arg-type,return-value]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fwalk", walk)
        store.delete_all("runs/key")
    assert len(looked) == 2 and is_whole(folder)


def test_the_root_may_be_a_link_and_so_may_the_spec(tmp_path: Path) -> None:
    spec = write_release(tmp_path / "real", [people(200)], id=RELEASE)
    for name in ("output", "work"):
        (tmp_path / f"far-{name}").mkdir()
        (tmp_path / "real" / name).symlink_to(tmp_path / f"far-{name}")
    (tmp_path / "linked.yaml").symlink_to(spec)
    linked = load_spec(str(tmp_path / "linked.yaml"))
    assert linked.k == 3
    run_until("report", start(spec))
    assert (tmp_path / "far-output" / RELEASE / "r0001" / "manifest.json").exists()
