"""One word for one thing: names that the glossary retires do not come back, and a public name is given once.

The table of retired names is in microagg_core/README.md. To retire another, add a row; the last column is how many
uses are left, and only shrinks.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "microagg_core" / "README.md"
CODE = sorted(path for folder in ("microagg_core", "flows") for path in (ROOT / folder).rglob("*.py"))
ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \| (\d+) \|$", re.MULTILINE)
#: Public names that several modules of the core give, and why.
SAME_NAME = {
    "Distribution": "of confidential values, to measure by; and of a quasi-identifier, to draw",
    "groups": "what an algorithm's file has to have",
    "take_group": "the scan and the tree are twins",
}

#: The module that names types of arrays for all others, and those that still have names of their own.
ARRAYS = ROOT / "microagg_core" / "arrays.py"
NAMES_OF_THEIR_OWN = {f"microagg_core/release/steps/{name}.py" for name in ("planning", "routing", "scattering")}
ARRAY_TYPE = re.compile(r"^(\w+)(?:: TypeAlias)? = NDArray\[np\.\w+\]$", re.MULTILINE)


def names_given(tree: ast.AST) -> Iterator[str]:
    """Every name that a source gives to something: functions, classes, arguments, variables and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def retired() -> dict[str, int]:
    """Each retired name, and how many uses of it are left; names of one row share them."""
    rows = ROW.findall(GLOSSARY.read_text(encoding="utf-8"))
    return {names: int(left) for names, _, left in rows}


@pytest.fixture(scope="module")
def uses() -> Counter[str]:
    """How often each name is given, over all sources, files and folders among them."""
    given = Counter(path.stem for path in CODE)
    for path in CODE:
        given.update(names_given(ast.parse(path.read_text(encoding="utf-8"))))
    return given


@pytest.mark.parametrize("names", retired())
def test_a_retired_name_does_not_come_back(names: str, uses: Counter[str]) -> None:
    """Where fewer are left than the glossary says, lower its number."""
    assert sum(uses[name] for name in re.findall(r"\w+", names)) <= retired()[names]


def test_the_glossary_is_read_and_the_sources_too(uses: Counter[str]) -> None:
    assert len(retired()) >= 3
    assert uses["algorithms"] > 0 and uses["X"] > 10


@pytest.mark.parametrize(
    "source",
    ["word = 1", "def word(): ...", "class word: ...", "def f(word): ...", "for word in x: ...", "self.word = 1"],
)
def test_a_name_is_seen_however_it_is_given(source: str) -> None:
    assert "word" in set(names_given(ast.parse(source)))


def public_names(path: Path) -> Iterator[str]:
    """Functions and classes at the top of a module that others may import."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def test_a_public_name_of_the_core_is_given_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in CODE:
        if path.is_relative_to(ROOT / "microagg_core"):
            for name in public_names(path):
                places[name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in SAME_NAME} == {}


def test_types_of_arrays_are_named_in_one_place() -> None:
    naming = {str(path.relative_to(ROOT)) for path in CODE if ARRAY_TYPE.search(path.read_text(encoding="utf-8"))}
    assert naming - NAMES_OF_THEIR_OWN == {str(ARRAYS.relative_to(ROOT))}
