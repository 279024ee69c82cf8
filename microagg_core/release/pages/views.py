"""``views.sql``: the release as a view of DuckDB, with what is said of its columns as their comments."""

from __future__ import annotations

from microagg_core.release.manifest import ColumnEntry, Manifest
from microagg_core.release.pages.column_types import column_type
from microagg_core.release.pages.escaping import sql_name, sql_text, visible
from microagg_core.release.pages.release_words import about, address, role_words, said_of, summary, title

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
_READERS = {"parquet": "read_parquet", "csv": "read_csv", "arrow": "read_arrow"}
_ARROW = """\
-- Arrow files are read by an extension of DuckDB's community.
INSTALL nanoarrow FROM community;
LOAD nanoarrow;
"""


def views_sql(manifest: Manifest) -> bytes:
    """The file."""
    view = sql_name(visible(manifest.name))
    head = _HEAD.format(
        title=visible(title(manifest)),
        example=address(manifest) or "s3://bucket/folder",
        more=_ARROW if manifest.format == "arrow" else "",
        view=view,
        reader=_READERS[manifest.format],
        files=",\n".join(f"    {sql_text(part.name)}" for part in manifest.parts),
        options=_csv_options(manifest),
    )
    comments = [f"COMMENT ON VIEW {view} IS {sql_text(_of_release(manifest))};\n"]
    for column in _told_apart(manifest.columns):
        comment = sql_text(_of_column(manifest, column))
        comments.append(f"COMMENT ON COLUMN {view}.{sql_name(column.name)} IS {comment};\n")
    return (head + "".join(comments)).encode()


def _told_apart(columns: tuple[ColumnEntry, ...]) -> list[ColumnEntry]:
    """The columns that DuckDB calls by their own names: it does not tell great letters from small ones."""
    names = [column.name.lower() for column in columns]
    seen = [visible(column.name) == column.name for column in columns]
    return [
        column for column, name, is_seen in zip(columns, names, seen, strict=True) if names.count(name) == 1 and is_seen
    ]


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


def _of_release(manifest: Manifest) -> str:
    said = about(manifest)
    words = [title(manifest), f"release {manifest.id}, revision {manifest.revision}", summary(manifest)]
    words += [f"licence: {said.licence}"] if said.licence else []
    return visible("; ".join(words))


def _of_column(manifest: Manifest, column: ColumnEntry) -> str:
    said = said_of(manifest, column)
    name = said.label or ""
    if said.unit:
        name = f"{name} ({said.unit})" if name else said.unit
    words = [name, said.description or "", role_words(manifest, column)]
    return visible("; ".join(" ".join(word.split()) for word in words if word))
