"""How a call ended, as a document for programs and as markdown: its class, its sentence, what to do, what it took.

The document lies in the private work area. What of it goes elsewhere is :func:`results_markdown`, which has no counts
but those that a manifest publishes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from microagg_core.errors import EXIT_DONE, EXIT_INTERRUPTED, DataError, GateError, MicroaggError, SpecError
from microagg_core.pages.words import (
    NONE,
    duration,
    markdown_cell,
    markdown_pairs,
    markdown_paragraph,
    size_in_words,
)
from microagg_core.plain import to_plain

FORMAT_VERSION = 1

OutcomeClass = Literal[
    "running", "released", "already released", "done", "refused", "failed", "interrupted", "ended without a word"
]
#: What a run that is under way leaves for the case that it is killed.
RUNNING: OutcomeClass = "running"
#: What the next run makes of that.
UNTOLD: OutcomeClass = "ended without a word"
UNTOLD_SENTENCE = "the run ended without a word, killed or with its machine; run it again, and it goes on from there"


@dataclass(frozen=True)
class Compared:
    """What the plan said or an earlier run took, and what it came to; None where it did not come to it."""

    estimate: int | float | None
    actual: int | float | None


@dataclass(frozen=True)
class RunResults:
    """How a run ended, or that it is under way."""

    outcome: OutcomeClass
    series: str | None
    id: str | None
    started: str
    ended: str | None
    #: Which command it was; a flow's run is one of ``run``.
    command: str = "run"
    exit_code: int | None = None
    #: The kind of an error, in a word.
    kind: str | None = None
    sentence: str = ""
    what_to_do: str | None = None
    #: The stage that was under way, or was the last.
    stage: str | None = None
    revision: str | None = None
    #: The key of the run in the work area, once it is known.
    run: str | None = None
    manifest: str | None = None
    software: dict[str, str] | None = None
    #: By stage: seconds, CPU and peak, as :class:`microagg_flows.release.StageOutcome` has them.
    stages: tuple[dict[str, Any], ...] = ()
    seconds: float | None = None
    #: Of the whole run, and of the threads that did its tasks: what the newest release before took, and what it took.
    wall_seconds: Compared = Compared(None, None)
    cpu_seconds: Compared = Compared(None, None)
    kernel_seconds: Compared = Compared(None, None)
    #: The most that a process of a worker had.
    memory_bytes: Compared = Compared(None, None)
    #: Of rows in memory, and of the files that were published.
    release_bytes: Compared = Compared(None, None)
    #: What went wrong without stopping the run.
    warnings: tuple[str, ...] = ()
    #: The run's id in the events of its lineage.
    lineage_run: str | None = None
    #: Where a person can watch Dask's workers, while there are any.
    dashboard: str | None = None
    #: Where the run works: by it the next one knows whether it is there still.
    process: dict[str, Any] | None = None
    #: Where the operator's page of the release lies.
    report: str | None = None

    def document(self) -> dict[str, Any]:
        """As plain values, for programs; figures with as many digits as mean something."""
        return {"format_version": FORMAT_VERSION, **{name: _rounded(value) for name, value in to_plain(self).items()}}


def outcome_of(error: MicroaggError | None, well: OutcomeClass = "released") -> OutcomeClass:
    """The class of an outcome; ``well`` is that of a run that nothing went wrong with.

    >>> outcome_of(None), outcome_of(DataError("no records")), outcome_of(MicroaggError("a bug"))
    ('released', 'refused', 'failed')
    """
    if error is None or error.exit_code == EXIT_DONE:
        return well
    if error.exit_code == EXIT_INTERRUPTED:
        return "interrupted"
    return "refused" if isinstance(error, SpecError | DataError | GateError) else "failed"


def cure_of(sentence: str) -> str | None:
    """What a sentence says is to be done: what stands behind its last semicolon.

    >>> cure_of("no space is left in s3://b/work; free some, then run again")
    'free some, then run again'
    >>> cure_of("the input has no records") is None
    True
    """
    _, semicolon, cure = sentence.rpartition("; ")
    return cure.strip() if semicolon else None


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return round(value, 3) if isinstance(value, float) else value


def compared_rows(results: RunResults) -> list[tuple[str, str, str]]:
    """Estimate beside actual, as text to show; rows without either are left out.

    >>> rows = compared_rows(RunResults("released", "a", "b", "", "", kernel_seconds=Compared(1.234567, 0.98765)))
    >>> rows
    [('time in kernels', '1.2 s', '0.99 s')]
    """
    rows = [
        ("time, as of the last release", results.wall_seconds, duration),
        ("CPU of tasks, as of the last release", results.cpu_seconds, duration),
        ("time in kernels", results.kernel_seconds, duration),
        ("memory of a worker", results.memory_bytes, size_in_words),
        ("rows in memory, files", results.release_bytes, size_in_words),
    ]
    return [
        (name, _shown(compared.estimate, in_words), _shown(compared.actual, in_words))
        for name, compared, in_words in rows
        if compared != Compared(None, None)
    ]


def _shown(figure: float | None, in_words: Callable[[float], str]) -> str:
    return NONE if figure is None else in_words(figure)


def results_markdown(results: RunResults) -> str:
    """What is to be read of a run that released nothing."""
    title = " ".join(word for word in (results.series, results.id) if word) or "a release"
    rows = [
        ("outcome", results.outcome + (f" (exit {results.exit_code})" if results.exit_code is not None else "")),
        ("stage", results.stage),
        *(("note", warning) for warning in results.warnings),
        ("began", results.started),
        ("ended", results.ended),
    ]
    said = (("what happened", results.sentence), ("what to do", results.what_to_do))
    lines = [line for name, text in said if text for line in markdown_paragraph(name, text)]
    lines += ["", *markdown_pairs([(name, text) for name, text in rows if text])]
    return "\n".join([f"# {markdown_cell(title)}: {results.outcome}", *lines]) + "\n" + compared_markdown(results)


def compared_markdown(results: RunResults) -> str:
    """Estimate beside actual, as a table; nothing where there is nothing to compare."""
    rows = compared_rows(results)
    if not rows:
        return ""
    lines = ["", "| | estimate | actual |", "| --- | ---: | ---: |"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def stage_rows(results: RunResults) -> list[dict[str, str]]:
    """A row for each stage, with as many digits as a person reads; without what it said, which may be long."""
    return [
        {
            "stage": str(stage["name"]),
            "time": duration(stage["seconds"]),
            "CPU of tasks": duration(stage["cpu_seconds"]),
            "CPU of the flow": duration(stage["flow_cpu_seconds"]),
            "peak of a worker": size_in_words(stage["peak_bytes"]) if stage["peak_bytes"] else NONE,
        }
        for stage in results.stages
    ]
