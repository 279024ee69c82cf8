"""Nights that die, or are elsewhere, before the eyes of an outsider; functional/test_routes.py walks all modes."""

from __future__ import annotations

import datetime
import json
import stat
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from covering import share
from microagg_core.errors import StorageError
from microagg_core.spec.clusters import LocalCluster
from microagg_core.spec.loading import load_spec
from microagg_core.store.objects import Store
from microagg_flows.clusters import connect
from microagg_flows.progress import Silence
from microagg_flows.release import Release
from microagg_flows.stages import STAGES, run_stage
from releasing.runs import data_digests
from seasons.deaths import Died, dying
from seasons.population import Population
from seasons.season import ALIVE_FOR, Season, make_release, series_of
from servers.s3_server import Place


def season_of(folder: Path, mode: str, n: int = 150, changes: bool = False, **others: Any) -> Season:
    hold = others.pop("hold", None)
    folder.mkdir(parents=True, exist_ok=True)
    return Season(folder, Population(n, seed=3), series_of(mode, folder, changes, hold), **others)


def pass_nights(season: Season, nights: int, churn: float = 0.05) -> None:
    for _ in range(nights):
        season.people.pass_a_day(churn)
        season.people.change_a_town(2)
        season.day += 1
        season.spend(season.prepare())


def is_right(season: Season) -> None:
    """Everything that an outsider finds, and the ledger's own check."""
    season.verify()
    assert season.wrong == []
    assert (season.outsider.n_below(), season.outsider.n_solved()) == (0, 0)


def test_suppressed_records(tmp_path: Path) -> None:
    """Few people in many towns: other blocks are too small every night."""
    season = season_of(tmp_path, "atoms-decoys", 40, spec={"blocks": {"undersized": "suppress"}})
    season.spend(season.prepare())
    pass_nights(season, 2, 0.15)
    is_right(season)


# --- Deaths ------------------------------------------------------------------------------------------------------


def deaths(n_writes: int, share: int) -> list[int]:
    """After how many writes a night dies: before each of the last ones, and before some of the others."""
    return sorted({*range(max(n_writes - 24, 0), n_writes), *range(0, n_writes, share)})


@pytest.mark.slow(reason="a night dies before each of its writes")
@pytest.mark.parametrize("goes_on", share(["again", "next"], 1))
def test_a_night_dies_before_any_write(goes_on: str, tmp_path: Path) -> None:
    """The same night is started again; or the next one comes instead of it. Held arrivals are among the units."""
    whole = season_of(tmp_path / "whole", "atoms-ghosts", 24, True, hold={"until": "4k", "days": 2})
    whole.spend(whole.prepare())
    pass_nights(whole, 1, 0.2)
    for last in share(deaths(whole.n_writes, 12), 6):
        season = season_of(tmp_path / f"{last}", "atoms-ghosts", 24, True, hold={"until": "4k", "days": 2})
        season.spend(season.prepare())
        season.people.pass_a_day(0.2)
        season.people.change_a_town(2)
        season.day += 1
        tonight = season.prepare()
        writes = season.spend(tonight, last)
        if goes_on == "again":
            season.spend(tonight)
            assert len(season.outsider.seen) == 2
        pass_nights(season, 1, 0.2)
        season.verify()
        assert season.wrong == [], f"died before {writes.about}"
        assert len(season.outsider.seen) in (2, 3)


