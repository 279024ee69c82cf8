"""Nights that die, or are by workers, before the eyes of an outsider; functional/test_routes.py walks all modes."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covering import share
from microagg_core.errors import StorageError
from microagg_core.spec.clusters import LocalCluster
from microagg_flows.clusters import connect
from microagg_flows.progress import Silence
from releasing.runs import data_digests, run_stages
from seasons.population import Population
from seasons.walk import Walk

GHOSTS: dict[str, Any] = {"mode": "atoms", "leavers": "ghosts", "guarantee": "trace+changes"}
HOLD = {"hold": {"until": "4k", "days": 2}}


def walk_of(folder: Path, n: int, **series: Any) -> Walk:
    return Walk(folder, Population(n, seed=3), {**GHOSTS, **series})


def test_suppressed_records(tmp_path: Path) -> None:
    """Few people in many towns: other blocks are too small every night, and who is in them waits."""
    walk = walk_of(tmp_path, 40, leavers="decoys", hold={"until": 3, "days": 1})
    walk.spec = {"blocks": {"undersized": "suppress"}}
    assert walk.walk("night; night come=6 leave=6; night come=6 leave=6; end") == []


class Lacking(Population):
    """People of whom some have told neither age nor income, or one of the two."""

    def _table(self, who: np.ndarray) -> pa.Table:
        table = super()._table(who)
        for name, every in (("age", 23), ("income", 7)):
            values = pa.array(table[name].to_numpy(), table[name].type, mask=who % every == 0)
            table = table.set_column(table.column_names.index(name), name, values)
        return table


@pytest.mark.parametrize("series", [GHOSTS, {"mode": "disjoint"}, {"mode": "rotation", "nights": 3}], ids=str)
def test_nights_in_which_cells_are_blanked(series: dict[str, Any], tmp_path: Path) -> None:
    """Of arrivals alone: what was released of survivors stays as it was, and how many cells is told of no later one."""
    walk = Walk(tmp_path, Lacking(60, seed=3), series, spec={"missing": "blank"})
    assert walk.walk("night; night come=9 leave=4; night come=12 leave=3 move=4; night come=1; end") == []
    manifests = [json.loads(path.read_text()) for path in sorted((tmp_path / "release").glob("*/*/manifest.json"))]
    assert any(entry["blanked"] for entry in manifests[0]["blanked"].values())
    assert len(manifests) > 2 and not any("blanked" in manifest for manifest in manifests[1:])
    released = [pq.read_table(path) for path in (tmp_path / "release").glob("*/*/data")]
    assert max(n := [table["age"].null_count for table in released]) >= 3 and all(of == 0 or of >= 3 for of in n)


def deaths(n_writes: int, share: int) -> list[int]:
    """After how many writes a night dies: before each of the last ones, and before some of the others."""
    return sorted({*range(max(n_writes - 24, 0), n_writes), *range(0, n_writes, share)})


@pytest.mark.slow(reason="a night dies before each of its writes")
@pytest.mark.parametrize("goes_on", share(["run", "pass_day"], 1))
def test_a_night_dies_before_any_write(goes_on: str, tmp_path: Path) -> None:
    """The same night is started again; or the next one comes instead of it. Held arrivals are among the units."""
    whole = walk_of(tmp_path / "whole", 24, **HOLD)
    assert whole.walk("night; night come=5 leave=3 move=4") == []
    for last in share(deaths(whole.n_writes["run"], 12), 4):
        walk = walk_of(tmp_path / f"{last}", 24, **HOLD)
        script = f"night; die last={last} come=5 leave=3 move=4; {goes_on}; night come=5 leave=2 move=3; end"
        assert walk.walk(script) == [], f"died after {last} writes"


@pytest.mark.parametrize("before", ["", "night; night come=5 leave=3; "], ids=["first", "later"])
def test_a_night_that_was_committed_and_never_published(before: str, tmp_path: Path) -> None:
    """While its run may be alive, nobody goes on; afterwards it is taken back, and again, and all is well."""
    walk = walk_of(tmp_path, 60, **HOLD)
    walk.walk(before)
    for _ in range(2):
        assert walk.walk("die before=manifest.json come=5 leave=3") == []
        walk.pass_day(come=1)
        with pytest.raises(StorageError, match="an hour after it died"):
            run_stages(walk.begin())
    assert walk.walk("night; night come=5 leave=3; end") == []
    assert len(walk.outsider.seen) == (4 if before else 2)


@pytest.mark.server
@pytest.mark.slow(reason="starts Dask's workers")
def test_workers_give_the_same_bytes(tmp_path: Path) -> None:
    here, there = (walk_of(tmp_path / name, 60) for name in ("here", "there"))
    assert here.walk("night; night come=9 leave=2 move=9") == []
    there.pass_day()
    first = there.begin()
    with connect(LocalCluster(workers=2, memory="1GiB"), first.spec, Silence()) as workers:
        first.workers = workers
        run_stages(first)
        there.pass_day(come=9, leave=2, move=9)
        run_stages(there.begin(workers))
    digests = data_digests(tmp_path / "here" / "release")
    assert digests and digests == data_digests(tmp_path / "there" / "release")


def test_the_ledger_tells_nothing_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    """No id and no confidential value in the ledger, in names or in documents; nor the key."""
    walk = walk_of(tmp_path, 60, hold={"until": "9k", "days": 9})
    marks = {tag: f"Zebedaeus{tag}Q" for tag in walk.people.here}
    for tag, mark in marks.items():
        walk.people.note[tag] = mark
    assert walk.walk("night; night come=3 leave=2 move=9; night come=3 leave=2 move=9") == []
    needles = [*(mark.encode() for mark in marks.values()), b"P0000001", b"north-1", b"the secret of these nights"]
    assert any(needles[0] in path.read_bytes() for path in (tmp_path / "in").rglob("*.parquet"))
    assert len([path for path in walk.ledger.rglob("*") if path.is_file()]) > 6
    for path in (tmp_path / "work").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
        assert not any(needle.decode() in str(path.relative_to(tmp_path)) for needle in needles)
        data = b"" if path.is_dir() else path.read_bytes()
        assert not any(needle in data for needle in needles), path
    for path in tmp_path.glob("release/*/*/manifest.json"):
        series = json.loads(path.read_text())["series"]
        assert series.keys() - {"ghosts"} == {"mode", "guarantee", "night", "smallest_trace"}
        assert series["smallest_trace"] is None
