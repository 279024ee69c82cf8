"""The same spec, data and seed give the same bytes: wherever they lie, whoever works, whatever is interrupted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

from covering import share
from inputs.people import people
from microagg_core.errors import InternalError
from microagg_core.release.verify import verify
from microagg_core.spec.clusters import LocalCluster
from microagg_core.spec.loading import load_spec
from microagg_core.store.objects import Store
from microagg_flows.clusters import connect
from microagg_flows.progress import Silence
from microagg_flows.release import new_release
from microagg_flows.stages import run_until
from releasing.runs import NOW, ROLES, Release, data_digests, run_stages, start, without_attempt, write_release
from servers.s3_server import Place

#: Several strata are cut and several partitions and files made, so that order could matter.
MEANT = {"jointly_unique": ROLES["confidential"]}
CHANGES: dict[str, Any] = {"blocks": {"max_records": 150}, "algorithm": {"name": "v_mdav", "gamma": 0.4}}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What is released with partitions, runs and files of a few kilobytes, which all is made of from now on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("microagg_core.blocks.packing._LEAST_BYTES", 4096)
        patch.setattr("microagg_core.blocks.packing.FILE_BYTES", 16_384)
        patch.setattr("microagg_core.release.step.RUN_BYTES", 4096)
        patch.setattr("microagg_core.release.step.OBJECT_BYTES", 8192)
        folder = tmp_path_factory.mktemp("whole")
        run_stages(start(write_release(folder, tables(), **CHANGES)))
        yield data_digests(folder / "output")


def tables() -> list[Any]:
    return [people(1500), people(10, first=1500), people(900, first=1510)]


def test_an_interrupted_run_goes_on_and_gives_the_same_bytes(expected: dict[str, str], tmp_path: Path) -> None:
    assert len(expected) > 3
    path = write_release(tmp_path / "cut", tables(), **CHANGES)
    for last in ("survey", "plan", "scatter", "anonymize", "validate", "measure"):
        release = start(path)  # a new process each time knows only what lies in the work area
        run_until(last, release)
        assert not (tmp_path / "cut" / "output").exists()
    run_stages(start(path))
    assert data_digests(tmp_path / "cut" / "output") == expected


@pytest.mark.usefixtures("expected")
def test_the_larger_pieces_of_a_large_release_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks come in fewer partitions."""
    monkeypatch.setattr("microagg_core.blocks.packing._PIECES", 1)
    monkeypatch.setattr("microagg_core.blocks.packing.PARTITION_BYTES", 4096)
    found = {}
    for name, steady in (("usual", 2**40), ("large", 1)):
        for room, what in (("blocks.packing", "BYTES"), ("release.step", "BYTES"), ("release.steps.keys", "KEYS")):
            monkeypatch.setattr(f"microagg_core.{room}.STEADY_{what}", steady)
        monkeypatch.setattr("microagg_core.release.steps.units.STEADY_PARTS", steady)
        release = start(write_release(tmp_path / name, tables(), **CHANGES))
        run_until("scatter", release)
        run_stages(release)
        found[name] = release.planned.outline.n_partitions, data_digests(tmp_path / name / "output")
    (usual, digests), (large, same) = found["usual"], found["large"]
    assert large < usual / 2
    assert same == digests


