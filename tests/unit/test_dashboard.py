"""Where a person can watch the workers: told where there are pages, and to whom."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from microagg_flows.clusters.handshake import _has_pages, dashboard_link
from microagg_flows.progress import Silence
from microagg_flows.record import RunRecord


class Said(Silence):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def scheduler_with(module: str) -> Any:
    """A scheduler whose server has an application from a module."""
    application = type("Application", (), {"__module__": module})()
    return SimpleNamespace(http_application=SimpleNamespace(applications=[application]))


def client_of(scheduler: Any) -> Any:
    def sync(_run: object, question: Any, **_: object) -> Any:
        return question(scheduler)

    return SimpleNamespace(sync=sync, run_on_scheduler=None, dashboard_link="http://127.0.0.1:8787/status")


def test_pages_are_known_by_the_module_that_makes_them() -> None:
    assert _has_pages(scheduler_with("distributed.dashboard.core"))
    assert not _has_pages(scheduler_with("distributed.http.routing"))


def test_the_link_is_said_and_kept() -> None:
    progress = Said()
    record = RunRecord(progress=progress)
    progress.link_dashboard(dashboard_link(client_of(scheduler_with("distributed.dashboard.core"))))
    assert record.document(None)["dashboard"] == "http://127.0.0.1:8787/status"
    assert progress.lines == ["Dask's dashboard is at http://127.0.0.1:8787/status"]


def test_without_pages_there_is_no_link() -> None:
    assert dashboard_link(client_of(scheduler_with("distributed.http.routing"))) == ""
    assert dashboard_link(client_of(None)) == "", "whatever goes wrong with it, it decides nothing"
