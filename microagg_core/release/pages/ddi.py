"""``ddi.xml``: the release as archives of social science describe it (DDI-Codebook 2.5)."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree

from microagg_core.group.metrics.statistics import readable
from microagg_core.release.manifest import ColumnEntry, Manifest
from microagg_core.release.pages.column_types import column_type
from microagg_core.release.pages.escaping import paragraphs, visible
from microagg_core.release.pages.method import leavers_words, rounding_words, withheld_words
from microagg_core.release.pages.promises import citation
from microagg_core.release.pages.release_words import about, address, said_of, summary, title, units_word
from microagg_core.spec.about import licence_url

_NAMESPACE = "ddi:codebook:2_5"
_MASKED = {
    "quasi_identifier": "Microaggregated: each value is the mean of a group of at least {k} {units}; {rounding}.",
    "blocking": "Kept: groups never mix its values. Values that few share were merged, or their records withheld.",
    "confidential": "Not masked: the value is as it came.",
}


class _Element:
    """An element that is being put together; texts are made fit for XML."""

    def __init__(self, node: ElementTree.Element) -> None:
        self.node = node

    def with_child(self, tag: str, text: str = "", /, **attributes: str) -> _Element:
        """A new child at the end."""
        child = ElementTree.SubElement(self.node, tag, {key: visible(value) for key, value in attributes.items()})
        child.text = visible(text) or None
        return _Element(child)

    def with_texts(self, texts: Mapping[str, str | None]) -> None:
        """Children that have a text, in this order."""
        for name, text in texts.items():
            if text:
                self.with_child(name, text)


def ddi_codebook(manifest: Manifest) -> bytes:
    """The file."""
    root = ElementTree.Element("codeBook", {"xmlns": _NAMESPACE, "version": "2.5", "xml:lang": "en"})
    book = _Element(root)
    _document(book.with_child("docDscr"), manifest)
    _study(book.with_child("stdyDscr"), manifest)
    _file(book.with_child("fileDscr", ID="F1", **({"URI": url} if (url := address(manifest)) else {})), manifest)
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
    summed.with_child("anlyUnit", units_word(manifest))
    summed.with_child("dataKind", "microdata, microaggregated")
    method = node.with_child("method")
    notes = (summary(manifest), withheld_words(manifest), leavers_words(manifest))
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


def _file(node: _Element, manifest: Manifest) -> None:
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
    is_mean = column.role == "quasi_identifier"
    node = parent.with_child(
        "var",
        ID=f"V{number}",
        name=column.name,
        files="F1",
        intrvl="contin" if is_mean or kind.table_schema == "number" else "discrete",
        **({"measUnit": said.unit} if said.unit else {}),
        **({"aggrMeth": "average"} if is_mean else {}),
    )
    node.with_child("labl", said.label or column.name)
    _moments(node, manifest, column)
    for part in paragraphs(said.description or ""):
        node.with_child("txt", part)
    node.with_child("varFormat", column.type, type=kind.ddi, schema="other", category=kind.ddi_category)
    words = _MASKED[column.role].format(
        k=manifest.k,
        units=units_word(manifest),
        rounding=rounding_words(column, manifest.rounding.get(column.name)),
    )
    node.with_child("notes", words, type="disclosure control")


def _moments(node: _Element, manifest: Manifest, column: ColumnEntry) -> None:
    """Mean and deviation of what is released, as the manifest publishes them."""
    of = (manifest.losses.attributes or {}).get(column.name)
    if of is None:
        return
    if of.mean is not None:
        mean = of.mean if isinstance(of.mean, str) else readable(of.mean, apart=False)
        node.with_child("sumStat", mean, type="mean")
    if of.variance is not None:
        unit = {None: "", "the column's": ""}.get(of.unit, f" {of.unit}")
        node.with_child("sumStat", f"{readable(of.variance**0.5, apart=False)}{unit}", type="stdev")
