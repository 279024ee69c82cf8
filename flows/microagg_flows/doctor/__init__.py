"""Look at a place before the night: find what a run would meet, without making one.

A look is a module here whose ``look(patient)`` yields findings; a new one is a new file. Nothing is written but probes
in the work area, which are removed again.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module

from microagg_core.errors import EXIT_DONE, MicroaggError
from microagg_core.registry import names
from microagg_core.release.surroundings import Surroundings
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.failures import impatient
from microagg_flows.clusters import WorkerRecord
from microagg_flows.progress import Progress
from microagg_flows.releasing import Order, Settled, now

#: As a run meets them; looks at credentials need what workers found.
ORDER = ("release", "storage", "workers", "credentials", "nights")
#: Seconds by which clocks may differ without a word: S3 refuses requests from 15 minutes on.
_MOST_SECONDS = 60.0


class Grade(StrEnum):
    ok = "ok"
    warning = "warning"
    wrong = "wrong"


@dataclass(frozen=True)
class Finding:
    about: str
    grade: Grade
    says: str
    #: Of a run that would meet it, where something is wrong.
    exit_code: int = EXIT_DONE

    def line(self) -> str:
        """Format for a person.

        >>> Finding("clock", Grade.warning, "the store's is 70 s ahead; set it").line()
        "warning  clock: the store's is 70 s ahead; set it"
        """
        return f"{self.grade:<8} {self.about}: {self.says}"


@dataclass
class Patient:
    """The place that is looked at: a release's spec as a run would have it now."""

    spec: ReleaseSpec
    id: str
    now: datetime.datetime
    progress: Progress
    #: Answers of the workers, and what they found around them by address; filled in by the look at workers.
    records: list[WorkerRecord] = field(default_factory=list)
    around: dict[str, Surroundings] = field(default_factory=dict)


def examine(order: Order, progress: Progress) -> Iterator[Finding]:
    moment = now()
    tonight = Settled.of(order, moment)
    patient = Patient(tonight.spec, tonight.id, moment, progress)
    for name in names(__name__):
        with impatient():  # a store that does not answer is a finding
            findings = list(import_module(f"{__name__}.{name}").look(patient))
        yield from findings


def well(about: str, says: str) -> Finding:
    return Finding(about, Grade.ok, says)


def strange(about: str, says: str) -> Finding:
    """A warning: the release would be made, and somebody should know."""
    return Finding(about, Grade.warning, says)


def wrong(about: str, error: MicroaggError) -> Finding:
    """An error: the release would fail with its exit code."""
    return Finding(about, Grade.wrong, error.message, error.exit_code)


def looked(about: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield the findings of a look, and the error that stops it as the last of them.

    >>> def look():
    ...     raise MicroaggError("nobody answers; start it")
    >>> [finding.line() for finding in looked("cluster", look)]
    ['wrong    cluster: nobody answers; start it']
    """
    try:
        yield from look()
    except MicroaggError as error:
        yield wrong(about, error)


def exit_code_of(findings: Sequence[Finding]) -> int:
    """Find the exit code of a run that meets these in their order: that of the first that is wrong."""
    return next((finding.exit_code for finding in findings if finding.grade == Grade.wrong), EXIT_DONE)


def clock_finding(whose: str, ahead: float) -> Finding:
    """Judge a clock by how many seconds it is ahead of this machine's.

    >>> clock_finding("the store's clock", -0.2).line()
    "ok       clock: the store's clock is right to a second"
    >>> clock_finding("worker 2's clock", 912.3).line()
    "warning  clock: worker 2's clock is 912 s ahead of this machine's; set both by the same time server"
    """
    if abs(ahead) < _MOST_SECONDS:
        exactly = "to a second" if abs(ahead) < 1 else f"within {abs(ahead):.0f} s"
        return well("clock", f"{whose} is right {exactly}")
    word = "ahead of" if ahead > 0 else "behind"
    return strange("clock", f"{whose} is {abs(ahead):.0f} s {word} this machine's; set both by the same time server")
