"""The pages beside a release: what they say, and that whoever knows their formats takes them."""

from __future__ import annotations

import importlib.resources
import json
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from jsonschema.validators import validator_for

from inputs.people import people
from microagg_core.group.metrics.figures import Figures
from microagg_core.release.manifest import Manifest, ProtectEntry, SeriesEntry
from microagg_core.release.pages.pages import public_pages
from microagg_core.release.publish import publish
from microagg_core.spec.about import About
from microagg_core.store.objects import Store
from releasing.described import ABOUT, beside, described_release, manifest_of
from releasing.parts import facts_for, safe_tables, stage_parts
from releasing.runs import data_digests, run_stages, start, write_series

NAMES = {"README.html", "README.md", "croissant.json", "datapackage.json", "ddi.xml", "views.sql"}
ROLES = {"age": "quasi_identifier", "area": "quasi_identifier", "town": "blocking", "income": "confidential"}
DDI = "{ddi:codebook:2_5}"


@pytest.fixture(scope="module", params=["parquet", "csv", "arrow"])
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return described_release(tmp_path_factory.mktemp(request.param), request.param)


def manifest_in(folder: Path) -> Manifest:
    return Manifest.from_bytes((folder / "manifest.json").read_bytes(), "here")


def text_of(manifest: Manifest, page: str = "README.md") -> str:
    return public_pages(manifest)[page].decode()


def profile_errors(name: str, value: Any) -> list[str]:
    """What the standard's own schema finds wrong."""
    dplib = pytest.importorskip("dplib", reason="brings the schemas of Data Package 2")
    profile = json.loads((importlib.resources.files(dplib) / f"profiles/2.0/{name}.json").read_text())
    return [error.message for error in validator_for(profile)(profile).iter_errors(value)]


# --- What is said ---------------------------------------------------------------------------------------------


def test_the_same_manifest_gives_the_same_bytes_and_all_pages(release: Path) -> None:
    manifest = manifest_in(release)
    assert public_pages(manifest) == public_pages(Manifest.from_bytes(manifest.to_bytes(), "here"))
    assert public_pages(manifest).keys() == NAMES


def test_both_pages_for_people_say_the_same(release: Path) -> None:
    """Word for word, once what marks them up is gone."""
    html = (release / "README.html").read_text("utf-8")
    body = re.sub(r"<nav.*?</nav>|<a class=.skip.*?</a>", "", html[html.index("<body>") :], flags=re.DOTALL)
    shown = re.sub(r"<[^>]*>", " ", body)
    for mark, letter in {"&lt;": "<", "&gt;": ">", "&#34;": '"', "&#39;": "'", "&amp;": "&"}.items():
        shown = shown.replace(mark, letter)
    text = re.sub(r"\]\((?:https?|mailto):[^)]*\)", "", (release / "README.md").read_text("utf-8"))
    text = re.sub(r"^[|: -]+$|^-{3}$|^````\w*$", "", text, flags=re.MULTILINE)
    letters = [re.sub(r"[\W_]+", "", one) for one in (shown, re.sub(r"\\(?=\W)", "", text))]
    assert letters[0] == letters[1]


def test_all_that_is_said_about_the_release_is_on_every_page(release: Path) -> None:
    for page in NAMES - {"views.sql"}:
        text = (release / page).read_text("utf-8")
        for said in (ABOUT["title"], "Statistics Example", "CC-BY-4.0", "Distance to the sea", "of two digits", "km"):
            assert said in text, (page, said)
    assert "Distance to the sea (km)" in (release / "views.sql").read_text("utf-8")


def test_words_change_no_byte_of_the_data(release: Path, tmp_path: Path) -> None:
    form = manifest_in(release).format
    described_release(tmp_path, form, about=None)
    assert data_digests(tmp_path / "published") == data_digests(release.parents[1])
    assert "about" not in json.loads(next(tmp_path.rglob("published/**/manifest.json")).read_bytes())


