"""Disks that are full or cannot be written: small file systems in memory, mounted for one case."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from soak.case import Case, MissedError
from soak.command import Command
from soak.data import PLAIN, REFINED
from soak.kinds import enter, kind, strikes
from soak.processes import wait_until

_LARGE = "2g"


def _mounted(case: Case, folder: Path, size: str) -> None:
    """Mount an empty file system of a size, until the case is over; the re-run has it large and writable."""
    if os.getuid() != 0:
        raise MissedError("only root can mount a small disk")
    folder.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    case.undo.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=False)
    case.mend = lambda: _remount(folder, f"rw,size={_LARGE}")


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def _remount(folder: Path, options: str) -> None:
    _mount("-o", f"remount,{options}", str(folder))


def _small(case: Case, folder: Path, expected: int) -> None:
    """Have a disk that is too small from the start, by a share that is drawn."""
    size = max(4096, int(expected * case.random.uniform(0, 0.95)))
    case.did.append(f"{folder.name} has {size:,} bytes")
    _mounted(case, folder, str(size))
    case.finish(case.start())


def _filled(case: Case, folder: Path) -> None:
    """Have a disk that others fill while the run is under way."""
    _mounted(case, folder, _LARGE)
    command = case.start()
    case.moment(command)
    facts = os.statvfs(folder)
    used = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
    _remount(folder, f"size={max(4096, used + 8192)}")
    case.finish(command)


def _read_only(case: Case, folder: Path) -> None:
    """Have a disk that turns read-only, as one does that has failed; or that is so from the start."""
    _mounted(case, folder, _LARGE)
    if case.random.random() < 0.3:
        _remount(folder, "ro")
        command = case.start()
        case.did.append("read-only from the start")
    else:
        command = case.start()
        case.moment(command)
        try:
            _remount(folder, "ro")
        except subprocess.CalledProcessError:  # a file is being written just now
            subprocess.run(["mount", "--bind", "-o", "ro", str(folder), str(folder)], check=True)
            _mount("-o", "remount,ro,bind", str(folder))
            case.undo.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=False)
            case.mend = lambda: _mount("-o", "remount,rw,bind", str(folder))
    case.finish(command)


for _name, _folder in (("output-full", "release"), ("work-full", "work"), ("temporary-folder-filled", "tmp")):
    _says = f"The disk of {_folder} is filled in the middle."
    enter(_name, _says, lambda case, folder=_folder: _filled(case, case.site.folder / folder))


@kind()
def output_too_small(case: Case) -> None:
    """The output's disk is smaller than the release."""
    _small(case, case.site.folder / "release", case.reference.output_bytes)


@kind()
def work_too_small(case: Case) -> None:
    """The work area's disk is smaller than what is staged."""
    _small(case, case.site.folder / "work", case.reference.work_bytes)


@kind()
def temporary_folder_full(case: Case) -> None:
    """The temporary folder's disk has next to no room."""
    _small(case, case.site.temporary, case.random.choice([0, 20_000, 1_000_000]))


@kind(configurations=(PLAIN, REFINED), through_prefect=True)
def prefect_home_full(case: Case) -> None:
    """The disk with Prefect's database is full, from the start or in the middle."""
    folder = case.site.folder / "prefect"
    if case.random.random() < 0.5:
        _small(case, folder, 600_000)
    else:
        _filled(case, folder)


@kind()
def output_read_only(case: Case) -> None:
    """The output's disk is, or turns, read-only."""
    _read_only(case, case.site.folder / "release")


@kind()
def work_read_only(case: Case) -> None:
    """The work area's disk is, or turns, read-only."""
    _read_only(case, case.site.folder / "work")


@kind()
def temporary_folder_read_only(case: Case) -> None:
    """The temporary folder's disk is, or turns, read-only."""
    _read_only(case, case.site.temporary)
    if not case.failed:  # what could not be removed there is left to the next run
        case.mend()
        case.has_rivals = True
        case.finish(case.start())


@strikes(middle=True)
def output_vanishes(case: Case, _: Command) -> None:
    """The output's folder is removed in the middle, and what is in it with it."""
    with case.reader.rest:
        subprocess.run(["rm", "-rf", str(case.site.folder / "release")], check=True)
        case.reader.forget()


@strikes(middle=True)
def work_vanishes(case: Case, _: Command) -> None:
    """The work area is removed in the middle."""
    work = case.site.folder / "work"
    # Where somebody writes to it meanwhile, it takes more than once.
    if not wait_until(lambda: subprocess.run(["rm", "-rf", str(work)]).returncode == 0, 10.0):
        raise MissedError("the work area cannot be removed as fast as it is written")
