"""Surroundings in which things are missing that a program takes for granted."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from soak import processes
from soak.case import Case, MissedError
from soak.kinds import enter, kind

#: Linux' first way to limit a group's processes; the second is a file system of its own.
_CONTROL_GROUPS = Path("/sys/fs/cgroup/pids")
_FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


@kind()
def few_descriptors(case: Case) -> None:
    """64, 128 or 256 open files at most."""
    most = case.random.choice([64, 128, 256])
    case.did.append(f"at most {most} open files")
    case.finish(case.start(wrapped_in=("prlimit", f"--nofile={most}:{most}")))


@kind()
def few_processes(case: Case) -> None:
    """A handful of processes and threads at most, as in a container."""
    group = _CONTROL_GROUPS / f"soak-{case.site.mark[:12]}"
    try:
        group.mkdir()
    except OSError:
        raise MissedError("no control group for processes can be made here") from None
    case.undo.callback(group.rmdir)
    case.undo.callback(processes.end, case.site.mark)
    most = case.random.choice([4, 12, 30, 60, 100])
    (group / "pids.max").write_text(str(most))
    case.did.append(f"at most {most} processes and threads")
    case.finish(case.start(wrapped_in=("sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh")))


@kind()
def no_home(case: Case) -> None:
    """HOME is not set."""
    case.finish(case.start(settings={"HOME": None, "PREFECT_HOME": None}))


@kind()
def home_missing(case: Case) -> None:
    """HOME names a folder that cannot be made, and nothing else says where to keep things."""
    nowhere = str(case.site.folder / "release.yaml" / "home")
    names = {"NUMBA_CACHE_DIR": None, "MICROAGG_CACHE_DIR": None} if case.random.random() < 0.2 else {}
    case.did.append("no home" + (", no kernels" if names else ""))
    case.finish(case.start(settings={"HOME": nowhere, "PREFECT_HOME": None, **names}))


@kind()
def temporary_folder_missing(case: Case) -> None:
    """TMPDIR names a folder that does not exist."""
    case.finish(case.start(settings={"TMPDIR": str(case.site.folder / "nowhere")}))


@kind()
def everything_read_only(case: Case) -> None:
    """A read-only root, as in a container: only output and work area can be written; no home, no temporary folder."""
    writable = [case.site.folder / name for name in ("release", "work")]
    for folder in writable:
        folder.mkdir()
    case.finish(case.start(wrapped_in=_read_only_root(case, writable)))


def _read_only_root(case: Case, writable: list[Path]) -> tuple[str, ...]:
    """Make a mount namespace in which every disk but some folders is read-only."""
    if os.getuid() != 0:
        raise MissedError("only root can mount")
    keep = " ".join(f"mount --bind {folder} {folder};" for folder in writable)
    # Bound first, the folders are mounts of their own and stay as they are when the disks below turn read-only.
    disks = "awk '$3 ~ /^(ext4|xfs|btrfs|overlay|tmpfs)$/ {print $2}' /proc/mounts"
    bound = "|".join(f"^{folder}$" for folder in writable)
    script = f'{keep} for disk in $({disks} | grep -vE "{bound}|^/proc|^/sys|^/dev$"); do '
    script += 'mount -o remount,ro,bind "$disk" 2>/dev/null; done; exec "$@"'
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh")


@kind()
def no_network(case: Case) -> None:
    """A network namespace in which not even the loopback interface is up."""
    if os.getuid() != 0:
        raise MissedError("only root can make a network namespace")
    case.finish(case.start(wrapped_in=("unshare", "--net")))


#: Shells through which the command is started.
_STREAMS = {
    "standard-error-closed": (
        "Standard error is closed from the start; the exit code must be right.",
        ("sh", "-c", 'exec "$@" 2>&-', "sh"),
    ),
    "standard-input-and-output-closed": (
        "Standard input and output are closed from the start.",
        ("sh", "-c", 'exec "$@" <&- >&-', "sh"),
    ),
    "output-piped-to-head": (
        "``microagg run | head -n 1``: the reader of standard output is gone before the end.",
        ("bash", "-c", 'set -o pipefail; "$@" | head -c 5', "bash"),
    ),
    "standard-output-full": ("Standard output is a full disk.", ("sh", "-c", 'exec "$@" >/dev/full', "sh")),
}
for _name, (_says, _shell) in _STREAMS.items():
    enter(_name, _says, lambda case, shell=_shell: case.finish(case.start(wrapped_in=shell)))


@kind()
def progress_piped_to_head(case: Case) -> None:
    """The reader of standard error is gone after the first line."""
    ended = case.finish(case.start(wrapped_in=("bash", "-c", '"$@" 2> >(head -n 1 >&2)', "bash")))
    if ended.code > 0 and not ended.sentences():  # nobody could have read one
        case.ended[-1] = replace(ended, err="microagg: unread\n")


@kind()
def open_umask(case: Case) -> None:
    """A umask of 0: the work area holds raw rows and stays its owner's alone."""
    command = case.start(wrapped_in=("sh", "-c", 'umask 0; exec "$@"', "sh"))
    case.moment(command, *case.middle())
    work = case.site.folder / "work"
    found = [path for path in work.rglob("*") if path.is_file()]
    readable = [path for path in found if _is_for_all(path, work)]
    if readable:
        name = readable[0].relative_to(work)
        case.wrongs.append(f"{len(readable)} files of the work area can be read by everybody, such as {name}")
    case.finish(command)


