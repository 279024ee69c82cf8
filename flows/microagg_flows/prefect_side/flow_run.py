"""A release as a Prefect flow run, from the command line: the embedded server, or the one PREFECT_API_URL names."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
from prefect.client.orchestration import get_client
from prefect.exceptions import Abort, TerminationSignal
from prefect.settings import (
    PREFECT_API_REQUEST_TIMEOUT,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    PREFECT_CLIENT_METRICS_PORT,
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
    PREFECT_LOGGING_TO_API_ENABLED,
    get_current_settings,
    temporary_settings,
)

from microagg_core.errors import ClusterError, SpecError
from microagg_core.store.urls import shown
from microagg_flows.interrupts import is_requested
from microagg_flows.prefect_side.embedded_server import embedded_server
from microagg_flows.prefect_side.flow import called_by, run_flow
from microagg_flows.progress import Progress, awaited
from microagg_flows.record import RunRecord
from microagg_flows.releasing import Order

#: A server that does not answer is given up within a minute: three times 15 s, and the pauses between them. Who has
#: set another patience gets it.
_PATIENCE: dict[Any, Any] = {
    setting: value
    for setting, value in ((PREFECT_API_REQUEST_TIMEOUT, 15.0), (PREFECT_CLIENT_MAX_RETRIES, 2))
    if setting.name not in os.environ
}
#: The embedded server goes when this process goes: nobody watches its heartbeat, and its log is on the terminal.
_EMBEDDED: dict[Any, Any] = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, PREFECT_LOGGING_TO_API_ENABLED: False}


def release_through_prefect(order: Order, record: RunRecord) -> None:
    """Run the flow; the record says how it ended, and what the flow's failed state carries is raised."""
    with _server(record), called_by(record):
        try:
            run_flow(order)
        finally:
            record.progress.wait_for("")


@contextmanager
def _server(record: RunRecord) -> Iterator[None]:
    """Have a server that answers while the block runs, and a sentence where it stops."""
    # Prefect would print, line by line, what the server did not take.
    logging.raiseExceptions = False
    with temporary_settings(_PATIENCE):
        named = bool(PREFECT_API_URL.value())
        with _answering(record.progress) if named else _embedded(record.progress):
            try:
                yield
            except Abort:
                raise ClusterError("the flow run was stopped in Prefect; start the release again") from None
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                raise ClusterError(
                    f"PREFECT_CLIENT_METRICS_PORT: port {PREFECT_CLIENT_METRICS_PORT.value()} is taken on this "
                    "machine, by a worker maybe; set another"
                ) from None
            except httpx.HTTPError as error:
                if is_requested() or _is_interruption(error):
                    raise KeyboardInterrupt from None
                ending = "; finished work is kept, so start the release again"
                if record.is_finished:
                    ending = ", so its record of this run is not complete"
                raise ClusterError(f"Prefect's server stopped answering{ending}") from None


@contextmanager
def _embedded(progress: Progress) -> Iterator[None]:
    with temporary_settings(_EMBEDDED), ExitStack() as stack:
        settings = get_current_settings().to_environment_variables(exclude_unset=True)
        with awaited(progress, "Prefect's server to start"):
            url = stack.enter_context(embedded_server(settings))
        with temporary_settings({PREFECT_API_URL: url}):
            yield


@contextmanager
def named_server(progress: Progress) -> Iterator[None]:
    """Use the server that PREFECT_API_URL names, in the block; refuse where it names none."""
    with temporary_settings(_PATIENCE):
        if not PREFECT_API_URL.value():
            raise SpecError("PREFECT_API_URL: names no Prefect server, which would keep the deployments; set it")
        with _answering(progress):
            yield


@contextmanager
def _answering(progress: Progress) -> Iterator[None]:
    url = PREFECT_API_URL.value() or ""
    try:
        with awaited(progress, f"Prefect's server at {shown(url)}"), get_client(sync_client=True) as client:
            client.raise_for_api_version_mismatch()
    except (RuntimeError, ValueError, httpx.HTTPError):
        raise ClusterError(
            f"no Prefect server of this version answers at {shown(url)}; start it, correct PREFECT_API_URL "
            "(and PREFECT_API_AUTH_STRING, where it asks for one), or run with --direct"
        ) from None
    yield


def _is_interruption(error: BaseException | None) -> bool:
    """Tell whether an interrupted flow was on its way out when the server, interrupted itself, did not answer."""
    while error is not None:
        if isinstance(error, (KeyboardInterrupt, TerminationSignal)):
            return True
        error = error.__context__
    return False
