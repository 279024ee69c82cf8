"""Nights by the hundred: fuzzed seasons of a series by the command, before an outsider who reads every file.

    python tests/soak/nights.py --minutes 60 --seed 1 --json nights.json
    python tests/soak/nights.py --seed 17 --seasons 1        # one season, again

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
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from seasons.population import FORMS, Population
from seasons.walk import Ended, NotDeadError, Walk, WrongError

#: Ways to go on after a run or an erasure died, and chances of what happens on a day.
_AFTER_A_DEATH = ("again", "next", "next", "clean", "forget", "late")
_CHANCES = {
    "night": 0.34, "death": 0.24, "erasure": 0.08, "erasure dies": 0.05, "replaced": 0.06, "missed": 0.05,
    "filled in": 0.06, "backfill": 0.04, "backfill dies": 0.03, "other ids": 0.05,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A season to be had; its seed decides everything."""

    seed: int
    series: dict[str, Any]
    k: int
    people: int
    days: int
    churn: float
    blocks: dict[str, str]
    family: str
    is_real: bool
    raises_k: bool
    changes_mode: str
    through_process: bool

    def line(self) -> str:
        series = [str(value) for key, value in self.series.items() if key not in ("hold", "acknowledge")]
        words = [*series, *self.blocks.values(), f"k={self.k}", f"{self.people} people", f"churn {self.churn:g}"]
        words += ["hold"] * ("hold" in self.series) + ["by processes"] * self.through_process
        words += [f"then {self.changes_mode}"] * bool(self.changes_mode) + [f"{self.family} ids", f"seed {self.seed}"]
        return ", ".join(words)


def case_of(seed: int) -> Case:
    """Draw a season."""
    draw = np.random.default_rng(seed)

    def one_of(*of: Any) -> Any:
        return of[int(draw.integers(len(of)))]

    mode = one_of("atoms", "atoms", "atoms", "rotation", "disjoint", "independent")
    series: dict[str, Any] = {"mode": mode}
    if mode in ("atoms", "rotation"):
        series["leavers"] = one_of("withhold", "ghosts", "ghosts", "decoys")
        series["guarantee"] = one_of("trace", "trace+changes")
    series |= {"nights": int(draw.integers(2, 9))} if mode == "rotation" else {}
    series |= {"acknowledge": "overlapping_releases"} if mode == "independent" else {}
    if mode != "independent" and draw.random() < 0.25:
        series["hold"] = {"until": f"{draw.integers(2, 8)}k", "days": int(draw.integers(1, 5))}
    through_process = draw.random() < 0.08
    return Case(
        seed=seed,
        series=series,
        k=int(draw.integers(2, 6)),
        people=int(np.exp(draw.uniform(np.log(25), np.log(60 if draw.random() < 0.3 else 500)))),
        days=int(draw.integers(4, 6 if through_process else 15)),
        churn=one_of(0.01, 0.04, 0.15),
        blocks={"undersized": "merge", "labels": one_of("list", "list", "star", "parent")},
        family=one_of(*FORMS),
        is_real=bool(draw.integers(2)),
        raises_k=draw.random() < 0.1,
        changes_mode=one_of("atoms", "disjoint", "rotation", "independent") if draw.random() < 0.15 else "",
        through_process=through_process,
    )


@dataclass
class Verdict:
    case: Case
    wrong: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    releases: int = 0
    histories: int = 0
    #: None: nothing is promised of them.
    solved: int | None = None
    below_k: int | None = None
    forgotten: int = 0
    forgotten_readable: int = 0
    solved_where_nothing_is_promised: int = 0
    seconds: float = 0.0


