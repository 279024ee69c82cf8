"""Walk a series by the command alone, day after day, before an outsider who reads all that lies at the output.

A walk is written as ``night; night come=20 leave=4; forget 3; night``: each word is a method of :class:`Walk`, what
follows are its arguments. After every command that ends well everything is looked at; ``end`` looks at all of it again.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import yaml

from microagg_core.release.facts import settled_spec
from microagg_core.spec.loading import load_spec
from microagg_flows.command.cli import main
from microagg_flows.executors import Executor, InProcess
from microagg_flows.progress import Silence
from microagg_flows.release import Release, new_release
from seasons import deaths
from seasons.deaths import ALIVE_FOR, Died, dying
from seasons.outsider import Outsider, Promise
from seasons.population import CONFIDENTIAL, FORMS, ROLES, UNIT, Population
from seasons.readable import Row

_FIRST_DAY = datetime.date(2026, 1, 1)
#: Looks at confidential columns which a tag, ties of real values and few people do not pass.
_LOOKS = ("nearly_unique", "jointly_unique", "fixes_quasi_identifier", "ties_few_records", "completes_mean")
_KEY = "the secret of these nights"
#: How the last look attacks: so many of the newest releases together.
_MOST_ATTACKED = 6


@dataclass(frozen=True)
class Ended:
    """How a command ended; the code is negative where it died."""

    arguments: tuple[str, ...]
    code: int
    out: str
    err: str

    def sentence(self) -> str:
        return " | ".join(line for line in self.err.splitlines() if line.startswith("microagg: "))

    def document(self) -> dict[str, Any]:
        """Standard output as JSON."""
        value: dict[str, Any] = json.loads(self.out)
        return value


class WrongError(AssertionError):
    """A walk cannot go on."""


class NotDeadError(WrongError):
    """A command came to its end before it was to die."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(f"did not die: {ended.code} {ended.sentence()}")
        self.ended = ended


