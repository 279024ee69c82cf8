"""The gate of a night, with series that were broken for real: files, marks, ledgers and keys."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from microagg_core.data.tables.slices import read_slice, to_bytes
from microagg_core.errors import GateError, MicroaggError
from microagg_core.release.records import MARKS
from microagg_core.release.steps.candidate import CANDIDATE
from microagg_core.series.matching import ARRIVAL, CLOSED, CODE, marks_of
from microagg_flows import stages
from microagg_flows.progress import Silence
from microagg_flows.release import Release
from releasing.runs import forge
from seasons.begun import begun
from seasons.population import KEYS, TAG
from seasons.season import Season, make_release

Rows = list[dict[str, object]]
Breaking = Callable[[Season, Rows], None]


def last_classes(season: Season) -> dict[int, tuple[object, ...]]:
    """Everybody's class in the newest release."""
    return dict(season.outsider.seen[-1].classes)


def broken_run(season: Season, breaking: Breaking, monkeypatch: pytest.MonkeyPatch, alone: bool) -> MicroaggError:
    """Run a night whose candidate rows are broken before the gate reads them; how it was stopped.

    ``alone``: nothing but the checks of the series stands in the way.
    """
    if alone:
        monkeypatch.setattr(stages, "run_checks", lambda *_: [])
    release = make_release(season.prepare())
    with pytest.raises(MicroaggError) as stopped:
        for stage in stages.STAGES:
            stages.run_stage(stage, release)
            if stage.name == "anonymize":
                break_rows(season, release, breaking)
    assert release.published is None and len(list(season.output.glob("*/*/manifest.json"))) == len(season.outsider.seen)
    return stopped.value


def break_rows(season: Season, release: Release, breaking: Breaking) -> None:
    """Have a function change all rows that would be published, and write them back to their files."""
    names = [piece.name for piece in release.written(CANDIDATE).pieces]
    tables = [pq.read_table(io.BytesIO(release.work.read(name))) for name in names]
    rows: Rows = [{**row, "_file": i} for i, table in enumerate(tables) for row in table.to_pylist()]
    before = [dict(row) for row in rows]
    breaking(season, rows)
    assert rows != before, "nothing was broken"
    for i, (name, table) in enumerate(zip(names, tables, strict=True)):
        mine = [{k: v for k, v in row.items() if k != "_file"} for row in rows if row["_file"] == i]
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(mine, schema=table.schema), sink)
        forge(release, name, sink.getvalue())


# --- What the files have -----------------------------------------------------------------------------------------


def key_of(row: dict[str, object]) -> tuple[object, ...]:
    return tuple(row[name] for name in KEYS)


def is_survivor(season: Season, row: dict[str, object]) -> bool:
    return row[TAG] in season.outsider.seen[0].classes


def large(season: Season, rows: Rows, survivors: bool, least: int) -> Rows:
    mine = [row for row in rows if is_survivor(season, row) == survivors]
    counts = Counter(map(key_of, mine))
    key, n = max(sorted(counts.items(), key=str), key=lambda item: item[1])
    assert n >= least
    return [row for row in mine if key_of(row) == key]


def put_into(row: dict[str, object], other: dict[str, object]) -> None:
    row.update({name: other[name] for name in KEYS})


def unit_moved(season: Season, rows: Rows) -> None:
    """From an atom that can spare it to another."""
    mine = large(season, rows, True, 4)
    other = next(row for row in rows if is_survivor(season, row) and key_of(row) != key_of(mine[0]))
    put_into(mine[0], other)


def arrival_in_an_old_atom(season: Season, rows: Rows) -> None:
    mine = large(season, rows, False, 3)
    put_into(mine[0], next(row for row in rows if is_survivor(season, row)))


def arrivals_in_an_old_atom(season: Season, rows: Rows) -> None:
    """As many as have a trace of their own: no trace is rare, but the class is not what it was."""
    old = next(row for row in rows if is_survivor(season, row))
    for row in large(season, rows, False, 3):
        put_into(row, old)


def survivor_among_arrivals(season: Season, rows: Rows) -> None:
    put_into(large(season, rows, True, 4)[0], next(row for row in rows if not is_survivor(season, row)))


