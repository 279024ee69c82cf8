"""A room imports only from rooms below it: no circle, and the README's picture is the one that the imports draw."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import pytest
from rooms import README, ROOT, Graph, core_graph, cycle, drawn, flows_graph, imported, modules, picture


@pytest.mark.parametrize("graph", [core_graph, flows_graph], ids=["core", "flows"])
def test_no_rooms_import_each_other_in_a_circle(graph: Callable[[], Graph]) -> None:
    assert cycle(graph()) == []


def test_the_readme_draws_the_rooms_as_they_are() -> None:
    """Where it fails: python tests/architecture/rooms.py --write."""
    assert drawn(README.read_text(encoding="utf-8")) == picture(core_graph())


def test_every_room_of_the_core_is_a_folder_with_a_name_or_a_module() -> None:
    rooms = set(core_graph())
    assert {"spec", "kinds", "formats", "privacy", "algorithms", "kernels", "errors", "flows"} <= rooms
    assert len(rooms) < 36


@pytest.mark.parametrize(
    "source",
    [
        "import microagg_core.errors",
        "from microagg_core import errors",
        "from microagg_core.errors import DataError",
        "def f():\n    from microagg_core.errors import DataError",
        "if TYPE_CHECKING:\n    from microagg_core.errors import DataError",
        "import_module('microagg_core.errors')",
    ],
)
def test_an_import_is_seen_wherever_it_stands(source: str) -> None:
    assert [name for _, name in imported(ast.parse(source), modules())] == ["microagg_core.errors"]


def test_a_name_in_a_sentence_is_no_import() -> None:
    source = '"""See microagg_core.errors for more."""\nimport microagg_core_of_others'
    assert list(imported(ast.parse(source), modules())) == []


def test_a_circle_is_told_with_the_lines_that_close_it() -> None:
    graph: Graph = {"a": {"b": "a.py:1"}, "b": {"c": "b.py:2"}, "c": {"a": "c.py:3"}, "d": {"a": "d.py:4"}}
    assert sorted(cycle(graph)) == ["a -> b (a.py:1)", "b -> c (b.py:2)", "c -> a (c.py:3)"]


def test_the_picture_leaves_out_what_other_arrows_imply() -> None:
    graph: Graph = {
        "top": {"middle": "", "ground": ""},
        "middle": {"ground": "", "errors": ""},
        "ground": {},
        "errors": {},
    }
    assert picture(graph) == "flowchart TD\n    top --> middle\n    middle --> ground\n"


def test_the_table_of_rooms_has_them_all() -> None:
    table = (ROOT / "microagg_core" / "README.md").read_text(encoding="utf-8").split("## Rooms")[1].split("\n## ")[0]
    named = set(
        re.findall(r"\w+", " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| ")))
    )
    assert set(core_graph()) - {"flows"} - named == set()
