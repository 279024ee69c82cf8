"""A new format, read or released, is one file in its folder and no other line: JSON lines stand for any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inputs.added_modules import AddModule
from inputs.people import people
from microagg_core.errors import SpecError
from microagg_core.release.verify import verify
from microagg_core.spec.json_schema import spec_schema
from releasing.runs import run_stages, start, write_release

READ = """
    import io
    import pyarrow.json
    from microagg_core.data.formats.reading import InputFormat, Stretch

    class JsonLines(InputFormat):
        name = "jsonl"
        endings = (".jsonl", ".ndjson")

        def _table(self, file):
            return pyarrow.json.read_json(io.BytesIO(file.read()))

        def layout(self, file, url, source):
            return self._table(file).schema, [((), file.tell())]

        def rows_in(self, file, url, source):
            yield self._table(file).num_rows

        def rows_of(self, file, stretch, source, columns):
            yield from self._table(file).to_batches()

    FORMAT = JsonLines()
"""
RELEASED = """
    import json
    import pyarrow as pa
    import pyarrow.json
    from microagg_core.data.formats.writing import ReaderCode, ReleasedFormat, pandas_frames

    class JsonLinesRelease(ReleasedFormat):
        name = "jsonl"
        title = "JSON lines"
        media_type = "application/jsonl"
        needs_valid_text = True
        reader_code = ReaderCode(
            pandas=pandas_frames("pd.read_json(file, lines=True)"),
            polars="pl.read_ndjson(file)",
            r="data <- do.call(rbind, lapply(files, function(file) jsonlite::stream_in(file(file))))\\n",
            duckdb_function="read_json",
        )

        def to_bytes(self, table, blocking):
            return b"".join(json.dumps(row).encode() + b"\\n" for row in table.to_pylist())

        def from_bytes(self, data, declared):
            options = pyarrow.json.ParseOptions(explicit_schema=declared)
            return pyarrow.json.read_json(pa.BufferReader(data), parse_options=options).select(declared.names)

        def batches(self, path, declared):
            types = {"int64": pa.int64(), "double": pa.float64(), "string": pa.string()}
            schema = pa.schema([(name, types[of]) for name, of in declared.items()])
            return schema, iter([self.from_bytes(path.read_bytes(), schema)])
"""


@pytest.fixture
def json_lines(add_module: AddModule) -> None:
    add_module("microagg_core.data.formats.inputs", "jsonl", READ)
    add_module("microagg_core.data.formats.released", "jsonl", RELEASED)


@pytest.mark.usefixtures("json_lines")
@pytest.mark.parametrize("stated", [{}, {"format": "jsonl"}])
def test_a_release_is_made_from_it_and_in_it(tmp_path: Path, stated: dict[str, str]) -> None:
    rows, output = people(60).to_pylist(), {"url": "output", "format": "jsonl"}
    spec = write_release(tmp_path, [], input={"url": "people.jsonl", **stated}, output=output)
    (tmp_path / "people.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run_stages(start(spec))
    folder = next((tmp_path / "output").glob("*/r0001"))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["format"] == "jsonl" and all(check["passed"] for check in manifest["checks"])
    released = [json.loads(line) for part in manifest["parts"] for line in (folder / part["name"]).open()]
    assert sorted(row["amount"] for row in released) == sorted(row["amount"] for row in rows)
    shown = (folder / "README.md").read_text()
    assert "of JSON lines," in shown and "pl.read_ndjson(file)" in shown
    assert "read_json([getvariable" in (folder / "views.sql").read_text()
    for name in ("datapackage.json", "croissant.json"):
        assert "application/jsonl" in (folder / name).read_text()
    assert all(check.passed for check in verify(str(folder)).checks)


def test_without_its_file_the_format_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"input\.format: must be one of auto, parquet, csv or arrow"):
        start(write_release(tmp_path, [people(9)], input={"url": "people.jsonl", "format": "jsonl"}))


@pytest.mark.usefixtures("json_lines")
def test_the_schema_of_specs_knows_it() -> None:
    schema = spec_schema()["$defs"]
    assert schema["Input"]["properties"]["format"]["enum"] == ["auto", "parquet", "csv", "arrow", "jsonl"]
    assert schema["Output"]["properties"]["format"]["enum"] == ["parquet", "csv", "arrow", "jsonl"]
