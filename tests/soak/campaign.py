"""The campaign: draws kinds and moments from a seed, has each case judged, and keeps the record."""

from __future__ import annotations

import random
import shutil
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from soak import judge, processes
from soak.case import Case, MissedError
from soak.data import Configuration
from soak.kinds import CODES, DONE_AGAIN, Kind
from soak.reader import Reader, Reuse
from soak.reference import References
from soak.site import Site

UNDISTURBED = "undisturbed"
SURVIVED, RESUMED, WRONG, MISSED = "survived", "failed and resumed", "wrong", "missed"
#: A case that takes longer is stuck in the campaign itself: every command has a shorter limit of its own.
_MOST_SECONDS = 3000
_SHARE_THROUGH_PREFECT = 0.3
_SHARE_LOOKED_AT_AGAIN = 0.3
_READ_EVERY = 0.2


class TooLongError(Exception):
    """A case did not come to its end."""


@dataclass
class Verdict:
    kind: str
    family: str
    seed: int
    outcome: str
    configuration: str
    through_prefect: bool
    did: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    wrongs: list[str] = field(default_factory=list)
    seconds: float = 0.0
    #: The share of all tasks that the re-run found done.
    reused: float | None = None
    folder: str = ""

    def line(self) -> str:
        """Write a line for the terminal."""
        how = "prefect" if self.through_prefect else "direct"
        reused = f", {100 * self.reused:.0f} % used again" if self.reused is not None else ""
        did = ", ".join(self.did)
        return f"{self.outcome:<18} {self.kind} ({self.configuration}, {how}; {did}){reused} {self.seconds:.0f} s"


