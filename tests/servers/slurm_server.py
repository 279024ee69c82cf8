"""Slurm on this machine, of a test's own: munge, controller and node, with keys, ports and folders made for it."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from servers.process import free_port, process, wait_until

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


def _configured(folder: Path) -> Path:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key").chmod(0o600)
    host = socket.gethostname().partition(".")[0]
    configuration = folder / "slurm.conf"
    configuration.write_text(_CONFIGURATION.format(host=host, ports=[free_port(), free_port()], folder=folder))
    return configuration


@contextmanager
def running_slurm() -> Iterator[SlurmServer]:
    """Slurm, while the block lasts; commands of this process find it."""
    for name in _PROGRAMS:
        _program(name)
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # the path of a socket is short
    folder.chmod(0o755)
    server = SlurmServer(folder, _configured(folder))
    found = {**os.environ, "SLURM_CONF": str(server.configuration)}
    munge = [f"--socket={folder}/munge", f"--key-file={folder}/munge.key", f"--pid-file={folder}/munged.pid"]
    munge += [f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"]

    def start(name: str, *options: str) -> Path:
        log = folder / f"{name}.out"
        running.enter_context(process([_program(name), *options], found, log, cwd=folder))
        return log

    with ExitStack() as running, pytest.MonkeyPatch.context() as patch:
        running.callback(shutil.rmtree, folder, ignore_errors=True)
        log = start("munged", "--foreground", "--force", *munge)
        wait_until((folder / "munge").exists, "munge", _SECONDS, log)
        log = start("slurmctld", "-D")
        start("slurmd", "-D")
        wait_until(lambda: _is_idle(server), "Slurm", _SECONDS, log)
        patch.setenv("SLURM_CONF", str(server.configuration))
        try:
            yield server
        finally:
            for job in server.jobs():
                with suppress(subprocess.CalledProcessError):  # it has ended meanwhile
                    server.told("scancel", job)
            wait_until(lambda: not server.jobs(), "jobs to end", _SECONDS, log)


def _is_idle(server: SlurmServer) -> bool:
    try:
        return "idle" in server.told("sinfo", "--noheader", "--format=%T")
    except subprocess.SubprocessError:
        return False
