"""A release or a plan without Prefect: the same stages, called one after the other."""

from __future__ import annotations

import datetime
from typing import Any

from microagg_core.errors import DataError, MicroaggError
from microagg_core.reporting.plan_report import PlanReport
from microagg_core.spec.loading import load_spec
from microagg_flows.executors import executor_for
from microagg_flows.outcome import telling_if_published
from microagg_flows.progress import Progress
from microagg_flows.stages import new_release, run_until


def release_directly(spec_path: str, identity: str | None, replace: bool, progress: Progress) -> dict[str, Any]:
    """Make and publish one release; returns its document."""
    spec = load_spec(spec_path)
    with telling_if_published() as outcome, executor_for(spec, progress) as workers:
        release = outcome.release = new_release(spec, workers, identity, replace, datetime.datetime.now(datetime.UTC))
        run_until("report", release)
    return outcome.document()


def plan_directly(spec_path: str, progress: Progress) -> tuple[PlanReport, MicroaggError | None]:
    """Survey and plan only; a plan that a release would refuse comes with the refusal."""
    spec = load_spec(spec_path)
    with executor_for(spec, progress) as workers:
        # Whatever is published under the id is no concern of a plan.
        release = new_release(spec, workers, None, True, datetime.datetime.now(datetime.UTC))
        release.ignore_published = True
        try:
            run_until("plan", release)
        except MicroaggError as error:
            if release.plan_report is None:
                raise
            return release.plan_report, error
    if release.plan_report is None:
        raise DataError("nothing was planned")
    return release.plan_report, None