class Season:
    """A walk whose words are drawn."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.verdict = case, Verdict(case)
        self.draw = np.random.default_rng([case.seed, 1])
        people = Population(case.people, case.seed, case.is_real, case.family)
        self.walk = Walk(folder, people, dict(case.series), case.k, {"blocks": dict(case.blocks)})
        self.walk.through_process = case.through_process
        self.missed: list[int] = []

    def spend(self) -> Verdict:
        """Spend all days, and look at everything in the end."""
        start, walk, verdict = time.perf_counter(), self.walk, self.verdict
        event = "night"
        try:
            for day in range(self.case.days):
                event = self._event() if day else "night"
                verdict.events[event] += 1
                self._day(event)
                if walk.wrong:  # what is wrong once is so on every later look
                    break
            walk.end()
        except WrongError as error:
            walk.wrong.append(f"day {walk.day} ({event}): {error}")
        except Exception:
            walk.wrong.append(f"day {walk.day} ({event}): the campaign itself failed: {traceback.format_exc()}")
        self._count()
        verdict.wrong, verdict.seconds = walk.wrong, round(time.perf_counter() - start, 1)
        return verdict

    def _event(self) -> str:
        if self.case.changes_mode and self.walk.day == self.case.days // 2:
            return "other mode"
        if self.case.raises_k and self.walk.day == self.case.days // 2:
            return "other k"
        event = str(self.draw.choice(list(_CHANCES), p=np.array(list(_CHANCES.values())) / sum(_CHANCES.values())))
        return "night" if event == "filled in" and not self.missed else event

    def _churn(self) -> dict[str, int]:
        """Draw who comes, leaves and changes; confidential columns move for few, for many, or for all."""
        n, draw = max(len(self.walk.people.here), 1), self.draw
        come, leave = (int(draw.poisson(self.case.churn * n)) for _ in range(2))
        come = 0 if draw.random() < 0.1 else come + 2 * self.case.k
        move = int(n * draw.choice([0.0, self.case.churn, 0.5, 1.0]))
        return {"come": come, "leave": 0 if draw.random() < 0.2 else leave, "move": move}

    def _day(self, event: str) -> None:
        walk, churn = self.walk, self._churn()
        back = int(self.draw.integers(3))
        if event == "missed":
            self.missed.append(walk.day + 1)
        happen: dict[str, Callable[[], object]] = {
            "night": lambda: walk.night(**churn, back=back),
            "replaced": lambda: walk.replace(churn["move"]),
            "missed": lambda: walk.missed(churn["come"], churn["leave"]),
            "filled in": lambda: walk.fill_in(walk.day - self.missed.pop()),
            "backfill": lambda: self._backfill(False, churn),
            "backfill dies": lambda: self._backfill(True, churn),
            "erasure": lambda: walk.forget(int(self.draw.integers(1, 4)), self._who()),
            "erasure dies": self._erasure_dies,
            "death": lambda: self._death(churn),
            "other mode": self._other_mode,
        }
        if event == "other ids":
            walk.ids_as(int(self.draw.integers(len(FORMS[self.case.family]))))
        elif event == "other k":
            walk.raise_k(self.case.k + 1)
        happen.get(event, lambda: walk.night(**churn))()

    def _other_mode(self) -> None:
        before = dict(self.walk.series or {})
        self.walk.mode(self.case.changes_mode, "ghosts" if self.case.changes_mode in ("atoms", "rotation") else "", 9)
        self.walk.night_or_refuse()
        self.verdict.events["other mode, refused"] += self.walk.refused
        if self.walk.refused:
            self.walk.series = before
        self.walk.night(come=3 * self.case.k)

    def _who(self) -> str:
        walk = self.walk
        released = {tag for seen in walk.outsider.seen for tag in seen.classes} - walk.outsider.forgotten
        return "gone" if self.draw.random() < 0.3 and released & set(walk.people.gone) else "here"

    def _last(self, command: str) -> int:
        """Draw a write; half of them near the end, where ledger and output are written."""
        n = max(self.walk.n_writes.get(command, 60), 1)
        return int(self.draw.integers(n)) if self.draw.random() < 0.4 else n - 1 - int(self.draw.integers(min(n, 45)))

    def _death(self, churn: dict[str, int]) -> None:
        walk = self.walk
        try:
            walk.die(last=self._last("run"), **churn)
        except NotDeadError as lived:
            self._lived(lived.ended)
            return
        how = str(self.draw.choice(_AFTER_A_DEATH))
        self.verdict.events[f"death, then {how}"] += 1
        if how == "again":
            walk.run()
        elif how == "clean":
            walk.clean()
        elif how == "forget":
            walk.forget(1, self._who())
        elif how == "late":
            walk.night(**self._churn())
            walk.fill_in(1)
        if how != "again":
            walk.night(**self._churn())

    def _erasure_dies(self) -> None:
        walk = self.walk
        try:
            walk.forget(int(self.draw.integers(1, 4)), self._who(), last=self._last("forget"))
        except NotDeadError:
            self.verdict.events["death missed"] += 1
        if self.draw.random() < 0.5:
            walk.night_or_refuse()
            self.verdict.events["night refused beside an erasure"] += walk.refused
        walk.finish("same")

    def _backfill(self, dies: bool, churn: dict[str, int]) -> None:
        try:
            self.walk.backfill(2, churn["come"], churn["leave"], last=self._last("run") if dies else -1)
        except NotDeadError as lived:
            self._lived(lived.ended)
            return
        if dies:
            self.walk.backfill_again(2)

    def _lived(self, ended: Ended) -> None:
        """A death that was to come after the end of the run: judged as any run, and counted."""
        self.verdict.events["death missed"] += 1
        if ended.code != 0:
            raise WrongError(f"ended with {ended.code}: {ended.sentence()}")
        self.walk.look_at_night()

    def _count(self) -> None:
        """Count by what all readable files say, named or not."""
        outsider, verdict = self.walk.outsider, self.verdict
        verdict.releases = len(outsider.publications)
        verdict.histories = len(set(outsider.traces().values()))
        verdict.forgotten = len(outsider.forgotten)
        if not self.walk.wrong:
            verdict.forgotten_readable = len(outsider.forgotten & outsider.output.readable_tags())
        if outsider.promise.traces and outsider.promise.mode != "independent":
            verdict.below_k, verdict.solved = outsider.n_below(), outsider.n_solved()
        else:
            verdict.solved_where_nothing_is_promised = outsider.n_solved()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fuzzed seasons of a series, before an outsider who reads every file.")
    parser.add_argument("--minutes", type=float, default=30.0, help="no season begins later than that")
    parser.add_argument("--seasons", type=int, help="at most so many")
    parser.add_argument("--seed", type=int, default=0, help="of the first season; the next has the next")
    parser.add_argument("--json", type=Path, help="also write the record here, after every season")
    parser.add_argument("--folder", type=Path, help="where to work; what went wrong stays there")
    return parser.parse_args()


def totals(verdicts: list[Verdict]) -> str:
    """Sum up the counts that matter, of all seasons."""
    events: Counter[str] = sum((v.events for v in verdicts), Counter())
    solved, below, erased = (
        sum(getattr(v, name) or 0 for v in verdicts) for name in ("solved", "below_k", "forgotten")
    )
    readable = sum(v.forgotten_readable for v in verdicts)
    seen = sum(v.solved_where_nothing_is_promised for v in verdicts)
    return "\n".join([
        ", ".join(f"{n} {event}" for event, n in sorted(events.items())),
        f"{len(verdicts)} seasons, {sum(v.releases for v in verdicts)} releases, "
        f"{sum(v.histories for v in verdicts)} histories; by all readable files {solved} people solved, "
        f"{below} with a history below k, {readable} of {erased} who were erased readable "
        f"({seen} solved where nothing is promised); {sum(bool(v.wrong) for v in verdicts)} seasons wrong",
    ])  # fmt: skip


def main() -> int:
    asked = arguments()
    folder = (asked.folder or Path(tempfile.mkdtemp(prefix="microagg-nights-"))).resolve()
    deadline = time.monotonic() + 60 * asked.minutes
    verdicts: list[Verdict] = []
    while time.monotonic() < deadline and (asked.seasons is None or len(verdicts) < asked.seasons):
        seed = asked.seed + len(verdicts)
        shutil.rmtree(folder / str(seed), ignore_errors=True)
        verdict = Season(case_of(seed), folder / str(seed)).spend()
        verdicts.append(verdict)
        word = f"WRONG {len(verdict.wrong)}" if verdict.wrong else "right"
        print(f"{word:<8} {verdict.seconds:7.1f} s  {verdict.case.line()}", flush=True)
        for wrong in verdict.wrong:
            print(f"    WRONG: {wrong}", flush=True)
        if verdict.wrong:
            print(f"    python tests/soak/nights.py --seed {seed} --seasons 1    # its files: {folder / str(seed)}")
        else:
            shutil.rmtree(folder / str(seed))
        if asked.json:
            asked.json.write_text(json.dumps([{**vars(v), "case": asdict(v.case)} for v in verdicts], indent=1))
    print(totals(verdicts))
    return 1 if any(v.wrong for v in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
