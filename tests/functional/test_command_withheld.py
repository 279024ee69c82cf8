"""What is withheld, and what labels tell of small keys: attacks that found them, and what they find now."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from command_line import Project
from recount import exact

K = 5
Key = tuple[Any, ...]
UNIQUE = {"nearly_unique": ["tag", "wage"]}


def people(**counts: int) -> pa.Table:
    """So many records of each town, named ``region_town``; each has a wage, and a tag of its own."""
    rng = np.random.default_rng(7)
    keys = [name.split("_") for name, count in counts.items() for _ in range(count)]
    n = len(keys)
    region, town = ([key[j] for key in keys] for j in range(2))
    numbers = {"x": rng.integers(0, 50, n), "y": rng.normal(size=n).round(2), "wage": rng.integers(1, 99, n) * 100}
    return pa.table({"tag": range(n), "region": region, "town": town, **numbers})


def roles(*blocking: str) -> dict[str, list[str]]:
    drop = [name for name in ("region", "town") if name not in blocking]
    named = {"quasi_identifiers": ["x", "y"], "blocking": list(blocking), "confidential": ["wage", "tag"]}
    return {**named, "drop": drop}


def rows(table: pa.Table, *names: str) -> list[Key]:
    return list(zip(*(exact(table[name]) for name in names), strict=True)) if names else [()] * table.num_rows


def sizes(table: pa.Table, *names: str) -> Counter[Key]:
    return Counter(rows(table, *names))


def told_by_totals(came: pa.Table, out: pa.Table, *names: str) -> dict[Key, int]:
    """Sums of the wages of fewer than k people, from the known totals of cells and what is released of them."""
    cells = rows(came, *names), rows(out, *names)
    known, released = (Counter[Key](), Counter[Key]())
    for total, table, of_rows in ((known, came, cells[0]), (released, out, cells[1])):
        for cell, wage in zip(of_rows, table["wage"].to_pylist(), strict=True):
            total[cell] += wage
    missing = Counter(cells[0]) - Counter(cells[1])
    return {cell: known[cell] - released[cell] for cell, n in missing.items() if n < K and cell in released}


def without_small_keys(came: pa.Table, *names: str) -> pa.Table:
    """The records that were released once: all but those of keys below k."""
    counted = sizes(came, *names)
    return came.filter(pa.array([counted[key] >= K for key in rows(came, *names)]))


@pytest.mark.parametrize("name", ["one", "a region of its own", "one key alone"])
def test_totals_do_not_tell_of_what_is_withheld(name: str, project: Project) -> None:
    large = {"n_a": 300, "n_b": 260, "n_c": 9, "n_d": 14, "s_a": 340, "s_b": 12, "s_c": 250, "e_a": 120, "e_b": 11}
    small = {"one": {"n_x": 1}, "a region of its own": {"w_x": 2}}
    came = people(**large, **small.get(name, {"n_x": 4}))
    once = without_small_keys(came, "region", "town")
    solved = {**told_by_totals(came, once), **told_by_totals(came, once, "region")}
    gone = came.filter(pa.array([key == "x" for key in came["town"].to_pylist()]))
    assert sum(gone["wage"].to_pylist()) in solved.values(), "the attack finds what releases once told"
    project.write(came)
    project.write_spec(roles("region", "town"), k=K, acknowledge=UNIQUE, blocks={"undersized": "suppress"})
    document = project.release()
    out = project.released()
    assert told_by_totals(came, out) == told_by_totals(came, out, "region") == {}
    lost = set(sizes(came, "region", "town")) - set(sizes(out, "region", "town"))
    n_lost = came.num_rows - out.num_rows
    assert len(lost) >= 2 and n_lost >= K and n_lost < 40
    _assert_told_to_the_operator_alone(project, document, n_lost)


def _assert_told_to_the_operator_alone(project: Project, document: dict[str, Any], n: int) -> None:
    manifest = project.manifest()
    assert manifest["suppressed"] == document["withheld"] == "at least k"
    assert project.call("verify", "release").code == 0
    rows_check = next(check for check in manifest["checks"] if check["name"] == "rows")
    assert f" {n} " not in rows_check["detail"]
    (plan,) = (project.work / "audit").rglob("plan.json")
    assert json.loads(plan.read_text())["withheld"] == n
    again = project.call("run", "release.yaml", "--direct")
    assert again.code == 0 and "at least k withheld" in again.out + again.err


def test_nothing_withheld_is_said_to_be_nothing(project: Project) -> None:
    project.write(people(n_a=40, s_a=50))
    project.write_spec(roles("region"), k=K, acknowledge=UNIQUE, blocks={"undersized": "suppress"})
    assert project.release()["withheld"] == 0
    assert project.manifest()["suppressed"] == 0


def test_it_stops_where_too_much_would_be_withheld(project: Project) -> None:
    project.write(people(n_a=40, n_x=1, s_a=50))
    project.write_spec(roles("region", "town"), k=K, acknowledge=UNIQUE, blocks={"undersized": "suppress"})
    ended = project.call("run", "release.yaml", "--direct")
    ended.assert_refused(3, "to withhold them 40 more of 91 would have to be withheld", "blocks.totals_known: file")
    project.assert_nothing_published()


def lacking(table: pa.Table, name: str, places: Collection[int]) -> pa.Table:
    values = [None if place in places else value for place, value in enumerate(table[name].to_pylist())]
    return table.set_column(table.column_names.index(name), name, pa.array(values, table[name].type))


def test_a_rare_pattern_of_missing_values_is_withheld_with_company_and_said(project: Project) -> None:
    """Keys are merged, but not patterns: whose quasi-identifiers are missing is withheld where that is rare."""
    came = lacking(people(n_a=300, s_a=340, e_a=31), "y", {640, 650})
    project.write(came)
    spec = {"k": K, "acknowledge": UNIQUE, "missing": "separate"}
    project.write_spec(roles("region"), **spec)
    plan = project.call("plan", "release.yaml")
    assert "2 of them lack just 'y', and fewer than k=5 in their block do" in plan.out
    assert "29 of them so that totals known elsewhere do not tell of the others" in plan.out
    project.release()
    out = project.released()
    assert told_by_totals(came, out) == told_by_totals(came, out, "region") == {}
    assert set(sizes(out, "region")) == {("n",), ("s",)}


@pytest.mark.parametrize(("totals", "code"), [("labels", 3), ("file", 0)])
def test_who_knows_only_the_file_s_totals_needs_less_to_be_withheld(totals: str, code: int, project: Project) -> None:
    came = lacking(people(n_a=300, s_a=340, e_a=20), "y", {0, 301})
    project.write(came)
    blocks = {"totals_known": totals}
    project.write_spec(roles("region"), k=K, acknowledge=UNIQUE, missing="separate", blocks=blocks)
    ended = project.call("run", "release.yaml", "--direct")
    assert ended.code == code, ended.err
    if not code:
        out = project.released()
        assert came.num_rows - out.num_rows == 22 and told_by_totals(came, out) == {}


def test_the_total_of_a_quasi_identifier_that_few_of_the_withheld_have(project: Project) -> None:
    """Of five withheld records one has a y: the total of y, less the release's, would be its own."""
    came = people(n_a=300, s_a=340, e_a=30, w_a=9)
    came = lacking(came, "y", range(4))
    came = lacking(came, "x", {4})
    project.write(came)
    blocks = {"totals_known": "file"}
    project.write_spec(roles("region"), k=K, acknowledge=UNIQUE, missing="separate", blocks=blocks)
    project.release()
    gone = came.filter(pa.array([tag not in set(project.released()["tag"].to_pylist()) for tag in range(679)]))
    for name in ("x", "y"):
        assert gone.num_rows - gone[name].null_count >= K


