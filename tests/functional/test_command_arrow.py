"""Arrow files as input and as release: what they hold comes in and goes out whole, damaged ones are refused."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather
from command_line import AGAIN, Project
from recount import Expected, check_release

CLUSTER = "none"  # releases are made by the process that is called
ROLES = {
    "identifiers": ["who"],
    "quasi_identifiers": ["x", "height", "born"],
    "blocking": ["place"],
    "confidential": ["tag", "note", "code", "paid", "seen", "ok", "nothing"],
}
EXPECTED = Expected(3, ["x", "height", "born"], ["place"], ROLES["confidential"])
ACKNOWLEDGE = {"nearly_unique": ["tag"], "fixes_quasi_identifier": []}


def people(n: int = 240) -> pa.Table:
    """Columns of many types, with missing values where they may be."""
    rng = np.random.default_rng(11)
    every = np.arange(n)
    return pa.table(
        {
            "who": [f"person-{i}" for i in range(n)],
            "x": rng.integers(0, 20, n).astype(np.int16),
            "height": pa.array(np.round(rng.normal(170, 9, n), 1), mask=every % 11 == 0),
            "born": pa.array(rng.integers(0, 20_000, n).astype(np.int32)).cast(pa.date32()),
            "place": pa.array(np.where(every % 3 == 0, "nord", "süd"), mask=every % 40 == 0),
            "tag": every,
            "note": pa.array([None, "", "a\0b", "é"] * (n // 4)),
            "code": pa.array([b"\xff\x00", None, b"", b"abc"] * (n // 4)),
            "paid": pa.array(rng.integers(0, 9, n), mask=every % 5 == 0).cast(pa.decimal128(21, 0)),
            "seen": pa.array(rng.integers(0, 9, n), mask=every % 7 == 0).cast(pa.timestamp("us", "Europe/Berlin")),
            "ok": pa.array(every % 2 == 0, mask=every % 9 == 0),
            "nothing": pa.nulls(n),
        }
    )


def write(path: Path, table: pa.Table, rows: int = 10**6, compression: str | None = None) -> Path:
    path.parent.mkdir(exist_ok=True)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


def released(project: Project) -> pa.Table:
    return pa.concat_tables([pa.ipc.open_file(path.read_bytes()).read_all() for path in project.parts()])


def write_spec(project: Project, url: str, form: str, **others: object) -> None:
    output = {"url": "release", "format": form}
    project.write_spec(ROLES, acknowledge=ACKNOWLEDGE, input={"url": url}, output=output, missing="separate", **others)


def test_arrow_in_and_out(project: Project) -> None:
    table = people()
    write(project.folder / "in" / "0.arrow", table.slice(0, 100), 7)
    write(project.folder / "in" / "1.arrow", table.slice(0, 0))
    write(project.folder / "in" / "2.arrow", table.slice(100).select(table.column_names[::-1]), compression="lz4")
    write_spec(project, "in/*.arrow", "arrow")
    with mock.patch("microagg_core.data.formats.inputs.arrow.PART_BYTES", 4000):
        assert project.release()["records"] == table.num_rows
    assert project.manifest()["format"] == "arrow" and project.manifest()["csv"] is None
    assert {path.suffix for path in project.parts()} == {".arrow"}
    check_release(table, released(project), EXPECTED)
    assert project.call("verify", "release").code == 0


def test_the_release_is_the_same_whatever_the_input_s_format(project: Project) -> None:
    table = people()
    project.write(table)
    write(project.folder / "people.arrow", table, 64, "zstd")
    checksums = []
    for url in ("people.parquet", "people.arrow"):
        write_spec(project, url, "arrow", id=f"id-{len(checksums)}", **AGAIN)
        project.release()
        checksums.append(project.data_checksums())
    assert checksums[0] == checksums[1]


def test_a_frame_s_feather_file_with_encodings_that_only_arrow_has(project: Project) -> None:
    n = 60
    frame = pd.DataFrame({"tag": range(n), "place": pd.Categorical(["a", "b"] * 30)})
    plain = pa.Table.from_pandas(frame, preserve_index=False)
    x = pa.chunked_array([[i // 6 for i in range(n)]])
    note = pa.array(["short", "a text that is longer than twelve bytes"] * 30)
    table = plain.append_column("x", pc.run_end_encode(x)).append_column("note", note.cast(pa.string_view()))
    pa.feather.write_feather(table, project.folder / "people.feather", compression="uncompressed", chunksize=25)
    roles = {"quasi_identifiers": ["x"], "blocking": ["place"], "confidential": ["tag", "note"]}
    meant = {"nearly_unique": ["tag"], "fixes_quasi_identifier": ["tag"]}
    project.write_spec(roles, acknowledge=meant, input={"url": "people.feather"})
    project.release()
    expected = plain.append_column("x", x).append_column("note", note)
    check_release(expected, project.released(), Expected(3, ["x"], ["place"], ["tag", "note"]))


def test_text_that_is_none_is_refused_before_it_is_written(project: Project) -> None:
    broken = pa.Array.from_buffers(pa.string(), 30, pa.array([b"\xff"] * 30).buffers())
    project.write(pa.table({"x": [i % 5 for i in range(30)], "note": broken}))
    roles = {"quasi_identifiers": ["x"], "confidential": ["note"]}
    project.write_spec(roles, output={"url": "release", "format": "arrow"})
    ended = project.call("run", "release.yaml", "--direct", "--quiet")
    ended.assert_refused(3, "column 'note' holds text that is not UTF-8")
    project.assert_nothing_published()


def test_a_file_that_is_cut_short(project: Project) -> None:
    path = write(project.folder / "people.arrow", people())
    whole = path.read_bytes()
    write_spec(project, "people.arrow", "parquet")
    for left in (5, -20):
        path.write_bytes(whole[:left])
        ended = project.call("run", "release.yaml", "--direct", "--quiet")
        ended.assert_refused(3, "people.arrow is not a readable Arrow file (truncated, or of another format)")


def test_buffers_that_are_not_what_the_types_say(project: Project) -> None:
    """To compute with them would end the process, or show what lies beside them in memory."""
    table = pa.table({"x": [i % 5 for i in range(30)], "note": ["abc"] * 30})
    path = write(project.folder / "people.arrow", table)
    offsets = np.arange(3, 90, 3, dtype=np.int32)
    data = path.read_bytes()
    assert data.count(offsets.tobytes()) == 1
    path.write_bytes(data.replace(offsets.tobytes(), (offsets + 2**24).tobytes()))
    roles = {"quasi_identifiers": ["x"], "confidential": ["note"]}
    project.write_spec(roles, input={"url": "people.arrow"})
    ended = project.call("run", "release.yaml", "--direct", "--quiet")
    ended.assert_refused(3, "record batches 0 to 0 of", "the file is damaged or changed meanwhile")
