"""The gate of a night, with series that were broken for real: files, marks, ledgers and keys."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from microagg_core.data.tables.slices import read_slice, to_bytes
from microagg_core.errors import GateError, MicroaggError
from microagg_core.release.records import MARKS
from microagg_core.release.steps.candidate import CANDIDATE
from microagg_core.series.match import ARRIVAL, CLOSED, CODE, marks_of
from microagg_core.series.together import BroughtTogether
from microagg_flows import stages
from microagg_flows.progress import Silence
from microagg_flows.release import Release
from releasing.runs import forge, run_stages
from seasons.population import KEYS, TAG, Population
from seasons.walk import Walk


@dataclass
class Tonight:
    """A night whose candidate files are there: one left, the others of his class and one more person changed."""

    walk: Walk
    release: Release
    #: The candidate files as the release made them.
    files: dict[str, bytes]
    #: Who left, who was in a class with him, and who else has another score.
    ghost: int
    beside: list[int]
    lone: int

    def stopped(self, breaking: Breaking) -> MicroaggError:
        """Have the gate read rows that a function broke; how it stopped."""
        tables = [pq.read_table(io.BytesIO(data)) for data in self.files.values()]
        rows: Rows = [{**row, "_file": i} for i, table in enumerate(tables) for row in table.to_pylist()]
        before = [dict(row) for row in rows]
        breaking(self, rows)
        assert rows != before, "nothing was broken"
        for i, (name, table) in enumerate(zip(self.files, tables, strict=True)):
            of_file = [{k: v for k, v in row.items() if k != "_file"} for row in rows if row["_file"] == i]
            sink = io.BytesIO()
            pq.write_table(pa.Table.from_pylist(of_file, schema=table.schema), sink)
            forge(self.release, name, sink.getvalue())
        with pytest.raises(MicroaggError) as stopped:
            run_stages(self.release, "validate", "measure", "publish")
        assert self.release.published is None and len(list(self.walk.folder.glob("release/*/*/manifest.json"))) == 1
        return stopped.value


Rows = list[dict[str, object]]
Breaking = Callable[[Tonight, Rows], None]


@pytest.fixture(scope="module", params=[False, True], ids=["trace", "changes"])
def tonight(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tonight:
    series = {"mode": "atoms", "leavers": "ghosts", "guarantee": "trace+changes" if request.param else "trace"}
    walk = Walk(tmp_path_factory.mktemp("gate"), Population(90, seed=1), series)
    assert walk.walk("night; pass_day come=12") == []
    people, last = walk.people, walk.outsider.seen[-1].classes
    of = next(of for of, n in sorted(Counter(last.values()).items()) if n > walk.k)
    ghost, *beside = sorted(tag for tag, released in last.items() if released == of)
    people.here.remove(ghost)
    people.gone.append(ghost)
    lone = next(tag for tag in people.here if tag in last and last[tag] != of)
    for tag in (*beside, lone):
        people.score[tag] += 1
    release = run_stages(walk.begin(), "survey", "plan", "scatter", "anonymize")
    files = {piece.name: release.work.read(piece.name) for piece in release.written(CANDIDATE).pieces}
    return Tonight(walk, release, files, ghost, beside, lone)


def key_of(row: dict[str, object]) -> tuple[object, ...]:
    return tuple(row[name] for name in KEYS)


def is_survivor(tonight: Tonight, row: dict[str, object]) -> bool:
    return row[TAG] in tonight.walk.outsider.seen[0].classes


def large(tonight: Tonight, rows: Rows, survivors: bool, least: int) -> Rows:
    mine = [row for row in rows if is_survivor(tonight, row) == survivors]
    counts = Counter(map(key_of, mine))
    key, n = max(sorted(counts.items(), key=str), key=lambda item: item[1])
    assert n >= least
    return [row for row in mine if key_of(row) == key]


def put_into(row: dict[str, object], other: dict[str, object]) -> None:
    row.update({name: other[name] for name in KEYS})


def unit_moved(tonight: Tonight, rows: Rows) -> None:
    """From an atom that can spare it to another."""
    mine = large(tonight, rows, True, 4)
    other = next(row for row in rows if is_survivor(tonight, row) and key_of(row) != key_of(mine[0]))
    put_into(mine[0], other)


def arrival_in_an_old_atom(tonight: Tonight, rows: Rows) -> None:
    mine = large(tonight, rows, False, 3)
    put_into(mine[0], next(row for row in rows if is_survivor(tonight, row)))


def arrivals_in_an_old_atom(tonight: Tonight, rows: Rows) -> None:
    """As many as have a trace of their own: no trace is rare, but the class is not what it was."""
    old = next(row for row in rows if is_survivor(tonight, row))
    for row in large(tonight, rows, False, 3):
        put_into(row, old)


def survivor_among_arrivals(tonight: Tonight, rows: Rows) -> None:
    put_into(large(tonight, rows, True, 4)[0], next(row for row in rows if not is_survivor(tonight, row)))


def atom_split(tonight: Tonight, rows: Rows) -> None:
    """Half of an atom gets values of its own."""
    mine = large(tonight, rows, True, 4)
    for row in mine[: len(mine) // 2]:
        row["age"] = int(str(row["age"])) + 1


def atom_moved_whole(tonight: Tonight, rows: Rows) -> None:
    for row in large(tonight, rows, True, 3):
        row["income"] = float(str(row["income"])) + 1.0


def last_bit_moved(tonight: Tonight, rows: Rows) -> None:
    import math

    for row in large(tonight, rows, True, 3):
        row["income"] = math.nextafter(float(str(row["income"])), math.inf)


def values_exchanged_in_a_class(tonight: Tonight, rows: Rows) -> None:
    """The class has the same values as ever, but two of its units have each other's."""
    mine = large(tonight, rows, True, 3)
    one, other = next((a, b) for a in mine for b in mine if a["note"] != b["note"])
    one["note"], other["note"] = other["note"], one["note"]


