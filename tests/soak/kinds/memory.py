"""Too little memory, with compiled kernels at hand and without: refused with a sentence or released, never a hang."""

from __future__ import annotations

from soak.case import Case
from soak.data import PLAIN, REFINED
from soak.kinds import kind
from soak.site import WORKER_MEMORY, local_cluster


def _with_memory(case: Case, mebibytes: int, workers: int = 2) -> None:
    case.site.spec["cluster"] = local_cluster(f"{mebibytes}MiB", workers)
    case.site.write_spec()
    case.did.append(f"{workers} workers of {mebibytes} MiB")

    def enough() -> None:
        case.site.spec["cluster"] = local_cluster(WORKER_MEMORY)
        case.site.write_spec()

    case.mend = enough


def _without_kernels(case: Case) -> None:
    """This command, unlike the re-run, finds nothing compiled."""
    cold = str(case.site.folder / "cold")
    case.did.append("no compiled kernels")
    case.finish(case.start(settings={"NUMBA_CACHE_DIR": cold, "MICROAGG_CACHE_DIR": cold}))


@kind(configurations=(PLAIN, REFINED), quick=True)
def next_to_no_memory(case: Case) -> None:
    """Workers in which not even Python has room."""
    _with_memory(case, case.random.randint(60, 250))
    case.finish(case.start())


@kind(configurations=(PLAIN, REFINED))
def little_memory(case: Case) -> None:
    """Workers in which Python has room and its work has hardly any."""
    _with_memory(case, case.random.randint(250, 450))
    case.finish(case.start())


@kind(configurations=(PLAIN, REFINED))
def scarce_memory(case: Case) -> None:
    """Workers with hardly more memory than they need."""
    _with_memory(case, case.random.randint(450, 800))
    case.finish(case.start())


@kind(configurations=(PLAIN, REFINED))
def scarce_memory_and_no_kernels(case: Case) -> None:
    """Workers with hardly more memory than they need, on a machine where nothing was compiled."""
    _with_memory(case, case.random.choice([500, 600, 700]))
    _without_kernels(case)


@kind(configurations=(PLAIN, REFINED))
def no_kernels(case: Case) -> None:
    """The default cluster on a machine where nothing was compiled."""
    _with_memory(case, 1024, case.random.choice([1, 2]))
    _without_kernels(case)


@kind(configurations=(PLAIN,))
def no_kernels_and_killed(case: Case) -> None:
    """Killed while kernels are being compiled; the next run finds what is half done."""
    cold = str(case.site.folder / "cold")
    case.site.settings |= {"NUMBA_CACHE_DIR": cold, "MICROAGG_CACHE_DIR": cold}
    _with_memory(case, 2048)
    command = case.start()
    case.moment(command)
    case.pause(0, 25)
    case.kill_all(command)


@kind(configurations=(PLAIN,))
def address_space_limited(case: Case) -> None:
    """An operator's limit on each process's address space, as batch systems set it."""
    mebibytes = case.random.randint(1000, 3500)
    case.did.append(f"{mebibytes} MiB of addresses")
    case.finish(case.start(wrapped_in=("prlimit", f"--as={mebibytes * 2**20}")))
