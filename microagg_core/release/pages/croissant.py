"""``croissant.json``: the release for those who train models (MLCommons' Croissant 1.0)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from microagg_core.release.manifest import ColumnEntry, Manifest, PartEntry
from microagg_core.release.pages.column_types import column_type
from microagg_core.release.pages.escaping import json_bytes, visible
from microagg_core.release.pages.promises import citation
from microagg_core.release.pages.release_words import about, address, role_words, said_of, summary, title
from microagg_core.spec.about import licence_url
from microagg_core.store.layout import revision_number

#: The words that Croissant documents are to begin with, so that theirs mean what the vocabulary says.
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
#: Parquet by the name under which its readers know it, which is older than the registered one.
_MEDIA_TYPES = {
    "parquet": "application/x-parquet",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.file",
}
_FILES, _RECORDS = "files", "records"


def croissant(manifest: Manifest) -> bytes:
    """The file."""
    said = about(manifest)
    document: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": f"{title(manifest)}, release {manifest.id}",
        "alternateName": f"{manifest.name}/{manifest.id}/{manifest.revision}",
        "description": said.description or summary(manifest),
        "url": address(manifest),
        "license": licence_url(said.licence) if said.licence else None,
        "creator": {"@type": "sc:Organization", "name": said.publisher} if said.publisher else None,
        "publisher": {"@type": "sc:Organization", "name": said.publisher} if said.publisher else None,
        "datePublished": manifest.created[:10],
        # Three numbers are asked for; the release's id is in its name and address.
        "version": f"{revision_number(manifest.revision)}.0.0",
        "citeAs": citation(manifest),
        "keywords": list(said.keywords) or None,
        "temporalCoverage": said.period,
        "spatialCoverage": said.geography,
        "rai:personalSensitiveInformation": summary(manifest),
        "distribution": [*(_file(manifest, part) for part in manifest.parts), _file_set(manifest)],
        "recordSet": [_record_set(manifest)],
    }
    return json_bytes({name: value for name, value in document.items() if value is not None})


def _file(manifest: Manifest, part: PartEntry) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": part.name,
        "name": part.name.rpartition("/")[2],
        "contentUrl": part.name,
        "contentSize": f"{part.bytes} B",
        "encodingFormat": _MEDIA_TYPES[manifest.format],
        "sha256": part.sha256,
    }


def _file_set(manifest: Manifest) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": _FILES,
        "name": _FILES,
        "description": "All files of the release; each has the same columns.",
        "encodingFormat": _MEDIA_TYPES[manifest.format],
        "includes": f"data/*.{manifest.format}",
    }


def _record_set(manifest: Manifest) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": _RECORDS,
        "name": _RECORDS,
        "description": summary(manifest),
        "field": [_field(manifest, column) for column in manifest.columns],
    }


def _field(manifest: Manifest, column: ColumnEntry) -> dict[str, Any]:
    said, role = said_of(manifest, column), role_words(manifest, column)
    words = [said.label or "", f"unit: {said.unit}" if said.unit else "", said.description or "", role]
    return {
        "@type": "cr:Field",
        # It is a part of an address, and what a record calls the column.
        "@id": f"{_RECORDS}/{quote(column.name, safe='')}",
        "name": column.name,
        "description": visible("; ".join(" ".join(word.split()) for word in words if word)),
        "dataType": column_type(column.type).croissant,
        "source": {"fileSet": {"@id": _FILES}, "extract": {"column": column.name}},
    }
