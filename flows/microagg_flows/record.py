"""The record of a run: what was asked, what happened, how it ended.

The file of its results in the private work area, a second one for ``--results``, lines of the log, Prefect's artifacts,
OpenLineage's events and a command's last sentence are all made of it. It decides nothing: where it cannot be written
the release is made all the same, and the run says so.

A release is committed when readers find it, and finished when nothing of publishing is left to do. What fails between
the two is a failure that says so; what fails later is a note, because the release is what was asked for.
"""

from __future__ import annotations

import datetime
import json
import os
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from microagg_core.errors import (
    EXIT_DONE,
    EXIT_INTERRUPTED,
    DataError,
    GateError,
    InterruptionError,
    MicroaggError,
    SpecError,
    TransientStorageError,
    sanitized,
)
from microagg_core.pages.release_report import release_document
from microagg_core.plain import to_plain
from microagg_core.release.cleaning import is_under_way
from microagg_core.release.context import work_store
from microagg_core.release.publish import new_attempt
from microagg_core.release.step import Run
from microagg_core.software import software
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.failures import impatient
from microagg_core.store.layout import AUDIT, RUNS, CallLayout, newest_results
from microagg_core.store.objects import Store, canonical_json
from microagg_core.store.urls import is_local, shown
from microagg_flows.interrupts import INTERRUPTED, is_requested
from microagg_flows.lineage import ParentRun, event_of, post_event
from microagg_flows.log import Log
from microagg_flows.progress import Progress, Silence
from microagg_flows.release import Release, StageOutcome, compared
from microagg_flows.stages import Stage

StageRunner = Callable[[Stage, Release], StageOutcome | None]

FORMAT_VERSION = 1
#: The command that makes a release, all that do, and those that are about one under its id.
RUN = "run"
_RUNS = (RUN, "step")
_OF_AN_ID = (*_RUNS, "plan")
#: Left by a run that is under way, for the case that it is killed; and what the next run makes of that.
RUNNING, UNTOLD = "running", "ended without a word"
_UNTOLD_SENTENCE = "the run ended without a word, killed or with its machine; run it again, and it goes on from there"
_LEFT = (
    "run the same command again: it makes nothing new, but finishes what is left (latest.json, the audit, clearing the "
    "work area)"
)
#: Every run looks at those before it, so none that is killed stays unseen for long.
_MOST_LOOKED_AT = 8
#: As long as this a run elsewhere may be under way without a key.
_KEYLESS_FOR = datetime.timedelta(hours=1)
_OF_PLAN = ("kernel_seconds", "memory_bytes", "release_bytes")
_EVENTS = {"interrupted": "ABORT", "released": "COMPLETE", "already released": "COMPLETE"}


