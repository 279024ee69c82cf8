"""A release as a Prefect flow run, from the command line: the embedded server, or the one PREFECT_API_URL names."""

from __future__ import annotations

import re
from typing import Any

from flows.progress import Progress
from flows.release import release_flow, showing_progress
from microagg_core.errors import (
    ClusterError,
    DataError,
    GateError,
    InternalError,
    MicroaggError,
    SpecError,
    StorageError,
)

_FAILED = re.compile(r"exit (\d+) \((\w+)\): (.*)", re.DOTALL)
_ERRORS: tuple[type[MicroaggError], ...] = (InternalError, SpecError, DataError, GateError, StorageError, ClusterError)


def release_through_prefect(spec: str, identity: str | None, replace: bool, progress: Progress) -> dict[str, Any]:
    """Run the flow and return its document.

    Raises:
        MicroaggError: what the flow's failed state carries.
    """
    with showing_progress(progress):
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
