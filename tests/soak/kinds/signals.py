"""Signals to the command and to its workers."""

from __future__ import annotations

import signal
import time

from soak import processes
from soak.case import Case
from soak.data import PLAIN, REFINED
from soak.kinds import kind

_WITH_WORKERS = (PLAIN, PLAIN, REFINED)


def _flow(case: Case, number: int) -> None:
    command = case.start()
    case.moment(command)
    command.send(number)
    case.did.append(f"{signal.Signals(number).name} to the command")
    case.finish(command)


@kind(quick=True)
def flow_killed(case: Case) -> None:
    """kill -9 of the command alone."""
    _flow(case, signal.SIGKILL)


@kind(quick=True)
def flow_terminated(case: Case) -> None:
    """TERM to the command alone."""
    _flow(case, signal.SIGTERM)


@kind(quick=True)
def flow_interrupted(case: Case) -> None:
    """INT to the command alone."""
    _flow(case, signal.SIGINT)


@kind()
def flow_hung_up(case: Case) -> None:
    """HUP to the command alone: the terminal is closed."""
    _flow(case, signal.SIGHUP)


@kind()
def group_interrupted(case: Case) -> None:
    """INT to the whole group, as Ctrl-C does."""
    command = case.start()
    case.moment(command)
    command.send_group(signal.SIGINT)
    case.did.append("SIGINT to the group")
    case.finish(command)


@kind()
def interrupted_twice(case: Case) -> None:
    """INT to the whole group, and again while it is cleaning up."""
    command = case.start()
    case.moment(command)
    command.send_group(signal.SIGINT)
    case.pause(0.05, 2.0)
    command.send_group(signal.SIGINT)
    case.did.append("SIGINT to the group, twice")
    # Who presses twice waits a few seconds at most, and on a busy machine they may not do for taking uploads back.
    case.may_leave_uploads = True
    case.finish(command)


@kind()
def group_terminated(case: Case) -> None:
    """TERM to the whole group, as a service manager does."""
    command = case.start()
    case.moment(command)
    command.send_group(signal.SIGTERM)
    case.did.append("SIGTERM to the group")
    case.finish(command)


@kind()
def power_lost(case: Case) -> None:
    """kill -9 of every process at once."""
    command = case.start()
    case.moment(command)
    case.kill_all(command)


@kind()
def flow_stopped_for_a_while(case: Case) -> None:
    """STOP of the command alone, CONT up to 45 s later."""
    command = case.start()
    case.moment(command)
    case.hold(processes.psutil.Process(command.process.pid), "command", 2, 45)
    case.finish(command)


@kind(configurations=_WITH_WORKERS, quick=True)
def worker_killed(case: Case) -> None:
    """kill -9 of a worker."""
    _worker(case, signal.SIGKILL)


@kind(configurations=_WITH_WORKERS)
def worker_terminated(case: Case) -> None:
    """TERM to a worker."""
    _worker(case, signal.SIGTERM)


@kind(configurations=_WITH_WORKERS)
def worker_interrupted(case: Case) -> None:
    """INT to a worker."""
    _worker(case, signal.SIGINT)


def _worker(case: Case, number: int) -> None:
    command = case.start()
    case.moment(command)
    case.strike(case.one_of(processes.workers, "worker"), number, "worker")
    case.finish(command)


@kind(configurations=_WITH_WORKERS)
def all_workers_killed(case: Case) -> None:
    """kill -9 of all workers at once."""
    command = case.start()
    case.moment(command)
    case.one_of(processes.workers, "worker")
    for worker in processes.workers(case.site.mark):
        processes.send(worker, signal.SIGKILL)
    case.did.append("SIGKILL to all workers")
    case.finish(command)


@kind(configurations=_WITH_WORKERS)
def workers_killed_again_and_again(case: Case) -> None:
    """kill -9 of a worker, then of the next, some ten times."""
    command = case.start()
    case.moment(command, "survey: ", "plan ", "scatter: ", "anonymize: ")
    for _ in range(case.random.randint(4, 12)):
        if command.is_over():
            break
        for worker in processes.workers(case.site.mark)[:1]:
            processes.send(worker, signal.SIGKILL)
        time.sleep(case.random.uniform(0.2, 2.5))
    case.did.append("SIGKILL to worker after worker")
    case.finish(command)


@kind(configurations=_WITH_WORKERS)
def worker_stopped_for_a_while(case: Case) -> None:
    """STOP of a worker, CONT up to 45 s later."""
    command = case.start()
    case.moment(command)
    case.hold(case.one_of(processes.workers, "worker"), "worker", 2, 45)
    case.finish(command)


@kind(configurations=_WITH_WORKERS)
def worker_stopped_for_good(case: Case) -> None:
    """STOP of a worker that never goes on."""
    command = case.start()
    case.moment(command)
    case.strike(case.one_of(processes.workers, "worker"), signal.SIGSTOP, "worker")
    case.finish(command)
