"""What Prefect shows of a release: progress and a log while it is made, then a markdown summary and a table of stages.

Nothing here decides about a release: where Prefect's server does not answer, the log says so and the work goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from prefect import get_run_logger
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from flows.progress import Progress
from microagg_core.reporting.release_report import as_markdown

#: Each update is a request.
_UPDATE_EVERY_SECONDS = 10.0


def keep_artifacts(document: dict[str, Any]) -> None:
    """Create the artifacts of a finished release in the current flow run."""
    with _tolerating():
        create_markdown_artifact(as_markdown(document), key="microagg-release", description="What was released")
        if document["stages"]:
            create_table_artifact(document["stages"], key="microagg-stages", description="What each stage took")


class PrefectProgress:
    """A progress artifact for each piece of work, and lines in the run's log, beside another progress."""

    def __init__(self, beside: Progress) -> None:
        self._beside = beside
        self._artifact: Any = None
        self._total, self._done, self._last = 1, 0, 0.0
        # A server that is gone costs a minute of patience, which is not spent on it again.
        self._answers = True

    def start(self, what: str, total: int) -> None:
        """Make the artifact."""
        self._beside.start(what, total)
        self._total, self._done, self._last = max(total, 1), 0, time.monotonic()
        self._artifact = self._ask(lambda: create_progress_artifact(progress=0.0, description=f"{what}: {total} tasks"))

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
            self._ask(lambda: update_progress_artifact(artifact_id=artifact, progress=percent))

    def _ask(self, request: Callable[[], Any]) -> Any:
        answer = None
        if self._answers:
            self._answers = False
            with _tolerating():
                answer = request()
                self._answers = True
        return answer


@contextmanager
def _tolerating() -> Iterator[None]:
    """Whether an artifact arrives decides nothing."""
    try:
        yield
    except httpx.HTTPError as error:
        get_run_logger().warning(f"Prefect's server did not take an artifact ({type(error).__name__})")
