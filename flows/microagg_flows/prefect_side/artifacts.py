"""Show a run in Prefect: its name, progress and a log, then how it ended, and a table of the stages.

Nothing here decides about a release: where Prefect's server does not answer, the log says so and the work goes on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import httpx
from prefect import get_run_logger
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.context import FlowRunContext

from microagg_core.group.headway import Headway
from microagg_core.pages.release_report import as_markdown, compared_markdown, results_markdown, stage_rows
from microagg_core.store.objects import sha256_hex
from microagg_flows.progress import Progress

#: Each update is a request.
_UPDATE_EVERY_SECONDS = 10.0
#: For each of three attempts at a request: of a server that has been silent for long, and at the end of a run.
SILENT_SECONDS = 2.0
LAST_SECONDS = 8.0


def artifact_key(series: str | None, what: str = "") -> str:
    """Key of a series' artifacts, the same night after night; keys have small letters, digits and dashes.

    >>> artifact_key("people"), artifact_key("people", "stages")
    ('microagg-people', 'microagg-people--stages')
    >>> artifact_key("Firms_2"), artifact_key("firms-2")
    ('microagg-firms-2-cc9910', 'microagg-firms-2')
    """
    ending = f"--{what}" if what else ""
    if series is None:
        return f"microagg{ending}"
    plain = re.sub("[^a-z0-9]+", "-", series.lower()).strip("-")
    # Names that differ get keys that differ.
    mark = "" if plain == series else f"-{sha256_hex(series.encode())[:6]}"
    return f"microagg-{plain}{mark}{ending}"


def keep_artifacts(results: dict[str, Any], document: dict[str, Any] | None, progress: PrefectProgress) -> None:
    """Create the artifacts of a run that has ended, in the current flow run; ``document`` is that of its release."""
    if document:
        summary = as_markdown({**document, "warnings": results["warnings"]}) + compared_markdown(results)
    else:
        summary = results_markdown(results)
    series, stages = results["series"], stage_rows(results)
    title = " ".join([*(name for name in (series, results["id"]) if name), results["outcome"]])
    progress.wait_for("Prefect's server to take the report")
    progress.ask(lambda: create_markdown_artifact(summary, key=artifact_key(series), description=title))
    if stages:
        key = artifact_key(series, "stages")
        progress.ask(lambda: create_table_artifact(stages, key=key, description=f"{title}: what each stage took"))


class PrefectProgress(Progress):
    """Keep a progress artifact for each piece of work, and lines in the run's log, beside another progress."""

    def __init__(self, beside: Progress) -> None:
        self._beside = beside
        self._series: str | None = None
        self._artifact: Any = None
        self._total, self._done, self._last = 1, 0, 0.0
        # A server that is gone costs a minute of patience, which is not spent on it again.
        self._answers = True

    def wait_for(self, what: str) -> None:
        """Pass it on; a wait is not worth a request."""
        self._beside.wait_for(what)

    def start(self, what: str, total: int) -> None:
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
        self._beside.finish()
        self._update()
        self._artifact = None

    def say(self, text: str) -> None:
        self._beside.say(text)
        get_run_logger().info(text)

    def tell(self, headway: Headway) -> None:
        """Pass it on: what a block loses is nothing for Prefect's database, which others read."""
        self._beside.tell(headway)

    def name_run(self, series: str, identity: str) -> None:
        self._series = series
        context = FlowRunContext.get()
        if context is None or context.flow_run is None:
            return
        run, client = context.flow_run, context.client
        name, tags = f"{series} {identity}", sorted({*run.tags, "microagg", series})
        self.ask(lambda: client.update_flow_run(run.id, name=name, tags=tags))

    def link_dashboard(self, link: str) -> None:
        """Have the run's page lead there, too."""
        super().link_dashboard(link)
        key = artifact_key(self._series, "dashboard")
        where = f"{link}, while the run lasts"
        self.ask(lambda: create_link_artifact(link, "Dask's dashboard", key=key, description=where))

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
            hurry(SILENT_SECONDS)
            self._beside.say("Prefect's server does not answer any more: the work goes on without it")
            get_run_logger().warning(f"Prefect's server did not take an artifact ({type(error).__name__})")
            return None


def hurry(seconds: float) -> None:
    """Have the flow run ask its server with no more patience than this: how the release ends does not depend on it."""
    context = FlowRunContext.get()
    if context is not None:
        http = context.client._client
        http.timeout = httpx.Timeout(min(seconds, http.timeout.read or seconds))