def told_by_labels(out: pa.Table, towns: str, region: str) -> set[str]:
    """Towns of a region of which a reader is sure that they have fewer than k people, or one of two has.

    ``towns`` are all that there could be, as a map has them. A list names them; under a star there are at least two
    keys of those that do not stand beside it.
    """
    labels = {label for label in sizes(out, "region", "town") if label[0] == region}
    named = {town for _, label in labels if "|" in label for town in label.split("|")}
    unseen = set(towns) - {label for _, label in labels}
    return named | (unseen if any(label == "*" for _, label in labels) and len(unseen) <= 2 else set())


@pytest.mark.parametrize(
    ("form", "labels", "told"),
    [
        ("list", {("n", "a"), ("n", "b|c"), ("s", "a")}, {"b", "c"}),
        ("parent", {("n", "a"), ("n", "*"), ("s", "a")}, {"b", "c"}),
        ("star", {("n", "*"), ("s", "a")}, set()),
    ],
)
def test_who_a_label_tells_of(form: str, labels: set[Key], told: set[str], project: Project) -> None:
    project.write(people(n_a=30, n_b=3, n_c=8, s_a=20))
    project.write_spec(roles("region", "town"), k=K, acknowledge=UNIQUE, blocks={"labels": form})
    plan = project.call("plan", "release.yaml")
    assert ("1 of 3 tell that a key with fewer than k records is there" in plan.out) == (form == "list")
    project.release()
    out = project.released()
    assert set(sizes(out, "region", "town")) == labels
    assert told_by_labels(out, "abc", "n") == told
    assert ("c" in told_by_labels(out, "abcdef", "n")) == (form == "list"), "of a longer map a star tells nothing"
    assert min(sizes(out, "region", "town", "x", "y").values()) >= K
    assert project.call("verify", "release").code == 0


@pytest.mark.parametrize("form", ["parent", "star"])
def test_a_value_that_is_a_star_is_told_from_the_star(form: str, project: Project) -> None:
    table = people(n_a=30, n_b=3, n_c=8, n_d=9, s_d=20)
    stars = ["*" if town == "d" else town for town in table["town"].to_pylist()]
    project.write(table.set_column(2, "town", pa.array(stars)))
    project.write_spec(roles("region", "town"), k=K, acknowledge=UNIQUE, blocks={"labels": form})
    project.release()
    counted = sizes(project.released(), "region", "town")
    assert counted["s", "\\*"] == 20
    assert counted["n", "*"] == {"parent": 11, "star": 50}[form]


def test_strata_that_share_a_label_are_checked_as_one(project: Project) -> None:
    """Two merged strata, and those of two patterns, under one label; in files that the label fills together."""
    came = lacking(people(n_a=3, n_b=3, n_c=4, n_d=4, n_e=40, s_a=60), "y", {0, 4, 20, 21, 22, 60})
    project.write(came)
    blocks = {"labels": "star"}
    project.write_spec(roles("region", "town"), k=3, acknowledge=UNIQUE, missing="separate", blocks=blocks)
    project.release()
    out = project.released()
    assert out.num_rows == came.num_rows
    assert min(sizes(out, "region", "town", "x", "y").values()) >= 3
    assert project.call("verify", "release").code == 0


def test_labels_are_of_merged_keys(project: Project) -> None:
    project.write(people(n_a=30))
    project.write_spec(roles("town"), k=K, blocks={"undersized": "suppress", "labels": "star"})
    ended = project.call("plan", "release.yaml")
    ended.assert_refused(2, "blocks.labels: is for undersized: merge, and with suppress no blocking values are merged")
