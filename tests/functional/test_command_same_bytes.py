"""The same rows, spec and seed give the same bytes, however the input is laid out and whoever does the work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from command_line import Project

from covering import share

ROLES = {"quasi_identifiers": ["x", "y", "z"], "blocking": ["place"], "confidential": ["code"]}


def grid(n: int) -> pa.Table:
    """Records on a grid, so that many distances are equal and the least difference of scale would part the ties."""
    rng = np.random.default_rng(11)
    return pa.table(
        {
            "x": rng.integers(0, 25, n),
            "y": rng.integers(0, 25, n) * 0.1,
            "z": pa.array(rng.integers(0, 30, n) * 365, pa.int32()).cast(pa.date32()),
            "place": [f"p{v}" for v in rng.integers(0, 4, n)],
            "code": [f"{v:02d}" for v in rng.integers(0, 20, n)],
        }
    )


def released(project: Project, table: pa.Table, spec: dict[str, Any], **options: Any) -> tuple[list[str], str]:
    project.folder.mkdir()
    project.write(table, **options)
    project.write_spec(**{"roles": ROLES, **spec})
    survey = project.release()["stages"][0]
    return project.data_checksums(), survey["says"]


def checksums(project: Project, table: pa.Table, spec: dict[str, Any], **options: Any) -> list[str]:
    return released(project, table, spec, **options)[0]


@pytest.mark.parametrize("algorithm", share(["mdav", "mdav_plus", {"name": "v_mdav", "gamma": 0.4}], 1))
def test_row_groups_and_encodings_of_the_input_change_nothing(algorithm: Any, project: Project) -> None:
    table, spec = grid(4000), {"algorithm": algorithm, "blocks": {"max_records": 300}}
    layouts: list[dict[str, Any]] = [
        {},
        {"row_group_size": 997},
        {"row_group_size": 31, "compression": "none"},
        {"data_page_version": "2.0", "use_dictionary": False, "row_group_size": 3999},
    ]
    found = [
        checksums(Project(project.folder / str(i), project.cluster), table, spec, **layout)
        for i, layout in enumerate(layouts)
    ]
    assert found == [found[0]] * len(layouts)


@pytest.mark.soak("reads a file of 240 MB three times")
def test_a_file_that_is_read_as_one_part_or_as_several(project: Project) -> None:
    """Row groups of a large file are read by several workers; how many says how moments are merged, not what comes."""
    table = grid(60_000)
    # A column that is not read, but makes the file large.
    wide = table.append_column("picture", pa.array(["\0" * 4000] * table.num_rows))
    spec = {"roles": {**ROLES, "drop": ["picture"]}, "blocks": {"max_records": 500}}
    layouts: list[dict[str, Any]] = [{}, {"row_group_size": 5000}, {"row_group_size": 1700}]
    found = [
        released(Project(project.folder / str(i), project.cluster), wide, spec, use_dictionary=False, **layout)
        for i, layout in enumerate(layouts)
    ]
    assert len({survey for _, survey in found}) == 2
    assert [made for made, _ in found] == [found[0][0]] * len(layouts)


def test_the_seed_and_the_spec_change_what_they_should(project: Project) -> None:
    table = grid(500)
    same = checksums(Project(project.folder / "one", project.cluster), table, {"seed": 1})
    again = checksums(Project(project.folder / "two", project.cluster), table, {"seed": 1, "id": "b", "name": "b"})
    other = checksums(Project(project.folder / "three", project.cluster), table, {"seed": 1, "k": 4})
    assert same == again != other
