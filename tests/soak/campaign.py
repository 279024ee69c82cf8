"""The campaign: draws kinds and moments from a seed, has each case judged, and keeps the record."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from soak import judge, processes
from soak.case import Case, MissedError
from soak.kinds import Kind
from soak.reader import Reader
from soak.reference import References
from soak.site import Site
from soak.work_area import Reuse

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
    """What came of one case."""

    kind: str
    family: str
    seed: int
    outcome: str
    configuration: str
    through_prefect: bool
    did: list[str]
    ends: list[str]
    wrongs: list[str] = field(default_factory=list)
    seconds: float = 0.0
    #: The share of all tasks that the re-run found done.
    reused: float | None = None
    folder: str = ""

    def line(self) -> str:
        """For the terminal."""
        how = "prefect" if self.through_prefect else "direct"
        reused = f", {100 * self.reused:.0f} % used again" if self.reused is not None else ""
        did = ", ".join(self.did)
        return f"{self.outcome:<18} {self.kind} ({self.configuration}, {how}; {did}){reused} {self.seconds:.0f} s"


@dataclass
class Campaign:
    """Runs cases below one folder."""

    folder: Path
    rows: int
    undo: ExitStack
    references: References = field(init=False)
    verdicts: list[Verdict] = field(default_factory=list)
    _bucket: Any = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        kernels = self.folder / "kernels"
        self.references = References(self.folder / "references", kernels, self.rows)

    def run(self, kinds: list[Kind], seed: int, minutes: float, cases: int | None) -> Iterator[Verdict]:
        """Case after case, every kind as often as the others, until the time is up or there are enough."""
        deadline = time.monotonic() + 60 * minutes
        turn = 0
        yield from self._undisturbed(kinds)
        while True:
            order = list(kinds)
            random.Random(seed + turn).shuffle(order)
            for kind in order:
                if time.monotonic() > deadline or (cases is not None and self._n_faults() >= cases):
                    return
                verdict = self.one(kind, seed + turn)
                self.verdicts.append(verdict)
                yield verdict
            turn += 1

    def _n_faults(self) -> int:
        return sum(verdict.kind != UNDISTURBED for verdict in self.verdicts)

    def _undisturbed(self, kinds: list[Kind]) -> Iterator[Verdict]:
        """What is wrong without any fault is said once, and not held against every case after it."""
        for configuration in dict.fromkeys(c for kind in kinds for c in kind.configurations):
            reference = self.references.of(configuration)
            outcome = WRONG if reference.wrongs else SURVIVED
            wrongs, place = list(reference.wrongs), str(self.references.folder)
            verdict = Verdict(UNDISTURBED, "", 0, outcome, configuration.name, False, [], [], wrongs, folder=place)
            verdict.seconds = reference.seconds
            self.verdicts.append(verdict)
            yield verdict

    def one(self, kind: Kind, seed: int) -> Verdict:
        """One case from its beginning to its verdict; a wrong one keeps its folder."""
        draw = random.Random(f"{seed} {kind.name}")
        configuration = draw.choice(kind.configurations)
        through_prefect = draw.random() < _SHARE_THROUGH_PREFECT
        if kind.through_prefect is not None:
            through_prefect = kind.through_prefect
        verdict = Verdict(kind.name, kind.family, seed, MISSED, configuration.name, through_prefect, [], [])
        reference = self.references.of(configuration)  # before the clock runs
        start = time.monotonic()
        folder = self.folder / f"{kind.name}-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        site = Site(folder, configuration, self.references.kernels)
        with ExitStack() as undo:
            undo.callback(processes.end, site.mark, helpers=True)
            site.take_input(reference.input)
            bucket = self._faulty_bucket() if kind.in_bucket else None
            if bucket is not None:
                bucket.serve(site, undo)
            reader = Reader(site.output, {reference.content}, _READ_EVERY * (1 + 3 * kind.in_bucket))
            case = Case(kind, site, draw, reference, self.references, through_prefect, reader, undo, bucket)
            verdict.did = case.did
            try:
                with _limit():
                    self._carry_out(case, verdict)
            except MissedError as missed:
                case.did.append(str(missed))
            except TooLongError:
                verdict.wrongs.append(f"the campaign gave up after {_MOST_SECONDS} s")
        if verdict.wrongs:
            verdict.outcome, verdict.folder = WRONG, str(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        verdict.seconds = time.monotonic() - start
        return verdict

    def _carry_out(self, case: Case, verdict: Verdict) -> None:
        case.again = case.arguments()
        case.reader.start()
        try:
            try:
                case.kind.act(case)
            finally:
                case.finish_all()
            self._judge(case, verdict)
        finally:
            case.reader.stop()
            verdict.ends = [f"exit {e.code}: {'; '.join(e.sentences())}" for e in case.ended]

    def _judge(self, case: Case, verdict: Verdict) -> None:
        wrongs = verdict.wrongs
        for ended in case.ended:
            wrongs += judge.of_command(ended, case.codes)
            wrongs += judge.of_false_words(case, ended)
        wrongs += judge.of_leftovers(case)
        failed = not all(ended.succeeded for ended in case.ended)
        killed = any(ended.killed or ended.hung for ended in case.ended)
        if failed and not killed and not case.may_leave_uploads:
            wrongs += judge.of_unnamed_objects(case)
        again = failed or case.always_again or case.random.random() < _SHARE_LOOKED_AT_AGAIN
        if again or case.bucket is not None:
            case.mend()
        if again:
            self._again(case, verdict)
        wrongs += case.wrongs
        wrongs += judge.of_end(case)
        wrongs += judge.of_secrets(case)
        wrongs += [f"a reader: {wrong}" for wrong in case.reader.wrongs]
        verdict.outcome = RESUMED if failed else SURVIVED

    @staticmethod
    def _again(case: Case, verdict: Verdict) -> None:
        """The same command, undisturbed."""
        reuse = Reuse(case.site.work, case.reference.n_tasks)
        reuse.start()
        ended = case.site.start(*case.again, wrapped_in=case.again_wrapped_in).wait()
        verdict.reused = reuse.share()
        case.ended.append(ended)
        if not ended.succeeded:
            verdict.wrongs.append(f"the re-run failed too, exit {ended.code}: {ended.hung} {ended.sentences()}")
        verdict.wrongs += judge.of_command(ended, frozenset())
        verdict.wrongs += judge.of_leftovers(case)

    def _faulty_bucket(self) -> Any:
        if self._bucket is None:
            from soak.bucket import start_bucket

            self._bucket = start_bucket(self.folder / "s3", self.undo)
        return self._bucket


@contextmanager
def _limit() -> Iterator[None]:
    """Nothing may stop the campaign for good."""

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
    """By kind: how often it survived, was resumed, went wrong or struck nothing, and what a re-run used again."""
    header = f"{'kind':<36}{'cases':>6}{'survived':>10}{'resumed':>9}{'wrong':>7}{'missed':>8}{'used again':>12}"
    lines = [header, "-" * len(header)]
    for name in dict.fromkeys(v.kind for v in sorted(verdicts, key=lambda v: (v.family, v.kind))):
        lines.append(_row(name, [v for v in verdicts if v.kind == name]))
    faults = [v for v in verdicts if v.kind != UNDISTURBED]
    n_kinds = len({v.kind for v in faults if v.outcome != MISSED})
    return "\n".join([*lines, "-" * len(header), _row(f"all {n_kinds} kinds that struck", faults)])


def _row(name: str, verdicts: list[Verdict]) -> str:
    count = {outcome: sum(v.outcome == outcome for v in verdicts) for outcome in (SURVIVED, RESUMED, WRONG, MISSED)}
    shares = [v.reused for v in verdicts if v.reused is not None and v.outcome == RESUMED]
    reused = f"{100 * sum(shares) / len(shares):.0f} %" if shares else ""
    n_struck = len(verdicts) - count[MISSED]
    ends = f"{count[SURVIVED]:>10}{count[RESUMED]:>9}{count[WRONG]:>7}{count[MISSED]:>8}"
    return f"{name:<36}{n_struck:>6}{ends}{reused:>12}"


def record(verdicts: list[Verdict], rows: int, seed: int) -> str:
    """Everything as JSON."""
    return json.dumps({"rows": rows, "seed": seed, "cases": [asdict(v) for v in verdicts]}, indent=1)
