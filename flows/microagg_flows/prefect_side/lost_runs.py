"""Runs of a deployment that Prefect shows as running though their process is gone, with its worker or its machine."""

from __future__ import annotations

from typing import Any

from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Crashed

_RUNNING = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING]))
_MESSAGE = "it ended without a word: its process is gone, or its machine; a run of its id goes on from what is finished"


def end_lost_runs(client: Any, run: FlowRun) -> list[str]:
    """Have the other running runs of a run's deployment end as crashed; return their names.

    A deployment has one place for a running run. A run holds it by a lease, and Prefect ends the run that cannot renew
    that; so where this run has the place, whatever else is shown as running has lost it, and its process.
    """
    state = client.read_flow_run(run.id).state
    if run.deployment_id is None or state is None or state.state_details.deployment_concurrency_lease_id is None:
        return []
    limit = client.read_deployment(run.deployment_id).global_concurrency_limit
    if limit is None or limit.limit != 1:  # somebody has made room for more
        return []
    of_deployment = FlowRunFilterDeploymentId(any_=[run.deployment_id])
    running = client.read_flow_runs(flow_run_filter=FlowRunFilter(state=_RUNNING, deployment_id=of_deployment))
    lost = [other for other in running if other.id != run.id]
    if lost:  # with the nights that they were catching up with
        parents = FlowRunFilterParentFlowRunId(any_=[other.id for other in lost])
        lost += client.read_flow_runs(flow_run_filter=FlowRunFilter(state=_RUNNING, parent_flow_run_id=parents))
    for other in lost:
        client.set_flow_run_state(other.id, Crashed(message=_MESSAGE), force=True)
    return [other.name for other in lost]