def atom_split(season: Season, rows: Rows) -> None:
    """Half of an atom gets values of its own."""
    mine = large(season, rows, True, 4)
    for row in mine[: len(mine) // 2]:
        row["age"] = int(str(row["age"])) + 1


def atom_moved_whole(season: Season, rows: Rows) -> None:
    for row in large(season, rows, True, 3):
        row["income"] = float(str(row["income"])) + 1.0


def last_bit_moved(season: Season, rows: Rows) -> None:
    import math

    for row in large(season, rows, True, 3):
        row["income"] = math.nextafter(float(str(row["income"])), math.inf)


def values_exchanged_in_a_class(season: Season, rows: Rows) -> None:
    """The class has the same values as ever, but two of its units have each other's."""
    mine = large(season, rows, True, 3)
    one, other = next((a, b) for a in mine for b in mine if a["note"] != b["note"])
    one["note"], other["note"] = other["note"], one["note"]


def values_exchanged_between_classes(season: Season, rows: Rows) -> None:
    one = next(row for row in rows if is_survivor(season, row))
    other = next(r for r in rows if is_survivor(season, r) and key_of(r) != key_of(one) and r["note"] != one["note"])
    one["note"], other["note"] = other["note"], one["note"]


def value_altered(season: Season, rows: Rows) -> None:
    next(row for row in rows if is_survivor(season, row))["note"] = "99"


def ghosts(season: Season, rows: Rows) -> Rows:
    return [row for row in rows if row[TAG] in season.people.gone]


def ghost_altered(season: Season, rows: Rows) -> None:
    ghosts(season, rows)[0]["note"] = "99"


def ghost_and_neighbour_exchanged(season: Season, rows: Rows) -> None:
    ghost = ghosts(season, rows)[0]
    other = next(r for r in rows if key_of(r) == key_of(ghost) and r["note"] != ghost["note"])
    ghost["note"], other["note"] = other["note"], ghost["note"]


def lone_change_let_through(season: Season, rows: Rows) -> None:
    one = season.people.here[0]
    next(row for row in rows if row[TAG] == one)["score"] = season.people.score[one]


BROKEN: dict[str, tuple[Breaking, str]] = {
    "a unit moved to another atom": (unit_moved, "not in the class in which they were released last"),
    "an arrival put into an old atom": (arrival_in_an_old_atom, "trace-k"),
    "a survivor put among arrivals": (survivor_among_arrivals, "not in the class in which they were released last"),
    "an atom split": (atom_split, "not in the class in which they were released last"),
    "an atom moved as a whole": (atom_moved_whole, "not in the class in which they were released last"),
    "an atom moved by the last bit": (last_bit_moved, "not in the class in which they were released last"),
    "values exchanged within a class": (values_exchanged_in_a_class, "neither tonight's nor those of their last"),
    "values exchanged between classes": (values_exchanged_between_classes, "neither tonight's nor those of their last"),
    "a survivor's value altered": (value_altered, "neither tonight's nor those of their last"),
    "a ghost's value altered": (ghost_altered, "neither tonight's nor those of their last"),
    "a ghost's value exchanged": (ghost_and_neighbour_exchanged, "neither tonight's nor those of their last"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("changes", [False, True], ids=["trace", "changes"])
def test_the_gate_of_the_series_stops_alone(
    name: str, changes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking, says = BROKEN[name]
    stopped = broken_run(begun(tmp_path, changes=changes), breaking, monkeypatch, alone=True)
    assert isinstance(stopped, GateError) and stopped.exit_code == 4
    assert says in stopped.message


@pytest.mark.parametrize("name", ["an arrival put into an old atom", "an atom moved by the last bit"])
def test_the_whole_gate_stops_it_too(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = broken_run(begun(tmp_path), BROKEN[name][0], monkeypatch, alone=False)
    assert stopped.exit_code == 4


def test_a_lone_change_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = broken_run(begun(tmp_path, changes=True), lone_change_let_through, monkeypatch, alone=True)
    assert isinstance(stopped, GateError) and "change-k" in stopped.message


@pytest.mark.parametrize("changes", [False, True], ids=["trace", "changes"])
def test_a_ghost_among_those_who_change_is_stopped(
    changes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All the others of a ghost's class, k of them at least, as they are tonight."""
    season = begun(tmp_path, changes=changes)
    people, last = season.people, last_classes(season)
    of = next(of for of, n in sorted(Counter(last.values()).items()) if n > season.k)
    ghost, *others = sorted(tag for tag, klass in last.items() if klass == of)
    people.here = [one for one in people.here if one != ghost]
    others = [one for one in others if one in people.here]
    for one in others:
        people.score[one] += 1

    def let_through(_: Season, rows: Rows) -> None:
        for row in rows:
            if row[TAG] in others:
                row["score"] = people.score[int(str(row[TAG]))]

    stopped = broken_run(season, let_through, monkeypatch, alone=True)
    assert isinstance(stopped, GateError) and "leavers: 1 classes hold somebody who left" in stopped.message


def _reopen(release: Release) -> None:
    """Have everybody who is closed pass for an arrival, from the first stage on."""
    for piece in release.written(MARKS).pieces:
        codes = np.asarray(read_slice(release.work.read(piece.name))[CODE])
        forge(release, piece.name, to_bytes(marks_of(np.where(codes == CLOSED, ARRIVAL, codes).astype(np.uint8))))


@pytest.mark.parametrize("mode", ["disjoint", "atoms-decoys"])
def test_who_vanished_is_not_released_again(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The marks have the closed as arrivals: the gate goes by the ledger."""
    monkeypatch.setattr(stages, "run_checks", lambda *_: [])
    season = begun(tmp_path, mode)
    people = season.people
    if mode == "atoms-decoys":  # leavers vanish with their decoys, and return
        people.gone += [people.here.pop(0) for _ in range(20)]
        season.spend(season.prepare())
        season.day += 1
        people.here += people.gone
    genuine = stages.nights.identify

    def identified(release: Release) -> None:
        genuine(release)
        _reopen(release)

    monkeypatch.setattr(stages.nights, "identify", identified)
    n_published = len(season.outsider.seen)
    with pytest.raises(GateError, match="units are released that never may be again"):
        season.spend(season.prepare())
    assert len(season.outsider.seen) == n_published


def test_a_person_under_another_id_is_an_arrival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger knows ids alone, and who names units promises that an id stays a person's; the operator is warned."""
    said: list[str] = []
    monkeypatch.setattr(Silence, "say", lambda _, text: said.append(text))
    season = begun(tmp_path)
    one = season.people.here[1]
    tables = season.people.tables(1)
    ids = tables[0]["id"].to_pylist()
    tables[0] = tables[0].set_column(0, "id", pa.array(["another" if i == f"P{one:07d}" else i for i in ids]))
    season.people.tables = lambda n_parts: tables  # type: ignore[method-assign]
    season.spend(season.prepare())
    assert len(season.outsider.seen) == 2
    warned = [text for text in said if "if ids were changed" in text]
    assert len(warned) == 1 and warned[0].startswith("1 of ") and "of 2 units that left" in warned[0]
