"""Prefect's server, embedded or running elsewhere, that goes away or stands still."""

from __future__ import annotations

import signal
import sys
from typing import Any

import httpx

from servers.process import free_port
from soak import processes
from soak.case import Case
from soak.command import Command
from soak.data import CSV, PLAIN, REFINED
from soak.kinds import enter, kind, strikes, under_way
from soak.site import Services

#: A server of its own is started only where there is a cluster.
_EMBEDDED: dict[str, Any] = {"configurations": (PLAIN, REFINED), "through_prefect": True}
_SECONDS = 150.0


def _strike(case: Case, number: int) -> None:
    case.strike(case.one_of(processes.prefect_servers, "embedded server"), number, "embedded server")


for _name, _says, _number in (
    ("killed", "kill -9 of Prefect's embedded server.", signal.SIGKILL),
    ("terminated", "TERM to Prefect's embedded server.", signal.SIGTERM),
    ("frozen", "STOP of Prefect's embedded server, which never goes on.", signal.SIGSTOP),
):
    _act = under_way(lambda case, _, number=_number: _strike(case, number))
    enter(f"embedded-server-{_name}", _says, _act, **_EMBEDDED)


@strikes(**_EMBEDDED)
def embedded_server_frozen_for_a_while(case: Case, _: Command) -> None:
    """STOP of Prefect's embedded server, CONT up to 30 s later."""
    case.hold(case.one_of(processes.prefect_servers, "embedded server"), "embedded server", 2, 30)


@strikes(**_EMBEDDED)
def flow_killed_with_embedded_server(case: Case, command: Command) -> None:
    """kill -9 of the command: its embedded server goes too."""
    case.one_of(processes.prefect_servers, "embedded server")
    command.send(signal.SIGKILL)


class Named:
    """A server that PREFECT_API_URL names; its log and database are searched like everything else."""

    def __init__(self, case: Case) -> None:
        self._case, self.port = case, free_port()
        self.services = Services(case.site)
        self.url = f"http://127.0.0.1:{self.port}/api"
        case.site.settings["PREFECT_API_URL"] = self.url
        case.site.settings["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-m", "prefect", "--no-prompt", "server", "start", "--no-ui"]
        self.services.start("prefect", [*command, "--host", "127.0.0.1", "--port", str(self.port)])
        if not processes.wait_until(self._answers, _SECONDS):
            raise RuntimeError(f"Prefect's server did not start: {self.services.said('prefect')[-1000:]}")

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def make_well(self) -> None:
        """Have it run and answer, whatever happened to it."""
        self.services.signal_group("prefect", signal.SIGCONT)
        if not self._answers():
            self.services.kill("prefect")
            self.start()


def _named(case: Case) -> tuple[Named]:
    server = Named(case)
    case.mend = server.make_well
    return (server,)


_disturbed = strikes(before=_named, configurations=(PLAIN, CSV), through_prefect=True)


@_disturbed
def named_server_killed(_: Case, __: Command, server: Named) -> None:
    """The server that PREFECT_API_URL names dies."""
    server.services.kill("prefect")


@_disturbed
def named_server_restarted(case: Case, _: Command, server: Named) -> None:
    """The server that PREFECT_API_URL names dies and comes back."""
    server.services.kill("prefect")
    case.pause(0.5, 10)
    server.start()


@_disturbed
def named_server_frozen(_: Case, __: Command, server: Named) -> None:
    """The server that PREFECT_API_URL names answers nothing any more."""
    server.services.signal_group("prefect", signal.SIGSTOP)


@kind(configurations=(CSV,), through_prefect=True)
def named_server_absent(case: Case) -> None:
    """Nothing answers where PREFECT_API_URL points."""
    case.mend = lambda: case.site.settings.pop("PREFECT_API_URL") and None
    case.site.settings["PREFECT_API_URL"] = f"http://127.0.0.1:{free_port()}/api"
    case.finish(case.start())
