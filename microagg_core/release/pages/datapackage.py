"""``datapackage.json``: the release as a Data Package (version 2 of the standard, https://datapackage.org)."""

from __future__ import annotations

import re
from typing import Any

from microagg_core.release.manifest import ColumnEntry, Manifest
from microagg_core.release.pages.column_types import column_type
from microagg_core.release.pages.escaping import json_bytes
from microagg_core.release.pages.method import rounding_words
from microagg_core.release.pages.release_words import about, address, said_of, summary, title
from microagg_core.spec.about import licence_url

_PROFILES = "https://datapackage.org/profiles/2.0"
_MEDIA_TYPES = {
    "parquet": "application/vnd.apache.parquet",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.file",
}


def data_package(manifest: Manifest) -> bytes:
    """The file."""
    said = about(manifest)
    package: dict[str, Any] = {
        "$schema": f"{_PROFILES}/datapackage.json",
        "name": _plain_name(manifest.name),
        "id": f"{manifest.name}/{manifest.id}/{manifest.revision}",
        "title": title(manifest),
        "description": said.description or summary(manifest),
        "homepage": url if (url := address(manifest)) and url.startswith("http") else None,
        "version": f"{manifest.id}/{manifest.revision}",
        "created": manifest.created.replace("+00:00", "Z"),
        "keywords": list(said.keywords) or None,
        "contributors": [{"title": said.publisher, "roles": ["publisher"]}] if said.publisher else None,
        "licenses": [_licence(said.licence)] if said.licence else None,
        "resources": [_resource(manifest)],
    }
    return json_bytes({name: value for name, value in package.items() if value is not None})


def _plain_name(text: str) -> str:
    """A name as the standard wants it.

    >>> _plain_name("EU-SILC, 2024")
    'eu-silc-2024'
    """
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-") or "release"


def _licence(licence: str) -> dict[str, str]:
    url = licence_url(licence)
    return {"path": url} if url == licence else {"name": licence, "path": url}


def _resource(manifest: Manifest) -> dict[str, Any]:
    paths = [part.name for part in manifest.parts]
    resource: dict[str, Any] = {
        "$schema": f"{_PROFILES}/dataresource.json",
        "name": _plain_name(manifest.name),
        "type": "table",
        "path": paths[0] if len(paths) == 1 else paths,
        "format": manifest.format,
        "mediatype": _MEDIA_TYPES[manifest.format],
    }
    if len(paths) == 1:
        # Of several files the whole is what each reader makes of them; the manifest has all of theirs.
        resource |= {"bytes": manifest.parts[0].bytes, "hash": f"sha256:{manifest.parts[0].sha256}"}
    if manifest.csv is not None:
        resource |= {"encoding": "utf-8", "dialect": _dialect(manifest.csv.delimiter)}
    return {**resource, "schema": _schema(manifest)}


def _dialect(delimiter: str) -> dict[str, Any]:
    return {
        "$schema": f"{_PROFILES}/tabledialect.json",
        "delimiter": delimiter,
        "lineTerminator": "\n",
        "quoteChar": '"',
        "doubleQuote": True,
        "skipInitialSpace": False,
        "header": True,
    }


def _schema(manifest: Manifest) -> dict[str, Any]:
    return {
        "$schema": f"{_PROFILES}/tableschema.json",
        "fields": [_field(manifest, column) for column in manifest.columns],
        # Other files than CSV have missing values of their own, which are no text.
        "missingValues": [manifest.csv.null_word] if manifest.csv is not None else [],
    }


def _field(manifest: Manifest, column: ColumnEntry) -> dict[str, Any]:
    kind, said = column_type(column.type), said_of(manifest, column)
    field: dict[str, Any] = {
        "name": column.name,
        "type": kind.table_schema,
        # Formats of times are those of the text; other files have the values themselves.
        "format": kind.table_format if manifest.csv is not None or kind.table_schema == "string" else None,
        "title": said.label,
        "description": said.description,
        "unit": said.unit,
        "role": column.role,
    }
    if column.role == "quasi_identifier":
        field["masking"] = f"mean of a group of at least {manifest.k}; " + rounding_words(
            column, manifest.rounding.get(column.name)
        )
    return {name: value for name, value in field.items() if value is not None}
