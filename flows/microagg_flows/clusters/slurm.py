"""``cluster: {slurm: ...}``: workers that are jobs of Slurm, one each; their scheduler is in this process.

What a job needs to be let in travels in its script, which Slurm shows to nobody but its owner and the administrator;
so no folder has to be shared between this machine and the nodes.
"""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from distributed import Security

from microagg_core.errors import ClusterError
from microagg_core.kernels import LASTING_TMPDIR
from microagg_core.spec.clusters import Slurm, SlurmCluster
from microagg_flows.clusters.pool import Pool, Supply
from microagg_flows.clusters.scheduler import dask_settings, scheduler_options, started, tls_settings, worker_variables
from microagg_flows.interrupts import refusing_handlers
from microagg_flows.progress import Progress

with refusing_handlers():  # on Ctrl-C it would end this process without a word, and with exit code 0
    from dask_jobqueue.slurm import SLURMCluster, SLURMJob

_MIB = 2**20
#: What a job asks for besides its worker's memory: the process that watches over the worker.
_BESIDE_BYTES = 256 * _MIB
#: A worker ends so long before its job would be ended, or after so much of its time where that is short: what it was
#: doing is done by others then.
_BEFORE_THE_END_SECONDS, _BEFORE_THE_END_SHARE = 120, 0.2
#: A worker that has lost this process leaves its job.
_DEATH_SECONDS = 60
#: A controller that is busy for a moment does not take a job.
_SUBMISSIONS, _PAUSE_SECONDS = 3, 5.0
#: How often to ask Slurm what becomes of the jobs, and how long it may take to answer.
_ASK_SECONDS, _ANSWER_SECONDS = 10.0, 20.0
#: Jobs that are over are replaced by then, if their workers had come; if not, nobody replaces them.
_REPLACED_SECONDS = 25.0
_LONGEST_WORDS = 200


@contextmanager
def hired(cluster: SlurmCluster, _progress: Progress) -> Iterator[Pool]:
    wanted = cluster.slurm
    _find_slurm()
    with dask_settings(), started("slurm", lambda *of: _Workers(**_parts(*of)), wanted) as (jobs, client):
        yield Pool(client, no_workers=wanted.wait, restarts=True, wanted=wanted, supply=_Jobs(jobs, wanted))


class _Job(SLURMJob):
    """A worker's job; what Slurm says where it does not take it is remembered."""

    said = ""

    async def start(self) -> None:
        for tries_left in reversed(range(_SUBMISSIONS)):
            try:
                await super().start()  # type: ignore[no-untyped-call]
                self.said = ""
                return
            except (RuntimeError, ValueError, OSError) as error:
                self.said = _last_line(str(error))
                await asyncio.sleep(_PAUSE_SECONDS if tries_left else 0)
        # Of a worker that does not come nobody is told; whoever waits for one asks.
        self.status = type(self.status).running


class _Workers(SLURMCluster):
    """Jobs that find certificates in their script, where Dask would look for a folder that all nodes share."""

    job_cls = _Job

    def _get_worker_security(self, _security: Security) -> None:
        return None


def _parts(wanted: Slurm, security: Security) -> dict[str, Any]:
    """Say a spec in the words of dask-jobqueue."""
    before_the_end = min(_BEFORE_THE_END_SECONDS, int(_BEFORE_THE_END_SHARE * wanted.seconds))
    # Slurm would leave a file for each job in the folder where it was handed in.
    log = f"{wanted.logs}/microagg-%j.log" if wanted.logs else "/dev/null"
    return {
        "n_workers": 0,
        "queue": wanted.queue,
        "account": wanted.account,
        "walltime": wanted.walltime,
        "processes": 1,
        "cores": wanted.threads,
        "job_cpu": wanted.cores or wanted.threads,
        "memory": f"{wanted.memory_bytes}B",
        "job_mem": f"{(wanted.memory_bytes + _BESIDE_BYTES) // _MIB}M",
        "job_name": "microagg",
        "python": shlex.quote(wanted.python) if wanted.python else None,
        "job_extra_directives": [f"--output={log}", *wanted.options],
        "job_script_prologue": [*_environment(worker_variables(wanted.environment), security), *wanted.prologue],
        "worker_extra_args": [
            *("--lifetime", f"{wanted.seconds - before_the_end}s"),
            *("--no-dashboard", "--dashboard-address", "127.0.0.1:0"),  # what a worker says of itself speaks no TLS
        ],
        "death_timeout": str(_DEATH_SECONDS),
        "protocol": "tls://",
        "security": security,
        "scheduler_options": scheduler_options(wanted.host, security),
        "silence_logs": 50,
    }


