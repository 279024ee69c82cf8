"""Describe a release to catalogues: Croissant, Data Package and DDI-Codebook.

Written by hand: mlcroissant, frictionless and dplib-py read and check such documents in the tests, and would bring some
forty packages to whoever makes a release.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from microagg_core.data.formats.writing import released_format
from microagg_core.release.manifest import ColumnEntry, Manifest
from microagg_core.release.pages.escaping import json_bytes, paragraphs, visible
from microagg_core.release.pages.method import leavers_words, left_out_words, rounding_words, withheld_words
from microagg_core.release.pages.promises import citation
from microagg_core.release.pages.words import (
    about,
    address,
    column_type,
    column_words,
    deviation_words,
    mean_words,
    said_of,
    summary,
    title,
    units_word,
)
from microagg_core.spec.about import licence_url
from microagg_core.store.layout import revision_number

#: Words that Croissant has of its own.
_OF_CROISSANT = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format includes isLiveDataset "
    "jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source "
    "subField transform"
)
#: The words that Croissant documents are to begin with, so that theirs mean what the vocabulary says.
_CONTEXT = dict(
    sorted(
        {
            **{word: f"cr:{word}" for word in _OF_CROISSANT.split()},
            "@language": "en",
            "@vocab": "https://schema.org/",
            "conformsTo": "dct:conformsTo",
            "cr": "http://mlcommons.org/croissant/",
            "data": {"@id": "cr:data", "@type": "@json"},
            "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
            "dct": "http://purl.org/dc/terms/",
            "examples": {"@id": "cr:examples", "@type": "@json"},
            "rai": "http://mlcommons.org/croissant/RAI/",
            "sc": "https://schema.org/",
        }.items()
    )
)
_FILES, _RECORDS = "files", "records"


def _given(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out what has no value."""
    return {name: value for name, value in document.items() if value is not None}


def croissant(manifest: Manifest) -> bytes:
    said = about(manifest)
    publisher = {"@type": "sc:Organization", "name": said.publisher} if said.publisher else None
    document: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": f"{title(manifest)}, release {manifest.id}",
        "alternateName": f"{manifest.name}/{manifest.id}/{manifest.revision}",
        "description": said.description or summary(manifest),
        "url": address(manifest),
        "license": licence_url(said.licence) if said.licence else None,
        "creator": publisher,
        "publisher": publisher,
        "datePublished": manifest.created[:10],
        # Three numbers are asked for; the release's id is in its name and address.
        "version": f"{revision_number(manifest.revision)}.0.0",
        "citeAs": citation(manifest),
        "keywords": list(said.keywords) or None,
        "temporalCoverage": said.period,
        "spatialCoverage": said.geography,
        "rai:personalSensitiveInformation": summary(manifest),
        "distribution": _croissant_files(manifest),
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": _RECORDS,
                "name": _RECORDS,
                "description": summary(manifest),
                "field": [_croissant_field(manifest, column) for column in manifest.columns],
            }
        ],
    }
    return json_bytes(_given(document))


def _croissant_files(manifest: Manifest) -> list[dict[str, Any]]:
    """Describe each file, and all of them together."""
    form = released_format(manifest)
    encoding = form.croissant_type or form.media_type
    files: list[dict[str, Any]] = [
        {
            "@type": "cr:FileObject",
            "@id": part.name,
            "name": part.name.rpartition("/")[2],
            "contentUrl": part.name,
            "contentSize": f"{part.bytes} B",
            "encodingFormat": encoding,
            "sha256": part.sha256,
        }
        for part in manifest.parts
    ]
    together = {
        "@type": "cr:FileSet",
        "@id": _FILES,
        "name": _FILES,
        "description": "All files of the release; each has the same columns.",
        "encodingFormat": encoding,
        "includes": f"data/*.{manifest.format}",
    }
    return [*files, together]


def _croissant_field(manifest: Manifest, column: ColumnEntry) -> dict[str, Any]:
    said = said_of(manifest, column)
    return {
        "@type": "cr:Field",
        # It is a part of an address, and what a record calls the column.
        "@id": f"{_RECORDS}/{quote(column.name, safe='')}",
        "name": column.name,
        "description": column_words(manifest, column, said.label, f"unit: {said.unit}" if said.unit else None),
        "dataType": column_type(column.type).croissant,
        "source": {"fileSet": {"@id": _FILES}, "extract": {"column": column.name}},
    }


