"""One person under several ids: groups of one person would pass as k = 3, and the run stops before that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.errors import DataError, SpecError
from microagg_core.release.planned import SURVEY
from microagg_core.release.planning import told
from microagg_core.spec.loading import load_spec
from releasing.runs import run_stages, start, write_release

SPELLINGS = {
    "letters": ("P1", "p1", "P1 "),
    "numbers": ("7", "07", "7.0"),
    "spaces": ("A  1", "A 1", "A\u00a01"),
    "forms": ("e\u0301 1", "\u00e9 1", "\u00c9 1"),
}
ROLES: dict[str, Any] = {"identifiers": ["id"], "quasi_identifiers": ["x", "y"], "confidential": ["note"]}


def table(ids: list[str | None]) -> pa.Table:
    """Records in threes that lie close to each other, as those of one person do."""
    rng = np.random.default_rng(3)
    place = np.arange(len(ids)) // 3
    return pa.table(
        {
            "id": pa.array(ids),
            "x": place * 100.0 + rng.normal(size=len(ids)).round(3),
            "y": rng.normal(size=len(ids)).round(3),
            "note": rng.choice(["a", "b"], len(ids)),
        }
    )


def of_one_person(spellings: tuple[str, ...]) -> list[str | None]:
    """The records of one person, whose id is spelled in three ways, and of 57 others."""
    return [*spellings, *(f"Q{i}" for i in range(57))]


def parts(ids: list[str | None]) -> list[pa.Table]:
    whole = table(ids)
    return [whole.slice(0, 1), whole.slice(1, 30), whole.slice(31)]


def survey(path: Path) -> Any:
    return run_stages(start(path), "survey")


@pytest.mark.parametrize("name", SPELLINGS)
def test_ids_that_differ_only_in_spelling(name: str, tmp_path: Path) -> None:
    ids = of_one_person(SPELLINGS[name])
    # What is compared to the byte sees three people: their three records make a group of k = 3.
    assert len(set(ids)) == len(ids)
    group = table(ids).to_pandas().assign(group=lambda frame: (frame["x"] / 100).round()).query("group == 0")
    assert len(group) == 3 and set(group["id"]) == set(SPELLINGS[name])
    says = r"2 id\(s\) differ from others only in spelling"
    with pytest.raises(DataError, match=says) as stopped:
        survey(write_release(tmp_path / "row", parts(ids), roles=ROLES))
    assert all(spelling.strip() not in stopped.value.message for spelling in SPELLINGS[name] if len(spelling) > 2)
    assert "acknowledge.spelling_of_units" in stopped.value.message
    with pytest.raises(DataError, match=r"unit 'id' repeats in 2 records: .* or, if their ids differ in spelling"):
        survey(write_release(tmp_path / "named", parts(ids), roles=ROLES, unit=["id"]))
    meant = {"acknowledge": {"spelling_of_units": ["id"]}}
    survey(write_release(tmp_path / "meant", parts(ids), roles=ROLES, **meant))


def test_what_repeats_to_the_byte_is_told_as_that(tmp_path: Path) -> None:
    ids = [*of_one_person(("P1", "p1", "P1")), "Q5"]
    with pytest.raises(DataError, match=r"identifier 'id' repeats in 2 records.*k counts rows, and who has"):
        survey(write_release(tmp_path, parts(ids), roles=ROLES))


@pytest.mark.parametrize("nobody", [None, "", "  "])
@pytest.mark.parametrize("unit", ["row", ["id"]])
def test_a_record_of_nobody(unit: Any, nobody: str | None, tmp_path: Path) -> None:
    """A null is one more person to whoever counts distinct ids, and may be anyone of the others."""
    ids = of_one_person(("P1", "P2", "P3"))
    ids[17] = nobody
    assert table(ids).to_pandas()["id"].nunique(dropna=False) == len(ids)
    with pytest.raises(DataError, match=r"is missing in 1 record|1 record.s. name no unit"):
        survey(write_release(tmp_path, parts(ids), roles=ROLES, unit=unit))


def test_numbers_have_one_spelling(tmp_path: Path) -> None:
    whole = table([None] * 60).set_column(0, "id", pa.array(np.arange(60)))
    run_stages(start(write_release(tmp_path, [whole], roles=ROLES, unit=["id"])), "survey")


def of_two(first: list[Any], second: list[Any]) -> pa.Table:
    """Records whose unit two columns name."""
    whole = table([str(value) for value in first])
    return whole.append_column("part", pa.array(second))


#: What the two columns of a unit are, and the one of them that alone may name the person.
TOGETHER = {
    "visits of few": (of_two([i // 3 for i in range(120)], [i % 3 for i in range(120)]), "id"),
    "visits of some, and one of others": (
        of_two([i * 7919 % 4001 * 3 % 2000 for i in range(4000)], list(range(4000))),
        "id",
    ),
    "numbers of events": (of_two([f"E{i}" for i in range(900)], [i // 5 for i in range(900)]), "part"),
    "ids that differ in spelling": (of_two([f"{'pP'[i % 2]}{i // 2}" for i in range(90)], list(range(90))), "id"),
}
APART = {
    "few hospitals": of_two([f"H{i % 5}" for i in range(100)], list(range(100))),
    "many hospitals": of_two([f"H{i % 40}" for i in range(9000)], [i % 8950 for i in range(9000)]),
    "two halves of a name": of_two([f"{i * 7919 % 1000}" for i in range(600)], list(range(600))),
}


def with_unit_of_two(folder: Path, whole: pa.Table, **changes: Any) -> Path:
    n = whole.num_rows // 2
    roles = {**ROLES, "identifiers": ["id", "part"]}
    return write_release(folder, [whole.slice(0, n), whole.slice(n)], roles=roles, unit=["id", "part"], **changes)


@pytest.mark.parametrize("name", TOGETHER)
def test_a_unit_that_is_smaller_than_a_person_is_refused(name: str, tmp_path: Path) -> None:
    """Groups of three visits of one person pass for k = 3."""
    whole, part = TOGETHER[name]
    with pytest.raises(DataError, match=rf"share their '{part}' with .* list {part} under acknowledge.part_of_unit"):
        survey(with_unit_of_two(tmp_path / "a", whole))
    survey(with_unit_of_two(tmp_path / "b", whole, acknowledge={"part_of_unit": [part]}))


@pytest.mark.parametrize("name", APART)
def test_a_unit_that_two_columns_name_is_not(name: str, tmp_path: Path) -> None:
    survey(with_unit_of_two(tmp_path, APART[name]))


def test_a_part_that_repeats_now_and_then_is_told(tmp_path: Path) -> None:
    path = with_unit_of_two(tmp_path, of_two([max(i, 40) for i in range(120)], list(range(120))))
    release = survey(path)
    found = release.known(SURVEY)
    (words,) = [line for line in told(load_spec(str(path)), found) if "'id' with" in line]
    assert "34 % of the records share their 'id' with others, 1.5 records each on average" in words


def test_units_are_no_blocking_columns(tmp_path: Path) -> None:
    """Their values would be labels of the release."""
    roles = {**ROLES, "identifiers": [], "blocking": ["id"]}
    with pytest.raises(SpecError, match="'id' must be an identifier"):
        load_spec(str(write_release(tmp_path, parts(of_one_person(("a", "b", "c"))), roles=roles, unit=["id"])))
    with pytest.raises(DataError, match="blocking column 'id' looks like an identifier: 100 %"):
        run_stages(start(write_release(tmp_path, parts(of_one_person(("a", "b", "c"))), roles=roles)), "survey", "plan")