@dataclass
class RunRecord:
    #: Asked: the command, a file for its results besides that in the work area, how an interruption leaves it.
    command: str = RUN
    file: Path | None = None
    interrupted: str = INTERRUPTED
    #: The run of an orchestrator that this one is a part of.
    parent: ParentRun | None = None
    spec: ReleaseSpec | None = None
    series: str | None = None
    id: str | None = None
    #: Where a person looks meanwhile, and a program later.
    progress: Progress = field(default_factory=Silence)
    log: Log = field(default_factory=Log)
    #: Happened: the stage that is under way or was the last, and the release, once there is one.
    started: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    stage: str | None = None
    release: Release | None = None
    #: Sentences: nights that could not be made besides, and why the record itself was not written everywhere.
    warnings: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    #: A run within this one that has a record of its own.
    inner: RunRecord | None = None
    #: Ended: an error that does not leave as an exception; what went wrong once the release was finished.
    error: MicroaggError | None = None
    note: str = ""
    lineage_run: str | None = None
    layout: CallLayout | None = None
    _work: Store | None = None
    _before: dict[str, Any] = field(default_factory=dict)
    _clock: float = field(default_factory=time.perf_counter)
    #: Whether an error on its way out says already that the release is published; whether events of lineage are taken.
    _says_published: bool = False
    _lineage_is_taken: bool = True

    def open_file(self) -> None:
        """Write the file for the results, which say that the run is under way."""
        if self.file is not None:
            write_private(self.file, canonical_json(self.document(None, under_way=True)))

    def about(self, spec: ReleaseSpec) -> ReleaseSpec:
        """Note the series of a command that leaves no record in the work area."""
        self.spec, self.series = spec, spec.name
        return spec

    def begin(self, spec: ReleaseSpec, identity: str = "") -> None:
        """Write that the run is under way, and mark earlier ones that were killed.

        A call that is no run is written under its command's name; it makes no data, so it has no lineage.
        """
        self.about(spec)
        self.id = identity if self.command in _OF_AN_ID else None
        # By these names it is known which releases runs were made for.
        called = identity if self.command in _RUNS else self.command.replace(" ", "-")
        # To the millisecond, so that calls that follow each other at once sort as they were made.
        moment = f"{self.started:%Y%m%dT%H%M%S%f}"[:-3] + "Z"
        self.layout = CallLayout(spec.name, called, moment, new_attempt())
        self._work = work_store(spec)
        self.lineage_run = str(uuid.uuid4()) if self.command == RUN else None
        # What cannot be written now is told at the end, if it still cannot: until then the run has its own troubles.
        with suppress(MicroaggError), impatient():
            self._keep(self.document(None, under_way=True))
            self._tell_lineage("START", None)
            mark_untold(self._work, spec.name)
            self._before = last_released(self._work, spec.name)

    def following(self, run: StageRunner) -> StageRunner:
        """Run stages by ``run``, and write after each how far they are."""

        def recorded(stage: Stage, release: Release) -> StageOutcome | None:
            self.stage, self.release = stage.name, release
            done = run(stage, release)
            if done is not None:
                with suppress(MicroaggError), impatient():
                    self._keep(self.document(None, under_way=True))
            return done

        return recorded

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Write how the run ended when the block ends, however it ends."""
        try:
            yield
        except BaseException as error:
            self.end(error)
            raise
        self.end(None)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Have whatever ends the block say so where the release is published by then, and what is to be done.

        Where the release is finished, nothing is raised: a note says what happened.
        """
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            if self.is_finished:
                self.note = self.noted(error)
            elif self.published:
                raise self._but_published(error) from None
            else:
                raise

    def end(self, error: BaseException | None) -> None:
        ending = self.ending(error)
        document = self.document(ending)
        if self.file is not None:
            self._try(partial(write_private, self.file, canonical_json(document)))
        # A store that does not answer would keep the user waiting for nothing; the next run marks what it finds.
        is_away = isinstance(error, TransientStorageError) and not (self._work and is_local(self._work.url))
        if self.is_finished or not is_away:
            self._try(lambda: self._keep(document))
            event = "COMPLETE" if ending is None else _EVENTS.get(document["outcome"], "FAIL")
            self._try(lambda: self._tell_lineage(event, document))

    def ending(self, error: BaseException | None) -> MicroaggError | None:
        """Word the error that the run ends with; None where the release is out and nothing is left to do."""
        if self.is_finished:
            return None
        interrupted = error is not None and not isinstance(error, Exception)
        if (interrupted or is_requested()) and not isinstance(error, InterruptionError):
            return self._but_published(KeyboardInterrupt()) if self.published else InterruptionError(self.interrupted)
        return self.error if error is None else sanitized(error, f"microagg {self.command}")

    @property
    def is_finished(self) -> bool:
        return self.release is not None and self.release.published is not None

    @property
    def published(self) -> str:
        """Begin a sentence where the release is there for readers; else empty."""
        if self.release is None or self.release.committed is None:
            return ""
        manifest = self.release.committed
        folder = shown(self.release.output.url_of(manifest.layout.folder))
        return f"release {manifest.id} is published in {folder}"

    def noted(self, error: BaseException) -> str:
        """Word the note of an error or an interruption once the release is finished."""
        if isinstance(error, KeyboardInterrupt):
            return f"{self.published}; interrupted while clearing up, which the same command finishes"
        return f"{self.published}; afterwards: {sanitized(error, 'clearing up').message}"

    def _but_published(self, error: BaseException) -> MicroaggError:
        """Word the error of a run whose release is committed and not finished."""
        if self._says_published and isinstance(error, MicroaggError):
            return error
        self._says_published = True
        if isinstance(error, KeyboardInterrupt):
            return InterruptionError(f"interrupted, but {self.published}; {_LEFT}")
        safe = sanitized(error, "publishing")
        return type(safe)(f"{self.published}, but the run failed afterwards ({safe.message}); {_LEFT}")

    def innermost(self) -> RunRecord:
        """Find the run that is under way: this one, or the one within it."""
        return self.inner or self

    def release_document(self) -> dict[str, Any]:
        if self.release is None or self.release.published is None:
            raise RuntimeError("the last stage ended without a release")
        return release_document(self.release.published, to_plain(self.release.outcomes), self.release.page)

    def document(self, ending: MicroaggError | None, under_way: bool = False) -> dict[str, Any]:
        """Make JSON of how the run ended, or how far it is; figures with as many digits as mean something."""
        release, seconds = self.release, time.perf_counter() - self._clock
        manifest = release.committed if release else None
        published = release.published if release else None
        sentence = ending.message if ending else self.note
        document = {
            "format_version": FORMAT_VERSION,
            "outcome": RUNNING if under_way else outcome_of(ending, self._outcome_if_well()),
            "series": self.series,
            "id": self.id,
            "started": _moment(self.started),
            "ended": None if under_way else _moment(datetime.datetime.now(datetime.UTC)),
            "command": self.command,
            "exit_code": None if under_way else ending.exit_code if ending else EXIT_DONE,
            "kind": ending.kind if ending else None,
            "sentence": sentence,
            "what_to_do": cure_of(sentence) if sentence else None,
            "stage": self.stage,
            "revision": manifest.revision if manifest else None,
            "run": release.key or None if release else None,
            "manifest": published.manifest_url if published else None,
            "software": software(),
            "stages": to_plain(release.outcomes) if release else [],
            "seconds": seconds,
            **self._compared(seconds),
            "warnings": [*(published.warnings if published else ()), *self.warnings, *self.troubles],
            "lineage_run": self.lineage_run,
            "dashboard": self.progress.dashboard or None,
            "process": this_process(),
            "report": release.page if release else None,
        }
        return {name: _rounded(value) for name, value in document.items()}

    def _compared(self, seconds: float) -> dict[str, dict[str, float | None]]:
        """Estimates of the plan, or what the newest release before took, beside what this run took."""
        of_plan = self.release.compared() if self.release else dict.fromkeys(_OF_PLAN, compared(None, None))
        if self.command != RUN:
            return {"wall_seconds": compared(None, None), "cpu_seconds": compared(None, None), **of_plan}
        cpu = sum(stage.cpu_seconds for stage in self.release.outcomes) if self.release else None
        before = [stage["cpu_seconds"] for stage in self._before.get("stages", ())]
        return {
            "wall_seconds": compared(self._before.get("seconds"), seconds),
            "cpu_seconds": compared(sum(before) if before else None, cpu),
            **of_plan,
        }

    def _outcome_if_well(self) -> str:
        published = self.release.published if self.release else None
        if published is None and self.command != RUN:
            return "done"
        return "already released" if published is not None and published.already else "released"

    def _keep(self, document: dict[str, Any]) -> None:
        if self._work is not None and self.layout is not None:
            self._work.put_json(self.layout.results(), document)

    def _tell_lineage(self, kind: str, document: dict[str, Any] | None) -> None:
        if self._work is None or self.layout is None or self.spec is None or self.lineage_run is None:
            return
        event = event_of(kind, self.lineage_run, self.spec, self.parent, self.release, document)
        self._work.put_json(self.layout.lineage(kind), event)
        # Who does not take the first event would keep the user waiting for nothing.
        if self._lineage_is_taken and (trouble := post_event(event)):
            self._lineage_is_taken = False
            self.troubles.append(trouble)

    def _try(self, write: Callable[[], None]) -> None:
        try:
            with impatient():
                write()
        except MicroaggError as error:
            self.troubles.append(f"the account of this run was not written: {error.message}")


