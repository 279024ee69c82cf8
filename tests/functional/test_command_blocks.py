"""Blocks: awkward names and values, keys below k, blocks above the limit, missing values."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from command_line import Project
from recount import Expected, check_release, combinations, exact, parse_label

UNIQUE = {"nearly_unique": ["tag"]}


def keyed(n: int, seed: int = 0, **columns: Any) -> pa.Table:
    """Records with a tag, two quasi-identifiers, and what the test adds."""
    rng = np.random.default_rng(seed)
    return pa.table({"tag": range(n), "x": rng.integers(0, 50, n), "y": rng.normal(size=n).round(2), **columns})


def roles(*blocking: str) -> dict[str, list[str]]:
    return {"quasi_identifiers": ["x", "y"], "blocking": list(blocking), "confidential": ["tag"]}


def sizes(table: pa.Table, *names: str) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(exact(table[name]) for name in names), strict=True))


NAMES = [
    "a b", 'say "hi"', "it's", "Größe/cm", "北", "two\nlines", "dot.ted", "a", "a.b", "back\\slash", "record", "x0",
    "b0",
]  # fmt: skip


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_awkward_column_names(form: str, project: Project) -> None:
    rng = np.random.default_rng(3)
    columns = {name: rng.integers(0, 30, 80) for name in NAMES[:7]}
    columns |= {name: rng.choice(["u", "v"], 80) for name in NAMES[7:9]}
    columns |= {name: rng.choice(["1", "2", "3"], 80) for name in NAMES[9:]}
    table = pa.table({"tag": range(80), "who/is it?": [f"P{i}" for i in range(80)], **columns})
    project.write(table)
    project.write_spec(
        {
            "identifiers": ["who/is it?"],
            "quasi_identifiers": NAMES[:7],
            "blocking": NAMES[7:9],
            "confidential": ["tag", *NAMES[9:]],
        },
        acknowledge=UNIQUE,
        output={"url": "release", "format": form},
    )
    assert project.command("run", "release.yaml", "--direct", "--quiet").code == 0
    assert project.command("verify", "release").code == 0
    if form == "parquet":
        check_release(table, project.released(), Expected(3, NAMES[:7], NAMES[7:9], ["tag", *NAMES[9:]]))
    assert [column["name"] for column in project.manifest()["columns"]] == ["tag", *NAMES]


VALUES = [
    "a/b", "../../etc", "a.b", ".", "..", "two\nlines", "\r", "a|b", "a", "b", "\\", "\\N", "\\|", "|", "", " ", None,
    "x" * 300, "é€😀", "N", "null", "NaN", "a\\", "=1+1", "\t",
]  # fmt: skip


@pytest.mark.parametrize(("undersized", "form"), [("merge", "parquet"), ("merge", "csv"), ("suppress", "parquet")])
def test_awkward_blocking_values(undersized: str, form: str, project: Project) -> None:
    n = len(VALUES) * 8
    table = keyed(n, place=[VALUES[i % len(VALUES)] for i in range(n)])
    project.write(table)
    output = {"url": "release", "format": form}
    project.write_spec(roles("place"), acknowledge=UNIQUE, blocks={"undersized": undersized}, output=output)
    assert project.release()["records"] == n
    assert project.call("verify", "release").code == 0
    if form == "csv":
        return
    released = project.released()
    check_release(table, released, Expected(3, ["x", "y"], ["place"], merged=undersized == "merge"))
    assert len(sizes(released, "place")) == len(VALUES)


def test_awkward_blocking_values_are_merged_into_lists_that_can_be_read(project: Project) -> None:
    rows = [value for i, value in enumerate(VALUES) for _ in range(1 + i % 4)]
    table = keyed(len(rows), place=rows, half=["l" if i % 2 else "r" for i in range(len(rows))])
    project.write(table)
    project.write_spec(roles("half", "place"), acknowledge=UNIQUE)
    project.release()
    released = project.released()
    check_release(table, released, Expected(3, ["x", "y"], ["half", "place"]))
    lists = [parse_label(label) for (label,) in sizes(released, "place")]
    assert any(len(values) > 1 and None in values for values in lists)


def test_a_merged_list_is_not_taken_for_a_value_that_looks_like_it(project: Project) -> None:
    """The value 'a|b' and the list of 'a' and 'b', the value '\\N' and a null: four labels, told apart."""
    counts = {"a": 2, "b": 2, "a|b": 5, "\\N": 5, None: 6}
    table = keyed(20, place=[value for value, count in counts.items() for _ in range(count)])
    project.write(table)
    project.write_spec(roles("place"), acknowledge=UNIQUE, k=4)
    project.release()
    released = project.released()
    check_release(table, released, Expected(4, ["x", "y"], ["place"]))
    assert sizes(released, "place") == {("a|b",): 4, ("a\\|b",): 5, ("\\\\N",): 5, (None,): 6}


def test_each_attribute_is_given_up_only_where_it_must_be(project: Project) -> None:
    """k = 4: towns join within their county, counties within their country, and what is right of them with them."""
    counts = {
        ("A", "1", "p"): 5, ("A", "1", "q"): 2, ("A", "1", "r"): 3, ("A", "2", "p"): 9, ("A", "3", "s"): 1,
        ("A", "4", "t"): 4, ("B", "1", "p"): 2, ("B", "2", "z"): 1, ("C", "9", "p"): 4, ("D", "1", "p"): 1,
    }  # fmt: skip
    keys = [key for key, count in counts.items() for _ in range(count)]
    columns = {name: [key[j] for key in keys] for j, name in enumerate(["country", "county", "town"])}
    table = keyed(len(keys), **columns)
    project.write(table)
    project.write_spec(roles("country", "county", "town"), acknowledge=UNIQUE, k=4)
    project.release()
    released = project.released()
    check_release(table, released, Expected(4, ["x", "y"], ["country", "county", "town"]))
    assert sizes(released, "country", "county", "town") == {
        ("A", "1", "p"): 5,
        ("A", "1", "q|r"): 5,
        ("A", "2", "p"): 9,
        ("A", "3|4", "s|t"): 5,
        ("B|D", "1|2", "p|z"): 4,
        ("C", "9", "p"): 4,
    }


@pytest.mark.parametrize(("undersized", "columns"), [("merge", 1), ("suppress", 2), ("merge", 3)])
def test_keys_below_k(undersized: str, columns: int, project: Project) -> None:
    rng = np.random.default_rng(columns)
    names = ["one", "two", "three"][:columns]
    values = [None, *"abcdefghijk"]
    drawn = {name: [values[i] for i in rng.geometric(0.3, 300).clip(1, 12) - 1] for name in names}
    table = keyed(300, **drawn)
    small = {key for key, count in sizes(table, *names).items() if count < 4}
    assert small
    project.write(table)
    project.write_spec(roles(*names), acknowledge=UNIQUE, k=4, blocks={"undersized": undersized})
    document = project.release()
    withheld, merged = withheld_records(project), undersized == "merge"
    assert document["withheld"] == ("at least k" if withheld else 0)
    check_release(table, project.released(), Expected(4, ["x", "y"], names, merged=merged, suppressed=withheld))
    if not merged:  # and some are withheld with them
        more = set(sizes(table, *names)) - small - set(sizes(project.released(), *names))
        assert withheld == sum(sizes(table, *names)[key] for key in small | more)
        assert len(more) <= max(1, 0.2 * len(small))
    assert project.call("verify", "release").code == 0


def withheld_records(project: Project) -> int:
    """How many records the last release withholds, as its audit has it."""
    (plan,) = (project.work / "audit").rglob("plan.json")
    return int(json.loads(plan.read_text())["withheld"])


def test_exactly_k_records(project: Project) -> None:
    table = keyed(3)
    project.write(table)
    project.write_spec(roles(), acknowledge=UNIQUE)
    document = project.release()
    check_release(table, project.released(), Expected(3, ["x", "y"]))
    assert set(document["losses"]) == {"records", "withheld"}


@pytest.mark.parametrize("undersized", ["merge", "suppress"])
def test_missing_values_are_kept_apart(undersized: str, project: Project) -> None:
    """Each pattern in blocks of its own; those below k are withheld, and merging does not reach across patterns."""
    n = 120
    table = keyed(n, place=["a"] * 60 + ["b"] * 60)
    x, y, place = (table[name].to_pylist() for name in ("x", "y", "place"))
    for i in range(10):
        x[i] = None  # a pattern of 10, all in one place
    for i in range(10, 20):
        y[i] = None if i % 2 else float("nan")
    for i in range(100, 110):
        x[i] = y[i] = None  # all missing
    for i in range(110, 112):
        x[i] = y[i], x[i] = None, None  # two more, all missing, elsewhere
    place[110], place[111] = "c", "d"
    for i in (112, 113, 114):
        x[i] = None
    place[112:115] = ["b", "c", "e"]
    table = pa.table({"tag": range(n), "x": x, "y": y, "place": place})
    patterns = [(i, (x[i] is None, y[i] is None or y[i] != y[i]), place[i]) for i in range(n)]
    counted = Counter((pattern, where) for _, pattern, where in patterns)
    project.write(table)
    blocks = {"undersized": undersized, "totals_known": "file"}
    project.write_spec(roles("place"), acknowledge=UNIQUE, k=4, missing="separate", blocks=blocks)
    project.release()
    # Of those below k three have a y, which is too few of them: the ten without an x are withheld too.
    small = sum(count for count in counted.values() if count < 4) + 10
    assert withheld_records(project) == (small if undersized == "suppress" else 0)
    released = project.released()
    expected = Expected(4, ["x", "y"], ["place"], merged=undersized == "merge", suppressed=withheld_records(project))
    check_release(table, released, expected)


def test_a_pattern_of_missing_values_below_k_is_withheld_even_when_keys_are_merged(project: Project) -> None:
    """And with it the smallest place, as two are fewer than k."""
    table = keyed(60, place=[*["a", "b"] * 28, *"cccc"])
    x = table["x"].to_pylist()
    x[0] = x[1] = None
    table = table.set_column(1, "x", pa.array(x, pa.int64()))
    project.write(table)
    project.write_spec(roles("place"), acknowledge=UNIQUE, missing="separate", blocks={"totals_known": "file"})
    project.release()
    released = project.released()
    check_release(table, released, Expected(3, ["x", "y"], ["place"], suppressed=6))
    assert not {0, 1, *range(56, 60)} & set(released["tag"].to_pylist())


def test_an_attribute_that_nobody_has(project: Project) -> None:
    table = keyed(300, z=pa.nulls(300, pa.date32()))
    project.write(table)
    names = ["x", "y", "z"]
    project.write_spec({"quasi_identifiers": names, "confidential": ["tag"]}, acknowledge=UNIQUE, missing="separate")
    document = project.release()
    check_release(table, project.released(), Expected(3, names))
    assert document["losses"]["attributes"]["z"]["mean"] is None


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_records_that_have_nothing_but_missing_values(form: str, project: Project) -> None:
    """A single column that is all missing: even as CSV, where such a record is an empty line."""
    table = pa.table({"x": pa.array([1, 2, 3, 4, None, None, None], pa.int16())})
    project.write(table)
    project.write_spec({"quasi_identifiers": ["x"]}, missing="separate", output={"url": "release", "format": form})
    assert project.release()["records"] == 7
    assert project.call("verify", "release").code == 0


def test_blocks_above_the_limit_are_split(project: Project) -> None:
    table = keyed(2000, place=["a"] * 1500 + ["b"] * 500)
    project.write(table)
    project.write_spec(roles("place"), acknowledge=UNIQUE, blocks={"max_records": 100})
    plan = project.call("plan", "release.yaml", "--json", "--quiet").document()
    assert plan["split_blocks"] >= 20
    assert plan["largest"][0]["records"] <= 100
    project.release()
    check_release(table, project.released(), Expected(3, ["x", "y"], ["place"]))


def test_identical_records_are_split_too(project: Project) -> None:
    """Nothing but the record number can part them; what is released is the same for all."""
    table = pa.table({"tag": range(500), "x": [7] * 500, "y": [0.1] * 500})
    project.write(table)
    project.write_spec(roles(), acknowledge=UNIQUE, blocks={"max_records": 7})
    plan = project.call("plan", "release.yaml", "--json", "--quiet").document()
    assert plan["largest"][0]["records"] <= 7
    project.release()
    released = project.released()
    check_release(table, released, Expected(3, ["x", "y"]))
    assert set(released["x"].to_pylist()) == {7}
    assert set(released["y"].to_pylist()) == {0.1}


def test_duplicate_records(project: Project) -> None:
    """Without anything that tells them apart, records are still all there, each with its confidential value."""
    table = pa.table({"x": [1, 1, 2] * 40, "place": ["a", "b"] * 60, "code": ["u", "u", "v", "w"] * 30})
    project.write(table)
    project.write_spec({"quasi_identifiers": ["x"], "blocking": ["place"], "confidential": ["code"]}, k=5)
    project.release()
    released = project.released()
    assert sizes(released, "place", "code") == sizes(table, "place", "code")
    assert min(len(rows) for rows in combinations(released, Expected(5, ["x"], ["place"])).values()) >= 5


@pytest.mark.parametrize("ties", [False, True])
def test_blocks_are_cut_by_a_sample_where_they_are_too_large_for_one_worker(
    ties: bool, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans are made in this process, so that the sample can be made small here; the counts must still be exact."""
    monkeypatch.setattr("microagg_core.release.steps.cuts._SAMPLE_ROWS", 150)
    monkeypatch.setattr("microagg_core.release.steps.cuts._ENOUGH", 10**9)
    monkeypatch.setattr("microagg_core.release.steps.sampling._LEAST_ROWS", 150)
    monkeypatch.setattr("microagg_core.release.steps.sampling._MOST_ROWS", 150)
    table = keyed(3000, place=["a"] * 2500 + ["b"] * 500)
    if ties:  # nearly all records alike, so that leaves of the sample come out far too small or too large
        x = [5] * 2900 + list(range(100))
        table = table.set_column(1, "x", pa.array(x)).set_column(2, "y", pa.array([float(v % 3) for v in x]))
    project.write(table.slice(0, 1700), "in/0.parquet")
    project.write(table.slice(1700), "in/1.parquet")
    project.write_spec(
        roles("place"), acknowledge=UNIQUE, k=10, blocks={"max_records": 60}, input={"url": "in/*.parquet"}
    )
    plan = project.call("plan", "release.yaml", "--json", "--quiet").document()
    assert plan["split_blocks"] > 30
    project.release()
    check_release(table, project.released(), Expected(10, ["x", "y"], ["place"]))


def test_a_release_of_many_files(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Combinations of one label are spread over several files; each stays whole within one."""
    monkeypatch.setattr("microagg_core.blocks.packing.FILE_BYTES", 16_384)
    monkeypatch.setattr("microagg_core.blocks.packing._LEAST_BYTES", 4096)
    table = keyed(4000, place=["a"] * 3000 + ["b"] * 600 + ["c"] * 400)
    project.write(table)
    project.write_spec(roles("place"), acknowledge=UNIQUE)
    document = project.release()
    assert document["files"] > 5
    check_release(table, project.released(), Expected(3, ["x", "y"], ["place"]))
    assert project.call("verify", "release").code == 0