@dataclass
class Walk:
    """Days in a folder; ``spec`` holds more keys of the spec, whose ``series`` of None leaves the series out."""

    folder: Path
    people: Population
    series: dict[str, Any] | None
    k: int = 3
    spec: dict[str, Any] = field(default_factory=dict)
    #: Call the command as a process of its own, and kill it for good where it dies.
    through_process: bool = False
    #: Who calls the command, and who calls it and has it die, in place of this walk.
    caller: Callable[[tuple[str, ...]], Ended] | None = None
    killer: Callable[[tuple[str, ...]], Ended] | None = None
    wrong: list[str] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    day: int = 0
    #: How many writes the newest call of each command took.
    n_writes: dict[str, int] = field(default_factory=dict)
    #: Who was in the input of each day that has one.
    truths: dict[str, Mapping[int, Row]] = field(default_factory=dict)
    #: Whether a command may be refused here, and whether the last one was.
    refused: bool = False
    #: What the newest run that ended well left readable.
    _before: set[int] = field(default_factory=set)
    #: Everybody whom a run that ended well met.
    _met: set[int] = field(default_factory=set)
    #: Whom an erasure that died was about.
    _pending: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "key").write_text(_KEY)
        (self.folder / "key").chmod(0o600)
        self.outsider = Outsider.at(self.folder / "release", self.promise())

    def walk(self, script: str) -> list[str]:
        """Do what is written, word by word, and look at all of it in the end; what is wrong, a sentence each."""
        for sentence in filter(None, (part.strip() for part in script.split(";"))):
            try:
                self.say(sentence)
            except WrongError as error:
                self.wrong.append(f"{sentence}: {error}")
                return self.wrong
        return self.wrong

    def say(self, sentence: str) -> None:
        """Do what one part of a script says; it stops with a WrongError where it cannot be done."""
        verb, *given = sentence.split()
        options = dict(word.split("=", 1) for word in given if "=" in word)
        getattr(self, verb)(
            *(_value(word) for word in given if "=" not in word),
            **{name: _value(value) for name, value in options.items()},
        )

    def replacement_dies(self, last: int = 0) -> None:
        """Publish today's release again with late corrections, and die meanwhile."""
        self.people.change_scores(9)
        self.killed(*self.tonight(is_new=True), "--replace", last=last)

    def pass_day(self, come: int = 0, leave: int = 0, back: int = 0, move: int = 0) -> None:
        """Let a day pass, on which people come, leave, return, and get other scores."""
        self.day += 1
        self.people.leave(leave)
        self.people.come(come)
        self.people.come_back(back)
        self.people.change_scores(move)

    def night(self, come: int = 0, leave: int = 0, back: int = 0, move: int = 0, replace: bool = False) -> None:
        """Run the next night; it has to be published."""
        self.pass_day(come, leave, back, move)
        self.run(replace=replace)

    def run(self, *options: str, replace: bool = False) -> None:
        self.must(*self.tonight(is_new=replace), *(("--replace",) if replace else ()), *options)
        self.look_at_night()

    def replace(self, move: int = 5) -> None:
        """Publish today's release again with late corrections."""
        self.people.change_scores(move)
        self.run(replace=True)

    def refuse(self, *codes: int, come: int = 20, leave: int = 2) -> None:
        """Run the next night, which has to be refused in one sentence with one of the codes, and leave nothing."""
        self.pass_day(come, leave)
        self.refuse_command(*self.tonight(), codes=codes)

    def night_or_refuse(self, come: int = 20, leave: int = 2, move: int = 0) -> None:
        """Run the next night, which is right, or refused in one sentence."""
        self.pass_day(come, leave, move=move)
        ended = self.command(*self.tonight())
        self.refused = ended.code != 0
        if ended.code == 0:
            self.outsider.change(self.promise())
            self.look_at_night()
        else:
            self._refused_well(ended, (2, 3, 4, 5))

    def die(self, before: str = "", last: int = -1, come: int = 12, leave: int = 3, move: int = 0) -> None:
        """Run the next night, which dies before a write of some name, or after so many writes."""
        self.pass_day(come, leave, move=move)
        self.killed(*self.tonight(), before=before, last=last)

    def forget(self, n: int = 2, who: str = "here", before: str = "", last: int = -1) -> None:
        """Erase some: announced and real effect agree, and no readable file holds them; or die on the way."""
        chosen = self._chosen(n, who)
        call = ("forget", "release.yaml", "--units", "units.csv", "--json")
        self._write_units(chosen)
        told = self.must(*call).document()
        self._pending = chosen
        if before or last >= 0:
            self.killed(*call, "--yes", before=before, last=last)
            return
        done = self.must(*call, "--yes").document()
        self.outsider.forgotten |= chosen
        self._look_at_erasure(chosen, told, done)

    def finish(self, units: str = "others") -> None:
        """Finish an erasure that died: with whatever file, or begin it again with the same."""
        if units == "others":
            self._write_units({10**6})
        self.must("forget", "release.yaml", "--units", "units.csv", "--json", "--yes")
        self.outsider.forgotten |= self._pending
        self._look()
        self._before = self._newest()
        self.must("series", "verify", "release.yaml")

    def mode(self, mode: str, leavers: str = "", nights: int = 0) -> None:
        """Change the mode of the series from now on."""
        key = (self.series or {}).get("key_file", str(self.folder / "key"))
        self.series = {"mode": mode, "key_file": key}
        self.series |= {"leavers": leavers} if leavers else {}
        self.series |= {"nights": nights} if mode == "rotation" else {}
        self.series |= {"acknowledge": "overlapping_releases"} if mode == "independent" else {}
        if not self.outsider.seen:
            self.outsider.promise = self.promise()

    def same_mode_again(self, mode: str, leavers: str = "") -> None:
        """After a refusal, go on as before; whoever was refused lost nothing."""
        if self.refused:
            self.mode(mode, leavers, nights=9)
        self.night(come=20, leave=2)

    def adopt(self, mode: str = "atoms", leavers: str = "withhold") -> None:
        """Make the first release, which had no series, night 0 of one: name the ledger's key file."""
        self.series = {"mode": mode, "key_file": str(self.folder / "work" / "series" / "people" / "key")}
        self.series |= {"leavers": leavers} if mode == "atoms" else {}
        self.outsider.promise = self.promise()

    def raise_k(self, k: int) -> None:
        """Ask for a larger k from now on."""
        self.k = k

    def ids_as(self, number: int) -> None:
        """Have the ids come in another form from now on."""
        self.people.form = FORMS[self.people.family][number]

    def backfill(self, days: int = 3, come: int = 15, leave: int = 3, last: int = -1) -> None:
        """Let days pass for which nothing is run, and fill them in, or die meanwhile."""
        first = self.day + 1
        for _ in range(days):
            self.pass_day(come, leave)
            self.tonight()
        call = ("backfill", "release.yaml", "-q", "--direct", "--from", self.date(first), "--to", self.date())
        if last >= 0:
            self.killed(*call, last=last)
            return
        self.must(*call)
        self.look_at_night()

    def backfill_again(self, days: int = 3) -> None:
        call = ("backfill", "release.yaml", "-q", "--direct", "--from", self.date(self.day - days + 1))
        self.must(*call, "--to", self.date())
        self.look_at_night()

    def missed(self, come: int = 10, leave: int = 2) -> None:
        """Let a day pass whose input is there and whose run is not."""
        self.pass_day(come, leave)
        self.tonight()

    def fill_in(self, days_ago: int = 1) -> None:
        """Make a missed day's release after later ones: one more night."""
        day = self.date(self.day - days_ago)
        self.must("backfill", "release.yaml", "-q", "--direct", "--from", day, "--to", day)
        self._look()
        self._before = self._newest()

    def step_by_step(self, come: int = 15, leave: int = 2) -> None:
        """Make the next night task by task."""
        self.pass_day(come, leave)
        self.tonight()
        for _ in range(60):
            ended = self.must("step", "report", "-q", "--id", self.date(), "release.yaml")
            if ended.out == "done\n":
                self.look_at_night()
                return
            step, numbers, key = ended.out.split()
            first, _, final = numbers.partition("-")
            for number in range(int(first), int(final or first) + 1):
                self.must("step", step, "-q", "--number", str(number), "--run", key, "release.yaml")
        raise WrongError("step by step does not come to an end")

    def rebuild(self, damage: str = "generations/00001.json", last: int = -1) -> None:
        """Lose an object of the ledger, and have it made again; or die meanwhile, and go on."""
        (self.ledger / damage).unlink()
        if self.command("series", "verify", "release.yaml").code == 0:
            self.wrong.append(f"series verify says ok without {damage}")
        call = ("series", "rebuild", "release.yaml", "-q")
        if last >= 0:
            self.killed(*call, last=last)
        self.must(*call)
        self.must("series", "verify", "release.yaml")
        self._look()

    def lose_marks(self) -> None:
        """Copy the ledger with a tool that leaves out empty objects."""
        for path in self.ledger.rglob("*"):
            if path.is_file() and path.stat().st_size == 0:
                path.unlink()

    def keep_ledger(self) -> None:
        shutil.copytree(self.ledger, self.folder / "kept")

    def put_back_ledger(self) -> None:
        """Put the copy of the ledger in its place, and keep the other one instead."""
        shutil.move(self.ledger, self.folder / "newer")
        shutil.move(self.folder / "kept", self.ledger)
        shutil.move(self.folder / "newer", self.folder / "kept")
        if self.command("series", "verify", "release.yaml").code == 0:
            self.wrong.append("series verify says ok of a ledger that is an old copy")

    def put_back_newer_ledger(self) -> None:
        shutil.rmtree(self.ledger)
        shutil.move(self.folder / "kept", self.ledger)

    def signed(self) -> None:
        self.must("keys", "signing")
        self.spec["output"] = {"url": "release", "sign": {"key_file": "signing.key"}}

    def verify_signature(self) -> None:
        """Hold the newest release against the key, and against a strict receiver's demands."""
        self.must("verify", "release", "--public-key", "signing.pub", "--k", str(self.k))

    def sign(self, last: int = -1) -> None:
        """Sign the newest release once it is published; or die meanwhile, and sign it again."""
        self.must("keys", "late")
        call = ("sign", "release", "--key", "late.key")
        if last >= 0:
            self.killed(*call, last=last)
        self.must(*call)
        self.must("verify", "release", "--public-key", "late.pub")

    def strays_are_told(self) -> None:
        """Hear of every file that no manifest names, of those who look."""
        if not self.outsider.output.unnamed():
            raise WrongError("nothing lies at the output that no manifest names")
        for command in (("series", "verify"), ("doctor",)):
            ended = self.command(*command, "release.yaml")
            if "no manifest" not in ended.out + ended.err:
                self.wrong.append(f"(u) {' '.join(command)} does not tell of files that no manifest names")

    def lose_newest_generation(self) -> None:
        """Lose the newest document of the ledger: no run may begin, and nobody says ok."""
        max((self.ledger / "generations").iterdir()).unlink()
        if self.command("series", "verify", "release.yaml").code == 0:
            self.wrong.append("series verify says ok of a ledger whose newest generation is gone")

    def others_only(self, n: int = 60) -> None:
        self.people.leave(len(self.people.here))
        self.people.come(n)

    def clean(self) -> None:
        """Remove what failed runs left; nothing that a manifest names."""
        self.must("clean", "release.yaml", "--all")
        self._look()

    def end(self) -> None:
        """Look at everything again, by the command's own checks and by the outsider's arithmetic."""
        self.must("clean", "release.yaml", "--all")
        self._look()
        staged = [path for path in (self.folder / "work" / "runs").rglob("*") if path.is_file()]
        unfinished = list(self.folder.rglob("*.unfinished*"))
        if staged or unfinished:
            self.wrong.append(f"(w) {len(staged)} staged objects and {len(unfinished)} unfinished files are left")
        if self.outsider.output.names():
            self.must("verify", "release")
        if not (self.series and self.outsider.promise.traces and self.outsider.promise.mode != "independent"):
            return
        if rare := self.outsider.n_below():
            self.wrong.append(f"(x) {rare} have a history over all readable files that fewer than {self.k} share")
        if solved := self.outsider.n_solved():
            self.wrong.append(f"(y) the quasi-identifiers of {solved} follow from all readable files")
        self.attack()

    def attack(self) -> None:
        """Attack the releases that can still be read."""
        readable = [p.name for p in self.outsider.output.publications() if p.manifest is not None and p.n_rows]
        withdrawn = {name.rpartition("/")[0] for name in self.outsider.output.names() if "withdrawn" in name}
        urls = [f"release/{name}" for name in readable if name not in withdrawn][-_MOST_ATTACKED:]
        if len(urls) > 1:
            self.must("attack", *urls, "--columns", "tag")

    def begin(self, workers: Executor | None = None) -> Release:
        """Prepare tonight's release for whoever runs its stages, instead of the command."""
        self.tonight()
        now = datetime.datetime.combine(_FIRST_DAY, datetime.time(3), datetime.UTC) + datetime.timedelta(days=self.day)
        spec = settled_spec(load_spec(str(self.folder / "release.yaml")), self.date(), now)
        return new_release(spec, workers or InProcess(Silence()), self.date(), False, now)

    def look_at_night(self) -> None:
        """After a night: nobody is missing, the ledger adds up, and its counts are those of the files."""
        self._look()
        newest = self._newest()
        self._look_for_missing(newest)
        self._before = newest
        self._met |= self.truths[self.date()].keys()
        if self.series is None:
            return
        verified = self.must("series", "verify", "release.yaml")
        self._look_at_counts(verified.out, newest)
        told = (self.outsider.output.newest()[0].get("series") or {}).get("smallest_trace")
        smallest = min(Counter(self.outsider.traces().values()).values(), default=None)
        may_be_silent = self.outsider.promise.traces and self.outsider.promise.mode != "independent"
        if told != smallest and not (told is None and (may_be_silent or smallest is None)):
            self.wrong.append(f"(m) the manifest says that {told} share the rarest trace, the files that {smallest} do")

    def _look_at_counts(self, told: str, newest: set[int]) -> None:
        """The ledger's counts are those of the files: who is in the newest night, and who was ever released."""
        words = ("released", "withheld", "vanished", "forgotten")
        counts = [re.search(rf"([\d,]+) {word}", told) for word in words]
        released, withheld, vanished, forgotten = (int(n[1].replace(",", "")) if n else -1 for n in counts)
        if self._pending and forgotten == len(self.outsider.forgotten | self._pending):
            self.outsider.forgotten |= self._pending  # the erasure died, or lived, when all of it was done
        ever = len(
            {tag for seen in self.outsider.seen if seen.is_named for tag in seen.classes} - self.outsider.forgotten
        )
        here = 0 if self.outsider.promise.mode == "disjoint" else len(newest)  # who was released once has vanished
        told_of = (released, released + withheld + vanished, forgotten)
        if told_of != (here, ever, len(self.outsider.forgotten)):
            found = f"({here}, {ever}, {len(self.outsider.forgotten)})"
            self.wrong.append(
                f"(l) released now, ever, and forgotten are {told_of} by the ledger, {found} by the files"
            )

    def _look_for_missing(self, newest: set[int]) -> None:
        """Arrivals are released, and survivors nobody of whose group left; unless they wait."""
        promise, truth = self.outsider.promise, self.truths[self.date()]
        named = [seen for seen in self.outsider.seen if seen.is_named]
        if "hold" not in (self.series or {}):
            never = truth.keys() - {tag for seen in named for tag in seen.classes} - self.outsider.forgotten
            self.wrong += [f"(n) {len(never)} who are there were never released"] if len(never) >= self.k else []
        if (least := min(Counter(named[-1].classes.values()).values(), default=self.k)) < self.k:
            self.wrong.append(f"(n) a class of {least} where k is {self.k} now")
        if promise.mode == "atoms" and promise.traces:
            groups: dict[Any, set[int]] = {}
            for tag, released in self.outsider.first_released().items():
                groups.setdefault(released, set()).add(tag)
            may_be_here = self._before & truth.keys()
            whole = [group for group in groups.values() if group <= may_be_here and len(group) >= self.k]
            if lost := set().union(*whole) - newest:
                self.wrong.append(f"(n) {len(lost)} survivors of whole groups are not released")

    def _look_at_erasure(self, chosen: set[int], told: dict[str, Any], done: dict[str, Any]) -> None:
        self._look()
        now = self._newest()
        vanished, atoms = self._before - now, self.outsider.atoms_of(chosen) & self._before
        keys = ("named", "forgotten", "with_them")
        if [told.get(key) for key in keys] != [done.get(key) for key in keys]:
            self.wrong.append("(o) the erasure announced other numbers than it did")
        most = done["forgotten"] + done["with_them"]
        exact = (self.series or {}).get("leavers") == "ghosts" and chosen <= self._before
        if len(vanished) > most or (exact and len(vanished) != most) or now - self._before:
            self.wrong.append(f"(o) {len(vanished)} rows vanished where {most} were announced")
        if vanished - atoms and self.outsider.promise.mode not in ("independent", "disjoint"):
            self.wrong.append(f"(o) {len(vanished - atoms)} vanished who share no group with who was erased")
        self._before = now
        self._look_at_counts(self.must("series", "verify", "release.yaml").out, now)

    def _look(self) -> None:
        self.wrong += [f"day {self.day}: {found}" for found in self.outsider.look(self._truth, is_tidy=True)]

    def _truth(self, publication: str) -> Mapping[int, Row]:
        return self.truths.get(publication.split("/", 1)[0], self.truths[self.date()])

    @property
    def ledger(self) -> Path:
        return self.folder / "work" / "series" / "people"

    def date(self, day: int | None = None) -> str:
        return (_FIRST_DAY + datetime.timedelta(days=self.day if day is None else day)).isoformat()

    def promise(self) -> Promise:
        series = self.series or {"mode": "independent"}
        changes = series.get("guarantee") == "trace+changes"
        return Promise(series["mode"], self.k, series.get("leavers", "withhold"), changes, series.get("nights"))

    def tonight(self, is_new: bool = False) -> tuple[str, ...]:
        """Write tonight's input, where it is not there yet or is new, and the spec; the command that runs it."""
        place = self.folder / "in" / self.date()
        if is_new or not place.exists():
            place.mkdir(parents=True, exist_ok=True)
            pq.write_table(self.people.tables(1)[0], place / "people.parquet")
            self.truths[self.date()] = self.people.truth()
        self._write_spec()
        return ("run", "release.yaml", "--direct", "-q", "--json", "--id", self.date())

    def _write_spec(self) -> None:
        spec = {
            "name": "people",
            "id": "date",
            "k": self.k,
            "input": {"url": "in/{date}/*.parquet"},
            "output": {"url": "release"},
            "work": {"url": "work"},
            "roles": ROLES,
            "unit": [UNIT],
            "cluster": "none",
            "refine": "off",
            "risk": "off",
            "acknowledge": {look: list(CONFIDENTIAL) for look in _LOOKS},
            **({} if self.series is None else {"series": {"key_file": str(self.folder / "key"), **self.series}}),
            **self.spec,
        }
        (self.folder / "release.yaml").write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")

    def must(self, *arguments: str) -> Ended:
        """Call the command, which has to end well."""
        ended = self.command(*arguments)
        if ended.code != 0:
            said = ended.sentence() or ended.out[-400:]
            raise WrongError(f"microagg {' '.join(arguments[:2])} ended with {ended.code}: {said}")
        return ended

    def refuse_command(self, *arguments: str, codes: tuple[int, ...] = (2, 3, 4, 5)) -> None:
        self._refused_well(self.command(*arguments), codes or (2, 3, 4, 5))

    def _refused_well(self, ended: Ended, codes: tuple[int, ...]) -> None:
        if ended.code not in codes or ended.sentence().count("microagg: ") != 1:
            raise WrongError(f"ended with {ended.code}, not in one sentence with one of {codes}: {ended.sentence()}")
        self.wrong += self.outsider.look(self._truth, is_tidy=False)

    def command(self, *arguments: str) -> Ended:
        if self.caller is not None:
            ended = self.caller(arguments)
        else:
            ended = self._process(arguments, 10**9) if self.through_process else self._here(arguments)
        self.ended.append(ended)
        self.outsider.is_erasure = arguments[0] == "forget"
        return ended

    def killed(self, *arguments: str, before: str = "", last: int = -1) -> None:
        """Call the command, and have it die."""
        if self.killer is not None:
            ended = self.killer(arguments)
        elif self.through_process:
            ended = self._process(arguments, last)
        else:
            ended = self._here(arguments, None if last < 0 else last, before)
        self.ended.append(ended)
        self.outsider.is_erasure = arguments[0] == "forget"
        if ended.code == 0:
            self.outsider.forgotten |= self._pending if arguments[0] == "forget" else set()
            self._before = self._newest()
        # What an erasure that lived published is its, and not that of the command after it.
        self.wrong += self.outsider.look(self._truth, is_tidy=False)
        if ended.code >= 0:
            raise NotDeadError(ended)
        self._before = self._newest()

    def _here(self, arguments: tuple[str, ...], last: int | None = None, before: str = "") -> Ended:
        out, err, code = io.StringIO(), io.StringIO(), 0
        with (
            _undisturbed(),
            contextlib.chdir(self.folder),
            mock.patch.object(sys, "argv", ["microagg", *arguments]),
            mock.patch(ALIVE_FOR, datetime.timedelta(0)),
            dying(last, before) as writes,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as end:
                code = int(end.code or 0)
            except Died:
                pass
        if writes.about:  # it died, whoever caught that on its way out
            code = -int(signal.SIGKILL)
        if code == 0:
            self.n_writes[arguments[0]] = writes.done
        return Ended(arguments, code, out.getvalue(), err.getvalue())

    def _process(self, arguments: tuple[str, ...], last: int) -> Ended:
        done = subprocess.run(
            [sys.executable, deaths.__file__, str(last), *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Ended(arguments, done.returncode, done.stdout, done.stderr)

    def _chosen(self, n: int, who: str) -> set[int]:
        released = {tag for seen in self.outsider.seen for tag in seen.classes}
        here, gone = set(self.people.here) & self._met, set(self.people.gone)
        of = {"here": here, "gone": gone & released, "ghosts": gone & self._before, "waiting": here - released}[who]
        among = sorted(of - self.outsider.forgotten)
        if not among:
            raise WrongError(f"there is nobody to erase of those who are {who}")
        drawn = self.people.draw.permutation(len(among))[:n]
        return {among[int(i)] for i in drawn}

    def _write_units(self, tags: set[int]) -> None:
        ids = self.people.ids(np.array(sorted(tags))).to_pylist()
        (self.folder / "units.csv").write_text(f"{UNIT}\n" + "".join(f'"{i}"\n' for i in ids), encoding="utf-8")

    def _newest(self) -> set[int]:
        return self.outsider.output.newest()[1] if self.outsider.output.manifests() else set()


def _value(word: str) -> Any:
    return int(word) if word.lstrip("-").isdigit() else word


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """The command sets a signal handler and environment variables of its process; here they are put back."""
    handler = signal.getsignal(signal.SIGTERM)
    with mock.patch.dict(os.environ):
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, handler)
