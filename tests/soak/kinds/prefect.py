"""Prefect's server, embedded or running elsewhere, that goes away or stands still."""

from __future__ import annotations

import signal
import sys

import httpx

from soak import processes
from soak.case import Case
from soak.data import CSV, PLAIN, REFINED
from soak.kinds import kind
from soak.service import Services, free_port

#: A server of its own is started only where there is a cluster.
_EMBEDDED = (PLAIN, REFINED)
_NAMED = (PLAIN, CSV)
_SECONDS = 150.0


def _embedded(case: Case, number: int) -> None:
    command = case.start()
    case.moment(command)
    case.strike(case.one_of(processes.prefect_servers, "embedded server"), number, "embedded server")
    case.finish(command)


@kind(configurations=_EMBEDDED, through_prefect=True)
def embedded_server_killed(case: Case) -> None:
    """kill -9 of Prefect's embedded server."""
    _embedded(case, signal.SIGKILL)


@kind(configurations=_EMBEDDED, through_prefect=True)
def embedded_server_terminated(case: Case) -> None:
    """TERM to Prefect's embedded server."""
    _embedded(case, signal.SIGTERM)


@kind(configurations=_EMBEDDED, through_prefect=True)
def embedded_server_frozen(case: Case) -> None:
    """STOP of Prefect's embedded server, which never goes on."""
    _embedded(case, signal.SIGSTOP)


@kind(configurations=_EMBEDDED, through_prefect=True)
def embedded_server_frozen_for_a_while(case: Case) -> None:
    """STOP of Prefect's embedded server, CONT up to 30 s later."""
    command = case.start()
    case.moment(command)
    server = case.one_of(processes.prefect_servers, "embedded server")
    case.hold(server, "embedded server", 2, 30)
    case.finish(command)


@kind(configurations=_EMBEDDED, through_prefect=True)
def flow_killed_with_embedded_server(case: Case) -> None:
    """kill -9 of the command: its embedded server goes too."""
    command = case.start()
    case.moment(command)
    case.one_of(processes.prefect_servers, "embedded server")
    command.send(signal.SIGKILL)
    case.finish(command)


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
        if not processes.wait_until(self._answers, _SECONDS, every=0.5):
            raise RuntimeError(f"Prefect's server did not start: {self.services.log('prefect').read_text()[-1000:]}")

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def make_well(self) -> None:
        """Running and answering, whatever happened to it."""
        self.services.signal_group("prefect", signal.SIGCONT)
        if not self._answers():
            self.services.kill("prefect")
            self.start()


def _with_named(case: Case) -> Named:
    server = Named(case)
    case.mend = server.make_well
    return server


@kind(configurations=_NAMED, through_prefect=True)
def named_server_killed(case: Case) -> None:
    """The server that PREFECT_API_URL names dies."""
    server = _with_named(case)
    command = case.start()
    case.moment(command)
    server.services.kill("prefect")
    case.did.append("the named server killed")
    case.finish(command)


@kind(configurations=_NAMED, through_prefect=True)
def named_server_restarted(case: Case) -> None:
    """The server that PREFECT_API_URL names dies and comes back."""
    server = _with_named(case)
    command = case.start()
    case.moment(command)
    server.services.kill("prefect")
    case.pause(0.5, 10)
    server.start()
    case.finish(command)


@kind(configurations=_NAMED, through_prefect=True)
def named_server_frozen(case: Case) -> None:
    """The server that PREFECT_API_URL names answers nothing any more."""
    server = _with_named(case)
    command = case.start()
    case.moment(command)
    server.services.signal_group("prefect", signal.SIGSTOP)
    case.did.append("the named server stopped")
    case.finish(command)


@kind(configurations=(CSV,), through_prefect=True, quick=True)
def named_server_absent(case: Case) -> None:
    """Nothing answers where PREFECT_API_URL points."""
    case.mend = lambda: case.site.settings.pop("PREFECT_API_URL") and None
    case.site.settings["PREFECT_API_URL"] = f"http://127.0.0.1:{free_port()}/api"
    case.finish(case.start())
