"""The nights to come: the schedule, and Prefect's server with the deployment and the workers of its pool."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from typing import Any

from microagg_core.errors import SpecError
from microagg_core.extras import needing
from microagg_core.spec.schedule import Schedule
from microagg_core.store.urls import shown
from microagg_flows.doctor import Finding, Patient, looked, strange, well
from microagg_flows.prefect_side import names_prefect_server

_NIGHTS, _DAYS_AHEAD = 3, 400


def look(patient: Patient) -> Iterator[Finding]:
    if patient.spec.schedule is not None:
        schedule = patient.spec.schedule
        yield from looked("schedule", lambda: _next_nights(schedule, patient.now))
    if names_prefect_server(os.environ):
        yield from looked("Prefect", lambda: _server(patient))
    elif patient.spec.schedule is not None:
        yield strange("Prefect", "no server is named, so nobody starts a night; set PREFECT_API_URL")


def _next_nights(schedule: Schedule, now: datetime.datetime) -> Iterator[Finding]:
    with needing("prefect", "a schedule"):
        from microagg_flows.prefect_side.missed_nights import due
    try:
        times = due(schedule, now, now + datetime.timedelta(days=_DAYS_AHEAD))[:_NIGHTS]
    except ValueError:  # such as the 30th of February
        times = []
    if not times:
        raise SpecError("schedule.cron: no night is due within a year; correct it")
    listed = ", ".join(f"{time:%Y-%m-%d %H:%M}" for time in times)
    yield well("schedule", f"the next nights are due at {listed} UTC, catch_up {schedule.catch_up}")


def _server(patient: Patient) -> Iterator[Finding]:
    with needing("prefect", "a Prefect server"):
        from prefect.settings import PREFECT_API_URL

        from microagg_flows.prefect_side.deployments import deployment_standing
        from microagg_flows.prefect_side.flow_run import named_server
    with named_server(patient.progress):
        yield well("Prefect", f"a server of this version answers at {shown(PREFECT_API_URL.value() or '')}")
        if patient.spec.schedule is not None:
            yield _deployment(patient, deployment_standing(patient.spec.name))


def _deployment(patient: Patient, standing: Any) -> Finding:
    name = f"microagg-release/{patient.spec.name}"
    if standing is None:
        return strange("deployment", f"{name} is not there; make it with microagg deploy")
    if not standing.is_scheduled:
        return strange("deployment", f"{name} is there, and its schedule is paused or gone; see microagg deploy")
    if not standing.workers:
        return strange(
            "deployment",
            f"no worker of the pool {standing.pool} is online; prefect worker start --pool {standing.pool}",
        )
    return well("deployment", f"{name} is scheduled, and {standing.workers} workers of {standing.pool} are online")
