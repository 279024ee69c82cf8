"""What a look at one thing found: well, strange or wrong, a sentence, and the exit code that a run would end with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from microagg_core.errors import EXIT_DONE, MicroaggError


class Grade(StrEnum):
    """How bad it is."""

    ok = "ok"
    warning = "warning"
    wrong = "wrong"


@dataclass(frozen=True)
class Finding:
    """One line of what was found."""

    about: str
    grade: Grade
    says: str
    #: What a run would end with, where something is wrong.
    exit_code: int = EXIT_DONE

    def line(self) -> str:
        """For a person.

        >>> Finding("clock", Grade.warning, "the store's is 70 s ahead; set it").line()
        "warning  clock: the store's is 70 s ahead; set it"
        """
        return f"{self.grade:<8} {self.about}: {self.says}"

    def document(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def well(about: str, says: str) -> Finding:
    """All is right."""
    return Finding(about, Grade.ok, says)


def strange(about: str, says: str) -> Finding:
    """A release will do, and somebody should know."""
    return Finding(about, Grade.warning, says)


def wrong(about: str, error: MicroaggError) -> Finding:
    """A release would end with this."""
    return Finding(about, Grade.wrong, error.message, error.exit_code)


def looked(about: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """What a look finds; a trouble that stops it is what it found.

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
    """What a run would end with that meets these in their order: the first that is wrong.

    >>> exit_code_of([strange("clock", "ahead"), Finding("store", Grade.wrong, "full", 5)])
    5
    """
    return next((finding.exit_code for finding in findings if finding.grade == Grade.wrong), EXIT_DONE)