@dataclass
class Campaign:
    """Runs cases below one folder."""

    folder: Path
    kernels: Path
    rows: int
    undo: ExitStack
    references: References = field(init=False)
    verdicts: list[Verdict] = field(default_factory=list)
    _bucket: Any = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.references = References(self.folder / "references", self.kernels, self.rows)

    def run(self, kinds: list[Kind], seed: int, minutes: float, cases: int | None) -> Iterator[Verdict]:
        """Run case after case, every kind as often as the others, until the time is up or there are enough."""
        deadline = time.monotonic() + 60 * minutes
        turn = n_cases = 0
        while True:
            order = list(kinds)
            random.Random(seed + turn).shuffle(order)
            for kind in order:
                if time.monotonic() > deadline or (cases is not None and n_cases >= cases):
                    return
                n_cases += 1
                for verdict in self._verdicts_of(kind, seed + turn):
                    self.verdicts.append(verdict)
                    yield verdict
            turn += 1

    def _verdicts_of(self, kind: Kind, seed: int) -> Iterator[Verdict]:
        """Run one case; what is wrong without any fault is said once, and not held against those after it."""
        draw = random.Random(f"{seed} {kind.name}")
        configuration = draw.choice(kind.configurations)
        drawn = draw.random() < _SHARE_THROUGH_PREFECT
        through_prefect = drawn if kind.through_prefect is None else kind.through_prefect
        if configuration not in self.references.made:
            wrongs = list(self.references.of(configuration).wrongs)
            outcome = WRONG if wrongs else SURVIVED
            yield Verdict(UNDISTURBED, "", 0, outcome, configuration.name, False, wrongs=wrongs)
        verdict = Verdict(kind.name, kind.family, seed, MISSED, configuration.name, through_prefect)
        self._judged(kind, draw, configuration, verdict)
        yield verdict

    def _judged(self, kind: Kind, draw: random.Random, configuration: Configuration, verdict: Verdict) -> None:
        """Carry a case from its beginning to its verdict; a wrong one keeps its folder."""
        start, folder = time.monotonic(), self.folder / f"{kind.name}-{verdict.seed}"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            with ExitStack() as undo, _limit():
                site = Site(folder, configuration, self.references.kernels)
                undo.callback(processes.end, site.mark, helpers=True)
                reference = self.references.of(configuration)
                site.take_input(reference.input)
                bucket = self._faulty_bucket() if kind.in_bucket else None
                if bucket is not None:
                    bucket.serve(site, undo)
                reader = Reader(site.output, _READ_EVERY * (1 + 3 * kind.in_bucket), allowed={reference.content})
                prefect = verdict.through_prefect
                case = Case(kind, site, draw, reference, self.references, prefect, reader, undo, bucket)
                self._carry_out(case, verdict)
        except TooLongError:
            verdict.wrongs.append(f"the campaign gave up after {_MOST_SECONDS} s")
        except Exception:  # a trouble of the campaign's own: the record has it, and the next case is another
            verdict.wrongs.append(f"the campaign itself failed: {traceback.format_exc(limit=-4)}")
        if verdict.wrongs:
            verdict.outcome, verdict.folder = WRONG, str(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        verdict.seconds = time.monotonic() - start

    def _carry_out(self, case: Case, verdict: Verdict) -> None:
        case.again, verdict.did = case.arguments(), case.did
        case.reader.start()
        missed = False
        try:
            try:
                case.kind.act(case)
            except MissedError as error:  # nothing struck, so all has to be as if nothing were
                verdict.did.append(str(error))
                missed = True
            self._look_at_ends(case, verdict)
            if missed and not case.ended:
                return
            undisturbed = not any(ended.killed for ended in case.ended) and not case.has_rivals
            self._judge(case, verdict)
            if missed and undisturbed and verdict.outcome != SURVIVED:
                verdict.wrongs.append("nothing struck, and a command failed all the same")
            if missed:
                verdict.outcome = MISSED
        finally:
            case.reader.stop()
            verdict.ends = [f"exit {e.code}: {'; '.join(e.sentences())}" for e in case.ended]

    @staticmethod
    def _look_at_ends(case: Case, verdict: Verdict) -> None:
        for command in list(case.running):
            case.finish(command)
        codes = CODES[case.kind.family]
        verdict.wrongs += [wrong for ended in case.ended for wrong in judge.of_command(ended, codes)]

    def _judge(self, case: Case, verdict: Verdict) -> None:
        wrongs = verdict.wrongs
        for ended in case.ended:
            wrongs += judge.of_false_words(case, ended)
        wrongs += judge.of_leftovers(case)
        failed = case.failed
        killed = any(ended.killed for ended in case.ended)
        if failed and not killed and not case.may_leave_uploads:
            wrongs += judge.of_unnamed_objects(case)
        if case.reuse is not None:
            verdict.reused = case.reuse.share()
            verdict.wrongs += self._done_again(case, case.reuse)
        drawn = case.random.random() < _SHARE_LOOKED_AT_AGAIN
        again = case.look_at_end is None and (failed or case.always_again or drawn)
        if again or case.bucket is not None:
            case.mend()
        if again:
            self._again(case, verdict)
        wrongs += case.wrongs
        wrongs += judge.of_end(case)
        wrongs += judge.of_secrets(case)
        wrongs += [f"a reader: {wrong}" for wrong in case.reader.wrongs]
        wrongs[:] = dict.fromkeys(wrongs)
        verdict.outcome = RESUMED if failed else SURVIVED

    @staticmethod
    def _again(case: Case, verdict: Verdict) -> None:
        """Give the same command, undisturbed."""
        reuse = case.watch_reuse()
        ended = case.site.start(*case.again).wait()
        if any(e.code != 0 for e in case.ended):
            verdict.reused = reuse.share()
            verdict.wrongs += Campaign._done_again(case, reuse)
        case.ended.append(ended)
        if not ended.succeeded:
            verdict.wrongs.append(f"the re-run failed too, exit {ended.code}: {ended.hung} {ended.sentences()}")
        verdict.wrongs += judge.of_command(ended, frozenset())
        verdict.wrongs += judge.of_leftovers(case)

    @staticmethod
    def _done_again(case: Case, reuse: Reuse) -> Iterator[str]:
        """See that finished work is kept: the same command goes on from it."""
        if case.kind.family not in DONE_AGAIN and not case.may_lose_work and (lost := reuse.lost()):
            yield f"{lost} finished tasks were done again"

    def _faulty_bucket(self) -> Any:
        if self._bucket is None:
            from soak.bucket import start_bucket

            self._bucket = start_bucket(self.folder / "s3", self.undo)
        return self._bucket


@contextmanager
def _limit() -> Iterator[None]:
    """Let nothing stop the campaign for good."""

    def give_up(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_MOST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def table(verdicts: list[Verdict]) -> str:
    """Count by kind how often it survived, was resumed, went wrong or struck nothing, and what was used again."""
    frame = pd.DataFrame([vars(verdict) for verdict in verdicts]).sort_values(["family", "kind"])
    counts = pd.crosstab(frame["kind"], frame["outcome"], margins=True)
    counts["share used again"] = frame.groupby("kind")["reused"].mean().round(2)
    return str(counts.to_string())
