"""``cluster: {ssh: {hosts: [...]}}``: workers that are started through ssh; their scheduler is in this process."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import asyncssh
from distributed import Security, SpecCluster
from distributed.core import Status
from distributed.deploy.spec import ProcessInterface
from distributed.scheduler import Scheduler

from microagg_core.spec.clusters import Ssh, SshCluster
from microagg_flows.clusters.pool import Pool, Supply
from microagg_flows.clusters.scheduler import dask_settings, scheduler_options, started, tls_settings, worker_variables
from microagg_flows.progress import Progress

#: How long a machine may take to let somebody in, and a worker to end what it does.
_LOGIN_SECONDS, _ENDING_SECONDS = 30, 15.0
_LONGEST_WORDS = 200


@contextmanager
def hired(cluster: SshCluster, _progress: Progress) -> Iterator[Pool]:
    wanted = cluster.ssh
    with dask_settings(), started("ssh", _Cluster, wanted) as (machines, client):
        yield Pool(client, no_workers=wanted.wait, restarts=True, wanted=wanted, supply=_Machines(machines))


class _Worker(ProcessInterface):
    """A worker on another machine, and the connection over which it was started and is ended."""

    def __init__(self, scheduler: str, *, host: str, login: dict[str, Any], wish: dict[str, Any], name: str) -> None:
        super().__init__(scheduler=scheduler, name=name)  # type: ignore[no-untyped-call]
        self.host, self.said = host, ""
        self._login, self._wish = login, {**wish, "scheduler": scheduler, "name": str(name)}
        self._connection: Any = None
        self._process: Any = None
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it; of one that does not come nobody is told, and whoever waits for one asks."""
        self.status = Status.running
        try:
            self._connection = await asyncssh.connect(**self._login)
            python = shlex.quote(self._wish["python"])
            command = f"exec {python} -m microagg_flows.clusters.ssh_worker"
            self._process = await self._connection.create_process(command, stdout=asyncssh.DEVNULL)
            self._process.stdin.write(json.dumps(self._wish) + "\n")
            self._following = asyncio.create_task(self._follow())
        except (asyncssh.Error, OSError, TimeoutError) as error:
            self.said = _in_words(error)

    async def _follow(self) -> None:
        """Read what it says, so that it can say more; its last line is why it ended."""
        last = ""
        with suppress(asyncssh.Error, OSError):
            async for line in self._process.stderr:
                last = line.strip() or last
        self.said = f"its worker ended ({last[:_LONGEST_WORDS] or 'without a word'})"

    async def close(self) -> None:
        """End it: by the end of what it reads, and if that does not do, with the connection."""
        if self._process is not None:
            with suppress(asyncssh.Error, OSError, TimeoutError):
                self._process.stdin.write_eof()
                await asyncio.wait_for(self._process.wait_closed(), _ENDING_SECONDS)
            self._process.terminate()
        if self._following is not None:
            self._following.cancel()
        if self._connection is not None:
            self._connection.close()
        await super().close()  # type: ignore[no-untyped-call]


def _in_words(error: BaseException) -> str:
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return "its key is not among the known hosts"
    if isinstance(error, asyncssh.PermissionDenied):
        return "it does not let this user in with these keys"
    if isinstance(error, TimeoutError):
        return "it does not answer"
    if isinstance(error, OSError):
        return error.strerror or "it cannot be reached"
    return f"its ssh server ended the connection ({type(error).__name__})"


class _Cluster(SpecCluster):
    def __init__(self, wanted: Ssh, security: Security) -> None:
        self._wanted = wanted
        settings = dict(tls_settings(security))
        self._wish = {
            "threads": wanted.threads,
            "memory": wanted.memory_bytes,
            "environment": worker_variables(wanted.environment),
            "settings": {**settings, "distributed.comm.require-encryption": True},
            "python": wanted.python or sys.executable,
        }
        scheduler = {"cls": Scheduler, "options": scheduler_options(wanted.host, security)}
        super().__init__(  # type: ignore[no-untyped-call]
            scheduler=scheduler, security=security, worker={"cls": _Worker}, name="microagg-ssh", silence_logs=50
        )

    def new_worker_spec(self) -> dict[str, Any]:
        """Describe the next worker, on the machine that has the fewest."""
        taken = [spec["options"]["host"] for spec in self.worker_spec.values()]
        host = min(self._wanted.hosts, key=taken.count)
        name = f"{host}-{self._i}"
        self._i += 1
        options = {"host": host, "login": _login(host, self._wanted), "wish": self._wish}
        return {name: {"cls": _Worker, "options": options}}


def _login(host: str, wanted: Ssh) -> dict[str, Any]:
    """Options to log in to ``[user@]name[:port]``; what is not said here, ssh's own configuration says.

    >>> login = _login("micro@node-7:2222", Ssh(hosts=("node-7",), known_hosts="/etc/known"))
    >>> login["username"], login["host"], login["port"], login["known_hosts"]
    ('micro', 'node-7', 2222, '/etc/known')
    """
    user, _, place = host.rpartition("@")
    name, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        name, port = place, ""
    login = {
        "host": name.strip("[]"),
        "username": user,
        "port": int(port or 0),
        "client_keys": [wanted.key_file] if wanted.key_file else [],
        "known_hosts": wanted.known_hosts,
        "connect_timeout": _LOGIN_SECONDS,
        "login_timeout": _LOGIN_SECONDS,
    }
    return {option: value for option, value in login.items() if value}


class _Machines(Supply):
    cure = "see to the machines, and start the release again"

    def __init__(self, cluster: SpecCluster) -> None:
        self._cluster = cluster

    def news(self) -> str:
        said = {worker.host: worker.said for worker in list(self._cluster.workers.values()) if worker.said}
        return ", ".join(f"{host}: {words}" for host, words in said.items())

    def refusal(self) -> str:
        workers = list(self._cluster.workers.values())
        return f"none of its machines works ({self.news()})" if workers and all(w.said for w in workers) else ""
