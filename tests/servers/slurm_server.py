"""Slurm on this machine, of a test's own: munge, controller and node, with keys, ports and folders made for it."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from servers.process import end_with_the_tests

_SECONDS = 60.0
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=2,sched_min_interval=100000
SlurmdParameters=config_overrides
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=20000 State=UNKNOWN
PartitionName=night Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class SlurmServer:
    """A controller with one node that says it has eight cores; ``configuration`` is what its commands are told."""

    folder: Path
    configuration: Path

    def told(self, *command: str) -> str:
        environment = {**os.environ, "SLURM_CONF": str(self.configuration)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=30).stdout

    def jobs(self) -> list[str]:
        """Ids of jobs that wait, run, or are about to end."""
        return self.told("squeue", "--noheader", "--format=%i", "--states=PENDING,RUNNING,COMPLETING").split()


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if found is None or os.geteuid() != 0:
        pytest.skip(f"Slurm on this machine needs {', '.join(_PROGRAMS)} (Debian: slurm-wlm, munge) and root")
    return found


def _free_ports(n: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [int(server.getsockname()[1]) for server in held]
    for server in held:
        server.close()
    return ports


def _wait_until(holds: Callable[[], bool], what: str, log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"{what}; last words: {log.read_text(errors='replace')[-1500:] if log.exists() else 'none'}")
        time.sleep(0.1)


def _started(folder: Path, name: str, *options: str) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.out").open("wb") as log:
        return subprocess.Popen(
            [_program(name), *options],
            cwd=folder,
            env={**os.environ, "SLURM_CONF": str(folder / "slurm.conf")},
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=end_with_the_tests,
        )


def _configured(folder: Path) -> Path:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key").chmod(0o600)
    host = socket.gethostname().partition(".")[0]
    configuration = folder / "slurm.conf"
    configuration.write_text(_CONFIGURATION.format(host=host, ports=_free_ports(2), folder=folder))
    return configuration


@contextmanager
def running_slurm() -> Iterator[SlurmServer]:
    """Slurm, while the block lasts; commands of this process find it."""
    for name in _PROGRAMS:
        _program(name)
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # the path of a socket is short
    folder.chmod(0o755)
    server = SlurmServer(folder, _configured(folder))
    before = os.environ.get("SLURM_CONF")
    processes: list[subprocess.Popen[bytes]] = []
    try:
        munge = [f"--socket={folder}/munge", f"--key-file={folder}/munge.key", f"--pid-file={folder}/munged.pid"]
        logs = [f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"]
        processes.append(_started(folder, "munged", "--foreground", "--force", *munge, *logs))
        _wait_until((folder / "munge").exists, "munge does not start", folder / "munged.out")
        processes.append(_started(folder, "slurmctld", "-D"))
        processes.append(_started(folder, "slurmd", "-D"))
        _wait_until(lambda: _is_idle(server), "Slurm does not start", folder / "slurmctld.out")
        os.environ["SLURM_CONF"] = str(server.configuration)
        yield server
    finally:
        if before is None:
            os.environ.pop("SLURM_CONF", None)
        else:
            os.environ["SLURM_CONF"] = before
        _end(server, processes)
        shutil.rmtree(folder, ignore_errors=True)


def _is_idle(server: SlurmServer) -> bool:
    try:
        return "idle" in server.told("sinfo", "--noheader", "--format=%T")
    except subprocess.SubprocessError:
        return False


def _end(server: SlurmServer, processes: list[subprocess.Popen[bytes]]) -> None:
    try:
        for job in server.jobs() if len(processes) > 2 else ():
            with suppress(subprocess.CalledProcessError):  # it has ended meanwhile
                server.told("scancel", job)
        if len(processes) > 2:
            _wait_until(lambda: not server.jobs(), "jobs do not end", server.folder / "slurmctld.out")
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:  # slurmd waits for what it has to tell of a job
                process.kill()
                process.wait()
