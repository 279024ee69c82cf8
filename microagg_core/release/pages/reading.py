"""Write code that reads a release: for pandas, polars, DuckDB and R, and a view for DuckDB."""

from __future__ import annotations

import json
from collections import Counter

from microagg_core.data.formats.options import CsvOutput
from microagg_core.data.formats.writing import ReaderCode, released_format
from microagg_core.release.manifest import Manifest
from microagg_core.release.pages.document import Snippet
from microagg_core.release.pages.escaping import sql_name, sql_text, visible
from microagg_core.release.pages.words import about, address, column_type, column_words, said_of, summary, title

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
_POLARS = """\
tables = []
for name in files:
    with fsspec.open(name) as file:
        tables.append(READ)
data = pl.concat(tables)
"""
_DUCKDB = """\
import duckdb

{example}release = "."  # the folder that this page lies in, or its URL
db = duckdb.connect()
db.sql(f"SET VARIABLE release = '{{release}}'")
# The types, and the labels of columns as their comments, are in views.sql.
db.execute(db.sql(f"SELECT content FROM read_text('{{release}}/views.sql')").fetchone()[0])
data = db.sql({query})
"""
_R_FILES = """\
{example}release <- "."  # the folder that this page lies in, or its URL
manifest <- jsonlite::fromJSON(paste0(release, "/manifest.json"))
files <- paste0(release, "/", manifest$parts$name)
"""


def reading_snippets(manifest: Manifest) -> tuple[Snippet, ...]:
    url, code = address(manifest), released_format(manifest).reader_code
    example = f"# It is at {url}\n" if url else ""
    pandas = _FILES.format(example=example, imports=code.pandas_imports) + _filled(code.pandas, manifest, "arrow")
    polars = _FILES.format(example=example, imports="import polars as pl\n")
    polars += _filled(code.polars_before + _POLARS.replace("READ", code.polars), manifest, "polars")
    return (
        Snippet("python", "pandas", pandas),
        Snippet("python", "polars", polars),
        Snippet("python", "DuckDB", _duckdb(manifest, example, code)),
        Snippet("r", "R", _R_FILES.format(example=example) + _filled(code.r, manifest, "r")),
    )


def _filled(template: str, manifest: Manifest, attribute: str) -> str:
    """Fill in dialect and types where the format needs them."""
    types = {name: column_type(name) for name in sorted({column.type for column in manifest.columns})}
    if attribute == "r":
        named = ",\n  ".join(f"{json.dumps(visible(name))} = {json.dumps(of.r)}" for name, of in types.items())
    else:
        named = ",\n    ".join(f"{json.dumps(visible(name))}: {getattr(of, attribute)}" for name, of in types.items())
    dialect = manifest.csv or CsvOutput()
    return template.format(
        types=named,
        delimiter=json.dumps(dialect.delimiter),
        null_word=json.dumps(dialect.null_word),
    )


def _duckdb(manifest: Manifest, example: str, code: ReaderCode) -> str:
    if code.duckdb:
        return _FILES.format(example=example, imports=code.duckdb_imports) + _filled(code.duckdb, manifest, "duckdb")
    query = json.dumps(f"SELECT * FROM {sql_name(visible(manifest.name))}", ensure_ascii=False)
    return _DUCKDB.format(example=example, query=query)


_HEAD = """\
-- A view of the release in DuckDB: {title}
--
-- It starts at the folder that the variable names, which may be a URL; else at the current one. In the shell of DuckDB,
--     SET VARIABLE release = '{example}';
--     .read views.sql
-- and https and s3 are read by the extension httpfs, which DuckDB loads by itself.
{more}SET VARIABLE release = coalesce(getvariable('release'), '.');

CREATE OR REPLACE VIEW {view} AS
SELECT * FROM {reader}([getvariable('release') || '/' || file FOR file IN [
{files}
]]{options});

"""


def views_sql(manifest: Manifest) -> bytes:
    view, code = sql_name(visible(manifest.name)), released_format(manifest).reader_code
    head = _HEAD.format(
        title=visible(title(manifest)),
        example=address(manifest) or "s3://bucket/folder",
        more=code.duckdb_setup,
        view=view,
        reader=code.duckdb_function,
        files=",\n".join(f"    {sql_text(part.name)}" for part in manifest.parts),
        options=_csv_options(manifest),
    )
    words = [title(manifest), f"release {manifest.id}, revision {manifest.revision}", summary(manifest)]
    words += [f"licence: {licence}"] if (licence := about(manifest).licence) else []
    comments = [f"COMMENT ON VIEW {view} IS {sql_text(visible('; '.join(words)))};\n"]
    # DuckDB does not tell great letters from small ones: of columns that differ by nothing else none has a comment.
    names = Counter(column.name.lower() for column in manifest.columns)
    for column in manifest.columns:
        if names[column.name.lower()] == 1 and visible(column.name) == column.name:
            said = said_of(manifest, column)
            name = f"{said.label} ({said.unit})" if said.label and said.unit else said.label or said.unit
            comment = sql_text(column_words(manifest, column, name))
            comments.append(f"COMMENT ON COLUMN {view}.{sql_name(column.name)} IS {comment};\n")
    return (head + "".join(comments)).encode()


def _csv_options(manifest: Manifest) -> str:
    if manifest.csv is None:
        return ""
    types = [f"    {sql_name(c.name)}: {sql_text(column_type(c.type).duckdb)}" for c in manifest.columns]
    return (
        f", delim = {sql_text(manifest.csv.delimiter)}, header = true, quote = '\"', escape = '\"', "
        f"nullstr = {sql_text(manifest.csv.null_word)}, allow_quoted_nulls = false, auto_detect = false, columns = {{\n"
        + ",\n".join(types)
        + "\n}"
    )
