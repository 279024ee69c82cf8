"""The code on a release's pages, run as it stands there: from the release's folder, over the web, and from a bucket."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
import importlib.util
import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from microagg_core.release.manifest import Manifest
from microagg_core.release.pages.document import Snippet
from microagg_core.release.pages.pages import contents
from microagg_core.release.revisions import part_batches
from microagg_core.store.objects import Store
from releasing.described import beside, described_release
from releasing.parts import publish_tables
from servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

FORMATS = ["parquet", "csv", "arrow"]
_DAY, _MOMENT = datetime.date(1999, 2, 3), datetime.datetime(1999, 2, 3, 4, 5, 6)
#: Every type that a manifest may name, with missing values, and texts that are easily taken for others.
TYPES = pa.table(
    {
        "age": pa.array([30.5] * 3 + [41.0] * 4),
        "town": ["a"] * 3 + ["b"] * 4,
        "text": pa.array(['q"x\ny', "é; ,", None, "1", "true", "a", "2000-01-01"]),
        "large": pa.array(["a", None] + ["b"] * 5, pa.large_string()),
        **{
            str(kind): pa.array([1, None, 0, 1, 0, 1, 100], kind)
            for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64())
        },
        "float": pa.array([0.5, None, -1e30] + [2.0] * 4, pa.float32()),
        "truth": pa.array([True, None, False] + [True] * 4),
        "price": pa.array([decimal.Decimal("1.25"), None] + [decimal.Decimal("-0.10")] * 5, pa.decimal128(12, 2)),
        "day": pa.array([_DAY, None] + [_DAY] * 5),
        "seconds": pa.array([_MOMENT, None] + [_MOMENT] * 5, pa.timestamp("ms")),
        "moment": pa.array([_MOMENT, None] + [_MOMENT] * 5, pa.timestamp("us")),
        "nanos": pa.array([_MOMENT, None] + [_MOMENT] * 5, pa.timestamp("ns")),
        "zoned": pa.array([_MOMENT, None] + [_MOMENT] * 5, pa.timestamp("us", "UTC")),
        "time": pa.array([datetime.time(4, 5, 6), None] + [datetime.time(0)] * 5, pa.time64("us")),
    }
)
#: What ``data`` becomes: rows of plain values.
PLAIN = {
    "pandas": "rows = [tuple(None if x is pd.NA else x for x in row) for row in data.itertuples(index=False)]",
    "polars": "rows = data.rows()",
    "DuckDB": "rows = data.fetchall()",
}


@pytest.fixture(scope="module", params=FORMATS)
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return described_release(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module", params=FORMATS)
def all_types(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    table = TYPES.drop_columns(["seconds"]) if request.param == "arrow" else TYPES
    publish_tables(Store(str(folder / "out")), Store(str(folder / "work")), [table, table], form=request.param)
    (path,) = (folder / "out").rglob("manifest.json")
    beside(path)
    return path.parent


@pytest.fixture
def web(release: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(release))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def list_directory(self, path: Any) -> None:
        self.send_error(403)


def manifest_in(folder: Path) -> Manifest:
    return Manifest.from_bytes((folder / "manifest.json").read_bytes(), "here")


def snippet(folder: Path, tool: str) -> str:
    found = [
        block.code
        for section in contents(manifest_in(folder)).sections
        for block in section.blocks
        if isinstance(block, Snippet) and block.title == tool
    ]
    assert found and found[0] in (folder / "README.md").read_text("utf-8")
    return found[0]


def truth(folder: Path) -> pa.Table:
    manifest = manifest_in(folder)
    tables = [table for part in manifest.parts for table in part_batches(folder / part.name, manifest)[1]]
    return pa.concat_tables(tables)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [_plain(row.values()) for row in table.to_pylist()]


def _plain(row: Any) -> tuple[Any, ...]:
    """Zones are the same moment, whichever a tool shows."""
    return tuple(x.astimezone(datetime.UTC).replace(tzinfo=None) if getattr(x, "tzinfo", None) else x for x in row)


def assert_read(folder: Path, place: Path, change: Callable[[str, str], str] = lambda code, _: code) -> None:
    """Run the code of every tool that is here at a place, and compare what it reads with the files."""
    expected = rows_of(truth(folder))
    for tool, to_rows in PLAIN.items():
        if importlib.util.find_spec(tool.lower()) is None:
            continue
        names: dict[str, Any] = {}
        with contextlib.chdir(place):
            exec(f"{change(snippet(folder, tool), tool)}{to_rows}", names)
        assert [_plain(row) for row in names["rows"]] == expected, tool


def test_every_type_comes_back_as_it_was_released(all_types: Path) -> None:
    assert_read(all_types, all_types)


def test_a_release_is_read_from_a_url(release: Path, web: str) -> None:
    def from_web(code: str, tool: str) -> str:
        if tool == "DuckDB" and manifest_in(release).format != "arrow":
            code = code.replace("connect()\n", f"connect()\ndb.execute(\"LOAD '{httpfs()}'\")\n")
        assert 'release = "."' in code
        return code.replace('release = "."', f"release = {web!r}")

    assert_read(release, release.parent, from_web)


def r_works(*packages: str) -> None:
    if (rscript := shutil.which("Rscript")) is None:
        pytest.skip("Rscript is not here")
    for package in packages:
        if subprocess.run([rscript, "-e", f"library({package})"], capture_output=True, timeout=100).returncode:
            pytest.skip(f"R's package {package} is not here")


def test_r_reads_a_release(all_types: Path) -> None:
    is_csv = manifest_in(all_types).format == "csv"
    r_works("jsonlite", *([] if is_csv else ["arrow"]))
    code = f"{snippet(all_types, 'R')}cat(jsonlite::toJSON(data, dataframe = 'columns', na = 'null', digits = NA))\n"
    run = subprocess.run(["Rscript", "-e", code], cwd=all_types, capture_output=True, timeout=200)
    assert run.returncode == 0, run.stderr.decode()
    found, expected = json.loads(run.stdout), truth(all_types)
    assert list(found) == expected.column_names
    for name in ("age", "town", "int64", "truth", "float", "price"):
        assert found[name] == [None if x is None else pytest.approx(float(x)) if not isinstance(x, str | bool) else x
                               for x in expected[name].to_pylist()], name  # fmt: skip
    assert found["day"][:2] == ["1999-02-03", None] and found["text"][0] == 'q"x\ny'


def test_the_digests_are_checked_without_microagg(release: Path, tmp_path: Path) -> None:
    code = snippet(release, "without microagg")
    run = subprocess.run(["sh", "-c", code], cwd=release, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0 and run.stdout.count(": OK\n") == 2
    copy = shutil.copytree(release, tmp_path / "copy")
    part = next((copy / "data").iterdir())
    part.write_bytes(part.read_bytes() + b"x")
    again = subprocess.run(["sh", "-c", code], cwd=copy, capture_output=True, text=True, timeout=100)
    assert ": FAILED\n" in again.stdout


# --- The view --------------------------------------------------------------------------------------------------


def httpfs() -> Path:
    """DuckDB's extension for the web and for buckets, which it would fetch by itself where there is a network."""
    spec = importlib.util.find_spec("duckdb_extension_httpfs")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package duckdb-extension-httpfs is not here")
    (library,) = Path(spec.submodule_search_locations[0]).rglob("httpfs.duckdb_extension")
    return library


