"""What a spec says of a release to its users: what it may say, where, and what it decides."""

from __future__ import annotations

from typing import Any

import pytest

from microagg_core.spec.about import About
from microagg_core.spec.loading import canonical, check
from microagg_core.spec.marked_yaml import Found, parse
from microagg_core.spec.release import ReleaseSpec

LEAST = """\
name: people
k: 3
input: {url: in.parquet}
output: {url: out}
work: {url: work}
roles: {identifiers: [id], quasi_identifiers: [age], confidential: [income, label], drop: [memo]}
about:
"""
N_LINES = LEAST.count("\n")


def problems(about: str) -> list[Found]:
    tree, wrong = parse(LEAST + about)
    assert tree is not None and not wrong
    checked = check(tree, ".")
    return [] if isinstance(checked, ReleaseSpec) else checked


def spec(**about: Any) -> ReleaseSpec:
    tree, _ = parse(LEAST.replace("about:\n", ""))
    assert tree is not None
    return ReleaseSpec.model_validate({**tree.plain(), **({"about": about} if about else {})})


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ("  titel: x", "about.titel: is not a key the spec knows; did you mean title?"),
        ("  title: ' '", "about.title: must not be empty (got ' ')"),
        ('  title: "a\\nb"', "about.title: must not hold the invisible character U+000A (got 'a\\nb')"),
        ('  description: "a\\0b"', "about.description: must not hold the invisible character U+0000 (got 'a\\x00b')"),
        (
            "  licence: CC BY 4.0",
            "about.licence: must be a name of the SPDX list, such as CC-BY-4.0, or the URL of the licence "
            "(got 'CC BY 4.0')",
        ),
        ("  url: data", "about.url: must be a URL, such as https://data.example.org/people (got 'data')"),
        ("  url: https://me:secret@data.example.org", "about.url: must not hold a user or password"),
        (
            "  columns: {memo: {label: x}}",
            "about.columns.memo: is not a released column, and what is said of it would be published (got a mapping)",
        ),
        (
            "  columns: {label: euros}",
            "about.columns.label: must be a mapping with the keys label, unit, description (got 'euros')",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence_with_its_line(about: str, says: str) -> None:
    ((line, reason),) = problems(about)
    assert line == N_LINES + 1 and says.startswith(reason)


def test_all_of_it_may_be_said_in_any_script() -> None:
    assert problems(
        "  title: Доходы 收入 दख़ल\n  description: |\n    One.\n\n    Two.\n  period: 2024\n  url: s3://bucket/people/\n"
        "  licence: https://example.org/licence\n  columns: {income: {label: الدخل, unit: €}}\n"
    ) == []  # fmt: skip
    assert About(period=2024).period == "2024" and About(url="s3://bucket/people/").url == "s3://bucket/people"


def test_only_what_is_said_is_written() -> None:
    assert About(title="a", columns={"x": {"unit": "m"}}).model_dump() == {
        "title": "a",
        "columns": {"x": {"unit": "m"}},
    }


def test_other_words_are_another_release_and_no_words_are_what_specs_were_before() -> None:
    assert "about" not in canonical(spec())
    assert canonical(spec(title="a")) != canonical(spec(title="b"))
