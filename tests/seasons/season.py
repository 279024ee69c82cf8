"""A series of nights over a changing population, with whatever may happen to it, under an outsider's eyes."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import yaml

from microagg_core.series.ledger import ledger_of
from microagg_core.series.verification import verify_ledger
from microagg_core.spec.loading import load_spec
from microagg_flows.executors import InProcess
from microagg_flows.progress import Silence
from microagg_flows.release import Release, new_release
from microagg_flows.stages import STAGES, run_stage
from seasons.deaths import ALIVE_FOR, Died, Writes, dying
from seasons.outsider import Outsider, Promise
from seasons.population import CONFIDENTIAL, ROLES, UNIT, Population
from seasons.readable import Row

_FIRST_DAY = datetime.datetime(2026, 1, 1, 3, 0, tzinfo=datetime.UTC)
_KEY = "the secret of these nights"
#: What a spec says of each of the safe ways.
MODES: dict[str, dict[str, Any]] = {
    "atoms-withhold": {"mode": "atoms", "leavers": "withhold"},
    "atoms-ghosts": {"mode": "atoms", "leavers": "ghosts"},
    "atoms-decoys": {"mode": "atoms", "leavers": "decoys"},
    "rotation": {"mode": "rotation", "leavers": "ghosts", "nights": 9},
    "disjoint": {"mode": "disjoint"},
    "independent": {"mode": "independent", "acknowledge": "overlapping_releases"},
}
#: Runs the stages of a release.
Runner = Callable[[Release], object]


@dataclass(frozen=True)
class Tonight:
    """What is asked for: a spec over an input of its own, and who is in that."""

    path: Path
    identity: str
    now: datetime.datetime
    replace: bool
    truth: Mapping[int, Row]


def run_all(release: Release) -> None:
    """All stages, one after the other."""
    for stage in STAGES:
        run_stage(stage, release)


def make_release(tonight: Tonight) -> Release:
    workers = InProcess(Silence())
    return new_release(load_spec(str(tonight.path)), workers, tonight.identity, tonight.replace, tonight.now)


def series_of(mode: str, folder: Path, changes: bool = False, hold: Mapping[str, Any] | None = None) -> dict[str, Any]:
    key = folder / "key"
    if not key.exists():
        key.write_text(_KEY)
        key.chmod(0o600)
    series = {**MODES[mode], "key_file": str(key)}
    if mode not in ("disjoint", "independent"):
        series["guarantee"] = "trace+changes" if changes else "trace"
    return {**series, "hold": dict(hold)} if hold and mode != "independent" else series


def promise_of(series: Mapping[str, Any], k: int) -> Promise:
    changes = series.get("guarantee") == "trace+changes"
    return Promise(series["mode"], k, series.get("leavers", "withhold"), changes, series.get("nights"))


@dataclass
class Season:
    """Nights in a folder; ``spec`` holds more keys of the spec."""

    folder: Path
    people: Population
    series: Mapping[str, Any]
    k: int = 3
    spec: Mapping[str, Any] = field(default_factory=dict)
    run: Runner = run_all
    n_parts: int = 2
    #: What was wrong, a sentence each.
    wrong: list[str] = field(default_factory=list)
    #: How many writes the newest night that lived took.
    n_writes: int = 0
    day: int = 0
    _n_inputs: int = 0

    def __post_init__(self) -> None:
        self.outsider = Outsider.at(self.output, promise_of(self.series, self.k))

    @property
    def output(self) -> Path:
        return self.folder / "output"

    def prepare(self, replace: bool = False) -> Tonight:
        """Write tonight's input and spec."""
        self._n_inputs += 1
        place = self.folder / "inputs" / f"{self._n_inputs:04d}"
        place.mkdir(parents=True)
        for i, table in enumerate(self.people.tables(self.n_parts)):
            pq.write_table(table, place / f"part-{i}.parquet")
        spec = {
            "name": "people",
            "k": self.k,
            "input": {"url": f"{place}/*.parquet"},
            "output": {"url": str(self.output)},
            "work": {"url": str(self.folder / "work")},
            "roles": ROLES,
            "unit": [UNIT],
            "series": dict(self.series),
            "acknowledge": {"nearly_unique": list(CONFIDENTIAL), "fixes_quasi_identifier": list(CONFIDENTIAL)},
            "refine": "fast",
            **self.spec,
        }
        path = place.with_suffix(".yaml")
        path.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
        now = _FIRST_DAY + datetime.timedelta(days=self.day)
        return Tonight(path, now.date().isoformat(), now, replace, self.people.truth())

    def spend(self, tonight: Tonight, last: int | None = None, is_hour_later: bool = True) -> Writes:
        """Run a night; it dies after ``last`` writes where that is given. What it published is looked at anyhow."""
        alive = datetime.timedelta(0) if is_hour_later else datetime.timedelta(hours=1)
        try:
            with dying(last) as writes, mock.patch(ALIVE_FOR, alive):
                self.run(make_release(tonight))
            self.n_writes = writes.done
        except BaseException as stopped:
            self.wrong += self.outsider.look(lambda _: tonight.truth, is_tidy=False)
            if not isinstance(stopped, Died):
                raise
        else:
            self.wrong += self.outsider.look(lambda _: tonight.truth)
        return writes

    def verify(self) -> None:
        """``microagg series verify`` has nothing to say."""
        spec = load_spec(str(sorted((self.folder / "inputs").glob("*.yaml"))[-1]))
        failed = [check for check in verify_ledger(ledger_of(spec)) if not check.passed]
        self.wrong += [f"(f) series verify, day {self.day}: {check.name}: {check.detail}" for check in failed]

    def forget_inputs(self, but: int = 4) -> None:
        """Remove the inputs of nights that nobody starts again."""
        for place in sorted(path for path in (self.folder / "inputs").iterdir() if path.is_dir())[:-but]:
            shutil.rmtree(place)

    def releases(self) -> list[str]:
        """All revisions that hold a record, in the order in which they were published."""
        return [str(self.output / seen.name) for seen in self.outsider.seen if seen.is_named and seen.rows]
