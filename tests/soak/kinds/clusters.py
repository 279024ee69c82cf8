"""A running cluster that loses its parts, or whose parts are not what they should be."""

from __future__ import annotations

import os
import signal
import time

from soak.case import Case, MissedError
from soak.clusters import Cluster, Link, other_version, without_package
from soak.data import PLAIN, REFINED
from soak.kinds import kind
from soak.loop_thread import LoopThread
from soak.service import free_port

_CONFIGURATIONS = (PLAIN, PLAIN, REFINED)


def _cluster(case: Case, n_workers: int = 2) -> tuple[Cluster, list[str]]:
    """A healthy cluster, which is there again for the re-run."""
    cluster = Cluster(case.site)
    case.mend = cluster.make_well
    return cluster, cluster.start_all(n_workers)


@kind(configurations=_CONFIGURATIONS)
def scheduler_killed(case: Case) -> None:
    """kill -9 of the scheduler, which does not come back."""
    cluster, _ = _cluster(case)
    command = case.start()
    case.moment(command)
    cluster.services.kill("scheduler")
    case.did.append("scheduler killed")
    case.finish(command)


@kind(configurations=_CONFIGURATIONS)
def scheduler_restarted(case: Case) -> None:
    """The scheduler is ended politely and is back, with new workers, some seconds later."""
    cluster, _ = _cluster(case)
    command = case.start()
    case.moment(command)
    cluster.services.signal_group("scheduler", signal.SIGTERM)
    case.pause(1, 6)
    cluster.make_well()
    case.finish(command)


@kind(configurations=_CONFIGURATIONS)
def scheduler_stopped_for_a_while(case: Case) -> None:
    """STOP of the scheduler, CONT up to 45 s later."""
    cluster, _ = _cluster(case)
    command = case.start()
    case.moment(command)
    case.hold(cluster.services.process("scheduler"), "scheduler", 2, 45)
    case.finish(command)


@kind(configurations=_CONFIGURATIONS)
def scheduler_stopped_for_good(case: Case) -> None:
    """STOP of the scheduler, which never goes on."""
    cluster, _ = _cluster(case)
    command = case.start()
    case.moment(command)
    case.strike(cluster.services.process("scheduler"), signal.SIGSTOP, "scheduler")
    case.finish(command)


@kind(configurations=_CONFIGURATIONS)
def nanny_killed(case: Case) -> None:
    """kill -9 of a nanny; its worker goes with it or stays alone."""
    cluster, workers = _cluster(case)
    command = case.start()
    case.moment(command)
    case.strike(cluster.services.process(case.random.choice(workers)), signal.SIGKILL, "nanny")
    case.finish(command)


@kind(configurations=_CONFIGURATIONS)
def nanny_terminated(case: Case) -> None:
    """TERM to a nanny, as a batch system does when a job is over."""
    cluster, workers = _cluster(case)
    command = case.start()
    case.moment(command)
    case.strike(cluster.services.process(case.random.choice(workers)), signal.SIGTERM, "nanny")
    case.finish(command)


@kind(configurations=_CONFIGURATIONS)
def nanny_stopped_for_a_while(case: Case) -> None:
    """STOP of a nanny, CONT later; its worker works on."""
    cluster, workers = _cluster(case)
    command = case.start()
    case.moment(command)
    case.hold(cluster.services.process(case.random.choice(workers)), "nanny", 2, 30)
    case.finish(command)


def _worker_of(case: Case, cluster: Cluster, name: str) -> int:
    pids = cluster.nanny_and_worker(name)
    if len(pids) < 2:
        raise MissedError("the nanny has no worker")
    case.did.append(f"struck {name}")
    return pids[1]


@kind(configurations=_CONFIGURATIONS)
def cluster_worker_killed(case: Case) -> None:
    """kill -9 of a running cluster's worker; its nanny starts another."""
    cluster, workers = _cluster(case)
    command = case.start()
    case.moment(command)
    os.kill(_worker_of(case, cluster, case.random.choice(workers)), signal.SIGKILL)
    case.finish(command)


@kind(configurations=_CONFIGURATIONS)
def cluster_worker_stopped_for_a_while(case: Case) -> None:
    """STOP of a running cluster's worker, CONT later."""
    cluster, workers = _cluster(case)
    command = case.start()
    case.moment(command)
    pid = _worker_of(case, cluster, case.random.choice(workers))
    os.kill(pid, signal.SIGSTOP)
    command.held_up += case.pause(2, 45)
    os.kill(pid, signal.SIGCONT)
    case.finish(command)


@kind(configurations=_CONFIGURATIONS)
def all_workers_leave(case: Case) -> None:
    """All workers and nannies of a running cluster die and nobody replaces them."""
    cluster, workers = _cluster(case)
    command = case.start()
    case.moment(command)
    for name in workers:
        cluster.services.kill(name)
    case.did.append("all workers killed")
    case.finish(command)


