"""A release as a Prefect flow run, from the command line: the embedded server, or the one PREFECT_API_URL names."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from prefect.client.orchestration import get_client
from prefect.exceptions import Abort, TerminationSignal
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
    PREFECT_HOME,
    PREFECT_LOGGING_TO_API_ENABLED,
    temporary_settings,
)

from flows.interrupts import sparing_children
from flows.progress import Progress
from flows.release import release_flow, showing_progress
from microagg_core.errors import (
    ClusterError,
    DataError,
    GateError,
    InternalError,
    InterruptionError,
    MicroaggError,
    SpecError,
    StorageError,
)
from microagg_core.storage.urls import shown

_FAILED = re.compile(r"exit (\d+) \((\w+)\): (.*)", re.DOTALL)
_ERRORS: tuple[type[MicroaggError], ...] = (
    InternalError, SpecError, DataError, GateError, StorageError, ClusterError, InterruptionError
)  # fmt: skip
#: The embedded server goes when this process goes: nobody watches its heartbeat, its log is on the terminal, and
#: the client's patience (14 s) is for a busy database, not for a server that is gone.
_EMBEDDED: dict[Any, Any] = {
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,
    PREFECT_LOGGING_TO_API_ENABLED: False,
    PREFECT_CLIENT_MAX_RETRIES: 3,
}


def release_through_prefect(spec: str, identity: str | None, replace: bool, progress: Progress) -> dict[str, Any]:
    """Run the flow and return its document.

    Raises:
        MicroaggError: what the flow's failed state carries; a ``ClusterError`` where Prefect's server does not answer.
    """
    with _server(), showing_progress(progress):
        state: Any = release_flow(spec=spec, id=identity, replace=replace, return_state=True)
    if state.is_completed():
        document: dict[str, Any] = state.result()
        return document
    raise failure_of(state.message or "")


def failure_of(message: str) -> MicroaggError:
    """The error that a failed state's message stands for.

    >>> failure_of("exit 3 (data): the input has no records").exit_code
    3
    """
    match = _FAILED.search(message)
    if match is None:
        return InternalError("the flow ended without saying why; look at its run in Prefect")
    by_kind = {error.kind: error for error in _ERRORS}
    return by_kind.get(match[2], InternalError)(match[3])


@contextmanager
def _server() -> Iterator[None]:
    """A server that answers while the block runs, and a sentence where it stops."""
    # Prefect would print, line by line, what the server did not take.
    logging.raiseExceptions = False
    with temporary_settings({} if PREFECT_API_URL.value() else _EMBEDDED):
        _start_or_find()
        try:
            yield
        except Abort:
            raise ClusterError("the flow run was stopped in Prefect; start the release again") from None
        except httpx.HTTPError as error:
            if _is_interruption(error):
                raise KeyboardInterrupt from None
            raise ClusterError(
                "Prefect's server stopped answering; finished work is kept, so start the release again"
            ) from None


def _start_or_find() -> None:
    """Start the embedded server, or see whether the named one is there.

    Raises:
        ClusterError: it is not.
    """
    url = PREFECT_API_URL.value()
    try:
        if not url and not os.access(PREFECT_HOME.value(), os.W_OK):
            raise RuntimeError("Prefect would wait for a server that cannot keep its database")
        with sparing_children(), get_client(sync_client=True) as client:
            client.raise_for_api_version_mismatch()
    except (RuntimeError, ValueError, httpx.HTTPError):
        if url:
            raise ClusterError(
                f"no Prefect server of this version answers at {shown(url)}; start it, correct PREFECT_API_URL "
                "(and PREFECT_API_AUTH_STRING, where it asks for one), or run with --direct"
            ) from None
        raise ClusterError(
            f"Prefect's embedded server does not start; make {PREFECT_HOME.value()} writable or set PREFECT_HOME, "
            "name a running server in PREFECT_API_URL, or run with --direct"
        ) from None


def _is_interruption(error: BaseException | None) -> bool:
    """Whether it was on the way out of an interrupted flow that the server, interrupted itself, did not answer."""
    while error is not None:
        if isinstance(error, (KeyboardInterrupt, TerminationSignal)):
            return True
        error = error.__context__
    return False