def _is_for_all(path: Path, work: Path) -> bool:
    """Tell whether others can read a file through all the folders from the work area down to it."""
    try:
        folders = [path, *(p for p in path.parents if p.is_relative_to(work))]
        return all(p.stat().st_mode & 0o055 for p in folders)
    except FileNotFoundError:
        return False


@kind()
def link_in_the_output(case: Case) -> None:
    """The folder of the release is a link to elsewhere: nothing may be published through it."""
    elsewhere = case.site.folder / "elsewhere"
    elsewhere.mkdir()
    (case.site.folder / "release").mkdir()
    link = case.site.folder / "release" / "one"
    link.symlink_to(elsewhere)
    case.finish(case.start())
    if any(elsewhere.rglob("*")):
        case.wrongs.append("published through a link to another folder")

    def unlink() -> None:
        with case.reader.rest:
            link.unlink()
            case.reader.forget()

    case.mend = unlink
    case.has_rivals = case.always_again = True


@kind()
def link_in_the_work_area(case: Case) -> None:
    """The runs' folder is a link to elsewhere: nothing may be staged or cleaned through it."""
    elsewhere = case.site.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("not ours\n")
    (case.site.folder / "work").mkdir()
    link = case.site.folder / "work" / "runs"
    link.symlink_to(elsewhere)
    case.finish(case.start())
    case.site.start("clean", "release.yaml", "--all").wait()
    if [path.name for path in elsewhere.iterdir()] != ["precious"]:
        case.wrongs.append("staged or cleaned through a link to another folder")
    case.mend = link.unlink
    case.always_again = True


def _clock(days: float) -> dict[str, str]:
    if not _FAKETIME:
        raise MissedError("libfaketime is not installed")
    # Only the calendar: waiting is measured by the monotonic clock, which no operator sets.
    return {"LD_PRELOAD": str(_FAKETIME[0]), "FAKETIME": f"{days:+}d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


# Waiting for a server to end sleeps for moments, and libfaketime refuses a sleep that is over when it begins.
@kind(through_prefect=False)
def clock_set_back(case: Case) -> None:
    """Between a killed run and the next the clock is set back by days."""
    case.broken_off()
    case.finish(case.start(settings=_clock(-case.random.uniform(0.01, 20))))


@kind()
def clock_was_ahead(case: Case) -> None:
    """A run is killed while the clock is days ahead; then the clock is right."""
    command = case.start(settings=_clock(case.random.uniform(0.01, 20)))
    case.moment(command, *case.middle())
    case.kill_all(command)
    case.finish(command)
    case.finish(case.start())
