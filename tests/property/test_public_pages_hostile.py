"""Names and texts that try to be more than that: on no page do they become a tag, a link or a command."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from covering import examples
from microagg_core.data.formats.options import CsvOutput
from microagg_core.release.pages.escaping import markdown_code, markdown_text, sql_name, visible
from microagg_core.release.pages.pages import public_pages
from microagg_core.spec.about import About
from releasing.described import manifest_of

VAR = "{ddi:codebook:2_5}dataDscr/{ddi:codebook:2_5}var"
HOSTILE = [
    "<script>alert(1)</script>", "</title><script>", '"><img src=x onerror=alert(1)>', "a|b", "`x`", "``", "]]>",
    "<!--", "x'; DROP TABLE people; --", 'x"; DROP TABLE people; --', "line\nbreak", "\r\n| a | b |", "a\x00b",
    "\x1b[31m",
    "\u202egnp.exe", "\u2028", "[a](javascript:alert(1))", "![a](x)", "{{ 7 * 7 }}", "{% raw %}", "${HOME}", "&lt;",
    "\\", "# head", "1. one", "- one", "\ufffe", "😀", " ", "*/", "é\u0301",
]  # fmt: skip
#: What a column may be called: any text that Arrow holds, which is one of Unicode.
NAMES = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12))
ROLES = ("quasi_identifier", "blocking", "confidential")


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or name in ("src", "style", "srcdoc") for name, _ in attrs)
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def pages_of(names: list[str], title: str | None = None, **others: Any) -> dict[str, str]:
    roles = {name: ROLES[place % 3] for place, name in enumerate(names)}
    said: dict[str, Any] = {"columns": {name: {} for name in names[:1]}}
    said |= {"title": title, "citation": title, "contact": title} if title else {}
    manifest = manifest_of(roles, name=names[-1], about=About.model_validate(said), **others)
    return {name: page.decode("utf-8") for name, page in public_pages(manifest).items()}


def plain_tags(n: int) -> list[str]:
    return Tags(pages_of([f"c{i}" for i in range(n)])["README.html"]).tags


@examples(40)
@given(st.lists(NAMES, min_size=1, max_size=4, unique=True))
@example(HOSTILE)
def test_names_stay_names_on_every_page(names: list[str]) -> None:
    pages = pages_of(names)
    html = Tags(pages["README.html"])
    assert html.tags == plain_tags(len(names)), "no name makes a tag, or hides one"
    assert all(link.startswith(("#", "data:,")) for link in html.links)
    assert {visible(name) for name in names} <= set(html.texts)
    fields = json.loads(pages["datapackage.json"])["resources"][0]["schema"]["fields"]
    assert [field["name"] for field in fields] == names
    records = json.loads(pages["croissant.json"])["recordSet"][0]["field"]
    assert [field["source"]["extract"]["column"] for field in records] == names
    assert len({field["@id"] for field in records}) == len(names)
    variables = ElementTree.fromstring(pages["ddi.xml"]).findall(VAR)
    assert [var.get("name") for var in variables] == [visible(name) for name in names]
    unseen = re.compile("[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
    assert not any(unseen.search(page) for name, page in pages.items() if name != "views.sql")


@examples(40)
@given(st.lists(NAMES, min_size=1, max_size=3, unique=True))
@example(HOSTILE)
def test_sql_makes_one_view_whatever_the_names(names: list[str]) -> None:
    duckdb = pytest.importorskip("duckdb", reason="reads views.sql")
    sql = pages_of(names, form="csv", csv=CsvOutput(null_word="it's"))["views.sql"]
    kinds = [statement.type.name for statement in duckdb.extract_statements(sql)] if "\0" not in sql else []
    told_apart = [n for n in names if visible(n) == n and [m.lower() for m in names].count(n.lower()) == 1]
    assert not kinds or [k for k in kinds if k not in ("SET_VARIABLE", "SET")] == ["CREATE"] + ["ALTER"] * (
        1 + len(told_apart)
    )


@examples(60)
@given(NAMES)
def test_markdown_shows_a_text_and_runs_none(text: str) -> None:
    markdown_it = pytest.importorskip("markdown_it", reason="reads markdown")
    reader = markdown_it.MarkdownIt("commonmark").enable("table")
    shown = visible(text)
    (paragraph,) = [t for t in reader.parse(f"{markdown_text(text, starts=True)}x\n") if t.type == "inline"] or [None]
    assert paragraph is not None
    assert {child.type for child in paragraph.children} <= {"text", "text_special"}
    assert "".join(child.content for child in paragraph.children) == f"{shown}x".strip()
    (_, cell, after) = [
        t for t in reader.parse(f"| a | b |\n| --- | --- |\n| {markdown_code(text, in_table=True)} | after |\n")
        if t.type == "inline"
    ][1:]  # fmt: skip
    assert after.content == "after" and [child.type for child in cell.children] == ["code_inline"]


@examples(30)
@given(st.sampled_from(HOSTILE))
def test_what_a_publisher_may_say_is_harmless_too(text: str) -> None:
    try:
        About(title=text, contact=text, citation=text)
    except ValueError:
        return
    pages = pages_of(["c0"], title=text)
    html = Tags(pages["README.html"])
    assert "script" not in html.tags and "img" not in html.tags
    assert not any("javascript" in link for link in html.links)
    assert ElementTree.fromstring(pages["ddi.xml"]).findtext(".//{*}stdyDscr/{*}citation/{*}titlStmt/{*}titl")


def test_a_name_in_sql_is_the_name() -> None:
    duckdb = pytest.importorskip("duckdb", reason="knows SQL")
    for name in (name for name in HOSTILE if "\0" not in name):
        assert duckdb.sql(f"SELECT 1 AS {sql_name(name)}").columns == [name]