def values_exchanged_between_classes(tonight: Tonight, rows: Rows) -> None:
    one = next(row for row in rows if is_survivor(tonight, row))
    other = next(r for r in rows if is_survivor(tonight, r) and key_of(r) != key_of(one) and r["note"] != one["note"])
    one["note"], other["note"] = other["note"], one["note"]


def value_altered(tonight: Tonight, rows: Rows) -> None:
    next(row for row in rows if is_survivor(tonight, row))["note"] = "99"


def ghosts(tonight: Tonight, rows: Rows) -> Rows:
    return [row for row in rows if row[TAG] == tonight.ghost]


def ghost_altered(tonight: Tonight, rows: Rows) -> None:
    ghosts(tonight, rows)[0]["note"] = "99"


def ghost_and_neighbour_exchanged(tonight: Tonight, rows: Rows) -> None:
    ghost = ghosts(tonight, rows)[0]
    other = next(r for r in rows if key_of(r) == key_of(ghost) and r["note"] != ghost["note"])
    ghost["note"], other["note"] = other["note"], ghost["note"]


def change_let_through(tonight: Tonight, rows: Rows, who: list[int]) -> None:
    for row in rows:
        if row[TAG] in who:
            row["score"] = tonight.walk.people.score[int(str(row[TAG]))]


def lone_change_let_through(tonight: Tonight, rows: Rows) -> None:
    change_let_through(tonight, rows, [tonight.lone])


def changes_beside_a_ghost_let_through(tonight: Tonight, rows: Rows) -> None:
    """All the others of a ghost's class, k of them at least, as they are tonight."""
    change_let_through(tonight, rows, tonight.beside)


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
    "changes beside a ghost": (changes_beside_a_ghost_let_through, "leavers: 1 classes hold somebody who left"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_gate_of_the_series_stops_alone(name: str, tonight: Tonight, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the checks of the series stands in the way."""
    breaking, says = BROKEN[name]
    monkeypatch.setattr(stages, "run_checks", lambda *_: [])
    stopped = tonight.stopped(breaking)
    assert isinstance(stopped, GateError) and stopped.exit_code == 4 and says in stopped.message
    if tonight.walk.outsider.promise.changes:
        lone = tonight.stopped(lone_change_let_through)
        assert isinstance(lone, GateError) and "change-k" in lone.message


@pytest.mark.parametrize("name", ["an arrival put into an old atom", "an atom moved by the last bit"])
def test_the_whole_gate_stops_it_too(name: str, tonight: Tonight) -> None:
    assert tonight.stopped(BROKEN[name][0]).exit_code == 4


def _reopen(release: Release) -> None:
    """Have everybody who is closed pass for an arrival, from the first stage on."""
    for piece in release.written(MARKS).pieces:
        codes = np.asarray(read_slice(release.work.read(piece.name))[CODE])
        forge(release, piece.name, to_bytes(marks_of(np.where(codes == CLOSED, ARRIVAL, codes).astype(np.uint8))))


@pytest.mark.parametrize("mode", ["disjoint", "decoys"])
def test_who_vanished_is_not_released_again(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The marks have the closed as arrivals: the gate goes by the ledger."""
    monkeypatch.setattr(stages, "run_checks", lambda *_: [])
    series = {"mode": "disjoint"} if mode == "disjoint" else {"mode": "atoms", "leavers": "decoys"}
    walk = Walk(tmp_path, Population(90, seed=1), series)
    # Leavers vanish with their decoys, and return.
    assert walk.walk("night" if mode == "disjoint" else "night; night come=12 leave=20") == []
    walk.pass_day(come=12, back=20)
    genuine = stages.nights.identify

    def identified(release: Release) -> BroughtTogether:
        found = genuine(release)
        _reopen(release)
        return found

    monkeypatch.setattr(stages.nights, "identify", identified)
    n_published = len(list(tmp_path.glob("release/*/*/manifest.json")))
    with pytest.raises(GateError, match="units are released that never may be again"):
        run_stages(walk.begin())
    assert len(list(tmp_path.glob("release/*/*/manifest.json"))) == n_published


def test_a_person_under_another_id_is_an_arrival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger knows ids alone, and who names units promises that an id stays a person's; the operator is warned."""
    warnings: list[str] = []
    monkeypatch.setattr(Silence, "say", lambda _, text: warnings.append(text))
    walk = Walk(tmp_path, Population(90, seed=1), {"mode": "atoms", "leavers": "ghosts"})
    assert walk.walk("night; pass_day come=12 leave=1") == []
    (table,) = walk.people.tables(1)
    ids = table["id"].to_pylist()
    renamed = table.set_column(0, "id", pa.array(["another", *ids[1:]]))
    monkeypatch.setattr(walk.people, "tables", lambda n_parts: [renamed])
    assert run_stages(walk.begin()).published is not None
    (warning,) = [text for text in warnings if "if ids were changed" in text]
    assert warning.startswith("1 of ") and "of 2 units that left" in warning
