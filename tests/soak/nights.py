"""Nights by the hundred: series over changing people, with deaths, misses and replacements, before an outsider's eyes.

    python tests/soak/nights.py --nights 60 --people 20000 --k 3,5 --churn 0.002,0.01,0.05
    python tests/soak/nights.py --nights 10 --people 300 --modes atoms-ghosts --seed 7
    python tests/soak/nights.py --small 300

Exit code 0 where nothing went wrong, 1 where something did. See the README beside this file.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from microagg_core.attack.attacking import attack
from microagg_core.errors import MicroaggError
from seasons.exact import smallest_support
from seasons.population import TAG, Population
from seasons.season import MODES, Season, Tonight, series_of

SAFE = [mode for mode in MODES if mode != "independent"]
#: Of the releases of a season so many of the newest are attacked together.
MOST_ATTACKED = 12
#: How often something happens instead of a night, or to it.
CHANCES = {"missed": 0.05, "replaced": 0.05, "died, again": 0.06, "died, next": 0.05, "died, late": 0.03}


@dataclass(frozen=True)
class Case:
    """A season to be had."""

    mode: str
    k: int
    churn: float
    people: int
    nights: int
    seed: int
    changes: bool
    hold: bool

    def line(self) -> str:
        """Its name."""
        words = [self.mode, f"k={self.k}", f"churn {self.churn:g}", f"{self.people} people", f"seed {self.seed}"]
        return ", ".join(words + ["changes"] * self.changes + ["hold"] * self.hold)


@dataclass
class Verdict:
    """What came of a season."""

    case: Case
    wrong: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    releases: int = 0
    solved: int = 0
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "events": dict(self.events)}


class Year:
    """A season night after night, with events drawn from its seed."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.verdict = Verdict(case)
        self.draw = np.random.default_rng(
            [case.seed, case.k, case.people, SAFE.index(case.mode) if case.mode in SAFE else 9]
        )
        hold = {"until": "4k", "days": 4} if case.hold else None
        people = Population(case.people, case.seed)
        self.season = Season(folder, people, series_of(case.mode, folder, case.changes, hold), case.k)
        self.late: Tonight | None = None

    def spend(self) -> Verdict:
        """All nights, and the attack in the end."""
        case, season = self.verdict.case, self.season
        start = time.perf_counter()
        for night in range(case.nights):
            event = self._event() if night else ""
            self.verdict.events[event or "undisturbed"] += 1
            try:
                self._night(event)
                season.verify()
            except MicroaggError as error:
                season.wrong.append(f"day {season.day} ({event}): exit {error.exit_code}: {error.message}")
            except Exception:
                season.wrong.append(f"day {season.day} ({event}): {traceback.format_exc()}")
            season.forget_inputs()
            season.day += 1
            season.people.pass_a_day(case.churn)
            if self.draw.random() < 0.2:
                season.people.change_a_town(2)
        self._attack()
        self.verdict.wrong = season.wrong
        self.verdict.releases = len(season.outsider.seen)
        self.verdict.seconds = round(time.perf_counter() - start, 1)
        return self.verdict

    def _event(self) -> str:
        lot = self.draw.random()
        for event, chance in CHANCES.items():
            lot -= chance
            if lot < 0:
                return event
        return ""

    def _night(self, event: str) -> None:
        season = self.season
        if event == "missed":
            return
        tonight = season.prepare()
        if event.startswith("died"):
            self._die(event, tonight)
            return
        season.spend(tonight)
        if self.late is not None:  # a run that died nights ago is started again
            late, self.late = self.late, None
            season.spend(late)
        if event == "replaced":
            season.verify()
            season.people.correct(self.verdict.case.churn)
            season.people.pass_a_day(self.verdict.case.churn)
            season.spend(season.prepare(replace=True))

    def _die(self, event: str, tonight: Tonight) -> None:
        """Before any write; half of them near the end, where ledger and output are written."""
        season, n = self.season, max(self.season.n_writes, 1)
        last = int(self.draw.integers(n)) if self.draw.random() < 0.5 else n - 1 - int(self.draw.integers(min(n, 25)))
        season.spend(tonight, last)
        if event == "died, again":
            season.spend(tonight)
        elif event == "died, late":
            self.late = tonight

    def _attack(self) -> None:
        """(g) Nobody is solved; many are where nothing is promised."""
        urls = self.season.releases()[-MOST_ATTACKED:]
        if len(urls) < 2:
            return
        report = attack(urls, [TAG]).report
        self.verdict.solved = report.records_solved
        if self.verdict.case.mode == "independent":
            if not report.records_solved:
                self.season.wrong.append("(g) the attack solves nobody where nothing is promised: it proves nothing")
        elif not report.is_safe:
            found = f"{report.records_solved} solved, {report.below_k} below k"
            self.season.wrong.append(f"(g) the attack wins: {found}")