_PROFILES = "https://datapackage.org/profiles/2.0"


def data_package(manifest: Manifest) -> bytes:
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
    return json_bytes(_given(package))


def _plain_name(text: str) -> str:
    """Write a name as the standard wants it.

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
        "mediatype": released_format(manifest).media_type,
    }
    if len(paths) == 1:
        # Of several files the whole is what each reader makes of them; the manifest has all of theirs.
        resource |= {"bytes": manifest.parts[0].bytes, "hash": f"sha256:{manifest.parts[0].sha256}"}
    if manifest.csv is not None:
        dialect = {
            "$schema": f"{_PROFILES}/tabledialect.json",
            "delimiter": manifest.csv.delimiter,
            "lineTerminator": "\n",
            "quoteChar": '"',
            "doubleQuote": True,
            "skipInitialSpace": False,
            "header": True,
        }
        resource |= {"encoding": "utf-8", "dialect": dialect}
    schema = {
        "$schema": f"{_PROFILES}/tableschema.json",
        "fields": [_package_field(manifest, column) for column in manifest.columns],
        # Other files than CSV have missing values of their own, which are no text.
        "missingValues": [manifest.csv.null_word] if manifest.csv is not None else [],
    }
    return {**resource, "schema": schema}


def _package_field(manifest: Manifest, column: ColumnEntry) -> dict[str, Any]:
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
        rounded = f"; {rounding_words(column, manifest.rounding.get(column.name))}" if column.is_mean else ""
        stands = f"{column.stands} {'for' if column.stands == 'one value' else 'of'} a"
        field["masking"] = f"{stands} group of at least {manifest.k}{rounded}"
    if column.role == "weight":
        field["masking"] = f"mean weight of a group of at least {manifest.k}"
    return _given(field)


_NAMESPACE = "ddi:codebook:2_5"
_AGGREGATED = {
    "mean": "average",
    "weighted mean": "average",
    "most frequent value": "mode",
    "weighted mode": "mode",
    "most frequent value or least common parent": "other",
    "weighted mode or least common parent": "other",
    "lower median": "median",
    "lower weighted median": "median",
}
_MASKED = {
    "quasi_identifier": "Microaggregated: each value is the {stands} of a group of at least {k} {units}; {rounding}.",
    "weight": "Microaggregated: each value is the mean weight of a group of at least {k} {units}.",
    "other": "Microaggregated: all records of a group of at least {k} {units} have one value{stands}.",
    "blocking": "Kept: groups never mix its values. Values that few share were merged, or their records withheld.",
    "confidential": "Not masked: the value is as it came.",
}


class _Element:
    """An XML element that is being put together; texts are made fit for XML."""

    def __init__(self, node: ElementTree.Element) -> None:
        self.node = node

    def with_child(self, tag: str, text: str = "", /, **attributes: str) -> _Element:
        child = ElementTree.SubElement(self.node, tag, {key: visible(value) for key, value in attributes.items()})
        child.text = visible(text) or None
        return _Element(child)

    def with_texts(self, texts: Mapping[str, str | None]) -> None:
        for name, text in texts.items():
            if text:
                self.with_child(name, text)


def ddi_codebook(manifest: Manifest) -> bytes:
    root = ElementTree.Element("codeBook", {"xmlns": _NAMESPACE, "version": "2.5", "xml:lang": "en"})
    book = _Element(root)
    _document(book.with_child("docDscr"), manifest)
    _study(book.with_child("stdyDscr"), manifest)
    _ddi_file(book.with_child("fileDscr", ID="F1", **({"URI": url} if (url := address(manifest)) else {})), manifest)
    variables = book.with_child("dataDscr")
    for number, column in enumerate(manifest.columns, 1):
        _variable(variables, manifest, column, number)
    ElementTree.indent(root, " ")
    text: str = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _document(node: _Element, manifest: Manifest) -> None:
    cited = node.with_child("citation")
    cited.with_child("titlStmt").with_child("titl", f"Codebook of {title(manifest)}")
    produced = cited.with_child("prodStmt")
    produced.with_child("prodDate", manifest.created[:10], date=manifest.created[:10])
    produced.with_child("software", "microagg", version=manifest.software.get("microagg", ""))


def _study(node: _Element, manifest: Manifest) -> None:
    said = about(manifest)
    _citation(node.with_child("citation"), manifest)
    info = node.with_child("stdyInfo")
    if said.keywords:
        subject = info.with_child("subject")
        for word in said.keywords:
            subject.with_child("keyword", word)
    for part in paragraphs(said.description or summary(manifest)):
        info.with_child("abstract", part)
    summed = info.with_child("sumDscr")
    summed.with_texts({"timePrd": said.period, "geogCover": said.geography})
    summed.with_child("anlyUnit", "records, one or several to a unit" if manifest.several else units_word(manifest))
    summed.with_child("dataKind", "microdata, microaggregated")
    method = node.with_child("method")
    notes = (summary(manifest), withheld_words(manifest), left_out_words(manifest), leavers_words(manifest))
    method.with_child("notes", " ".join(filter(None, notes)), type="disclosure control")
    if said.licence or said.contact:
        used = node.with_child("dataAccs").with_child("useStmt")
        used.with_texts({"contact": said.contact, "citReq": citation(manifest)})
        if said.licence:
            used.with_child("conditions", f"{said.licence} ({licence_url(said.licence)})")


def _citation(cited: _Element, manifest: Manifest) -> None:
    said = about(manifest)
    titles = cited.with_child("titlStmt")
    titles.with_child("titl", title(manifest))
    titles.with_child("IDNo", f"{manifest.name}/{manifest.id}/{manifest.revision}", level="study")
    if said.publisher:
        cited.with_child("rspStmt").with_child("AuthEnty", said.publisher)
    spread = cited.with_child("distStmt")
    spread.with_texts({"distrbtr": said.publisher, "contact": said.contact})
    spread.with_child("distDate", manifest.created[:10], date=manifest.created[:10])
    cited.with_child("verStmt").with_child("version", f"{manifest.id}, {manifest.revision}", date=manifest.created[:10])
    cited.with_child("biblCit", citation(manifest))
    if url := address(manifest):
        cited.with_child("holdings", url, URI=url)


def _ddi_file(node: _Element, manifest: Manifest) -> None:
    text = node.with_child("fileTxt")
    n = len(manifest.parts)
    text.with_child("fileName", manifest.parts[0].name if n == 1 else f"data/*.{manifest.format} ({n} files)")
    text.with_child("fileCont", "All records; manifest.json names every file with its SHA-256.")
    sizes = text.with_child("dimensns")
    sizes.with_child("caseQnty", str(manifest.rows))
    sizes.with_child("varQnty", str(len(manifest.columns)))
    text.with_child("fileType", manifest.format)


def _variable(parent: _Element, manifest: Manifest, column: ColumnEntry, number: int) -> None:
    kind, said = column_type(column.type), said_of(manifest, column)
    is_mean = column.is_mean
    node = parent.with_child(
        "var",
        ID=f"V{number}",
        name=column.name,
        files="F1",
        intrvl="contin" if is_mean or kind.table_schema == "number" else "discrete",
        **({"measUnit": said.unit} if said.unit else {}),
        **({"aggrMeth": _AGGREGATED[column.stands]} if column.stands in _AGGREGATED else {}),
    )
    node.with_child("labl", said.label or column.name)
    _moments(node, manifest, column)
    for part in paragraphs(said.description or ""):
        node.with_child("txt", part)
    node.with_child("varFormat", column.type, type=kind.ddi, schema="other", category=kind.ddi_category)
    words = _MASKED["other" if column.role == "quasi_identifier" and not is_mean else column.role].format(
        k=manifest.k,
        units=units_word(manifest),
        rounding=rounding_words(column, manifest.rounding.get(column.name)),
        stands=f", its {column.stands}" if column.is_category else column.stands if is_mean else "",
    )
    node.with_child("notes", words, type="disclosure control")


def _moments(node: _Element, manifest: Manifest, column: ColumnEntry) -> None:
    of = (manifest.losses.attributes or {}).get(column.name)
    if of is not None and of.mean is not None:
        node.with_child("sumStat", mean_words(of, apart=False), type="mean")
    if of is not None and of.variance is not None:
        node.with_child("sumStat", deviation_words(of, apart=False), type="stdev")
