"""Signals to the command and to its workers."""

from __future__ import annotations

import signal
import time

from soak import processes
from soak.case import Case
from soak.command import Command
from soak.data import PLAIN, REFINED
from soak.kinds import Strike, enter, strikes, under_way

_WITH_WORKERS = (PLAIN, PLAIN, REFINED)


def _to_command(number: int, group: bool = False) -> Strike:
    return lambda case, command: command.send(number, group)


def _to_worker(number: int) -> Strike:
    return lambda case, command: case.strike(case.one_of(processes.workers, "worker"), number, "worker")


for _name, _says, _strike in (
    ("flow-killed", "kill -9 of the command alone.", _to_command(signal.SIGKILL)),
    ("flow-terminated", "TERM to the command alone.", _to_command(signal.SIGTERM)),
    ("flow-interrupted", "INT to the command alone.", _to_command(signal.SIGINT)),
    ("flow-hung-up", "HUP to the command alone: the terminal is closed.", _to_command(signal.SIGHUP)),
    ("group-interrupted", "INT to the whole group, as Ctrl-C does.", _to_command(signal.SIGINT, group=True)),
    ("group-terminated", "TERM to the whole group, as a service manager does.", _to_command(signal.SIGTERM, True)),
):
    enter(_name, _says, under_way(_strike))

for _name, _says, _strike in (
    ("worker-killed", "kill -9 of a worker.", _to_worker(signal.SIGKILL)),
    ("worker-terminated", "TERM to a worker.", _to_worker(signal.SIGTERM)),
    ("worker-interrupted", "INT to a worker.", _to_worker(signal.SIGINT)),
    ("worker-stopped-for-good", "STOP of a worker that never goes on.", _to_worker(signal.SIGSTOP)),
):
    enter(_name, _says, under_way(_strike), configurations=_WITH_WORKERS)


@strikes()
def interrupted_twice(case: Case, command: Command) -> None:
    """INT to the whole group, and again while it is cleaning up."""
    command.send(signal.SIGINT, group=True)
    case.pause(0.05, 2.0)
    command.send(signal.SIGINT, group=True)
    # Who presses twice waits a few seconds at most, and on a busy machine they may not do for taking uploads back.
    case.may_leave_uploads = True


@strikes()
def power_lost(case: Case, command: Command) -> None:
    """kill -9 of every process at once."""
    case.kill_all(command)


@strikes()
def flow_stopped_for_a_while(case: Case, command: Command) -> None:
    """STOP of the command alone, CONT up to 45 s later."""
    case.hold(processes.psutil.Process(command.process.pid), "command", 2, 45)


@strikes(configurations=_WITH_WORKERS)
def all_workers_killed(case: Case, _: Command) -> None:
    """kill -9 of all workers at once."""
    case.one_of(processes.workers, "worker")
    for worker in processes.workers(case.site.mark):
        processes.send(worker, signal.SIGKILL)


@strikes("survey: ", "plan ", "scatter: ", "anonymize: ", configurations=_WITH_WORKERS)
def workers_killed_again_and_again(case: Case, command: Command) -> None:
    """kill -9 of a worker, then of the next, some ten times."""
    for _ in range(case.random.randint(4, 12)):
        if command.is_over():
            break
        for worker in processes.workers(case.site.mark)[:1]:
            processes.send(worker, signal.SIGKILL)
        time.sleep(case.random.uniform(0.2, 2.5))


@strikes(configurations=_WITH_WORKERS)
def worker_stopped_for_a_while(case: Case, _: Command) -> None:
    """STOP of a worker, CONT up to 45 s later."""
    case.hold(case.one_of(processes.workers, "worker"), "worker", 2, 45)
