"""Files that are not what was written: in the work area between a killed run and its re-run, and at the output."""

from __future__ import annotations

from collections.abc import Callable

from soak.case import Case, MissedError
from soak.kinds import kind
from soak.places import Place
from soak.work_area import runs

Damage = Callable[[Case, bytes], bytes | None]


def _emptied(_: Case, __: bytes) -> bytes:
    return b""


def _truncated(case: Case, data: bytes) -> bytes:
    return data[: case.random.randrange(len(data))] if data else b""


def _flipped(case: Case, data: bytes) -> bytes:
    """One bit is another."""
    if not data:
        return b"?"
    position = case.random.randrange(len(data))
    return data[:position] + bytes([data[position] ^ (1 << case.random.randrange(8))]) + data[position + 1 :]


def _zeroed(_: Case, data: bytes) -> bytes:
    """Its length is right and its content is not: what a loss of power leaves of a file that was not flushed."""
    return bytes(len(data))


def _removed(_: Case, __: bytes) -> None:
    return None


def _other_json(_: Case, __: bytes) -> bytes:
    """A document that reads well and is another one."""
    return b'{"format_version": 1, "pieces": [], "started": "soon"}\n'


def _group(name: str) -> str:
    """Objects of one kind: the folder, and the name without its numbers."""
    folder, _, last = name.rpartition("/")
    below_run = folder.split("/", 2)[2:]
    return "/".join([*below_run, "".join(c for c in last if not c.isdigit())])


def _victims(case: Case, names: list[str]) -> list[str]:
    """One object of a kind that is drawn, several of it, all of it; or some of everything."""
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


def _apply(case: Case, place: Place, names: list[str], damage: Damage) -> None:
    for name in names:
        data = damage(case, place.read(name) or b"")
        if data is None:
            place.remove(name)
        else:
            place.write(name, data)
    case.did.append(f"{damage.__name__.strip('_')}: {', '.join(_group(name) for name in names[:3])} ({len(names)})")


def _between(case: Case, damage: Damage) -> None:
    """A run is killed, its work area damaged, and the command given again."""
    case.broken_off()
    work = case.site.work
    _apply(case, work, _victims(case, runs(work.versions())), damage)
    case.finish(case.start())


@kind(quick=True)
def work_files_emptied(case: Case) -> None:
    """Files of a killed run's work area are empty."""
    _between(case, _emptied)


@kind(quick=True)
def work_files_truncated(case: Case) -> None:
    """Files of a killed run's work area end in the middle."""
    _between(case, _truncated)


@kind()
def work_files_flipped(case: Case) -> None:
    """Files of a killed run's work area have one bit changed."""
    _between(case, _flipped)


@kind()
def work_files_zeroed(case: Case) -> None:
    """Files of a killed run's work area are zeros."""
    _between(case, _zeroed)


@kind()
def work_files_removed(case: Case) -> None:
    """Files of a killed run's work area are gone."""
    _between(case, _removed)


@kind()
def work_notes_replaced(case: Case) -> None:
    """JSON documents of a killed run's work area are other documents."""
    case.broken_off()
    work = case.site.work
    notes = [name for name in runs(work.versions()) if name.endswith(".json")]
    _apply(case, work, _victims(case, notes), _other_json)
    case.finish(case.start())


@kind()
def work_files_damaged_under_way(case: Case) -> None:
    """Files of the work area are damaged while the run goes on."""
    command = case.start()
    case.moment(command, *case.middle())
    work = case.site.work
    damage = case.random.choice([_emptied, _truncated, _flipped, _zeroed, _removed])
    try:
        _apply(case, work, _victims(case, runs(work.versions())), damage)
    except FileNotFoundError:
        raise MissedError("the run put its work area away") from None
    case.finish(command)


@kind()
def work_folder_in_the_way(case: Case) -> None:
    """A folder stands where a killed run's file was."""
    case.broken_off()
    work = case.site.work
    for name in _victims(case, runs(work.versions()))[:3]:
        work.remove(name)
        (case.site.folder / "work" / name).mkdir()
        case.did.append(f"a folder instead of {_group(name)}")
    case.finish(case.start())


@kind()
def audit_damaged(case: Case) -> None:
    """The audit of a published release is damaged, and the release is asked for again."""
    case.finish(case.start())
    work = case.site.work
    audits = [name for name in work.versions() if name.startswith("audit/")]
    damage = case.random.choice([_emptied, _truncated, _flipped, _removed, _other_json])
    _apply(case, work, case.random.sample(audits, 1), damage)
    case.has_rivals = True  # it was published before
    case.finish(case.start())


def _after_publishing(case: Case, names: Callable[[list[str]], list[str]], damage: Damage) -> None:
    """A release is published, damaged, and asked for again: that has to make it good."""
    case.finish(case.start())
    output = case.site.output
    with case.reader.rest():
        _apply(case, output, names(sorted(output.versions())), damage)
        case.has_rivals = True  # it was published before
        case.finish(case.start())
        case.reader.forget()


def _one_part(case: Case) -> Callable[[list[str]], list[str]]:
    return lambda names: [case.random.choice([name for name in names if "/data/" in name])]


@kind(quick=True)
def released_part_removed(case: Case) -> None:
    """A part of a published release is gone, and the release is asked for again."""
    _after_publishing(case, _one_part(case), _removed)


@kind()
def released_part_damaged(case: Case) -> None:
    """A part of a published release is not what it was, and the release is asked for again."""
    damage = case.random.choice([_emptied, _truncated, _flipped, _zeroed])
    _after_publishing(case, _one_part(case), damage)


@kind()
def released_page_damaged(case: Case) -> None:
    """A page of a published release, or its copy, is damaged or gone, and the release is asked for again."""

    def a_page(names: list[str]) -> list[str]:
        return [case.random.choice([name for name in names if name.endswith((".md", ".html", ".sql", ".xml"))])]

    _after_publishing(case, a_page, case.random.choice([_emptied, _truncated, _flipped, _zeroed, _removed]))


@kind()
def latest_damaged(case: Case) -> None:
    """latest.json of a published release is damaged or gone, and the release is asked for again."""
    damage = case.random.choice([_emptied, _truncated, _removed, _other_json])
    _after_publishing(case, lambda _: ["latest.json"], damage)
