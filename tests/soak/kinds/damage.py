"""Files that are not what was written: in the work area between a killed run and its re-run, and at the output."""

from __future__ import annotations

from collections.abc import Callable

from soak.case import Case, MissedError
from soak.command import Command
from soak.kinds import enter, kind, strikes
from soak.places import Place


def _truncated(case: Case, data: bytes) -> bytes:
    return data[: case.random.randrange(len(data))] if data else b""


def _flipped(case: Case, data: bytes) -> bytes:
    """Change one bit."""
    if not data:
        return b"?"
    position = case.random.randrange(len(data))
    return data[:position] + bytes([data[position] ^ (1 << case.random.randrange(8))]) + data[position + 1 :]


#: What is left of a file; None: it is removed.
_DAMAGES: dict[str, Callable[[Case, bytes], bytes | None]] = {
    "emptied": lambda _, __: b"",
    "truncated": _truncated,
    "flipped": _flipped,
    # Its length is right and its content is not: what a loss of power leaves of a file that was not flushed.
    "zeroed": lambda _, data: bytes(len(data)),
    "removed": lambda _, __: None,
    # A document that reads well and is another one.
    "replaced": lambda _, __: b'{"format_version": 1, "pieces": [], "started": "soon"}\n',
}
_OF_WORK = ("emptied", "truncated", "flipped", "zeroed", "removed")


def _group(name: str) -> str:
    """Name objects of one kind: the folder, and the name without its numbers."""
    folder, _, last = name.rpartition("/")
    return "/".join([*folder.split("/", 3)[3:], "".join(c for c in last if not c.isdigit())])


def _staged(case: Case, ending: str = "") -> list[str]:
    """Draw one staged object of a kind that is drawn, several of it, all of it; or some of everything."""
    names = sorted(name for name in case.site.work.versions() if name.startswith("runs/") and name.endswith(ending))
    if not names:
        raise MissedError("the work area is empty")
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_group(name), []).append(name)
    drawn = groups[case.random.choice(sorted(groups))]
    how_many = case.random.choice([1, 1, 3, len(drawn)])
    if case.random.random() < 0.2:
        return case.random.sample(names, max(1, len(names) // 5))
    return case.random.sample(drawn, min(how_many, len(drawn)))


def _apply(case: Case, place: Place, names: list[str], damage: str) -> None:
    for name in names:
        data = _DAMAGES[damage](case, place.read(name) or b"")
        if data is None:
            place.remove(name)
        else:
            place.write(name, data)
    case.did.append(f"{damage}: {', '.join(_group(name) for name in names[:3])} ({len(names)})")


def _between(case: Case, damage: str, ending: str = "") -> None:
    """Kill a run, damage its work area, and give the command again."""
    case.broken_off()
    _apply(case, case.site.work, _staged(case, ending), damage)
    case.finish(case.start())


for _damage in _OF_WORK:
    _says = f"Files of a killed run's work area are {_damage}."
    enter(f"work-files-{_damage}", _says, lambda case, damage=_damage: _between(case, damage))


@kind()
def work_notes_replaced(case: Case) -> None:
    """JSON documents of a killed run's work area are other documents."""
    _between(case, "replaced", ".json")


@strikes(middle=True)
def work_files_damaged_under_way(case: Case, _: Command) -> None:
    """Files of the work area are damaged while the run goes on."""
    try:
        _apply(case, case.site.work, _staged(case), case.random.choice(_OF_WORK))
    except FileNotFoundError:
        raise MissedError("the run put its work area away") from None


@kind()
def work_folder_in_the_way(case: Case) -> None:
    """A folder stands where a killed run's file was."""
    case.broken_off()
    for name in _staged(case)[:3]:
        case.site.work.remove(name)
        (case.site.folder / "work" / name).mkdir()
        case.did.append(f"a folder instead of {_group(name)}")
    case.finish(case.start())


@kind()
def audit_damaged(case: Case) -> None:
    """The audit of a published release is damaged, and the release is asked for again."""
    case.finish(case.start())
    audits = [name for name in case.site.work.versions() if name.startswith("audit/")]
    damage = case.random.choice(["emptied", "truncated", "flipped", "removed", "replaced"])
    _apply(case, case.site.work, case.random.sample(audits, 1), damage)
    case.has_rivals = True  # it was published before
    case.finish(case.start())


def _published(case: Case, holds: Callable[[str], bool], *damages: str) -> None:
    """Publish a release, damage it, and ask for it again: that has to make it good."""
    case.finish(case.start())
    names = sorted(filter(holds, case.site.output.versions()))
    with case.reader.rest:
        _apply(case, case.site.output, [case.random.choice(names)], case.random.choice(damages))
        case.has_rivals = True  # it was published before
        case.finish(case.start())
        case.reader.forget()


@kind()
def released_part_removed(case: Case) -> None:
    """A part of a published release is gone, and the release is asked for again."""
    _published(case, lambda name: "/data/" in name, "removed")


@kind()
def released_part_damaged(case: Case) -> None:
    """A part of a published release is not what it was, and the release is asked for again."""
    _published(case, lambda name: "/data/" in name, "emptied", "truncated", "flipped", "zeroed")


@kind()
def released_page_damaged(case: Case) -> None:
    """A page of a published release, or its copy, is damaged or gone, and the release is asked for again."""
    _published(case, lambda name: name.endswith((".md", ".html", ".sql", ".xml")), *_OF_WORK)


@kind()
def latest_damaged(case: Case) -> None:
    """latest.json of a published release is damaged or gone, and the release is asked for again."""
    _published(case, lambda name: name == "latest.json", "emptied", "truncated", "removed", "replaced")
