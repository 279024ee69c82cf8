"""An input that is changed, replaced or removed while a release is made of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from soak.case import Case
from soak.data import OTHER_PEOPLE, PLAIN, REFINED
from soak.kinds import kind

_PEOPLE = (PLAIN, PLAIN, REFINED)
#: From here on the run knows what its input is: whatever it releases must be made of that.
_SURVEYED = ("survey ", "plan ", "scatter: ", "scatter ", "anonymize: ", "assemble: ", "anonymize ")
_SURVEYED += ("check-files: ", "validate ")


def _restored(case: Case) -> None:
    """The input as it was, its times included, before the command is given again."""

    def restore() -> None:
        folder = case.site.folder / "input"
        shutil.rmtree(folder, ignore_errors=True)
        case.site.take_input(case.reference.input)

    case.mend = restore
    case.may_leave_runs = True


def _part(case: Case) -> Path:
    return case.random.choice(sorted((case.site.folder / "input").iterdir()))


@kind(quick=True)
def input_removed(case: Case) -> None:
    """A part of the input is removed in the middle."""
    _restored(case)
    command = case.start()
    case.moment(command)
    part = _part(case)
    part.unlink()
    case.did.append(f"removed {part.name}")
    case.finish(command)


@kind(configurations=_PEOPLE)
def input_replaced(case: Case) -> None:
    """A part of the input becomes one with other people, after the survey."""
    other = case.references.inputs(OTHER_PEOPLE)
    _restored(case)
    command = case.start()
    case.moment(command, *_SURVEYED)
    part = _part(case)
    shutil.copyfile(other / part.name, new := part.with_suffix(".new"))
    new.replace(part)
    case.did.append(f"replaced {part.name}")
    case.finish(command)


@kind(configurations=_PEOPLE)
def input_replaced_behind_its_times(case: Case) -> None:
    """A part becomes one with other people in place, its length and time as before, between a killed run and the next.

    Only the content tells, and what is released must be the one or the other release.
    """
    case.allow(OTHER_PEOPLE)
    case.broken_off()
    _restored(case)
    part = _part(case)
    facts = part.stat()
    data = (case.references.inputs(OTHER_PEOPLE) / part.name).read_bytes()
    part.write_bytes(data[: facts.st_size].ljust(facts.st_size, b"\0"))
    os.utime(part, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    case.did.append(f"overwrote {part.name}, times kept")
    case.finish(case.start())


@kind()
def input_truncated(case: Case) -> None:
    """A part of the input loses its end, after the survey."""
    _restored(case)
    command = case.start()
    case.moment(command, *_SURVEYED)
    part = _part(case)
    os.truncate(part, int(part.stat().st_size * case.random.random()))
    case.did.append(f"truncated {part.name}")
    case.finish(command)


@kind()
def input_appended(case: Case) -> None:
    """A part of the input grows, after the survey."""
    _restored(case)
    command = case.start()
    case.moment(command, *_SURVEYED)
    part = _part(case)
    with part.open("ab") as file:
        file.write(part.read_bytes()[-4000:])
    case.did.append(f"appended to {part.name}")
    case.finish(command)


@kind(configurations=_PEOPLE)
def input_gets_another_part(case: Case) -> None:
    """A part is added to the input, after the survey."""
    other = case.references.inputs(OTHER_PEOPLE)
    _restored(case)
    command = case.start()
    case.moment(command, *_SURVEYED)
    shutil.copyfile(other / "people-1.parquet", case.site.folder / "input" / "people-9.parquet")
    case.did.append("added a part")
    case.finish(command)


@kind()
def input_touched(case: Case) -> None:
    """The time of an input part changes and nothing else."""
    _restored(case)
    command = case.start()
    case.moment(command)
    _part(case).touch()
    case.did.append("touched a part")
    case.finish(command)


@kind()
def spec_changed(case: Case) -> None:
    """The spec asks for another k between a killed run and the next, which must not take the one's work for the other.

    Afterwards the first spec is there again.
    """
    case.may_overlap()
    case.broken_off()
    case.site.write_spec(k=9, id="nine")
    with case.reader.rest():
        ended = case.finish(case.start())
        case.allow_any("nine")
    if ended.succeeded and case.content_of("nine") == case.reference.content:
        case.wrongs.append("a release with another k has the same bytes")
    case.mend = lambda: case.site.write_spec() and None
    case.always_again = case.has_rivals = case.may_leave_runs = True