def _environment(variables: Mapping[str, str], security: Security) -> Iterator[str]:
    # A job has the variables of whoever hands it in; the private folder of this run is no place for it.
    here = shlex.quote(tempfile.gettempdir())
    yield f'if [ "${{TMPDIR:-}}" = {here} ]; then unset TMPDIR {LASTING_TMPDIR}; fi'
    settings = {
        "DASK_" + name.replace(".", "__").replace("-", "_").upper(): value
        for name, value in tls_settings(security).items()
    }
    for name, value in {**settings, **variables}.items():
        yield f"export {name}={shlex.quote(value)}"


def _find_slurm() -> None:
    answer = _asked("sinfo", "--noheader")
    if answer is None or answer.returncode:
        raise ClusterError(
            "Slurm does not answer here (sinfo); start the release on a machine that hands in jobs, or name another "
            "cluster"
        )


def _asked(*command: str) -> subprocess.CompletedProcess[str] | None:
    """Run a command of Slurm's; None where it is not there or does not answer."""
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    return None


def _last_line(words: str) -> str:
    """Cut out what a program said last: the one line that says why."""
    lines = [line.strip() for line in words.splitlines() if line.strip() and "Command" not in line]
    return (lines[-1] if lines else "it says nothing")[:_LONGEST_WORDS]


class _Jobs(Supply):
    cure = "see to the queue, or give the jobs longer (cluster.slurm.wait), and start the release again"

    def __init__(self, cluster: Any, wanted: Slurm) -> None:
        self._cluster, self._wanted = cluster, wanted
        self._told, self._asked_at = "", 0.0
        self._gone: tuple[list[str], float] = [], 0.0

    def news(self) -> str:
        self._ask()
        return self._told

    def refusal(self) -> str:
        jobs = list(self._cluster.workers.values())
        refused = [job.said for job in jobs if job.said]
        if refused and len(refused) == len(jobs):
            return f"Slurm takes no job ({refused[-1]})"
        self._ask()
        gone, since = self._gone
        if gone and time.monotonic() - since > _REPLACED_SECONDS:
            where = f"look into {self._wanted.logs}" if self._wanted.logs else "name a folder in cluster.slurm.logs"
            return f"Slurm's jobs end before their workers come; {where}, where they say why"
        return ""

    def _ask(self) -> None:
        if time.monotonic() - self._asked_at < _ASK_SECONDS:
            return
        self._asked_at = time.monotonic()
        ids = [job.job_id for job in list(self._cluster.workers.values()) if job.job_id]
        if not ids:
            return
        answer = _asked("squeue", "--noheader", "--format=%T %r", f"--jobs={','.join(ids)}")
        if answer is None:
            self._told = "Slurm does not answer"
            return
        states = sorted(set(answer.stdout.splitlines()))
        # Slurm forgets jobs that are over, and says so of a single one; a controller that is away says something else.
        over = answer.returncode == 0 or "Invalid job id" in answer.stderr
        if not over or states:
            self._gone = [], 0.0
        elif self._gone[0] != ids:
            self._gone = ids, self._asked_at
        self._told = f"{len(ids)} jobs of Slurm: {', '.join(states).lower()[:_LONGEST_WORDS]}" if states else ""
