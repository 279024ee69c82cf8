"""A Prefect deployment for each series: its schedule, one run at a time, the others queued."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions, WorkerStatus
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.utilities.callables import parameter_schema

from microagg_core.errors import ClusterError, SpecError
from microagg_flows.prefect_side import Deployable
from microagg_flows.prefect_side.cleaning import clean_flow
from microagg_flows.prefect_side.flow import release_flow

#: The flow of the installed package: a worker needs `microagg` in its environment, and no copy of any folder.
_ENTRYPOINT = "microagg_flows.prefect_side.flow.release_flow"
_CLEANING_ENTRYPOINT = "microagg_flows.prefect_side.cleaning.clean_flow"
_ENVIRONMENT = {
    "DASK_LOGGING__DISTRIBUTED": "warning",
    "DO_NOT_TRACK": "1",
    # A worker that is scraped holds the port, and every run that would open it too would crash.
    "PREFECT_CLIENT_METRICS_ENABLED": "false",
}
#: When work areas are cleaned: by day, when no night is made.
_CLEANED = CronSchedule(cron="0 12 * * *", timezone="UTC")


@dataclass(frozen=True)
class DeploymentStanding:
    """A deployment: whether its schedule is active, its pool, and how many workers of that are online."""

    is_scheduled: bool
    pool: str
    workers: int


def deployment_standing(series: str) -> DeploymentStanding | None:
    """Read the deployment of a series; None where there is none."""
    with _explained(), get_client(sync_client=True) as client:
        try:
            deployment = client.read_deployment_by_name(f"{release_flow.name}/{series}")
        except ObjectNotFound:
            return None
        is_active = not deployment.paused and any(one.active for one in deployment.schedules)
        pool = deployment.work_pool_name or ""
        workers = client.read_workers_for_work_pool(pool) if pool else []
        online = [one for one in workers if one.status == WorkerStatus.ONLINE]
        return DeploymentStanding(is_active, pool, len(online))


def deploy(deployables: Sequence[Deployable], pool: str, settings: Sequence[str]) -> None:
    """Make the deployments, or bring those that are there up to date."""
    with _explained(), get_client(sync_client=True) as client:
        _refuse_unknown_pool(client, pool)
        of_releases = client.create_flow_from_name(release_flow.name)
        of_cleaning = client.create_flow_from_name(clean_flow.name)
        for deployable in deployables:
            common = _common(deployable, pool, settings)
            client.create_deployment(flow_id=of_releases, **_release(deployable), **common)
            if deployable.spec.schedule is None:  # no run comes to its work area by itself
                client.create_deployment(flow_id=of_cleaning, **_cleaning(deployable), **common)


def _release(deployable: Deployable) -> dict[str, Any]:
    schedule = deployable.spec.schedule
    times = None if schedule is None else CronSchedule(cron=schedule.cron, timezone=schedule.timezone)
    return {
        "description": f"Releases of the series {deployable.spec.name}, from {deployable.place}.",
        # Two releases of one series would only race each other; the second waits, as it may be another night.
        "concurrency_limit": 1,
        "concurrency_options": ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy.ENQUEUE),
        "entrypoint": _ENTRYPOINT,
        "parameter_openapi_schema": parameter_schema(release_flow).model_dump(exclude_unset=True),
        "schedules": [DeploymentScheduleCreate(schedule=times, active=True, slug="schedule")] if times else [],
    }


def _cleaning(deployable: Deployable) -> dict[str, Any]:
    return {
        "description": f"Removes the rows of failed runs of the series {deployable.spec.name} whose time is up.",
        "entrypoint": _CLEANING_ENTRYPOINT,
        "parameter_openapi_schema": parameter_schema(clean_flow).model_dump(exclude_unset=True),
        "schedules": [DeploymentScheduleCreate(schedule=_CLEANED, active=True, slug="schedule")],
    }


def _common(deployable: Deployable, pool: str, settings: Sequence[str]) -> dict[str, Any]:
    return {
        "name": deployable.spec.name,
        "tags": ["microagg", deployable.spec.name],
        "parameters": {"spec": deployable.place, **({"settings": list(settings)} if settings else {})},
        "pull_steps": [],
        "enforce_parameter_schema": True,
        "work_pool_name": pool,
        "job_variables": {"env": _ENVIRONMENT},
        "paused": False,
    }


def _refuse_unknown_pool(client: SyncPrefectClient, pool: str) -> None:
    try:
        client.read_work_pool(pool)
    except ObjectNotFound:
        raise SpecError(
            f"--pool: the server has no work pool {pool!r}; create it with: prefect work-pool create {pool} "
            "--type process"
        ) from None


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except PrefectHTTPStatusError as error:
        raise ClusterError(
            f"Prefect's server does not take a deployment (status {error.response.status_code}); look into its log"
        ) from None
    except httpx.HTTPError:
        raise ClusterError("Prefect's server stopped answering; the same command deploys the rest") from None
