"""What Prefect shows of a release: progress and a log while it is made, then a markdown summary and a table of stages.

Nothing here decides about a release: where Prefect's server does not answer, the log says so and the work goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
from prefect import get_run_logger
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.context import FlowRunContext

from microagg_core.reporting.release_report import as_markdown
from microagg_flows.progress import Progress

#: Each update is a request.
_UPDATE_EVERY_SECONDS = 10.0
#: For each of three attempts at a request: of a server that has been silent for long, and at the end of a run.
_SILENT_SECONDS = 2.0
LAST_SECONDS = 8.0


def keep_artifacts(document: dict[str, Any], progress: PrefectProgress) -> None:
    """Create the artifacts of a finished release in the current flow run."""
    stages = [_readable(stage) for stage in document["stages"]]
    summary = as_markdown(document)
    progress.wait_for("Prefect's server to take the report")
    progress.ask(lambda: create_markdown_artifact(summary, key="microagg-release", description="What was released"))
    if stages:
        progress.ask(lambda: create_table_artifact(stages, key="microagg-stages", description="What each stage took"))


def _readable(stage: dict[str, Any]) -> dict[str, Any]:
    """A stage's account with as many digits as mean something.

    >>> _readable({"name": "plan", "seconds": 0.12345678, "peak_bytes": 123_456_789})
    {'name': 'plan', 'seconds': 0.12, 'peak MiB': 118}
    """
    cells: dict[str, Any] = {}
    for name, value in stage.items():
        if name.endswith("_bytes"):
            cells[f"{name.removesuffix('_bytes')} MiB"] = round(value / 2**20)
        else:
            cells[name] = round(value, 1 if value >= 10 else 2) if isinstance(value, float) else value
    return cells


class PrefectProgress:
    """A progress artifact for each piece of work, and lines in the run's log, beside another progress."""

    def __init__(self, beside: Progress) -> None:
        self._beside = beside
        self._artifact: Any = None
        self._total, self._done, self._last = 1, 0, 0.0
        # A server that is gone costs a minute of patience, which is not spent on it again.
        self._answers = True

    def wait_for(self, what: str) -> None:
        """Pass it on; a wait is not worth a request."""
        self._beside.wait_for(what)

    def start(self, what: str, total: int) -> None:
        """Make the artifact."""
        self._beside.start(what, total)
        self._total, self._done, self._last = max(total, 1), 0, time.monotonic()
        self._artifact = self.ask(lambda: create_progress_artifact(progress=0.0, description=f"{what}: {total} tasks"))

    def advance(self) -> None:
        """Count; the artifact follows every few seconds."""
        self._beside.advance()
        self._done += 1
        if time.monotonic() - self._last >= _UPDATE_EVERY_SECONDS:
            self._last = time.monotonic()
            self._update()

    def finish(self) -> None:
        """Bring the artifact up to date."""
        self._beside.finish()
        self._update()
        self._artifact = None

    def say(self, text: str) -> None:
        """Log the line, and pass it on."""
        self._beside.say(text)
        get_run_logger().info(text)

    def _update(self) -> None:
        artifact = self._artifact
        if artifact is not None:
            percent = 100.0 * self._done / self._total
            self.ask(lambda: update_progress_artifact(artifact_id=artifact, progress=percent))

    def ask(self, request: Callable[[], Any]) -> Any:
        """Ask the server, unless it has stopped answering: whether an artifact arrives decides nothing."""
        if not self._answers:
            return None
        try:
            return request()
        except httpx.HTTPError as error:
            self._answers = False
            hurry(_SILENT_SECONDS)
            self._beside.say("Prefect's server does not answer any more: the work goes on without it")
            get_run_logger().warning(f"Prefect's server did not take an artifact ({type(error).__name__})")
            return None


def hurry(seconds: float) -> None:
    """Have the flow run ask its server with no more patience than this: how the release ends does not depend on it."""
    context = FlowRunContext.get()
    if context is not None:
        http = context.client._client
        http.timeout = httpx.Timeout(min(seconds, http.timeout.read or seconds))
