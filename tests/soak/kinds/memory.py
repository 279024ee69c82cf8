"""Too little memory, with compiled kernels at hand and without: refused with a sentence or released, never a hang."""

from __future__ import annotations

from soak.case import Case
from soak.data import PLAIN, REFINED
from soak.kinds import enter, kind
from soak.site import local_cluster


def _with_memory(case: Case, mebibytes: int, workers: int = 2) -> None:
    case.site.use_cluster(local_cluster(f"{mebibytes}MiB", workers))
    case.did.append(f"{workers} workers of {mebibytes} MiB")
    case.mend = lambda: case.site.use_cluster(local_cluster())


def _without_kernels(case: Case) -> dict[str, str]:
    """Make settings of a command that, unlike the re-run, finds nothing compiled."""
    cold = str(case.site.folder / "cold")
    return {"NUMBA_CACHE_DIR": cold, "MICROAGG_CACHE_DIR": cold}


def _little(case: Case, least: int, most: int) -> None:
    _with_memory(case, case.random.randint(least, most))
    case.finish(case.start())


for _name, _says, _least, _most in (
    ("next-to-no-memory", "Workers in which not even Python has room.", 60, 250),
    ("little-memory", "Workers in which Python has room and its work has hardly any.", 250, 450),
    ("scarce-memory", "Workers with hardly more memory than they need.", 450, 800),
):
    enter(
        _name,
        _says,
        lambda case, least=_least, most=_most: _little(case, least, most),
        configurations=(PLAIN, REFINED),
    )


@kind(configurations=(PLAIN, REFINED))
def scarce_memory_and_no_kernels(case: Case) -> None:
    """Workers with hardly more memory than they need, on a machine where nothing was compiled."""
    _with_memory(case, case.random.choice([500, 600, 700]))
    case.finish(case.start(settings=_without_kernels(case)))


@kind(configurations=(PLAIN, REFINED))
def no_kernels(case: Case) -> None:
    """The default cluster on a machine where nothing was compiled."""
    _with_memory(case, 1024, case.random.choice([1, 2]))
    case.finish(case.start(settings=_without_kernels(case)))


@kind(configurations=(PLAIN,))
def no_kernels_and_killed(case: Case) -> None:
    """Killed while kernels are being compiled; the next run finds what is half done."""
    case.site.settings |= _without_kernels(case)
    _with_memory(case, 2048)
    command = case.start()
    case.moment(command)
    case.pause(0, 25)
    case.kill_all(command)
    case.finish(command)


@kind(configurations=(PLAIN,))
def address_space_limited(case: Case) -> None:
    """An operator's limit on each process's address space, as batch systems set it."""
    mebibytes = case.random.randint(1000, 3500)
    case.did.append(f"{mebibytes} MiB of addresses")
    case.finish(case.start(wrapped_in=("prlimit", f"--as={mebibytes * 2**20}")))
