"""An input that is changed, replaced or removed while a release is made of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from soak.case import Case
from soak.command import Command
from soak.data import OTHER_PEOPLE, PLAIN, REFINED
from soak.kinds import kind, strikes

_PEOPLE = (PLAIN, PLAIN, REFINED)
#: From here on the run knows what its input is: whatever it releases must be made of that.
_SURVEYED = (
    "survey ", "plan ", "scatter: ", "scatter ", "anonymize: ", "assemble: ", "anonymize ", "check-files: ",
    "validate ",
)  # fmt: skip


def _restored(case: Case) -> tuple[Path]:
    """Have the input as it was, its times included, before the command is given again; one of its parts."""

    def restore() -> None:
        shutil.rmtree(case.site.folder / "input", ignore_errors=True)
        case.site.take_input(case.reference.input)

    case.mend = restore
    case.may_leave_runs = True
    return (case.random.choice(sorted((case.site.folder / "input").iterdir())),)


@strikes(before=_restored)
def input_removed(case: Case, _: Command, part: Path) -> None:
    """A part of the input is removed in the middle."""
    part.unlink()


@strikes(*_SURVEYED, before=_restored, configurations=_PEOPLE)
def input_replaced(case: Case, _: Command, part: Path) -> None:
    """A part of the input becomes one with other people, after the survey."""
    shutil.copyfile(case.references.inputs(OTHER_PEOPLE) / part.name, new := part.with_suffix(".new"))
    new.replace(part)


@kind(configurations=_PEOPLE)
def input_replaced_behind_its_times(case: Case) -> None:
    """A part becomes one with other people in place, its length and time as before, between a killed run and the next.

    Only the content tells, and what is released must be the one or the other release.
    """
    case.reader.allowed.add(case.references.of(OTHER_PEOPLE).content)
    case.broken_off()
    (part,) = _restored(case)
    facts = part.stat()
    data = (case.references.inputs(OTHER_PEOPLE) / part.name).read_bytes()
    part.write_bytes(data[: facts.st_size].ljust(facts.st_size, b"\0"))
    os.utime(part, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    case.finish(case.start())


@strikes(*_SURVEYED, before=_restored)
def input_truncated(case: Case, _: Command, part: Path) -> None:
    """A part of the input loses its end, after the survey."""
    os.truncate(part, int(part.stat().st_size * case.random.random()))


@strikes(*_SURVEYED, before=_restored)
def input_appended(case: Case, _: Command, part: Path) -> None:
    """A part of the input grows, after the survey."""
    with part.open("ab") as file:
        file.write(part.read_bytes()[-4000:])


@strikes(*_SURVEYED, before=_restored, configurations=_PEOPLE)
def input_gets_another_part(case: Case, _: Command, part: Path) -> None:
    """A part is added to the input, after the survey."""
    shutil.copyfile(case.references.inputs(OTHER_PEOPLE) / "people-1.parquet", part.with_name("people-9.parquet"))


@strikes(before=_restored)
def input_touched(case: Case, _: Command, part: Path) -> None:
    """The time of an input part changes and nothing else."""
    part.touch()


@kind()
def spec_changed(case: Case) -> None:
    """The spec asks for another k between a killed run and the next, which must not take the one's work for the other.

    Afterwards the first spec is there again.
    """
    case.may_overlap()
    case.broken_off()
    case.site.write_spec(k=9, id="nine")
    with case.reader.rest:
        ended = case.finish(case.start())
        content = case.content_of("nine")
        case.reader.allowed |= {content} - {None}  # type: ignore[arg-type]
    if ended.succeeded and content == case.reference.content:
        case.wrongs.append("a release with another k has the same bytes")
    case.mend = lambda: case.site.write_spec() and None
    case.always_again = case.has_rivals = case.may_leave_runs = True