def test_other_words_are_refused_and_replace_the_old_ones_as_a_new_revision(output: Store, work: Store) -> None:
    tables = safe_tables()
    first, second = (facts_for(tables, about=About(title=title)) for title in ("a", "b"))
    publish(output, first, stage_parts(work, tables))
    assert publish(output, first, stage_parts(work, tables)).already
    with pytest.raises(Exception, match="with other content; use --replace to publish a new revision"):
        publish(output, second, stage_parts(work, tables))
    assert publish(output, second, stage_parts(work, tables), replace=True).manifest.revision == "r0002"


def test_what_is_withheld_is_said_in_words() -> None:
    few = manifest_of(ROLES, losses=Figures(records=7, withheld="the release is too small"))
    assert "How much was lost is not published: it would tell of single records." in text_of(few)
    assert "Not published: the release is too small." in text_of(few)
    losses = Figures(
        records=900, l_sse=12.0, l_e=30.0, coarser={"l_sse": 0.5}, withheld="gap: one group makes most of it",
        attributes={"age": {"unit": "the column's", "l_sse": 12.0, "mean": 3.0, "variance": 4.0}},
    )  # fmt: skip
    text = text_of(manifest_of(ROLES, losses=losses, suppressed="at least k"))
    assert "12.0 % (within 0.5) of the variance" in text and "fewer digits than others" in text
    assert "What could have been avoided is not published" in text
    assert "| `age` | not published | 3 | 2 |" in text, "no share of the variance, and the deviation"
    assert "Some records of the source are withheld, at least 3. How many is not told." in text
    assert "but for the records that are withheld" in text


@pytest.mark.parametrize(
    ("series", "says"),
    [
        ({"mode": "atoms", "guarantee": "trace+changes", "night": 2}, ["number 3 of a series", "for nobody of those"]),
        ({"mode": "disjoint", "guarantee": "trace", "night": 0}, ["the first of a series", "they did with at least 3"]),
        ({"mode": "rotation", "guarantee": "trace", "night": 1}, ["never released again", "so they may be older"]),
        ({"mode": "independent", "night": 1, "smallest_trace": 1}, ["promise nothing together", "is shared by 1"]),
    ],
)
def test_promises_of_a_series_and_of_protection(series: dict[str, Any], says: list[str]) -> None:
    protect = {"income": ProtectEntry(distinct=2, t=0.2)}
    text = text_of(manifest_of(ROLES, series=SeriesEntry.model_validate(series), protect=protect, unit="units"))
    assert all(said in text for said in says)
    assert (
        "at least 2 different values" in text
        and "is at most 0.2 among" in text
        and "at least 3 people or firms" in text
    )
    assert "--distinct income=2 --t income=0.2 --sha256 DIGEST" in text
    pooled = "2 of 3 who share a combination can compute the third's values from their own and the mean."
    assert text.count(pooled) == 1
    assert "That `income` differ" not in text


def test_blocking_is_told_as_it_was_done() -> None:
    merged, withheld, neither = (text_of(manifest_of(ROLES, undersized=u)) for u in ("merge", "suppress", "error"))
    assert "was merged with a neighbour" in merged and "kept, small ones merged" in merged
    assert "Records of a combination that fewer than 3 records have were withheld" in withheld
    assert "Every combination of values has at least 3" in neither and "| kept |" in neither


def test_a_night_of_a_series_has_its_pages(tmp_path: Path) -> None:
    for n in (200, 199):
        run_stages(start(write_series(tmp_path, [people(200).slice(200 - n)]), identity=f"of-{n}"))
    manifest = beside(tmp_path / "output/of-199/r0001/manifest.json")
    assert "number 2 of a series" in text_of(manifest) and "how many, is not told" in text_of(manifest)


def test_the_smallest_release_has_its_pages() -> None:
    least = manifest_of({"x": "quasi_identifier"})
    assert all(public_pages(least).values())
    assert "No figures of the loss are published" in text_of(least)


# --- Size ------------------------------------------------------------------------------------------------------


def test_many_columns_and_parts_make_small_pages() -> None:
    many = {f"column_{i:03d}": "quasi_identifier" if i < 150 else "confidential" for i in range(200)}
    pages = public_pages(manifest_of(many, parts=1000))
    sizes = {name: len(page) for name, page in pages.items()}
    assert sizes["README.html"] < 100_000 and sizes["README.md"] < 40_000 and sizes["ddi.xml"] < 120_000
    assert sizes["croissant.json"] < 500_000 and max(sizes["views.sql"], sizes["datapackage.json"]) < 150_000