def outcome_of(error: MicroaggError | None, well: str = "released") -> str:
    """Classify how a run ended; ``well`` where nothing went wrong.

    >>> outcome_of(None), outcome_of(DataError("no records")), outcome_of(MicroaggError("a bug"))
    ('released', 'refused', 'failed')
    >>> outcome_of(InterruptionError("interrupted"))
    'interrupted'
    """
    if error is None or error.exit_code == EXIT_DONE:
        return well
    if error.exit_code == EXIT_INTERRUPTED:
        return "interrupted"
    return "refused" if isinstance(error, SpecError | DataError | GateError) else "failed"


def cure_of(sentence: str) -> str | None:
    """Cut out what a sentence says is to be done: what stands behind its last semicolon.

    >>> cure_of("no space is left in s3://b/work; free some, then run again")
    'free some, then run again'
    >>> cure_of("the input has no records") is None
    True
    """
    _, semicolon, cure = sentence.rpartition("; ")
    return cure.strip() if semicolon else None


def _moment(at: datetime.datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return round(value, 3) if isinstance(value, float) else value


def newest_documents(work: Store, most: int = _MOST_LOOKED_AT) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read the newest results in a work area, each with its name; what is damaged is as if it were not there."""
    for name in newest_results(work.list(f"{AUDIT}/{RUNS}"), most):
        with suppress(ValueError):
            document = json.loads(work.read(name))
            if isinstance(document, dict):
                yield name, document


def mark_untold(work: Store, series: str) -> None:
    """Have the results of a series' runs that were killed say so.

    A run that only seemed to be gone writes its own results over that when it ends.
    """
    for name, document in newest_documents(work):
        with suppress(ValueError, KeyError, TypeError, AttributeError):  # damaged
            if (document["series"], document["outcome"]) == (series, RUNNING) and not _may_be_there(work, document):
                ending = {"outcome": UNTOLD, "sentence": _UNTOLD_SENTENCE, "what_to_do": cure_of(_UNTOLD_SENTENCE)}
                work.put_json(name, {**document, **ending})


def last_released(work: Store, series: str) -> dict[str, Any]:
    """Find the results of the newest run of a series that released something; empty where none did."""
    documents = (document for _, document in newest_documents(work))
    return next((d for d in documents if (d.get("series"), d.get("outcome")) == (series, "released")), {})


def this_process() -> dict[str, Any]:
    """Identify this process by host, number and time of birth: others get its number later."""
    return {"host": socket.gethostname(), "number": os.getpid(), "born": psutil.Process().create_time()}


def _may_be_there(work: Store, document: dict[str, Any]) -> bool:
    process = document["process"]
    if process["host"] == socket.gethostname():
        try:
            return abs(float(psutil.Process(process["number"]).create_time()) - float(process["born"])) < 1.0
        except psutil.Error:
            return False
    if document["run"]:
        return is_under_way(Run(work, document["run"]))
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(document["started"])
    return age < _KEYLESS_FOR


def write_private(path: Path, data: bytes) -> None:
    """Write a file in one step, for this user alone."""
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(unfinished).replace(path)
        except BaseException:
            Path(unfinished).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SpecError(f"{path} cannot be written ({error.strerror}); name a file in a folder that is there") from None
