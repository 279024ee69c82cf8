"""Workers that are started through ssh, by servers of the tests' own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from inputs.people import people
from microagg_core.errors import ClusterError
from microagg_core.spec.clusters import LocalCluster, Ssh, SshCluster
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.clusters import connect, worker_records
from microagg_flows.progress import Silence
from microagg_flows.release import new_release
from microagg_flows.stages import run_until
from releasing.runs import NOW, data_digests, write_release
from servers.process import wait_until
from servers.ssh_servers import SshServers, running_ssh_servers

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServers]:
    with running_ssh_servers(tmp_path_factory.mktemp("ssh")) as servers:
        yield servers


def cluster_on(servers: SshServers, **others: Any) -> SshCluster:
    """Workers on both servers, which reach this process over the loopback interface."""
    parts: dict[str, Any] = {"key_file": servers.key_file, "known_hosts": servers.known_hosts, "wait": 60, **others}
    return SshCluster(ssh=Ssh(hosts=tuple(servers.hosts), host="127.0.0.1", memory="1GiB", **parts))


def some_spec(folder: Path) -> ReleaseSpec:
    return load_spec(str(write_release(folder, [people(2000)])))


def whoever(_item: int) -> tuple[int, int, str | None]:
    """The process that does it, the server's session that it belongs to, and a variable of it."""
    time.sleep(0.1)
    session = [p.pid for p in psutil.Process().parents() if "ssh_worker" in " ".join(p.cmdline())]
    return os.getpid(), session[0], os.environ.get("PLACE")


def test_a_release_by_two_ssh_servers_has_the_bytes_of_any_other(servers: SshServers, tmp_path: Path) -> None:
    tables = [people(2000, first=i * 2000) for i in range(3)]
    clusters = {"ssh": cluster_on(servers), "local": LocalCluster(workers=1, memory="1GiB")}
    for name, cluster in clusters.items():
        spec = load_spec(str(write_release(tmp_path / name, tables, blocks={"max_records": 400})))
        with connect(cluster, spec, Silence()) as workers:
            run_until("report", new_release(spec, workers, None, False, NOW))
    assert data_digests(tmp_path / "ssh" / "output") == data_digests(tmp_path / "local" / "output")


def test_workers_are_spread_over_the_machines_have_their_variables_and_end(servers: SshServers, tmp_path: Path) -> None:
    cluster = cluster_on(servers, workers=2, environment={"PLACE": "a node"})
    with connect(cluster, some_spec(tmp_path), Silence()) as executor:
        address = executor._client.scheduler.address  # type: ignore[attr-defined]
        wait_until(lambda: len(executor.look_around() or ()) == 2, "both workers", 60)  # type: ignore[attr-defined]
        done = executor.map(whoever, list(range(30)), "who")
    assert address.startswith("tls://")
    assert len({process for process, _, _ in done}) == len({session for _, session, _ in done}) == 2
    assert {place for _, _, place in done} == {"a node"}
    for process, session, _ in set(done):
        wait_until(lambda n=process, m=session: not psutil.pid_exists(n) and not psutil.pid_exists(m), "the end", 30)


def test_nothing_of_a_worker_listens_without_tls_but_on_its_own_machine(servers: SshServers, tmp_path: Path) -> None:
    with connect(cluster_on(servers, workers=1), some_spec(tmp_path), Silence()) as executor:
        ((process, session, _),) = executor.map(whoever, [0], "who")
        (worker,) = executor.look_around() or ()  # type: ignore[attr-defined]
        sockets = [socket for pid in (process, session) for socket in psutil.Process(pid).net_connections("tcp")]
    told = urlsplit(worker.address).port
    others = [s.laddr.ip for s in sockets if s.status == psutil.CONN_LISTEN and s.laddr.port != told]
    assert set(others) <= {"127.0.0.1"}


def test_no_certificate_and_no_variable_is_in_the_list_of_processes(servers: SshServers, tmp_path: Path) -> None:
    cluster = cluster_on(servers, workers=1, environment={"PLACE": "canary"})
    with connect(cluster, some_spec(tmp_path), Silence()) as executor:
        (done,) = executor.map(whoever, [0], "who")
        words = " ".join(" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"]))
    assert done[2] == "canary" and "canary" not in words and "PRIVATE KEY" not in words


def test_each_worker_on_a_machine_has_a_record(servers: SshServers, tmp_path: Path) -> None:
    records = worker_records(cluster_on(servers), some_spec(tmp_path), Silence())
    assert [(record.number, record.unfit) for record in records] == [(1, None), (2, None)]
    assert {record.memory_limit for record in records} == {2**30}
    with pytest.raises(ClusterError, match="no worker comes, because none of its machines works"):
        worker_records(cluster_on(servers, python="/nowhere/python"), some_spec(tmp_path), Silence())


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"known_hosts": "/dev/null"}, "its key is not among the known hosts"),
        ({"python": "/nowhere/python"}, r"its worker ended \(.*/nowhere/python"),
        ({"hosts": ("127.0.0.1:9",)}, "Connect call failed|refused"),
    ],
)
def test_machines_that_do_not_work_end_the_release_at_once_with_the_cause(
    servers: SshServers, tmp_path: Path, parts: dict[str, Any], words: str
) -> None:
    ssh = cluster_on(servers, wait=600).ssh.model_copy(update=parts)
    started = time.monotonic()
    with (
        pytest.raises(ClusterError, match=rf"abs: no worker comes, because none of its machines works \(.*({words})"),
        connect(SshCluster(ssh=ssh), some_spec(tmp_path), Silence()) as executor,
    ):
        executor.map(abs, [-1], "abs")
    assert time.monotonic() - started < 200
