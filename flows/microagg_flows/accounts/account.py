"""The account of one call: written when it begins, after each stage and when it ends, whatever ends it.

It lies in the private work area, and where the user wants it besides. It decides nothing: where it cannot be written
the release is made all the same, and the run says so.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from microagg_core.errors import InterruptionError, MicroaggError, TransientStorageError, sanitized
from microagg_core.pages.run_results import RUNNING, Compared, OutcomeClass, RunResults, cure_of, outcome_of
from microagg_core.plain import to_plain
from microagg_core.release.publish import new_attempt
from microagg_core.release.steps.work import work_store
from microagg_core.software import software
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.failures import impatient
from microagg_core.store.layout import CallLayout
from microagg_core.store.objects import Store, canonical_json
from microagg_core.store.urls import is_local
from microagg_flows.accounts.keeping import last_released, mark_untold, this_process, write_private
from microagg_flows.accounts.lineage import Lineage, ParentRun
from microagg_flows.outcome import INTERRUPTED, Outcome
from microagg_flows.process.interrupts import is_requested
from microagg_flows.release import Release, StageOutcome
from microagg_flows.stages import Stage

StageRunner = Callable[[Stage, Release], StageOutcome | None]

#: The command that makes a release, all that do, and those that are about one under its id.
RUN = "run"
_RUNS = (RUN, "step")
_OF_AN_ID = (*_RUNS, "plan")


@dataclass
class Account:
    """What is known of a run, from its call to its end."""

    #: Where its results go besides the work area.
    file: Path | None = None
    command: str = RUN
    #: What a call that was interrupted leaves, in a sentence.
    interrupted: str = INTERRUPTED
    started: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    release: Release | None = None
    outcome: Outcome = field(default_factory=Outcome)
    #: The stage that is under way, or was the last.
    stage: str | None = None
    #: What a flow failed with, which tells so by its state.
    error: MicroaggError | None = None
    #: The run of an orchestrator that this one is a part of.
    parent: ParentRun | None = None
    #: Where a person can watch Dask's workers.
    dashboard: str | None = None
    #: Told of that place when it is known.
    on_dashboard: Callable[[str], object] | None = None
    #: What went wrong besides, and was said already; and what went wrong with the account itself, a sentence each.
    notes: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    series: str | None = None
    id: str | None = None
    _layout: CallLayout | None = None
    _work: Store | None = None
    _lineage: Lineage | None = None
    #: The outcome of the newest release of the series before this one.
    _before: dict[str, Any] = field(default_factory=dict)
    _clock: float = field(default_factory=time.perf_counter)

    def begin(self, spec: ReleaseSpec, identity: str) -> None:
        """The run is known now: it says that it is under way, and what became of earlier ones that could not.

        A call that is no run says so too, under its command's name; it makes no data, so it has no lineage.
        """
        self.series, self.id = spec.name, identity if self.command in _OF_AN_ID else None
        # By these names it is known which releases runs were made for.
        called = identity if self.command in _RUNS else self.command.replace(" ", "-")
        # To the millisecond, so that calls that follow each other at once sort as they were made.
        moment = f"{self.started:%Y%m%dT%H%M%S%f}"[:-3] + "Z"
        self._layout = CallLayout(spec.name, called, moment, new_attempt())
        self._work = work_store(spec)
        self._lineage = Lineage(self._layout, spec, self.parent) if self.command == RUN else None
        # What cannot be written now is told at the end, if it still cannot: until then the run has its own troubles.
        with suppress(MicroaggError), impatient():
            self._keep(self.results(None, under_way=True))
            self._tell_lineage("START", None)
            mark_untold(self._work, spec.name)
            self._before = last_released(self._work, spec.name) or {}

    def note_dashboard(self, link: str) -> None:
        """Dask's workers can be watched there."""
        self.dashboard = link
        if self.on_dashboard is not None:
            self.on_dashboard(link)

    def following(self, run: StageRunner) -> StageRunner:
        """Stages are run as before, and the account knows how far they are."""

        def accounted_for(stage: Stage, release: Release) -> StageOutcome | None:
            self.stage, self.release = stage.name, release
            done = run(stage, release)
            if done is not None:
                self._keep_quietly(self.results(None, under_way=True))
            return done

        return accounted_for

    def end(self, error: BaseException | None) -> None:
        """The run is over."""
        ended_by = self.ended_by(error)
        results = self.results(ended_by)
        if self.file is not None:
            self._try(lambda path=self.file: write_private(path, canonical_json(results.document())))  # type: ignore[misc]
        # A store that does not answer would keep the user waiting for nothing; the next run marks what it finds.
        if not isinstance(error, TransientStorageError) or (self._work and is_local(self._work.url)):
            self._try(lambda: self._keep(results))
            self._try(
                lambda: self._tell_lineage(
                    "COMPLETE" if ended_by is None else _EVENTS.get(results.outcome, "FAIL"), results
                )
            )

    def ended_by(self, error: BaseException | None) -> MicroaggError | None:
        """What the run ends with, in a sentence; None where the release is out and nothing is left to do."""
        if self.outcome.is_finished():
            return None
        interrupted = error is not None and not isinstance(error, Exception)
        if (interrupted or is_requested()) and not isinstance(error, InterruptionError):
            told = self.outcome.published()
            return self.outcome.told(KeyboardInterrupt()) if told else InterruptionError(self.interrupted)
        return self.error if error is None else sanitized(error, f"microagg {self.command}")

    def results(self, error: MicroaggError | None, under_way: bool = False) -> RunResults:
        """How the run ended, or how far it is."""
        ended = None if under_way else datetime.datetime.now(datetime.UTC)
        release = self.release
        manifest = release.committed if release else None
        published = release.published if release else None
        sentence = error.message if error else self.outcome.note
        seconds = time.perf_counter() - self._clock
        return RunResults(
            outcome=RUNNING if under_way else outcome_of(error, self._well()),
            command=self.command,
            series=self.series,
            id=self.id,
            started=_moment(self.started),
            ended=_moment(ended) if ended else None,
            exit_code=None if under_way else error.exit_code if error else 0,
            kind=error.kind if error else None,
            sentence=sentence,
            what_to_do=cure_of(sentence) if sentence else None,
            stage=self.stage,
            revision=manifest.revision if manifest else None,
            run=release.key or None if release else None,
            manifest=published.manifest_url if published else None,
            software=software(),
            seconds=seconds,
            warnings=(*(published.warnings if published else ()), *self.notes, *self.troubles),
            process=this_process(),
            lineage_run=self._lineage.run_id if self._lineage else None,
            dashboard=self.dashboard,
            **_figures(release),
            **self._beside_before(release, seconds),
        )

    def _beside_before(self, release: Release | None, seconds: float) -> dict[str, Any]:
        """What no plan knows, beside what the newest release before took; other commands are no releases."""
        if self.command != RUN:
            return {}
        cpu = sum(one.cpu_seconds for one in release.outcomes) if release else None
        before = [stage["cpu_seconds"] for stage in self._before.get("stages", ())]
        return {
            "wall_seconds": Compared(self._before.get("seconds"), seconds),
            "cpu_seconds": Compared(sum(before) if before else None, cpu),
        }

    def _well(self) -> OutcomeClass:
        """How the call ended where nothing went wrong."""
        published = self.release.published if self.release else None
        if published is None and self.command != RUN:
            return "done"
        return "already released" if published is not None and published.already else "released"

    def _keep(self, results: RunResults) -> None:
        if self._work is not None and self._layout is not None:
            self._work.put_json(self._layout.results(), results.document())

    def _tell_lineage(self, event: str, results: RunResults | None) -> None:
        if self._lineage is None or self._work is None or self._layout is None:
            return
        document = self._lineage.event(event, self.release, results)
        self._work.put_json(self._layout.lineage(event), document)
        if trouble := self._lineage.post(document):
            self.troubles.append(trouble)

    def _keep_quietly(self, results: RunResults) -> None:
        with suppress(MicroaggError), impatient():
            self._keep(results)

    def _try(self, write: Callable[[], None]) -> None:
        try:
            with impatient():
                write()
        except MicroaggError as error:
            self.troubles.append(f"the account of this run was not written: {error.message}")


