"""A running cluster that loses its parts, or whose parts are not what they should be."""

from __future__ import annotations

import os
import signal
import time

from servers.dask_processes import without_package
from servers.process import free_port
from servers.proxies import Link
from soak.case import Case, MissedError
from soak.clusters import Cluster, other_version
from soak.command import Command
from soak.data import PLAIN, REFINED
from soak.kinds import kind, strikes

_CONFIGURATIONS = (PLAIN, PLAIN, REFINED)


def _cluster(case: Case) -> Cluster:
    """Prepare a cluster that is healthy for the re-run."""
    cluster = Cluster(case.site)
    case.mend = cluster.make_well
    return cluster


def _two_workers(case: Case) -> tuple[Cluster, list[str]]:
    cluster = _cluster(case)
    return cluster, cluster.start_all()


_disturbed = strikes(before=_two_workers, configurations=_CONFIGURATIONS)


@_disturbed
def scheduler_killed(case: Case, _: Command, cluster: Cluster, __: list[str]) -> None:
    """kill -9 of the scheduler, which does not come back."""
    cluster.services.kill("scheduler")


@_disturbed
def scheduler_restarted(case: Case, _: Command, cluster: Cluster, __: list[str]) -> None:
    """The scheduler is ended politely and is back, with new workers, some seconds later."""
    cluster.services.signal_group("scheduler", signal.SIGTERM)
    case.pause(1, 6)
    cluster.make_well()


@_disturbed
def scheduler_stopped_for_a_while(case: Case, _: Command, cluster: Cluster, __: list[str]) -> None:
    """STOP of the scheduler, CONT up to 45 s later."""
    case.hold(cluster.services.process("scheduler"), "scheduler", 2, 45)


@_disturbed
def scheduler_stopped_for_good(case: Case, _: Command, cluster: Cluster, __: list[str]) -> None:
    """STOP of the scheduler, which never goes on."""
    case.strike(cluster.services.process("scheduler"), signal.SIGSTOP, "scheduler")


@_disturbed
def nanny_killed(case: Case, _: Command, cluster: Cluster, workers: list[str]) -> None:
    """kill -9 of a nanny; its worker goes with it or stays alone."""
    case.strike(cluster.services.process(case.random.choice(workers)), signal.SIGKILL, "nanny")


@_disturbed
def nanny_terminated(case: Case, _: Command, cluster: Cluster, workers: list[str]) -> None:
    """TERM to a nanny, as a batch system does when a job is over."""
    case.strike(cluster.services.process(case.random.choice(workers)), signal.SIGTERM, "nanny")


@_disturbed
def nanny_stopped_for_a_while(case: Case, _: Command, cluster: Cluster, workers: list[str]) -> None:
    """STOP of a nanny, CONT later; its worker works on."""
    case.hold(cluster.services.process(case.random.choice(workers)), "nanny", 2, 30)


def _worker_of(case: Case, cluster: Cluster, workers: list[str]) -> int:
    pids = cluster.worker_pids(case.random.choice(workers))
    if not pids:
        raise MissedError("the nanny has no worker")
    return pids[0]


@_disturbed
def cluster_worker_killed(case: Case, _: Command, cluster: Cluster, workers: list[str]) -> None:
    """kill -9 of a running cluster's worker; its nanny starts another."""
    os.kill(_worker_of(case, cluster, workers), signal.SIGKILL)


@_disturbed
def cluster_worker_stopped_for_a_while(case: Case, command: Command, cluster: Cluster, workers: list[str]) -> None:
    """STOP of a running cluster's worker, CONT later."""
    pid = _worker_of(case, cluster, workers)
    os.kill(pid, signal.SIGSTOP)
    command.held_up += case.pause(2, 45)
    os.kill(pid, signal.SIGCONT)


@_disturbed
def all_workers_leave(case: Case, _: Command, cluster: Cluster, workers: list[str]) -> None:
    """All workers and nannies of a running cluster die and nobody replaces them."""
    for name in workers:
        cluster.services.kill(name)


@_disturbed
def all_workers_leave_and_others_come(case: Case, _: Command, cluster: Cluster, workers: list[str]) -> None:
    """All workers of a running cluster die, and others come some seconds later."""
    for name in workers:
        cluster.services.kill(name)
    case.pause(1, 15)
    cluster.start_worker()


@kind(configurations=_CONFIGURATIONS)
def cluster_grows_and_shrinks(case: Case) -> None:
    """Workers join and leave while the run goes on."""
    cluster = _cluster(case)
    workers = cluster.start_all(1)
    command = case.start()
    for _ in range(case.random.randint(2, 4)):
        if command.is_over():
            break
        time.sleep(case.random.uniform(0, 4))
        if len(workers) > 1 and case.random.random() < 0.5:
            cluster.services.signal_group(workers.pop(0), signal.SIGTERM)
        else:
            workers.append(cluster.start_worker())
    case.did.append(f"{len(workers)} workers in the end")
    case.finish(command)


@kind(configurations=(PLAIN,))
def no_worker_at_first(case: Case) -> None:
    """The scheduler is there, and workers come seconds later or never."""
    cluster = _cluster(case)
    cluster.start_scheduler()
    command = case.start()
    if case.random.random() < 0.6:
        case.pause(1, 25)
        cluster.start_worker()
    case.finish(command)