class _FailsAt:
    """Workers that stop with a bug at one task."""

    def __init__(self, inner: Any, stage: str, number: int) -> None:
        self.inner, self.stage, self.number = inner, stage, number
        self.done: list[tuple[str, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def map(self, function: Any, items: Any, what: str) -> Any:
        def one(item: Any) -> Any:
            if (what, getattr(item, "number", -1)) == (self.stage, self.number):
                raise InternalError("stopped by the test")
            result = function(item)
            self.done.append((what, result.number if result else -1))
            return result

        return self.inner.map(one, items, what)


@pytest.mark.parametrize("stage", share(["survey", "scatter", "anonymize", "assemble"], 2))
def test_a_task_that_failed_is_the_only_one_done_again(stage: str, expected: dict[str, str], tmp_path: Path) -> None:
    path = write_release(tmp_path / "cut", tables(), **CHANGES)
    release = start(path)
    release.workers = _FailsAt(release.workers, stage, 2)
    with pytest.raises(InternalError, match="stopped by the test"):
        run_stages(release)
    runs, receipts = Path(release.work.url) / "runs", f"*/{release.key}/receipts/{stage}/*"
    before = {p.name: p.stat().st_mtime_ns for p in runs.glob(receipts)}
    assert before
    assert "00002.receipt" not in before
    again = start(path)
    run_stages(again, "survey", "plan", "scatter", "anonymize")
    after = {p.name: p.stat().st_mtime_ns for p in runs.glob(receipts)}
    assert {name: after[name] for name in before} == before
    run_stages(start(path))
    assert data_digests(tmp_path / "cut" / "output") == expected


def test_other_row_groups_of_the_same_rows_give_the_same_bytes(expected: dict[str, str], tmp_path: Path) -> None:
    path = write_release(tmp_path / "two", tables(), **CHANGES)
    for i, table in enumerate(tables()):
        pq.write_table(table, tmp_path / "two" / "input" / f"part-{i}.parquet", row_group_size=97, compression="none")
    run_stages(start(path))
    assert data_digests(tmp_path / "two" / "output") == expected


def lacking(tables: list[pa.Table]) -> list[pa.Table]:
    """The same people, of whom some lack x, some y, and few both."""
    table = pa.concat_tables(tables)
    for name, every in (("x", 30), ("y", 47)):
        values = pa.array(table[name].to_numpy(), mask=np.arange(table.num_rows) % every == 7)
        table = table.set_column(table.column_names.index(name), name, values)
    return [table.slice(0, 1500), table.slice(1500, 10), table.slice(1510)]


@pytest.mark.usefixtures("expected")
@pytest.mark.parametrize("labels", ["list", "star"])
def test_cells_are_blanked_alike_however_the_input_is_cut(labels: str, tmp_path: Path) -> None:
    """With blocks that are cut, and with partitions of a few; and going on where a run was interrupted."""
    changes = {**CHANGES, "blocks": {"max_records": 60, "labels": labels}, "missing": "blank"}
    parts = lacking(tables())
    found = {}
    for name, of in (("one", [pa.concat_tables(parts)]), ("three", parts)):
        path = write_release(tmp_path / name, of, **changes)
        for last in ("plan", "scatter", "anonymize") if name == "three" else ():
            run_until(last, start(path))
        release = run_stages(start(path))
        found[name] = data_digests(tmp_path / name / "output")
        assert sum(release.planned.outline.blanked or ()) >= 3 and release.planned.outline.n_partitions > 5
    assert found["one"] == found["three"]


@pytest.mark.server
@pytest.mark.slow(reason="starts Dask's workers")
def test_workers_blank_the_same_cells(tmp_path: Path) -> None:
    changes = {**CHANGES, "missing": "blank"}
    over_cluster(write_release(tmp_path / "two", lacking(tables()), **changes), workers=2)
    run_stages(start(write_release(tmp_path / "none", lacking(tables()), **changes)))
    digests = data_digests(tmp_path / "two" / "output")
    assert digests and digests == data_digests(tmp_path / "none" / "output")


def test_released_order_does_not_tell_the_input_order(tmp_path: Path) -> None:
    """The same people backwards: without ties the groups are the same, and rounding hides the order of additions."""
    table, changes = people(600), {"blocks": {"max_records": 10_000}, "rounding": {"y": 0.001}}
    run_stages(start(write_release(tmp_path / "one", [table], **changes)))
    run_stages(start(write_release(tmp_path / "two", [table.take(list(reversed(range(600))))], **changes)))
    one, two = data_digests(tmp_path / "one" / "output"), data_digests(tmp_path / "two" / "output")
    assert one == two


def over_cluster(path: Path, workers: int) -> Release:
    spec = load_spec(str(path))
    with connect(LocalCluster(workers=workers, memory="1GiB"), spec, Silence()) as connected:
        release = new_release(spec, connected, None, False, NOW)
        run_until("report", release)
    return release


@pytest.mark.server
def test_scales_and_zeros_give_the_same_bytes_whoever_works(tmp_path: Path) -> None:
    tens = [table.set_column(3, "x", pc.multiply(pc.max_element_wise(table["x"], 400), 10)) for table in tables()]
    tens = [table.set_column(3, "x", pc.subtract(table["x"], 4000)) for table in tens]
    quasi = [{"name": "x", "scale": "rank", "zeros": "separate"}, {"name": "y", "scale": "robust", "top": "99%"}]
    changes = {**CHANGES, "roles": {**ROLES, "quasi_identifiers": quasi}, "acknowledge": MEANT}
    over_cluster(write_release(tmp_path / "two", tens, **changes), workers=2)
    run_stages(start(write_release(tmp_path / "one", [pa.concat_tables(tens)], **changes)))
    assert data_digests(tmp_path / "two" / "output") == data_digests(tmp_path / "one" / "output")


@pytest.mark.slow(reason="makes two releases, on clusters of their own")
@pytest.mark.server
def test_disk_and_s3_and_one_and_two_workers_give_the_same_bytes(tmp_path: Path, s3_bucket: Place) -> None:
    changes = {**CHANGES, "blocks": {"max_records": 400}}
    local = write_release(tmp_path / "disk", tables(), **changes)
    over_cluster(local, workers=1)
    expected = data_digests(tmp_path / "disk" / "output")

    bucket = Store(s3_bucket.url, s3_bucket.storage_options)
    for part in sorted((tmp_path / "disk" / "input").iterdir()):
        bucket.put(f"input/{part.name}", part.read_bytes())
    spec = yaml.safe_load(local.read_text())
    for name, folder in (("input", "input/*.parquet"), ("output", "output"), ("work", "private/work")):
        spec[name] = {"url": f"{s3_bucket.url}/{folder}", "storage_options": s3_bucket.storage_options}
    remote = tmp_path / "s3.yaml"
    remote.write_text(yaml.safe_dump(spec))
    release = over_cluster(remote, workers=2)

    names = [n for n in bucket.list("output") if "/data/" in n]
    found = {without_attempt(n.removeprefix("output/")): hashlib.sha256(bucket.read(n)).hexdigest() for n in names}
    assert found == expected
    assert verify(f"{s3_bucket.url}/output", s3_bucket.storage_options).passed
    assert not [n for n in bucket.list("private/work") if n.startswith("private/work/runs")]
    assert release.published is not None and not release.published.already