@kind(configurations=_CONFIGURATIONS)
def all_workers_leave_and_others_come(case: Case) -> None:
    """All workers of a running cluster die, and others come some seconds later."""
    cluster, workers = _cluster(case)
    command = case.start()
    case.moment(command)
    for name in workers:
        cluster.services.kill(name)
    case.pause(1, 15)
    cluster.start_worker()
    case.finish(command)


@kind(configurations=_CONFIGURATIONS)
def cluster_grows_and_shrinks(case: Case) -> None:
    """Workers join and leave while the run goes on."""
    cluster, workers = _cluster(case, n_workers=1)
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
    cluster = Cluster(case.site)
    cluster.start_scheduler()
    case.mend = cluster.make_well
    command = case.start()
    if case.random.random() < 0.6:
        case.pause(1, 25)
        cluster.start_worker()
    case.finish(command)


@kind(configurations=(PLAIN,), quick=True)
def no_scheduler(case: Case) -> None:
    """Nothing answers at the cluster's address."""
    cluster = Cluster(case.site)
    case.mend = cluster.make_well
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
    cluster = Cluster(case.site)
    thread = LoopThread(case.undo)
    echo = Link(thread, free_port())
    echo.start(case.undo)
    cluster.use(f"tcp://127.0.0.1:{echo.port}")

    def mend() -> None:
        cluster.use(cluster.address)
        cluster.make_well()

    case.mend = mend
    case.finish(case.start())


@kind(configurations=(PLAIN,))
def workers_without_the_package(case: Case) -> None:
    """One worker, or all, whose Python has Dask and not this package."""
    settings = without_package(case.site.folder / "scratch" / "without")
    _strange_worker(case, settings=settings)


@kind(configurations=(PLAIN,))
def workers_of_another_version(case: Case) -> None:
    """One worker, or all, with another version of this package."""
    settings = other_version(case.site.folder / "scratch" / "other")
    _strange_worker(case, settings=settings)


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
    folder = case.site.folder / "input"
    _strange_worker(case, wrapped_in=_in_mounts(f"mount -t tmpfs tmpfs {folder}"))


def _in_mounts(how: str) -> tuple[str, ...]:
    if os.getuid() != 0:
        raise MissedError("only root can mount")
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", f'{how} && exec "$@"', "sh")


def _strange_worker(case: Case, settings: dict[str, str] | None = None, wrapped_in: tuple[str, ...] = ()) -> None:
    """A cluster of strange workers, or with a strange one among good ones, from the start or later."""
    cluster = Cluster(case.site)
    case.mend = cluster.make_well
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
    cluster = Cluster(case.site)
    case.mend = cluster.make_well
    cluster.start_scheduler()
    for mebibytes in (case.random.randint(150, 450) for _ in range(2)):
        cluster.start_worker(memory=f"{mebibytes}MiB")
        case.did.append(f"a worker of {mebibytes} MiB")
    case.finish(case.start())


def _linked(case: Case) -> tuple[Cluster, Link, Link]:
    """A cluster of one good worker and one whose every word to and from the scheduler takes a link of ours."""
    cluster = Cluster(case.site)
    case.mend = cluster.make_well
    cluster.start_scheduler()
    thread = LoopThread(case.undo)
    port = free_port()
    up, down = Link(thread, cluster.port), Link(thread, port)
    up.start(case.undo)
    down.start(case.undo)
    if case.random.random() < 0.5:
        cluster.start_worker()
    cluster.start_worker(
        "--no-nanny", "--listen-address", f"tcp://127.0.0.1:{port}", "--contact-address",
        f"tcp://127.0.0.1:{down.port}", address=f"tcp://127.0.0.1:{up.port}",
    )  # fmt: skip
    return cluster, up, down


@kind(configurations=(PLAIN,))
def link_to_a_worker_cut(case: Case) -> None:
    """The link to a worker, the only one or one of two, is cut."""
    _, up, down = _linked(case)
    command = case.start()
    case.moment(command)
    up.cut()
    down.cut()
    case.did.append("link cut")
    case.finish(command)


@kind(configurations=(PLAIN,))
def link_to_a_worker_stalls(case: Case) -> None:
    """The link to a worker, the only one or one of two, passes nothing any more: for seconds, or for good."""
    _, up, down = _linked(case)
    command = case.start()
    case.moment(command)
    for link in (up, down):
        link.stand_still()
    if case.random.random() < 0.5:
        command.held_up += case.pause(3, 40)
        for link in (up, down):
            link.stand_still(False)
    case.did.append("link stalled")
    case.finish(command)