_EVENTS = {"interrupted": "ABORT", "released": "COMPLETE", "already released": "COMPLETE"}
_current: ContextVar[Account | None] = ContextVar("account", default=None)


@contextmanager
def accounted(file: Path | None = None, command: str = RUN, interrupted: str = INTERRUPTED) -> Iterator[Account]:
    """The run in the block is accounted for; nested: there is one account, and the outermost block ends it.

    Args:
        file: where its results go besides the work area.
        command: which command it is.
        interrupted: what it leaves when it is interrupted, in a sentence.

    Raises:
        SpecError: the file for the results cannot be written.
    """
    if (outer := _current.get()) is not None:
        yield outer
        return
    account = Account(file, command, interrupted)
    if file is not None:
        write_private(file, canonical_json(account.results(None, under_way=True).document()))
    token = _current.set(account)
    try:
        yield account
    except BaseException as error:
        account.end(error)
        raise
    else:
        account.end(None)
    finally:
        _current.reset(token)


@contextmanager
def apart() -> Iterator[None]:
    """A run in the block that is not part of the one around it has an account of its own."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def current_account() -> Account | None:
    """The account of the run that is under way here."""
    return _current.get()


def _moment(at: datetime.datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _figures(release: Release | None) -> dict[str, Any]:
    """Stages, and estimates beside what they came to."""
    if release is None:
        return {}
    return {"stages": tuple(to_plain(release.outcomes)), "report": release.page, **release.compared()}
