"""The Prefect flow: survey -> plan -> scatter -> anonymize -> validate -> measure -> publish -> report.

One Prefect task a stage; the rows are Dask's. The flow's parameters are a spec's place, an id, a wish and fields of the
spec that are set otherwise; never data, never a credential. A failure of the data or of the gate is final; a stage
whose cluster was away for a moment is tried again, and finished work is found by its receipts. A store that was away
has been asked again by then, as in every command.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import FailedRun
from prefect.states import Completed, Failed

from microagg_core.errors import InternalError, MicroaggError, TransientClusterError, of_kind, sanitized
from microagg_flows.interrupts import reclaim
from microagg_flows.lineage import ParentRun
from microagg_flows.prefect_side.artifacts import LAST_SECONDS, SILENT_SECONDS, PrefectProgress, hurry, keep_artifacts
from microagg_flows.prefect_side.missed_nights import (
    catch_up,
    end_lost_runs,
    is_scheduled,
    missed_days,
    reason_to_leave_out,
)
from microagg_flows.record import RunRecord
from microagg_flows.release import Release, StageOutcome
from microagg_flows.releasing import Order, Settled, now, run_release
from microagg_flows.stages import Stage, run_stage

_FAILED = re.compile(r"exit (\d+) \((\w+)\): (.*)", re.DOTALL)
_RETRY_AFTER_SECONDS: list[float] = [5, 60]

#: The record of a caller in this process: a flow's parameters go to Prefect's database, and this must not.
_caller: ContextVar[RunRecord | None] = ContextVar("record", default=None)
_FAILED_END = "Finished in state Failed"


class _NoTracebacks(logging.Filter):
    """Prefect logs tracebacks and its server stores them; the message of a library may quote a record.

    And it logs the end of a run that failed as if it were nothing, so that who looks for errors does not find it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the line pass without its traceback; not at all where the failed state has said it already."""
        if record.levelno < logging.ERROR and str(record.msg).startswith(_FAILED_END):
            record.levelno, record.levelname = logging.ERROR, "ERROR"
        error = record.exc_info[1] if record.exc_info else None
        record.exc_info = record.exc_text = None
        return not isinstance(error, FailedRun)


for _name in ("prefect.flow_runs", "prefect.task_runs", "prefect.engine"):
    logging.getLogger(_name).addFilter(_NoTracebacks())


@contextmanager
def called_by(record: RunRecord | None) -> Iterator[None]:
    """Have a flow run in this block be written to the record of its caller, and shown where that looks."""
    token = _caller.set(record)
    try:
        yield
    finally:
        _caller.reset(token)


def _stage_task(stage: Stage, release: Release) -> Callable[[], StageOutcome | None]:
    """Make one Prefect task of a stage; it takes no parameters, so nothing of the release is stored or hashed."""

    def may_be_tried_again(_task: Any, _run: Any, state: State[Any]) -> bool:
        error = state.result(raise_on_failure=False)
        # A store was asked again by whoever asked it, for as long as that has sense.
        if not isinstance(error, TransientClusterError):
            return False
        release.progress.say(f"{stage.name:<10} will be tried again: {error.message}")
        return True

    @task(
        name=stage.name,
        task_run_name=stage.name,
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=len(_RETRY_AFTER_SECONDS),
        retry_delay_seconds=_RETRY_AFTER_SECONDS,
        retry_condition_fn=may_be_tried_again,
    )
    def run() -> StageOutcome | None:
        return run_stage(stage, release)

    return run


@flow(name="microagg-release", persist_result=False, log_prints=False)
def release_flow(spec: str, id: str | None = None, replace: bool = False, settings: list[str] | None = None) -> Any:
    """Make and publish one release.

    Args:
        spec: path or URL of the release spec.
        id: the release's id, instead of the spec's.
        replace: publish a new revision where the id is taken by another release.
        settings: fields of the spec that are set for this run, each as ``path=value``.
    """
    reclaim()
    record = _caller.get() or RunRecord()
    progress = record.progress = PrefectProgress(record.progress)
    with nullcontext() if _caller.get() else record.kept():
        ended = _ended(Order(spec, id, replace, tuple(settings or ())), record, progress)
    for trouble in record.troubles:
        get_run_logger().warning(trouble)
    hurry(LAST_SECONDS)
    progress.wait_for("Prefect's server to note the end of the run")
    return ended


def _ended(order: Order, record: RunRecord, progress: PrefectProgress) -> Any:
    """Make the release's document, a failed state, or one of a night that is left out; with its artifacts."""
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    try:
        # When it was meant to start: a nightly release that starts late keeps its day.
        start = run.expected_start_time if run else None
        tonight = Settled.of(order, (start or now()).astimezone(datetime.UTC))
        progress.name_run(tonight.spec.name, tonight.id)
        if context and run and (lost := progress.ask(lambda: end_lost_runs(context.client, run))):
            progress.say(f"{', '.join(lost)} ended without a word, and is shown as Crashed now")
        if reason := reason_to_leave_out(tonight.spec, run, order, tonight.moment, now()):
            progress.say(reason)
            return Completed(name="Skipped", message=reason)
        if run:
            job = f"{release_flow.name}/{tonight.spec.name}" if run.deployment_id else release_flow.name
            record.parent = ParentRun(str(run.id), job)
        if is_scheduled(run, order):
            for sentence in catch_up(order, missed_days(tonight.spec, tonight.moment), _run_within, progress.say):
                get_run_logger().error(sentence)
                record.warnings.append(sentence)  # it does not hold up tonight's
        run_release(tonight, record, lambda stage, release: _stage_task(stage, release)())
        if record.note:
            get_run_logger().warning(record.note)
        document = record.release_document()
        keep_artifacts(record.document(None), document, progress)
        return document
    except Exception as error:
        record.error = safe = sanitized(error, "the release flow")
        keep_artifacts(record.document(safe), None, progress)
        return Failed(message=f"exit {safe.exit_code} ({safe.kind}): {safe.message}")
    except BaseException as interruption:  # it goes on its way, and the server is not waited for long
        hurry(SILENT_SECONDS)
        keep_artifacts(record.document(record.ending(interruption)), None, progress)
        raise


def _run_within(order: Order) -> None:
    context = FlowRunContext.get()
    http = context.client._client if context else None
    patience = http.timeout if http else None
    try:
        with called_by(None):  # a run of its own, which takes no other release's place
            run_flow(dataclasses.replace(order, replace=False))
    finally:
        if http is not None and patience is not None:
            http.timeout = patience  # the runs share it, and the inner one hurries at its end


def run_flow(order: Order) -> None:
    settings = list(order.settings) or None
    state: Any = release_flow(spec=order.spec, id=order.id, replace=order.replace, settings=settings, return_state=True)
    if not state.is_completed():
        raise failure_of(state.message or "")


def failure_of(message: str) -> MicroaggError:
    """Make an error of a failed state's message.

    >>> failure_of("exit 3 (data): the input has no records").exit_code
    3
    """
    match = _FAILED.search(message)
    if match is None:
        return InternalError("the flow ended without saying why; look at its run in Prefect")
    return of_kind(match[2], match[3])