@kind(configurations=(PLAIN,))
def no_scheduler(case: Case) -> None:
    """Nothing answers at the cluster's address."""
    _cluster(case)
    case.finish(case.start())


@kind(configurations=(PLAIN,))
def no_certificates(case: Case) -> None:
    """A tls:// address, and no settings for it."""
    cluster = Cluster(case.site)
    cluster.start_all(1)
    cluster.use(cluster.address.replace("tcp:", "tls:"))
    case.mend = lambda: cluster.use(cluster.address)
    case.finish(case.start())


@kind(configurations=(PLAIN,))
def something_else_answers(case: Case) -> None:
    """What answers at the cluster's address is no scheduler."""
    cluster, link = Cluster(case.site), Link(free_port())
    case.undo.callback(link.cut)
    cluster.use(f"tcp://127.0.0.1:{link.port}")

    def mend() -> None:
        cluster.use(cluster.address)
        cluster.make_well()

    case.mend = mend
    case.finish(case.start())


@kind(configurations=(PLAIN,))
def workers_without_the_package(case: Case) -> None:
    """One worker, or all, whose Python has Dask and not this package."""
    _strange_worker(case, settings=without_package(case.site.folder / "scratch" / "without"))


@kind(configurations=(PLAIN,))
def workers_of_another_version(case: Case) -> None:
    """One worker, or all, with another version of this package."""
    _strange_worker(case, settings=other_version(case.site.folder / "scratch" / "other"))


@kind(configurations=(PLAIN,))
def workers_without_the_work_area(case: Case) -> None:
    """One worker, or all, for whom the work area's folder is another one, or read-only."""
    work = case.site.folder / "work"
    work.mkdir()
    how = case.random.choice([f"mount -t tmpfs tmpfs {work}", f"mount --bind -o ro {work} {work}"])
    case.did.append(how.replace(str(work), "WORK"))
    _strange_worker(case, wrapped_in=_in_mounts(how))


@kind(configurations=(PLAIN,))
def workers_without_the_input(case: Case) -> None:
    """One worker, or all, who cannot see the input."""
    _strange_worker(case, wrapped_in=_in_mounts(f"mount -t tmpfs tmpfs {case.site.folder / 'input'}"))


def _in_mounts(how: str) -> tuple[str, ...]:
    if os.getuid() != 0:
        raise MissedError("only root can mount")
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", f'{how} && exec "$@"', "sh")


def _strange_worker(case: Case, settings: dict[str, str] | None = None, wrapped_in: tuple[str, ...] = ()) -> None:
    """Have a cluster of strange workers, or with a strange one among good ones, from the start or later."""
    cluster = _cluster(case)
    cluster.start_scheduler()
    when = case.random.choice(["all", "one of two", "joins later"])
    case.did.append(f"strange: {when}")
    if when != "all":
        cluster.start_worker()
    if when != "joins later":
        cluster.start_worker(settings=settings, wrapped_in=wrapped_in)
    command = case.start()
    if when == "joins later":
        case.moment(command)
        cluster.start_worker(settings=settings, wrapped_in=wrapped_in)
    case.finish(command)


@kind(configurations=(PLAIN,))
def workers_with_little_memory(case: Case) -> None:
    """A running cluster's workers have hardly any memory: paused, or killed."""
    cluster = _cluster(case)
    cluster.start_scheduler()
    for mebibytes in (case.random.randint(150, 450) for _ in range(2)):
        cluster.start_worker(memory=f"{mebibytes}MiB")
        case.did.append(f"a worker of {mebibytes} MiB")
    case.finish(case.start())


def _linked(case: Case) -> tuple[tuple[Link, Link]]:
    """Make a cluster of one good worker and one whose every word to and from the scheduler takes a link of ours."""
    cluster = _cluster(case)
    cluster.start_scheduler()
    port = free_port()
    up, down = Link(cluster.port), Link(port)
    for link in (up, down):
        case.undo.callback(link.cut)
    if case.random.random() < 0.5:
        cluster.start_worker()
    cluster.start_worker(
        "--no-nanny", "--listen-address", f"tcp://127.0.0.1:{port}", "--contact-address",
        f"tcp://127.0.0.1:{down.port}", address=f"tcp://127.0.0.1:{up.port}",
    )  # fmt: skip
    return ((up, down),)


@strikes(before=_linked, configurations=(PLAIN,))
def link_to_a_worker_cut(case: Case, _: Command, links: tuple[Link, Link]) -> None:
    """The link to a worker, the only one or one of two, is cut."""
    for link in links:
        link.cut()


@strikes(before=_linked, configurations=(PLAIN,))
def link_to_a_worker_stalls(case: Case, command: Command, links: tuple[Link, Link]) -> None:
    """The link to a worker, the only one or one of two, passes nothing any more: for seconds, or for good."""
    for link in links:
        link.stand_still()
    if case.random.random() < 0.5:
        command.held_up += case.pause(3, 40)
        for link in links:
            link.stand_still(False)