def died_in_between(season: Season) -> None:
    """A night that is in the ledger, and whose manifest was never written."""
    tonight = season.prepare()
    release = make_release(tonight)
    # Whoever died before is dead for an hour.
    with dying() as writes, mock.patch(ALIVE_FOR, datetime.timedelta(0)):
        for stage in STAGES[:-2]:
            run_stage(stage, release)
        genuine = Store.create

        def create(store: Store, name: str, data: bytes) -> bool:
            if name.endswith("manifest.json"):
                raise Died
            return genuine(store, name, data)

        with pytest.MonkeyPatch.context() as patch, pytest.raises(Died):
            patch.setattr(Store, "create", create)
            run_stage(STAGES[-2], release)
    assert writes.done > 0
    assert not list(season.output.glob(f"{tonight.identity}/*/manifest.json"))


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
def test_a_night_that_was_committed_and_never_published(is_first: bool, tmp_path: Path) -> None:
    """While its run may be alive, nobody goes on; afterwards it is taken back, and again, and all is well."""
    season = season_of(tmp_path, "atoms-ghosts", 60, True, hold={"until": "4k", "days": 3})
    if not is_first:
        season.spend(season.prepare())
        pass_nights(season, 1, 0.1)
    n_seen = len(season.outsider.seen)
    for _ in range(2):
        season.people.pass_a_day(0.1)
        season.day += 1
        died_in_between(season)
        with pytest.raises(StorageError, match="an hour after it died"):
            season.spend(season.prepare(), is_hour_later=False)
        assert len(season.outsider.seen) == n_seen
    season.day += 1
    season.spend(season.prepare())
    assert len(season.outsider.seen) == n_seen + 1
    season.verify()
    pass_nights(season, 2, 0.1)
    is_right(season)


# --- Elsewhere ---------------------------------------------------------------------------------------------------


@pytest.mark.server
def test_a_ledger_in_a_bucket(storage_place: Place, tmp_path: Path) -> None:
    place = {"url": f"{storage_place.url}/ledger", "storage_options": storage_place.storage_options}
    season = season_of(tmp_path, "atoms-ghosts", 60)
    season.series = {**season.series, "ledger": place}
    season.spec = {"work": {"url": f"{storage_place.url}/work", "storage_options": storage_place.storage_options}}
    season.spend(season.prepare())
    pass_nights(season, 2)
    is_right(season)


@pytest.mark.server
@pytest.mark.slow(reason="starts Dask's workers")
def test_workers_give_the_same_bytes(tmp_path: Path) -> None:
    def by_workers(release: Release) -> None:
        with connect(LocalCluster(workers=2, memory="1GiB"), release.spec, Silence()) as workers:
            release.workers = workers
            for stage in STAGES:
                run_stage(stage, release)

    digests = []
    for name, run in (("here", None), ("there", by_workers)):
        season = season_of(tmp_path / name, "atoms-ghosts", 80, True, **({"run": run} if run else {}))
        season.spend(season.prepare())
        pass_nights(season, 2)
        is_right(season)
        digests.append(data_digests(season.output))
    assert digests[0] == digests[1]


# --- What nobody may find ----------------------------------------------------------------------------------------


def test_the_ledger_tells_nothing_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    """No id and no confidential value in the ledger, in names or in documents; nor the key."""
    season = season_of(tmp_path, "atoms-ghosts", 60, True, hold={"until": "9k", "days": 9})
    people = season.people
    marks = {one: f"Zebedaeus{one}Q" for one in people.here}
    for one in people.here:
        people.note[one] = marks[one]
    season.spend(season.prepare())
    pass_nights(season, 2)
    ledger = tmp_path / "work" / "series"
    needles = [*(mark.encode() for mark in marks.values()), b"P0000001", b"north-1", b"the secret of these nights"]
    assert any(needles[0] in path.read_bytes() for path in (tmp_path / "inputs").rglob("*.parquet"))
    files = [path for path in ledger.rglob("*") if path.is_file()]
    assert len(files) > 6
    for path in (tmp_path / "work").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
        assert not any(needle.decode() in str(path.relative_to(tmp_path)) for needle in needles)
        if path.is_file():
            data = path.read_bytes()
            assert not any(needle in data for needle in needles), path
    for path in season.output.rglob("manifest.json"):
        series = json.loads(path.read_text())["series"]
        assert set(series) - {"ghosts"} == {"mode", "guarantee", "night", "smallest_trace"}
        assert series["smallest_trace"] is None
    assert load_spec(str(season.prepare().path)).series is not None
