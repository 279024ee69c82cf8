"""What an executor says when its connection ends under it, and where a person can watch the workers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from distributed.client import ClosedClientError

from microagg_core.errors import TransientClusterError
from microagg_flows.clusters.handshake import _has_pages, dashboard_link
from microagg_flows.clusters.pool import DaskExecutor, Pool
from microagg_flows.progress import Silence
from microagg_flows.record import RunRecord


class _Closing:
    """A client that answers once, and is closed when it is given work."""

    status = "running"
    scheduler = SimpleNamespace(identity=None)

    def sync(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {"workers": {}}

    def subscribe_topic(self, *_: Any) -> None: ...

    def map(self, *_: Any, **__: Any) -> None:
        raise ClosedClientError("closed")


def test_a_connection_that_is_closed_while_tasks_are_handed_out_is_trouble_of_the_cluster() -> None:
    client: Any = _Closing()
    spec: Any = None
    executor = DaskExecutor(Pool(client, no_workers=1.0, own=True), spec, Silence())
    with pytest.raises(TransientClusterError, match=r"the cluster failed during anonymize \(ClosedClientError\)"):
        executor.map(abs, [1, 2], "anonymize")


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