def small_season(seed: int, folder: Path) -> Verdict:
    """(h) A small season whose published sums are all combined, in exact arithmetic."""
    draw = np.random.default_rng(seed)
    case = Case(
        mode=SAFE[seed % len(SAFE)],
        k=int(draw.integers(2, 4)),
        churn=float(draw.choice([0.02, 0.05, 0.15])),
        people=int(draw.integers(20, 61)),
        nights=int(draw.integers(3, 9)),
        seed=seed,
        changes=bool(draw.integers(2)),
        hold=bool(draw.random() < 0.3),
    )
    year = Year(case, folder)
    verdict = year.spend()
    size = smallest_support([seen.classes for seen in year.season.outsider.seen], case.k)
    if size is not None:
        verdict.wrong.append(f"(h) a combination of published sums is about {size} units")
    return verdict


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description="Series of nights before the eyes of an outsider who knows the truth.")
    parser.add_argument("--nights", type=int, default=60)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--modes", default=",".join(MODES), help="of " + ", ".join(MODES))
    parser.add_argument("--k", default="3,5")
    parser.add_argument("--churn", default="0.002,0.01,0.05", help="share of people who leave, come and change a night")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", type=int, help="instead: so many small seasons, with every combination of all sums")
    parser.add_argument("--json", type=Path, help="also write the record here, after every season")
    parser.add_argument("--folder", type=Path, help="where to work; what went wrong stays there")
    return parser.parse_args(given)


def cases(asked: argparse.Namespace) -> list[Case]:
    """Seasons of every mode, k and churn; guarantee and hold take turns."""
    modes, ks = asked.modes.split(","), [int(k) for k in asked.k.split(",")]
    churns = [float(churn) for churn in asked.churn.split(",")]
    wanted = enumerate(product(modes, ks, churns), start=asked.seed)
    return [
        Case(mode, k, churn, asked.people, asked.nights, asked.seed, changes=n % 2 == 0, hold=n % 3 == 0)
        for n, (mode, k, churn) in wanted
    ]


def main(given: list[str] | None = None) -> int:
    """Have the seasons, print what was wrong."""
    asked = arguments(given)
    folder = (asked.folder or Path(tempfile.mkdtemp(prefix="microagg-nights-"))).resolve()
    wanted = list(range(asked.seed, asked.seed + asked.small)) if asked.small else cases(asked)
    verdicts: list[Verdict] = []
    for number, one in enumerate(wanted):
        place = folder / f"{number:04d}"
        place.mkdir(parents=True)
        verdict = small_season(one, place) if isinstance(one, int) else Year(one, place).spend()
        verdicts.append(verdict)
        events = ", ".join(f"{n} {event}" for event, n in sorted(verdict.events.items()))
        word = f"WRONG {len(verdict.wrong)}" if verdict.wrong else "right"
        print(
            f"{word:<8} {verdict.seconds:7.1f} s  {verdict.case.line()}: {events}; {verdict.solved} solved", flush=True
        )
        for wrong in verdict.wrong:
            print(f"    WRONG: {wrong}", flush=True)
        if not verdict.wrong:
            shutil.rmtree(place)
        if asked.json:
            asked.json.write_text(json.dumps([v.document() for v in verdicts], indent=1))
    n_wrong = sum(bool(v.wrong) for v in verdicts)
    print(f"{len(verdicts)} seasons, {sum(v.releases for v in verdicts)} releases, {n_wrong} seasons wrong")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