# --- Formats that others have defined --------------------------------------------------------------------------


def test_data_package_keeps_to_the_standard_and_reads_the_files(release: Path) -> None:
    package = json.loads((release / "datapackage.json").read_bytes())
    (resource,) = package["resources"]
    parts = {"datapackage": package, "dataresource": resource, "tableschema": resource["schema"]}
    if "dialect" in resource:
        parts["tabledialect"] = resource["dialect"]
    assert {name: profile_errors(name, value) for name, value in parts.items()} == {name: [] for name in parts}
    manifest = manifest_in(release)
    paths = resource["path"] if isinstance(resource["path"], list) else [resource["path"]]
    assert paths == [part.name for part in manifest.parts] and len(paths) > 1
    if manifest.format == "csv":
        frictionless = pytest.importorskip("frictionless", reason="reads Data Packages")
        report = frictionless.validate(str(release / "datapackage.json"))
        assert report.valid, report.flatten(["type", "message"])
        assert len(frictionless.Package(str(release / "datapackage.json")).resources[0].read_rows()) == manifest.rows


def test_croissant_is_taken_and_its_records_are_the_releases(release: Path) -> None:
    mlcroissant = pytest.importorskip("mlcroissant", reason="reads Croissant")
    dataset = mlcroissant.Dataset(jsonld=str(release / "croissant.json"))
    assert dataset.metadata.issues.errors == set() and dataset.metadata.issues.warnings == set()
    manifest = manifest_in(release)
    files = json.loads((release / "croissant.json").read_bytes())["distribution"]
    assert [f["sha256"] for f in files if f["@type"] == "cr:FileObject"] == [part.sha256 for part in manifest.parts]
    if manifest.format == "parquet":  # it reads no CSV with another delimiter, and no Arrow
        assert len(list(dataset.records("records"))) == manifest.rows


def test_ddi_has_every_variable_in_the_order_of_the_standard(release: Path) -> None:
    root = ElementTree.fromstring((release / "ddi.xml").read_bytes())
    assert root.tag == f"{DDI}codeBook" and [part.tag for part in root] == [
        DDI + name for name in ("docDscr", "stdyDscr", "fileDscr", "dataDscr")
    ]
    variables = root.findall(f"{DDI}dataDscr/{DDI}var")
    assert [var.get("name") for var in variables] == [column.name for column in manifest_in(release).columns]
    order = [DDI + name for name in ("labl", "sumStat", "txt", "varFormat", "notes")]
    for var in variables:
        tags = [child.tag for child in var]
        assert tags == sorted(tags, key=order.index) and len(set(tags)) > 2


def test_ddi_keeps_to_the_official_schema(release: Path) -> None:
    """Of which no package of a registry has a copy: MICROAGG_DDI_SCHEMA names a codebook.xsd of version 2.5."""
    etree = pytest.importorskip("lxml.etree", reason="validates by an XML schema")
    if not (schema := os.environ.get("MICROAGG_DDI_SCHEMA")):
        pytest.skip("MICROAGG_DDI_SCHEMA does not name the schema of DDI-Codebook 2.5")
    official = etree.XMLSchema(etree.parse(schema))
    least = etree.fromstring(public_pages(manifest_of({"x": "quasi_identifier"}))["ddi.xml"])
    for document in (etree.parse(str(release / "ddi.xml")), least):
        assert official.validate(document), official.error_log


def test_the_page_asks_for_nothing_and_runs_nothing(release: Path) -> None:
    html = (release / "README.html").read_text("utf-8")
    assert not re.search(r"<(script|img|iframe|object|embed|form|input)\b|\bon\w+=|@import|url\(", html)
    assert re.findall(r"<link[^>]*>", html) == ['<link rel="icon" href="data:,">']
    assert "default-src 'none'" in html and '<html lang="en">' in html
    levels = [int(level) for level in re.findall(r"<h([1-6])", html)]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b - a <= 1 for a, b in pairwise(levels))
    assert html.count("<table>") == html.count("<caption>") and "<th>" not in html
