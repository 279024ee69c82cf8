"""Hierarchies in a spec: nested YAML and CSV files, what is refused of them, and that they travel with the spec."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from microagg_core.data.hierarchies import Hierarchy
from microagg_core.data.kinds.registry import kind_of
from microagg_core.errors import SpecError
from microagg_core.spec.loading import canonical, load_spec
from microagg_core.spec.release import ReleaseSpec

SPEC = """name: a
k: 3
input: {url: in.csv}
output: {url: out}
work: {url: work}
roles:
  quasi_identifiers: [job, {name: size, kind: ordinal, levels: [low, high]}]
  blocking: [region]
"""
REGIONS = "code,parent,label\nAyr,n,\nBern,s,Berne\n010,s,\nn,,North\n"


def loaded(folder: Path, text: str, regions: str | bytes = REGIONS) -> ReleaseSpec:
    (folder / "regions.csv").write_bytes(regions if isinstance(regions, bytes) else regions.encode())
    (folder / "release.yaml").write_text(SPEC + text)
    return load_spec(str(folder / "release.yaml"))


def test_files_and_nested_values_are_the_same_hierarchies_and_codes_are_text(tmp_path: Path) -> None:
    nested = (
        "hierarchies:\n  job:\n    Manual: [Craft, {Land: [010, 1.50]}]\n    Office:\n      Desk: [yes]\n    None:\n"
    )
    jobs = loaded(tmp_path, nested).hierarchies["job"]
    assert jobs.leaves == ("010", "1.50", "Craft", "None", "yes")
    assert [jobs.least_common(v) for v in (["010", "1.50"], ["010", "Craft"], ["010", "yes"], ["yes", None])] == [
        "Land", "Manual", "*", "*"
    ]  # fmt: skip
    spec = loaded(tmp_path, "hierarchies: {region: regions.csv}\n")
    regions = spec.hierarchies["region"]
    assert regions == Hierarchy.of([("Ayr", "n", ""), ("Bern", "s", "Berne"), ("010", "s", ""), ("n", "", "North")])
    assert (regions.name("n"), regions.name("s"), regions.leaves) == ("North", "s", ("010", "Ayr", "Bern"))
    assert loaded(tmp_path, "hierarchies: {region: {s: [010, Bern], n: [Ayr]}}\n").hierarchies["region"].leaves == (
        regions.leaves
    )
    (tmp_path / "regions.csv").unlink()
    assert ReleaseSpec.model_validate(spec.model_dump(mode="json")) == spec, "whoever gets the spec has them"
    assert "hierarchies" not in canonical(loaded(tmp_path, "")), "a spec without one is what it was"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "  job:\n    Manual: [a, b]\n    Office:\n      - c\n      - a",
            "14: hierarchies.job.Office[1]: is there twice",
        ),
        ("  job:\n    Manual: {Land: [a, {Manual: [b]}]}", "11: hierarchies.job.Manual.Land[1].Manual: is there twice"),
        ("  job:\n    Manual: 5", "11: hierarchies.job.Manual: must be a list of values, or a mapping"),
        ("  job: [a, '']", "10: hierarchies.job[1]: is empty"),
        ("  job: [a]", "10: hierarchies.job: has fewer than two values below it"),
        ("  job: {x: {'*': [a, b]}}", "10: hierarchies.job.x.*: is what all others are below"),
        ("  job: 5", "10: hierarchies.job: must be a CSV file with the columns code, parent and"),
        ("  job: none.csv", "10: hierarchies.job: none.csv: cannot be read (No such file or directory)"),
        ("  size: [low, high]", "10: hierarchies.size: is for nominal columns, and this is ordinal"),
        ("  age: [low, high]", "10: hierarchies.age: is neither a quasi-identifier nor a blocking column"),
        (
            "  region: [a, b]\nblocks: {undersized: suppress}",
            "10: hierarchies.region: is of a blocking column, and with",
        ),
    ],
)
def test_what_is_no_tree_is_told_with_its_line(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refused:
        loaded(tmp_path, f"hierarchies:\n{text}\n")
    assert f"release.yaml:{why}" in str(refused.value)


def test_leaves_of_whole_numbers_are_written_as_these_are() -> None:
    for codes in (["1", "x"], ["1", "010"], ["1", "300"]):
        hierarchy = Hierarchy.of((code, "", "") for code in codes)
        with pytest.raises(SpecError, match="a leaf of 'roof' is no int8, as the column's values are"):
            kind_of("roof", pa.int8(), kind="nominal", hierarchy=hierarchy)


@pytest.mark.parametrize(
    ("regions", "why"),
    [
        ("code;parent\nCANARY;n\n", "the first line must be code,parent or code,parent,label"),
        ("code,parent\nCANARY,n\nB,n,m\n", "line 3 must have 2 fields"),
        ("code,parent\nCANARY,n\nB,n\n\nCANARY,s\n", "line 5: the code is there twice; give it one parent"),
        ("code,parent\nCANARY,B\nB,C\nC,CANARY\nD,\nE,\n", "line 2: the code is above itself"),
        ("code,parent,label\nCANARY,B,\nD,B,\nB,,CANARY\n", "line 4: the code is released as another code is"),
        ("code,parent\n" + "".join(f"{i},{i + 1}\n" for i in range(40)), "lies more than 30 levels deep"),
        (b"code,parent\nCANARY\xff,n\n", "is not UTF-8 text"),
        ('code,parent\n"CANARY"x,n\n', "line 2 is no CSV"),
    ],
)
def test_files_that_are_no_tree_are_told_without_their_values(regions: str | bytes, why: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refused:
        loaded(tmp_path, "hierarchies: {region: regions.csv}\n", regions)
    assert "release.yaml:9: hierarchies.region: regions.csv: " in str(refused.value) and why in str(refused.value)
    assert "CANARY" not in str(refused.value)
