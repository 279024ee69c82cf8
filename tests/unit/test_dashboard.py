"""Where a person can watch the workers: told where there are pages, and to whom."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from microagg_flows.accounts.account import accounted
from microagg_flows.clusters import handshake
from microagg_flows.clusters.handshake import _has_pages, dashboard_link, tell_dashboard
from microagg_flows.progress import Silence


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
    said, told = Said(), list[str]()
    with accounted() as account:
        account.on_dashboard = told.append
        tell_dashboard(client_of(scheduler_with("distributed.dashboard.core")), said)
        assert account.results(None).dashboard == "http://127.0.0.1:8787/status"
    assert said.lines == ["Dask's dashboard is at http://127.0.0.1:8787/status"]
    assert told == ["http://127.0.0.1:8787/status"]


def test_without_pages_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Said()
    tell_dashboard(client_of(scheduler_with("distributed.http.routing")), said)
    assert dashboard_link(client_of(None)) == "", "whatever goes wrong with it, it decides nothing"
    monkeypatch.setattr(handshake, "dashboard_link", lambda _: "")
    tell_dashboard(client_of(None), said)
    assert said.lines == []