def database() -> Any:
    return pytest.importorskip("duckdb", reason="reads views.sql").connect()


def opened(folder: Path, root: str, db: Any) -> Any:
    if manifest_in(folder).format == "arrow":
        pytest.skip("DuckDB reads Arrow files by an extension that no registry of packages has")
    db.execute("SET TimeZone = 'UTC'")
    db.execute(f"SET VARIABLE release = '{root}'")
    db.execute((folder / "views.sql").read_text("utf-8"))
    return db


def test_the_view_has_every_record_and_every_label(release: Path) -> None:
    db = opened(release, str(release), database())
    assert [_plain(row) for row in db.sql("FROM test").fetchall()] == rows_of(truth(release))
    comments = dict(db.sql("SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'test'").fetchall())
    assert comments["x"] == "Distance to the sea (km); mean of its group"
    assert comments["note"] == "A note; of two digits; as it came"


@pytest.mark.server
def test_the_view_reads_a_bucket(release: Path, s3_server: S3Server) -> None:
    """By DuckDB's own extension, as a package of the registry brings it."""
    db = database()
    db.execute(f"LOAD '{httpfs()}'")
    bucket = s3_server.new_bucket().url
    name, client = bucket.removeprefix("s3://"), s3_server.client()
    for path in release.rglob("*.*"):
        client.put_object(Bucket=name, Key=f"r/{path.relative_to(release)}", Body=path.read_bytes())
    db.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{ACCESS_KEY}', SECRET '{SECRET_KEY}', URL_STYLE 'path', USE_SSL false, "
        f"ENDPOINT '{s3_server.endpoint.removeprefix('http://')}')"
    )
    assert opened(release, f"{bucket}/r", db).sql("SELECT count(*) FROM test").fetchone() == (truth(release).num_rows,)
