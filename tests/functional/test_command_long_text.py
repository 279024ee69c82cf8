"""Texts that take a few bytes of a file and as much memory as they have rows: refused, or cut into more pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from command_line import Project

CLUSTER = "none"  # releases are made by the process that is called
ROLES = {"quasi_identifiers": ["x", "y"], "confidential": ["note"]}
MEANT = {"acknowledge": {"nearly_unique": ["note"], "free_text": ["note"]}}
MOST = 64 * 1024


def people(notes: Any) -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table({"x": rng.normal(size=len(notes)), "y": rng.normal(size=len(notes)), "note": notes})


def write(project: Project, table: pa.Table, form: str) -> dict[str, Any]:
    """Write an input file; returns what its spec says of it."""
    if form == "csv":
        pa.csv.write_csv(table, project.folder / "people.csv")
        return {"url": "people.csv", "csv": {"types": {"x": "float64", "y": "float64"}}}
    if form == "arrow":
        pa.feather.write_feather(table, project.folder / "people.arrow")
        return {"url": "people.arrow"}
    project.write(table)
    return {"url": "people.parquet"}


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("parquet", pa.string()),
        ("parquet", pa.dictionary(pa.int32(), pa.string())),
        ("parquet", pa.large_binary()),
        ("arrow", pa.dictionary(pa.int32(), pa.string())),
        ("csv", pa.string()),
    ],
)
def test_a_value_that_is_too_long_is_refused_and_a_shorter_one_released(
    project: Project, form: str, kind: pa.DataType
) -> None:
    fits, longer = "canary" * (MOST // 6) + "cana", "canary" * (MOST // 6) + "canar"
    for notes, code in ((["short"] * 29 + [longer], 3), (["short"] * 29 + [fits], 0)):
        table = people(pa.array(notes))
        source = write(project, table.set_column(2, "note", table["note"].cast(kind)), form)
        output = {"url": "release", "format": "csv" if form == "csv" else "parquet"}
        project.write_spec(ROLES, input=source, output=output, work={"url": f"work-{code}"}, **MEANT)
        ended = project.call("run", "release.yaml", "--direct")
        assert ended.code == code, ended.err
        if code:
            ended.assert_refused(3, "column 'note' has a value longer than 64 KiB", "give the column the role drop")
            assert "canary" not in ended.err and not project.output.exists()
            project.write_spec({**ROLES, "confidential": [], "drop": ["note"]}, input=source)
            assert project.call("plan", "release.yaml").code == 0
        else:
            assert project.call("verify", "release").code == 0
            assert form != "csv" or fits in project.parts()[0].read_text()


def test_files_of_long_texts_hold_fewer_rows(project: Project) -> None:
    """120,000 records of one text of 1 kB: 120 MB of text were one file, which its task held several times."""
    n, text = 120_000, "z" * 1000
    town = np.arange(n) % 60
    table = people(pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), [text]).cast(pa.string()))
    project.write(table.append_column("town", pa.array(town)))
    project.write_spec({**ROLES, "blocking": ["town"]}, refine="off", **MEANT)
    project.release()
    files = [pq.read_table(path) for path in sorted(project.output.rglob("*.parquet"))]
    assert max(file["note"].combine_chunks().nbytes for file in files) <= 64 * 2**20
    released = pa.concat_tables(files)
    assert pc.unique(released["note"]).to_pylist() == [text]
    assert np.bincount(released["town"].cast(pa.int64()).to_numpy()).tolist() == np.bincount(town).tolist()
