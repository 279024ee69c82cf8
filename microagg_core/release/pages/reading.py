"""Code that reads a release: for pandas, polars, DuckDB and R, from its folder or from a URL."""

from __future__ import annotations

import json

from microagg_core.release.manifest import Manifest
from microagg_core.release.pages.column_types import distinct_types
from microagg_core.release.pages.document import Snippet
from microagg_core.release.pages.escaping import sql_name, visible
from microagg_core.release.pages.release_words import address

#: The files are named by the manifest: no web server lists what is in a folder.
_FILES = """\
import json

import fsspec
{imports}
{example}release = "."  # the folder that this page lies in, or its URL
with fsspec.open(f"{{release}}/manifest.json") as file:
    manifest = json.load(file)
files = [f"{{release}}/{{part['name']}}" for part in manifest["parts"]]
"""
_PANDAS_IMPORTS = "import pandas as pd\nimport pyarrow as pa\nfrom pyarrow import csv\n"
_PANDAS = {
    "parquet": """\
parts = [pd.read_parquet(file, dtype_backend="pyarrow") for file in files]
data = pd.concat(parts, ignore_index=True)
""",
    "arrow": """\
parts = [pd.read_feather(file, dtype_backend="pyarrow") for file in files]
data = pd.concat(parts, ignore_index=True)
""",
    "csv": """\
# The manifest knows the types; and a missing value is no empty text.
types = {{
    {types}
}}
options = {{
    "parse_options": csv.ParseOptions(
        delimiter={delimiter}, newlines_in_values=True, ignore_empty_lines=False
    ),
    "convert_options": csv.ConvertOptions(
        column_types={{c["name"]: types[c["type"]] for c in manifest["columns"]}},
        null_values=[{null_word}],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    ),
}}
tables = []
for name in files:
    with fsspec.open(name) as file:
        tables.append(csv.read_csv(file, **options))
data = pa.concat_tables(tables).to_pandas(types_mapper=pd.ArrowDtype)
""",
}
_POLARS_LOOP = """\
tables = []
for name in files:
    with fsspec.open(name) as file:
        tables.append({read})
data = pl.concat(tables)
"""
_POLARS = {
    "parquet": _POLARS_LOOP.format(read="pl.read_parquet(file)"),
    "arrow": _POLARS_LOOP.format(read="pl.read_ipc(file)"),
    "csv": """\
types = {{
    {types}
}}
# polars takes a quoted {null_word} for a missing value as well.
options = {{
    "schema": {{c["name"]: types[c["type"]] for c in manifest["columns"]}},
    "separator": {delimiter},
    "null_values": [{null_word}],
}}
"""
    + _POLARS_LOOP.format(read="pl.read_csv(file, **options)"),
}
_DUCKDB = """\
import duckdb

{example}release = "."  # the folder that this page lies in, or its URL
db = duckdb.connect()
db.sql(f"SET VARIABLE release = '{{release}}'")
# The types, and the labels of columns as their comments, are in views.sql.
db.execute(db.sql(f"SELECT content FROM read_text('{{release}}/views.sql')").fetchone()[0])
data = db.sql({query})
"""
_DUCKDB_ARROW = """\
# views.sql has a view of these files as well, which needs DuckDB's extension nanoarrow.
tables = []
for name in files:
    with fsspec.open(name) as file:
        tables.append(feather.read_table(file))
data = duckdb.from_arrow(pa.concat_tables(tables))
"""
_ARROW_IMPORTS = "import duckdb\nimport pyarrow as pa\nfrom pyarrow import feather\n"
_R_FILES = """\
{example}release <- "."  # the folder that this page lies in, or its URL
manifest <- jsonlite::fromJSON(paste0(release, "/manifest.json"))
files <- paste0(release, "/", manifest$parts$name)
"""
_R = {
    "parquet": "data <- do.call(rbind, lapply(files, arrow::read_parquet))\n",
    "arrow": "data <- do.call(rbind, lapply(files, arrow::read_feather))\n",
    "csv": """\
types <- c(
  {types}
)
# R takes a quoted {null_word} for a missing value as well.
read <- function(file) {{
  read.csv(
    file, sep = {delimiter}, na.strings = {null_word},
    colClasses = unname(types[manifest$columns$type]),
    check.names = FALSE, encoding = "UTF-8", blank.lines.skip = FALSE
  )
}}
data <- do.call(rbind, lapply(files, read))
""",
}


def reading_snippets(manifest: Manifest) -> tuple[Snippet, ...]:
    """One for each tool; each ends with ``data``, the whole release."""
    url = address(manifest)
    example = f"# It is at {url}\n" if url else ""
    pandas = _PANDAS_IMPORTS if manifest.format == "csv" else "import pandas as pd\n"
    return (
        Snippet("python", "pandas", _with_files(example, pandas) + _filled(_PANDAS, manifest, "arrow")),
        Snippet(
            "python", "polars", _with_files(example, "import polars as pl\n") + _filled(_POLARS, manifest, "polars")
        ),
        Snippet("python", "DuckDB", _duckdb(manifest, example)),
        Snippet("r", "R", _R_FILES.format(example=example) + _filled(_R, manifest, "r")),
    )


def _with_files(example: str, imports: str) -> str:
    return _FILES.format(example=example, imports=imports)


def _filled(templates: dict[str, str], manifest: Manifest, attribute: str) -> str:
    """The lines that read, with dialect and types where the format needs them."""
    if manifest.csv is None:
        return templates[manifest.format]
    types = distinct_types([column.type for column in manifest.columns])
    sign = " = " if attribute == "r" else ": "
    said = [
        f"{json.dumps(visible(name))}{sign}{json.dumps(of.r) if attribute == 'r' else getattr(of, attribute)}"
        for name, of in types.items()
    ]
    return templates["csv"].format(
        types=(",\n  " if attribute == "r" else ",\n    ").join(said),
        delimiter=json.dumps(manifest.csv.delimiter),
        null_word=json.dumps(manifest.csv.null_word),
    )


def _duckdb(manifest: Manifest, example: str) -> str:
    if manifest.format == "arrow":
        return _with_files(example, _ARROW_IMPORTS) + _DUCKDB_ARROW
    query = json.dumps(f"SELECT * FROM {sql_name(visible(manifest.name))}", ensure_ascii=False)
    return _DUCKDB.format(example=example, query=query)
